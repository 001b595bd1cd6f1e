"""Validation rows of one's own."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, make_friedman1

from opttree import BoostedTreesRegressor, GETRegressor, GradTreeClassifier, SDTRRegressor, TAORegressor


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
