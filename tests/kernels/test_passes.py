"""Thresholds, axis-aligned splits and groups of rows against all there are."""

import numpy as np
import pytest

from opttree.kernels import records
from opttree.kernels.passes import reduced, summed
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


@pytest.mark.parametrize("size", [1e-307, 5e-324, 1e308])
def test_thresholds_of_values_of_any_size(size):
    """Buckets of values near the smallest double had no numbers: the process died."""
    z = np.linspace(-1.0, 1.0, 40) * size
    u = np.where(z > 0.0, 1.0, -1.0)
    cut, cost = best_threshold(z, u, 1)
    assert np.isfinite(cut)
    assert cost == _cost(z, u, cut) or size < 1e-307


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


@pytest.mark.parametrize("shared", [False, True])
def test_sums_of_scores_are_the_cross_entropy_its_gradient_and_a_bound_of_its_hessian(rng, shared):
    n, p, K = 60, 3, 4
    X, label, w = rng.normal(size=(n, p)), rng.integers(0, K, n), rng.uniform(0.5, 2.0, n)
    leaf = rng.integers(0, 3, n)
    values, coefs, none = rng.normal(size=(3, K)), rng.normal(size=(3, K, p)), np.zeros((0, 0))
    rows = records.Rows(X, label[:, None].astype(float), w)
    group = reduced.group_rows(leaf, 3, w)
    losses, gradients, hessians = np.zeros(3), np.zeros((3, K, p + 1)), np.zeros((3, 1 if shared else K, 4, 4))
    leaves = records.Leaves(values, coefs, none, none)
    summed.softmax_sums(rows, group, np.array([True, False, True]), leaves, losses, gradients, hessians)
    assert losses[1] == 0.0
    for t in (0, 2):
        own, Z = leaf == t, np.column_stack([X, np.ones(n)])

        def loss(x, own=own, Z=Z):
            scores = Z[own] @ x.reshape(K, p + 1).T
            picked = scores[np.arange(own.sum()), label[own]]
            return w[own] @ (np.log(np.exp(scores).sum(axis=1)) - picked)

        at = np.column_stack([coefs[t], values[t]]).ravel()
        assert losses[t] == pytest.approx(loss(at))
        step = 1e-5 * np.eye(len(at))
        np.testing.assert_allclose(
            gradients[t].ravel(), [(loss(at + d) - loss(at - d)) / 2e-5 for d in step], rtol=1e-4, atol=1e-6
        )
        true = np.array(
            [[(loss(at + d + e) - loss(at + d) - loss(at + e) + loss(at)) / 1e-10 for e in step] for d in step]
        )
        bound = np.zeros_like(true)
        for k in range(K):
            lower = np.tril(hessians[t, 0 if shared else k])
            block = slice(k * (p + 1), (k + 1) * (p + 1))
            bound[block, block] = lower + np.tril(lower, -1).T
        assert np.linalg.eigvalsh(bound - true).min() > -1e-3


def test_exact_moments_do_not_depend_on_the_order_of_the_rows(rng):
    n, p, K = 500, 4, 2
    X, Y, leaf = rng.normal(size=(n, p)), rng.normal(size=(n, K)), rng.integers(0, 3, n)
    w = rng.uniform(0.0, 2.0 / n, n)
    w[:20] = 0.0

    def moments(order, used):
        found = np.zeros(3, np.int64), np.zeros((3, used, used)), np.zeros((3, K, used))
        ends = np.full((3, K), np.inf), np.full((3, K), -np.inf)
        summed.exact_moments(X[order], Y[order], w[order], leaf[order], 2.0**44, *found, *ends)
        return *found, *ends

    for used in (p + 1, 1):
        one, other = moments(np.arange(n), used), moments(rng.permutation(n), used)
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
        Z = np.column_stack([X, np.ones(n)])[:, -used:]
        for t in range(3):
            own = (leaf == t) & (w > 0.0)
            assert one[0][t] == own.sum()
            gram = (Z[own] * w[own, None]).T @ Z[own]
            np.testing.assert_allclose(np.tril(one[1][t]), np.tril(gram), atol=1e-11)
            np.testing.assert_allclose(one[2][t], (Y[own] * w[own, None]).T @ Z[own], atol=1e-11)
            np.testing.assert_array_equal(one[3][t], Y[own].min(axis=0))
            np.testing.assert_array_equal(one[4][t], Y[own].max(axis=0))
