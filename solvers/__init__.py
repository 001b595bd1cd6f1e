"""Solvers of `opttree.TreeProblem`: the driver `solve`, the algorithms, and solvers made of solvers."""

from solvers import streaming  # noqa: F401
from solvers.base import Solver, Step
from solvers.boosting import Boosting
from solvers.combinators import Chain, MultiStart
from solvers.conformance import check_solver
from solvers.distilled import Distilled
from solvers.driver import solve
from solvers.forest import TAOForest
from solvers.get import GET, Anneal, SubtreePolish
from solvers.gradient import LBFGS, Adam, QHAdam
from solvers.gradtree import GradTree
from solvers.initial import CartInit, ClusterInit, GreedyInit, HingeInit, RandomInit
from solvers.local_search import LocalSearch
from solvers.mip import MIP, certify
from solvers.nodec import NODEC, ArmijoLineSearch
from solvers.nodes import AxisNode, LiblinearNode, NewtonNode, SklearnNode
from solvers.orrt import ORRT
from solvers.result import Result, SolverError, Termination, Trace
from solvers.sdtr import SDTR
from solvers.tao import TAO

__all__ = [
    "GET",
    "LBFGS",
    "MIP",
    "NODEC",
    "ORRT",
    "SDTR",
    "TAO",
    "Adam",
    "Anneal",
    "ArmijoLineSearch",
    "AxisNode",
    "Boosting",
    "CartInit",
    "Chain",
    "ClusterInit",
    "Distilled",
    "GradTree",
    "GreedyInit",
    "HingeInit",
    "LiblinearNode",
    "LocalSearch",
    "MultiStart",
    "NewtonNode",
    "QHAdam",
    "RandomInit",
    "Result",
    "SklearnNode",
    "Solver",
    "SolverError",
    "Step",
    "SubtreePolish",
    "TAOForest",
    "Termination",
    "Trace",
    "certify",
    "check_solver",
    "solve",
]
