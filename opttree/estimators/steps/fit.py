"""A fit as a list of steps: table, rows, depth, units and statement, solve and shrink, model, description."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from opttree.estimators.recipe import Estimator, Fit, Recipe, Rows, chooses_depth, searches_depth
from opttree.estimators.steps.depth import choose_depth
from opttree.estimators.steps.evals import history, named_sets
from opttree.estimators.steps.floor import above_floor, choose, has_floor, less
from opttree.estimators.steps.model import described, single_tree
from opttree.estimators.steps.rows import read_eval_set, read_rows, without_classes
from opttree.estimators.steps.shrink import solve_shrunk
from opttree.estimators.steps.solve import as_seed, solve_once, within_leaves
from opttree.estimators.steps.state import depth_for, state, transformer_of
from opttree.estimators.steps.tails import clipped, keep_limits, with_targets_clipped
from opttree.methods import costs
from opttree.model.tree import Tree
from opttree.runtime import devices
from opttree.runtime.clock import now
from opttree.runtime.compiling.ahead import compiled_ahead
from opttree.runtime.interrupts import InterruptedFitWarning, noted_interrupts
from opttree.wide.sparse import is_sparse

OF_A_FIT = (
    "best_depth_",
    "cv_results_",
    "validation_loss_",
    "evals_result_",
    "fallback_",
    "floor_errors_",
    "split_penalty_",
    "n_rows_",
    "_held_out_errors",
    "_stream",
)  # attributes that not every fit sets

READING = 0.1  # of a time limit: reading a table in less is not taken from it
OF_COLUMNS = ("encoder_", "n_features_in_", "feature_names_in_")  # what reading a table sets


def fit(
    options: Estimator,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None,
    eval_set: Any = None,
    stacklevel: int = 2,
    *,
    streams: bool = False,
) -> Fit:
    """Fit an estimator to a table: its attributes are set, and the record of the fit is returned.

    After Ctrl-C a warning, at the caller ``stacklevel`` frames up, says that the model is the best so far, and
    KeyboardInterrupt is raised again unless ``on_interrupt`` is "keep". A tree that ``streams`` goes on learning from
    chunks of rows, and has no floor.
    """
    began, limit = now(), options.time_limit
    options.check_options()  # before the table is read, which may take long
    sets = named_sets(options, eval_set)
    eval_set = list(sets.values())[-1] if sets else None
    before = {name: vars(options)[name] for name in OF_COLUMNS if name in vars(options)}
    try:
        rows = read_rows(options, X, y, sample_weight, eval_set)
        equal = not streams and bool(np.all(rows.weight == 1.0))
        set_attributes(options, {"_target_name": name_of(y), "_n_equal": len(rows.weight) if equal else None})
        spent = now() - began
        rows = replace(rows, seconds=spent)
        rest = {} if limit is None or spent < READING * limit else {"time_limit": max(limit - spent, 1e-3)}
        with noted_interrupts() as interrupted, compiled_ahead(options), changed(options, **rest):
            record = fit_rows(options, rows, eval_set, streams=streams)
    except BaseException:
        if before:  # the model of an earlier fit stays, with its columns and their encoding
            clear(options, *OF_COLUMNS)
            set_attributes(options, before)
        raise
    if sets:
        options.evals_result_ = history(options, sets)
    if interrupted():
        report_interrupt(options, stacklevel + 1)
    return record


def name_of(y: Any) -> str | None:
    """The name of a column of targets, if it has one."""
    name = y.columns[0] if hasattr(y, "columns") and len(y.columns) == 1 else getattr(y, "name", None)
    return name if isinstance(name, str) and name else None


def fit_rows(options: Estimator, rows: Rows, eval_set: Any, *, streams: bool = False) -> Fit:
    """The steps from rows of numbers to the fitted attributes."""
    recipe: Recipe = options.recipe
    began, rows = now(), without_classes(options, rows)
    given = rows
    clear(options, *OF_A_FIT)
    check(options)

    # depth
    searched = depth_for(options, rows.X.shape[0])
    n_rows = max(int(np.count_nonzero(rows.weight)), 1)
    if (reason := costs.lack_of_memory(options, n_rows, rows.X.shape[1], searched, *sizes_of(rows))) is not None:
        raise MemoryError(reason)
    seed = as_seed(options.random_state)
    search: dict[str, Any] = {}
    if searches_depth(options):  # on the table, so that folds learn encodings of their own
        search = choose_depth(options, rows, seed)
        set_attributes(options, search)
    choice = None
    if not streams and (has_floor(options) or (recipe.depth is None and options.max_depth == "auto")):
        choice = choose(options, rows, seed, fit_rows, plain=eval_set is not None)
        search = choice.attributes
        set_attributes(options, {"best_depth_": choice.depth})  # the others once there is a tree
        if choice.limits is not None:
            keep_limits(options, rows, choice.limits)
            rows = given = clipped(rows, choice.limits)
        if choice.target_limits is not None:
            rows = given = with_targets_clipped(rows, choice.target_limits)
        if choice.base is not None:
            rows = replace(rows, y=less(rows, choice.base))

    penalty = None if choice is None else choice.penalty
    with changed(options, **({} if penalty is None else {"split_penalty": penalty, "l1_ratio": 1.0})):
        # units, statement, validation rows, start
        transformer = transformer_of(options, rows.X, rows.weight)
        problem, scaling = state(options, rows.X, rows.y, rows.weight, transformer=transformer)
        record = Fit(rows, problem, scaling, search=search, transformer=transformer, seed=seed)
        left = None if options.time_limit is None else max(options.time_limit - (now() - began), 1e-3)
        record = replace(
            record, valid=read_eval_set(options, eval_set, record), start=start_of(options, record), time_limit=left
        )

        # solve, shrink, model, description
        solve, steps = recipe.solve or solve_once, within_leaves if recipe.shrink is None else solve_shrunk
        try:
            outcome = steps(options, record, solve)
        except KeyboardInterrupt:
            if choice is None or choice.other is None:
                raise
            outcome = steps(options, replace(record, start=problem.best_constant()), solve)  # the other tree is there
        fitted = (recipe.model or single_tree)(options, record, outcome)
        if choice is not None:
            fitted = above_floor(options, given, record, fitted, choice)
    attributes = {"result_": outcome.result, "n_iter_": outcome.result.n_steps, **search, **outcome.attributes}
    if transformer is not None or recipe.transform is not None:
        attributes["transformer_"] = transformer
    if problem.classes is not None:
        several = rows.several
        attributes["classes_"] = problem.classes if several is None else [labels for labels, _codes in several]
        attributes["_several"] = several
    set_attributes(options, attributes | described(options, record, fitted))
    return record


def sizes_of(rows: Rows) -> tuple[int, float]:
    """Outputs, or classes, and the density of the table."""
    outputs = len(np.unique(rows.y)) if rows.y.dtype.kind != "f" else rows.y.reshape(len(rows.y), -1).shape[1]
    return outputs, rows.X.nnz / max(np.prod(rows.X.shape), 1) if is_sparse(rows.X) else 1.0


@contextmanager
def changed(options: Estimator, **values: Any) -> Iterator[None]:
    """Other values of some options, for a while."""
    before = {name: getattr(options, name) for name in values}
    set_attributes(options, values)
    try:
        yield
    finally:
        set_attributes(options, before)


def check(options: Estimator) -> None:
    """Check the options' own rules; the problem and the solver check the options that they receive."""
    options.check_options()
    devices.require(getattr(options, "device", "cpu"))  # "cpu" is always available
    if options.recipe.check is not None:
        options.recipe.check(options)


