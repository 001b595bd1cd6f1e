"""Validation rows of one's own."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, make_friedman1
from sklearn.metrics import log_loss

from opttree import (
    BoostedTreesClassifier,
    BoostedTreesRegressor,
    GETRegressor,
    GradTreeClassifier,
    SDTRRegressor,
    TAORegressor,
)


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


def test_several_eval_sets_have_names_and_a_history():
    X, y = make_friedman1(400, random_state=0)
    train, first, second = (X[:200], y[:200]), (X[200:300], y[200:300]), (X[300:], y[300:])
    model = BoostedTreesRegressor(base="axis", n_estimators=20, random_state=0)
    model.fit(*train, eval_set=[first, second])
    assert list(model.evals_result_) == ["validation_0", "validation_1"]
    losses = model.evals_result_["validation_1"]["rmse"]
    assert len(losses) == model.n_estimators_
    assert losses[-1] == pytest.approx(np.sqrt(np.mean((model.predict(second[0]) - second[1]) ** 2)))
    assert losses[-1] == min(losses)
    alone = BoostedTreesRegressor(base="axis", n_estimators=20, random_state=0).fit(*train, eval_set=second)
    np.testing.assert_array_equal(alone.predict(X), model.predict(X))
    labels = y > np.median(y)
    named = BoostedTreesClassifier(base="axis", n_estimators=5, random_state=0)
    named.fit(X[:200], labels[:200], eval_set={"held out": (X[200:], labels[200:])})
    assert named.evals_result_["held out"]["log_loss"][-1] == pytest.approx(
        log_loss(labels[200:], named.predict_proba(X[200:]))
    )
    single = GETRegressor(2, n_starts=1, random_state=0).fit(*train, eval_set=first)
    assert len(single.evals_result_["validation_0"]["rmse"]) == 1
    for wrong, words in (
        ([], "at least one|must be a pair"),
        ({"a": 3}, "a mapping of names to pairs"),
        (3, "must be a pair"),
    ):
        with pytest.raises(ValueError, match=words):
            model.fit(*train, eval_set=wrong)


def test_no_depth_is_a_search_for_it():
    X, y = make_friedman1(150, random_state=0)
    given, searched = (TAORegressor(depth, cv=2, random_state=0).fit(X, y) for depth in (None, "cv"))
    assert given.best_depth_ == searched.best_depth_
    assert given.to_html().startswith("<!DOCTYPE html>")
