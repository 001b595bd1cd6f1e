"""What scikit-learn's users expect of estimators: weights of classes, importances, stages, early stopping, losses."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification, make_friedman1
from sklearn.inspection import permutation_importance
from sklearn.metrics import mean_pinball_loss
from sklearn.tree import DecisionTreeRegressor

from opttree import (
    BoostedTreesClassifier,
    BoostedTreesRegressor,
    Forest,
    GETClassifier,
    GETRegressor,
    GradTreeClassifier,
    OCTClassifier,
    ORRTClassifier,
    ORTRegressor,
    SDTRClassifier,
    SDTRRegressor,
    SRTClassifier,
    TAOClassifier,
    TAOForestClassifier,
    TAOForestRegressor,
    TAORegressor,
    Tree,
    interpret,
    losses,
)
from tests.test_kernels import random_tree

CLASSIFIERS = [
    TAOClassifier(3),
    TAOClassifier(2, leaves="linear"),
    GETClassifier(2, n_starts=1),
    GradTreeClassifier(3, epochs=60, n_starts=1),
    OCTClassifier(2),
    SRTClassifier(2, max_iter=3),
    ORRTClassifier(2, max_iter=30),
    SDTRClassifier(2, max_batches=150),
    TAOForestClassifier(4),
    BoostedTreesClassifier("cart", n_estimators=8),
]


@pytest.fixture(scope="module")
def uneven():
    return make_classification(400, 5, n_informative=3, n_redundant=0, weights=[0.85], flip_y=0.1, random_state=1)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=repr)
def test_classes_can_be_weighted(model, uneven):
    X, y = uneven
    alike = clone(model).set_params(random_state=0).fit(X, y)
    balanced = clone(model).set_params(random_state=0, class_weight="balanced").fit(X, y)
    given = clone(model).set_params(random_state=0, class_weight={0: 1.0, 1: 1000.0}).fit(X, y)
    rare = [np.mean(m.predict(X) == 1) for m in (alike, balanced, given)]
    assert rare[0] < rare[2]
    assert rare[0] <= rare[1]
    by_hand = clone(model).set_params(random_state=0).fit(X, y, sample_weight=np.where(y == 1, 1000.0, 1.0))
    np.testing.assert_allclose(given.predict_proba(X), by_hand.predict_proba(X), atol=1e-6)
    with pytest.raises(ValueError, match="class_weight must be"):
        clone(model).set_params(class_weight="heavy").fit(X, y)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=repr)
def test_probabilities_come_in_every_form(model, uneven):
    X, y = uneven
    fitted = clone(model).set_params(random_state=0).fit(X, y)
    p = fitted.predict_proba(X)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(fitted.predict_log_proba(X), np.log(p))
    odds = fitted.decision_function(X)
    assert odds.shape == (400,)
    assert np.array_equal(odds > 0.0, fitted.predict(X) == 1)
    inside = (p > 1e-9).all(axis=1)
    np.testing.assert_allclose(odds[inside], np.log(p[inside, 1] / p[inside, 0]), rtol=1e-9, atol=1e-9)
    assert fitted.feature_importances_.shape == (5,)
    assert fitted.feature_importances_.min() >= 0.0
    assert fitted.feature_importances_.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("model", [TAOClassifier(4), GETClassifier(3, n_starts=1), TAOForestClassifier(5)], ids=repr)
def test_several_outputs_of_classes(model):
    X, y = load_iris(return_X_y=True)
    Y = np.stack([np.array(["a", "b", "c"])[y], np.where(X[:, 0] > 5.8, "big", "small")], axis=1)
    fitted = clone(model).set_params(random_state=0).fit(X, Y)
    predicted = fitted.predict(X)
    assert predicted.shape == (150, 2)
    assert (predicted == Y).mean() > 0.9
    shares = fitted.predict_proba(X)
    assert [p.shape for p in shares] == [(150, 3), (150, 2)]
    for k, p in enumerate(shares):
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        assert np.array_equal(fitted.classes_[k][p.argmax(axis=1)], predicted[:, k])
    assert not hasattr(fitted, "decision_function")
    with pytest.raises(ValueError, match="class_weight must be None or 'balanced' for several outputs"):
        clone(model).set_params(class_weight={"a": 2.0}).fit(X, Y)
    again = fitted.fit(X, Y[:, 0])
    assert again.predict(X).shape == (150,)


def test_importances_are_the_decrease_of_the_error():
    """Of an axis-aligned tree of means they are scikit-learn's."""
    X, y = make_friedman1(500, random_state=0)
    for depth in (1, 3, 6):
        theirs = DecisionTreeRegressor(max_depth=depth, random_state=0).fit(X, y)
        ours = interpret.importances(Tree.from_sklearn(theirs), X)
        np.testing.assert_allclose(ours, theirs.feature_importances_, atol=1e-9)


