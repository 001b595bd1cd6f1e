"""The statement as branch and bound over all thresholds takes it: ranks, statistics of rows, costs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numba.core.errors import NumbaError, UnsupportedBytecodeError
from numpy.typing import NDArray

from opttree.kernels.exact import statistics, vectors
from opttree.kernels.exact.buckets import BUCKETS
from opttree.kernels.losses import codes
from opttree.kernels.losses.deviance import gamma_parts, poisson_parts
from opttree.kernels.passes.thresholds import between
from opttree.model.tree import Tree
from opttree.problems.exact.leaves import fit_exact_leaves
from opttree.runtime.options import Checked, option
from opttree.statement.constraints import Constraint, ForbidSplit, MaxSplits
from opttree.statement.losses.base import MEANING
from opttree.statement.losses.positive import LEAST, SMALLEST
from opttree.statement.penalties import L1, L2, SplitPrice
from opttree.statement.problem import TreeProblem

Floats = NDArray[np.float64]
SLACK = 1e-11  # relative to the cost of one leaf: costs this close count as equal
NOISE = 0.1  # of the slack: rounding errors of a cost
MOST_WORDS = 50_000_000  # numbers in X, up to which 0/1 loss is by words of 64 rows
MOST_PRODUCTS = 2**27  # numbers in a histogram of linear leaves, and in the statistics of rows: a gibibyte
# below these shares of all weight, and of n log n, whole numbers of 60 bits for weights of classes and for the log loss
# of a leaf are too coarse
LIGHTEST, SUREST = 1e-6, 1e-3
ROUNDING = 1e-14  # of a sum of terms of which others are subtracted
BY_ORDER, POSITIVE = ("absolute", "quantile", "huber"), ("poisson", "gamma", "exponential")
CODES = {
    "poisson": codes.POISSON,
    "gamma": codes.GAMMA,
    "exponential": codes.EXPONENTIAL,
    "quantile": codes.ABSOLUTE,
    "huber": codes.HUBER,
    "own": codes.OWN,
}
OWN_SLACK, OWN_AGREES, DRAWS = 1e-9, 1e-6, 20  # of one leaf's cost; relative; random sets of rows that are tried
OWN_NOISE = 1e-9  # of the sums of statistics, in size
WIDEST = 1e-280  # the least positive outcome, of the largest
WHOLE = 0.5  # whole numbers of errors that differ by less are equal


def equal_rows(ranks: NDArray[np.int32]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first of each set of equal columns of ``ranks (p, n)``, in lexicographic order, and the set (n,) of each."""
    mixed = np.zeros(ranks.shape[1], np.uint64)
    for column in ranks:  # equal columns have equal hashes
        mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    _hash, first, group = np.unique(mixed, return_index=True, return_inverse=True)
    if first.size == mixed.size:
        return np.arange(mixed.size), np.arange(mixed.size)
    if not all(np.array_equal(column, column[first[group]]) for column in ranks):  # two sets of one hash
        _columns, first, group = np.unique(ranks, axis=1, return_index=True, return_inverse=True)
        return first, group
    order = np.lexsort(ranks[::-1, first])
    place = np.empty(order.size, np.intp)
    place[order] = np.arange(order.size)
    return first[order], place[group]


@cache
def _compiled(cost: Any) -> Any:
    """A user's function of sums, compiled once."""
    return statistics.compiled(cost)


def _most_entropy(w: Floats) -> Floats:
    """(n,) what a row of each weight adds at most to n log n less the same of the classes, for rows of these weights:
    that of the first row of a class, beside all others.
    """
    total = float(w.sum())
    left = total - w
    return total * np.log(total) - left * np.log(np.maximum(left, 1e-300)) - w * np.log(np.maximum(w, 1e-300))


def _is_stated(constraint: Constraint) -> bool:
    """Whether the search keeps to a side constraint."""
    return isinstance(constraint, MaxSplits) or (isinstance(constraint, ForbidSplit) and constraint.where is None)


