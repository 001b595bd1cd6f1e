"""Estimators fitted to tables in parts: however they are cut, and beside the fit in memory."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_friedman1

import opttree
from solvers.tao import Bag, PassesOverParts

X, y = make_friedman1(3000, noise=0.5, random_state=0)
LABELS = np.array(["low", "middle", "high"])[np.digitize(y, [12.0, 17.0])]
SAMPLE = 800
MODELS = {
    "constant": (partial(opttree.TAORegressor, 3), y),
    "linear": (partial(opttree.TAORegressor, 3, leaves="linear"), y),
    "axis": (partial(opttree.TAORegressor, 3, splits="axis"), y),
    "two outputs": (partial(opttree.TAORegressor, 3, leaves="linear"), np.column_stack([y, X[:, 0]])),
    "classes": (partial(opttree.TAOClassifier, 3), LABELS),
    "axis classes": (partial(opttree.TAOClassifier, 3, splits="axis"), LABELS),
    "forest": (partial(opttree.TAOForestRegressor, 5, kind="oblique", max_depth=3), y),
    "axis forest": (partial(opttree.TAOForestClassifier, 5, kind="axis", max_depth=3), LABELS),
    "boosted": (partial(opttree.BoostedTreesRegressor, n_estimators=60), y),
    "boosted classes": (partial(opttree.BoostedTreesClassifier, n_estimators=40, validation_fraction=None), LABELS),
    "cart": (partial(opttree.TAOForestClassifier, 5, kind="cart", leaves="constant"), LABELS),
}


def fitted(name, rows, weight=None, most=3000, **how):
    make, target = MODELS[name]
    table = opttree.Rows(tuple(part[:most] for part in (X, target, weight) if part is not None), rows=rows)
    return make(random_state=0).fit_chunks(table, sample_rows=SAMPLE, **{"epochs": 2} | how)


@pytest.mark.parametrize("name", MODELS)
def test_a_seed_gives_one_model_for_any_number_of_parts(name):
    target = MODELS[name][1]
    whole, *cut = [fitted(name, rows) for rows in (3000, 430, 61)]
    method = "predict_proba" if target is LABELS else "predict"
    expected = getattr(whole, method)(X)
    for model in cut:
        # forests sum up in single precision
        np.testing.assert_allclose(
            getattr(model, method)(X), expected, rtol=1e-5, atol=1e-5 if "forest" in name else 1e-8
        )
        assert model.n_rows_ == 3000
        if np.isfinite(whole.result_.objective):
            assert model.result_.objective == pytest.approx(whole.result_.objective, rel=1e-8)


@pytest.mark.parametrize("name", ["constant", "linear", "axis", "classes", "axis classes"])
def test_the_objective_is_that_of_the_statement_on_all_rows(name):
    model = fitted(name, 500)
    sample = opttree.Rows((X, MODELS[name][1]), rows=500)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    some = sample.sample(SAMPLE, np.random.default_rng(seed))
    problem, scaling = model.state(some.X, some.y)  # in the units of the sample
    every = scaling.problem(problem, X, MODELS[name][1])
    assert model.result_.objective == pytest.approx(every.objective(model.result_.tree), rel=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_all_rows_are_better_than_the_sample(name):
    make, target = MODELS[name]
    Z, z = make_friedman1(2000, noise=0.5, random_state=1)
    z = np.array(["low", "middle", "high"])[np.digitize(z, [12.0, 17.0])] if target is LABELS else z
    z = np.column_stack([z, Z[:, 0]]) if target.ndim == 2 else z
    small = make(random_state=0).fit(X[:SAMPLE], target[:SAMPLE])
    assert fitted(name, 500).score(Z, z) > small.score(Z, z) - 0.01


def test_passes_do_not_raise_the_objective():
    last = np.inf
    for epochs in (1, 2, 4):
        model = fitted("linear", 700, epochs=epochs)
        assert model.result_.objective <= last
        last = model.result_.objective


def test_a_table_no_larger_than_the_sample_is_fitted_in_memory():
    rows = opttree.Rows((X[:500], y[:500]), rows=99)
    model = opttree.TAORegressor(random_state=0).fit(rows)
    np.testing.assert_array_equal(
        model.predict(X), opttree.TAORegressor(random_state=0).fit(X[:500], y[:500]).predict(X)
    )


def test_weights_count_as_copies():
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    model = fitted("constant", 600, weight)
    leaf = model.apply(X)
    for t in np.unique(leaf):
        share = weight[leaf == t].sum() / weight.sum()
        assert model.tree_.share[t] == pytest.approx(share)
    heavy = fitted("constant", 600, 1000.0 * weight)
    np.testing.assert_allclose(heavy.predict(X), model.predict(X))


def test_a_class_that_the_sample_lacks_is_learnt():
    labels = LABELS.copy()
    labels[::1500] = "rare"
    model = opttree.TAOClassifier(3, random_state=0)
    model.fit_chunks(opttree.Rows((X, labels), rows=700), sample_rows=100)
    assert list(model.classes_) == ["high", "low", "middle", "rare"]
    assert 0.0 < model.predict_proba(X)[:, 3].sum() < 20.0


def test_a_table_with_text_and_blanks():
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(10)])
    frame["town"] = np.where(X[:, 0] > 0.5, "Ulm", "Bonn")
    frame.loc[::7, "x1"] = np.nan
    shifted = y + 8.0 * (frame["town"] == "Ulm")
    parts = [(frame[k : k + 500], shifted[k : k + 500].to_numpy()) for k in range(0, 3000, 500)]
    model = opttree.TAORegressor(3, random_state=0).fit_chunks(opttree.Rows(parts), sample_rows=SAMPLE)
    assert model.score(frame, shifted) > 0.8
    assert list(model.feature_names_in_) == list(frame.columns)


def test_a_fit_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    class StopError(Exception):
        pass

    file = tmp_path / "state"
    whole = fitted("linear", 600, epochs=3)
    one_pass, count = PassesOverParts.one_pass, []

    def stops(self, tree):
        count.append(1)
        if len(count) > 1:
            raise StopError
        return one_pass(self, tree)

    monkeypatch.setattr(PassesOverParts, "one_pass", stops)
    with pytest.raises(StopError):
        fitted("linear", 600, epochs=3, checkpoint=file)
    monkeypatch.undo()
    later = fitted("linear", 600, epochs=3, checkpoint=file)
    np.testing.assert_allclose(later.predict(X), whole.predict(X), rtol=1e-9)
    with pytest.raises(ValueError, match="checkpoint must be of these rows"):
        fitted("linear", 600, epochs=3, checkpoint=file, most=2000)


def test_stored_rows_give_the_same_tree(tmp_path):
    table = opttree.Rows((X, y), rows=500, store=tmp_path)
    model = opttree.TAORegressor(3, random_state=0).fit_chunks(table, sample_rows=SAMPLE, epochs=2)
    np.testing.assert_array_equal(model.predict(X), fitted("constant", 500).predict(X))


def test_what_does_not_add_up_is_refused():
    rows = opttree.Rows((X, y), rows=900)
    with pytest.raises(ValueError, match="SRTRegressor does not add up"):
        opttree.SRTRegressor().fit(rows)
    with pytest.raises(ValueError, match="y must be None where X is"):
        opttree.TAORegressor().fit(rows, y)
    with pytest.raises(ValueError, match="loss='absolute'"):
        opttree.TAORegressor(loss="absolute", random_state=0).fit_chunks(rows, sample_rows=400)
    with pytest.raises(ValueError, match="max_leaf_nodes must be None"):
        opttree.TAORegressor(max_leaf_nodes=4).fit(rows)
    with pytest.raises(ValueError, match="eval_set must be None"):
        opttree.TAORegressor().fit(rows, eval_set=(X, y))
    with pytest.raises(ValueError, match="base must be 'auto' or 'cart'"):
        opttree.BoostedTreesRegressor("axis").fit(rows)
    with pytest.raises(ValueError, match="checkpoint must be None for BoostedTreesRegressor"):
        opttree.BoostedTreesRegressor().fit_chunks(rows, checkpoint="state")
    with pytest.raises(ValueError, match="kind must be one kind"):
        opttree.TAOForestRegressor(kind="stacked").fit_chunks(rows, sample_rows=400)


def test_gradients_take_the_same_table():
    model = opttree.GETRegressor(2, random_state=0).fit_chunks(opttree.Rows((X, y), rows=700), sample_rows=SAMPLE)
    assert model.n_rows_ == 3000
    assert model.score(X, y) > 0.5


@pytest.mark.parametrize("share", [0.9, None])
def test_bags_know_rows_by_their_numbers(share):
    bag = Bag(3, 5, share)
    whole = bag.weights(0, 10_000)
    np.testing.assert_array_equal(whole[700:900], bag.weights(700, 200))
    assert whole.mean() == pytest.approx(1.0, abs=0.03)
    assert (whole == 0.0).mean() == pytest.approx(0.1 if share else np.exp(-1.0), abs=0.02)
    assert (Bag(3, 6, share).weights(0, 10_000) != whole).any()


def test_a_short_limit_and_pickles():
    model = opttree.TAORegressor(5, leaves="linear", random_state=0, time_limit=0.05)
    model.fit_chunks(opttree.Rows((X, y), rows=100), sample_rows=SAMPLE, epochs=50)
    assert pickle.loads(pickle.dumps(model)).score(X, y) > 0.5