def test_importances_of_planes_leaves_and_forests():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3)) * [1.0, 10.0, 1.0]
    plane = Tree([[1, 2]], [[1.0, 0.1, 0.0]], [0.0], [[0.0], [1.0]])
    np.testing.assert_allclose(interpret.importances(plane, X), [0.5, 0.5, 0.0], atol=0.02)
    line = Tree(np.zeros((0, 2), int), np.zeros((0, 3)), [], [[0.0]], [[[3.0, 0.0, 1.0]]])
    np.testing.assert_allclose(interpret.importances(line, X), [0.75, 0.0, 0.25], atol=0.02)
    np.testing.assert_allclose(
        interpret.importances(Forest(((plane, line),), 1), X),
        np.mean([interpret.importances(t, X) for t in (plane, line)], axis=0),
    )
    assert interpret.importances(Tree.constant([1.0], 3), X).tolist() == [0.0, 0.0, 0.0]
    soft = random_tree(rng, 2, 3, 1)
    soft = Tree(soft.children, soft.A, soft.b, soft.values, gate=1e6, mixture=True)
    np.testing.assert_allclose(interpret.importances(soft, X), interpret.importances(soft.as_hard, X), atol=1e-6)


def test_importances_find_what_matters():
    X, y = make_friedman1(600, n_features=8, noise=0.1, random_state=0)
    for model in (
        TAORegressor(4),
        GETRegressor(3, leaves="linear"),
        TAOForestRegressor(8),
        BoostedTreesRegressor(n_estimators=20),
    ):
        fitted = model.set_params(random_state=0).fit(X, y)
        assert set(np.argsort(-fitted.feature_importances_)[:4]) <= {0, 1, 2, 3, 4}, repr(model)
        theirs = permutation_importance(fitted, X, y, n_repeats=2, random_state=0).importances_mean
        assert np.corrcoef(theirs, fitted.feature_importances_)[0, 1] > 0.5, repr(model)


@pytest.mark.parametrize(
    "model",
    [
        TAOForestRegressor(5),
        TAOForestClassifier(5),
        BoostedTreesRegressor("cart", n_estimators=12),
        BoostedTreesRegressor("oblique", n_estimators=12, validation_fraction=None),
        BoostedTreesClassifier("axis", n_estimators=12),
    ],
    ids=repr,
)
@pytest.mark.parametrize("n", [200, 700])
def test_the_last_stage_is_the_model(model, n, tmp_path):
    X, y = make_friedman1(n, n_features=6, random_state=0)
    is_class = hasattr(model, "class_weight")
    y = np.digitize(y, [12.0, 16.0]) if is_class else y
    fitted = clone(model).set_params(random_state=0).fit(X, y)
    stages = list(fitted.staged_predict(X))
    assert np.array_equal(stages[-1], fitted.predict(X)) if is_class else np.allclose(stages[-1], fitted.predict(X))
    if is_class:
        shares = list(fitted.staged_predict_proba(X))
        np.testing.assert_allclose(shares[-1], fitted.predict_proba(X), atol=1e-9)
        assert len(shares) == len(stages)
    else:
        assert not hasattr(fitted, "staged_predict_proba")
    errors = [np.mean(stage != y) if is_class else np.mean((stage - y) ** 2) for stage in stages]
    assert errors[-1] < errors[0]
    assert len(stages) <= len(fitted.forest_.trees)
    back = Forest.from_dict(fitted.forest_.to_dict())
    np.testing.assert_allclose(list(back.staged(X))[-1], list(fitted.forest_.staged(X))[-1])


@pytest.mark.parametrize(
    "model",
    [
        BoostedTreesRegressor("cart", n_estimators=60, n_iter_no_change=5, random_state=0),
        GETRegressor(3, n_starts=1, random_state=0),
        SDTRRegressor(2, max_batches=150, random_state=0),
    ],
    ids=repr,
)
def test_rows_of_ones_own_stop_the_training(model):
    X, y = make_friedman1(900, random_state=0)
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(10)]).assign(kind=np.where(X[:, 0] > 0.5, "a", "b"))
    train, valid = slice(0, 500), slice(500, None)
    fitted = model.fit(frame[train], y[train], eval_set=(frame[valid], y[valid]))
    units = y[train].std()
    seen = np.mean((fitted.predict(frame[valid]) - y[valid]) ** 2) / units**2
    assert fitted.validation_loss_ == pytest.approx(seen, rel=0.05)
    assert "_judge" not in vars(fitted)
    with pytest.raises(ValueError, match=r"eval_set must be a pair \(X, y\)"):
        model.fit(X, y, eval_set=X)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        model.fit(X, y, eval_set=(X[:5], y[:4]))
    with pytest.raises(ValueError, match="eval_set is for estimators that stop early"):
        TAORegressor(2).fit(X, y, eval_set=(X, y))


def test_classes_of_the_validation_rows_must_be_known():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="eval_set must have classes of y"):
        GradTreeClassifier(2, epochs=20).fit(X[:100], y[:100], eval_set=(X[100:], y[100:]))


