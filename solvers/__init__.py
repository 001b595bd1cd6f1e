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

from types import ModuleType as _Module

from solvers import core as core, external as external, streaming as streaming
from solvers.conformance import check_solver as check_solver
from solvers.core.base import Solver as Solver, Step as Step
from solvers.core.combinators import Chain as Chain, MultiStart as MultiStart
from solvers.core.driver import solve as solve
from solvers.core.result import Result as Result, SolverError as SolverError, Termination as Termination, Trace as Trace
from solvers.descent import LBFGS as LBFGS, Adam as Adam, QHAdam as QHAdam
from solvers.ensembles import (
    Boosting as Boosting,
    Distilled as Distilled,
    StackedForest as StackedForest,
    TAOForest as TAOForest,
)
from solvers.exact import BlockBounds as BlockBounds, BranchAndBound as BranchAndBound, ExactInit as ExactInit
from solvers.exact.certificates import certify as certify
from solvers.exact.oblique import ObliqueBranchAndBound as ObliqueBranchAndBound
from solvers.get import GET as GET, Anneal as Anneal, SubtreePolish as SubtreePolish
from solvers.gradtree import GradTree as GradTree
from solvers.initial import (
    CartInit as CartInit,
    ClusterInit as ClusterInit,
    GreedyInit as GreedyInit,
    HingeInit as HingeInit,
    RandomInit as RandomInit,
)
from solvers.local_search import LocalSearch as LocalSearch
from solvers.mip import MIP as MIP
from solvers.nodes import (
    AxisNode as AxisNode,
    LiblinearNode as LiblinearNode,
    NewtonNode as NewtonNode,
    SklearnNode as SklearnNode,
)
from solvers.rectified import HRT as HRT, RADDT as RADDT, DTSemNet as DTSemNet
from solvers.sdtr import SDTR as SDTR
from solvers.soft import NODEC as NODEC, ORRT as ORRT, ArmijoLineSearch as ArmijoLineSearch
from solvers.tao import TAO as TAO

__all__ = sorted(
    name for name, value in globals().items() if not name.startswith("_") and not isinstance(value, _Module)
)
