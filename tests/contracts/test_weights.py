"""Weights of rows and of classes, for every estimator that takes them."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_classification, make_friedman1

from opttree import (
    AutoTreeRegressor,
    BoostedTreesClassifier,
    BoostedTreesRegressor,
    GETClassifier,
    GradTreeClassifier,
    OCTClassifier,
    ORRTClassifier,
    ORRTRegressor,
    SDTRClassifier,
    SRTClassifier,
    SRTRegressor,
    TAOClassifier,
    TAOForestClassifier,
    TAOForestRegressor,
    TAORegressor,
    TreeProblem,
)


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True, as_frame=True)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("model", [SRTRegressor(2, k0=0), ORRTRegressor(2, max_iter=50)], ids=repr)
def test_weights_are_repetitions_to_soft_trees(model, seed):
    # from a given start: initial trees count rows, and so does the ridge of the reassignment heuristic
    X, y = make_friedman1(300, noise=0.5, random_state=seed)
    w = np.random.default_rng(seed).integers(0, 4, len(y))
    start = TAORegressor(2, random_state=0).fit(X, y).tree_
    model = model.set_params(init=start, random_state=0)
    weighted = model.fit(X, y, sample_weight=w).predict(X)
    repeated = model.fit(np.repeat(X, w, axis=0), np.repeat(y, w)).predict(X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-5 * y.std())


def test_the_scale_of_the_weights_does_not_matter(diabetes):
    X, y = diabetes
    w = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    trees = [TAORegressor(3, random_state=0).fit(X, y, sample_weight=s * w).tree_ for s in (1.0, 1e-6, 4096.0)]
    assert trees[0] == trees[2]
    np.testing.assert_allclose(trees[0].predict(X.to_numpy()), trees[1].predict(X.to_numpy()), rtol=1e-6)


def test_bad_weights_are_named():
    rule = "sample_weight must be finite, >= 0 and not all zero; got "
    for weights, message in (
        ([-1.0, 1.0], rule + "-1"),
        ([0.0, 0.0], rule + "0"),
        ([1e308, 1e308], r"sample_weight must have a finite sum; got weights of up to 1e\+308"),
    ):
        with pytest.raises(ValueError, match=message):
            TAORegressor().fit([[1.0], [2.0]], [0, 1], sample_weight=weights)
        with pytest.raises(ValueError, match=message):
            TreeProblem([[1.0], [2.0]], [0.0, 1.0], depth=1, sample_weight=weights)
    with pytest.raises(ValueError, match=rule + "-1"):  # X had no rows, said the choice of a depth
        TAORegressor().fit(np.arange(40.0)[:, None], np.arange(40.0), sample_weight=-np.ones(40))


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


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_few_rows_are_enough(n):
    X, y = np.arange(40.0)[:, None], np.arange(40.0)
    weight = (np.arange(40) < n).astype(float)
    assert np.isfinite(TAOForestRegressor(10, random_state=0).fit(X, y, weight).predict(X)).all()
    assert np.isfinite(AutoTreeRegressor(time_limit=2, random_state=0).fit(X, y, weight).predict(X)).all()


def test_weights_beyond_single_precision():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    weight = np.append(1e60, np.ones(39))
    for model in (TAOForestRegressor(6, kind="cart"), TAOForestRegressor(6), BoostedTreesRegressor(n_estimators=5)):
        model.set_params(random_state=0).fit(X, X[:, 0], sample_weight=weight)
        assert np.isfinite(model.predict(X)).all()
