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
    """Least weighted loss of one constant on outputs y (m, K) or labels (m, 1)."""
    if loss == "squared":
        return float(np.sum(w[:, None] * (y - np.average(y, axis=0, weights=w)) ** 2))
    if loss == "absolute":
        return sum(min(float(np.sum(w * np.abs(column - v))) for v in column) for column in y.T)
    of_class = np.array([w[y[:, 0] == k].sum() for k in np.unique(y)])
    if loss == "zero_one":
        return float(w.sum() - of_class.max())
    return float(-np.sum(of_class * np.log(of_class / of_class.sum())))


def optimum(X, y, *, depth, loss, w=None, price=0.0, min_leaf=1, max_splits=None, leaf=leaf_loss):
    """Optimal objective over axis-aligned trees; ``leaf(y, w, loss)``, or with ``leaf.rows`` true, of row numbers."""
    y = np.asarray(y).reshape(len(X), -1)
    w = np.full(len(X), 1.0 / len(X)) if w is None else w / w.sum()
    by_rows = getattr(leaf, "rows", False)
    known = {}

    def best(rows, levels, splits):
        key = rows.tobytes(), levels, splits
        if key not in known:
            value = leaf(rows) if by_rows else leaf(y[rows], w[rows], loss)
            if levels and splits:
                for j in range(X.shape[1]):
                    for cut in np.unique(X[rows, j])[:-1]:
                        low, high = rows[X[rows, j] <= cut], rows[X[rows, j] > cut]
                        if min(len(low), len(high)) < min_leaf:
                            continue
                        for k in range(splits) if np.isfinite(splits) else [np.inf]:
                            value = min(
                                value,
                                price + best(low, levels - 1, k) + best(high, levels - 1, splits - 1 - k)
                                if np.isfinite(k)
                                else price + best(low, levels - 1, k) + best(high, levels - 1, k),
                            )
            known[key] = value
        return known[key]

    return best(np.arange(len(X)), depth, np.inf if max_splits is None else max_splits)


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
