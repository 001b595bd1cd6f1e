"""Patches of turned digits from their images, the task of `experiments.benchmarks.wide`: errors of TAO's linear leaves
beside ensembles of other libraries, on the same rows.

The strength of the l1 penalties, the same in nodes and leaves, is chosen on a fifth of the training rows; then the tree
is fitted to all of them. The ensembles look at a quarter of the pixels at each split; gradient boosting has one tree
for all outputs. Errors are root mean squares over the 10,000 test images and 64 outputs; seconds are the processor's,
of the last fit alone; numbers are the weights of splits and leaves, or two for a branch node of an ensemble and one for
each output of a leaf.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np

from experiments.benchmarks.common import Row, peak, script
from experiments.benchmarks.wide import SIDE, rmse, solver_of, table
from opttree import TreeProblem
from solvers import solve

STRENGTHS = (0.001, 0.003, 0.01, 0.03)
N_OUTPUTS = 64
SOME = 0.25  # of the pixels, at each split of the other libraries


def tree(X: np.ndarray, Y: np.ndarray, depth: int, passes: int, strength: float, seed: int) -> Any:
    """A tree with linear leaves."""
    problem = TreeProblem(X, Y, depth=depth, leaves="linear")
    return solve(problem, solver_of(passes, strength), random_state=seed).tree


def grown(X: np.ndarray, Y: np.ndarray, depth: int, passes: int, strength: float, seed: int) -> Any:
    """A tree of a forest: from hyperplanes of its own, on rows drawn with replacement."""
    drawn = np.bincount(np.random.default_rng(seed).integers(len(X), size=len(X)), minlength=len(X)).astype(float)
    problem = TreeProblem(X, Y, depth=depth, leaves="linear", sample_weight=drawn)
    return solve(problem, solver_of(passes, strength), random_state=seed).tree


class Mean:
    """The mean answer of trees, of which only the weights that are not zero are kept."""

    def __init__(self, trees: list[Any]) -> None:
        self.trees = trees

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The answers (n, K) to rows."""
        answers: np.ndarray = sum(tree.predict(X) for tree in self.trees) / len(self.trees)
        return answers


def others(n_trees: int) -> dict[str, Any]:
    """The ensembles, those whose packages are installed."""
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

    options: dict[str, Any] = {"max_features": SOME, "random_state": 0, "n_jobs": -1}
    found: dict[str, Any] = {
        "ExtraTrees": ExtraTreesRegressor(n_trees, **options),
        "random forest": RandomForestRegressor(n_trees, **options),
    }
    try:
        from xgboost import XGBRegressor
    except ModuleNotFoundError:
        return found
    shared = {"max_depth": 8, "colsample_bynode": SOME, "multi_strategy": "multi_output_tree", "random_state": 0}
    return found | {"XGBoost": XGBRegressor(n_estimators=n_trees, **shared)}


def numbers(model: Any) -> int | None:
    """Of a tree, or of an ensemble of scikit-learn's."""
    if isinstance(model, Mean):
        return sum(tree.n_parameters for tree in model.trees)
    if hasattr(model, "coefs"):
        return int(np.count_nonzero(model.A) + model.b.size + np.count_nonzero(model.coefs) + model.values.size)
    if not hasattr(model, "estimators_"):
        return None
    leaves = sum(one.tree_.n_leaves for one in model.estimators_)
    return int(2 * (leaves - len(model.estimators_)) + N_OUTPUTS * leaves)


@script
def main(
    rows: Annotated[int, "images of digits, at most 60,000"] = 20_000,
    depth: Annotated[int, "of the tree"] = 7,
    passes: Annotated[int, "of its fit"] = 8,
    trees: Annotated[int, "of the ensembles"] = 100,
    members: Annotated[int, "trees of TAO's forest"] = 30,
    models: Annotated[tuple[str, ...], "TAO, TAO forest, ExtraTrees, random forest, XGBoost"] = ("TAO", "ExtraTrees"),
) -> Iterator[Row]:
    X, Y = table(rows, SIDE * SIDE, N_OUTPUTS)
    test = table(10_000, SIDE * SIDE, N_OUTPUTS, "test")
    yield {"model": "constant", "RMSE": float(np.sqrt(np.mean((test[1] - Y.mean(axis=0)) ** 2)))}
    fits = others(trees)
    strength: float | None = None
    for name in models:
        own = name in ("TAO", "TAO forest")
        if not own and name not in fits:
            continue
        if own and strength is None:
            held = slice(0, rows // 5)
            kept = slice(rows // 5, rows)
            tree(X[:300], Y[:300], 2, 2, 0.01, 0)  # compiles
            errors = [rmse(tree(X[kept], Y[kept], depth, passes, s, 0), X[held], Y[held]) for s in STRENGTHS]
            strength = STRENGTHS[int(np.argmin(errors))]
        cpu, wall = time.process_time(), time.perf_counter()
        if own and strength is not None:
            settings = depth, passes, strength
            single = name == "TAO"
            model = tree(X, Y, *settings, 0) if single else Mean([grown(X, Y, *settings, k) for k in range(members)])
        else:
            model = fits[name].fit(X, Y)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        yield {
            "model": name,
            "RMSE": rmse(model, *test),
            "training": rmse(model, X[:5000], Y[:5000]),
            "cpu s": cpu,
            "wall s": wall,
            "numbers": numbers(model),
            "MB": peak(),
            "strength": strength if own else None,
        }
