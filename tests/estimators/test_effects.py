"""Causal trees: effects, honesty, intervals."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LinearRegression, LogisticRegression

from opttree import CausalTree, causal

SIMPLE = {"outcome_model": LinearRegression(), "propensity_model": LogisticRegression(), "random_state": 0}


def drawn(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    treated = rng.random(n) < 1.0 / (1.0 + np.exp(-X[:, 2]))
    effect = np.where(X[:, 0] > 0.0, 1.5, -0.5)
    return X, treated, X[:, 1] + X[:, 2] + treated * effect + 0.5 * rng.normal(size=n), effect


def test_effects_are_found_and_their_leaves_are_honest():
    X, treated, outcome, effect = drawn()
    model = CausalTree(2, **SIMPLE).fit(X, treated, outcome)
    assert model.is_optimal_
    assert np.sqrt(np.mean((model.predict(X) - effect) ** 2)) < 0.3
    assert model.standard_errors_.shape == (model.tree_.n_leaves,)
    assert np.all(model.standard_errors_ > 0.0)
    adaptive = CausalTree(2, honest=False, **SIMPLE).fit(X, treated, outcome)
    assert adaptive.score(X, treated, outcome) > 0.1
    assert model.score(X, treated, outcome) < 1.0


def test_intervals_cover_the_effects_of_leaves():
    inside = []
    for seed in range(12):
        X, treated, outcome, _effect = drawn(600, seed)
        model = CausalTree(1, split_price=0.0, **SIMPLE).fit(X, treated, outcome, propensity=None)
        X, _treated, _outcome, effect = drawn(4000, 100 + seed)
        leaf, interval = model.apply(X), model.effect_interval(X, 0.9)
        for node in np.unique(leaf):
            low, high = interval[leaf == node][0]
            inside.append(low <= effect[leaf == node].mean() <= high)
    assert 0.65 <= np.mean(inside) <= 1.0


def test_rows_without_weight_count_for_nothing():
    X, treated, outcome, _effect = drawn(300)
    weight = np.arange(300) % 3 > 0
    one = CausalTree(1, **SIMPLE).fit(X, treated, np.where(weight, outcome, np.nan), sample_weight=weight)
    two = CausalTree(1, **SIMPLE).fit(X[weight], treated[weight], outcome[weight])
    assert one.predict(X).mean() == pytest.approx(two.predict(X).mean(), abs=0.5)  # halves are drawn among other rows
    with pytest.raises(ValueError, match="X must have 20 rows of positive weight"):
        one.fit(X, treated, outcome, sample_weight=np.arange(300) < 9)
    with pytest.raises(ValueError, match="treatment must have the labels"):
        one.score(X, np.where(treated, "z", "a"), outcome)


def test_outcomes_of_any_size():
    X, treated, outcome, _effect = drawn(300)
    large, small = (CausalTree(1, split_price=0.0, **SIMPLE).fit(X, treated, outcome * unit) for unit in (1.0, 1e-140))
    np.testing.assert_allclose(small.predict(X) * 1e140, large.predict(X), rtol=1e-6)


def test_residuals_are_centred():
    X, treated, outcome, _effect = drawn()
    y, t = causal.residuals(
        X, treated, outcome, outcome_model=LinearRegression(), propensity_model=LogisticRegression()
    )
    assert abs(y.mean()) < 0.05
    assert abs(t.mean()) < 0.05
    known = causal.residuals(X, treated, outcome, 0.25, outcome_model=LinearRegression())[1]
    np.testing.assert_allclose(known, treated - 0.25)


def test_tables_weights_and_labels():
    X, treated, outcome, _effect = drawn(400)
    frame = pd.DataFrame({"side": np.where(X[:, 0] > 0, "right", "left"), "size": X[:, 1]})
    labels = np.where(treated, "drug", "none")
    model = CausalTree(1, split_price=0.0, **SIMPLE)
    model.fit(frame, labels, -outcome, sample_weight=np.arange(400) % 3)
    assert model.treatments_.tolist() == ["drug", "none"]
    assert "side" in model.to_text()
    assert model.predict(frame).shape == (400,)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"treatment": np.arange(60) % 3}, "treatment must have two labels"),
        ({"treatment": np.zeros(60)}, "treatment must have two or more labels"),
        ({"outcome": np.full(60, np.nan)}, "outcome must be finite"),
        ({"propensity": 1.5}, "propensity must be > 0 and < 1"),
        ({"propensity": [0.5, 0.5]}, "propensity must be a number, or one for each row"),
        ({"treatment": np.where(np.arange(60) % 2, np.nan, 1.0)}, "treatment must have no missing values"),
    ],
)
def test_bad_input_is_refused(change, words):
    given = {"X": np.arange(120.0).reshape(60, 2), "treatment": np.arange(60) % 2, "outcome": np.arange(60.0)}
    with pytest.raises(ValueError, match=words):
        CausalTree(**SIMPLE).fit(**(given | change))


def test_lists_lengths_and_texts():
    X, treated, outcome, _effect = drawn(200)
    short = CausalTree(1, **SIMPLE)
    of_lists = CausalTree(1, **SIMPLE).fit(X.tolist(), treated.tolist(), outcome.tolist())
    np.testing.assert_array_equal(of_lists.predict(X), short.fit(X, treated, outcome).predict(X))
    for given in (
        (X, treated[:50], outcome),
        (X, None, outcome),
        (X[:50], treated, outcome),
        (X, treated, outcome[:9]),
    ):
        with pytest.raises(ValueError, match=r"X must be \(n, p\), treatment and outcome \(n,\); got shapes"):
            CausalTree(1, **SIMPLE).fit(*given)
    with pytest.raises(ValueError, match="outcome must hold numbers; got could not convert string"):
        CausalTree(1, **SIMPLE).fit(X, treated, np.repeat("a", 200))
    with pytest.raises(ValueError, match=r"X must hold numbers; got .*'red' in column 'colour'"):
        causal.scores(pd.DataFrame({"colour": ["red", "blue"] * 100}), treated, outcome)
    with pytest.raises(ValueError, match="coverage must be between 0 and 1; got 'x'"):
        of_lists.effect_interval(X, "x")
    with pytest.raises(ValueError, match="treatment must have cv = 5 rows or more of each label; got 3 of True"):
        causal.scores(X, np.arange(200) < 3, outcome)
    with pytest.raises(ValueError, match=r"propensity must add up to 1 over the treatments; got 1\.8"):
        causal.scores(X, treated, outcome, propensity=[0.9, 0.9])


def test_what_is_missing_masked_or_no_number_is_refused():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    t, y, hide = X[:, 0] > 0, X[:, 1].copy(), X[:, 1] > 1.0
    dates = pd.to_datetime(pd.Series(np.where(t, "2020-01-01", None)))
    models = {"outcome_model": LinearRegression(), "propensity_model": LogisticRegression()}
    for treatment, outcome, words in (
        (dates, y, "treatment must have no missing values"),
        (np.ma.array(t, mask=hide), y, "treatment must have no missing values; got .* masked"),
        (t, np.ma.array(y, mask=hide), "outcome must have no missing values; got .* masked"),
        (t, y + 1j, "outcome must hold real numbers; got complex ones"),
    ):
        with pytest.raises(ValueError, match=words):
            CausalTree(1, **models).fit(X, treatment, outcome)
        with pytest.raises(ValueError, match=words):
            causal.scores(X, treatment, outcome, **models)
    with pytest.raises(ValueError, match="propensity must be a number, or one for each row, 400; got 300"):
        CausalTree(1, **models).fit(X, t, y, np.full(300, 0.5), sample_weight=np.arange(400) >= 100)
    with pytest.raises(ValueError, match="X must be dense"):
        CausalTree(1, **models).fit(csr_array(X), t, y)


def test_known_probabilities_are_taken_as_they_are():
    rng = np.random.default_rng(0)
    t = (rng.random(20_000) < 5e-4).astype(int)
    y = 10.0 + rng.normal(size=t.size)
    found = causal.scores(np.zeros((t.size, 1)), t, y, propensity=[1.0 - 5e-4, 5e-4], method="ipw")
    np.testing.assert_allclose(found[:, 1], t * y / 5e-4)


def test_copies_make_no_interval_narrower():
    """Of 60 tables of which each row stood three times, 45 intervals of 95 % had the effect; 57 have."""
    rng = np.random.default_rng(0)
    X, t = rng.normal(size=(300, 3)), rng.integers(0, 2, 300)
    y = X[:, 1] + t + rng.normal(size=300)
    widths = []
    for times in (1, 3):
        model = CausalTree(1, split_price=0.05, **SIMPLE)
        model.fit(*(np.repeat(part, times, axis=0) for part in (X, t, y)))
        low, high = model.effect_interval(X[:1])[0]
        widths.append(high - low)
        assert not hasattr(model, "_estimating")  # a weight of each training row
    assert widths[1] > 0.8 * widths[0]  # .58 before


def test_models_that_are_none_are_refused():
    X, treated, outcome, _effect = drawn(60)
    for name, model, method in (
        ("propensity_model", LinearRegression(), "predict_proba"),
        ("outcome_model", "x", "predict"),
    ):
        with pytest.raises(ValueError, match=f"{name} must be an estimator that has {method}, or None; got"):
            CausalTree(1, **(SIMPLE | {name: model})).fit(X, treated, outcome)