def start_of(options: Estimator, record: Fit) -> Tree | None:
    """``init`` in the units of the problem, if it is a tree; None where a depth is searched and it is deeper."""
    init = getattr(options, "init", None)
    problem = record.problem
    if not isinstance(init, Tree) or (chooses_depth(options) and init.depth > problem.depth):
        return None
    if init.n_features != problem.n_features:
        raise ValueError(f"init must be a tree of {problem.n_features} features, those of X; got {init.n_features}")
    start: Tree = record.scaling.scale(init)
    return problem.enforce_max_splits(start)


def set_attributes(options: Estimator, attributes: dict[str, Any]) -> None:
    """Set fitted attributes, by their names."""
    for name, value in attributes.items():
        setattr(options, name, value)


def clear(options: Estimator, *names: str) -> None:
    """Drop attributes of an earlier fit."""
    for name in names:
        options.__dict__.pop(name, None)


def report_interrupt(options: Estimator, stacklevel: int) -> None:
    """Warn, at the caller so many frames up, and raise KeyboardInterrupt unless ``on_interrupt`` is "keep"."""
    try:
        warnings.warn(
            f"{type(options).__name__} was interrupted: its model is the best so far, not the finished one",
            InterruptedFitWarning,
            stacklevel=stacklevel + 1,
        )
    finally:  # even if warnings are errors, which a hyperparameter search would count as a failed fit
        if options.on_interrupt == "raise":
            raise KeyboardInterrupt
