"""Bounds from the first second, before any search."""

import numpy as np
import pytest

from opttree import SplitPrice, TreeProblem
from solvers import BranchAndBound, certify, solve
from solvers.exact import early


@pytest.mark.parametrize("squared", [True, False])
def test_the_bound_by_outputs_is_that_of_clusters(squared, monkeypatch):
    rng = np.random.default_rng(0)
    for _ in range(40):
        n, most = int(rng.integers(2, 30)), int(rng.integers(1, 7))
        y, w = rng.choice([rng.normal(size=n), rng.integers(0, 5, n) * 1.0]), rng.uniform(0.1, 1.0, n)
        w /= w.sum()
        truth = clusters(y, w, most, squared)
        np.testing.assert_allclose(early._least_losses(y, w, most, squared), truth, atol=1e-10)
        monkeypatch.setattr(early, "GROUPS", int(rng.integers(2, 12)))
        assert np.all(early._least_losses(y, w, most, squared) <= truth + 1e-12)
        monkeypatch.undo()


def clusters(y, w, most, squared):
    """The least loss of 1, ..., ``most`` constants, by dynamic programming over all rows."""
    order = np.argsort(y)
    y, w, n = y[order], w[order], len(y)

    def cost(a, b):
        if squared:
            return np.sum(w[a:b] * (y[a:b] - np.average(y[a:b], weights=w[a:b])) ** 2)
        return min(np.sum(w[a:b] * np.abs(y[a:b] - c)) for c in y[a:b])

    costs = {(a, b): cost(a, b) for a in range(n) for b in range(a + 1, n + 1)}
    best = [0.0] + [costs[0, b] for b in range(1, n + 1)]
    found = [best[n]]
    for _ in range(most - 1):
        best = [0.0] + [min([best[b], *(best[a] + costs[a, b] for a in range(1, b))]) for b in range(1, n + 1)]
        found.append(best[n])
    return np.array(found)


@pytest.mark.parametrize("loss", ["squared", "absolute", "zero_one"])
def test_early_bounds_hold(loss):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, size=(300, 3)).astype(float)
    y = X[:, 0] * X[:, 1] + rng.normal(size=300) if loss != "zero_one" else rng.integers(0, 2, 300)
    stated = TreeProblem(X, y, depth=2, splits="axis", loss=loss, penalties=SplitPrice(0.01))
    exact = solve(stated, BranchAndBound())
    search = bounds_of(stated)
    assert 0.0 < max(search) <= exact.objective + 1e-12
    monkey = list(early.blocks_bounds(stated, None, 1.0, rng))
    assert np.all(np.diff(monkey) >= 0.0)
    assert monkey[-1] <= exact.objective + 1e-12


@pytest.mark.parametrize("loss", ["squared", "log", "zero_one"])
def test_bounds_of_blocks_rise_from_round_to_round(loss, monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(430, 3))
    y = X[:, 0] * X[:, 1] + rng.normal(size=430)
    y = y if loss == "squared" else (y > 0.0).astype(int)
    stated = TreeProblem(X, y, depth=3, splits="axis", loss=loss, sample_weight=rng.uniform(0.5, 1.5, 430))
    optimum = solve(stated, BranchAndBound()).objective
    monkeypatch.setattr(early, "ROWS", {3: 100})
    ends = []
    for rounds in (((1, 0.5),), ((1, 0.5), (1, 0.0)), ((1, 0.5), (1, 0.0), (2, 0.0))):
        monkeypatch.setattr(early, "ROUNDS", {3: rounds})
        bounds = list(early.blocks_bounds(stated, None, np.inf, np.random.default_rng(0)))
        assert np.all(np.diff(bounds) >= 0.0)
        ends.append(bounds[-1])
    assert ends[0] < ends[1] < ends[2] <= optimum * (1.0 + 1e-12)


def bounds_of(stated):
    from opttree import ExactTreeProblem

    return early.outputs_bound(stated, 3), early.equal_rows_bound(ExactTreeProblem(stated))


def test_a_bound_is_there_from_the_first_second_and_the_limit_is_kept():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(400_000, 4))
    stated = TreeProblem(X, X[:, 0] + 20.0 * rng.normal(size=400_000), depth=3, splits="axis")
    result = solve(stated, BranchAndBound(), time_limit=1.0, random_state=0)
    assert result.bound > 0.0
    assert result.seconds < 4.0
    assert certify(stated, stated.best_constant(), time_limit=1.0, random_state=0).bound > 0.0
