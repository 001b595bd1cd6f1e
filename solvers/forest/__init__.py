"""Forests of trees by alternating optimization."""

from solvers.forest.forest import TAOForest

__all__ = ["TAOForest"]
