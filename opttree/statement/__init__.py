"""The optimization problem that trees are trained on: `TreeProblem`, its losses, penalties and side constraints."""

from opttree.statement.penalties import L1, L2, FeatureL1, L2Constants, Penalty, SplitPrice
from opttree.statement.problem import TreeProblem

__all__ = ["L1", "L2", "FeatureL1", "L2Constants", "Penalty", "SplitPrice", "TreeProblem"]
