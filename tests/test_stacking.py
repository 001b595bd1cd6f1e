"""Forests of several kinds of trees, and the choice among members by folds."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_friedman1

from experiments.execute import parts
from experiments.protocol import Splits
from opttree import AutoTreeRegressor, TAOForestClassifier, TAOForestRegressor, TreeProblem, datasets
from opttree.estimators.auto import Member, Trial, chosen
from solvers import StackedForest, TAOForest, Termination, solve
from solvers.ensembles import KINDS


def counts(model):
    info = model.result_.trace.rows[-1].info
    return {kind: int(info.get(kind, 0)) for kind in KINDS}


def test_the_shares_are_those_of_the_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    steps = (X[:, 0] > 0.3) * 2.0 + (X[:, 1] > -0.5) * (X[:, 2] > 0.0) + 0.05 * rng.normal(size=500)
    slope = X.sum(axis=1) + 0.05 * rng.normal(size=500)
    of_steps = counts(TAOForestRegressor(20, kind="stacked", random_state=0).fit(X, steps))
    of_slope = counts(TAOForestRegressor(20, kind="stacked", random_state=0).fit(X, slope))
    assert sum(of_steps.values()) == sum(of_slope.values()) == 20
    assert of_steps["axis"] + of_steps["extra"] >= 15
    assert of_slope["oblique"] >= 18


def test_small_data_are_stacked_by_default():
    X, y = make_friedman1(400, noise=1.0, random_state=0)
    new_X, new_y = make_friedman1(2000, noise=1.0, random_state=1)
    model = TAOForestRegressor(random_state=0).fit(X, y)
    assert model.kind_ == "stacked"
    assert len(model.forest_.trees) == 30
    assert np.isnan(model.shrinkage_)
    assert model.oob_loss_ == pytest.approx(np.mean((model.predict(new_X) - new_y) ** 2), rel=0.25)
    inside = model.predict_interval(new_X, 0.9)
    assert 0.8 < np.mean((inside[:, 0] <= new_y) & (new_y <= inside[:, 1])) <= 0.99
    assert model.predict(new_X) == pytest.approx(TAOForestRegressor(random_state=0, n_jobs=1).fit(X, y).predict(new_X))
    assert TAOForestRegressor(5, random_state=0).fit(X, y).kind_ != "stacked"
    assert TAOForestRegressor(10, warm_start=True, random_state=0).fit(X, y).kind_ != "stacked"
    with pytest.raises(ValueError, match="warm_start adds trees of one kind; got kind='stacked'"):
        TAOForestRegressor(kind="stacked", warm_start=True).fit(X, y)
    model.set_params(warm_start=True, n_estimators=40).fit(X, y)  # a forest to which trees can be added takes its place
    assert model.kind_ != "stacked"
    assert len(model.forest_.trees) == 40


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_few_rows_are_enough(n):
    X, y = np.arange(40.0)[:, None], np.arange(40.0)
    weight = (np.arange(40) < n).astype(float)
    assert np.isfinite(TAOForestRegressor(10, random_state=0).fit(X, y, weight).predict(X)).all()
    assert np.isfinite(AutoTreeRegressor(time_limit=2, random_state=0).fit(X, y, weight).predict(X)).all()


def test_labels_may_be_any_numbers():
    X = np.random.default_rng(0).normal(size=(60, 2))
    labels = np.where(X[:, 0] > 0.0, 1.5, 0.5)
    problem = TreeProblem(X, labels, depth=2, leaves="linear", loss="log")
    assert (solve(problem, StackedForest(6), random_state=0).tree.predict(X) == labels).mean() > 0.9


def test_classes_are_stacked():
    X, y = load_iris(return_X_y=True)
    model = TAOForestClassifier(12, random_state=0).fit(X[::2], y[::2])
    assert model.kind_ == "stacked"
    assert model.score(X[1::2], y[1::2]) > 0.9
    rare = np.where(np.arange(75) == 0, 3, y[::2])  # a class of one row, which no fold can share
    assert set(TAOForestClassifier(10, random_state=0).fit(X[::2], rare).classes_) == {0, 1, 2, 3}


@pytest.mark.slow
def test_dependent_one_hot_columns_leave_numbers(needs_data):
    """287 columns of 60 categories: in single precision the leaves' matrices are singular, and all leaves were NaN."""
    X, y = datasets.load("splice", as_arrays=True)
    rows, _ = parts(Splits(inner=0.25, most=1500), 0, 0, y, "classification")
    model = TAOForestClassifier(kind="stacked", random_state=0).fit(X[rows], y[rows])
    assert np.isfinite(model.forest_.outputs(X)).all()
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("seconds", [0.02, 0.3])
def test_a_time_limit_leaves_a_forest(seconds):
    X, y = make_friedman1(1500, noise=1.0, random_state=0)
    TAOForestRegressor(10, kind="stacked", random_state=0).fit(X[:100], y[:100])
    model = TAOForestRegressor(4000, kind="stacked", time_limit=seconds, random_state=0).fit(X, y)
    assert model.result_.termination is Termination.TIME_LIMIT
    assert len(model.forest_.trees) < 4000
    assert np.isfinite(model.predict(X)).all()
    assert model.oob_prediction_.shape == (1500, 1)


