"""Survival times: outcomes, concordance, step functions."""

from opttree.tables.survival import StepFunction as StepFunction, concordance as concordance, outcome as outcome

__all__ = ["StepFunction", "concordance", "outcome"]
