"""Rewards of actions from treatments and outcomes."""

from opttree.estimators.scores import scores as scores

__all__ = ["scores"]
