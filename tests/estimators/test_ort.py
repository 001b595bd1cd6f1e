"""The estimators of optimal trees."""

import numpy as np
import pytest

from opttree import OCTClassifier, ORTRegressor


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    return X, X[:, 0] + 0.1 * rng.normal(size=40)


@pytest.mark.parametrize("kind", [ORTRegressor, OCTClassifier])
def test_wrong_words_are_one_sentence(table, kind):
    if kind is ORTRegressor:
        with pytest.raises(ValueError, match=r"leaves must be one of \['constant', 'linear'\]; got 'x'"):
            kind(leaves="x").fit(*table)
    with pytest.raises(ValueError, match="random_state must be an integer >= 0, a RandomState or None; got -1"):
        kind(random_state=-1).fit(table[0], table[1] > 0.0)
    with pytest.raises(ValueError, match="max_depth must be an integer"):
        kind("deep").fit(table[0], table[1] > 0.0)
