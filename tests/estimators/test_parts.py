"""Estimators fitted to tables in parts: however they are cut, and beside the fit in memory."""

import os
import pickle
import signal
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_friedman1

import opttree
from opttree.estimators.steps import choices, over_parts, shrink
from opttree.runtime.interrupts import InterruptedFitWarning
from solvers import NODEC, TAO
from solvers.soft import SoftOverParts, parts as soft_parts
from solvers.tao import Bag, PassesOverParts

X, y = make_friedman1(3000, noise=0.5, random_state=0)
LABELS = np.array(["low", "middle", "high"])[np.digitize(y, [12.0, 17.0])]
SAMPLE = 800
FEW_BOOSTED = partial(opttree.BoostedTreesRegressor, n_estimators=15)
MODELS = {
    "constant": (partial(opttree.TAORegressor, 3), y),
    "linear": (partial(opttree.TAORegressor, 3, leaves="linear"), y),
    "axis": (partial(opttree.TAORegressor, 3, splits="axis"), y),
    "two outputs": (partial(opttree.TAORegressor, 3, leaves="linear"), np.column_stack([y, X[:, 0]])),
    "classes": (partial(opttree.TAOClassifier, 3), LABELS),
    "axis classes": (partial(opttree.TAOClassifier, 3, splits="axis"), LABELS),
    "linear classes": (partial(opttree.TAOClassifier, 2, leaves="linear"), LABELS),
    "smooth": (partial(opttree.GETRegressor, 3), y),
    "smooth linear": (partial(opttree.GETRegressor, 2, leaves="linear"), np.column_stack([y, X[:, 0]])),
    "smooth classes": (partial(opttree.GETClassifier, 3), LABELS),
    "smooth linear classes": (partial(opttree.GETClassifier, 2, leaves="linear"), LABELS),
    "soft": (partial(opttree.SRTRegressor, 2), y),
    "soft classes": (partial(opttree.SRTClassifier, 2), LABELS),
    "mixture": (partial(opttree.ORRTRegressor, 2), y),
    "forest": (partial(opttree.TAOForestRegressor, 5, kind="oblique", max_depth=3), y),
    "axis forest": (partial(opttree.TAOForestClassifier, 5, kind="axis", max_depth=3), LABELS),
    "boosted": (partial(opttree.BoostedTreesRegressor, n_estimators=30), y),
    "boosted classes": (partial(opttree.BoostedTreesClassifier, n_estimators=15, validation_fraction=None), LABELS),
    "boosted axis": (partial(opttree.BoostedTreesRegressor, base="axis", n_estimators=40), y),
    "boosted oblique": (partial(opttree.BoostedTreesClassifier, base="oblique", n_estimators=20), LABELS),
    "boosted by TAO": (
        partial(opttree.BoostedTreesRegressor, base=TAO(max_iter=2), max_depth=2, n_estimators=30),
        np.column_stack([y, X[:, 0]]),
    ),
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
        # forests sum up in single precision, and L-BFGS magnifies rounding: by how much depends on the processor
        close = {"rtol": 1e-5, "atol": 1e-5 if "forest" in name or name == "smooth linear classes" else 1e-8}
        np.testing.assert_allclose(getattr(model, method)(X), expected, **close)
        assert model.n_rows_ == 3000
        near = 1e-6 if "forest" in name or name == "cart" else 1e-5 if name == "smooth linear classes" else 1e-8
        assert model.result_.objective == pytest.approx(whole.result_.objective, rel=near)


@pytest.mark.parametrize(
    "name", ["constant", "linear", "axis", "classes", "axis classes", "smooth", "smooth linear", "smooth classes"]
)
def test_the_objective_is_that_of_the_statement_on_all_rows(name):
    model, target = fitted(name, 500), MODELS[name][1]
    sample = opttree.Rows((X, MODELS[name][1]), rows=500)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    first = [np.flatnonzero(target == label)[0] for label in np.unique(target)] if target is LABELS else []
    some = sample.taken(sample.draw(SAMPLE, np.random.default_rng(seed), first))
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


@pytest.mark.parametrize("kind", [opttree.SRTRegressor, opttree.ORRTRegressor])
def test_soft_trees_descend_on_all_rows(kind):
    rows = opttree.Rows((X, y), rows=700)
    given = {"l2": 1e-3} | ({"feature_l1": 0.0} if kind is opttree.ORRTRegressor else {})
    short, long = (
        kind(2, **given, random_state=0).fit_chunks(rows, sample_rows=SAMPLE, epochs=epochs) for epochs in (1, 8)
    )
    some = rows.taken(rows.draw(SAMPLE, np.random.default_rng(np.random.RandomState(0).randint(2**31 - 1))))
    problem, scaling = long.state(some.X, some.y)
    every = scaling.problem(problem, X, y)
    mixture = long.tree_.mixture
    smooth = opttree.SmoothTreeProblem(every, aggregation="mixture" if mixture else "expected")
    assert long.result_.objective == pytest.approx(every.objective(long.result_.tree), rel=1e-9)
    value, gradient = smooth.value_and_grad(smooth.soften(long.result_.tree))
    before = smooth.value(smooth.soften(short.result_.tree))
    assert value < before
    assert np.abs(gradient).max() < 0.02
    if not mixture:
        assert long.smooth_objective_ == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(long.tree_.share, long.tree_.node_share(X))


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
    frame = pd.DataFrame(X.copy(), columns=[f"x{j}" for j in range(10)])  # pandas 2 shares the memory
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
    with pytest.raises(ValueError, match="ORTRegressor does not add up"):
        opttree.ORTRegressor().fit(rows)
    with pytest.raises(ValueError, match="preset must be 'default'"):
        opttree.SRTRegressor(preset="paper").fit(rows)
    with pytest.raises(ValueError, match="y must be None where X is"):
        opttree.TAORegressor().fit(rows, y)
    with pytest.raises(ValueError, match="loss must be 'squared'"):
        opttree.TAORegressor(loss="absolute", random_state=0).fit_chunks(rows, sample_rows=400)
    for mixed in (np.array(["a", None] * 1500, object), np.array(["a"] * 1500 + [1] * 1500, object)):
        with pytest.raises(ValueError, match="labels of one type"):
            opttree.TAOClassifier().fit_chunks(opttree.Rows((X, mixed), rows=500), sample_rows=400)
    with pytest.raises(ValueError, match="max_leaf_nodes must be None"):
        opttree.TAORegressor(max_leaf_nodes=4).fit(rows)
    with pytest.raises(ValueError, match="eval_set must be None"):
        opttree.TAORegressor().fit(rows, eval_set=(X, y))
    with pytest.raises(ValueError, match="base must be a solver of hard trees for a table in parts; got NODEC"):
        opttree.BoostedTreesRegressor(NODEC(max_iter=1), max_depth=1).fit_chunks(rows, sample_rows=400)
    with pytest.raises(ValueError, match="checkpoint must be None for BoostedTreesRegressor"):
        opttree.BoostedTreesRegressor().fit_chunks(rows, checkpoint="state")
    with pytest.raises(ValueError, match="kind must be 'auto'"):
        opttree.TAOForestRegressor(kind="stacked").fit_chunks(rows, sample_rows=400)


@pytest.mark.parametrize("make", [opttree.TAORegressor, FEW_BOOSTED, opttree.SRTRegressor])
def test_rows_of_positive_weight_that_a_sample_would_miss_are_in_it(make):
    weight = np.zeros(3000)
    weight[400:700] = 1.0  # of a sample of 60, six rows
    answers = []
    for rows in (3000, 400, 100):  # whole parts of positive weight
        model = make(random_state=0).fit_chunks(opttree.Rows((X, y, weight), rows=rows), sample_rows=60, epochs=1)
        answers.append(model.predict(X[:100]))
    np.testing.assert_allclose(answers[1:], [answers[0]] * 2, rtol=1e-5)
    assert model.score(X[400:700], y[400:700]) > 0.0


@pytest.mark.parametrize("first", [[5], [5, 900, 2000], range(1000, 1400)])
@pytest.mark.parametrize("base", ["cart", "axis"])
def test_few_rows_of_weight_are_boosted_alike_in_any_parts(first, base):
    weight = np.zeros(3000)
    weight[list(first)] = 1.0
    found = []
    for rows in (3000, 400, 200):
        model = opttree.BoostedTreesRegressor(base=base, n_estimators=20, random_state=1)
        model.fit_chunks(opttree.Rows((X, y, weight), rows=rows), sample_rows=60)
        found.append(model.predict(X[:50]))
        assert np.isfinite(model.result_.objective)
        assert np.isfinite(model.validation_loss_)
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-9)
    assert found[0].min() >= y.min() - 5.0


