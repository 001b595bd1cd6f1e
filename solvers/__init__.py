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

from solvers import external as external, streaming as streaming
from solvers.base import Solver as Solver, Step as Step
from solvers.boosting import Boosting as Boosting
from solvers.certificates import certify as certify
from solvers.combinators import Chain as Chain, MultiStart as MultiStart
from solvers.conformance import check_solver as check_solver
from solvers.descent import LBFGS as LBFGS, Adam as Adam, QHAdam as QHAdam
from solvers.distilled import Distilled as Distilled
from solvers.driver import solve as solve
from solvers.exact import BlockBounds as BlockBounds, BranchAndBound as BranchAndBound, ExactInit as ExactInit
from solvers.get import GET as GET, Anneal as Anneal, SubtreePolish as SubtreePolish
from solvers.gradtree import GradTree as GradTree
from solvers.hrt import HRT as HRT
from solvers.initial import (
    CartInit as CartInit,
    ClusterInit as ClusterInit,
    GreedyInit as GreedyInit,
    HingeInit as HingeInit,
    RandomInit as RandomInit,
)
from solvers.local_search import LocalSearch as LocalSearch
from solvers.mip import MIP as MIP
from solvers.nodec import NODEC as NODEC, ArmijoLineSearch as ArmijoLineSearch
from solvers.nodes import (
    AxisNode as AxisNode,
    LiblinearNode as LiblinearNode,
    NewtonNode as NewtonNode,
    SklearnNode as SklearnNode,
)
from solvers.oblique_exact import ObliqueBranchAndBound as ObliqueBranchAndBound
from solvers.orrt import ORRT as ORRT
from solvers.rectified import RADDT as RADDT, DTSemNet as DTSemNet
from solvers.result import Result as Result, SolverError as SolverError, Termination as Termination, Trace as Trace
from solvers.sdtr import SDTR as SDTR
from solvers.tao import TAO as TAO, StackedForest as StackedForest, TAOForest as TAOForest

__all__ = sorted(
    name for name, value in globals().items() if not name.startswith("_") and not isinstance(value, _Module)
)
