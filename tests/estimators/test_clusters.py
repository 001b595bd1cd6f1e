"""Clusters that trees explain."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from opttree import KMeansTree


@pytest.mark.parametrize(
    ("X", "k", "inertia"),
    [
        (load_iris().data, 3, 1.0365 * 78.8514),
        (load_iris().data, 4, 1.0533 * 57.2285),
        (StandardScaler().fit_transform(load_wine().data), 3, 1.0461 * 1277.9285),
    ],
)
def test_values_are_those_of_the_statement(X, k, inertia):
    model = KMeansTree(k).fit(X)
    assert model.is_optimal_
    assert model.inertia_ == pytest.approx(inertia, rel=1e-4)
    assert -model.score(X) == pytest.approx(model.inertia_)
    assert model.cluster_centers_.shape == (k, X.shape[1])
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_array_equal(model.fit_predict(X), model.labels_)
    for label in range(k):
        np.testing.assert_allclose(model.cluster_centers_[label], X[model.labels_ == label].mean(axis=0))


def test_weights_and_depths(rng):
    X = rng.normal(size=(60, 3))
    counts = rng.integers(0, 3, 60)
    weighted, repeated = KMeansTree(3).fit(X, sample_weight=counts), KMeansTree(3).fit(np.repeat(X, counts, axis=0))
    assert weighted.inertia_ == pytest.approx(repeated.inertia_)
    assert KMeansTree(9, time_limit=1).fit(X).get_n_leaves() == 9
    assert KMeansTree(4, max_depth=2).fit(X).get_depth() == 2
    with pytest.raises(ValueError, match="max_depth must allow 5 leaves"):
        KMeansTree(5, max_depth=2).fit(X)
    with pytest.warns(ConvergenceWarning, match="2 clusters, fewer than n_clusters=5"):
        assert KMeansTree(5).fit([[1.0], [2.0], [2.0]]).get_n_leaves() == 2
    small = KMeansTree(3).fit(X * 1e-200)
    np.testing.assert_array_equal(small.labels_, KMeansTree(3).fit(X).labels_)
    with pytest.raises(ValueError, match="X must have no missing values"):
        KMeansTree(2).fit([[1.0], [np.nan], [2.0]])
    with pytest.raises(ValueError, match=r"X must hold numbers; got .*'a' in column 0"):
        KMeansTree(2).fit([["a"], ["b"], ["c"]])
    with pytest.raises(ValueError, match=r"X must hold numbers; got .*'red' in column 'colour'"):
        KMeansTree(2).fit(pd.DataFrame({"size": [1, 2], "colour": ["red", "blue"]}))
