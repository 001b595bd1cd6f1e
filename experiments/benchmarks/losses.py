"""Trees of Poisson, quantile and Huber loss against scikit-learn's CART and gradient boosting, on held-out rows.

Depth, smallest leaf and (of boosting) number of trees of every method are chosen on a quarter of the training rows, by
the loss in question; test rows are read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

from experiments.benchmarks.common import Row, load, script
from opttree import TreeProblem, datasets
from opttree.losses import Huber, Loss, Poisson, Quantile
from solvers import TAO, Boosting, CartInit, Chain, MultiStart, TAOForest, solve

SETS = {
    "Poisson": ("abalone", "wine_white", "computer_hardware"),
    "quantile .9": ("airfoil", "abalone", "housing"),
    "Huber": ("airfoil", "housing", "computer_hardware"),
}
GRID = list(product((2, 3, 4, 5, 6), (5, 20)))  # depth, smallest leaf
FEW = list(product((2, 3, 4, 5), (5, 20), (50, 100, 200)))  # and trees
MOST_ROWS = 2000

Fit = Callable[[np.ndarray, np.ndarray], Callable[[np.ndarray], np.ndarray]]


def scale(X: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Features in units of their deviation over the training rows."""
    spread = X[train].std(axis=0)
    return (X - X[train].mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def by(solver: Any, **options: Any) -> Fit:
    """Solve the statement with ``options``."""
    return lambda X, y: solve(TreeProblem(X, y, **options), solver, random_state=0).tree.predict


def theirs(kind: Any, depth: int, least: int, **options: Any) -> Fit:
    """A tree or a sum of trees of scikit-learn."""
    model = kind(max_depth=depth, min_samples_leaf=least, random_state=0, **options)
    return lambda X, y: model.fit(X, y).predict


def methods(name: str, delta: float) -> tuple[Loss, dict[str, list[Fit]]]:
    """The loss, and the candidates of every method: of ours, TAO from CART's tree, or from the best of three starts."""
    loss: Loss = {"Poisson": Poisson(), "quantile .9": Quantile(0.9), "Huber": Huber(delta)}[name]
    found: dict[str, list[Fit]] = {}
    if criterion := {"Poisson": "poisson", "Huber": "absolute_error"}.get(name):
        found[f"CART ({criterion})"] = [theirs(DecisionTreeRegressor, *g, criterion=criterion) for g in GRID]
    start = {"axis": CartInit(), "oblique": MultiStart(TAO(), 3)}
    for splits, label in (("axis", "ours, axis-aligned"), ("oblique", "ours, oblique")):
        solver = Chain(start[splits], TAO(accept="improve"))
        found[label] = [by(solver, depth=depth, splits=splits, loss=loss, min_leaf=least) for depth, least in GRID]
    if name != "Poisson":
        options: dict[str, Any] = {"loss": "quantile", "alpha": 0.9} if name != "Huber" else {"loss": "huber"}
        found["gradient boosting (scikit-learn)"] = [
            theirs(GradientBoostingRegressor, depth, least, n_estimators=trees, **options)
            for depth, least, trees in FEW
        ]
        base = TAOForest(1, kind="oblique", max_iter=5, constant_iterations=1, shrinkage=10.0, sample=0.7)
        found["Boosting (ours)"] = [by(Boosting(base=base), depth=d, loss=loss, min_leaf=5) for d in (2, 3, 4, 5)]
    return loss, found


@script
def main(splits: int = 5) -> Iterator[Row]:
    for name, data in ((name, data) for name, sets in SETS.items() for data in sets if data in datasets.names()):
        X, y = load(data)
        scores: dict[str, list[float]] = {}
        constants = []
        for seed in range(splits):
            rows = np.random.default_rng(seed).permutation(len(y))
            test, train = rows[: len(y) // 4], rows[len(y) // 4 :][:MOST_ROWS]
            inner, valid = train[: 3 * len(train) // 4], train[3 * len(train) // 4 :]
            Z = scale(X, train)
            loss, found = methods(name, float(np.median(np.abs(y[train] - np.median(y[train])))))
            constants.append(loss.value(y[test], loss.constant(y[train], np.ones(len(train)))).mean())
            for label, candidates in found.items():
                held = [loss.value(y[valid], fit(Z[inner], y[inner])(Z[valid])).mean() for fit in candidates]
                predict = candidates[int(np.argmin(held))](Z[train], y[train])
                scores.setdefault(label, []).append(float(loss.value(y[test], predict(Z[test])).mean()))
        for label, values in scores.items():
            row = {"loss": name, "data": data, "method": label, "mean test loss": np.mean(values)}
            yield row | {"over the best constant's": np.mean(values) / np.mean(constants)}
