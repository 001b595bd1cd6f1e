"""Solvers of `opttree.TreeProblem`: the driver `solve`, the algorithms, and solvers made of solvers."""

from solvers.base import Solver, Step
from solvers.combinators import Chain, MultiStart
from solvers.driver import solve
from solvers.get import GET, Anneal, SubtreePolish
from solvers.gradient import LBFGS, Adam, QHAdam
from solvers.initial import CartInit, ClusterInit, GreedyInit, HingeInit, RandomInit
from solvers.nodes import AxisNode, LiblinearNode, NewtonNode, SklearnNode
from solvers.result import Result, Termination, Trace
from solvers.tao import TAO

__all__ = [
    "GET",
    "LBFGS",
    "TAO",
    "Adam",
    "Anneal",
    "AxisNode",
    "CartInit",
    "Chain",
    "ClusterInit",
    "GreedyInit",
    "HingeInit",
    "LiblinearNode",
    "MultiStart",
    "NewtonNode",
    "QHAdam",
    "RandomInit",
    "Result",
    "SklearnNode",
    "Solver",
    "Step",
    "SubtreePolish",
    "Termination",
    "Trace",
    "solve",
]
