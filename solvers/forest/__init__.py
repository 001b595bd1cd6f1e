"""Forests of trees by alternating optimization."""

from solvers.forest.forest import KINDS, TAOForest

__all__ = ["KINDS", "TAOForest"]