def test_boosting_ends_by_the_held_out_rows_of_all_parts():
    some, noisy = X[:800], y[:800] + 6.0 * np.random.default_rng(0).normal(size=800)
    counts = []
    for rows in (800, 4):  # most parts of four rows hold none out
        model = opttree.BoostedTreesRegressor(base="cart", n_estimators=60, n_iter_no_change=5, random_state=0)
        model.fit_chunks(opttree.Rows((some, noisy), rows=rows), sample_rows=300)
        counts.append((model.n_estimators_, round(model.validation_loss_, 9), model.result_.termination.name))
    assert counts[0] == counts[1]
    assert counts[0][0] < 60


def test_a_short_limit_leaves_time_for_all_rows():
    Z, z = make_friedman1(30_000, n_features=40, noise=0.5, random_state=0)
    make = partial(opttree.BoostedTreesRegressor, base="oblique", random_state=0)
    make(n_estimators=2).fit_chunks(opttree.Rows((Z, z), rows=5000), sample_rows=5000)  # compiled
    model = make(time_limit=4.0).fit_chunks(opttree.Rows((Z, z), rows=5000), sample_rows=5000)
    assert model.n_estimators_ > 3
    assert model.result_.termination.name in ("TIME_LIMIT", "STALLED")


def test_classes_of_no_weight_are_boosted():
    model = opttree.BoostedTreesClassifier(
        base="oblique", n_estimators=8, class_weight={"low": 0.0, "middle": 1.0, "high": 1.0}, random_state=0
    ).fit_chunks(opttree.Rows((X, LABELS), rows=700), sample_rows=400)
    assert not (model.predict(X) == "low").any()


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


