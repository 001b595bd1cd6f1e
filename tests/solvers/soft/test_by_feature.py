"""Descent under `FeatureL1`: its proximal step, its optimum, and features that leave."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from opttree import FeatureL1, ORRTClassifier, ORRTRegressor, SmoothTreeProblem, TreeProblem
from solvers import ORRT, solve
from solvers.soft.by_feature import descend, feature_norms, shrunk


def noisy(rng, n=300, p=12):
    X = rng.normal(size=(n, p))
    return X, np.where(X[:, 0] > 0.0, 2.0, -1.0) + X[:, 1] + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_the_proximal_point_is_the_best_of_its_problem(rng, leaves):
    X, y = noisy(rng, 60, 3)
    smooth = SmoothTreeProblem(TreeProblem(X, y, depth=1, leaves=leaves), aggregation="mixture")
    theta = rng.normal(size=smooth.size)
    point = shrunk(smooth, theta, 0.7)

    def value(other):
        return 0.5 * np.sum((other - theta) ** 2) + 0.7 * feature_norms(smooth, other).sum()

    assert value(point) <= min(value(point + 0.05 * rng.normal(size=theta.size)) for _ in range(200))
    assert value(point) == pytest.approx(minimize(value, theta, method="Powell").fun, rel=1e-3)


@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_descent_ends_where_no_feature_moves(rng, leaves):
    X, y = noisy(rng)
    smooth = SmoothTreeProblem(TreeProblem(X, y, depth=1, leaves=leaves), aggregation="mixture")
    theta, free = 0.1 * rng.normal(size=smooth.size), np.full(smooth.size, np.inf)
    values = []
    for point, _evaluations in descend(smooth, theta, 0.05, 3000, -free, free):
        values.append(smooth.value(point) + 0.05 * feature_norms(smooth, point).sum())
    assert np.all(np.diff(values) <= 1e-12)
    gradient = smooth.value_and_grad(point)[1]
    norms, slopes = feature_norms(smooth, point), feature_norms(smooth, np.asarray(gradient, np.float64))
    assert slopes[norms == 0.0].max(initial=0.0) <= 0.05 * 1.001  # optimal: no feature would come back
    assert slopes[norms > 0.0] == pytest.approx(0.05, rel=0.02)
    assert 2 <= (norms > 0.0).sum() < 12


def test_steps_are_objectives_of_the_statement(rng):
    X, y = noisy(rng)
    problem = TreeProblem(X, y, depth=2, penalties=FeatureL1(0.05))
    result = solve(problem, ORRT(max_iter=150), random_state=0)
    used = result.tree.A.any(axis=0)
    assert used[:2].all()
    assert used.sum() < 12
    expected = problem.mean_loss(result.tree) + 0.05 * np.sqrt((result.tree.A**2).sum(axis=0)).sum()
    assert result.objective == pytest.approx(expected)
    assert result.objective < solve(problem.restated(penalties=()), ORRT(max_iter=150), random_state=0).objective + 1.0
    assert [row.phase for row in result.trace.rows][-1] == "by feature"


def test_estimators_leave_features_out(rng):
    X, y = noisy(rng)
    model = ORRTRegressor(2, feature_l1=0.1, floor=False, random_state=0).fit(X, y)
    used = model.tree_.A.any(axis=0) | model.tree_.leaf_arrays[1].any(axis=(0, 1))
    assert used[:2].all()
    assert used.sum() < 12
    assert np.array_equal(model.feature_importances_ > 0.0, used)
    classes = ORRTClassifier(1, feature_l1=0.1, leaves="constant", random_state=0).fit(X, np.where(y > 0.0, "a", "b"))
    assert classes.score(X, np.where(y > 0.0, "a", "b")) > 0.8
    assert classes.tree_.A.any(axis=0).sum() < 12
    with pytest.raises(ValueError, match="feature_l1 must be"):
        ORRTRegressor(feature_l1=-1.0).fit(X, y)


def test_a_negative_strength_is_refused():
    with pytest.raises(ValueError, match="strength must be finite and >= 0"):
        FeatureL1(-0.1)
