"""Time limits that are short for the table."""

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from opttree import (
    CostClassifier,
    GETRegressor,
    ORRTRegressor,
    RADDTRegressor,
    SRTRegressor,
    TAORegressor,
    TreeProblem,
)
from opttree.estimators.steps import depth, fit, floor, price, solve as steps
from opttree.runtime.clock import due_at, now
from solvers import ORRT, CartInit, Termination, solve
from solvers.core import parallel
from solvers.sdtr.descent import in_slices


@pytest.mark.parametrize(
    "model",
    [
        TAORegressor(4, leaves="linear", floor=False, time_limit=3.0, random_state=0),
        SRTRegressor(3, time_limit=3.0, random_state=0),
        ORRTRegressor(3, time_limit=3.0, random_state=0),
        GETRegressor(4, time_limit=3.0, random_state=0),
        RADDTRegressor(4, time_limit=3.0, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_fit_on_some_rows_comes_first(model, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 4))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
    monkeypatch.setattr(steps, "PART_CELLS", 100.0)
    monkeypatch.setattr(steps, "PART_ROWS", 1000)
    sizes, run = [], steps.run

    def watched(options, solver, problem, start, *more):
        sizes.append((problem.n_samples, start is not None))
        return run(options, solver, problem, start, *more)

    monkeypatch.setattr(steps, "run", watched)
    model.fit(X, y)
    assert sizes[:2] == [(1000, False), (8000, True)]
    assert model.score(X, y) > 0.3
    sizes.clear()
    monkeypatch.setattr(steps, "PART_ROWS", 5000)  # half of the rows, or more, are as good as all
    model.fit(X, y)
    assert sizes[0] == (8000, False)


@pytest.mark.parametrize("seconds", [np.inf, 1e308])
@pytest.mark.parametrize("kind", [TAORegressor, GETRegressor, SRTRegressor, ORRTRegressor, RADDTRegressor])
def test_a_limit_may_be_infinite(kind, seconds):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    assert np.isfinite(kind(1, time_limit=seconds, random_state=0).fit(X, X[:, 0]).result_.objective)


def test_folds_without_a_split_in_time_choose_the_middle_price(monkeypatch):
    """All prices had the same losses, and the largest was taken: the tree was a constant; without one it fits noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    c = (X[:, 0] > 0).astype(int)

    def cut(options, solver, problem, *more):
        result = run(options, solver, problem, *more)
        return replace(result, tree=problem.best_constant(), termination=Termination.TIME_LIMIT)

    run = price.run
    monkeypatch.setattr(price, "run", cut)
    model = CostClassifier(2, split_price="cv", random_state=0).fit(X, c, costs=1.0 - np.eye(2)[c])
    prices = model.cv_results_["split_price"]
    assert model.split_price_ == prices[len(prices) // 2] > 0.0
    assert model.score(X, c, costs=1.0 - np.eye(2)[c]) == 0.0


@pytest.mark.parametrize("classes", [False, True])
def test_what_orrt_returns_at_a_limit_is_no_worse_than_a_constant(classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 20))
    y = X[:, 0] + X[:, 1] * X[:, 2]
    options = {"loss": "log"} if classes else {}
    problem = TreeProblem(X, np.digitize(y, [-1, 0, 1]) if classes else y, 4, **options)
    result = solve(problem, ORRT(), time_limit=0.02, random_state=0)
    assert result.objective <= problem.objective(problem.best_constant())


@pytest.mark.usefixtures("by_hand")
def test_linear_models_of_many_strengths_hear_the_limit(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    begun, fit = [], floor.linear_model

    def slowly(*given):
        time.sleep(1.0)
        begun.append(now())
        return fit(*given)

    monkeypatch.setattr(floor, "linear_model", slowly)
    model = TAORegressor(time_limit=4.0, random_state=0).fit(X, X[:, 0])
    assert 2 <= len(begun) <= 4  # ten before
    assert model.fallback_ is None


@pytest.mark.usefixtures("by_hand")
def test_many_classes_leave_time_for_fewer_features():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 400)), rng.integers(0, 50, 500)
    with due_at(now() + 0.1):
        few, many = (CartInit()._features(TreeProblem(X, labels, 8, "axis", loss="log")) for labels in (y % 2, y))
    assert few > 2.5 * many  # the same number before


@pytest.mark.usefixtures("by_hand")
def test_batches_hear_the_limit():
    run = SimpleNamespace(done=0, remaining=1000)

    def advance(batches):
        time.sleep(0.3 * batches)
        run.done, run.remaining = run.done + batches, run.remaining - batches

    run.advance = advance
    with due_at(now() + 2.0):
        assert in_slices(run, 100, 4) == 1
    assert 7 <= run.done <= 8
    in_slices(run, 100, 1)  # without a limit
    assert run.done >= 107


@pytest.mark.usefixtures("by_hand")
@pytest.mark.parametrize(("seconds", "rest"), [(8.0, 2.0), (0.5, 10.0), (30.0, 1e-3)])
def test_reading_a_table_counts(seconds, rest, monkeypatch):
    """A tenth of the limit aside, the time that a table takes to be read is taken from the fit."""
    limits, read, fit_rows = [], fit.read_rows, fit.fit_rows

    def slowly(*args):
        time.sleep(seconds)
        return read(*args)

    def noted(options, *args, **how):
        limits.append(options.time_limit)
        return fit_rows(options, *args, **how)

    monkeypatch.setattr(fit, "read_rows", slowly)
    monkeypatch.setattr(fit, "fit_rows", noted)
    X = np.linspace(0.0, 1.0, 40)[:, None]
    model = TAORegressor(time_limit=10.0, max_depth=1).fit(X, X[:, 0] > 0.5)
    assert limits[0] == pytest.approx(rest)
    assert model.time_limit == 10.0


@pytest.mark.usefixtures("by_hand")
@pytest.mark.parametrize(("seconds", "number"), [(0.0, 9000), (1.0, 900), (8.0, 500)])
def test_folds_are_of_rows_that_are_read_in_time(seconds, number, monkeypatch):
    """Folds of a search for the depth read their part of a table each; 24 s for a limit of 3 before."""
    read, folds = fit.read_rows, []

    def slowly(*args):
        time.sleep(seconds)
        return read(*args)

    def noted(data, *rest):
        folds.append(len(data[1]))
        return spread(_fit_fold, data, *rest)

    spread, _fit_fold = parallel.spread, depth._fit_fold
    monkeypatch.setattr(fit, "read_rows", slowly)
    monkeypatch.setattr(parallel, "spread", lambda _fold, *args: noted(*args))
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"t": rng.choice(["a", "b", "c"], 9000), "z": rng.normal(size=9000)})
    y = (table["t"] == "a") + table["z"]
    model = TAORegressor("cv", cv=3, time_limit=4.6, random_state=0).fit(table, y)
    assert folds[0] == pytest.approx(number, abs=1)
    assert model.score(table, y) > 0.5
    weight = np.zeros(9000)
    weight[rng.choice(9000, 450, replace=False)] = 1.0
    folds.clear()
    model.fit(table, y, sample_weight=weight)  # "for fewer than four rows", where few of those read had a weight
    assert folds[0] == 9000
    monkeypatch.setattr(depth, "_seconds_to_sort", lambda X: seconds)
    folds.clear()
    TAORegressor("cv", cv=3, time_limit=4.6, random_state=0).fit(table[["z"]].to_numpy(), y)
    assert folds[0] == pytest.approx(number, abs=1)


def test_options_are_checked_before_a_table_is_read(monkeypatch):
    monkeypatch.setattr(fit, "read_rows", lambda *_: pytest.fail("it was read"))
    with pytest.raises(ValueError, match="time_limit must be > 0 seconds or None; got -1"):
        TAORegressor(time_limit=-1).fit([[0.0]], [0.0])
