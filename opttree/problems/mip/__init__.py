"""The statement as a mixed-integer linear program: formulations, candidate splits, exact leaves."""

from opttree.problems.mip.hypergraph import TooLargeError
from opttree.problems.mip.problem import MIPTreeProblem
from opttree.problems.mip.statement import LEAST_MARGIN, Formulation

__all__ = ["LEAST_MARGIN", "Formulation", "MIPTreeProblem", "TooLargeError"]
