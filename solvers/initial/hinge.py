"""Hinge splits for linear leaves: Breiman's hinging hyperplanes (IEEE Trans. Inf. Theory 39, 1993), recursively."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator as Rng

from opttree.problems import TreeProblem
from opttree.tree import Tree
from solvers.initial.base import Floats, Initial, Rows, grow, weighted_quantile


@dataclass(frozen=True)
class HingeInit(Initial):
    """At each node, fit a ridge model to either side of a trial split and move the boundary to where the two models are
    equal, so that the node's model is their maximum or minimum, whichever fits better; repeat; take the best trial.

    Trial splits cut at the median along the directions that best explain ``|residual|`` and ``residual^2`` of one
    ridge model, and along random ones. With several outputs (or classes, as indicators) the boundary is found on the
    leading principal component of the residuals.

    Parameters
    ----------
    n_random : random trial splits per node.
    n_moves : moves of the boundary per trial.
    ridge : penalty on the weights of the two models, relative to the node's weight (features are taken as they are).
    min_rows : fewest rows on either side, ``p + 1`` times 2 by default.
    price : after the growth, bottom-up, a subtree of s splits is replaced by a leaf unless it lowers ``m log(squared
        error)`` of its m rows by more than ``price`` for each of its ``2 (p + 1) s`` parameters. 2 is Akaike's
        criterion, 0 keeps everything. (Asking it of each split as it is made would stop where only two levels
        together help: puma32H.)
    """

    n_random: int = 2
    n_moves: int = 6
    ridge: float = 1e-3
    min_rows: int | None = None
    price: float = 3.0

    def supports(self, problem: TreeProblem) -> str | None:
        """Oblique problems only."""
        return "hinge splits are oblique; use CartInit" if problem.splits == "axis" else None

    def build(self, problem: TreeProblem, rng: Rng) -> Tree:
        """The grown tree, leaves fitted."""
        p = problem.n_features
        target = np.eye(problem.n_outputs)[problem.Y[:, 0].astype(int)] if problem.is_classification else problem.Y
        fewest = max(self.min_rows or 2 * (p + 1), problem.min_leaf)

        def split(rows: Rows, depth: int) -> tuple[Floats, float] | None:
            if rows.size < 2 * fewest:
                return None
            X = np.hstack([problem.X[rows], np.ones((rows.size, 1))])
            w = problem.w[rows] / problem.w[rows].sum()
            t = target[rows]
            if t.shape[1] > 1:
                residual = t - X @ self._ridge(X, w, t)
                t = t @ np.linalg.svd(residual * np.sqrt(w)[:, None], full_matrices=False)[2][0]
            else:
                t = t[:, 0]
            residual = t - X @ self._ridge(X, w, t)
            best_error = float(w @ residual**2)
            best = None
            for direction in self._directions(X, w, residual, rng):
                boundary = np.append(direction, -weighted_quantile(X[:, :p] @ direction, w))
                for _ in range(self.n_moves):
                    right = X @ boundary > 0.0
                    if min(right.sum(), (~right).sum()) < fewest:
                        break
                    low = self._ridge(X[~right], w[~right], t[~right])
                    high = self._ridge(X[right], w[right], t[right])
                    on_low, on_high = X @ low, X @ high
                    error = float(w @ (t - np.where(right, on_high, on_low)) ** 2)
                    if error < best_error:
                        best, best_error = boundary, error
                    # the right side is where its model is larger (max) or smaller (min envelope)
                    convex = float(w @ (t - np.maximum(on_low, on_high)) ** 2)
                    concave = float(w @ (t - np.minimum(on_low, on_high)) ** 2)
                    boundary = high - low if convex <= concave else low - high
            if best is None or not best[:p].any():
                return None
            scale = np.linalg.norm(best[:p])
            return best[:p] / scale, -float(best[p] / scale)

        return self._prune(problem, grow(problem, split), target)

    def _prune(self, problem: TreeProblem, tree: Tree, target: Floats) -> Tree:
        """Replace subtrees that do not pay for their parameters by leaves."""
        X = np.hstack([problem.X, np.ones((problem.n_samples, 1))])
        path = tree.decision_path(problem.X).tocsc()
        keep = np.ones(tree.n_nodes, bool)  # leaves: whether they stay; branches: unused
        error, n_leaves = np.empty(tree.n_nodes), np.ones(tree.n_nodes, int)  # of the subtree as pruned so far
        below: list[list[int]] = [[] if t < tree.n_branches else [t] for t in range(tree.n_nodes)]
        for t in range(tree.n_nodes - 1, -1, -1):
            rows = path.indices[path.indptr[t] : path.indptr[t + 1]]
            x, w, y = X[rows], problem.w[rows], target[rows]
            as_leaf = float(np.sum(w[:, None] * (y - x @ self._ridge(x, w, y)) ** 2))
            error[t] = as_leaf
            if t >= tree.n_branches:
                continue
            kids = tree.children[t]
            below[t] = below[kids[0]] + below[kids[1]]
            n_leaves[t] = n_leaves[kids].sum()
            bound = self.price * 2 * X.shape[1] * (n_leaves[t] - 1) / rows.size
            if error[kids].sum() < np.exp(-bound) * as_leaf:
                error[t] = error[kids].sum()
            else:
                keep[below[t][1:]] = False
                below[t], n_leaves[t] = below[t][:1], 1
        return problem.fit_leaves(tree.keep(keep[tree.n_branches :]))

    def _ridge(self, X: Floats, w: Floats, t: Floats) -> Floats:
        """Ridge weights, the last one the unpenalised intercept."""
        XW = X.T * w
        G = XW @ X
        p = X.shape[1] - 1
        G[np.arange(p), np.arange(p)] += self.ridge * w.sum() + 1e-12
        return np.asarray(np.linalg.solve(G, XW @ t), np.float64)

    def _directions(self, X: Floats, w: Floats, residual: Floats, rng: Rng) -> Iterator[Floats]:
        p = X.shape[1] - 1
        for signal in (np.abs(residual), residual**2):
            yield self._ridge(X, w, signal)[:p]
        for _ in range(self.n_random):
            yield rng.normal(size=p)
