"""Predictions of an ensemble after each of its trees."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_friedman1

from opttree import BoostedTreesClassifier, BoostedTreesRegressor, Forest, TAOForestClassifier, TAOForestRegressor


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


@pytest.mark.parametrize("model", [BoostedTreesClassifier("cart", n_estimators=5), TAOForestClassifier(3)], ids=repr)
def test_stages_of_several_outputs_are_as_predictions(model):
    X = np.random.default_rng(0).normal(size=(120, 3))
    Y = np.column_stack([X[:, 0] > 0, np.where(X[:, 1] > 0.5, "high", "low")]).astype(object)
    fitted = clone(model).set_params(random_state=0).fit(X, Y)
    assert np.array_equal(list(fitted.staged_predict(X))[-1], fitted.predict(X))
    for stage, shares in zip(list(fitted.staged_predict_proba(X))[-1], fitted.predict_proba(X), strict=True):
        np.testing.assert_allclose(stage, shares, atol=1e-9)
