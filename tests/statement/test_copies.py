"""Copies of rows are held out together."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.model_selection import ShuffleSplit
from sklearn.tree import DecisionTreeRegressor

from opttree import (
    AutoTreeRegressor,
    BoostedTreesRegressor,
    CausalTree,
    SurvivalTree,
    TAOClassifier,
    TAOForestClassifier,
    TAOForestRegressor,
    TAORegressor,
    TreeProblem,
    causal,
)
from opttree.estimators.auto import _folds
from opttree.estimators.steps.depth import folds_of
from opttree.statement.copies import bootstrap, copies_of, steps_in
from opttree.statement.shrinkage import observations
from solvers import Bagging, CartInit, JointForest, StackedForest, TAOForest, solve


def disjoint(one, other):
    return not {tuple(row) for row in one} & {tuple(row) for row in other}


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
@pytest.mark.parametrize("n", [40, 45_000])
def test_copies_are_found(kind, n):
    X = np.random.default_rng(0).normal(size=(n, 12)) * (np.arange(12) != 3)
    Y = X[:, :1] + 0.0
    assert copies_of(kind(X), Y) is None
    copy = copies_of(kind(np.repeat(X, 3, axis=0)), np.repeat(Y, 3, axis=0))
    assert np.unique(copy).size == n
    np.testing.assert_array_equal(copy[::3], copy[1::3])
    assert copies_of(kind(np.repeat(X[:1], 5, axis=0)), np.repeat(Y[:1], 5, axis=0)) is None


def test_some_rows_that_were_drawn_twice_count_by_themselves():
    """As in the tables of wines: rows of new tables will have copies here, too."""
    X = np.random.default_rng(0).normal(size=(800, 5))
    assert copies_of(np.r_[X, X[:200]], np.r_[X, X[:200]][:, :1]) is None
    assert copies_of(np.r_[X, X[:500]], np.r_[X, X[:500]][:, :1]) is not None


def test_rows_of_discrete_data_count_by_themselves():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(300, 3)).astype(float)
    assert copies_of(X, rng.integers(0, 2, size=(300, 1)).astype(float)) is None
    assert copies_of(X, X[:, :1]) is None  # eight different ones
    X = rng.integers(0, 2, size=(3000, 6)).astype(float)
    assert copies_of(X, X[:, :1]) is None  # all combinations of six values
    X = np.repeat(rng.integers(0, 2, size=(100, 30)).astype(float), 4, axis=0)
    assert np.unique(copies_of(X, X[:, :1])).size == 100  # few of them


@pytest.mark.parametrize("stratify", [False, True])
def test_splits_keep_copies_together(stratify):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.integers(0, 2, 50)
    problem = TreeProblem(np.repeat(X, 4, axis=0), np.repeat(y, 4), 2, "axis", loss="zero_one")
    train, held = problem.split(0.2, rng, stratify=stratify)
    assert train.n_samples + held.n_samples == 200
    assert held.n_samples in (36, 40, 44)
    assert disjoint(train.X, held.X)


def test_folds_keep_copies_together():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(30, 3)), 5, axis=0)
    for cv in (4, 0.25):
        for train, valid in folds_of(TAORegressor("cv", cv=cv), X, X[:, 0], 0):
            assert disjoint(X[train], X[valid])
            assert train.size + valid.size == 150
    own = folds_of(TAORegressor("cv", cv=ShuffleSplit(1, random_state=0)), X, X[:, 0], 0)
    assert not disjoint(X[own[0][0]], X[own[0][1]])  # a splitter of one's own is taken as it is
    for train, valid in _folds(AutoTreeRegressor(), TreeProblem(X, X[:, 0], 1), 0):
        assert disjoint(train.X, valid.X)


def test_what_repeated_rows_say_is_not_believed():
    """Noise, six times: all of it was learnt by heart, since copies of training rows were held out."""
    rng = np.random.default_rng(1)
    X, y, fresh = rng.normal(size=(24, 3)), rng.normal(size=24), rng.normal(size=(2000, 3))
    for model in (TAORegressor("cv", random_state=0), BoostedTreesRegressor("cart", random_state=0)):
        six = model.fit(np.repeat(X, 6, axis=0), np.repeat(y, 6)).predict(fresh)
        assert np.mean(six**2) < 0.15  # .4 and 1.0 before


@pytest.mark.parametrize("options", [{}, {"bootstrap": True}, {"kind": "cart", "bootstrap": True}])
def test_out_of_bag_rows_are_no_copies(options):
    rng = np.random.default_rng(1)
    X, y, fresh = rng.normal(size=(60, 4)), rng.normal(size=60), rng.normal(size=(2000, 4))
    model = TAOForestRegressor(n_estimators=10, random_state=0, **options)
    one, six = (model.fit(np.repeat(X, k, axis=0), np.repeat(y, k)).oob_loss_ for k in (1, 6))
    assert six > 0.7 * one  # less than .01 before
    if not options:
        assert np.mean((model.predict(fresh) - y.mean()) ** 2) < 0.2  # .4 before


def test_copies_are_drawn_together():
    rng = np.random.default_rng(0)
    copy = np.arange(240) // 4
    counts = bootstrap(240, copy, rng)
    assert counts.sum() == 240
    np.testing.assert_array_equal(counts, np.repeat(counts[::4], 4))
    X, y = np.repeat(rng.normal(size=(60, 3)), 4, axis=0), np.repeat(rng.normal(size=60), 4)
    result = solve(TreeProblem(X, y, 3, "axis"), Bagging(CartInit(), n_trees=3), random_state=0)
    drawn = result.tree.outside[1].reshape(60, 4)
    assert (drawn == drawn[:, :1]).all()
    assert drawn.any()
    labels = np.repeat(np.arange(60) % 2, 4)
    model = TAOForestClassifier(n_estimators=4, kind="cart", bootstrap=True, random_state=0).fit(X, labels)
    blank = np.isnan(model.oob_prediction_).any(axis=1).reshape(60, 4)
    assert (blank == blank[:, :1]).all()


def test_a_stack_is_not_judged_by_copies():
    rng = np.random.default_rng(0)
    X, y = np.repeat(rng.normal(size=(60, 3)), 6, axis=0), np.repeat(rng.normal(size=60), 6)
    problem = TreeProblem.standardized(X, y, depth=3, leaves="linear")
    result = solve(problem, StackedForest(n_trees=4, fold_trees=2, linear=True), random_state=0)
    assert np.mean((result.tree.outside[0] - problem.Y) ** 2) > 0.8  # .0 before


def test_prices_of_splits_are_not_chosen_by_copies():
    rng = np.random.default_rng(1)
    X, time = np.repeat(rng.normal(size=(40, 3)), 5, axis=0), np.repeat(rng.exponential(size=40), 5)
    y = np.array([(True, t) for t in time], dtype=[("event", bool), ("time", float)])
    assert SurvivalTree(2, random_state=0).fit(X, y).tree_.n_leaves == 1  # four before


def test_names_of_classes_change_no_choice():
    rng = np.random.default_rng(0)
    X, fresh = rng.normal(size=(60, 4)), rng.normal(size=(500, 4))
    y = ((X[:, 0] + X[:, 1] + 0.7 * rng.normal(size=60)) > 0).astype(int) + (X[:, 2] > 1)
    one, other = (TAOClassifier(random_state=0).fit(X, labels) for labels in (y, 2 - y))
    assert one.fallback_ == other.fallback_
    np.testing.assert_allclose(one.predict_proba(fresh), other.predict_proba(fresh)[:, ::-1], atol=0.01)  # .98 before


def test_classes_of_few_rows_have_few_folds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 4))
    assert len(folds_of(TAOClassifier("cv"), X, np.repeat(np.arange(50), 2), 0)) == 2
    assert len(folds_of(TAOClassifier("cv"), X[:12], np.repeat([0, 1], [9, 3]), 0)) == 4
    assert len(folds_of(TAORegressor("cv"), X[:5], X[:5, 0], 0)) == 2
    assert TAORegressor("cv", random_state=0).fit(X[:5], X[:5, 0]).predict(X[:5]).shape == (5,)


def test_a_row_that_repeats_very_often_is_not_held_out_as_a_whole():
    rng = np.random.default_rng(0)
    X = np.r_[np.zeros((1900, 3)), rng.random((100, 3))]
    y = np.r_[np.zeros(1900), 1 + (X[1900:, 0] > 0.3)].astype(int)
    for train, valid in folds_of(TAOClassifier("cv"), X, y, 0):
        assert 400 < valid.size < 600
        assert set(y[train]) == set(y[valid]) == {0, 1, 2}
    problem = TreeProblem(X, 1.0 * (y > 0), 2, "axis")
    assert {problem.split(0.2, np.random.default_rng(seed))[0].n_samples for seed in range(20)} <= set(
        range(1500, 1700)
    )


def test_a_row_that_repeats_very_often_is_an_observation_each_time():
    rng = np.random.default_rng(2)
    on = rng.random(1500) < 0.4
    X = np.where(on[:, None], rng.exponential(size=(1500, 4)) + 0.5, 0.0)
    y = np.where(on, 5.0 + np.sin(3.0 * X[:, 0]) + 0.3 * rng.normal(size=1500), 0.0)
    model = TAORegressor(splits="axis", random_state=0).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > 0.95  # .86 before


@pytest.mark.parametrize("shape", [(2, 3), (3, 3), (4, 2), (8, 2)])
def test_combinations_of_few_values_are_no_copies(shape):
    rng = np.random.default_rng(1)
    X = rng.integers(0, shape[0], (900, shape[1])).astype(float)
    y = X.sum(axis=1) % 2
    for model in (TAOClassifier(splits="axis"), TAOClassifier("cv", splits="axis"), TAOForestClassifier()):
        assert model.set_params(random_state=0).fit(X[:600], y[:600]).score(X[600:], y[600:]) > 0.97


def test_few_different_rows_are_held_out_one_by_one():
    rng = np.random.default_rng(0)
    X, y = np.repeat(rng.random((12, 3)), 20, axis=0), np.repeat(np.arange(12) % 3, 20)
    ((train, valid),) = folds_of(TAOClassifier("cv", cv=0.1), X, y, 0)
    assert (train.size, valid.size) == (216, 24)
    (fold,) = folds_of(TAOClassifier("cv", cv=0.1), X[:25] + rng.random((25, 3)), np.arange(25) % 5, 0)
    assert fold[1].size == 3  # fewer than there are classes
    for n in (1, 2, 3):
        with pytest.raises(
            ValueError, match=f"max_depth must be 'auto' or an integer for fewer than four rows; got 'cv' for {n}"
        ):
            TAORegressor("cv").fit(X[:n] + np.arange(n)[:, None], np.arange(float(n)))


def test_rows_of_one_frequent_value_do_not_switch_it_off():
    """Copies of noise beside rows of zeros with outcomes of their own."""
    rng = np.random.default_rng(0)
    X = np.r_[np.repeat(rng.normal(size=(120, 4)), 6, axis=0), np.zeros((800, 4))]
    y = np.r_[np.repeat(rng.normal(size=120), 6), rng.normal(size=800)]
    copy = copies_of(X, y[:, None])
    assert np.unique(copy[:720]).size == 120
    assert np.unique(copy[720:]).size == 800
    model = TAOForestRegressor(5, random_state=0).fit(X, y)
    assert model.oob_loss_ > 0.7  # .43 before


def test_leaves_together_and_honest_halves_are_not_judged_by_copies():
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(150, 5)), rng.normal(size=150)
    problem = TreeProblem(np.repeat(X, 4, axis=0), np.repeat(X[:, 0] + 1.5 * noise, 4), 3, leaves="linear")
    joint = solve(problem, JointForest(TAOForest(n_trees=20, kind="oblique")), random_state=0)
    assert "joint" not in joint.trace.rows[-1].info  # .001 before, which fitted the noise
    treated, fresh = rng.integers(0, 2, 150), rng.normal(size=(200, 5))
    copies = [np.repeat(part, 8, axis=0) for part in (X, treated, X[:, 0] + 2.0 * noise)]
    effects = CausalTree(3, random_state=0).fit(*copies).predict(fresh)
    assert np.abs(effects).max() < 2.0  # 14.5 before
    table, t, y = copies
    found = causal.scores(table, t, y, outcome_model=DecisionTreeRegressor(random_state=0), random_state=0)
    assert np.std(found[:, 1] - found[:, 0]) > 3.0  # models that know the rows say much less


def test_repeated_rows_of_numbers_are_copies_whatever_their_counts():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 5)), rng.normal(size=150)
    rows = np.repeat(np.arange(150), rng.integers(8, 16, 150))
    copy = copies_of(X[rows], y[rows, None])
    assert np.array_equal(np.unique(copy, return_index=True)[1][copy], np.searchsorted(rows, rows))
    model = TAORegressor(random_state=0).fit(X[rows], y[rows])
    assert model.get_depth() < 3  # 16 before, and learnt the noise by heart


@pytest.mark.parametrize("labels", [False, True])
def test_a_grid_whose_outcomes_repeat_exactly_holds_copies(labels):
    """Noise that is equal to the last digit was drawn once; so were labels that all occur three times."""
    rng = np.random.default_rng(0)
    X = rng.integers(2, size=(100, 8)).astype(float)
    y = rng.integers(2, size=100).astype(float) if labels else X[:, 0] + rng.normal(size=100)
    rows = np.tile(np.arange(100), 3)
    copy = copies_of(X[rows], y[rows, None])
    assert np.unique(copy).size == np.unique(np.column_stack([X, y]), axis=0).shape[0]
    assert observations(TreeProblem(X[rows], y[rows], depth=1)).size == np.unique(copy).size


def test_all_combinations_in_equal_numbers_are_no_copies():
    X = np.tile(np.indices((2,) * 5).reshape(5, -1).T.astype(float), (8, 1))
    assert copies_of(X, X.sum(axis=1, keepdims=True) % 2) is None


@pytest.mark.parametrize("wide", [False, True])
def test_combinations_of_levels_are_no_copies(wide):
    """Indicators of a category are one column of few values."""
    rng = np.random.default_rng(1)
    truth = rng.integers(2, size=(4, 4, 4))
    codes = rng.integers(4, size=(1400, 3))
    y, text = truth[tuple(codes.T)], pd.DataFrame(np.array(list("abcd"), object)[codes], columns=list("uvw"))
    hot = (codes[:, :, None] == np.arange(4)).reshape(1400, 12).astype(float)
    assert copies_of(csr_array(hot) if wide else hot, y[:, None]) is None
    model = TAOClassifier(random_state=0).fit(text[:400], y[:400])
    assert model.score(text[400:], y[400:]) == 1.0  # .57 before


def test_levels_of_text_hide_no_copies():
    """Rows whose copies have other statistics of a level beside them were no copies: .03, 148 leaves."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.normal(size=(120, 3)), columns=list("abc"))
    table["city"] = [f"c{k:02d}" for k in rng.integers(0, 20, 120)]
    effect = 0.7 * np.random.default_rng(9).normal(size=20)
    y = rng.normal(size=120) + effect[table["city"].str[1:].astype(int)]
    thrice, outcomes = pd.concat([table] * 3, ignore_index=True), np.tile(y, 3)
    assert TAOForestRegressor(20, random_state=0).fit(thrice, outcomes).oob_loss_ > 0.7
    assert TAORegressor(random_state=0).fit(thrice, outcomes).tree_.n_leaves < 5


