"""Side constraints of `opttree.TreeProblem`, by name."""

from opttree.statement.constraints import (
    Constraint,
    DifferentLeaf,
    FeatureCost,
    ForbidSplit,
    LeafConstraint,
    MaxDifference,
    MaxFeatures,
    MaxSplits,
    MinLeaf,
    Monotone,
    RequireSplit,
    SameLeaf,
)

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
