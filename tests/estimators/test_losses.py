"""Losses of estimators, by name and as objects."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.metrics import mean_pinball_loss

from opttree import BoostedTreesRegressor, TAORegressor, losses


@pytest.mark.parametrize("base", ["tao", "boosted"])
def test_losses_by_name(base):
    rng = np.random.default_rng(0)
    X = rng.random((800, 3))
    y = 3.0 * X[:, 0] + rng.exponential(1.0, 800)

    def model(**options):
        if base == "tao":
            return TAORegressor(4, random_state=0, **options)
        return BoostedTreesRegressor("cart", n_estimators=60, random_state=0, **options)

    for level in (0.1, 0.9):
        own = model(loss="quantile", quantile=level).fit(X, y)
        assert np.mean(y <= own.predict(X)) == pytest.approx(level, abs=0.07)
        assert mean_pinball_loss(y, own.predict(X), alpha=level) < mean_pinball_loss(
            y, np.full(800, np.quantile(y, level)), alpha=level
        )
        same = model(loss=losses.Quantile(level)).fit(X, y)
        np.testing.assert_array_equal(own.predict(X), same.predict(X))
    spoilt = np.where(rng.random(800) < 0.05, 500.0, y)
    robust, plain = model(loss="huber").fit(X, spoilt), model(leaves="constant").fit(X, spoilt)
    assert np.abs(robust.predict(X) - y).mean() < np.abs(plain.predict(X) - y).mean()
    with pytest.raises(ValueError, match="loss must be one of"):
        model(loss="hubert").fit(X, y)


def test_counts_and_amounts():
    rng = np.random.default_rng(0)
    X = rng.random((600, 2))
    counts = rng.poisson(np.exp(2.0 * X[:, 0])).astype(float)
    for loss, y in (("poisson", counts), ("gamma", counts + 0.5)):
        model = TAORegressor(3, loss=loss, random_state=0).fit(X, y)
        assert model.predict(X).min() > 0.0
        assert model.score(X, y) > 0.3
        scaled = TAORegressor(3, loss=loss, random_state=0).fit(X, 1000.0 * y)
        np.testing.assert_allclose(scaled.predict(X), 1000.0 * model.predict(X), rtol=1e-6)
    with pytest.raises(ValueError, match="y must be >= 0 for loss=Poisson"):
        TAORegressor(2, loss="poisson").fit(X, counts - 1.0)
    with pytest.raises(ValueError, match="sums of trees may leave the domain"):
        BoostedTreesRegressor(loss="poisson").fit(X, counts)


def test_hubers_delta_is_in_units_of_y():
    X, y = make_friedman1(300, random_state=0)
    small = TAORegressor(3, loss=losses.Huber(2.0), random_state=0).fit(X, y)
    large = TAORegressor(3, loss=losses.Huber(2000.0), random_state=0).fit(X, 1000.0 * y)
    np.testing.assert_allclose(large.predict(X), 1000.0 * small.predict(X), rtol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        BoostedTreesRegressor(loss="absolute"),
        BoostedTreesRegressor(loss="quantile"),
        BoostedTreesRegressor(loss="huber"),
        TAORegressor("cv", loss="absolute"),
        TAORegressor(splits="axis", loss="absolute"),
        TAORegressor(3, loss="quantile"),
    ],
    ids=lambda model: f"{type(model).__name__}-{model.loss}-{model.max_depth}",
)
def test_one_spoilt_outcome_is_one(model):
    """Neither units of y, nor a majorizer, nor the rows held out are ruled by it: errors were up to 1e10."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1400, 3))
    y = 2.0 * X[:, 0] + 0.3 * rng.normal(size=1400)
    y[7] = 1e12
    model.set_params(random_state=0).fit(X[:400], y[:400])
    assert np.abs(model.predict(X[400:]) - y[400:]).mean() < 0.6  # of a constant: 1.6
