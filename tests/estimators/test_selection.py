"""Depths chosen on held-out rows."""

import time
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import make_friedman1

import opttree
from opttree import GETRegressor, TAOForestRegressor, TAORegressor, datasets
from opttree.estimators.steps import depth as selection


@pytest.mark.parametrize(("estimator", "options"), [(GETRegressor, {"n_starts": 1}), (TAORegressor, {})])
def test_depth_by_cross_validation(estimator, options):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(500, 3))
    y = np.where(X[:, 0] > 0, np.where(X[:, 1] > 0, 1.0, -1.0), np.where(X[:, 2] > 0, 2.0, 0.0))
    y = y + 0.3 * rng.normal(size=500)
    for cv in (3, 0.3):
        model = estimator("cv", cv=cv, random_state=0, **options).fit(X, y)
        assert 2 <= model.best_depth_ <= 4
        assert model.cv_results_["scores"].shape[1] == (3 if cv == 3 else 1)
        assert model.get_depth() <= model.best_depth_
        assert model.score(X, y) > 0.85
    with pytest.raises(ValueError, match="cv must be an integer >= 2, a fraction between 0 and 1, or splits; got 1"):
        estimator("cv", cv=1).fit(X, y)
    with pytest.raises(ValueError, match="max_depth must be an integer >= 1, 'auto' or 'cv'; got 'best'"):
        estimator("best").fit(X, y)


def test_the_search_for_a_depth_takes_any_cv_start_seed_and_limit():
    X, y = datasets.load("diabetes", as_arrays=True)
    base = GETRegressor(1, leaves="linear", random_state=0).fit(X, y)
    splits = [(np.arange(300), np.arange(300, 442))]
    for cv in (iter(splits), splits, 0.3):
        model = GETRegressor("cv", cv=cv, leaves="linear", init=base.tree_, random_state=0).fit(X, y)
        assert base.result_.objective == pytest.approx(model.result_.trace.rows[0].objective)
        assert model.result_.objective <= model.result_.trace.rows[0].objective
    found = [GETRegressor("cv", cv=0.3, random_state=np.random.RandomState(3)).fit(X, y).tree_ for _ in range(2)]
    assert found[0] == found[1]
    began = time.perf_counter()
    limited = GETRegressor("cv", cv=3, time_limit=0.5, random_state=0).fit(X, y)
    assert time.perf_counter() - began < 5.0
    limited.set_params(max_depth=2, time_limit=None).fit(X, y)
    assert not hasattr(limited, "best_depth_")
    weight = np.ones(442)
    weight[300:] = 0.0
    with pytest.raises(ValueError, match="cv must hold out rows of positive weight"):
        GETRegressor("cv", cv=splits).fit(X, y, weight)


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(240, n_features=6, noise=0.5, random_state=0)
    return X, y


def test_a_printed_depth_search_tries_every_depth(friedman, monkeypatch):
    X, _y = friedman
    monkeypatch.setattr(selection, "DEEPEST", 7)
    constant = np.where(X[:, 0] > 0.5, 1.0, 0.0)  # depth 1 is best, and no deeper one better
    model = opttree.TAORegressor("cv", cv=0.3, preset="paper", max_iter=2, random_state=0).fit(X, constant)
    assert model.cv_results_["depth"].tolist() == [1, 2, 3, 4, 5, 6, 7]
    usual = opttree.TAORegressor("cv", cv=0.3, max_iter=2, random_state=0).fit(X, constant)
    assert usual.cv_results_["depth"].tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", [TAORegressor, opttree.TAOForestRegressor, opttree.BoostedTreesRegressor])
def test_without_a_random_state_fits_draw_from_numpy_random(rng, kind):
    X, few = rng.normal(size=(120, 4)), {} if kind is TAORegressor else {"n_estimators": 3}
    y, found = X[:, 0] * X[:, 1] + rng.normal(size=120), []
    for seed in (1, 1, 2):
        np.random.seed(seed)  # noqa: NPY002
        found.append(kind(max_depth=2, **few).fit(X, y).predict(X))
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


def test_splits_of_ones_own_are_of_the_table_as_it_is_given():
    rng = np.random.default_rng(0)
    X, y, w = rng.normal(size=(300, 3)), rng.normal(size=300), np.ones(300)
    w[:100] = 0.0
    splits = [(np.arange(150, 200), np.arange(100, 150))]
    losses = []
    for rows, weight, cut in ((X, w, splits), (X[100:], w[100:], [(a - 100, b - 100) for a, b in splits])):
        model = TAOForestRegressor(3, max_depth="cv", cv=cut, kind="oblique", random_state=0)
        losses.append(model.fit(rows, y[-len(rows) :], sample_weight=weight).cv_results_["loss"])
    np.testing.assert_allclose(losses[0], losses[1])

    class ByGroup:
        def split(self, table, target):
            seen.append(table)
            yield np.arange(100), np.arange(100, 300)

        def get_n_splits(self, *given):
            return 1

    seen = []
    table = pd.DataFrame(X, columns=list("abc")).assign(group=np.arange(300).astype(str))
    for model in (TAORegressor("cv", cv=ByGroup()), TAOForestRegressor(3, max_depth="cv", cv=ByGroup())):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a key that says nothing
            model.set_params(random_state=0).fit(table, y)
    assert [list(one.columns) for one in seen] == 2 * [["a", "b", "c", "group"]]


@pytest.mark.parametrize(
    ("cv", "said"),
    [([], "cv must have one split or more; got none"), ([([0, 1], [999])], "cv must give pairs of rows")],
)
def test_splits_that_are_none_are_refused(cv, said):
    X = np.random.default_rng(0).normal(size=(50, 2))
    for model in (TAORegressor("cv", cv=cv), TAOForestRegressor(3, max_depth="cv", cv=cv)):
        with pytest.raises(ValueError, match=said):
            model.fit(X, X[:, 0])


@pytest.mark.parametrize(
    "model", [TAORegressor("cv", random_state=0), TAOForestRegressor(5, max_depth="cv", random_state=0)]
)
def test_rows_of_weight_0_are_in_no_fold(model):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    y = X[:, 0] + X[:, 1] * (X[:, 2] > 0) + 0.5 * rng.normal(size=150)
    weight = np.r_[np.ones(150), np.zeros(150)]
    without = clone(model).fit(X, y)
    model.fit(np.r_[X, X], np.r_[y, y], sample_weight=weight)  # a depth of 2 for 8 before
    np.testing.assert_allclose(model.predict(X), without.predict(X), rtol=1e-12)
