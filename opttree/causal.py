"""Rewards of actions from treatments and outcomes."""

from opttree.tables.causal import scores as scores

__all__ = ["scores"]
