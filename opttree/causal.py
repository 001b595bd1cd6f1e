"""Rewards of actions, and residuals, from treatments and outcomes."""

from opttree.estimators.scores import residuals as residuals, scores as scores

__all__ = ["residuals", "scores"]
