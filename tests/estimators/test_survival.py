"""Trees and forests of survival times: proved values of other programs, answers, scikit-survival's habits."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from opttree import SurvivalForest, SurvivalTree, TreeProblem, survival
from opttree.estimators.survival import breslow, partial_likelihood
from opttree.losses import Exponential
from opttree.tables.survival import nelson_aalen
from solvers import BranchAndBound, solve
from tests.estimators.test_policy import table_of


def drawn(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    time = rng.weibull(1.3, n) * np.exp(-np.where(X[:, 0] > 0, 1.0, -0.5) - 0.5 * X[:, 1])
    cut = rng.exponential(2.0, n)
    return X, survival.outcome(time <= cut, np.minimum(time, cut))


@pytest.mark.usefixtures("needs_data")
@pytest.mark.parametrize(
    ("name", "values"), [("colon", (0.702690, 0.684417, 0.651849)), ("acath", (0.546866, 0.538548, 0.531646))]
)
def test_deviances_are_those_of_streed(name, values):
    table = table_of(f"{name}_binary.txt.gz")
    y = survival.outcome(table[:, 1], table[:, 0])
    for depth, value in zip((2, 3, 4), values, strict=True):
        model = SurvivalTree(depth, split_price=0.0, min_samples_leaf=1, solver="bnb").fit(table[:, 2:], y)
        assert model.is_optimal_
        assert model.result_.objective == pytest.approx(value, abs=5e-7)


@pytest.mark.parametrize("seed", range(3))
def test_the_tree_is_that_of_the_statement(seed):
    X, y = drawn(80, seed)
    model = SurvivalTree(2, split_price=0.0, min_samples_leaf=3).fit(X, y)
    times, levels = nelson_aalen(y["event"], y["time"], np.ones(80))
    hazard = np.array([levels[times <= time][-1] if (times <= time).any() else 1e-9 * levels[0] for time in y["time"]])
    problem = TreeProblem(X, np.where(y["event"], hazard, -hazard), 2, "axis", loss=Exponential(), min_leaf=3)
    assert model.result_.objective == pytest.approx(solve(problem, BranchAndBound()).objective, rel=1e-9)
    leaf = model.apply(X)
    for node in np.unique(leaf):
        rows = leaf == node
        ratio = (y["event"][rows].sum() + 2.0) / (hazard[rows].sum() + 2.0)
        np.testing.assert_allclose(model.predict(X[rows]), ratio)


def test_prices_are_chosen_on_held_out_rows(rng):
    X, y = drawn(400)
    model = SurvivalTree(3, random_state=0).fit(X, y)
    losses = model.cv_results_["losses"]
    assert losses.shape == (11, 5)
    assert model.split_price_ == model.cv_results_["split_price"][np.argmin(losses.mean(axis=1))]
    assert 2 <= model.tree_.n_leaves <= 8
    noise = [SurvivalTree(2, random_state=0).fit(rng.normal(size=(400, 4)), y).tree_.n_leaves for _ in range(5)]
    assert np.mean(noise) < 2.0  # there is nothing to find


def test_answers_are_functions_of_time():
    X, y = drawn()
    for model in (SurvivalTree(2, random_state=0), SurvivalForest(20, random_state=0)):
        model.fit(X, y)
        alive = model.predict_survival_function(X[:7], return_array=True)
        assert alive.shape == (7, model.unique_times_.size)
        assert np.all(np.diff(alive, axis=1) <= 0.0)
        hazard = model.predict_cumulative_hazard_function(X[:7], return_array=True)
        np.testing.assert_allclose(alive, np.exp(-hazard))
        function = model.predict_survival_function(X[:7])[3]
        np.testing.assert_allclose(function(model.unique_times_), alive[3])
        assert (function(0.0), function(1e9)) == (1.0, pytest.approx(alive[3, -1]))
        assert 0.6 < model.score(X, y) == survival.concordance(y, model.predict(X))
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_forests_rank_better_than_trees():
    X, y = drawn(600)
    held, seen = slice(0, 200), slice(200, 600)
    scores = [
        model.fit(X[seen], y[seen]).score(X[held], y[held])
        for model in (SurvivalTree(3, random_state=0), SurvivalForest(random_state=0))
    ]
    assert scores[0] > 0.6
    assert scores[1] > scores[0]
    one, two = (SurvivalForest(8, random_state=1, n_jobs=jobs).fit(X, y).predict(X) for jobs in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_searches_and_tables_as_scikit_learn_has_them():
    X, y = drawn(150)
    assert cross_val_score(SurvivalForest(10, random_state=0), X, y, cv=3).mean() > 0.55
    search = GridSearchCV(SurvivalTree(split_price=0.0), {"max_depth": [1, 2]}, cv=2).fit(X, y)
    assert clone(search.best_estimator_).get_params()["max_depth"] == search.best_params_["max_depth"]
    frame = pd.DataFrame({"side": np.where(X[:, 0] > 0, "right", "left"), "size": X[:, 1]})
    model = SurvivalTree(2, random_state=0).fit(frame, y)
    assert "side" in model.to_text()
    assert set(model.feature_names_in_) == {"side", "size"}


def test_rows_count_as_often_as_their_weights_say():
    X, y = drawn(100)
    counts = np.random.default_rng(0).integers(0, 4, 100)
    weighted = SurvivalTree(2, split_price=0.0, min_samples_leaf=1).fit(X, y, sample_weight=counts)
    repeated = SurvivalTree(2, split_price=0.0, min_samples_leaf=1).fit(np.repeat(X, counts, 0), np.repeat(y, counts))
    assert weighted.result_.objective == pytest.approx(repeated.result_.objective, rel=1e-9)
    np.testing.assert_allclose(weighted.unique_times_, repeated.unique_times_)
    np.testing.assert_allclose(weighted.baseline_, repeated.baseline_)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.arange(9.0), "y must be a structured array of events and times"),
        (np.zeros(9, dtype=[("time", "f8"), ("event", "?")]), "y must have bools"),
        (survival.outcome(np.zeros(9), np.arange(9.0)), "y must have an event"),
    ],
)
def test_bad_outcomes_are_refused(y, words):
    for model in (SurvivalTree(), SurvivalForest()):
        with pytest.raises(ValueError, match=words):
            model.fit(np.arange(18.0).reshape(9, 2), y)


@pytest.mark.parametrize(
    ("event", "time", "words"),
    [([True], [1.0, 2.0], "one entry for each row"), ([2], [1.0], "event must be"), ([1], [-1.0], "time must hold")],
)
def test_bad_events_and_times_are_refused(event, time, words):
    with pytest.raises(ValueError, match=words):
        survival.outcome(event, time)


def test_concordance_counts_pairs():
    rng = np.random.default_rng(0)
    for n in (9, 40, 1500):
        time, event, risk = rng.integers(0, 9, n), rng.random(n) < 0.6, rng.integers(0, 4, n)
        first = event[:, None] & ((time[:, None] < time) | ((time[:, None] == time) & ~event))
        gap = risk[:, None] - risk
        wanted = (np.sum(first & (gap > 0)) + 0.5 * np.sum(first & (gap == 0))) / first.sum()
        assert survival.concordance(survival.outcome(event, time), risk) == pytest.approx(wanted)
    with pytest.raises(ValueError, match="two rows that can be compared"):
        survival.concordance(survival.outcome([False, False], [1.0, 2.0]), [0.0, 1.0])


def test_forests_of_few_trees_keep_all_events():
    X, event = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 20 == 0
    forest = SurvivalForest(1, random_state=1).fit(X, survival.outcome(event, np.arange(60) + 1.0))
    assert np.all(np.diff(forest.baseline_, prepend=0.0) > 0.0)
    assert forest.slope_ == 1.0


def test_a_fit_that_fails_leaves_the_model():
    X, y = drawn(100)
    model = SurvivalTree(2, split_price=0.0).fit(X, y)
    answers = model.predict(X)
    with pytest.raises(ValueError, match="max_depth"):
        model.set_params(max_depth=-1).fit(X[:, :2], y)
    np.testing.assert_array_equal(model.predict(X), answers)
    with pytest.raises(ValueError, match="sample_weight must be finite, >= 0"):
        model.set_params(max_depth=2).fit(X, y, sample_weight=-np.ones(100))
    with pytest.raises(ValueError, match="risk must hold finite numbers"):
        survival.concordance(y, np.full(100, np.nan))


def test_baselines_are_breslows():
    event, time, score = np.array([True, False, True]), np.array([1.0, 2.0, 3.0]), np.log([2.0, 1.0, 4.0])
    hazard = breslow(np.array([1.0, 3.0]), event, time, np.ones(3), score)
    np.testing.assert_allclose(hazard, [1 / 7, 1 / 7 + 1 / 4])
    assert partial_likelihood(event, time, np.ones(3), score) == pytest.approx(np.log(2 / 7))


def test_scikit_survivals_scorers_take_them():
    metrics = pytest.importorskip("sksurv.metrics")
    X, y = drawn(300)
    times = np.quantile(y["time"], [0.2, 0.4, 0.6])
    for model in (SurvivalTree(2, random_state=0), SurvivalForest(20, random_state=0)):
        brier = metrics.as_integrated_brier_score_scorer(model, times=times).fit(X, y)
        assert -0.25 < brier.score(X, y) < 0.0
        assert 0.5 < metrics.as_concordance_index_ipcw_scorer(model).fit(X, y).score(X, y) < 1.0
        assert 0.5 < metrics.as_cumulative_dynamic_auc_scorer(model, times=times).fit(X, y).score(X, y) < 1.0
        risk = model.fit(X, y).predict(X)
        assert model.score(X, y) == pytest.approx(metrics.concordance_index_censored(y["event"], y["time"], risk)[0])


def test_veterans_are_those_of_streed():
    bundle = pytest.importorskip("sksurv.datasets")
    table, y = bundle.load_veterans_lung_cancer()
    for column in table.columns[[kind.kind not in "fi" for kind in table.dtypes]]:
        table[column] = table[column].astype("category").cat.codes
    outcome = survival.outcome(y["Status"], y["Survival_in_days"])
    for depth, value in ((2, 0.410051), (3, 0.338534)):
        model = SurvivalTree(depth, split_price=0.0, min_samples_leaf=1, solver="bnb").fit(
            table.to_numpy(float), outcome
        )
        assert model.is_optimal_
        assert model.result_.objective == pytest.approx(value, abs=5e-7)


def test_weights_stand_for_repeated_rows():
    X, y = drawn(120)
    weight = np.arange(120) % 3
    model = SurvivalTree(2, split_price=0.0, min_samples_leaf=1, random_state=0)
    found = model.fit(X, y, weight).predict(X)
    repeated = model.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight)).predict(X)
    np.testing.assert_allclose(found, repeated, rtol=1e-9)
