"""Trees of Poisson, quantile and Huber loss against scikit-learn's CART and gradient boosting, on held-out rows.

Depth, smallest leaf and (of boosting) number of trees of every method are chosen on a quarter of the training rows, by
the loss in question; test rows are read once. ``python -m experiments.benchmarks.losses --splits 5``
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

from opttree import TreeProblem, datasets
from opttree.statement.losses import Huber, Loss, Poisson, Quantile
from solvers import TAO, Boosting, CartInit, Chain, MultiStart, TAOForest, solve

DEPTHS, LEAVES = (2, 3, 4, 5, 6), (5, 20)
SETS = {
    "Poisson": ("abalone", "wine_white", "computer_hardware"),
    "quantile .9": ("airfoil", "abalone", "housing"),
    "Huber": ("airfoil", "housing", "computer_hardware"),
}
MOST_ROWS = 2000

Fit = Callable[[np.ndarray, np.ndarray], Callable[[np.ndarray], np.ndarray]]


def scale(X: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Features in units of their deviation over the training rows."""
    spread = X[train].std(axis=0)
    return (X - X[train].mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def ours(loss: Loss, splits: str, depth: int, least: int) -> Fit:
    """A tree of TAO: from CART's, or from the best of three starts."""

    def fit(X: np.ndarray, y: np.ndarray) -> Any:
        problem = TreeProblem(X, y, depth=depth, splits=splits, loss=loss, min_leaf=least)
        start = Chain(CartInit(), TAO(accept="improve"))
        solver: Any = start if splits == "axis" else Chain(MultiStart(TAO(), 3), TAO(accept="improve"))
        return solve(problem, solver, random_state=0).tree.predict

    return fit


def boosting(loss: Loss, depth: int, least: int) -> Fit:
    """Our boosting, which chooses its number of trees on rows of its own."""

    def fit(X: np.ndarray, y: np.ndarray) -> Any:
        problem = TreeProblem(X, y, depth=depth, loss=loss, min_leaf=least)
        base = TAOForest(1, kind="oblique", max_iter=5, constant_iterations=1, shrinkage=10.0, sample=0.7)
        return solve(problem, Boosting(base=base), random_state=0).tree.predict

    return fit


def cart(criterion: str, depth: int, least: int) -> Fit:
    """scikit-learn's tree."""
    return lambda X, y: DecisionTreeRegressor(
        criterion=criterion, max_depth=depth, min_samples_leaf=least, random_state=0
    ).fit(X, y).predict  # fmt: skip


def gradient_boosting(depth: int, least: int, trees: int, **options: Any) -> Fit:
    """scikit-learn's gradient boosting."""
    return lambda X, y: GradientBoostingRegressor(
        n_estimators=trees, max_depth=depth, min_samples_leaf=least, random_state=0, **options
    ).fit(X, y).predict  # fmt: skip


def methods(name: str, delta: float) -> tuple[Loss, dict[str, list[Fit]]]:
    """The loss, and the candidates of every method."""
    grid = list(product(DEPTHS, LEAVES))
    few = list(product((2, 3, 4, 5), (5, 20), (50, 100, 200)))
    loss: Loss = {"Poisson": Poisson(), "quantile .9": Quantile(0.9), "Huber": Huber(delta)}[name]
    criterion = {"Poisson": "poisson", "Huber": "absolute_error"}.get(name)
    found = {} if criterion is None else {f"CART ({criterion})": [cart(criterion, *g) for g in grid]}
    found |= {
        "ours, axis-aligned": [ours(loss, "axis", *g) for g in grid],
        "ours, oblique": [ours(loss, "oblique", *g) for g in grid],
    }
    if name != "Poisson":
        options: dict[str, Any] = {"loss": "quantile", "alpha": 0.9} if name != "Huber" else {"loss": "huber"}
        found["gradient boosting (scikit-learn)"] = [gradient_boosting(*g, **options) for g in few]
        found["Boosting (ours)"] = [boosting(loss, depth, 5) for depth in (2, 3, 4, 5)]
    return loss, found


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    args = parser.parse_args()
    print("| loss | data | method | mean test loss | over the best constant's |")
    print("|---|---|---|---:|---:|")
    for name, sets in SETS.items():
        for data in sets:
            if data not in datasets.names():
                continue
            X, y = datasets.load(data).as_arrays()
            scores: dict[str, list[float]] = {}
            constants = []
            for seed in range(args.splits):
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
                share = np.mean(values) / np.mean(constants)
                print(f"| {name} | {data} | {label} | {np.mean(values):.4g} | {share:.3f} |", flush=True)


if __name__ == "__main__":
    main()
