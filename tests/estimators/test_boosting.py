"""Boosted trees."""

import pickle
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split

from opttree import BoostedTreesClassifier, BoostedTreesRegressor, TAORegressor, TreeProblem
from solvers import TAO, Boosting, solve


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(800, n_features=6, noise=0.5, random_state=0)
    return train_test_split(X, y, test_size=0.25, random_state=0)


def test_boosting_beats_its_trees_and_knows_when_to_stop(friedman):
    a, b, c, d = friedman
    single = TAORegressor(6, random_state=0).fit(a, c).score(b, d)
    bases = ("oblique", "axis", "cart", TAO(max_iter=3))
    models = [BoostedTreesRegressor(base, n_estimators=60, random_state=0).fit(a, c) for base in bases]
    for model in models:
        assert model.score(b, d) > max(0.93, single)
        assert model.n_estimators_ == len(model.forest_.trees) <= 4 * 60  # four ensembles
    noise = np.random.default_rng(0).normal(size=len(a))
    assert BoostedTreesRegressor("axis", n_estimators=60, random_state=0).fit(a, noise).n_estimators_ < 4 * 30
    both = BoostedTreesRegressor(n_estimators=60, random_state=0).fit(a, c)
    assert both.validation_loss_ == pytest.approx(min(model.validation_loss_ for model in models[:3]))


def test_absolute_loss_does_not_mind_outliers(friedman):
    a, b, c, d = friedman
    spoilt = c.copy()
    spoilt[::20] += 100.0
    squared, absolute = (
        BoostedTreesRegressor("oblique", loss=loss, n_estimators=80, random_state=0).fit(a, spoilt)
        for loss in ("squared", "absolute")
    )
    assert np.mean(abs(absolute.predict(b) - d)) < 0.5 * np.mean(abs(squared.predict(b) - d))


def test_a_sum_begins_with_a_linear_model_where_that_pays():
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(600, 8)), rng.normal(size=600)
    line, boxes = X @ np.arange(8.0), 6.0 * (X[:, 0] > 0) * (X[:, 1] > 0)
    model = BoostedTreesRegressor(n_estimators=40, random_state=0).fit(X[:300], (line + 3 * noise)[:300])
    assert model.begins_linear_
    assert model.score(X[300:], line[300:]) > 0.985
    both = BoostedTreesRegressor("axis", n_estimators=60, random_state=0).fit(X[:300], (line + boxes)[:300])
    assert both.begins_linear_
    assert both.score(X[300:], (line + boxes)[300:]) > 0.98


def test_the_linear_term_is_a_ridge_regression():
    X, y = make_friedman1(200, random_state=0)
    problem = TreeProblem(X, y, depth=2, leaves="linear")
    result = solve(problem, Boosting(n_trees=1, ridge=0.1, validation=None), random_state=0)
    ridge = Ridge(alpha=0.1 * problem.n_samples).fit(problem.X, problem.y)
    np.testing.assert_allclose(result.tree.predict(problem.X), ridge.predict(problem.X), rtol=1e-8)
    with pytest.raises(ValueError, match="begins with a linear model for squared loss"):
        solve(problem.restated(loss="absolute"), Boosting(ridge="cv"))


def test_one_row_of_weight_is_a_constant():
    X, y = make_friedman1(10, random_state=0)
    weight = np.zeros(10)
    weight[3] = 1.0
    model = BoostedTreesRegressor("axis", n_estimators=3, random_state=0).fit(X, y, sample_weight=weight)
    assert model.predict(X) == pytest.approx(y[3])


def test_constant_leaves_have_no_linear_term():
    X, y = make_friedman1(200, random_state=0)
    problem = TreeProblem(X, y, depth=2)
    assert "where leaves are linear" in Boosting(ridge=0.1).refusal(problem)
    for seed in range(2):
        model = BoostedTreesRegressor(n_estimators=20, random_state=seed).fit(X, y)
        assert np.isfinite(model.result_.objective)
        assert not (model.base_ == "cart" and model.begins_linear_)


def test_a_first_kind_without_a_held_out_loss_is_no_rival():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 60))
    model = BoostedTreesRegressor(random_state=0, time_limit=0.1).fit(X, X[:, 0])
    assert model.n_estimators_ >= 1


@pytest.mark.parametrize("rows", [300, 1500])
@pytest.mark.parametrize("classes", [False, True])
def test_a_warm_start_goes_on_as_if_more_trees_had_been_asked_for(rows, classes):
    X, y = make_friedman1(rows, noise=1.0, random_state=0)
    y = np.digitize(y, [12.0, 17.0]) if classes else y
    make = partial(BoostedTreesClassifier if classes else BoostedTreesRegressor, random_state=0)
    answer = "predict_proba" if classes else "predict"
    for base in ("cart", "axis"):
        whole = make(n_estimators=25, base=base).fit(X, y)
        model = make(n_estimators=9, base=base, warm_start=True).fit(X, y)
        few = getattr(model, answer)(X)
        model.set_params(n_estimators=25).fit(X, y)
        if model.begins_linear_ != whole.begins_linear_:  # which nine trees had chosen
            continue
        np.testing.assert_allclose(getattr(model, answer)(X), getattr(whole, answer)(X), rtol=1e-9, atol=1e-9)
        assert np.abs(getattr(model, answer)(X) - few).max() > 1e-3
        assert model.n_estimators_ == whole.n_estimators_ > 9
        again = getattr(pickle.loads(pickle.dumps(model)).fit(X, y), answer)(X)
        np.testing.assert_allclose(again, getattr(model, answer)(X), rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match=r"n_estimators must be at least the \d+ trees that there are"):
        model.set_params(n_estimators=1).fit(X, y)
    with pytest.raises(ValueError, match="warm_start needs the columns, outputs and classes of the first fit"):
        model.set_params(n_estimators=40).fit(X[:, :4], y)
    assert make(n_estimators=5, warm_start=True, base="cart").fit(X, y, eval_set=(X, y)).n_estimators_ <= 5
