"""Decompositions of the statement: what generates a part of a program, and the solvers that run it."""

from opttree.problems.mip.cuts import Cut
from solvers.decomposition.benders import Benders, Separator
from solvers.decomposition.column_generation import ColumnGeneration, Pricer
from solvers.decomposition.path_master import Column, Duals

__all__ = ["Benders", "Column", "ColumnGeneration", "Cut", "Duals", "Pricer", "Separator"]
