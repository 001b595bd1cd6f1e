"""Solvers of `opttree.TreeProblem`: the driver `solve`, the algorithms, and solvers made of solvers."""

from solvers.base import Solver, Step
from solvers.combinators import Chain, MultiStart
from solvers.driver import solve
from solvers.initial import CartInit, ClusterInit, HingeInit, RandomInit
from solvers.nodes import AxisNode, LiblinearNode, NewtonNode, SklearnNode
from solvers.result import Result, Termination, Trace
from solvers.tao import TAO

__all__ = [
    "TAO",
    "AxisNode",
    "CartInit",
    "Chain",
    "ClusterInit",
    "HingeInit",
    "LiblinearNode",
    "MultiStart",
    "NewtonNode",
    "RandomInit",
    "Result",
    "SklearnNode",
    "Solver",
    "Step",
    "Termination",
    "Trace",
    "solve",
]
