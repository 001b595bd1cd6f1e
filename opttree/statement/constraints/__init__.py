"""Side constraints of the statement."""

from opttree.statement.constraints.base import (
    Constraint,
    LeafConstraint,
    Limits as Limits,
    Statement as Statement,
    answers as answers,
    picks as picks,
)
from opttree.statement.constraints.leaves import (
    AnswerLimit,
    DifferentLeaf,
    MaxDifference,
    MaxShare,
    MinPerGroup,
    Monotone,
    SameLeaf,
)
from opttree.statement.constraints.shape import (
    FeatureCost,
    ForbidSplit,
    MaxFeatures,
    MaxSplits,
    MinLeaf,
    PathCost,
    RequireSplit,
)

__all__ = [
    "AnswerLimit",
    "Constraint",
    "DifferentLeaf",
    "FeatureCost",
    "ForbidSplit",
    "LeafConstraint",
    "MaxDifference",
    "MaxFeatures",
    "MaxShare",
    "MaxSplits",
    "MinLeaf",
    "MinPerGroup",
    "Monotone",
    "PathCost",
    "RequireSplit",
    "SameLeaf",
]
