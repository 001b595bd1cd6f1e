"""Losses of problems and estimators, and the class of your own."""

from opttree.statement.losses import (
    Absolute as Absolute,
    ActionCost as ActionCost,
    Decision as Decision,
    Exponential as Exponential,
    Gamma as Gamma,
    Huber as Huber,
    Log as Log,
    Loss as Loss,
    Poisson as Poisson,
    Quantile as Quantile,
    Squared as Squared,
    ZeroOne as ZeroOne,
    check_loss as check_loss,
    weighted_quantile as weighted_quantile,
)

__all__ = [
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