@pytest.mark.parametrize("scaled", [False, True])
def test_indicators_of_a_category_may_stand_anywhere(scaled):
    """Three categories of ten levels, nearly all combinations of them; interleaved, a column from each in turn."""
    codes = np.random.default_rng(0).integers(0, 10, size=(4000, 3))
    X = np.hstack([np.eye(10)[codes[:, j]] for j in range(3)])
    X = (X - X.mean(axis=0)) / X.std(axis=0) if scaled else X
    Y = np.random.default_rng(1).normal(size=(10, 10, 10))[tuple(codes.T)][:, None]
    for columns in (np.arange(30), np.arange(30).reshape(3, 10).T.ravel()):
        assert copies_of(X[:, columns], Y) is None


@pytest.mark.parametrize("apart", [1, 10**5])
def test_keys_of_many_rows_are_no_copies_in_any_unit(rng, apart):
    """Held out together they say nothing: R2 of new rows of these keys was 0, of forests on codes without gaps .02."""
    keys, level = apart * rng.choice(500 if apart > 1 else 150, 150, replace=False), rng.normal(size=150)
    row = rng.integers(0, 150, size=3000)
    X, y = keys[row, None].astype(float), level[row]
    assert copies_of(X, y[:, None]) is None
    assert copies_of((X - X.mean()) / X.std(), y[:, None]) is None
    for model in (TAORegressor(random_state=0), TAOForestRegressor(20, random_state=0)):
        assert model.fit(X[:1500], y[:1500]).score(X[1500:], y[1500:]) > 0.95