def test_all_rows_choose_the_depth():
    Z, z = make_friedman1(30_000, noise=0.1, random_state=0)
    models = [
        opttree.TAORegressor(splits="axis", random_state=0).fit_chunks(
            opttree.Rows((Z, z), rows=rows), sample_rows=4000, epochs=1
        )
        for rows in (30_000, 1700)
    ]
    assert models[0].best_depth_ == models[1].best_depth_ == models[0].get_depth() == 10
    np.testing.assert_allclose(models[1].predict(Z), models[0].predict(Z), rtol=1e-9)
    usual = opttree.TAORegressor(6, splits="axis", random_state=0)
    usual.fit_chunks(opttree.Rows((Z, z), rows=6000), sample_rows=4000, epochs=1)
    Q, q = make_friedman1(2000, noise=0.1, random_state=1)
    assert models[0].score(Q, q) > usual.score(Q, q) + 0.03
    noise = opttree.Rows((Z, np.random.default_rng(0).normal(size=len(z))), rows=6000)
    assert opttree.TAORegressor(random_state=0).fit_chunks(noise, sample_rows=4000, epochs=1).best_depth_ == 6


def test_all_rows_choose_the_depth_of_soft_trees():
    Z, z = make_friedman1(20_000, noise=0.1, random_state=0)
    stairs = np.floor(4.0 * Z[:, 0])  # of four steps: two levels
    models = [
        opttree.SRTRegressor("auto", leaves="constant", random_state=0).fit_chunks(
            opttree.Rows((Z[:, :3], stairs), rows=rows), sample_rows=3000, epochs=1
        )
        for rows in (20_000, 1700)
    ]
    assert models[0].best_depth_ == models[1].best_depth_ == models[0].tree_.depth >= 2
    np.testing.assert_allclose(models[1].predict(Z[:, :3]), models[0].predict(Z[:, :3]), atol=1e-6)
    straight = opttree.SRTRegressor("auto", random_state=0)
    straight.fit_chunks(opttree.Rows((Z, Z[:, 0] + z.std() * z % 1.0), rows=5000), sample_rows=3000, epochs=1)
    assert straight.best_depth_ in (1, 2, 3)


