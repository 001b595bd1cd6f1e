"""Explanations of single answers: the path of a row, Shapley values, and the nearest row with another answer."""

from __future__ import annotations

from opttree.explain.counterfactual import Counterfactual, counterfactual
from opttree.explain.path import path
from opttree.explain.shapley import Shapley, shap_values, to_shap

__all__ = ["Counterfactual", "Shapley", "counterfactual", "path", "shap_values", "to_shap"]