@dataclass(frozen=True, eq=False)
class ExactTreeProblem(Checked):
    """An axis-aligned `TreeProblem` over all thresholds between neighbouring values.

    Leaves are constant, or linear under squared loss; linear ones are fitted in every leaf and are not clipped, as in
    `MIPTreeProblem`: ridge regressions with the problem's `L2` on leaves, without one solutions of least norm, in which
    a feature that depends on others to ten digits counts as dependent.

    Costs are in units of the rows' weight, ``unit``, so that the errors of rows of equal weight are whole numbers:
    objective = ``unit`` times cost, plus what no tree spares, `opttree.losses.Loss.least`. Rows with equal features are
    one row, unless ``min_leaf`` counts them, the loss is absolute, or costs are numbers of errors.

    Raises
    ------
    ValueError
        For a statement that has no such form.

    See Also
    --------
    solvers.BranchAndBound : searches it
    MIPTreeProblem : the statement as a program

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 2))
    >>> y = np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0)
    >>> from opttree import ExactTreeProblem
    >>> exact = ExactTreeProblem(TreeProblem(X, y, depth=2, splits="axis"))
    >>> exact.refusal(exact.problem) is None, exact.refusal(TreeProblem(X, y, depth=2))
    (True, 'its splits are oblique; branch and bound over thresholds is for axis-aligned ones')
    """

    problem: TreeProblem = option(doc="The statement; see `refusal`.")
    max_splits: int | None = option(None, "Largest number of branch nodes, or None.", least=0)
    allowed: Any = option(
        None,
        """Boolean array of shape (2^depth - 1, p): whether a node, in heap order, may split on a feature; None: all may
        on all.""",
    )
    splits_root: bool = option(False, "Whether the root must split.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if (reason := self.refusal(self.problem)) is not None:
            raise ValueError(f"problem has no exact search: {reason}")

    @staticmethod
    def refusal(problem: TreeProblem) -> str | None:
        """Reason why a problem has no such form.

        Parameters
        ----------
        problem : TreeProblem
            The problem.

        Returns
        -------
        str or None
            One sentence, or None.
        """
        if problem.splits != "axis":
            return "its splits are oblique; branch and bound over thresholds is for axis-aligned ones"
        other = next((c for c in problem.constraints if not _is_stated(c)), None)
        if other is not None:
            return f"it has the side constraint {other!r}; the search states MaxSplits, and ForbidSplit of all levels"
        loss = problem.loss_function
        own = loss.form is None and loss.additive is None
        if own and (reason := loss.refusal("statistics")) is not None:
            return reason
        if own and problem.n_outputs > 1 and not loss.joint:
            return f"its loss {loss!r} has statistics of one output; there are {problem.n_outputs}"
        if loss.additive in ("gamma", "exponential"):
            size = np.abs(problem.Y)
            if np.any(size.min(axis=0) < WIDEST * size.max(axis=0)):
                return f"its outcomes reach from {size.min():g} to {size.max():g}, over more than 280 powers of ten"
        if problem.leaves == "linear" and problem.loss_function.form != "quadratic":
            return (
                f"its leaves are linear under loss {problem.loss!r}, and they have an exact search under squared loss"
            )
        if problem.leaves == "linear" and problem.strength(L1, "leaves"):
            return "its linear leaves have an l1 penalty; the exact search has ridge leaves, see L2(leaves=...)"
        if problem.leaves == "linear":
            width = problem.n_features + 1 + problem.n_outputs
            if max(BUCKETS * problem.n_features, problem.n_samples) * (width * (width + 1) // 2) > MOST_PRODUCTS:
                return f"the products of {problem.n_features} features that its linear leaves need take too much memory"
        for penalty in problem.penalties:
            if not isinstance(penalty, (L1, L2, SplitPrice)):
                return f"the penalty {penalty!r} is not known to be a price of splits"
        return None

    @cached_property
    def ranks(self) -> NDArray[np.int32]:
        """(p, n) number of each row's value among those of a feature; 0 for all rows where no split is allowed."""
        forbidden = [c.feature for c in self.problem.constraints if isinstance(c, ForbidSplit)]
        if self.allowed is not None:
            forbidden += np.flatnonzero(~self.allowed.any(axis=0)).tolist()
        if not forbidden:
            return self.problem.ranks
        ranks = self.problem.ranks.copy()
        ranks[forbidden] = 0
        return ranks

    @property
    def n_splits(self) -> int:
        """The largest number of splits of a tree."""
        limits = (2**self.problem.depth - 1, self.max_splits, self.problem.max_splits)
        return min(limit for limit in limits if limit is not None)

    @property
    def by_buckets(self) -> bool:
        """Whether the statistics of rows add up to the cost of a leaf, so that histograms serve the two last levels."""
        return self._form not in BY_ORDER

    @cached_property
    def unit(self) -> float:
        """The objective of cost 1: the weight of each row if all are equal, else their mean weight."""
        w = self.problem.w
        return float(w[0]) if self._equal_weights else float(w.mean())

    @property
    def is_whole(self) -> bool:
        """Whether all costs are whole numbers: errors of rows of equal weight, without a price of splits."""
        return self._form == "errors" and self._equal_weights and not self.problem.price_per_split

    @property
    def counts_errors(self) -> bool:
        """Whether costs are numbers of errors, but for the price of splits, and the search is by bits of rows."""
        return self._form == "errors" and self._equal_weights and self.problem.X.size <= MOST_WORDS

    @cached_property
    def by_words(self) -> bool:
        """Whether costs depend on numbers of rows of each class, but for the price of splits, so that words of 64 rows
        serve the two last levels: errors, where the rows of a class have one weight, and the log loss, where all have.
        """
        problem, total = self.problem, float(np.sum(self.problem.w))
        if self.counts_errors or not problem.is_classification or problem.X.size > MOST_WORDS:
            return self.counts_errors
        if self._form == "errors":
            weights = self.class_weights
            precise = weights is not None and bool(np.min(weights[weights > 0.0]) > LIGHTEST * total)
        else:
            leaf = problem.objective(problem.best_constant())
            precise = leaf > SUREST * total * float(np.log(problem.n_samples))
            precise = precise and self._form == "entropy" and self._equal_weights
        if self._form == "entropy" and problem.n_samples * codes.SMALLEST_PROBABILITY > 1.0:  # whose loss has a limit
            return False
        return precise and 2 * len(equal_rows(self.ranks)[0]) > problem.n_samples

    @cached_property
    def class_weights(self) -> Floats | None:
        """(K,) the weight of each row of a class, in classification; None if they are not one."""
        label, w = self.problem.Y[:, 0].astype(np.intp), self.problem.w
        found = np.zeros(self.problem.n_outputs)
        found[label] = w
        return found if np.array_equal(found[label], w) else None

    @property
    def _form(self) -> str | None:
        loss = self.problem.loss_function
        return loss.form or loss.additive or "own"

    @cached_property
    def _equal_weights(self) -> bool:
        return bool(np.all(self.problem.w == self.problem.w[0]))

    @cached_property
    def kernel(self) -> Any:
        """The `opttree.kernels.exact.statistics.Problem`."""
        problem, ranks = self.problem, self.ranks
        rows, most = self.rows
        if problem.min_leaf == 1 and self.by_buckets and not self.by_words:
            first, group = equal_rows(ranks)
            if first.size < len(rows):
                merged = np.zeros((first.size, rows.shape[1]))
                np.add.at(merged, group, rows)
                rows, ranks, most = merged, ranks[:, first], np.bincount(group, most).astype(np.float64)
        leaf = self.cost(problem.objective(problem.best_constant()))
        slack = WHOLE if self.is_whole else SLACK * leaf
        if self._form in POSITIVE:
            slack += ROUNDING * float(rows[:, 2].sum())
        if self._form == "huber":
            slack += ROUNDING * float(np.sum(rows[:, [1]] * rows[:, 2:] ** 2))
        if self._form == "own":
            slack = OWN_SLACK * leaf
        return statistics.Problem(
            np.ascontiguousarray(ranks),
            rows,
            most,
            self.leaf,
            problem.price_per_split / self.unit,
            problem.min_leaf,
            slack,
            self.is_whole,
            self.by_words,
            np.ones((0, problem.n_features), np.bool_) if self.allowed is None else self.allowed,
        )

    @cached_property
    def rows(self) -> tuple[Floats, Floats]:
        """(n, S) the statistics of the rows, weights in units of `unit`; (n,) what each adds to the cost of a set of
        rows at most.
        """
        problem, w = self.problem, self.problem.w / self.unit
        n = problem.n_samples
        most: Any = np.full(n, np.inf)
        if problem.is_classification:
            rows: Floats = np.zeros((n, 1 + problem.n_outputs))
            rows[np.arange(n), 1 + problem.Y[:, 0].astype(int)] = w
            most = w if self._form == "errors" else _most_entropy(w)
        elif self._form == "own":
            rows = np.column_stack([np.ones(n), w[:, None] * self._own])
        elif self._form in POSITIVE:
            rows = self._positive(w)
        else:
            Y = problem.Y - np.sum(problem.w[:, None] * problem.Y, axis=0)
            farthest = np.maximum(Y - Y.min(axis=0), Y.max(axis=0) - Y)
            if self._form in BY_ORDER:
                rows = np.column_stack([np.ones(n), w, Y])
                most = w * problem.loss_function.value(farthest, 0.0 * farthest).sum(axis=1)
                if self._form == "quantile":
                    most *= max(self._shape) / self._shape[0]
            elif problem.leaves == "linear":
                rows = self._products(Y, w)
            else:
                rows = np.column_stack([np.ones(n), w, w * np.square(Y).sum(axis=1), w[:, None] * Y])
                most = w * np.square(farthest).sum(axis=1)
        rows[:, 0] = 1.0
        return np.pad(rows, ((0, 0), (0, -rows.shape[1] % vectors.WIDTH))), most

    @cached_property
    def leaf(self) -> Any:
        """The `opttree.kernels.exact.statistics.Leaf`."""
        code = CODES.get(str(self._form), self.problem.loss_code)
        n_outputs = self._own.shape[1] if self._form == "own" else self.problem.n_outputs
        ridge = np.zeros(0)
        if self.problem.leaves == "linear":
            ridge = self.problem.strength(L2, "leaves") / self.unit / np.square(self._scale)
        return statistics.Leaf(code, ridge, n_outputs, self._shape)

    @property
    def _shape(self) -> Floats:
        """(2,) as in `opttree.kernels.exact.statistics.Leaf`."""
        loss: Any = self.problem.loss_function
        if self._form == "huber":
            return np.array([loss.delta, 0.0])
        if self._form in POSITIVE:
            y = self.problem.Y
            least = max(SMALLEST * float(np.abs(y).max()), LEAST) / float(self._positive_unit.min())
            return np.array([least, 0.0])
        if self._form == "own":
            return np.array([self._own_cost.address, 0]).view(np.float64)
        return np.array([loss.q, 1.0 - loss.q]) if self._form == "quantile" else np.ones(2)

    @cached_property
    def _own(self) -> Floats:
        """(n, S) statistics of a loss of the user's own, after some random sets of rows have been tried.

        Raises
        ------
        ValueError
            If its cost is not that of the best constant, is negative, or less than those of two parts.
        """
        problem, loss, w = self.problem, self.problem.loss_function, self.problem.w
        self._own_cost  # noqa: B018  said first, where it does not compile
        y = problem.Y if loss.joint else problem.Y[:, 0]
        found = np.asarray(loss.statistics(y), np.float64).reshape(len(y), -1)
        rng, used = np.random.default_rng(0), np.flatnonzero(w)

        def cost(rows: NDArray[np.intp]) -> float:
            return float(loss.cost(w[rows] @ found[rows])) if rows.size else 0.0

        for _ in range(DRAWS):
            rows = rng.permutation(used)[: rng.integers(1, used.size + 1)]
            part = rng.integers(rows.size + 1)
            whole, parts = cost(rows), cost(rows[:part]) + cost(rows[part:])
            best = loss.constants(problem.Y, w, rows, np.array([0, rows.size]), problem.n_outputs)
            outputs = np.repeat(best, rows.size, axis=0)
            stated = float(np.sum(w[rows] * (loss.of_rows(problem.Y[rows], outputs) - loss.least(y[rows]))))
            size = OWN_NOISE * float(w[rows] @ (np.abs(found[rows]).sum(axis=1) + np.abs(problem.Y[rows]).sum(axis=1)))
            if not abs(whole - stated) <= OWN_AGREES * abs(stated) + size:
                raise ValueError(
                    f"{loss!r}.cost must be the loss of the best constant; on {rows.size} rows it is {whole:g}, and "
                    f"the constant loses {stated:g}"
                )
            if min(whole, whole - parts) < -OWN_AGREES * abs(whole) - size:
                raise ValueError(
                    f"{loss!r}.cost must be >= 0, and no less than the costs of two parts together; on {rows.size} "
                    f"rows it is {whole:g}, those of two parts {parts:g}"
                )
        return found

    @cached_property
    def _own_cost(self) -> Any:
        loss = self.problem.loss_function
        try:
            return _compiled(loss.cost)
        except (NumbaError, UnsupportedBytecodeError, TypeError) as error:
            raise ValueError(
                f"{loss!r}.cost must be a function that numba compiles; {str(error).splitlines()[0]}"
            ) from error

    @cached_property
    def _positive_unit(self) -> Floats:
        """(K,) units in which positive outcomes are near 1; one for all under Poisson's deviance, which scales."""
        size = np.abs(self.problem.Y)
        mean = size.mean(axis=0) if self._form != "poisson" else np.full(size.shape[1], size.mean())
        return np.where(mean > 0.0, mean, 1.0)

    def _positive(self, w: Floats) -> Floats:
        """The statistics of rows where leaves predict means of positive numbers."""
        Y, unit = self.problem.Y, self._positive_unit
        T, event = np.abs(Y) / unit, (Y > 0.0) * 1.0
        off = (np.abs(Y) - unit) / unit
        if self._form == "exponential":
            first, off = event, np.where(Y > 0.0, off, T)
            away = np.where(Y > 0.0, gamma_parts(off, T), T)
        elif self._form == "gamma":
            first, away = T, 2.0 * gamma_parts(off, T)
        else:
            first, away, w = T, 2.0 * poisson_parts(off, T), w * unit[0]
        parts = (w[:, None, None] * np.stack([first, off], axis=2)).reshape(len(Y), -1)
        return np.column_stack([np.ones(len(w)), w, w * away.sum(axis=1), parts])

    @cached_property
    def _scale(self) -> Floats:
        """(p,) deviations of the features, 1 of constant ones."""
        deviation = self.problem.moments[1]
        return np.where(deviation > 0.0, deviation, 1.0)

    def _products(self, Y: Floats, w: Floats) -> Floats:
        """The statistics of rows for linear leaves, see `opttree.kernels.exact.statistics`, for features of mean zero
        and deviation one.
        """
        Z = np.column_stack([np.ones(len(w)), (self.problem.X - self.problem.moments[0]) / self._scale])
        first, last = np.tril_indices(Z.shape[1])
        columns = [np.ones((len(w), 1)), w[:, None] * Z[:, first] * Z[:, last]]
        for y in Y.T:
            columns += [(w * y)[:, None] * Z, (w * y * y)[:, None]]
        return np.hstack(columns)

    @cached_property
    def order(self) -> NDArray[np.int32]:
        """(p, rows) the kernel's rows in increasing order of each feature; under absolute loss (p + K, rows), in that
        of each output, too.
        """
        if self.kernel.rank.shape == self.problem.ranks.shape:
            order = self.problem.presorted
        else:
            order = np.argsort(self.kernel.rank, axis=1, kind="stable").astype(np.int32, order="C")
        if self.by_buckets:
            return order
        by_y = np.argsort(self.problem.Y, axis=0, kind="stable").T
        return np.vstack([order, by_y.astype(np.int32, order="C")])  # of one layout, for which kernels are compiled

    def objective(self, cost: float) -> float:
        """Objective of a cost.

        Parameters
        ----------
        cost : float
            Cost, in units of the search.

        Returns
        -------
        float
            The objective.
        """
        return cost * self.unit + self._least

    def cost(self, objective: float) -> float:
        """Cost of an objective, see `objective`.

        Parameters
        ----------
        objective : float
            Objective.

        Returns
        -------
        float
            Its cost, in units of the search.
        """
        return (objective - self._least) / self.unit

    @cached_property
    def _least(self) -> float:
        """The part of the objective that no tree spares."""
        problem = self.problem
        y = problem.Y if problem.loss_function.joint else problem.Y[:, 0]
        return float(np.sum(problem.w * problem.loss_function.least(y)))

    def bound(self, cost: float) -> float:
        """Bound on the objective from a bound on the cost, less what rounding may have added to it.

        Parameters
        ----------
        cost : float
            Bound on the cost, in units of the search.

        Returns
        -------
        float
            Bound on the objective.
        """
        if self.is_whole and np.isfinite(cost):
            return self.objective(float(np.ceil(cost - SLACK)))
        return self.objective(max(cost - NOISE * self.kernel.slack, 0.0))

    def fitted(self, tree: Tree) -> Tree:
        """Fit the best leaves to the splits of a tree.

        Parameters
        ----------
        tree : Tree
            The tree.

        Returns
        -------
        Tree
            The tree with these leaves; the best leaf alone if the tree has more than ``max_splits``.
        """
        splits = 0 if tree.n_branches > self.n_splits else tree.n_branches
        return fit_exact_leaves(self.problem, tree if splits else self.problem.best_constant())

    def tree(self, splits: NDArray[np.int64]) -> Tree:
        """Tree of splits in heap order, with fitted leaves.

        Thresholds are halfway between the neighbouring values of the rows that reach the node.

        Parameters
        ----------
        splits : ndarray of int of shape (S, 2)
            Feature (-1: a leaf) and last rank on the left, of each node.

        Returns
        -------
        Tree
            The tree.
        """
        X, ranks = self.problem.X, self.ranks
        links: list[tuple[int, int]] = []
        A, b = [], []
        pending = [(0, np.arange(X.shape[0]))]
        for place, rows in pending:
            feature, rank = splits[place].tolist() if place < len(splits) else (-1, 0)
            A.append(np.zeros(X.shape[1]))
            b.append(0.0)
            if feature < 0:
                links.append((-1, -1))
                continue
            left = ranks[feature, rows] <= rank
            low, high = X[rows[left], feature].max(), X[rows[~left], feature].min()
            A[-1][feature], b[-1] = 1.0, between(low, high)
            links.append((len(pending), len(pending) + 1))
            pending += [(2 * place + 1, rows[left]), (2 * place + 2, rows[~left])]
        left_links, right_links = np.array(links).T
        values = np.zeros((len(links), self.problem.n_outputs))
        tree = Tree.from_links(left_links, right_links, np.array(A), np.array(b), values, self.problem.classes)
        return self.fitted(tree)


def refusal_of_sums(problem: TreeProblem) -> str | None:
    """Why the leaves of a problem have no costs by sums of statistics of rows, see `sums_of_rows`, or None."""
    free = _free(problem)
    if (reason := ExactTreeProblem.refusal(free)) is not None:
        return reason
    if free.loss_function.additive in BY_ORDER:
        return f"its loss is {free.loss_function!r}, and it takes losses with {MEANING['statistics']}"
    return None


def sums_of_rows(problem: TreeProblem) -> tuple[Floats, Any]:
    """Statistics (n, S) of the rows, weights included, and the `opttree.kernels.exact.statistics.Leaf` that makes the
    loss of a constant leaf of their sums, less what no tree spares; see `refusal_of_sums`.
    """
    exact = ExactTreeProblem(_free(problem))
    rows = exact.rows[0].copy()
    rows[:, 1:] *= exact.unit
    return rows, exact.leaf


def _free(problem: TreeProblem) -> TreeProblem:
    """The problem of its leaves alone."""
    return problem.restated(splits="axis", penalties=(), constraints=())
