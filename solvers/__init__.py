"""Solvers of `opttree.TreeProblem`: the driver `solve`, the algorithms, and combinators of solvers.

A solver is a frozen dataclass of options; `solve` runs any of them under one clock and one objective, `certify` says
how far a tree is from optimal. `TAO`, `GET` and `LocalSearch` find trees, `BranchAndBound` and `MIP` prove them,
`NODEC`, `ORRT` and `SDTR` train soft ones, `Chain` and `MultiStart` make solvers of solvers; `check_solver` is for
one of your own.

>>> from opttree import TreeProblem, datasets
>>> from solvers import BranchAndBound, CartInit, Chain, LocalSearch, TAO, solve
>>> X, y = datasets.load("diabetes", as_arrays=True)
>>> problem = TreeProblem.standardized(X, y, depth=2, splits="axis")
>>> tree = solve(problem, Chain(TAO(), LocalSearch(n_starts=1)), time_limit=10, random_state=0)
>>> tree.objective >= solve(problem, BranchAndBound()).objective - 1e-9
True
"""

import sys as _sys
from importlib import import_module as _import_module
from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any

import solvers.core.result
from solvers.core.discovery import home_of as _home_of, solvers_in as _solvers_in

if _TYPE_CHECKING:
    from solvers import core as core, ensembles as ensembles, external as external, soft as soft, streaming as streaming
    from solvers.conformance import check_solver as check_solver
    from solvers.core.base import Solver as Solver, Step as Step
    from solvers.core.driver import solve as solve
    from solvers.core.result import (
        Result as Result,
        SolverError as SolverError,
        Termination as Termination,
        Trace as Trace,
    )
    from solvers.decomposition import (
        Column as Column,
        Cut as Cut,
        Duals as Duals,
        Pricer as Pricer,
        Separator as Separator,
    )
    from solvers.descent import LBFGS as LBFGS, Adam as Adam, QHAdam as QHAdam
    from solvers.exact.certificates import certify as certify
    from solvers.exact.front import SparseFront as SparseFront, sparse_front as sparse_front
    from solvers.exact.instances import (
        Instance as Instance,
        Verified as Verified,
        claim as claim,
        instances as instances,
        verify as verify,
    )
    from solvers.exact.lagrangian import Relaxation as Relaxation
    from solvers.get import Anneal as Anneal
    from solvers.soft import ArmijoLineSearch as ArmijoLineSearch

if _TYPE_CHECKING:  # what is found below, for type checkers; `python docs/tools/faces.py` writes these lines
    from solvers.core.combinators import Chain as Chain, MultiStart as MultiStart
    from solvers.decomposition.benders import Benders as Benders
    from solvers.decomposition.column_generation import ColumnGeneration as ColumnGeneration
    from solvers.decomposition.shatter import SOCT as SOCT
    from solvers.ensembles.bagging import Bagging as Bagging
    from solvers.ensembles.boosting import Boosting as Boosting
    from solvers.ensembles.distilled import Distilled as Distilled
    from solvers.ensembles.forest import TAOForest as TAOForest
    from solvers.ensembles.joint import JointForest as JointForest
    from solvers.ensembles.stacked import StackedForest as StackedForest
    from solvers.exact.blocks import BlockBounds as BlockBounds
    from solvers.exact.branch_and_bound import BranchAndBound as BranchAndBound
    from solvers.exact.exact_init import ExactInit as ExactInit
    from solvers.exact.lagrangian import Lagrangian as Lagrangian
    from solvers.exact.monotone import MonotoneDP as MonotoneDP
    from solvers.exact.oblique import ObliqueBranchAndBound as ObliqueBranchAndBound
    from solvers.exact.ratios import NeymanPearson as NeymanPearson, Ratio as Ratio
    from solvers.get.get import GET as GET
    from solvers.get.polish import SubtreePolish as SubtreePolish
    from solvers.gradtree.gradtree import GradTree as GradTree
    from solvers.initial.cart import CartInit as CartInit
    from solvers.initial.cluster import ClusterInit as ClusterInit
    from solvers.initial.greedy import GreedyInit as GreedyInit
    from solvers.initial.hinge import HingeInit as HingeInit
    from solvers.initial.random import RandomInit as RandomInit
    from solvers.local_search.local_search import LocalSearch as LocalSearch
    from solvers.mip.cpsat import CPSAT as CPSAT
    from solvers.mip.mip import MIP as MIP
    from solvers.nodes.axis import AxisNode as AxisNode
    from solvers.nodes.liblinear import LiblinearNode as LiblinearNode
    from solvers.nodes.newton import NewtonNode as NewtonNode
    from solvers.nodes.sklearn import SklearnNode as SklearnNode
    from solvers.rectified.dtsemnet import DTSemNet as DTSemNet
    from solvers.rectified.hrt import HRT as HRT
    from solvers.rectified.raddt import RADDT as RADDT
    from solvers.sdtr.sdtr import SDTR as SDTR
    from solvers.soft.nodec import NODEC as NODEC
    from solvers.soft.orrt import ORRT as ORRT
    from solvers.tao.tao import TAO as TAO

_HOMES = {
    "check_solver": "conformance",
    "Solver": "core.base",
    "Step": "core.base",
    "solve": "core.driver",
    "Result": "core.result",
    "SolverError": "core.result",
    "Termination": "core.result",
    "Trace": "core.result",
    "Column": "decomposition",
    "Cut": "decomposition",
    "Duals": "decomposition",
    "Pricer": "decomposition",
    "Separator": "decomposition",
    "LBFGS": "descent",
    "Adam": "descent",
    "QHAdam": "descent",
    "certify": "exact.certificates",
    "SparseFront": "exact.front",
    "sparse_front": "exact.front",
    "Instance": "exact.instances",
    "Verified": "exact.instances",
    "claim": "exact.instances",
    "instances": "exact.instances",
    "verify": "exact.instances",
    "Relaxation": "exact.lagrangian",
    "Anneal": "get",
    "ArmijoLineSearch": "soft",
}
_sys.modules["solvers.result"] = solvers.core.result  # where pickles of 0.1.0 look


def __getattr__(name: str) -> _Any:
    """What is named above, and every solver that a file of a room defines, on first use: all take half a second."""
    value: _Any
    if name == "__all__":
        globals().update(_solvers_in(__path__))
        for known in _HOMES:
            __getattr__(known)
        value = sorted({*_HOMES, *_solvers_in(__path__)})
    elif not name.startswith("_") and _find_spec(f"solvers.{name}") is not None:
        value = _import_module(f"solvers.{name}")
    elif not name.startswith("_") and (home := _HOMES.get(name) or _home_of(name, __path__)) is not None:
        value = getattr(_import_module(f"solvers.{home}"), name)
    else:
        raise AttributeError(f"module 'solvers' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__getattr__("__all__"))
