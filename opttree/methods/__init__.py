"""The methods by their names on the command line, what they cost, and their compilation ahead."""

from opttree.methods.table import METHODS, TASKS, Method, estimators, families, make_estimator

__all__ = ["METHODS", "TASKS", "Method", "estimators", "families", "make_estimator"]
