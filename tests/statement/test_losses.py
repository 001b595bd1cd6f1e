"""Losses of one's own: their constants and majorizers."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from opttree import TreeProblem
from opttree.statement.losses import Exponential, Gamma, Huber, Loss, Poisson, Quantile
from solvers import TAO, Boosting, MultiStart, solve

LOSSES = (Quantile(0.8), Quantile(0.1), Huber(0.7), Poisson(), Gamma(), Exponential())


def outcomes(loss, rng, n=200):
    if isinstance(loss, Poisson):
        return rng.poisson(2.0, n).astype(float)
    y = rng.gamma(2.0, size=n)
    return y * np.where(rng.random(n) < 0.7, 1.0, -1.0) if isinstance(loss, Exponential) else y


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_constant_is_the_best(loss, rng):
    y, w = outcomes(loss, rng), rng.uniform(0.5, 2.0, 200)
    found = minimize_scalar(lambda f: np.sum(w * loss.value(y, f)), bounds=(1e-3, 20.0), method="bounded",
                            options={"xatol": 1e-9})  # fmt: skip
    assert np.sum(w * loss.value(y, loss.constant(y, w))) <= found.fun * (1.0 + 1e-9)
    assert loss.value(y, np.full(y.size, loss.constant(y, w))).min() >= 0.0


@pytest.mark.parametrize("loss", [Quantile(0.8), Huber(0.7)], ids=str)
def test_majorizers_touch_and_are_nowhere_below(loss, rng):
    y, here = outcomes(loss, rng), rng.normal(size=200)
    w, t = loss.majorizer(y, here)
    far = np.abs(y - here) > 0.01
    base = loss.value(y, here) - w * t * t
    for step in rng.normal(size=(50, 1)):
        there = here + step
        assert np.all((w * (there - here - t) ** 2 + base - loss.value(y, there))[far] >= -1e-9)


def test_a_gradient_and_a_curvature_are_a_majorizer(rng):
    @dataclass(frozen=True)
    class Squares(Loss):
        def value(self, y, prediction):
            return (y - prediction) ** 2

        def constant(self, y, w):
            return float(np.average(y, weights=w))

        def gradient(self, y, prediction):
            return 2.0 * (prediction - y)

        def curvature(self, y, prediction):
            return np.full(np.broadcast(y, prediction).shape, 2.0)

    X = rng.normal(size=(300, 3))
    y = X[:, 0] * X[:, 1]
    own, named = (TreeProblem(X, y, depth=3, loss=loss) for loss in (Squares(), "squared"))
    for solver in (MultiStart(TAO(), 2), Boosting(n_trees=20)):
        ours, theirs = (solve(p, solver, random_state=0) for p in (own, named))
        assert ours.objective == pytest.approx(theirs.objective, rel=1e-9)
    two = TreeProblem(X, np.column_stack([y, X[:, 2]]), depth=3, loss=Squares())
    both = solve(two.restated(loss="squared"), TAO(), random_state=0)
    assert solve(two, TAO(), random_state=0).objective == pytest.approx(both.objective, rel=1e-9)


def test_rows_of_weight_zero_are_not_checked():
    X, y, w = np.arange(6.0)[:, None], np.array([1.0, 2.0, 0.0, 3.0, -3.0, 1.0]), np.array([1.0, 1, 1, 1, 0, 1])
    problem = TreeProblem(X, y, depth=1, loss=Poisson(), sample_weight=w)
    assert problem.sample(np.array([2])).objective(problem.sample(np.array([2])).best_constant()) == pytest.approx(0.0)
    with pytest.raises(ValueError, match=r"y must be >= 0 for loss=Poisson\(\); got -3"):
        TreeProblem(X, y, depth=1, loss=Poisson())
