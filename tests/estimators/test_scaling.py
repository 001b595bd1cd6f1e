"""Units of features and targets."""

from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

import opttree
from opttree import ORTRegressor, SRTRegressor, TAORegressor


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True, as_frame=True)


def test_units_do_not_matter(diabetes):
    X, y = diabetes
    base = TAORegressor(3, random_state=0).fit(X, y)
    other = TAORegressor(3, random_state=0).fit(X * 1000.0 - 5.0, 0.01 * y + 3.0)
    np.testing.assert_allclose(other.predict(X * 1000.0 - 5.0), 0.01 * base.predict(X) + 3.0, rtol=1e-6)


@pytest.mark.parametrize("model", [ORTRegressor(1, leaf_penalty=0.0, min_samples_leaf=2), SRTRegressor(1, l2=0.0)])
def test_a_constant_column_is_exactly_zero_inside(model):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=40)
    X[:, 0] = 3.7  # the mean of forty of them is not 3.7
    model = model.set_params(leaves="linear", random_state=0).fit(X, y)
    assert not model.state(X, y)[0].X[:, 0].any()
    assert model.score(X, y) == pytest.approx(1.0 - model.result_.objective)


@pytest.mark.parametrize(
    "make",
    [
        partial(opttree.TAOForestRegressor, n_estimators=10),
        partial(opttree.BoostedTreesRegressor, "cart", n_estimators=40),
        partial(opttree.TAORegressor, splits="axis"),
        partial(opttree.TAORegressor, max_depth="cv", cv=2),
        opttree.TAORegressor,
    ],
)
def test_nearly_equal_values_beside_a_large_one_are_told_apart(make):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2200, 3))
    kind = np.arange(len(X)) % 7
    X[:, 0] = 1.0 + 1e-13 * kind
    X[0, 0] = 2.0  # in whose absence, in some fold, the column is as good as constant
    y = 3.0 * np.sin(2.0 * kind) + 0.1 * rng.normal(size=len(X))
    assert make(random_state=0).fit(X, y).score(X, y) > 0.9
    X[0, 0] = 1.0
    if make is not opttree.TAOForestRegressor and getattr(make, "keywords", {}).get("splits") != "axis":
        with pytest.raises(ValueError, match="X column 0 must vary"):
            make(random_state=0).fit(X, y)
