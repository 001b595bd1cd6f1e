"""Hinge splits for linear leaves: Breiman's hinging hyperplanes (IEEE Trans. Inf. Theory 39, 1993), recursively."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator as Rng

from opttree.kernels.routing import goes_left, project
from opttree.model.tree import Tree
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from opttree.wide.leaves import fit_linear
from solvers.initial.base import Floats, Growth, Initial, Rows, Split, grow, weighted_quantile


@dataclass(frozen=True)
class HingeInit(Initial):
    """At each node, fit a ridge model to either side of a trial split and move the boundary to where the two models are
    equal, so that the node's model is their maximum or minimum, whichever fits better; repeat; keep the best trial.

    Trial splits cut at the median along the directions that best explain ``|residual|`` and ``residual^2`` of one
    ridge model, and along random ones. With several outputs (or classes, as indicators) the boundary is found on the
    leading principal component of the residuals.

    See Also
    --------
    TAO : starts so for linear leaves

    References
    ----------
    Breiman, "Hinging hyperplanes for regression, classification, and function approximation", IEEE Transactions on
    Information Theory 39 (1993).

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import HingeInit, TAO, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2, leaves="linear")
    >>> start = solve(problem, HingeInit(), random_state=0)
    >>> solve(problem, TAO(), start=start.tree, random_state=0).objective <= start.objective
    True
    """

    takes_sparse = True

    n_random: int = option(2, "Random trial splits per node.", least=0)
    n_moves: int = option(6, "Moves of the boundary per trial.", least=1)
    ridge: float = option(
        1e-3,
        "Penalty on the weights of the two models, relative to the node's weight (features are not scaled).",
        least=0,
    )
    min_rows: int | None = option(None, "Fewest rows on either side, by default ``2 (p + 1)``.", least=1)
    price: float = option(
        3.0,
        """Pruning after the growth, bottom-up: a subtree of s splits becomes a leaf unless it lowers ``m log(squared
        error)`` of its m rows by more than ``price`` for each of its ``2 (p + 1) s`` parameters. 2 is Akaike's
        criterion, 0 keeps everything. Applied to each split during growth, the rule would stop where only two levels
        together help (puma32H).""",
        least=0,
    )

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes oblique problems only, of numbers whose squares are far from overflow."""
        return "hinge splits are oblique; use CartInit" if problem.splits == "axis" else problem.float32_refusal

    def growth(self, problem: TreeProblem, rng: Rng) -> Growth:
        """Yields the tree of one leaf, in case of a time limit, then the grown tree with fitted leaves."""
        yield problem.one_leaf()
        target = np.eye(problem.n_outputs)[problem.Y[:, 0].astype(int)] if problem.is_classification else problem.Y
        fewest = max(self.min_rows or 2 * (problem.n_features + 1), problem.min_leaf)

        def split(rows: Rows, depth: int) -> Generator[None, None, Split | None]:
            if rows.size < 2 * fewest:
                return None
            w = problem.w[rows] / problem.w[rows].sum()
            t = target[rows]
            if t.shape[1] > 1:
                residual = (t - self._fitted(problem, rows, w, t)) * np.sqrt(w)[:, None]
                t = t @ np.linalg.eigh(residual.T @ residual)[1][:, -1:]
            residual = (t - self._fitted(problem, rows, w, t))[:, 0]
            best, best_error = None, float(np.sum(w * residual**2))
            for direction in self._directions(problem, rows, w, residual, rng):
                z = project(problem.X, rows, direction)
                boundary = direction, weighted_quantile(z, w)
                for _ in range(self.n_moves):
                    yield
                    right = ~goes_left(problem.X, boundary[0], boundary[1], rows)
                    if min(right.sum(), (~right).sum()) < fewest:
                        break
                    low = self._ridge(problem, rows[~right], w[~right], t[~right])
                    high = self._ridge(problem, rows[right], w[right], t[right])
                    on_low, on_high = (project(problem.X, rows, c[0]) + v[0] for v, c in (low, high))
                    error = float(np.sum(w * (t[:, 0] - np.where(right, on_high, on_low)) ** 2))
                    if error < best_error:
                        best, best_error = boundary, error
                    # the right side is where its model is larger (max) or smaller (min)
                    convex = np.sum(w * (t[:, 0] - np.maximum(on_low, on_high)) ** 2)
                    concave = np.sum(w * (t[:, 0] - np.minimum(on_low, on_high)) ** 2)
                    sign = 1.0 if convex <= concave else -1.0
                    boundary = sign * (high[1][0] - low[1][0]), float(sign * (low[0][0] - high[0][0]))
            if best is None or not best[0].any():
                return None
            scale = float(np.linalg.norm(best[0]))
            return best[0] / scale, best[1] / scale

        tree = yield from grow(problem, split)
        yield self._prune(problem, tree, target)

    def _prune(self, problem: TreeProblem, tree: Tree, target: Floats) -> Tree:
        """Replace subtrees by leaves if they do not justify their parameters."""
        leaf = problem.leaves_of(tree)
        rows_of = {t: np.flatnonzero(leaf == t).astype(np.int32) for t in range(tree.n_branches, tree.n_nodes)}
        stays = np.ones(tree.n_nodes, bool)  # leaves: whether they stay; branches: unused
        error, n_leaves = np.empty(tree.n_nodes), np.ones(tree.n_nodes, int)  # of the subtree as pruned so far
        below: list[list[int]] = [[] if t < tree.n_branches else [t] for t in range(tree.n_nodes)]
        for t in range(tree.n_nodes - 1, -1, -1):
            if t < tree.n_branches:
                rows_of[t] = np.concatenate([rows_of.pop(int(kid)) for kid in tree.children[t]])
            rows = rows_of[t]
            w, y = problem.w[rows], target[rows]
            error[t] = np.sum(w[:, None] * (y - self._fitted(problem, rows, w, y)) ** 2)
            if t >= tree.n_branches:
                continue
            kids = tree.children[t]
            below[t] = below[kids[0]] + below[kids[1]]
            n_leaves[t] = n_leaves[kids].sum()
            bound = self.price * 2 * (problem.n_features + 1) * (n_leaves[t] - 1) / rows.size
            if error[kids].sum() < np.exp(-bound) * error[t]:
                error[t] = error[kids].sum()
            else:
                stays[below[t][1:]] = False
                below[t], n_leaves[t] = below[t][:1], 1
        return problem.fit_leaves(tree.keep(stays[tree.n_branches :]))

    def _ridge(self, problem: TreeProblem, rows: Rows, w: Floats, t: Floats) -> tuple[Floats, Floats]:
        """Ridge models of ``t (m, K)``: intercepts (K,) and weights (K, p)."""
        value, coef = np.zeros(t.shape[1]), np.zeros((t.shape[1], problem.n_features))
        fit_linear(problem.X, rows, w, t, 0.0, self.ridge * w.sum(), value, coef)
        return value, coef

    def _fitted(self, problem: TreeProblem, rows: Rows, w: Floats, t: Floats) -> Floats:
        """Fitted values (m, K) of the ridge models."""
        value, coef = self._ridge(problem, rows, w, t)
        return np.stack([project(problem.X, rows, c) for c in coef], axis=1) + value

    def _directions(self, problem: TreeProblem, rows: Rows, w: Floats, residual: Floats, rng: Rng) -> Iterator[Floats]:
        for signal in (np.abs(residual), residual**2):
            yield self._ridge(problem, rows, w, signal[:, None])[1][0]
        for _ in range(self.n_random):
            yield rng.normal(size=problem.n_features)
