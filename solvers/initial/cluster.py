"""Top-down clustering: 2-means in each node, separated by a logistic regression (the start of the SRT paper)."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator as Rng

from opttree.kernels.logistic import fit_logistic
from opttree.problems import TreeProblem
from solvers.initial.base import Growth, Initial, Rows, Split, grow

RIDGE = (
    1e-4  # l2 penalty relative to the node's weight: two clusters are separable and the weights would not stay finite
)


@dataclass(frozen=True)
class ClusterInit(Initial):
    """Each node's rows are divided by 2-means (scikit-learn's KMeans) on the features; an l2-regularised logistic
    regression of the cluster on the features is the split.

    Parameters
    ----------
    n_init : repetitions of 2-means per node; the least inertia wins.
    """

    n_init: int = 5

    def supports(self, problem: TreeProblem) -> str | None:
        """Oblique problems only."""
        return "clusters are separated by oblique splits; use CartInit" if problem.splits == "axis" else None

    def growth(self, problem: TreeProblem, rng: Rng) -> Growth:
        """The grown tree, leaves fitted."""
        from sklearn.cluster import KMeans

        def split(rows: Rows, depth: int) -> Generator[None, None, Split | None]:
            X, w = problem.X[rows], problem.w[rows]
            if rows.size < max(2 * problem.min_leaf, 3) or np.ptp(X, axis=0).max() == 0.0:
                return None
            yield
            seed = int(rng.integers(2**31 - 1))
            label = KMeans(2, n_init=self.n_init, random_state=seed).fit_predict(X, sample_weight=w)
            a = np.zeros(problem.n_features)
            u = np.where(label == 1, w, -w) / w.sum()
            b, _steps = fit_logistic(problem.X, rows, u, np.empty(0), a, 0.0, 0.0, RIDGE, 1e-3, 50)
            return a, b

        yield (yield from grow(problem, split))