def test_measured_numbers_of_many_copies_are_no_keys(rng):
    """131 leaves, R2 -3.5, where numbers with four decimals were keys."""
    X, y = np.round(rng.normal(size=(150, 1)), 4), rng.normal(size=150)
    row = np.repeat(np.arange(150), 1 + rng.poisson(6, 150))
    assert np.unique(copies_of(X[row], y[row, None])).size == 150
    assert TAORegressor("cv", random_state=0).fit(X[row], y[row]).tree_.n_leaves < 20


def test_steps_between_numbers(rng):
    keys = np.unique(rng.choice(10**8, 200, replace=False)).astype(float)
    least = np.gcd.reduce(np.diff(keys).astype(int))
    for unit in (1.0, 0.01, 1.0 / keys.std()):
        assert steps_in((keys - keys.mean()) * unit) == pytest.approx(np.ptp(keys) / least)
    assert steps_in(np.sort(rng.normal(size=200))) == np.inf
    for ends in ([0.0, 1e-310], [1e-160, 1e150], [-1.7e308, 1.7e308]):
        assert steps_in(np.unique(np.r_[ends, np.arange(1.0, 40.0)])) == np.inf


def test_whole_numbers_far_apart_are_no_discrete_data(rng):
    """Days or keys, each row one to five times."""
    X = np.column_stack([rng.choice(10_000, 300, replace=False), rng.integers(0, 2, 300)]).astype(float)
    y = X[:, 1] + rng.normal(size=300)
    row = np.repeat(np.arange(300), rng.integers(1, 6, 300))
    assert np.unique(copies_of(X[row], y[row, None])).size == 300
    assert TAORegressor(random_state=0).fit(X[row], y[row]).score(X, X[:, 1]) > 0