def test_linear_leaves_of_classes_are_softened_as_rows_outside_the_sample_ask():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(20_000, 30))
    label = np.where(rng.random(len(Z)) < 1.0 / (1.0 + np.exp(-Z[:, 0])), "yes", "no")
    models = [
        opttree.TAOClassifier(2, leaves="linear", leaf_shrinkage="cv", random_state=0).fit_chunks(
            opttree.Rows((Z[:most], label[:most]), rows=1700), sample_rows=300, epochs=1
        )
        for most in (15_000, 20_000)
    ]
    assert all(model.leaf_shrinkage_ in shrink.SOFTER for model in models)
    assert models[0].leaf_temperature_ == 1.0
    odds = np.log(models[1].predict_proba(Z)[:, 1] / models[1].predict_proba(Z)[:, 0])
    assert np.polyfit(Z[:, 0], odds, 1)[0] == pytest.approx(1.0 / (1.0 + models[1].leaf_shrinkage_), rel=0.15)


def test_all_rows_choose_how_leaves_are_shrunk():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(30_000, 4))
    noise = rng.normal(size=len(Z))
    label = np.where(rng.random(len(Z)) < 0.9, np.where(Z[:, 0] > 0.0, "a", "b"), "c")
    found = []
    for rows in (30_000, 1700):
        model = opttree.TAORegressor(8, leaf_shrinkage="cv", random_state=0)
        model.fit_chunks(opttree.Rows((Z, noise), rows=rows), sample_rows=3000, epochs=1)
        classes = opttree.TAOClassifier(8, leaf_shrinkage="cv", random_state=0)
        classes.fit_chunks(opttree.Rows((Z, label), rows=rows), sample_rows=3000, epochs=1)
        found.append((model.leaf_shrinkage_, classes.leaf_shrinkage_, classes.leaf_temperature_))
        assert model.score(Z, noise) < 0.02
    assert found[0] == found[1]
    assert found[0][0] == max(shrink.STRENGTHS)
    few = opttree.TAORegressor(8, leaf_shrinkage=3.0, random_state=0)
    assert few.fit_chunks(opttree.Rows((Z, noise), rows=5000), sample_rows=3000, epochs=1).leaf_shrinkage_ == 3.0


@pytest.mark.parametrize("kind", [partial(opttree.TAOForestRegressor, 5, kind="axis"), FEW_BOOSTED])
def test_the_objective_of_an_ensemble_is_that_of_all_rows(kind):
    model = kind(random_state=0).fit_chunks(opttree.Rows((X, y), rows=700), sample_rows=SAMPLE)
    _scale = model.result_.objective / np.mean((model.predict(X) - y) ** 2)
    other = kind(random_state=0).fit_chunks(opttree.Rows((X, y), rows=1000), sample_rows=SAMPLE)
    assert other.result_.objective == pytest.approx(model.result_.objective, rel=1e-6)
    assert 0.5 < _scale * np.var(y) < 2.0  # outcomes are standardised as in the sample


def test_ties_of_classes_do_not_depend_on_parts():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(8000, 6))
    label = (np.argsort(np.argsort(Z[:, 0] + 0.2 * Z[:, 1])) // 160).astype(int)  # fifty classes
    trees = [
        opttree.TAOClassifier(9, splits="axis", random_state=0)
        .fit_chunks(opttree.Rows((Z, label), rows=rows), sample_rows=1500, epochs=1)
        .tree_
        for rows in (8000, 700, 130)
    ]
    for tree in trees[1:]:
        np.testing.assert_array_equal(tree.b, trees[0].b)
        np.testing.assert_array_equal(tree.A, trees[0].A)


def test_thresholds_of_features_of_two_values_are_their_own():
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(6000, 3))
    sign = Z[:, 0] > 0.0
    Z[:, 0] = 1.0 + 1e-13 * sign  # bins beyond those of its one threshold are empty
    Z[:, 2] = 2.0
    z = np.where(sign, Z[:, 1], -Z[:, 1]) + 0.2 * rng.normal(size=6000)
    model = opttree.TAORegressor(6, splits="axis", random_state=0)
    model.fit_chunks(opttree.Rows((Z, z), rows=1500), sample_rows=1000, epochs=2)
    assert model.score(Z, z) > 0.8