def test_members_are_checked():
    X, y = make_friedman1(60, random_state=0)
    problem = TreeProblem(X, y, depth=3)
    with pytest.raises(ValueError, match="members must be"):
        StackedForest(members=())
    with pytest.raises(ValueError, match="of different kinds, none of them 'auto'"):
        StackedForest(members=(TAOForest(kind="axis"), TAOForest()))
    alone = solve(problem, StackedForest(4, (TAOForest(kind="oblique"),)), random_state=0)
    assert alone.trace.rows[-1].info["oblique"] == 4.0
    axis = TreeProblem(X, y, depth=3, splits="axis")
    assert "oblique" in StackedForest().refusal(axis)


def trial(*folds, variant=None):
    """Losses of the held-out rows of each fold."""
    found = Trial(Member("", None, 1), None)
    found.losses = [{variant: np.asarray(rows, float)} for rows in folds]
    found.weights = [np.full(len(rows), 1.0 / len(rows)) for rows in folds]
    return found


def test_members_are_compared_on_the_folds_that_both_have():
    rng = np.random.default_rng(0)
    rows = [rng.uniform(0.5, 1.5, 50) for _ in range(5)]
    first = trial(*rows)
    assert chosen([first, better := trial(*(own - 0.1 for own in rows))]) is better
    assert chosen([first, trial(*(own + 0.1 for own in rows))]) is first
    assert chosen([first, much := trial(rows[0] - 0.3)]) is much  # one fold of five, whose rows leave no doubt
    doubtful = rows[0] + rng.normal(0.0, 1.0, 50)
    doubtful -= doubtful.mean() - rows[0].mean() + 0.05  # a little better, within the noise of its rows
    assert chosen([first, trial(doubtful)]) is first
    assert chosen([trial(rows[0]), one := trial(doubtful)]) is one  # a single part that is held out
    late = trial(*(own - 0.2 for own in rows[:2]))
    assert late.lead(first) > 1e6
    assert late.lead(better) > 1e6  # on the two folds that they share
    assert chosen([]) is None
    several = Trial(
        Member("", None, 1),
        None,
        losses=[{1.0: np.array([3.0]), 2.0: np.array([1.0])}, {1.0: np.zeros(1), 2.0: np.array([1.5])}],
        weights=[np.ones(1)] * 2,
    )
    assert several.variant == 2.0
    assert several.loss == pytest.approx(1.25)


def test_few_rows_are_held_out_fold_by_fold():
    X, y = make_friedman1(150, noise=1.0, random_state=0)
    model = AutoTreeRegressor(20.0, random_state=0).fit(X, y)
    assert model.members_[0] == model.members_[0] | {"name": "CART, depth 3", "folds": 15}
    assert any(row["name"].startswith("CART") for row in model.members_)
    once = AutoTreeRegressor(5.0, validation_fraction=0.25, random_state=0).fit(X, y)
    assert {row["folds"] for row in once.members_} == {1}


def test_steps_are_left_to_cart():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (250, 6)).astype(float)
    y = 3.0 * (X[:, 0] > 1) * (X[:, 1] > 2) + (X[:, 2] > 0) * (X[:, 3] == 0) + 0.1 * rng.normal(size=250)
    model = AutoTreeRegressor(20.0, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.97
    fresh = rng.integers(0, 4, (500, 6)).astype(float)
    truth = 3.0 * (fresh[:, 0] > 1) * (fresh[:, 1] > 2) + (fresh[:, 2] > 0) * (fresh[:, 3] == 0)
    assert model.score(fresh, truth) > 0.97
