"""Initial trees. Each is a solver of one step, so it can be chained, compared and used on its own."""

from solvers.initial.base import Initial
from solvers.initial.cart import CartInit
from solvers.initial.cluster import ClusterInit
from solvers.initial.greedy import GreedyInit
from solvers.initial.hinge import HingeInit
from solvers.initial.random import RandomInit

__all__ = ["CartInit", "ClusterInit", "GreedyInit", "HingeInit", "Initial", "RandomInit"]
