"""Solvers of the reduced problem of a branch node, with a common interface."""

from solvers.nodes.axis import AxisNode
from solvers.nodes.base import NodeSolver
from solvers.nodes.liblinear import LiblinearNode
from solvers.nodes.newton import NewtonNode
from solvers.nodes.sklearn import SklearnNode

__all__ = ["AxisNode", "LiblinearNode", "NewtonNode", "NodeSolver", "SklearnNode"]
