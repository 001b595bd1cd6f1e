"""No public accessor changes a fitted model."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

from opttree import (
    AutoTreeRegressor,
    BoostedTreesRegressor,
    GETRegressor,
    GradTreeRegressor,
    ORRTRegressor,
    ORTRegressor,
    SDTRRegressor,
    SRTRegressor,
    TAOForestRegressor,
    TAORegressor,
)


@pytest.mark.parametrize(
    "model",
    [
        TAORegressor(2),
        GETRegressor(2),
        SRTRegressor(2),
        ORRTRegressor(2, max_iter=20),
        ORTRegressor(2),
        GradTreeRegressor(2, epochs=20),
        SDTRRegressor(2, max_batches=60),
        TAOForestRegressor(3, max_iter=2),
        BoostedTreesRegressor("oblique", n_estimators=3),
        AutoTreeRegressor(2.0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_no_public_accessor_changes_a_fitted_model(model):
    X, y = make_friedman1(200, random_state=0)
    model.set_params(random_state=0).fit(X, y)
    answers, before = model.predict(X), pickle.dumps(model)
    model.state(X[:50] * 3.0 + 1.0, y[:50])
    for name in dir(type(model)):
        if not name.startswith("_"):
            try:
                value = getattr(model, name)
                if name in ("get_depth", "get_n_leaves", "get_params", "to_text"):
                    value()
                if name in ("apply", "flops", "decision_path", "predict_soft", "leaf_proba", "predict_interval"):
                    value(X)
            except (AttributeError, ValueError):  # not for this model
                continue
    np.testing.assert_array_equal(model.predict(X), answers)
    assert pickle.dumps(model) == before
