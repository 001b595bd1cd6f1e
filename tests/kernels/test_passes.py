"""Thresholds, axis-aligned splits and groups of rows against all there are."""

import numpy as np
import pytest

from opttree.kernels.passes import reduced
from opttree.kernels.passes.thresholds import best_axis_splits, best_threshold, between
from opttree.statement.numbers import in_same_order


def _cost(z, u, cut):
    left = z <= cut
    return u[left & (u > 0)].sum() - u[~left & (u < 0)].sum()


def test_threshold_is_the_best_of_all_cuts(rng):
    for trial in range(400):
        m = int(rng.integers(1, 80))
        z = np.round(rng.normal(size=m), 1 if trial % 2 else 8)
        u = rng.normal(size=m) + (z if trial % 3 else 0.0)
        u[rng.uniform(size=m) < 0.2] = 0.0
        fewest = int(rng.integers(1, 6))
        values = np.unique(z)
        cuts = [z.min() - 1, *(0.5 * (values[1:] + values[:-1])), z.max() + 1]
        sizes = [(z <= c).sum() for c in cuts]
        allowed = [c for c, k in zip(cuts, sizes, strict=True) if k in (0, m) or min(k, m - k) >= fewest]
        cut, cost = best_threshold(z, u, fewest)
        assert cost == pytest.approx(_cost(z, u, cut), abs=1e-9)
        assert cost == pytest.approx(min(_cost(z, u, c) for c in allowed), abs=1e-9)


def test_axis_splits_are_the_best_of_all(rng):
    n, p, slots = 120, 3, 4
    for trial in range(20):
        X = np.round(rng.normal(size=(n, p)), 1)
        u = rng.normal(size=n) + X[:, trial % p]
        slot = rng.integers(-1, slots, n).astype(np.int32)
        presorted = np.argsort(X, axis=0, kind="stable").T.astype(np.int32)
        fewest = 1 + trial % 4
        in_order = np.take_along_axis(X.T, presorted, axis=1)
        feature, cut, cost, side = best_axis_splits(presorted, in_order, slot, u, slots, fewest, 0.0)
        for s in range(slots):
            rows = slot == s
            best = min(_cost(X[rows, 0], u[rows], c) for c in (-np.inf, np.inf))
            for j in range(p):
                values = np.unique(X[rows, j])
                for c in 0.5 * (values[1:] + values[:-1]):
                    k = (X[rows, j] <= c).sum()
                    if min(k, rows.sum() - k) >= fewest:
                        best = min(best, _cost(X[rows, j], u[rows], c), _cost(-X[rows, j], u[rows], -c))
            assert cost[s] == pytest.approx(best, abs=1e-9)
            if np.isfinite(cut[s]):
                z = side[s] * X[rows, feature[s]]
                assert _cost(z, u[rows], side[s] * cut[s]) == pytest.approx(best, abs=1e-9)


def test_group_rows_is_a_stable_grouping(rng):
    key = rng.integers(-1, 5, 200).astype(np.int32)
    keep = (rng.uniform(size=200) < 0.8).astype(float)
    order, start = reduced.group_rows(key, 5, keep)
    for g in range(5):
        assert np.array_equal(order[start[g] : start[g + 1]], np.flatnonzero((key == g) & (keep > 0)))


def test_thresholds_lie_between_any_two_doubles():
    low = np.array([1.0, 1e15, -1.0, 5e-324, -1e150])
    high = np.nextafter(low, np.inf)
    cut = between(low, high)
    assert np.all((low <= cut) & (cut < high))
    assert between(1.0, 2.0) == 1.5
    X = 1e16 + np.arange(8.0)[:, None] * 2.0
    Z = (X - X.mean()) / 1e17  # whose values differ less than doubles near 1 do
    Z += 1.0
    in_same_order(X, Z)
    assert np.all(np.diff(Z[:, 0]) > 0.0)
