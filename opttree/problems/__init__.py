"""Problems derived from a `TreeProblem`, each in the form that a kind of solver works on."""

from opttree.problems.dense.problem import DenseTreeProblem
from opttree.problems.exact.problem import ExactTreeProblem
from opttree.problems.mip import MIPTreeProblem
from opttree.problems.node.problem import LevelProblem, NodeProblem
from opttree.problems.smooth.problem import SmoothTreeProblem
from opttree.problems.smooth.subtree import SubtreeProblem
from opttree.problems.soft_forest.problem import SoftForestProblem
from opttree.statement import L1, L2, Penalty, SplitPrice, TreeProblem
from opttree.tables.weights import check_weight, n_rows

__all__ = [
    "L1",
    "L2",
    "DenseTreeProblem",
    "ExactTreeProblem",
    "LevelProblem",
    "MIPTreeProblem",
    "NodeProblem",
    "Penalty",
    "SmoothTreeProblem",
    "SoftForestProblem",
    "SplitPrice",
    "SubtreeProblem",
    "TreeProblem",
    "check_weight",
    "n_rows",
]
