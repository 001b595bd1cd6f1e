"""Decompositions of the statement: what generates a part of a program, and the solvers that run it."""

from solvers.decomposition.column_generation import ColumnGeneration, Pricer
from solvers.decomposition.path_master import Column, Duals

__all__ = ["Column", "ColumnGeneration", "Duals", "Pricer"]
