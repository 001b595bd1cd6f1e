"""Losses beyond the named ones, and the class of your own."""

from opttree.statement.losses import (
    Exponential as Exponential,
    Gamma as Gamma,
    Huber as Huber,
    Loss as Loss,
    Poisson as Poisson,
    Quantile as Quantile,
    weighted_quantile as weighted_quantile,
)

__all__ = ["Exponential", "Gamma", "Huber", "Loss", "Poisson", "Quantile", "weighted_quantile"]
