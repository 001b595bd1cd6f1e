"""Labels and probabilities, of every classifier."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification

from opttree import GETClassifier, TAOClassifier, TAOForestClassifier
from tests.contracts.test_weights import CLASSIFIERS


@pytest.fixture(scope="module")
def uneven():
    return make_classification(400, 5, n_informative=3, n_redundant=0, weights=[0.85], flip_y=0.1, random_state=1)


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
