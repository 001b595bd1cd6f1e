"""Side constraints of the statement."""

from opttree.statement.constraints.base import (
    Constraint,
    LeafConstraint,
    Limits as Limits,
    Statement as Statement,
    answers as answers,
)
from opttree.statement.constraints.leaves import DifferentLeaf, MaxDifference, Monotone, SameLeaf
from opttree.statement.constraints.shape import FeatureCost, ForbidSplit, MaxFeatures, MaxSplits, MinLeaf, RequireSplit

__all__ = [
    "Constraint",
    "DifferentLeaf",
    "FeatureCost",
    "ForbidSplit",
    "LeafConstraint",
    "MaxDifference",
    "MaxFeatures",
    "MaxSplits",
    "MinLeaf",
    "Monotone",
    "RequireSplit",
    "SameLeaf",
]
