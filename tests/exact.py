"""Small instances of real data, and their optima by a dynamic program that shares no code with opttree."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from opttree import SplitPrice, TreeProblem, datasets


class Instance(NamedTuple):
    """A problem, its name and its optimal objective."""

    name: str
    problem: TreeProblem
    optimum: float


def leaf_loss(y, w, loss):
    """Least weighted loss of one constant on outputs y (m, K) or labels (m, 1), whole numbers from 0."""
    if loss == "squared":
        return float(w @ np.square(y - w @ y / w.sum()).sum(axis=1))
    if loss == "absolute":
        return sum(float(w @ np.abs(column - median(column, w))) for column in y.T)
    of_class = np.bincount(y[:, 0].astype(int), w)
    if loss == "zero_one":
        return float(w.sum() - of_class.max())
    of_class = of_class[of_class > 0.0]
    return float(-np.sum(of_class * np.log(of_class / of_class.sum())))


def median(values, w):
    """The least of the values that half the weight does not exceed."""
    order = np.argsort(values)
    below = np.cumsum(w[order])
    return values[order[np.searchsorted(below, 0.5 * below[-1])]]


def optimum(X, y, *, depth, loss, w=None, price=0.0, min_leaf=1, max_splits=None, leaf=leaf_loss):
    """Optimal objective over axis-aligned trees; ``leaf(y, w, loss)``, or with ``leaf.rows`` true, of row numbers.

    A set of rows is a whole number: its bits.
    """
    y = np.asarray(y).reshape(len(X), -1)
    w = np.full(len(X), 1.0 / len(X)) if w is None else w / w.sum()
    sides = {sum(1 << int(i) for i in np.flatnonzero(column <= cut)) for column in X.T for cut in column}

    @cache
    def at_leaf(rows):
        numbers = np.array([i for i in range(len(X)) if rows >> i & 1])
        return leaf(numbers) if getattr(leaf, "rows", False) else leaf(y[numbers], w[numbers], loss)

    @cache
    def best(rows, levels, splits):
        value = at_leaf(rows)
        if levels and splits != 0:
            shares = [(None, None)] if splits is None else [(k, splits - 1 - k) for k in range(splits)]
            for low in {rows & side for side in sides}:
                high = rows ^ low
                if min(low.bit_count(), high.bit_count()) >= min_leaf:
                    for left, right in shares:
                        value = min(value, price + best(low, levels - 1, left) + best(high, levels - 1, right))
        return value

    return best((1 << len(X)) - 1, depth, max_splits)


SIZES = {
    1: ((15, 8), (60, 8), (150, 8)),
    2: ((15, 8), (25, 6), (40, 4), (150, 1)),
    3: ((15, 4), (20, 3), (25, 2), (60, 1)),
}  # depth: (n, p)
NUMBERS = ("auto_mpg", "housing", "airfoil", "yacht")
LABELS = ("iris", "wine", "breast_cancer")
OPTIONS = ((0.0, 1), (0.02, 1), (0.0, 4))  # price, min_leaf


@cache
def instances() -> list[Instance]:
    """154 instances: n 15 to 150, depth 1 to 3, four losses, with and without a price and a least leaf."""
    found = []
    for seed, name in enumerate((*NUMBERS, *LABELS)):
        X_all, y_all = datasets.load(name, as_arrays=True)
        for loss in ("squared", "absolute") if name in NUMBERS else ("zero_one", "log"):
            rng = np.random.default_rng(seed + 10 * (loss in ("absolute", "log")))
            for depth, sizes in SIZES.items():
                for n, p in sizes:
                    rows = rng.permutation(len(X_all))[:n]
                    columns = rng.permutation(X_all.shape[1])[:p]
                    X, y = X_all[np.ix_(rows, columns)], y_all[rows]
                    if name in NUMBERS:
                        y = (y - y.mean()) / y.std()
                    price, min_leaf = OPTIONS[len(found) % 3]
                    problem = TreeProblem(
                        X, y, depth=depth, splits="axis", loss=loss, penalties=[SplitPrice(price)], min_leaf=min_leaf
                    )
                    value = optimum(X, y, depth=depth, loss=loss, price=price, min_leaf=min_leaf)
                    found.append(Instance(f"{name} n={n} p={p} D={depth} {loss} {price} {min_leaf}", problem, value))
    return found
