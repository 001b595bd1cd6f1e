"""Ensembles of trees: forests, boosting, stacked forests, and trees distilled from forests."""

from solvers.ensembles.bagging import Bagging
from solvers.ensembles.boosting import Boosting
from solvers.ensembles.boosting_parts import BoostingOverParts
from solvers.ensembles.boosting_sampled import BoostingFromSample
from solvers.ensembles.distilled import Distilled
from solvers.ensembles.forest import KINDS, TAOForest
from solvers.ensembles.joint import JointForest
from solvers.ensembles.parts import ForestOverParts
from solvers.ensembles.stacked import StackedForest

__all__ = [
    "KINDS",
    "Bagging",
    "Boosting",
    "BoostingFromSample",
    "BoostingOverParts",
    "Distilled",
    "ForestOverParts",
    "JointForest",
    "StackedForest",
    "TAOForest",
]
