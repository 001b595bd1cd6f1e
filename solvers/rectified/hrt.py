"""`HRT`, the hinge regression tree: at each node the larger or the smaller of two linear functions, by Newton steps."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.random import Generator as Rng

from opttree.kernels.routing import goes_left, project
from opttree.model.tree import Tree
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from opttree.tables.weights import n_rows
from opttree.wide.leaves import fit_linear
from solvers.core.base import Step, Steps
from solvers.initial.base import Floats, Growth, Initial, Rows, Split, grow, weighted_quantile

SMALLEST_STEP = 1e-3
LEAST_DESCENT = 1e-8  # of the error, by which it must fall


@dataclass(frozen=True)
class HRT(Initial):
    """Hinge regression tree (ICLR 2026, arXiv 2602.05371), top-down, with linear leaves.

    A node's rows are divided at the median of the first feature whose median leaves enough rows on either side. Then,
    for the larger of two linear functions and for the smaller one: rows belong to the function that is larger (smaller)
    there; each function moves by ``step`` of the way to the least-squares solution of its rows, a damped Newton step;
    until no row changes side and the error falls no further. Where two functions differ by nothing lies the split. The
    better of the two hinges is taken, where its error was least.

    Choices of ours, where the paper and its authors' program differ: the program begins with small changes of one
    linear function instead of a cut at the median, and the paper keeps that cut where the steps have not settled after
    ``max_iter`` (here the best of them is kept, and the cut where no step leaves enough rows on either side). Leaves
    are those of the statement, with its penalties; a tree of one leaf is the result if its objective is lower. At a
    time limit the nodes that are not yet split become leaves.

    See Also
    --------
    opttree.HRTRegressor : the estimator

    References
    ----------
    "Hinge regression tree: a Newton method for oblique regression tree splitting", ICLR 2026, arXiv 2602.05371.

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import HRT, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2, leaves="linear")
    >>> result = solve(problem, HRT(), random_state=0)
    >>> result.objective < problem.objective(problem.best_constant())
    True
    """

    step: float | Literal["auto"] = option(
        "auto",
        """Share of the way to the least-squares solution, or "auto": 1, halved until the error is lower, so that it
        falls monotonically.""",
        test=lambda step: step == "auto" or 0.0 < step <= 1.0,
        words='"auto" or a number above 0, at most 1',
    )
    max_iter: int = option(100, "Largest number of steps at a node.", least=1)
    ridge: float = option(
        1e-2,
        """Added to the diagonal of the normal equations of a node's rows, which have the sample weights, scaled up to a
        mean of one if they are less.""",
        least=0,
    )
    min_rows: int = option(5, "Fewest rows on either side, and at least ``p + 1``.", least=1)
    tolerance: float = option(
        0.0, "A node of at most this root mean square error around its linear function becomes a leaf.", least=0
    )
    clip: bool = option(False, "Clip leaves to the ranges of y and of the fitted values on their rows.")

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes oblique splits, linear leaves, squared loss, one output."""
        if problem.splits == "axis" or problem.leaves == "constant" or problem.loss_function.form != "quadratic":
            return "hinges are oblique splits between linear leaves under squared loss"
        return "a hinge is fitted to one output" if problem.n_outputs > 1 else problem.float32_refusal

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """The start tree if there is one, a leaf, and the tree."""
        if start is not None:
            yield Step(start, phase="start")
        return (yield from super().steps(problem, start, rng))

    def growth(self, problem: TreeProblem, rng: Rng) -> Growth:
        """Yields the tree of one leaf, in case of a time limit, then the grown tree with fitted leaves."""
        yield self._bounded(problem.one_leaf())
        fewest = max(self.min_rows, problem.n_features + 1, problem.min_leaf)

        def split(rows: Rows, depth: int) -> Generator[None, None, Split | None]:
            if rows.size < 2 * fewest:
                return None
            if self.tolerance and Hinge.whole(self, problem, rows) <= self.tolerance:
                return None
            first = median_cut(problem, rows, fewest)
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
                if hinge.least < least and hinge.boundary[0].any():
                    best, least = hinge.boundary, hinge.least
            left = int(np.count_nonzero(goes_left(problem.X, best[0], best[1], rows)))
            return best if min(left, rows.size - left) >= fewest else None

        tree = yield from grow(problem, split)
        yield self._bounded(problem.fit_leaves(tree, min_rows=problem.n_features + 1))

    def _bounded(self, tree: Tree) -> Tree:
        return tree if self.clip else replace(tree, lower=None, upper=None)


def median_cut(problem: TreeProblem, rows: Rows, fewest: int) -> Split | None:
    """The cut at the median of the first feature of which it leaves at least ``fewest`` of ``rows`` on either side."""
    for j in range(problem.n_features):
        values = problem.X[rows, j]
        if np.ptp(values) > 0.0:
            cut = weighted_quantile(values, problem.w[rows])
            left = int(np.count_nonzero(values <= cut))
            if min(left, rows.size - left) >= fewest:
                return np.eye(problem.n_features)[j], cut
    return None


class Hinge:
    """Two linear functions on the rows of a node; ``sign`` 1: their maximum, -1: their minimum.

    Attributes
    ----------
    error : float
        Root of the weighted mean square.
    best, least : ndarray of shape (2, p + 1), float
        The functions of least error so far, and that error.
    boundary : tuple[ndarray of shape (p,), float]
        Weights and threshold of their split, of unit length; the first function's side is the left one.
    """

    def __init__(self, options: HRT, problem: TreeProblem, rows: Rows, sign: float, fewest: int) -> None:
        self.options, self.problem, self.rows, self.sign, self.fewest = options, problem, rows, sign, fewest
        self.w = problem.w[rows] * n_rows(np.asarray(problem.sample_weight))
        self.y = problem.Y[rows, 0]
        self.functions = self.best = np.zeros((2, problem.n_features + 1))  # weights, constant
        self.error = self.least = np.inf

    @staticmethod
    def whole(options: HRT, problem: TreeProblem, rows: Rows) -> float:
        """The error of one linear function on all rows."""
        hinge = Hinge(options, problem, rows, 1.0, 1)
        function = hinge._least_squares(np.ones(rows.size, bool))
        return hinge._root(hinge._values(function))

    def begin(self, cut: Split) -> bool:
        """Fit both sides of ``cut``; whether the hinge then has enough rows on either side."""
        left = goes_left(self.problem.X, cut[0], cut[1], self.rows)
        if not self._enough(left):
            return False
        functions = np.stack([self._least_squares(side) for side in (left, ~left)])
        return self._take(functions, np.inf)

    def move(self) -> bool:
        """A damped Newton step; False at the end: no row changes side and the error falls no further, or no step is
        better.
        """
        left, before = self.left, self.error
        target = np.stack([self._least_squares(side) for side in (left, ~left)])
        if self.options.step != "auto":
            taken = self._take(self.functions + self.options.step * (target - self.functions), np.inf)
            settled = self.options.step == 1.0 or before - self.error <= LEAST_DESCENT * before
            return taken and not (settled and np.array_equal(left, self.left))
        share = 1.0
        while share >= SMALLEST_STEP:
            if self._take(self.functions + share * (target - self.functions), (1.0 - LEAST_DESCENT) * self.error):
                return not np.array_equal(left, self.left)
            share /= 2.0
        return False

    @property
    def boundary(self) -> Split:
        """The split where the functions are equal."""
        difference = self.sign * (self.best[1] - self.best[0])
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
        if error < self.least:
            self.best, self.least = functions, error
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
        return float(np.sqrt(np.sum(self.w * (self.y - values) ** 2) / self.w.sum()))
