"""Units of features and targets."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

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
