"""Time limits that are short for the table."""

from dataclasses import replace

import numpy as np
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
from opttree.estimators.steps import price, solve as steps
from solvers import ORRT, Termination, solve


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