def test_a_searched_depth_goes_on_where_the_sample_stopped():
    Z, z = make_friedman1(30_000, noise=0.1, random_state=0)
    model = opttree.TAORegressor("cv", cv=0.3, random_state=0)
    model.fit_chunks(opttree.Rows((Z, z), rows=6000), sample_rows=500, epochs=1)
    of_sample = model.cv_results_["depth"][np.argmax(model.cv_results_["mean_score"])]
    assert of_sample < model.best_depth_ <= of_sample + 3
    assert model.max_depth == "cv"


def interrupting(function):
    """The function, at whose first call Ctrl-C is pressed."""
    sent = []

    def called(*args, **options):
        if not sent:
            sent.append(os.kill(os.getpid(), signal.SIGINT))
        return function(*args, **options)

    return called


@pytest.mark.parametrize("kind", [opttree.TAORegressor, opttree.GETRegressor])
@pytest.mark.parametrize("where", ["_of_best_depth", "_held_out_errors"])
def test_ctrl_c_while_the_depth_is_chosen_keeps_the_tree(monkeypatch, kind, where):
    monkeypatch.setattr(choices, where, interrupting(getattr(choices, where)))
    Z, z = make_friedman1(16_000, random_state=0)
    model = kind(random_state=0, on_interrupt="keep")
    with pytest.warns(InterruptedFitWarning):
        model.fit_chunks(opttree.Rows((Z, z), rows=4000), sample_rows=2000, epochs=1)
    assert model.score(Z, z) > 0.4
    assert model.best_depth_ == 6
    assert model.result_.termination.name == "INTERRUPTED"


@pytest.mark.parametrize("kind", [partial(opttree.TAOForestRegressor, 5, kind="axis"), FEW_BOOSTED])
def test_ctrl_c_in_the_last_rounds_of_an_ensemble_keeps_it(monkeypatch, kind):
    monkeypatch.setattr(over_parts, "objective_of", interrupting(over_parts.objective_of))
    model = kind(random_state=0, on_interrupt="keep")
    with pytest.warns(InterruptedFitWarning):
        model.fit_chunks(opttree.Rows((X, y), rows=700), sample_rows=SAMPLE)
    assert model.score(X, y) > 0.5
    assert np.isfinite(model.result_.objective)


def test_ctrl_c_in_the_last_round_of_tao_keeps_the_passes(monkeypatch):
    monkeypatch.setattr(PassesOverParts, "leaf_sums", interrupting(PassesOverParts.leaf_sums))
    model = opttree.TAORegressor(3, random_state=0, on_interrupt="keep")
    with pytest.warns(InterruptedFitWarning):
        model.fit_chunks(opttree.Rows((X, y), rows=700), sample_rows=SAMPLE)
    assert model.score(X, y) > 0.5


def test_a_fit_ends_the_stream_of_another():
    model = opttree.GETRegressor(2, random_state=0).fit_chunks((X, y), sample_rows=SAMPLE)
    model.fit_chunks(opttree.Rows((X, -5.0 * y), rows=900), sample_rows=SAMPLE)
    model.partial_fit(X[:500], -5.0 * y[:500])
    assert model.score(X, -5.0 * y) > 0.0


