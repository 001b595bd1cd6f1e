"""Ensembles of trees: forests, boosting, stacked forests, and trees distilled from forests."""

from solvers.ensembles.boosting import Boosting
from solvers.ensembles.distilled import Distilled
from solvers.ensembles.forest import KINDS, TAOForest
from solvers.ensembles.stacked import StackedForest

__all__ = ["KINDS", "Boosting", "Distilled", "StackedForest", "TAOForest"]
