"""Quantiles, Huber's loss and losses of positive numbers in the exact search: against enumeration by the losses."""

from dataclasses import dataclass

import numpy as np
import pytest

from opttree import SplitPrice, TreeProblem
from opttree.constraints import MaxFeatures
from opttree.losses import Exponential, Gamma, Huber, Loss, Poisson, Quantile
from solvers import BranchAndBound, Termination, solve, sparse_front


def drawn(rng, kind, shape):
    """A loss and outcomes, some of them equal, in units of any size."""
    unit = float(rng.choice([1e-3, 1.0, 1e4]))
    if kind == 0:
        return Poisson(), rng.poisson(rng.choice([0.5, 5.0]), shape) * unit + 1e-3 * unit
    if kind == 1:
        return Gamma(), (rng.gamma(1.0, 1.0, shape) + rng.choice([1e-3, 50.0])) * unit
    if kind == 2:
        times = (rng.exponential(1.0, shape) + 1e-3) * unit
        return Exponential(), np.where(rng.random(shape) < 0.6, times, -times)
    if kind == 3:
        return Quantile(float(rng.choice([0.1, 0.5, 0.9]))), rng.normal(size=shape).round(1) * unit + 50.0
    y = rng.standard_t(2.0, size=shape).round(int(rng.integers(0, 4))) * unit
    return Huber(float(rng.choice([0.1, 1.0, 5.0])) * unit), y + rng.choice([0.0, 50.0])


def enumerated(problem):
    """The optimum, by the loss's own constants and values."""
    X, loss, known = problem.X, problem.loss_function, {}

    def leaf(rows):
        rows = rows[problem.w[rows] > 0.0]
        w, columns = problem.w[rows], problem.Y[rows].T if rows.size else ()
        return sum(float(np.sum(w * loss.value(y, np.full(y.size, loss.constant(y, w))))) for y in columns)

    def best(rows, levels):
        key = rows.tobytes(), levels
        if key not in known:
            known[key] = leaf(rows)
            for x in X[rows].T if levels else ():
                for cut in np.unique(x)[:-1]:
                    left = x <= cut
                    if min(left.sum(), (~left).sum()) >= problem.min_leaf:
                        value = best(rows[left], levels - 1) + best(rows[~left], levels - 1) + problem.split_price
                        known[key] = min(known[key], value)
        return known[key]

    return best(np.arange(len(X)), problem.depth)


@pytest.mark.parametrize("kind", range(5), ids=["poisson", "gamma", "exponential", "quantile", "huber"])
@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_is_found_and_proved(kind, seed):
    rng = np.random.default_rng([seed, kind])
    depth = 1 + seed % 3
    n, p = int(rng.integers(4, (60, 30, 12)[depth - 1])), int(rng.integers(1, 4))
    X = rng.integers(0, rng.choice([2, 5, 1000]), (n, p)).astype(float)
    loss, y = drawn(rng, kind, (n, 2) if seed % 5 == 0 else n)
    w = rng.choice([0.0, 0.1, 1.0, 2.0], n) if seed % 2 else None
    stated = TreeProblem(X, y, depth, splits="axis", loss=loss, min_leaf=1 + seed // 8, sample_weight=w)
    whole = stated.objective(stated.best_constant())
    if seed % 4 == 3:
        stated = stated.restated(penalties=(SplitPrice(0.05 * whole),))
    result = solve(stated, BranchAndBound(n_jobs=1 + seed % 2))
    best = enumerated(stated)
    assert result.termination is Termination.OPTIMAL
    assert result.objective == pytest.approx(best, rel=1e-8, abs=1e-9 * whole)
    assert result.bound <= best + 1e-9 * whole


def test_bounds_hold_where_the_time_is_up():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 8))
    y = rng.standard_t(2.0, size=1500) + X[:, 0]
    for loss in (Huber(1.0), Quantile(0.9)):
        stated = TreeProblem(X, y, 3, splits="axis", loss=loss)
        short, long = (solve(stated, BranchAndBound(), time_limit=seconds) for seconds in (0.3, 2.0))
        assert 0.0 <= short.bound <= long.objective <= short.objective


