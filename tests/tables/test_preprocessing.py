"""The GradTree paper's preprocessing in pipelines."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.tree import DecisionTreeClassifier

from opttree import GradTreeClassifier
from opttree.tables.preprocessing import LeaveOneOutMeans, NormalQuantiles, gradtree_pipeline, rebalanced


def table(n=200, seed=0):
    rng = np.random.default_rng(seed)
    colour = rng.choice(["red", "green", "blue"], n)
    size = rng.normal(size=n)
    size[:5] = np.nan
    y = np.where((colour == "red") ^ (rng.uniform(size=n) < 0.1), "yes", "no")
    return pd.DataFrame({"colour": colour, "size": size}), y


def test_categories_become_means():
    pytest.importorskip("category_encoders")
    X, y = pd.DataFrame({"c": ["a", "a", "a", "b", "b"]}), np.array(["n", "y", "y", "n", "y"])
    encoder = LeaveOneOutMeans(leave_out=True)
    assert encoder.fit_transform(X, y).ravel().tolist() == [1.0, 0.5, 0.5, 1.0, 0.0]
    np.testing.assert_allclose(LeaveOneOutMeans().fit_transform(X, y).ravel(), [2 / 3, 2 / 3, 2 / 3, 1 / 2, 1 / 2])
    new = encoder.transform(pd.DataFrame({"c": ["a", "b", "never seen"]})).ravel()
    np.testing.assert_allclose(new, [2 / 3, 1 / 2, 3 / 5])
    with pytest.raises(ValueError, match=r"X must have the columns \['c'\], in this order; got \['d'\]"):
        encoder.transform(pd.DataFrame({"d": ["a"]}))


def test_quantiles_are_normal_without_a_warning():
    X = np.random.default_rng(0).exponential(size=(300, 2))
    Z = NormalQuantiles().fit(X).transform(X)
    many = np.random.default_rng(0).exponential(size=(12_000, 1))
    assert np.array_equal(*(NormalQuantiles(random_state=3).fit_transform(many) for _ in range(2)))
    assert abs(np.median(Z)) < 0.05
    assert np.mean(np.abs(Z) < 1.0) == pytest.approx(0.683, abs=0.03)


def test_only_rare_classes_are_filled_up():
    pytest.importorskip("imblearn")
    X = np.random.default_rng(0).normal(size=(100, 2))
    for rare, expected in ((24, 152), (25, 100)):  # 25 % is the limit for two classes
        y = np.repeat([0, 1], [100 - rare, rare])
        assert len(rebalanced(X, y, 0)[1]) == expected
    y = np.repeat([0, 1, 2], [80, 17, 3])  # 12.5 % for three; fewer rows than SMOTE's neighbours
    assert np.unique(rebalanced(X, y, 0)[1], return_counts=True)[1].tolist() == [80, 80, 80]
    y = np.repeat([0, 1], [99, 1])
    assert np.unique(rebalanced(X, y, 0)[1], return_counts=True)[1].tolist() == [99, 99]
    assert rebalanced(X, np.zeros(100), 0)[1].size == 100


def test_the_pipeline_cross_validates():
    pytest.importorskip("category_encoders")
    pytest.importorskip("imblearn")
    X, y = table()
    for model in (GradTreeClassifier(2, epochs=80, n_starts=1, random_state=0), DecisionTreeClassifier(max_depth=1)):
        assert cross_val_score(gradtree_pipeline(model, random_state=0), X, y, cv=3).mean() > 0.8


def test_held_out_rows_are_not_resampled():
    pytest.importorskip("category_encoders")
    pytest.importorskip("imblearn")
    X, y = table()
    rare = (y == "no") | (np.arange(len(y)) % 10 == 0)
    X, y = X[rare], y[rare]
    pipeline = gradtree_pipeline(DecisionTreeClassifier(max_depth=2), random_state=0).fit(X, y)
    assert pipeline[-1].tree_.n_node_samples[0] > len(y)
    assert pipeline.predict(X).shape == y.shape


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "imblearn", None)
    with pytest.raises(ImportError, match=r"needs imbalanced-learn: pip install opttree\[gradtree\]"):
        gradtree_pipeline(DecisionTreeClassifier())
    monkeypatch.setitem(sys.modules, "category_encoders", None)
    with pytest.raises(ImportError, match=r"needs category_encoders: pip install opttree\[gradtree\]"):
        LeaveOneOutMeans().fit(pd.DataFrame({"c": ["a", "b"]}), [0, 1])
