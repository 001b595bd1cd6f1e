"""Methods compared on one data set: cross-validated scores, objectives and seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.tree import BaseDecisionTree
from sklearn.utils import _safe_indexing as rows_of

from opttree.cli.common import is_other
from opttree.estimators import bridge
from opttree.methods.table import METHODS, USUAL_DEPTH, make_estimator
from opttree.model.tree import Tree
from opttree.tables.encoder import TableEncoder

COLUMNS = ["train", "test", "test_std", "objective", "seconds", "parameters"]


def cross_validate(
    methods: Sequence[str],
    X: Any,
    y: Any,
    task: str,
    *,
    folds: int,
    go_on: Callable[[], None],
    **how: Any,
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Cross-validate ``methods`` (of `opttree.methods.METHODS`) on the same folds.

    ``go_on`` is called before every fit: a KeyboardInterrupt from it ends the comparison, and the methods completed so
    far are returned. ``how`` (depth, seed, jobs, device) is passed to `make_estimator`.

    Returns
    -------
    table, results
        Means over the folds, one row per method, and the results of the first fold for methods that have a `Result`.
    """
    stratify = task == "classification" and min(pd.Series(y).value_counts()) >= folds
    splits = list((StratifiedKFold if stratify else KFold)(folds, shuffle=True, random_state=how["seed"]).split(X, y))
    rows, results = {}, {}
    for method in methods:
        make = partial(_maker, method, task, hasattr(X, "columns"), how)
        objective = partial(_result, task=task, depth=how["depth"], seed=how["seed"])
        try:
            rows[method], result = _folds_of_method(make, objective, splits, X, y, go_on)
        except KeyboardInterrupt:  # the methods completed so far are shown
            break
        if result is not None:
            results[method] = result
    return pd.DataFrame.from_dict(rows, orient="index", columns=COLUMNS), results


def drawn(table: pd.DataFrame, results: dict[str, Any], title: str, score: str) -> Any:
    """The axes of a figure: held-out scores, best above, and the training objectives of the first fold against time."""
    import matplotlib.pyplot as plt

    from opttree.plotting import plot_trace

    shown = table.sort_values("test")
    height = max(3.6, 0.35 * len(shown) + 1.2)
    _figure, axes = plt.subplots(1, 2 if results else 1, figsize=(11 if results else 6, height), layout="constrained")
    first = axes[0] if results else axes
    first.errorbar(shown["test"], range(len(shown)), xerr=shown["test_std"].fillna(0.0), fmt="o", capsize=3)
    first.set_yticks(range(len(shown)), shown.index)
    first.set(title=f"{title}: {score} on held-out rows", xlabel=f"{score}, mean and deviation over the folds")
    first.grid(axis="x", alpha=0.3)
    if results:
        plot_trace(results, ax=axes[1])
        axes[1].set_title("training objective, first fold")
    return first


def _maker(method: str, task: str, is_table: bool, how: dict[str, Any]) -> Any:
    """The estimator; other libraries' take tables with the encoding that ours have inside."""
    model = make_estimator(method, task, **how)
    return model if METHODS[method].family or not is_table else make_pipeline(TableEncoder(), model)


def _folds_of_method(
    make: Callable[[], Any], result_of: Callable[..., Any], splits: Any, X: Any, y: Any, go_on: Callable[[], None]
) -> tuple[dict[str, float], Any]:
    """Means over the folds of one method, and the first fold's result, if it has one."""
    few = np.random.default_rng(0).permutation(len(X))[:500]
    result_of(make().fit(rows_of(X, few), y[few]), rows_of(X, few), y[few])  # compile before the timing starts
    rows: list[dict[str, Any]] = []
    first = None
    for fold, (train, test) in enumerate(splits):
        go_on()
        model = make()
        began = time.perf_counter()
        model.fit(rows_of(X, train), y[train])
        seconds = time.perf_counter() - began
        result = result_of(model, rows_of(X, train), y[train])
        first = result if fold == 0 else first
        rows.append(
            {
                "train": model.score(rows_of(X, train), y[train]),
                "test": model.score(rows_of(X, test), y[test]),
                "objective": None if result is None else result.objective,
                "seconds": seconds,
                "parameters": _n_parameters(model),
            }
        )
    frame = pd.DataFrame(rows).astype(float)
    means = {**frame.mean(), "objective": frame["objective"].mean(skipna=False)}
    return {**means, "test_std": frame["test"].std()}, first


def _result(model: Any, X: Any, y: Any, task: str, depth: int | str, seed: int) -> Any:
    """The result of a fitted model, or None.

    CART's tree is evaluated in the problem that tao-c solves, which gives its objective and a trace of one step.
    """
    if isinstance(model, Pipeline):
        X, model = model[:-1].transform(X), model[-1]
    if not isinstance(model, BaseDecisionTree):
        return None if is_other(model) else getattr(model, "result_", None)
    depth = USUAL_DEPTH if depth == "auto" else depth
    problem, _scaling = make_estimator("tao-c", task, depth, seed).state(X, y)
    return bridge.solvers.solve(problem, bridge.solvers.CartInit(), random_state=seed)


def _n_parameters(model: Any) -> int | None:
    if isinstance(model, Pipeline):
        return _n_parameters(model[-1])
    if hasattr(model, "forest_"):
        return model.forest_.n_parameters
    if hasattr(model, "estimators_"):
        return sum(_n_parameters(tree) or 0 for tree in model.estimators_)
    if not hasattr(model, "tree_"):
        return None  # of other libraries
    return (model.tree_ if isinstance(model.tree_, Tree) else Tree.from_sklearn(model)).n_parameters
