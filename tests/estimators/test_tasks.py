"""Regression and classification: outputs, labels, progress, searches, and clear errors."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_friedman1
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from opttree import (
    DTSemNetRegressor,
    HRTRegressor,
    RADDTRegressor,
    TAOClassifier,
    TAOForestClassifier,
    TAORegressor,
)


def test_multi_output():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    Y = np.stack([X[:, 0] > 0, 3.0 * X[:, 1], X[:, 0] * X[:, 1]], axis=1).astype(float)
    for leaves in ("constant", "linear"):
        model = TAORegressor(5, leaves=leaves, random_state=0).fit(X, Y)
        assert model.predict(X).shape == (300, 3)
        assert model.score(X, Y) > 0.7


def test_string_labels_and_probabilities():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    for leaves in ("constant", "linear"):
        model = TAOClassifier(3, leaves=leaves, random_state=0).fit(X, names)
        assert model.score(X, names) > 0.95
        probability = model.predict_proba(X)
        np.testing.assert_allclose(probability.sum(axis=1), 1.0)
        assert np.array_equal(model.classes_[probability.argmax(axis=1)], model.predict(X))


def test_one_class_and_constant_y_give_one_leaf():
    X = np.random.default_rng(0).normal(size=(30, 2))
    assert TAOClassifier(3).fit(X, np.ones(30, int)).tree_.n_leaves == 1
    model = TAORegressor(3).fit(X, np.full(30, 4.2))
    assert model.tree_.n_leaves == 1
    assert model.predict(X[:2]).tolist() == pytest.approx([4.2, 4.2])
    for kind in (TAORegressor, RADDTRegressor, DTSemNetRegressor, HRTRegressor):
        found = kind(3, random_state=0).fit(np.ones((30, 2)), np.arange(30.0)).predict([[1.0, 1.0]])
        assert found == pytest.approx([14.5], rel=1e-6)


def test_verbose_shows_a_progress_bar(capsys):
    X, y = make_friedman1(100, random_state=0)
    TAORegressor(2, verbose=1).fit(X, y)
    assert "TAORegressor" in capsys.readouterr().err


def test_in_pipelines_searches_and_cross_validation():
    X, y = make_friedman1(200, random_state=0)
    search = GridSearchCV(make_pipeline(StandardScaler(), TAORegressor()), {"taoregressor__max_depth": [1, 3]}, cv=2)
    assert search.fit(X, y).best_params_ == {"taoregressor__max_depth": 3}
    assert cross_val_score(TAORegressor(3, leaves="linear"), X, y, cv=3).mean() > 0.5


@pytest.mark.parametrize(
    ("X", "y", "options", "message"),
    [
        ([[np.inf], [1.0]], [0, 1], {}, "X column 0 must be finite; got infinity"),
        (pd.DataFrame({"u": [1.0, np.inf], "v": ["x", "y"]}), [0, 1], {}, "X column 'u' must be finite; got infinity"),
        (pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=["u", "u"]), [0, 1], {}, "of different names; got 'u' twice"),
        (pd.DataFrame({"u": [1.0, 2.0]}), [0, 1], {"categorical_features": ["v"]}, "categorical_features must be"),
        (np.zeros((0, 2)), [], {}, "minimum of 1 is required"),
        ([[1.0, 2.0]], [1.0], {}, "at least two rows; got n_samples = 1"),
        ([[1.0], [2.0]], [1.0], {}, "inconsistent numbers of samples"),
        ([[1.0], [2.0]], [1.0, np.nan], {}, "NaN"),
        ([[1.0], [2.0]], [0, 1], {"max_depth": 0}, "max_depth must be an integer >= 1, 'auto' or 'cv'; got 0"),
        ([[1.0], [2.0]], [0, 1], {"max_depth": 2.5}, "max_depth must be an integer >= 1, 'auto' or 'cv'; got 2.5"),
        ([[1.0], [2.0]], [0, 1], {"leaves": "round"}, "leaves must be one of"),
        ([[1.0], [2.0]], [0, 1], {"splits": "round"}, "splits must be one of"),
        ([[1.0], [2.0]], [0, 1], {"init": "best"}, "init must be one of .*; got 'best'"),
        ([[1.0], [2.0]], [0, 1], {"node_solver": "svm"}, "node_solver must be one of .*; got 'svm'"),
        ([[1.0], [2.0]], [0, 1], {"n_init": 0}, "n_init must be an integer >= 1; got 0"),
        ([[1.0], [2.0]], [0, 1], {"split_penalty": -1}, "split_penalty must be a finite number >= 0; got -1"),
        ([[1.0], [2.0]], [0, 1], {"l1_ratio": 2}, "l1_ratio must be a finite number between 0 and 1; got 2"),
        ([[1.0], [2.0]], [0, 1], {"min_samples_leaf": 0}, "min_samples_leaf must be an integer >= 1; got 0"),
        ([[1.0], [2.0]], [0, 1], {"n_jobs": 0}, "n_jobs must be None or an integer other than 0; got 0"),
        ([[1.0], [2.0]], [0, 1], {"time_limit": -1}, "time_limit must be > 0 seconds or None; got -1"),
        ([[1.0], [2.0]], [0, 1], {"accept": "no"}, "accept must be one of"),
        ([[1.0], [2.0]], [0, 1], {"max_iter": -1}, "max_iter must be an integer >= 0; got -1"),
    ],
)
@pytest.mark.parametrize("kind", [TAORegressor, TAOClassifier])
def test_bad_input_is_one_clear_sentence(kind, X, y, options, message):
    with pytest.raises(ValueError, match=message) as error:
        kind(**options).fit(X, y)
    assert len(str(error.value).splitlines()) == 1 or message == "NaN"  # that one is scikit-learn's


def test_new_rows_are_read_without_scikit_learns_checks_where_they_are_as_in_the_fit():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(80, 3)), columns=["a", "b", "c"]).assign(c=lambda t: (10 * t.c).astype(int))
    model = TAORegressor(3, random_state=0).fit(X, X.a + (X.c > 0))
    want = model.predict(X)
    assert np.array_equal(model.predict(X.astype({"c": np.int8})), want)
    assert np.array_equal(model.predict(X.astype({"c": "Int64"})), want)
    assert np.array_equal(model.predict(X.iloc[::2]), want[::2])
    with pytest.raises(ValueError, match="encode categories first"):
        model.predict(X.assign(b=X.b.astype("category")))
    with pytest.raises(ValueError, match="should match those that were passed"):
        model.predict(X[["b", "a", "c"]])
    with pytest.raises(ValueError, match=r"'a'.*missing"):
        model.predict(X.assign(a=X.a.where(X.index != 3)))
    with pytest.warns(UserWarning, match="valid feature names"):
        assert np.array_equal(model.predict(X.to_numpy()), want)
    plain = TAORegressor(3, random_state=0).fit(X.to_numpy(), X.a)
    with pytest.warns(UserWarning, match="fitted without feature names"):
        plain.predict(X)
    with pytest.raises(ValueError, match="3 features"):
        plain.predict(X.to_numpy()[:, :2])
    with pytest.raises(ValueError, match=r"finite|infinity|infinite"):
        plain.predict(np.where(np.arange(3) == 1, np.inf, X.to_numpy()))


@pytest.mark.parametrize(
    "model", [TAOClassifier(), TAOForestClassifier(3), TAOForestClassifier(3, kind="oblique", max_depth="cv")]
)
def test_a_class_of_weight_zero_has_no_say(model):
    X = np.random.default_rng(0).normal(size=(300, 3))
    y = np.where(X[:, 0] > 1.0, "rare", np.where(X[:, 1] > 0.0, "b", "c"))
    model = clone(model).set_params(class_weight={"rare": 0, "b": 1, "c": 1}, random_state=0).fit(X, y)
    assert set(model.predict(X)) == {"b", "c"}
    assert (model.predict(X) == y)[y != "rare"].mean() > 0.9
