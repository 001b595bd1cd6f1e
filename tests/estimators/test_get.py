"""The estimators of GET."""

import numpy as np
import pytest

from opttree import GETClassifier, GETRegressor, datasets
from solvers import Termination
from tests.conftest import ends_in_time
from tests.estimators import solver_of


@pytest.mark.parametrize(
    ("model", "starts", "polished"),
    [
        (GETRegressor(5), None, True),
        (GETRegressor(6), 1, False),
        (GETRegressor(6, n_starts=3, polish=True), 3, True),
        (GETRegressor(6, leaves="linear"), None, False),
        (GETRegressor(6, preset="paper"), 10, True),
        (GETClassifier(6), None, True),
    ],
    ids=repr,
)
def test_deep_regression_trees_take_one_start_and_no_polish(model, starts, polished):
    X = np.random.default_rng(0).normal(size=(50, 3))
    y = X[:, 0] > 0.0 if isinstance(model, GETClassifier) else X[:, 0]
    solver = solver_of(model, model.state(X, y)[0])
    assert (solver.n_starts, solver.polish is not None) == (starts, polished)


def test_classifier_learns_oblique_boundaries():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = np.array(["a", "b", "c"])[(X[:, 0] + X[:, 1] > 0).astype(int) + (X[:, 2] - X[:, 3] > 0.5)]
    for leaves in ("constant", "linear"):
        model = GETClassifier(3, leaves=leaves, random_state=0).fit(X, y)
        assert model.score(X, y) > 0.95
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("options", "late"), [({}, 0.2), ({"leaves": "linear"}, 0.2), ({"preset": "paper"}, 1.0)], ids=str
)
def test_time_limits_are_kept_to_a_fifth_of_a_second_and_with_the_papers_ten_starts_to_one(options, late):
    X, y = datasets.load("friedman1", as_arrays=True)
    X, y = np.tile(X, (8, 1)), np.tile(y, 8)
    GETRegressor(8, time_limit=0.2, random_state=0, **options).fit(X, y)  # compile
    model = GETRegressor(8, time_limit=0.3, random_state=0, **options)
    ends_in_time(lambda: model.fit(X, y), 0.6 + late)
    assert model.result_.termination is Termination.TIME_LIMIT