@pytest.mark.parametrize("loss", [Poisson(), Gamma(), Exponential()], ids=str)
def test_outcomes_that_hardly_differ_are_proved(loss):
    """Sums of y log y and so on cancelled: bounds were above the optimum."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 1))
    stated = TreeProblem(X, 1e5 * (1.0 + 1e-5 * (X[:, 0] + rng.normal(size=120))), 1, splits="axis", loss=loss)
    result = solve(stated, BranchAndBound())
    assert result.termination is Termination.OPTIMAL
    assert result.objective == pytest.approx(enumerated(stated), rel=1e-9)
    assert max(row.bound for row in result.trace) <= result.objective * (1.0 + 1e-9)


def test_a_delta_beyond_all_residuals_is_squared_loss():
    """What rounding leaves of the sums of no rows was taken times delta^2: false bounds, and other trees."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 1))
    y, w = rng.normal(size=40) + (X[:, 0] > 0.0), rng.random(40)
    huber, squared = (
        solve(TreeProblem(X, y, 2, splits="axis", loss=loss, sample_weight=w), BranchAndBound())
        for loss in (Huber(1e8), "squared")
    )
    assert huber.termination is Termination.OPTIMAL
    assert 2.0 * huber.objective == pytest.approx(squared.objective, rel=1e-9)
    apart = TreeProblem(X, np.where(X[:, 0] > 0.0, 1e8, -1e8) + 1e-3 * y, 1, splits="axis", loss=Huber(1.0))
    assert solve(apart, BranchAndBound()).termination is Termination.STALLED  # too far apart for sums


def test_perfect_fits_are_proved():
    X = np.arange(8.0)[:, None]
    for loss, y in ((Poisson(), np.zeros(8)), (Exponential(), -1.0 - X[:, 0]), (Gamma(), np.full(8, 0.3))):
        assert (
            solve(TreeProblem(X, y, 2, splits="axis", loss=loss), BranchAndBound()).termination is Termination.OPTIMAL
        )
    wide = TreeProblem(X, np.geomspace(1e-150, 1e148, 8), 2, splits="axis", loss=Gamma())
    assert "over more than 280 powers of ten" in BranchAndBound().refusal(wide)


def test_under_side_constraints_and_along_a_front():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 4, (40, 3)).astype(float)
    y = rng.poisson(np.exp(0.5 * X[:, 0] - 0.5 * (X[:, 1] > 1))) + 0.0
    free = TreeProblem(X, y, 2, splits="axis", loss=Poisson())
    one = solve(free.restated(constraints=(MaxFeatures(1),)), BranchAndBound())
    alone = [enumerated(TreeProblem(X[:, [j]], y, 2, splits="axis", loss=Poisson())) for j in range(3)]
    assert one.objective == pytest.approx(min(alone), rel=1e-9)
    front = sparse_front(free)
    assert front.is_proved
    assert front.results[-1].objective == pytest.approx(enumerated(free), rel=1e-9)


@dataclass(frozen=True)
class Relative(Loss):
    """Squared error relative to the outcome."""

    def value(self, y, prediction):
        return ((y - prediction) / y) ** 2

    def constant(self, y, w):
        return float(np.sum(w / y) / np.sum(w / y**2))

    def statistics(self, y):
        return np.column_stack([np.ones_like(y), 1.0 / y, 1.0 / y**2])

    @staticmethod
    def cost(s):
        return s[0] - s[1] ** 2 / s[2] if s[2] > 0.0 else 0.0


@pytest.mark.parametrize("seed", range(9))
def test_losses_of_ones_own_are_proved(seed):
    rng = np.random.default_rng(seed)
    depth = 1 + seed % 3
    n, p = int(rng.integers(4, (60, 30, 12)[depth - 1])), int(rng.integers(1, 4))
    X, y = rng.integers(0, 9, (n, p)).astype(float), rng.uniform(0.5, 2.0, n) + (seed > 4) * 10.0
    w = rng.choice([0.0, 0.1, 1.0, 2.0], n) if seed % 2 else None
    stated = TreeProblem(X, y, depth, splits="axis", loss=Relative(), min_leaf=1 + seed % 2, sample_weight=w)
    result = solve(stated, BranchAndBound(n_jobs=1 + seed % 2))
    whole = stated.objective(stated.best_constant())
    assert result.termination is Termination.OPTIMAL
    assert result.objective == pytest.approx(enumerated(stated), rel=1e-8, abs=1e-8 * whole)
    assert result.bound <= result.objective


def test_a_cost_that_is_not_the_best_constants_is_refused():
    @dataclass(frozen=True)
    class Half(Relative):
        @staticmethod
        def cost(s):
            return 0.5 * (s[0] - s[1] ** 2 / s[2])

    X = np.arange(30.0)[:, None]
    stated = TreeProblem(X, 1.0 + X[:, 0], 1, splits="axis", loss=Half())
    with pytest.raises(ValueError, match="cost must be the loss of the best constant; on"):
        solve(stated, BranchAndBound())


def test_a_loss_without_statistics_is_refused():
    @dataclass(frozen=True)
    class Plain(Loss):
        def value(self, y, prediction):
            return (y - prediction) ** 4

        def constant(self, y, w):
            return float(np.mean(y))

    stated = TreeProblem([[0.0], [1.0]], [1.0, 2.0], 1, splits="axis", loss=Plain())
    assert "it takes losses with statistics that add up" in BranchAndBound().refusal(stated)
