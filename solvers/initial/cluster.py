"""Top-down clustering: 2-means in each node, separated by a logistic regression (the start of the SRT paper)."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.runtime.calm import calm_threads
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from opttree.wide.logistic import fit_at_any_width
from opttree.wide.sparse import varies
from solvers.initial.base import Growth, Initial, Rows, Split, SplitNode, fitted, grown

RIDGE = 1e-4  # l2 penalty relative to the node's weight: for separable clusters the weights would diverge without it


@dataclass(frozen=True)
class ClusterInit(Initial):
    """Each node's rows are divided by 2-means (scikit-learn's KMeans) on the features; an l2-regularised logistic
    regression of the cluster on the features is the split.

    See Also
    --------
    NODEC : whose paper starts so

    References
    ----------
    Consolo, Amaldi and Manno, "Soft regression trees: a model variant and a decomposition training algorithm"
    (2024).

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import ClusterInit, TAO, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2)
    >>> start = solve(problem, ClusterInit(), random_state=0)
    >>> solve(problem, TAO(), start=start.tree, random_state=0).objective <= start.objective
    True
    """

    takes_sparse = True
    wants_zero = True

    n_init: int = option(5, "Repetitions of 2-means per node; the one with the least inertia is used.", least=1)
    n_repeats: int = option(
        1,
        "Trees grown; the one with the lowest Davies-Bouldin index of its leaves is used: the paper's r.",
        least=1,
    )
    routing: Literal["splits", "clusters"] = option(
        "splits",
        """"splits": the rows of a child are those that the logistic regression sends there. "clusters", as printed:
        they are the cluster itself, by which leaves are fitted, too; the ridge of the regression is scikit-learn's
        default, and small leaves are linear.""",
    )

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes oblique problems only."""
        if problem.splits == "axis":
            return "clusters are separated by oblique splits; use CartInit"
        dense = problem.is_sparse and self.n_repeats > 1
        return "the Davies-Bouldin index needs a dense X; take n_repeats=1" if dense else None

    def growth(self, problem: TreeProblem, rng: Rng) -> Growth:
        """Yields the tree of one leaf, in case of a time limit, then the grown tree with fitted leaves."""
        yield problem.one_leaf()
        best, best_index = None, np.inf
        with calm_threads():
            for _ in range(self.n_repeats):
                tree, leaf = yield from self._grown(problem, rng)
                index = davies_bouldin(problem, leaf) if self.n_repeats > 1 else 0.0
                if best is None or index < best_index:
                    best, best_index = tree, index
        yield best

    def _grown(self, problem: TreeProblem, rng: Rng) -> Generator[None, None, tuple[Tree, NDArray[np.integer]]]:
        """A tree with fitted leaves, and the leaf of every row."""
        tree, leaf = yield from grown(problem, self._split(problem, rng))
        if self.routing == "splits":
            tree = fitted(problem, tree)
            return tree, problem.leaves_of(tree)
        coefs = np.zeros((tree.n_leaves, problem.n_outputs, problem.n_features if problem.leaves == "linear" else 0))
        plain = problem.restated(penalties=())
        values, coefs, _lower, _upper = plain.fit_leaf_arrays(leaf, tree.values, coefs, min_rows=1)
        linked = replace(tree, values=values, coefs=coefs, link=problem.link(problem.leaves == "linear"))
        return problem.enforce_min_leaf(linked), leaf

    def _split(self, problem: TreeProblem, rng: Rng) -> SplitNode:
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning

        def split(rows: Rows, depth: int) -> Generator[None, None, Split | None]:
            X, w = problem.X[rows], problem.w[rows]
            if rows.size < max(2 * problem.min_leaf, 3) or not varies(X):
                return None
            yield
            seed = int(rng.integers(2**31 - 1))
            with warnings.catch_warnings():  # rows that differ by less than 2-means can tell
                warnings.simplefilter("ignore", ConvergenceWarning)
                label = KMeans(2, n_init=self.n_init, random_state=seed).fit_predict(X, sample_weight=w)
            if label.min() == label.max():
                return None
            yield
            a = np.zeros(problem.n_features)
            u = np.where(label == 1, w, -w) / w.sum()
            by_splits = self.routing == "splits"
            ridge = RIDGE if by_splits else 0.5 / rows.size  # scikit-learn's C = 1
            b, _steps = fit_at_any_width(problem.X, rows, u, np.empty(0), a, 0.0, 0.0, ridge, 1e-3, 50)
            return a, b, None if by_splits else label == 0

        return split


def davies_bouldin(problem: TreeProblem, leaf: NDArray[np.integer]) -> float:
    """Davies-Bouldin index of leaves ``leaf (n,)`` of the rows; infinite where it is not defined."""
    from sklearn.metrics import davies_bouldin_score

    if not 2 <= np.unique(leaf).size < leaf.size:
        return np.inf
    return float(davies_bouldin_score(problem.X, leaf))
