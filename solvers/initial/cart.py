"""CART, through scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels.passes import cart
from opttree.kernels.passes.thresholds import between
from opttree.model.tree import Tree
from opttree.runtime.clock import seconds_left
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from opttree.statement.numbers import NUMBERS
from opttree.wide import sparse
from solvers.initial.base import Growth, Initial


def is_some(number: Any) -> bool:
    """Whether it is a number of features, or a share of them."""
    return bool((isinstance(number, (int, np.integer)) and number >= 1) or 0.0 < number <= 1.0)


GRACE = 0.1  # seconds that the tree may take in any case
FEW_ROWS = 2000  # that the tree sees in any case
SPARE = 0.9  # of the rows for which the time is enough
FOREVER = 1e12  # seconds
SORTING = 1e-8  # seconds of scikit-learn's tree, on a busy machine, per row, feature, level and halving of the rows
COUNTING = 2e-8  # seconds of a tree on features in bins, on a busy machine, per row, feature and level
SUMS, LOGARITHMS = 2.5e-9, 1e-8  # seconds more of scikit-learn's tree for each output, and for each class of log loss


def share_in_time(n: int, depth: int, count: float, outputs: float | None) -> float:
    """The share of a tree, of ``count`` features at each split, for which the run's time is enough: of scikit-learn's,
    which takes ``outputs`` seconds more per row, feature and level, or of one on features in bins.
    """
    halvings = np.log2(n + 1.0)
    each = COUNTING if outputs is None else SORTING * halvings + outputs
    return min(max(seconds_left(), GRACE), FOREVER) / (each * n * min(depth, halvings) * count)


def features_wanted(p: int, wanted: float | str | None) -> float:
    """The number of features that ``max_features`` of scikit-learn's tree asks for."""
    if isinstance(wanted, float):
        return wanted * p
    return p if wanted is None else p**0.5 if isinstance(wanted, str) else wanted


def features_in_time(
    n: int, p: int, depth: int, wanted: float | str | None, outputs: float | None
) -> float | str | None:
    """``max_features`` of scikit-learn's tree, or of one on features in bins: what is ``wanted``, or fewer where the
    run's time is short, since it does not look at the clock; ``outputs`` as in `share_in_time`.
    """
    count = features_wanted(p, wanted)
    share = share_in_time(n, depth, count, outputs)
    return wanted if share >= 1.0 else max(int(share * count), 1)


def seconds_of_outputs(problem: TreeProblem) -> float:
    """What the outputs of a problem add to the seconds of scikit-learn's tree, see `share_in_time`."""
    each = LOGARITHMS if problem.loss_function.criterion == "entropy" else SUMS
    return each * problem.n_outputs


def in_time(problem: TreeProblem, wanted: float | str | None, rng: Rng) -> TreeProblem:
    """The problem, or random rows of it for which the run's time is enough; `FEW_ROWS` in any case."""
    n = problem.n_samples
    count = features_wanted(problem.n_features, wanted)
    share = share_in_time(n, problem.depth, count, seconds_of_outputs(problem)) if n > FEW_ROWS else 1.0
    if share >= 1.0:
        return problem
    rows = np.flatnonzero(problem.w)
    count = min(max(int(SPARE * share * n), FEW_ROWS), rows.size)
    return problem.sample(np.sort(rng.choice(rows, count, replace=False)), constraints=())


LEAST, MOST = 1e-30, 1e30  # sizes that single precision holds well
SAMPLE, VARIED = 256, 0.1  # rows that are looked at, and the share of neighbours that must differ
DEEP = 12  # levels, beyond which there may be too many nodes for a loop in Python
CLOSE = 1e-7  # values that scikit-learn takes for equal


