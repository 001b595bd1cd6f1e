"""`HRT`, the hinge regression tree: at each node the larger or the smaller of two linear functions, by Newton steps."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.random import Generator as Rng

from opttree.kernels.hard import project
from opttree.kernels.leaves import fit_linear
from opttree.options import option
from opttree.problems import TreeProblem
from solvers.initial.base import Floats, Growth, Initial, Rows, Split, grow, weighted_quantile

SMALLEST_STEP = 1e-3
LEAST_DESCENT = 1e-8  # of the root mean square error, by which a shorter step is taken


@dataclass(frozen=True)
class HRT(Initial):
    """Hinge regression tree (ICLR 2026, arXiv 2602.05371), top-down, with linear leaves.

    A node's rows are divided at the median of the first feature that varies. Then, for the larger of two linear
    functions and for the smaller one: rows belong to the function that is larger (smaller) there; each function moves
    by ``step`` of the way to the least-squares solution of its rows, a damped Newton step; until no row changes side.
    Where two functions differ by nothing lies the split. The better of the two hinges is taken.

    Unlike in the authors' program, a node for which no hinge has enough rows on either side is split at that median,
    as the paper says, and leaves are those of the statement: with its penalties, and clipped unless ``clip`` is False.
    """

    step: float | Literal["auto"] = option(
        "auto",
        """Share of the way to the least-squares solution, or "auto": 1, halved until the error is lower, so that it
        falls monotonically.""",
        test=lambda step: step == "auto" or 0.0 < step <= 1.0,
        words='"auto" or a number above 0, at most 1',
    )
    max_iter: int = option(100, "Largest number of steps at a node.", least=1)
    ridge: float = option(1e-2, "Added to the diagonal of the normal equations of a node's rows.", least=0)
    min_rows: int = option(5, "Fewest rows on either side, and at least ``p + 1``.", least=1)
    tolerance: float = option(
        0.0, "A node of at most this root mean square error around its linear function becomes a leaf.", least=0
    )
    clip: bool = option(False, "Clip leaves to the ranges of y and of the fitted values on their rows.")

    def supports(self, problem: TreeProblem) -> str | None:
        """Oblique splits, linear leaves, squared loss, one output."""
        if problem.splits == "axis" or problem.leaves == "constant" or problem.loss != "squared":
            return "hinges are oblique splits between linear leaves under squared loss"
        return "a hinge is fitted to one output" if problem.n_outputs > 1 else None

    def growth(self, problem: TreeProblem, rng: Rng) -> Growth:
        """Yields the tree of one leaf, in case of a time limit, then the grown tree with fitted leaves."""
        yield problem.one_leaf()
        fewest = max(self.min_rows, problem.n_features + 1, problem.min_leaf)

        def split(rows: Rows, depth: int) -> Generator[None, None, Split | None]:
            if rows.size < 2 * fewest:
                return None
            if self.tolerance and Hinge.whole(self, problem, rows) <= self.tolerance:
                return None
            first = median_cut(problem, rows)
            if first is None:
                return None
            best, least = first, np.inf
            for sign in (1.0, -1.0):
                hinge = Hinge(self, problem, rows, sign, fewest)
                if not hinge.begin(first):
                    continue
                for _ in range(self.max_iter):
                    yield
                    if not hinge.move():
                        break
                if hinge.error < least and hinge.boundary[0].any():
                    best, least = hinge.boundary, hinge.error
            left = int(np.count_nonzero(project(problem.X, rows, best[0]) <= best[1]))
            return best if min(left, rows.size - left) >= fewest else None

        tree = yield from grow(problem, split)
        tree = problem.fit_leaves(tree, min_rows=problem.n_features + 1)
        yield tree if self.clip else replace(tree, lower=None, upper=None)


def median_cut(problem: TreeProblem, rows: Rows) -> Split | None:
    """The cut at the median of the first feature that varies among ``rows``."""
    for j in range(problem.n_features):
        values = problem.X[rows, j]
        if np.ptp(values) > 0.0:
            return np.eye(problem.n_features)[j], weighted_quantile(values, problem.w[rows])
    return None


class Hinge:
    """Two linear functions on the rows of a node; ``sign`` 1: their maximum, -1: their minimum.

    Attributes
    ----------
    boundary : weights and threshold of the split, of unit length; the first function's side is the left one.
    error : root of the weighted mean square.
    """

    def __init__(self, options: HRT, problem: TreeProblem, rows: Rows, sign: float, fewest: int) -> None:
        self.options, self.problem, self.rows, self.sign, self.fewest = options, problem, rows, sign, fewest
        self.w = problem.w[rows] * (rows.size / problem.w[rows].sum())
        self.y = problem.Y[rows, 0]
        self.functions = np.zeros((2, problem.n_features + 1))  # weights, constant
        self.error = np.inf

    @staticmethod
    def whole(options: HRT, problem: TreeProblem, rows: Rows) -> float:
        """The error of one linear function on all rows."""
        hinge = Hinge(options, problem, rows, 1.0, 1)
        function = hinge._least_squares(np.ones(rows.size, bool))
        return hinge._root(hinge._values(function))

    def begin(self, cut: Split) -> bool:
        """Fit both sides of ``cut``; whether the hinge then has enough rows on either side."""
        left = project(self.problem.X, self.rows, cut[0]) <= cut[1]
        if not self._enough(left):
            return False
        functions = np.stack([self._least_squares(side) for side in (left, ~left)])
        return self._take(functions, np.inf)

    def move(self) -> bool:
        """A damped Newton step; False at the end: no row changes side, or no step is better."""
        left = self.left
        target = np.stack([self._least_squares(side) for side in (left, ~left)])
        if self.options.step != "auto":
            taken = self._take(self.functions + self.options.step * (target - self.functions), np.inf)
            return taken and (self.options.step < 1.0 or not np.array_equal(left, self.left))
        share = 1.0
        while share >= SMALLEST_STEP:
            if self._take(self.functions + share * (target - self.functions), self.error - LEAST_DESCENT):
                return not np.array_equal(left, self.left)
            share /= 2.0
        return False

    @property
    def boundary(self) -> Split:
        """The split where the functions are equal."""
        difference = self.sign * (self.functions[1] - self.functions[0])
        length = np.linalg.norm(difference[:-1]) or 1.0
        return difference[:-1] / length, -float(difference[-1] / length)

    def _take(self, functions: Floats, most: float) -> bool:
        """Take ``functions`` if they leave enough rows on either side and their error is below ``most``."""
        first, second = (self._values(function) for function in functions)
        left = self.sign * (second - first) <= 0.0
        if not self._enough(left):
            return False
        error = self._root(np.where(left, first, second))
        if not error < most:
            return False
        self.functions, self.left, self.error = functions, left, error
        return True

    def _enough(self, left: np.ndarray) -> bool:
        count = int(np.count_nonzero(left))
        return min(count, left.size - count) >= self.fewest

    def _least_squares(self, side: np.ndarray) -> Floats:
        """Ridge regression on the rows of one side."""
        value, coef = np.zeros(1), np.zeros((1, self.problem.n_features))
        fit_linear(
            self.problem.X, self.rows[side], self.w[side], self.y[side][:, None], 0.0, self.options.ridge, value, coef
        )
        return np.append(coef[0], value)

    def _values(self, function: Floats) -> Floats:
        return project(self.problem.X, self.rows, function[:-1]) + function[-1]

    def _root(self, values: Floats) -> float:
        return float(np.sqrt(np.mean(self.w * (self.y - values) ** 2)))
