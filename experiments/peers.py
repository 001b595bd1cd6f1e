"""Other libraries' exact trees as solvers, for solve protocols: one statement and one clock for all.

Each is a single call that reports nothing until it ends. Its splits are taken over and the leaves fitted anew; a proof
is the library's own word.
"""

from __future__ import annotations

import importlib
import math
import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree import Tree, TreeProblem
from solvers.base import Solver, Step, Steps, seconds_left
from solvers.result import Termination

MOST_CUTS = 4000  # columns of a table of binary features
LONGEST = 1e6  # seconds

Found = tuple[Any, bool, float]  # a tree as nested (feature, threshold, left, right), None: a leaf; proved; nodes


@dataclass(frozen=True)
class Peer(Solver):
    """Another library's exact search for axis-aligned trees of constant leaves."""

    library: ClassVar[str]
    losses: ClassVar[tuple[str, ...]] = ("zero_one",)
    binary: ClassVar[bool] = False  # whether it takes binary features, one for each threshold

    def supports(self, problem: TreeProblem) -> str | None:
        """Axis-aligned, unweighted, unpenalised; losses of the class; few thresholds for binary features."""
        if problem.splits != "axis" or problem.leaves != "constant" or problem.loss not in self.losses:
            return f"{self.library} takes axis-aligned splits, constant leaves and loss {' or '.join(self.losses)}"
        if problem.penalties or (problem.n_outputs > 1 and not problem.is_classification):
            return f"{self.library} takes one output and no penalties of ours"
        assert problem.sample_weight is not None  # set by TreeProblem
        if np.ptp(problem.sample_weight) > 0.0:
            return f"{self.library} takes rows of equal weight"
        if self.binary and (cuts := sum(np.unique(column).size - 1 for column in problem.X.T)) > MOST_CUTS:
            return f"{self.library} takes binary features, and there are {cuts} thresholds, more than {MOST_CUTS}"
        try:
            importlib.import_module(self.library)
        except ImportError:
            return f"{self.library} is not installed"
        return None

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """The best constant, and the library's tree."""
        yield Step(problem.best_constant(), bound=0.0, phase="constant")
        X, cuts = binary_features(problem.X) if self.binary else (problem.X, np.zeros((0, 2)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nested, proved, nodes = self.search(problem, X, max(min(seconds_left(), LONGEST), 1e-3))
        tree = problem.fit_leaves(flat(problem, nested, cuts))
        bound = problem.objective(tree) if proved else None
        yield Step(tree, bound=bound, phase=self.library, info={"nodes": nodes})
        return Termination.OPTIMAL if proved else Termination.TIME_LIMIT

    def search(self, problem: TreeProblem, X: NDArray[Any], seconds: float) -> Found:
        """The library's tree for the features ``X``."""
        raise NotImplementedError


def binary_features(X: NDArray[np.float64]) -> tuple[NDArray[np.intc], NDArray[np.float64]]:
    """A column ``x_j <= t`` for every threshold between neighbouring values, and (columns, 2) j and t of each."""
    cuts = [(j, 0.5 * (a + b)) for j in range(X.shape[1]) for a, b in pairwise(np.unique(X[:, j]))]
    table = np.array(cuts).reshape(-1, 2)
    return (X[:, table[:, 0].astype(int)] <= table[:, 1]).astype(np.intc), table


def flat(problem: TreeProblem, nested: Any, cuts: NDArray[np.float64]) -> Tree:
    """The `Tree` of nested splits; of binary features, whose ``cuts`` are given, the left child is that of 1."""
    links: list[list[int]] = [[-1, -1]]
    A, b, pending = [np.zeros(problem.n_features)], [0.0], [(0, nested)]
    for at, node in pending:
        if node is None:
            continue
        feature, threshold, left, right = node
        if len(cuts):
            feature, threshold = int(cuts[feature, 0]), cuts[feature, 1]
        A[at][feature], b[at] = 1.0, float(threshold)
        links[at] = [len(links), len(links) + 1]
        for child in (left, right):
            pending.append((len(links), child))
            links.append([-1, -1])
            A.append(np.zeros(problem.n_features))
            b.append(0.0)
    values = np.zeros((len(links), problem.n_outputs))
    first, second = np.array(links).T
    return Tree.from_links(first, second, np.array(A), np.array(b), values, problem.classes)


@dataclass(frozen=True)
class PyConTree(Peer):
    """pycontree, the authors' ConTree (Brita, van der Linden and Demirovic, AAAI 2025)."""

    library = "pycontree"

    def supports(self, problem: TreeProblem) -> str | None:
        """As `Peer`; it knows no smallest leaf."""
        return super().supports(problem) or (f"{self.library} has no smallest leaf" if problem.min_leaf > 1 else None)

    def search(self, problem: TreeProblem, X: NDArray[Any], seconds: float) -> Found:
        """Its tree over all thresholds."""
        from pycontree import ConTree

        model = ConTree(max_depth=problem.depth, time_limit=seconds).fit(X, problem.Y[:, 0].astype(np.intc))

        def nested(node: Any) -> Any:
            if node.is_leaf_node():
                return None
            children = nested(node.get_left()), nested(node.get_right())
            # it sends x < t to the left
            return node.get_split_feature(), np.nextafter(node.get_split_threshold(), -math.inf), *children

        return nested(model.tree_), bool(model._config.is_within_time_limit()), math.nan


def _of_arrays(tree: Any, *, binary: bool) -> Any:
    """The nested splits of a tree of pytrees, which sends 0 of a binary feature to the left."""

    def nested(t: int) -> Any:
        if tree.children_left[t] < 0:
            return None
        left, right = nested(int(tree.children_left[t])), nested(int(tree.children_right[t]))
        return int(tree.feature[t]), float(tree.threshold[t]), *((right, left) if binary else (left, right))

    return nested(0)


@dataclass(frozen=True)
class PyTreesConTree(Peer):
    """ConTree of pytrees-rs, in Rust."""

    library = "pytrees"

    def search(self, problem: TreeProblem, X: NDArray[Any], seconds: float) -> Found:
        """Its tree over all thresholds."""
        from pytrees import ConTreeClassifier

        model = ConTreeClassifier(max_depth=problem.depth, min_sup=problem.min_leaf, max_time=seconds)
        model.fit(X, problem.Y[:, 0].astype(int))
        calls = model.statistics_["general_solver_calls"] + model.statistics_["specialized_solver_calls"]
        return _of_arrays(model.tree_, binary=False), model.status_ == "optimal", float(calls)


@dataclass(frozen=True)
class PyTreesDL85(Peer):
    """DL8.5 (Aglin, Nijssen and Schaus, AAAI 2020) of pytrees-rs, on a binary feature for each threshold."""

    library = "pytrees"
    binary = True

    def search(self, problem: TreeProblem, X: NDArray[Any], seconds: float) -> Found:
        """Its tree."""
        from pytrees import DL85Classifier

        model = DL85Classifier(max_depth=problem.depth, min_sup=problem.min_leaf, max_time=seconds)
        model.fit(X, problem.Y[:, 0].astype(int))
        return _of_arrays(model.tree_, binary=True), model.status_ == "optimal", float(model.statistics_["cache_size"])


@dataclass(frozen=True)
class STreeD(Peer):
    """pystreed (van der Linden, de Weerdt and Demirovic, NeurIPS 2023), on a binary feature for each threshold.

    Without its lower bound for regression. On all rows of airfoil, the tree that it calls optimal at depth 3 is not
    (version 1.4.0).
    """

    library = "pystreed"
    losses = ("zero_one", "squared")
    binary = True

    def search(self, problem: TreeProblem, X: NDArray[Any], seconds: float) -> Found:
        """Its tree."""
        import pystreed

        common = {"max_depth": problem.depth, "min_leaf_node_size": problem.min_leaf, "time_limit": seconds}
        if problem.is_classification:
            model = pystreed.STreeDClassifier("accuracy", **common)
            model.fit(X, problem.Y[:, 0].astype(np.intc))
        else:
            model = pystreed.STreeDRegressor(
                "cost-complex-regression", cost_complexity=0.0, use_task_lower_bound=False, **common
            )
            model.fit(X, problem.Y[:, 0])
        if not model.is_fitted():
            return None, False, math.nan

        def nested(node: Any) -> Any:
            if node.is_leaf_node():
                return None
            return node.feature, 0.0, nested(node.right_child), nested(node.left_child)

        return nested(model.get_tree()), bool(model.fit_result.is_optimal()), math.nan
