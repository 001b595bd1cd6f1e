"""The statement as a mixed-integer linear program: formulations, candidate splits, exact leaves."""

from opttree.problems.mip.hypergraph import TooLargeError
from opttree.problems.mip.problem import FORMULATIONS, Formulation, MIPTreeProblem

__all__ = ["FORMULATIONS", "Formulation", "MIPTreeProblem", "TooLargeError"]
