"""Boosted trees."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.model_selection import train_test_split

from opttree import BoostedTreesRegressor, TAORegressor
from solvers import TAO


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(800, n_features=6, noise=0.5, random_state=0)
    return train_test_split(X, y, test_size=0.25, random_state=0)


def test_boosting_beats_its_trees_and_knows_when_to_stop(friedman):
    a, b, c, d = friedman
    for base in ("oblique", "axis", TAO(max_iter=3)):
        model = BoostedTreesRegressor(base, n_estimators=60, random_state=0).fit(a, c)
        assert model.score(b, d) > 0.93
        assert model.n_estimators_ == len(model.forest_.trees) <= 4 * 60  # four ensembles
        assert model.score(b, d) > TAORegressor(6, random_state=0).fit(a, c).score(b, d)
    noise = np.random.default_rng(0).normal(size=len(a))
    assert BoostedTreesRegressor("axis", n_estimators=60, random_state=0).fit(a, noise).n_estimators_ < 4 * 30
    both = BoostedTreesRegressor(n_estimators=60, random_state=0).fit(a, c)
    singles = [BoostedTreesRegressor(k, n_estimators=60, random_state=0).fit(a, c) for k in ("oblique", "axis", "cart")]
    assert both.validation_loss_ == pytest.approx(min(model.validation_loss_ for model in singles))


def test_absolute_loss_does_not_mind_outliers(friedman):
    a, b, c, d = friedman
    spoilt = c.copy()
    spoilt[::20] += 100.0
    squared, absolute = (
        BoostedTreesRegressor("oblique", loss=loss, n_estimators=80, random_state=0).fit(a, spoilt)
        for loss in ("squared", "absolute")
    )
    assert np.mean(abs(absolute.predict(b) - d)) < 0.5 * np.mean(abs(squared.predict(b) - d))