def test_nodes_of_rows_that_a_plane_separates_raise_no_warning():
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(14_000, 6))
    rng.normal(size=len(Z))
    z = np.sin(3 * Z[:, 0]) * 2 + Z[:, 1] * Z[:, 2] + 0.5 * rng.normal(size=len(Z))
    model = opttree.TAORegressor(10, random_state=0)
    model.fit_chunks(opttree.Rows((Z, z), rows=700), sample_rows=2500, epochs=3)
    assert np.isfinite(model.tree_.b).all()


@pytest.mark.parametrize("seed", [0, 1])
def test_cuts_that_cost_the_same_are_the_same_for_any_parts(seed):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(13_000, 8))
    z = np.sin(3 * Z[:, 0]) * 2 + Z[:, 1] * Z[:, 2] + 0.5 * rng.normal(size=len(Z))
    rng.random(len(Z))
    weight = (rng.random(len(Z)) > 0.35).astype(float)
    one, other = (
        opttree.TAORegressor(10, splits="axis", random_state=0)
        .fit_chunks(opttree.Rows((Z, z, weight), rows=rows), sample_rows=2500, epochs=1)
        .predict(Z)
        for rows in (100_000, 997)
    )
    np.testing.assert_allclose(one, other, rtol=1e-9)


def test_few_rows_outside_the_sample_choose_no_depth():
    model = opttree.TAORegressor(random_state=0).fit_chunks(opttree.Rows((X, y), rows=700), sample_rows=SAMPLE)
    assert model.tree_.depth <= 6


def test_held_out_rows_are_outside_the_sample_and_the_share():
    bag, but = Bag(3, 0, 0.8), np.array([5, 17, 400, 9000])
    outside = bag._replace(outside=True, but=but)
    whole = outside.weights(0, 10_000)
    np.testing.assert_array_equal(whole[300:900], outside.weights(300, 600))
    assert (whole[but] == 0.0).all()
    assert (bag.weights(0, 10_000) * whole == 0.0).all()
    assert whole.mean() == pytest.approx(1.0, abs=0.05)


def test_a_short_limit_and_pickles():
    model = opttree.TAORegressor(5, leaves="linear", random_state=0, time_limit=0.05)
    model.fit_chunks(opttree.Rows((X, y), rows=100), sample_rows=SAMPLE, epochs=50)
    assert pickle.loads(pickle.dumps(model)).score(X, y) > 0.5


def test_weights_of_classes_count_in_all_parts():
    how = {"class_weight": {"low": 9.0, "middle": 1.0, "high": 1.0}, "random_state": 0}
    model = opttree.TAOClassifier(3, **how).fit_chunks(opttree.Rows((X, LABELS), rows=400), sample_rows=SAMPLE)
    assert (model.predict(X) == "low").mean() > (LABELS == "low").mean() + 0.05
    weight = np.where(LABELS == "low", 9.0, 1.0)
    off = weight @ (model.predict(X) != LABELS) / weight.sum()  # without penalties, and of shrunk leaves
    assert model.result_.objective == pytest.approx(off, abs=0.01)
    even = opttree.TAOClassifier(3, class_weight="balanced", random_state=0)
    even.fit_chunks(opttree.Rows((X, LABELS), rows=400), sample_rows=SAMPLE)
    assert set(even.predict(X)) == set(LABELS)


def test_the_smallest_leaf_is_that_of_all_rows():
    make = partial(opttree.TAORegressor, 3, min_samples_leaf=400, random_state=0)
    model = make().fit_chunks(opttree.Rows((X, y), rows=400), sample_rows=SAMPLE)
    counts = np.unique(model.apply(X), return_counts=True)[1]
    assert counts.min() >= 400
    assert len(counts) >= 4


def test_rows_of_weight_zero_do_not_count():
    weight = np.ones(len(y))
    weight[::2] = 0.0
    some = opttree.TAORegressor(3, leaf_shrinkage=200.0, random_state=0)
    some.fit_chunks(opttree.Rows((X, y, weight), rows=600), sample_rows=SAMPLE)
    leaf, n = some.apply(X[1::2]), len(y) // 2
    assert some.tree_.share[leaf[0]] == pytest.approx((leaf == leaf[0]).sum() / n)
    with pytest.raises(ValueError, match="weights must be finite and >= 0"):
        opttree.TAORegressor(3).fit_chunks(opttree.Rows((X, y, np.append(weight[1:], -1.0))), sample_rows=SAMPLE)


