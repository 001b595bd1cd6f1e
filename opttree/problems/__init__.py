"""Optimization problems: the statement `TreeProblem`, its penalties, and the problems derived from it."""

from opttree.problems.dense_problem import DenseTreeProblem
from opttree.problems.exact_problem import ExactTreeProblem
from opttree.problems.mip import MIPTreeProblem
from opttree.problems.node_problem import LevelProblem, NodeProblem
from opttree.problems.penalties import L1, L2, Penalty, SplitPrice
from opttree.problems.smooth_problem import SmoothTreeProblem
from opttree.problems.soft_forest_problem import SoftForestProblem
from opttree.problems.subtree_problem import SubtreeProblem
from opttree.problems.tree_problem import TreeProblem
from opttree.problems.weights import check_weight, n_rows

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
