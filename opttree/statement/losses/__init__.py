"""Losses: the named ones, and those for quantiles, outliers, counts, amounts, survival times, and of one's own.

`TreeProblem` takes a `Loss` where it takes the name of one. Its methods work on whole arrays, so that NumPy's compiled
loops do the arithmetic; solvers ask for the losses of all rows at all leaves at once.
"""

from importlib import import_module as _import
from pkgutil import iter_modules as _modules

from opttree.statement.losses.base import NAMED, Loss
from opttree.statement.losses.check import check_loss
from opttree.statement.losses.costs import ActionCost, Decision
from opttree.statement.losses.named import Absolute, Log, Squared, ZeroOne
from opttree.statement.losses.positive import Exponential, Gamma, Poisson
from opttree.statement.losses.robust import Huber, Quantile, weighted_quantile

for _module in _modules(__path__):  # a file of this folder is found: its losses are known by their names
    _import(f"{__name__}.{_module.name}")

__all__ = [
    "NAMED",
    "Absolute",
    "ActionCost",
    "Decision",
    "Exponential",
    "Gamma",
    "Huber",
    "Log",
    "Loss",
    "Poisson",
    "Quantile",
    "Squared",
    "ZeroOne",
    "check_loss",
    "weighted_quantile",
]