def test_the_out_of_bag_error_is_not_that_of_known_rows():
    rng = np.random.default_rng(0)
    A = rng.random((6000, 3))
    noise = rng.normal(size=6000)
    model = opttree.TAOForestRegressor(10, kind="cart", random_state=0)
    model.fit_chunks(opttree.Rows((A, A[:, 0] + noise), rows=1000), sample_rows=2000)
    assert model.oob_loss_ > 0.9
    with pytest.raises(ValueError, match="predict_interval needs a forest"):
        model.predict_interval(A)


def test_blanks_that_a_sample_may_lack():
    Z = X.copy()
    Z[2999, 0] = np.nan
    model = opttree.TAORegressor(3, random_state=0).fit_chunks(opttree.Rows((Z, y), rows=600), sample_rows=SAMPLE)
    assert np.isfinite(model.predict(Z)).all()


def test_a_failed_fit_leaves_the_earlier_model():
    model = opttree.TAORegressor(3, random_state=0).fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="y must be finite"):
        model.fit_chunks(opttree.Rows((X, np.append(y[1:], np.nan)), rows=600), sample_rows=SAMPLE)
    np.testing.assert_array_equal(model.predict(X), before)
    assert not hasattr(model, "n_rows_")


def test_parts_of_unequal_columns_are_refused():
    da = pytest.importorskip("dask.array")
    short = opttree.Rows((da.from_array(X, chunks=(600, 10)), da.from_array(y[:-100], chunks=600)))
    with pytest.raises(ValueError, match="as many rows in each part"):
        opttree.TAORegressor(3).fit_chunks(short, sample_rows=SAMPLE)


def test_a_user_array_is_not_changed():
    Z = X.copy()
    opttree.Rows((Z, y), rows=1000).sum(first_row, ())
    np.testing.assert_array_equal(Z, X)


def first_row(part, number, shared):
    return part.X[0]


@pytest.mark.parametrize("kind", [opttree.SRTRegressor, opttree.ORRTRegressor])
def test_soft_trees_whose_sample_says_nothing(kind):
    rare = np.zeros(len(y))
    rare[X[:, 0] > 0.95] = 10.0
    model = kind(max_depth=2, random_state=0).fit_chunks(opttree.Rows((X, rare), rows=700), sample_rows=20, epochs=8)
    assert model.score(X, rare) > 0.3
    assert model.tree_.n_branches == 3
    np.testing.assert_allclose(model.tree_.share, model.tree_.node_share(X))


def test_a_hard_tree_whose_sample_says_nothing():
    rare = np.zeros(len(y))
    rare[X[:, 0] > 0.95] = 10.0
    rows = opttree.Rows((X, rare), rows=700)
    model = opttree.GETRegressor(2, random_state=0).fit_chunks(rows, sample_rows=20, epochs=3)
    assert model.score(X, rare) > 0.3
    np.testing.assert_allclose(model.tree_.share, model.tree_.node_share(X))


@pytest.mark.parametrize("kind", [opttree.SRTRegressor, opttree.ORRTRegressor])
def test_penalties_of_soft_trees_count_weights_as_copies(kind, monkeypatch):
    seen = []
    whole = SoftOverParts.minimised
    monkeypatch.setattr(
        SoftOverParts, "minimised", lambda self, *args: (seen.append(self.problem.penalties), whole(self, *args))[1]
    )
    for weight in (None, np.full(len(y), 10.0), np.arange(len(y)) % 4 * 1.0):
        table = opttree.Rows((X, y) if weight is None else (X, y, weight), rows=700)
        kind(2, random_state=0).fit_chunks(table, sample_rows=SAMPLE)
        assert seen[-1] == kind(2, random_state=0).state(X, y, weight)[0].penalties