@dataclass(frozen=True)
class CartInit(Initial):
    """CART's greedy axis-aligned tree to the depth limit, criterion by the loss, on sparse tables the squared one in
    place of the absolute one; leaves are refitted.

    It is grown by kernels of ours for squared loss and the Gini impurity on columns of many values, and else by
    scikit-learn. Columns of a problem of axis-aligned splits go in there as ranks where single precision would not tell
    values apart. Where a time limit is too short for all rows, the tree is grown on some of them, at random, and its
    leaves are fitted to all; where it is too short even for two thousand, each split looks at some of the features.

    See Also
    --------
    GreedyInit, HingeInit, ClusterInit, RandomInit, ExactInit : other starts

    References
    ----------
    Breiman, Friedman, Olshen and Stone, "Classification and Regression Trees" (1984).

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import CartInit, TAO, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2)
    >>> start = solve(problem, CartInit(), random_state=0)
    >>> solve(problem, TAO(), start=start.tree, random_state=0).objective <= start.objective
    True
    """

    needs = ("value", "constant")
    takes_sparse = True

    min_rows: int = option(1, "Fewest rows in a leaf, in addition to the problem's ``min_leaf``.", least=1)
    ccp_alpha: float = option(
        0.0, "Price of cost-complexity pruning, in the units of scikit-learn's criterion.", least=0
    )
    max_features: float | Literal["sqrt"] | None = option(
        None,
        """Random features that are tried at each split: their number, or share, or "sqrt", the root of the number of
        all; None: all.""",
        test=lambda some: some is None or some == "sqrt" or is_some(some),
        words="an integer >= 1, a share above 0 and at most 1, 'sqrt' or None",
    )
    splitter: Literal["best", "random"] = option(
        "best", '"best", or "random": the best of one random threshold per feature.'
    )

    def growth(self, problem: TreeProblem, rng: Rng) -> Growth:
        """The fitted tree as a `Tree`."""
        part = problem if problem.depth == 0 else in_time(problem, self.max_features, rng)
        tree = self._tree(part, rng)
        if tree is None:
            yield problem.one_leaf()
            return
        if part is not problem:  # which may lack some classes
            tree = Tree(tree.children, tree.A, tree.b, np.zeros((tree.n_leaves, problem.n_outputs)))
        yield problem.fit_leaves(problem.enforce_min_leaf(tree))

    def _tree(self, problem: TreeProblem, rng: Rng) -> Tree | None:
        """The tree, its leaves not fitted; None where there is nothing to split."""
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

        loss = problem.loss_function
        y, factor = loss.pseudo(problem.y)
        same = not problem.is_classification and np.ptp(y, axis=0).max() == 0.0  # of zeros there is no Poisson loss
        weight = np.asarray(problem.sample_weight) * factor
        if problem.depth == 0 or same or not weight.any() or np.ptp(problem.Y, axis=0).max() == 0.0:
            return None
        if self._compiles(problem, loss.criterion):
            return self._grown(problem, y, weight, rng)
        kind = DecisionTreeClassifier if loss.criterion in ("gini", "entropy") else DecisionTreeRegressor
        # on a sparse table scikit-learn's search for medians takes the square of the rows for each column
        by_squares = problem.is_sparse and loss.criterion == "absolute_error"
        model = kind(
            criterion="squared_error" if by_squares else loss.criterion,
            max_depth=problem.depth,
            min_samples_leaf=max(self.min_rows, problem.min_leaf),
            ccp_alpha=self.ccp_alpha,
            max_features=self._features(problem),
            splitter=self.splitter,
            random_state=int(rng.integers(2**31 - 1)),
        )
        unit = _units(problem.X)
        fits = bool(np.all(unit == 1.0))
        if problem.is_sparse:
            by_rank = problem.splits == "axis" and (not fits or _too_close_sparse(problem.in_order))
            X = problem.X if fits else sparse.scaled(problem.X, unit)
            X = (sparse.ranks(problem.X) if by_rank else X).tocsc()
        else:
            by_rank = problem.splits == "axis" and (not fits or _too_close(problem.X, problem.presorted))
            X = problem.ranks.T if by_rank else problem.X if fits else problem.X / unit
        model.fit(X, y, sample_weight=weight)
        tree = Tree.from_sklearn(model)
        if loss.joint:  # whose leaves hold other outputs than the outcomes it was grown for
            tree = Tree(tree.children, tree.A, tree.b, np.zeros((tree.n_leaves, problem.n_outputs)))
        if by_rank:
            tree = of_ranks(tree, problem.X)
        elif not fits:
            tree = tree.unscale(np.zeros(unit.size), unit)
        return tree

    def _features(self, problem: TreeProblem) -> float | str | None:
        """``max_features`` of scikit-learn's tree."""
        outputs = seconds_of_outputs(problem)
        return features_in_time(problem.n_samples, problem.n_features, problem.depth, self.max_features, outputs)

    def _compiles(self, problem: TreeProblem, criterion: str) -> bool:
        """Whether the tree is grown by our kernels: the same algorithm, in double precision and on presorted rows."""
        usual = self.ccp_alpha == 0.0 and self.splitter == "best" and criterion in ("squared_error", "gini")
        if not usual or self._features(problem) is not None or problem.is_sparse or problem.depth > DEEP:
            return False
        sample = np.sort(problem.X[:: max(problem.n_samples // SAMPLE, 1)], axis=0)
        return float(np.mean(np.diff(sample, axis=0) > 0.0)) > VARIED  # of few values scikit-learn's is the quicker one

    def _grown(self, problem: TreeProblem, y: Any, weight: Any, rng: Rng) -> Tree:
        """The tree, its leaves not fitted."""
        weight, n_classes = weight / weight.max(), problem.n_outputs if problem.is_classification else 0
        Y = problem.Y if n_classes else np.reshape(y, (len(weight), -1)).astype(np.float64)
        label = Y[:, 0].astype(np.intp) if n_classes else np.zeros(len(weight), np.intp)
        Y = Y if n_classes else Y - np.average(Y, axis=0, weights=weight)
        least = max(self.min_rows, problem.min_leaf)
        X, order, depth = problem.X, problem.presorted, problem.depth
        left, right, feature, b = cart.grow(X, order, Y, label, weight, depth, least, n_classes, rng.random)
        A = np.zeros((len(left), problem.n_features))
        inner = np.flatnonzero(np.array(left) >= 0)
        A[inner, np.array(feature)[inner]] = 1.0
        values = np.zeros((len(left), problem.n_outputs))
        return Tree.from_links(np.array(left), np.array(right), A, np.array(b), values, problem.classes)


def of_ranks(tree: Tree, X: Any) -> Tree:
    """An axis-aligned tree that was made for the ranks of the values of ``X``, with thresholds between the values."""
    b = tree.b.copy()
    for j in np.unique(tree.feature):
        x = sparse.values_of(X, j)
        zero = int(np.searchsorted(x, 0.0)) if sparse.is_sparse(X) else 0  # whose rank is 0 in a sparse table
        ends = np.concatenate([[np.nextafter(x[0], -np.inf)], x])
        for t in np.flatnonzero(tree.feature == j):
            last = int(np.clip(np.floor(b[t]) + zero, -1, x.size - 1)) + 1  # of the values on the left
            b[t] = ends[last] if last in (0, x.size) else between(ends[last], ends[last + 1])
    return replace(tree, b=b)


def _too_close(X: NDArray[np.float64], order: NDArray[np.integer]) -> bool:
    """Whether scikit-learn would not tell some values of a column apart: it takes single precision."""
    width = max(NUMBERS // max(len(X), 1), 1)
    for first in range(0, len(order), width):
        ordered = np.take_along_axis(X[:, first : first + width].T, order[first : first + width], 1)
        near = np.diff(ordered.astype(np.float32), axis=1) <= CLOSE
        if np.any(near & (np.diff(ordered, axis=1) > 0.0)):
            return True
    return False


def _too_close_sparse(columns: Any) -> bool:
    """`_too_close` for the `SortedColumns` of a sparse table, which lose their zeros where they are near to them."""
    start, _rows, values = columns
    inside = np.ones(values.size, bool)
    inside[start[:-1][np.diff(start) > 0]] = False
    gaps, singles = np.diff(values), np.diff(values.astype(np.float32))
    return bool(np.any(np.abs(values) <= CLOSE) or np.any(inside[1:] & (gaps > 0.0) & (singles <= CLOSE)))


def _units(X: Any) -> NDArray[np.float64]:
    """(p,) powers of two in which columns fit into scikit-learn's single precision; 1 where they do."""
    largest = sparse.largest(X) if sparse.is_sparse(X) else np.maximum(X.max(axis=0), -X.min(axis=0))
    extreme = (largest > 0.0) & ((largest < LEAST) | (largest > MOST))
    return np.ldexp(1.0, np.where(extreme, np.frexp(np.where(extreme, largest, 1.0))[1], 0))