@pytest.mark.parametrize("base", ["tao", "boosted"])
def test_losses_by_name(base):
    rng = np.random.default_rng(0)
    X = rng.random((800, 3))
    y = 3.0 * X[:, 0] + rng.exponential(1.0, 800)

    def model(**options):
        if base == "tao":
            return TAORegressor(4, random_state=0, **options)
        return BoostedTreesRegressor("cart", n_estimators=60, random_state=0, **options)

    for level in (0.1, 0.9):
        own = model(loss="quantile", quantile=level).fit(X, y)
        assert np.mean(y <= own.predict(X)) == pytest.approx(level, abs=0.07)
        assert mean_pinball_loss(y, own.predict(X), alpha=level) < mean_pinball_loss(
            y, np.full(800, np.quantile(y, level)), alpha=level
        )
        same = model(loss=losses.Quantile(level)).fit(X, y)
        np.testing.assert_array_equal(own.predict(X), same.predict(X))
    spoilt = np.where(rng.random(800) < 0.05, 500.0, y)
    robust, plain = model(loss="huber").fit(X, spoilt), model(leaves="constant").fit(X, spoilt)
    assert np.abs(robust.predict(X) - y).mean() < np.abs(plain.predict(X) - y).mean()
    with pytest.raises(ValueError, match="loss must be one of"):
        model(loss="hubert").fit(X, y)


def test_counts_and_amounts():
    rng = np.random.default_rng(0)
    X = rng.random((600, 2))
    counts = rng.poisson(np.exp(2.0 * X[:, 0])).astype(float)
    for loss, y in (("poisson", counts), ("gamma", counts + 0.5)):
        model = TAORegressor(3, loss=loss, random_state=0).fit(X, y)
        assert model.predict(X).min() > 0.0
        assert model.score(X, y) > 0.3
        scaled = TAORegressor(3, loss=loss, random_state=0).fit(X, 1000.0 * y)
        np.testing.assert_allclose(scaled.predict(X), 1000.0 * model.predict(X), rtol=1e-6)
    with pytest.raises(ValueError, match="y must be >= 0 for loss=Poisson"):
        TAORegressor(2, loss="poisson").fit(X, counts - 1.0)
    with pytest.raises(ValueError, match="sums of trees may leave the domain"):
        BoostedTreesRegressor(loss="poisson").fit(X, counts)


def test_hubers_delta_is_in_units_of_y():
    X, y = make_friedman1(300, random_state=0)
    small = TAORegressor(3, loss=losses.Huber(2.0), random_state=0).fit(X, y)
    large = TAORegressor(3, loss=losses.Huber(2000.0), random_state=0).fit(X, 1000.0 * y)
    np.testing.assert_allclose(large.predict(X), 1000.0 * small.predict(X), rtol=1e-6)


def rises(model, frame, column, sign=1):
    """Whether predictions go one way as a column grows, in the rows of a table."""
    grid = np.linspace(frame[column].min(), frame[column].max(), 60)
    for i in range(0, len(frame), 20):
        rows = pd.concat([frame[i : i + 1]] * 60, ignore_index=True).assign(**{column: grid})
        if np.any(sign * np.diff(model.predict(rows)) < -1e-9):
            return False
    return True


def test_boosted_trees_can_be_monotone():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((400, 2)), columns=["up", "down"])
    frame["kind"] = rng.choice(["a", "b", "c"], 400)
    frame.loc[::9, "up"] = np.nan
    y = frame["up"].fillna(0.3) - 2 * frame["down"] + 0.5 * np.sin(9 * frame["up"].fillna(0.0)) + rng.normal(size=400)
    free = BoostedTreesRegressor("cart", n_estimators=40, random_state=0).fit(frame, y)
    kept = clone(free).set_params(base="auto", monotonic_cst={"up": 1, "down": -1}).fit(frame, y)
    whole = frame[frame["up"].notna()]
    assert not (rises(free, whole, "up") and rises(free, whole, "down", -1))
    assert rises(kept, whole, "up")
    assert rises(kept, whole, "down", -1)
    assert kept.score(frame, y) > 0.3
    for wrong, message in (
        ({"over": 1}, "got 'over'"),
        ([1, 0], "of which there are 3"),
        ([2, 0, 0], "must be -1, 0 or 1"),
        ({"kind": 1}, "must be 0 for categories"),
    ):
        with pytest.raises(ValueError, match=message):
            clone(free).set_params(monotonic_cst=wrong).fit(frame, y)
    with pytest.raises(ValueError, match="needs base='auto' or 'cart'"):
        BoostedTreesRegressor("oblique", monotonic_cst=[1]).fit(frame[["down"]], y)


def test_optimal_trees_can_be_monotone():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.random(30), "z": rng.random(30)})
    y = np.where(frame["x"] > 0.5, -1.0, 0.0) + 2.0 * (frame["z"] > 0.6) + 0.1 * rng.normal(size=30)
    free = ORTRegressor(2, n_thresholds=4).fit(frame, y)
    kept = ORTRegressor(2, n_thresholds=4, monotonic_cst={"x": 1}, time_limit=60).fit(frame, y)
    assert not rises(free, frame, "x")
    assert rises(kept, frame, "x")
    assert kept.result_.objective > free.result_.objective
    with pytest.raises(ValueError, match="needs solver='auto' or 'mip'"):
        ORTRegressor(2, monotonic_cst=[1, 0], solver="bnb").fit(frame, y)