@pytest.mark.parametrize("kind", [opttree.SRTClassifier, opttree.TAOClassifier])
def test_shares_are_without_weights_of_classes(kind):
    model = kind(2, random_state=0, class_weight={"high": 8.0, "low": 1.0, "middle": 2.0})
    model.fit_chunks(opttree.Rows((X, LABELS), rows=700), sample_rows=SAMPLE)
    np.testing.assert_allclose(model.tree_.share, model.tree_.node_share(X))


def test_ctrl_c_in_the_last_round_keeps_the_descent(monkeypatch):
    answered, sent = soft_parts._answered, []

    def interrupting(*args):
        if not sent:
            sent.append(os.kill(os.getpid(), signal.SIGINT))
        return answered(*args)

    monkeypatch.setattr(soft_parts, "_answered", interrupting)
    model = opttree.SRTRegressor(2, random_state=0, on_interrupt="keep")
    with pytest.warns(opttree.InterruptedFitWarning):
        model.fit_chunks(opttree.Rows((X, y), rows=700, n_jobs=1), sample_rows=500, epochs=3)
    assert model.score(X, y) > 0.5
    assert model.result_.termination.name == "ITERATION_LIMIT"


def test_features_leave_a_soft_tree_of_all_rows():
    noise = np.random.default_rng(0).normal(size=(len(X), 6))
    rows = opttree.Rows((np.hstack([X, noise]), y), rows=700)
    model = opttree.ORRTRegressor(2, feature_l1=0.05, l2=1e-3, leaves="constant", random_state=0)
    model.fit_chunks(rows, sample_rows=SAMPLE, epochs=3)
    some = rows.taken(rows.draw(SAMPLE, np.random.default_rng(np.random.RandomState(0).randint(2**31 - 1))))
    problem, scaling = model.state(some.X, some.y)
    every = scaling.problem(problem, np.hstack([X, noise]), y)
    assert model.result_.objective == pytest.approx(every.objective(model.result_.tree), rel=1e-9)
    assert model.score(np.hstack([X, noise]), y) > 0.6
    assert not model.tree_.A.any(axis=0).all()


@pytest.mark.parametrize("estimator", [FEW_BOOSTED, opttree.TAORegressor, opttree.GETRegressor, opttree.SDTRRegressor])
def test_a_part_of_other_outputs_is_refused(estimator):
    """Boosting wrote past the end of an array, and the process died."""
    rows = opttree.Rows([(X, y), (X[:3], np.column_stack([y, y])[:3])])
    with pytest.raises(ValueError, match=r"y must have (1 outputs in each part|as many outputs .* 1); got 2"):
        estimator(random_state=1).fit_chunks(rows, sample_rows=300)


def test_a_checkpoint_is_of_the_same_rows_in_the_same_order(tmp_path):
    weight, file = 1.0 + (X[:, 2] > 0.5), tmp_path / "state"

    def fit(X, y, weight, rows=600):
        table = opttree.Rows((X, y, weight), rows=rows)
        return opttree.TAORegressor(2, random_state=0).fit_chunks(table, sample_rows=500, checkpoint=file)

    first = fit(X, y, weight)
    np.testing.assert_allclose(fit(X, y, weight, rows=1000).predict(X), first.predict(X))
    for other in (
        (X[:, ::-1], y, weight),
        (X, y[::-1], weight),
        (X, y, weight[::-1]),
        (X[::-1], y[::-1], weight[::-1]),
    ):
        with pytest.raises(ValueError, match="checkpoint must be of these rows"):
            fit(*map(np.ascontiguousarray, other))
    for junk in (b"", b"junk"):
        file.write_bytes(junk)
        with pytest.raises(ValueError, match="checkpoint must be a file that a fit has written"):
            fit(X, y, weight)


def test_rows_name_their_own_target_and_parts():
    rows = opttree.Rows((np.arange(60.0)[:, None], np.arange(60.0)), rows=30)
    with pytest.raises(ValueError, match=r"target must be None for opttree\.Rows"):
        opttree.TAORegressor(1).fit_chunks(rows, target="y")
    with pytest.raises(ValueError, match="chunk_rows must be an integer >= 1; got 0"):
        opttree.TAORegressor(1).fit_chunks(rows, chunk_rows=0)
