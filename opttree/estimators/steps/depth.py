"""Choice of the depth by cross-validation (``max_depth="cv"``), warm-started from depth to depth, and the folds."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit, check_cv

from opttree.estimators import bridge
from opttree.estimators.recipe import Estimator, Rows, is_printed
from opttree.estimators.steps.rows import monotone_signs
from opttree.estimators.steps.shrink import shrunk_scores, strength_of
from opttree.estimators.steps.state import feature_units
from opttree.estimators.steps.units import on_parts
from opttree.methods import costs
from opttree.model.tree import Tree
from opttree.runtime.clock import now
from opttree.runtime.interrupts import InterruptedFitWarning
from opttree.statement.copies import different_rows, with_copies
from opttree.tables.checks import TableWarning
from opttree.tables.encoding import rows_of
from opttree.wide.sparse import is_sparse

Floats = NDArray[np.float64]
DEEPEST = 12  # as in the GET paper
SEARCH_SHARE = 0.5  # of the time limit, for the depth search; the rest is for the final fit
FEW_DEPTHS, FEWEST_READ = 3, 500  # depths, and rows, for which there should be time
PATIENCE = 4  # the search stops after this many depths without a better score


def choose_depth(options: Estimator, rows: Rows, seed: int) -> dict[str, Any]:
    """The attributes ``best_depth_``, ``cv_results_`` and, where it is chosen too, ``leaf_shrinkage_``.

    Every fold fits the depths in turn, see `fit_warm`; the weighted R2 or accuracy on the held-out rows is averaged
    over the folds, which run in parallel under a Dask back end of joblib. If ``cv`` is a fraction, there is one fold
    with that share of the rows held out. An interrupt, half of the time limit, or a depth for which memory lacks ends
    the search with the depths tried so far. Rows of a table are those of the table, so that each fold learns an
    encoding of its own; where reading it in each fold would take most of the time, as many random rows as it is enough
    for.
    """
    began = now()
    feature_units(options, rows.X, rows.weight)  # refuses what the fit to all rows would
    rows = _read_in_time(options, rows, seed)
    X, y, weight = rows.X if rows.table is None else rows.table, rows.y, rows.weight
    folds = folds_of(options, rows.X, y, seed, X, weight)
    if any(weight[valid].sum() <= 0.0 for _train, valid in folds):
        raise ValueError("cv must hold out rows of positive weight in every split; got a split without any")
    changes = {"cv": 2, "verbose": 0, "random_state": seed, "on_interrupt": "keep"}  # the outer fit passes it on
    shrunk = strength_of(options) == "cv"  # the folds' trees choose it for each depth, too
    if options.encoder_ is None:
        signs = monotone_signs(options)
        changes |= {"categorical_features": "from_dtype"} | ({} if signs is None else {"monotonic_cst": signs})
    elif isinstance(options.categorical_features, str):  # a fold without a blank is encoded like the others
        changes["categorical_features"] = []
    search = type(options)(**(options.get_params(deep=False) | changes | ({"leaf_shrinkage": 0.0} if shrunk else {})))
    n_features = rows.X.shape[1]
    fits: list[Any] = [None] * len(folds)
    scores: list[list[float]] = []
    strengths: list[float] = []
    best = 0
    least = 1 if options.recipe.least_depth is None else options.recipe.least_depth(y)
    depths = range(min(least, DEEPEST), DEEPEST + 1)
    for depth in depths:
        if options.verbose:
            print(f"{type(options).__name__}, search: depth {depth}, {len(folds)} folds", file=sys.stderr)
        if scores and costs.lack_of_memory(options, len(y), n_features, depth) is not None:
            break
        folded: list[Any] = [None] * len(folds)
        left = None if options.time_limit is None else SEARCH_SHARE * options.time_limit - (now() - began)
        tasks = []
        for k, (train, valid) in enumerate(folds):
            share = None if left is None else max(left / len(folds), 1e-3)
            tasks.append((clone(search).set_params(time_limit=share), depth, fits[k], train, valid, shrunk))
        for k, pair in bridge.solvers.core.parallel.spread(_fit_fold, (X, y, weight), tasks, 1):
            fits[k], folded[k] = pair
        strengths.append(min(folded[0], key=lambda strength: sum(row[strength][0] for row in folded)))
        scores.append([row[strengths[-1]][1] for row in folded])
        means = np.mean(scores, axis=1)
        best = int(np.argmax(means))
        if not np.isfinite(means).all():
            raise ValueError("cv must hold out enough rows for a score in every split; got a split too small")
        interrupted = any(fitted.result_.termination.name == "INTERRUPTED" for fitted in fits)
        late = options.time_limit is not None and now() - began > SEARCH_SHARE * options.time_limit
        if interrupted or late or (len(scores) - 1 - best >= PATIENCE and not is_printed(options)):
            break
    results = {
        "depth": np.array(depths[: len(scores)]),
        "scores": np.array(scores),
        "mean_score": np.mean(scores, axis=1),
    }
    chosen = {"best_depth_": depths[best], "cv_results_": results}
    if shrunk:
        results["leaf_shrinkage"] = np.array(strengths)
        chosen["leaf_shrinkage_"] = strengths[best]
    return chosen


def _read_in_time(options: Estimator, rows: Rows, seed: int) -> Rows:
    """As many random rows as are read, or columns of an array sorted, in every fold, at `FEW_DEPTHS` depths, in half of
    the time; none of weight 0.
    """
    if options.time_limit is None or not isinstance(options.cv, (int, float, np.integer)) or is_sparse(rows.X):
        return rows
    folds, seconds = int(options.cv) if options.cv > 1 else 1, rows.seconds
    if rows.table is None:
        seconds = _seconds_to_sort(rows.X)
    share = 0.5 * SEARCH_SHARE * options.time_limit / max(FEW_DEPTHS * folds * seconds, 1e-9)
    number, used = max(int(share * len(rows.y)), FEWEST_READ), np.flatnonzero(rows.weight)
    if number >= used.size:
        return rows
    some = np.sort(np.random.default_rng(seed).choice(used, number, replace=False))
    table = None if rows.table is None else rows_of(rows.table, some)
    return replace(rows, X=rows.X[some], y=rows.y[some], weight=rows.weight[some], table=table)


def _seconds_to_sort(X: Floats) -> float:
    """Of the columns of an array, each for itself."""
    began = now()
    np.sort(X[:, 0])
    return X.shape[1] * (now() - began)


@on_parts()
def _fit_fold(data: Any, task: Any) -> tuple[Any, dict[float, tuple[float, float]]]:
    """One fold at one depth: the fit, and held-out error and score for each strength of shrinkage that is tried."""
    (X, y, weight), (model, depth, last, train, valid, shrunk) = data, task
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InterruptedFitWarning)
        warnings.simplefilter("ignore", TableWarning)  # the fit to all rows says it
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)  # more often true of a part
        fitted = fit_warm(model, depth, last, rows_of(X, train), y[train], weight[train])
    held_out = rows_of(X, valid), y[valid], weight[valid]
    if shrunk:
        return fitted, shrunk_scores(fitted, rows_of(X, train), y[train], weight[train], held_out)
    return fitted, {0.0: (0.0, float(fitted.score(*held_out)))}


def folds_of(
    model: Any, X: Floats, y: NDArray[Any], seed: int, table: Any = None, weight: Floats | None = None
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Training and held-out rows of each fold of ``model.cv``; fewer than so many, where each would hold out less than
    two rows, or no class has a row for each. Copies of a row are in one fold and rows of ``weight`` 0 in none, unless
    ``model.cv`` is a splitter, which sees the ``table`` that X encodes, if there is one.

    Raises
    ------
    ValueError
        If there is no split, or one names rows that are not there.
    """
    whole = isinstance(model.cv, (int, float, np.integer, np.floating))
    if whole and weight is not None and not np.all(weight > 0.0):
        used = np.flatnonzero(weight)
        return [(used[a], used[b]) for a, b in folds_of(model, X[used], y[used], seed)]
    Y = np.unique(y, return_inverse=True)[1] if is_classifier(model) else y
    copy = np.arange(len(y))
    if whole:
        first, copy = different_rows(X, np.reshape(Y, (len(y), -1)))
        y = y[first]
    counts = np.unique(y, return_counts=True)[1] if is_classifier(model) else np.ones(1, int)
    stratify = counts.min() >= 2
    if whole and len(y) < 4:
        raise ValueError(f"max_depth must be 'auto' or an integer for fewer than four rows; got 'cv' for {len(y)}")
    kind: Any
    if isinstance(model.cv, (int, np.integer)):
        most = int(counts.max()) if stratify else max(len(y) // 2, 2)
        kind = (StratifiedKFold if stratify else KFold)(min(int(model.cv), most), shuffle=True, random_state=seed)
    elif isinstance(model.cv, (float, np.floating)):
        held = int(np.ceil(model.cv * len(y)))
        stratify = stratify and min(held, len(y) - held) >= len(counts)
        kind = (StratifiedShuffleSplit if stratify else ShuffleSplit)(1, test_size=float(model.cv), random_state=seed)
    else:
        kind = check_cv(model.cv, y, classifier=is_classifier(model))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)  # it is in some folds, not in all
        cuts = list(kind.split(np.zeros((len(y), 1)) if whole else X if table is None else table, y))
    if whole:
        return with_copies(cuts, copy)
    if not cuts:
        raise ValueError("cv must have one split or more; got none")
    row = np.arange(len(y))
    try:
        return [(row[train], row[valid]) for train, valid in cuts]
    except (IndexError, TypeError, ValueError) as error:
        raise ValueError(f"cv must give pairs of rows between 0 and {len(y) - 1}; got {error}") from error


def fit_warm(model: Any, depth: int, last: Any, *data: Any) -> Any:
    """A copy of ``model`` with this depth, fitted to ``data``; its objective is at most that of ``last``.

    ``last`` is the fit of the depth before, or None; a forest is no warm start. If the solver treats a start as one
    candidate among others (``starts_compete``), it gets the last tree at once; otherwise a fit that turns out worse is
    repeated from that tree. Papers' methods start anew at each depth.
    """
    warm = {"init": last.tree_} if hasattr(last, "tree_") and not is_printed(model) else {}
    fitted = clone(model).set_params(max_depth=depth, **(warm if model.starts_compete else {}))
    taken = warm and model.starts_compete
    if not taken and isinstance(model.init, Tree) and model.init.depth > depth:
        fitted.set_params(init=type(model)().init)
    fitted.fit(*data)
    if warm and not model.starts_compete and merit(fitted) > merit(last):
        fitted.set_params(**warm).fit(*data)
    return fitted


def merit(fitted: Estimator) -> float:
    """The number by which fits of the same problem are compared; lower is better."""
    name = fitted.recipe.merit
    return float(getattr(fitted, name) if name else fitted.result_.objective)
