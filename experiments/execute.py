"""One run: the data, the split, the fit or the solve, and the numbers of its row. The clock runs for the fit alone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.metrics import accuracy_score, f1_score, get_scorer, mean_squared_error, r2_score
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    ParameterGrid,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
    train_test_split,
)

from experiments import methods
from experiments.planned import PlannedRun, Splits
from experiments.sizes import flops, sizes
from experiments.statements import STATEMENTS, stated
from opttree import L2, TreeProblem, datasets
from opttree.kernels.losses.codes import SMALLEST_PROBABILITY
from opttree.tables.preprocessing import gradtree_pipeline
from solvers.races import entries
from solvers.races.execute import WARM_LIMIT, solved, steps, verdict, warm
from solvers.races.runs import Outcome

REPETITION_SECONDS = 0.5
MOST_ROUTED = 2000  # test rows by which the operations of a prediction are counted
LEAF_PENALTY = 1e-4  # l2, of linear leaves in a solve protocol


def execute(run: PlannedRun, threads: int, started: Callable[[], None] = lambda: None) -> Outcome:
    """The numbers of a run, and its trace where there is one.

    ``started`` is called when the clock starts. Raises `UnavailableError` where the method cannot run on this
    data set or here.
    """
    return (_fit if run.kind == "fit" else _solve)(run, threads, started)


@lru_cache(maxsize=2)
def load(name: str, without: tuple[str, ...] = ()) -> tuple[np.ndarray, np.ndarray, str]:
    """Features, target and task of a data set; "sarcos_test:0" is the first of several targets. Columns ``without`` are
    left out.
    """
    name, _colon, output = name.partition(":")
    data = datasets.load(name)
    data = replace(data, X=data.X.drop(columns=list(without)))
    X, y = data.as_arrays()
    return X, y[:, int(output)] if output else y, data.task


@lru_cache(maxsize=2)
def raw(name: str, without: tuple[str, ...] = ()) -> tuple[pd.DataFrame, np.ndarray, str]:
    """The same with features as they stand in the file, for a pipeline that encodes categories itself."""
    return datasets.load(name.partition(":")[0]).X.drop(columns=list(without)), *load(name)[1:]


def parts(splits: Splits, split: int, seed: int, y: np.ndarray, task: str) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows; stratified by class where the splits are and every class has the rows for it."""
    rows = np.arange(len(y))
    stratified = splits.stratify and task == "classification"
    counts = np.unique(y, return_counts=True)[1] if stratified else np.array([0])

    own = seed if splits.per_seed else 0

    def held_out(rows: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
        few = not stratified or np.unique(y[rows], return_counts=True)[1].min() < 2
        return train_test_split(rows, test_size=share, random_state=own, stratify=None if few else y[rows])

    if splits.kind == "holdout":
        train, test = held_out(rows, splits.test_size)
    else:
        kind = StratifiedKFold if counts.min() >= splits.k else KFold
        folds = kind(splits.k, shuffle=True, random_state=own)
        train, test = list(folds.split(rows, y if kind is StratifiedKFold else None))[split]
    if splits.inner:
        train, test = held_out(train, splits.inner)
    if 0 < splits.most < len(train):
        train = np.random.default_rng(own).permutation(train)[: splits.most]
    return train, test


def _fit(run: PlannedRun, threads: int, started: Callable[[], None]) -> Outcome:
    X, y, task = (raw if run.preprocess else load)(run.dataset, run.without)
    train, test = parts(run.splits, run.split, run.seed, y, task)
    seed = run.random_state
    options = dict(run.method.options)
    entry = methods.entry(run.method.use)
    if run.time_limit is not None and entry.compiled:
        options.setdefault("time_limit", run.time_limit)
    model = methods.estimator(run.method.use, task, options, depth=run.depth, seed=seed, threads=threads)
    if run.preprocess:
        model = gradtree_pipeline(model, random_state=seed, leave_out=run.preprocess.endswith("leave-one-out"))
    if run.method.grid:
        model = search(model, run, y[train], task)
    if entry.compiled:
        _warm(run, task, threads)
    shift, unit = units(y, train, task) if run.outputs == "standard" else (0.0, 1.0)
    started()
    began, used = time.perf_counter(), time.process_time()
    model.fit(X.take(train, axis=0), (y[train] - shift) / unit)
    row: dict[str, Any] = {"fit_seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - used}
    began = time.perf_counter()
    predicted = model.predict(X.take(test, axis=0))
    row["predict_seconds"] = time.perf_counter() - began
    row["predict_microseconds"] = 1e6 * row["predict_seconds"] / len(test)
    if run.predictions:
        row["one_row_microseconds"] = one_row_microseconds(model, X.take(test[:1], axis=0), run.predictions)
    for part, rows, y_hat in (("train", train, model.predict(X.take(train, axis=0))), ("test", test, predicted)):
        row |= {f"{part}_{metric}": value for metric, value in scores(y[rows], shift + unit * y_hat, task).items()}
    if task == "classification":
        row["train_minus_test_f1"] = row["train_f1"] - row["test_f1"]
    if hasattr(model, "predict_proba") and hasattr(model, "classes_"):
        own = model.predict_proba(X.take(test, axis=0)) * (y[test][:, None] == model.classes_)
        row["test_log_loss"] = float(-np.log(np.clip(own.sum(axis=1), SMALLEST_PROBABILITY, 1.0)).mean())
    best = getattr(model, "best_estimator_", model)
    best = best[-1] if run.preprocess else best
    row |= sizes(best) | choices(model, best)
    if not run.preprocess:
        row |= flops(best, np.asarray(X)[test[:MOST_ROUTED]])
    if hasattr(best, "average_entropy_"):
        row["average_entropy"] = float(best.average_entropy_)
    result = getattr(best, "result_", None)
    if result is None:
        return row, None
    return row | verdict(result), steps(result)


def one_row_microseconds(model: Any, X: Any, most: int) -> float:
    """Mean time of predicting the one row of ``X``, over ``most`` repetitions, or those that half a second holds."""
    began, count = time.perf_counter(), 0
    while count < most and time.perf_counter() - began < REPETITION_SECONDS:
        model.predict(X)
        count += 1
    return 1e6 * (time.perf_counter() - began) / count


def search(model: Any, run: PlannedRun, y: np.ndarray, task: str) -> Any:
    """The model with options chosen among the grids of the run's method, on random parts of the training rows."""
    prefix = "model__" if run.preprocess else ""
    grids: Any = [
        {prefix + option: [entries.value(stated) for stated in values] for option, values in grid.items()}
        for grid in run.method.grids
    ]
    stratified = run.splits.stratify and task == "classification"
    fewest = np.unique(y, return_counts=True)[1].min() if stratified else 0
    choose = StratifiedShuffleSplit if fewest >= 2 else ShuffleSplit
    share = choose(run.method.parts, test_size=run.method.validation, random_state=run.random_state)
    if run.method.trials:
        every = list(ParameterGrid(grids))
        drawn = np.random.default_rng(run.random_state).permutation(len(every))[: run.method.trials]
        grids = [{option: [value] for option, value in every[i].items()} for i in drawn]
    score = run.method.score or ("f1_macro" if task == "classification" else "r2")
    if run.method.warm:
        return WarmSearch(model, grids, share, score)
    return GridSearchCV(model, grids, cv=share, scoring=score, error_score="raise")


@dataclass
class WarmSearch:
    """`GridSearchCV` for our single trees, whose last fit starts from the best of the trees with the chosen options.

    Of options that are as good, the first as the grids are stated are chosen.
    """

    estimator: Any
    grids: list[dict[str, Any]]
    cv: Any
    scoring: str

    def fit(self, X: np.ndarray, y: np.ndarray) -> WarmSearch:
        """Choose by the mean score over the parts, then fit to all rows."""
        score, parts, best = get_scorer(self.scoring), list(self.cv.split(X, y)), -np.inf
        for options in (dict(zip(g, values, strict=True)) for g in self.grids for values in product(*g.values())):
            models = [clone(self.estimator).set_params(**options).fit(X[fit], y[fit]) for fit, _valid in parts]
            values = [score(model, X[valid], y[valid]) for model, (_fit, valid) in zip(models, parts, strict=True)]
            if np.mean(values) > best:
                best, self.best_params_ = np.mean(values), options
                start = models[int(np.argmax(values))]
        self.best_estimator_ = clone(start).set_params(init=start.tree_, n_init=1).fit(X, y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """What the last tree answers."""
        return self.best_estimator_.predict(X)


def _solve(run: PlannedRun, _threads: int, started: Callable[[], None]) -> Outcome:
    if run.dataset in STATEMENTS:
        X, y, loss, weight = stated(run.dataset)
        problem = TreeProblem(X, y, run.depth or 0, run.trees, loss=loss, sample_weight=weight)
        _result, row, trace = solved(problem, entries.solver(run.method.use), run, started)
        return row, trace
    X, y, task = load(run.dataset, run.without)
    train, test = parts(run.splits, run.split, run.seed, y, task)
    features, target = scaled(X, train, run.features), outputs(y, train, task, run.outputs == "unit")
    problem = statement(features[train], target[train], task, run)
    result, row, trace = solved(problem, entries.solver(run.method.use), run, started)
    for part, rows in (("train", train), ("test", test)) if result.tree is not None else ():
        predicted = result.tree.predict(features[rows])
        row |= {f"{part}_{metric}": value for metric, value in scores(target[rows], predicted, task).items()}
    return row, trace


def scaled(X: np.ndarray, rows: np.ndarray, features: str) -> np.ndarray:
    """Features in units of their mean and deviation over ``rows`` ("standard"), or of their range ("unit")."""
    if features == "standard":
        shift, unit = X[rows].mean(axis=0), X[rows].std(axis=0)
    else:
        shift, unit = X[rows].min(axis=0), np.ptp(X[rows], axis=0)
    return (X - shift) / np.where(unit > 0, unit, 1.0)


def outputs(y: np.ndarray, rows: np.ndarray, task: str, least: bool = False) -> np.ndarray:
    """Targets in units of their mean and deviation over ``rows``, or of the ``least`` and the range; class labels as
    they are.
    """
    if least and task == "regression":
        shift, unit = y[rows].min(axis=0), np.ptp(y[rows], axis=0)
    else:
        shift, unit = units(y, rows, task)
    return (y - shift) / unit


def units(y: np.ndarray, rows: np.ndarray, task: str) -> tuple[Any, Any]:
    """Mean and deviation of targets over ``rows``; 0 and 1 for class labels."""
    return (0.0, 1.0) if task == "classification" else (y[rows].mean(axis=0), y[rows].std(axis=0))


def statement(X: np.ndarray, y: np.ndarray, task: str, run: PlannedRun) -> TreeProblem:
    """The problem of a solve protocol: no penalty but `LEAF_PENALTY` on linear leaves."""
    assert run.depth is not None
    assert run.leaves is not None
    return TreeProblem(
        X,
        y,
        depth=run.depth,
        splits=run.trees,
        leaves=run.leaves,
        loss="squared" if task == "regression" else "zero_one",
        penalties=(L2(leaves=LEAF_PENALTY),) if run.leaves == "linear" else (),
    )


def scores(y: np.ndarray, predicted: np.ndarray, task: str) -> dict[str, float]:
    """What is measured on a part of the rows: R2 and errors, or macro F1 and accuracy."""
    if task == "classification":
        return {"f1": f1_score(y, predicted, average="macro"), "accuracy": accuracy_score(y, predicted)}
    error = mean_squared_error(y, predicted)
    return {"r2": r2_score(y, predicted), "mse": error, "rmse": float(np.sqrt(error))}


def choices(model: Any, best: Any) -> dict[str, Any]:
    """What a model has chosen by itself: options of a grid, the kind of its trees, a member of its portfolio; and the
    loss on held-out rows by which it did so, or stopped.
    """
    found = dict(getattr(model, "best_params_", {}))
    found |= {name: getattr(best, f"{name}_") for name in ("kind", "best_member") if hasattr(best, f"{name}_")}
    row = {"chosen": json.dumps(found, default=repr)} if found else {}
    return row | ({"validation_loss": best.validation_loss_} if hasattr(best, "validation_loss_") else {})


def _warm(run: PlannedRun, task: str, threads: int) -> None:
    X, y, _task = load(run.dataset, run.without)
    options = {**run.method.options, "time_limit": WARM_LIMIT}
    model = methods.estimator(run.method.use, task, options, depth=run.depth, seed=0, threads=threads)
    rows = np.random.default_rng(0).permutation(len(y))
    warm((run.method.use, repr(options), run.depth, task), lambda few: model.fit(X[few], y[few]).predict(X[few]), rows)
