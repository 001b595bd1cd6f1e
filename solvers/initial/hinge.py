"""Hinge splits for linear leaves: Breiman's hinging hyperplanes (IEEE Trans. Inf. Theory 39, 1993), recursively."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels.passes import hinges
from opttree.kernels.routing import goes_left, project
from opttree.model.tree import Tree
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from opttree.wide.leaves import fit_linear, ridge_by_sums, takes
from opttree.wide.rows import part_of
from solvers.initial.base import Floats, Growth, Initial, Rows, Split, grown, weighted_quantile

LARGE = 1e9  # rows times squares of features and outputs, from which the first tree is a constant
WORK = 30_000_000  # rows times squares of features, from which the clock is looked at after each move


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
    wants_zero = True

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
        """Yields a tree of one leaf, in case of a time limit, then the grown tree with fitted leaves."""
        size = float(problem.n_samples) * (problem.n_outputs * problem.n_features) ** 2
        yield problem.one_leaf() if size < LARGE else problem.best_constant()
        target = np.eye(problem.n_outputs)[problem.Y[:, 0].astype(int)] if problem.is_classification else problem.Y
        fewest = max(self.min_rows or 2 * (problem.n_features + 1), problem.min_leaf)

        def split(rows: Rows, depth: int) -> Generator[None, None, Split | None]:
            if rows.size < 2 * fewest:
                return None
            node = _node(problem, rows, problem.w[rows] / problem.w[rows].sum(), self.ridge)
            t = target[rows]
            if t.shape[1] > 1:
                residual = (t - node.answers(t)) * np.sqrt(node.w)[:, None]
                t = t @ np.linalg.eigh(residual.T @ residual)[1][:, -1:]
            residual = (t - node.answers(t))[:, 0]
            best = np.append(np.zeros(problem.n_features + 1), np.sum(node.w * residual**2))
            for direction in self._directions(node, residual, rng):
                boundary = np.append(direction, weighted_quantile(project(problem.X, rows, direction), node.w))
                yield from node.move(np.ascontiguousarray(t[:, 0]), boundary, self.n_moves, fewest, best)
            if not best[:-2].any():
                return None
            scale = float(np.linalg.norm(best[:-2]))
            return best[:-2] / scale, best[-2] / scale

        tree, _leaf = yield from grown(problem, split)
        yield self._prune(problem, problem.enforce_min_leaf(tree), target)

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
            error[t] = np.sum(w[:, None] * (y - _node(problem, rows, w, self.ridge).answers(y)) ** 2)
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

    def _directions(self, node: _Node, residual: Floats, rng: Rng) -> Iterator[Floats]:
        for signal in (np.abs(residual), residual**2):
            yield node.models(signal[:, None])[0, :-1]
        for _ in range(self.n_random):
            yield rng.normal(size=node.X.shape[1])


class _Node:
    """The rows of a node, with the ridge models of outcomes on them."""

    def __init__(self, X: Any, rows: Rows, w: Floats, ridge: float) -> None:
        self.X, self.rows, self.w, self.ridge = X, rows, w, ridge

    def models(self, T: Floats, some: Any = slice(None)) -> Floats:
        """(K, p + 1) weights and constants for the columns of ``T (m, K)``, on ``some`` of the rows."""
        value, coef = np.zeros(T.shape[1]), np.zeros((T.shape[1], self.X.shape[1]))
        w = self.w[some]
        fit_linear(self.X, self.rows[some], w, T[some], 0.0, self.ridge * w.sum(), value, coef)
        return np.column_stack([coef, value])

    def sides(self, t: Floats, right: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """The models of the rows on the left and on the right."""
        left, of_right = (self.models(t[:, None], side)[0] for side in (~right, right))
        return left, of_right

    def answers(self, T: Floats) -> Floats:
        """(m, K) what the models answer."""
        models = self.models(T)
        return np.stack([project(self.X, self.rows, v[:-1]) for v in models], axis=1) + models[:, -1]

    def move(self, t: Floats, boundary: Floats, moves: int, fewest: int, best: Floats) -> Iterator[None]:
        """`opttree.kernels.passes.hinges.move_boundary`, for tables of any kind and width."""
        w = self.w
        for _ in range(moves):
            yield
            right = ~goes_left(self.X, boundary[:-1], boundary[-1], self.rows)
            if min(right.sum(), (~right).sum()) < fewest:
                return
            low, high = self.sides(t, right)
            on_low, on_high = (project(self.X, self.rows, v[:-1]) + v[-1] for v in (low, high))
            error = float(np.sum(w * (t - np.where(right, on_high, on_low)) ** 2))
            if error < best[-1]:
                best[:] = np.append(boundary, error)
            # the right side is where its model is larger (max) or smaller (min)
            convex = np.sum(w * (t - np.maximum(on_low, on_high)) ** 2)
            concave = np.sum(w * (t - np.minimum(on_low, on_high)) ** 2)
            sign = 1.0 if convex <= concave else -1.0
            boundary[:] = sign * np.append(high[:-1] - low[:-1], low[-1] - high[-1])


class _DenseNode(_Node):
    """The same for few features of a dense table, compiled: one Gram matrix for all outcomes."""

    def __init__(self, X: Any, rows: Rows, w: Floats, ridge: float) -> None:
        super().__init__(X, rows, w, ridge)
        self.gram = hinges.gram_of(X, rows, w)

    def models(self, T: Floats, some: Any = slice(None)) -> Floats:
        found: Floats = hinges.ridge_models(self.X, self.rows, self.w, T, self.gram, self.ridge)
        return found

    def move(self, t: Floats, boundary: Floats, moves: int, fewest: int, best: Floats) -> Iterator[None]:
        at_once = moves if self.rows.size * self.X.shape[1] ** 2 < WORK else 1
        for _ in range(0, moves, at_once):
            yield
            given = self.X, self.rows, self.w, t, self.gram, boundary
            if not hinges.move_boundary(*given, at_once, fewest, self.ridge, best):
                return


class _WideNode(_Node):
    """The same for many features and more rows: of the two sides only the smaller one's sums are formed."""

    def __init__(self, X: Any, rows: Rows, w: Floats, ridge: float) -> None:
        super().__init__(X, rows, w, ridge)
        self.sums = part_of(X, rows).gram(w, np.arange(X.shape[1]))

    def models(self, T: Floats, some: Any = slice(None)) -> Floats:
        return self._solved(self.sums, part_of(self.X, self.rows).moments(self.w, T))

    def sides(self, t: Floats, right: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        few = right if right.sum() <= right.size / 2 else ~right
        part, w, T = part_of(self.X, self.rows[few]), self.w[few], t[:, None]
        sums, moments = part.gram(w, np.arange(part.p)), part.moments(w, T[few])
        rest = part_of(self.X, self.rows).moments(self.w, T) - moments
        own, other = self._solved(sums, moments)[0], self._solved(self.sums - sums, rest)[0]
        return (other, own) if few is right else (own, other)

    def _solved(self, sums: Floats, moments: Floats) -> Floats:
        return np.column_stack(ridge_by_sums(sums, moments, self.ridge * sums[-1, -1]))


def _node(problem: TreeProblem, rows: Rows, w: Floats, ridge: float) -> _Node:
    if not (problem.is_sparse or takes(problem.n_features, 1)):
        kind: type[_Node] = _DenseNode
    else:
        kind = _Node if problem.is_sparse or rows.size <= 2 * problem.n_features else _WideNode
    return kind(problem.X, rows, w, ridge)
