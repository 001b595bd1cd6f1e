"""Kernels against plain NumPy, SciPy and scikit-learn references."""

import numpy as np
import pytest
from scipy.optimize import minimize

from opttree.kernels.algebra.gram import add_weighted_gram, mirror_lower, padded
from opttree.kernels.algebra.logistic import fit_logistic
from opttree.kernels.algebra.quadratic import minimise_quadratic
from opttree.kernels.leaves import fit as leaves
from opttree.kernels.losses import rows as row_losses
from opttree.kernels.losses.exponential import exp_minus_abs
from opttree.kernels.passes import reduced
from opttree.kernels.passes.thresholds import best_axis_splits, best_threshold
from opttree.kernels.records import Rows
from opttree.kernels.routing import project
from opttree.model.forest import Forest
from opttree.model.tree import Tree


@pytest.mark.parametrize(("m", "p"), [(1, 1), (5, 3), (127, 4), (128, 7), (300, 18), (1000, 21)])
def test_weighted_gram(rng, m, p):
    X, h = rng.normal(size=(2 * m, p)), rng.uniform(size=m)
    rows = rng.permutation(2 * m)[:m].astype(np.int32)
    G = np.zeros((padded(p), padded(p)))
    add_weighted_gram(X, rows, h, G)
    mirror_lower(G)
    Z = np.hstack([X[rows], np.ones((m, 1))])
    np.testing.assert_allclose(G[: p + 1, : p + 1], (Z * h[:, None]).T @ Z, rtol=1e-12, atol=1e-12)


def test_exp_minus_abs_is_accurate(rng):
    z = np.concatenate([np.linspace(-700, 700, 2001), rng.normal(size=1000), [0.0]])
    out, bits = np.empty(z.size), np.empty(z.size, np.int64)
    exp_minus_abs(z, 0, z.size, bits, out)
    np.testing.assert_allclose(out, np.exp(-np.abs(z)), rtol=1e-14)
    far = np.array([-1e300, 1e5])
    exp_minus_abs(far, 0, 2, bits, out)
    np.testing.assert_allclose(out[:2], np.exp(-700.0), rtol=1e-12)


@pytest.mark.parametrize("l1", [0.0, 0.01, 0.3, 3.0])
@pytest.mark.parametrize("collinear", [False, True])
def test_quadratic_with_l1_meets_its_optimality_conditions(rng, l1, collinear):
    q = 12
    Z = rng.normal(size=(40, q))
    if collinear:
        Z[:, 1] = Z[:, 0] + 1e-5 * rng.normal(size=40)
    H = Z.T @ Z / 40 + 1e-9 * np.eye(q)
    c, v = rng.normal(size=q), rng.normal(size=q)
    minimise_quadratic(H, c, l1, q - 1, v)
    slope = c + H @ v
    tolerance = 1e-6
    assert abs(slope[-1]) < tolerance  # the unpenalised one
    for j in range(q - 1):
        if v[j] != 0.0:
            assert abs(slope[j] + l1 * np.sign(v[j])) < tolerance
        else:
            assert abs(slope[j]) <= l1 + tolerance


def _logistic_objective(x, X, sign, weight, offset, l1, l2):
    z = X @ x[:-1] + x[-1] + offset
    return weight @ np.logaddexp(0.0, -sign * z) + l1 * np.abs(x[:-1]).sum() + l2 * np.square(x[:-1]).sum()


@pytest.mark.parametrize("l1", [0.0, 0.02])
@pytest.mark.parametrize("l2", [1e-3, 0.05])
@pytest.mark.parametrize("with_offset", [False, True])
def test_logistic_reaches_scipys_optimum(rng, l1, l2, with_offset):
    m, p = 150, 5
    X, weight = rng.normal(size=(m, p)), rng.uniform(size=m) / m
    sign = np.where(X[:, 0] + rng.normal(size=m) > 0, 1.0, -1.0)
    offset = rng.normal(size=m) if with_offset else np.zeros(0)
    shift = offset if with_offset else 0.0
    a = np.zeros(p)
    rows = np.arange(m, dtype=np.int32)
    b, _steps = fit_logistic(X, rows, sign * weight, offset, a, 0.0, l1, l2, 1e-10, 200)
    ours = _logistic_objective(np.append(a, -b), X, sign, weight, shift, l1, l2)

    def split(v):  # a = v+ - v-, so that the l1 term is linear
        x = np.append(v[:p] - v[p : 2 * p], v[-1])
        smooth = _logistic_objective(x, X, sign, weight, shift, 0.0, l2)
        return smooth + l1 * v[: 2 * p].sum()

    bounds = [(0, None)] * (2 * p) + [(None, None)]
    theirs = minimize(split, np.zeros(2 * p + 1), bounds=bounds, options={"maxiter": 2000, "ftol": 1e-15}).fun
    assert ours <= theirs * (1 + 1e-7)


@pytest.mark.parametrize("start", [0.0, 5.0, 300.0, 1e8])
def test_logistic_recovers_from_any_warm_start(rng, start):
    m, p = 400, 6
    X = rng.standard_t(2.0, size=(m, p))
    weight = rng.exponential(size=m) / m
    sign = np.where(X @ rng.normal(size=p) + rng.normal(size=m) > 0, 1.0, -1.0)
    rows = np.arange(m, dtype=np.int32)
    best = np.zeros(p)
    best_b, _ = fit_logistic(X, rows, sign * weight, np.zeros(0), best, 0.0, 1e-4, 0.0, 1e-10, 500)
    a = start * rng.normal(size=p)
    b, steps = fit_logistic(X, rows, sign * weight, np.zeros(0), a, start, 1e-4, 0.0, 1e-8, 500)
    values = [
        _logistic_objective(np.append(w, -c), X, sign, weight, 0.0, 1e-4, 0.0) for w, c in ((a, b), (best, best_b))
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-7)
    assert steps < 100


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


def random_tree(rng, depth, p, n_outputs, linear=False, axis=False):
    B = 2**depth - 1
    A = rng.normal(size=(B, p))
    if axis:
        A = np.eye(p)[rng.integers(p, size=B)] * np.sign(A[:, :1])
    tree = Tree.complete(A, 0.3 * rng.normal(size=B), n_outputs)
    coefs = rng.normal(size=(B + 1, n_outputs, p if linear else 0))
    bounds = {"lower": np.full((B + 1, n_outputs), -0.5), "upper": np.ones((B + 1, n_outputs))} if linear else {}
    return Tree(tree.children, tree.A, tree.b, rng.normal(size=(B + 1, n_outputs)), coefs, **bounds)


def reference_outputs(tree, X):
    """Row by row, in plain Python."""
    leaf, out = [], []
    for x in X:
        t = 0
        while t < tree.n_branches:
            t = int(tree.children[t, 0 if tree.A[t] @ x <= tree.b[t] else 1])
        row = t - tree.n_branches
        value = tree.values[row].copy()
        if tree.linear_leaves:
            value = np.clip(value + tree.coefs[row] @ x, tree.lower[row], tree.upper[row])
        leaf.append(t)
        out.append(value)
    return np.array(leaf), np.array(out)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("axis", [False, True])
@pytest.mark.parametrize("depth", [0, 1, 4])
def test_routing_and_outputs(rng, depth, linear, axis):
    X = rng.normal(size=(150, 5))
    tree = random_tree(rng, depth, 5, 2, linear, axis)
    leaf, out = reference_outputs(tree, X)
    assert np.array_equal(tree.apply(X), leaf)
    np.testing.assert_allclose(tree.outputs(X), out, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("p", [1, 3, 8, 21])
def test_rows_on_a_hyperplane_go_left_wherever_they_are_routed(rng, p):
    n = 100
    X, tree = rng.normal(size=(n, p)), random_tree(rng, 1, p, 1)
    rows, slot_of = Rows(X, np.zeros((n, 1)), np.ones(n)), np.array([0, -1, -1], np.int32)
    for i in range(n):
        on = Tree(tree.children, tree.A, project(X, np.array([i], np.int32), tree.A[0]), tree.values)
        assert on.apply(X[i : i + 1]) == on.apply(X)[i] == 1
        assert Forest(((on, on),), 1).outputs(X)[i] == on.values[0]
        tracks = reduced.Tracks(*(np.zeros(n, kind) for kind in ["i4", "i4", "f8", "i4", "i1", "f8", "i4", "f8"]))
        reduced.pseudolabels(rows, on.branch_arrays, on.leaf_arrays, 0, 0, slot_of, tracks)
        assert (tracks.side[i], tracks.other[i]) == (0, 2)
        reduced.advance(X, on.branch_arrays, tracks)
        assert tracks.node[i] == 1


@pytest.mark.parametrize("loss", ["squared", "absolute", "zero_one", "log"])
@pytest.mark.parametrize("link", ["identity", "softmax"])
def test_losses(rng, loss, link):
    code = {"squared": 0, "absolute": 1, "zero_one": 2, "log": 3}[loss]
    X = rng.normal(size=(100, 3))
    tree = random_tree(rng, 2, 3, 3)
    values = tree.values.copy()
    if link == "identity" and code >= 2:
        values = np.exp(values) / np.exp(values).sum(axis=1, keepdims=True)
    tree = Tree(tree.children, tree.A, tree.b, values, link=link)
    out = tree.outputs(X)
    if code < 2:
        Y = rng.normal(size=(100, 3))
        expected = (np.square(Y - out) if loss == "squared" else np.abs(Y - out)).sum(axis=1)
    else:
        Y = rng.integers(0, 3, (100, 1)).astype(float)
        label = Y[:, 0].astype(int)
        probability = out if link == "identity" else np.exp(out) / np.exp(out).sum(axis=1, keepdims=True)
        expected = (
            (out.argmax(axis=1) != label).astype(float)
            if loss == "zero_one"
            else -np.log(probability[np.arange(100), label])
        )
    rows, link_code = Rows(X, Y, np.ones(100)), {"identity": 0, "softmax": 1}[link]
    got = row_losses.losses(rows, tree.apply(X), tree.leaf_arrays, code, link_code)
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)


def test_group_rows_is_a_stable_grouping(rng):
    key = rng.integers(-1, 5, 200).astype(np.int32)
    keep = (rng.uniform(size=200) < 0.8).astype(float)
    order, start = reduced.group_rows(key, 5, keep)
    for g in range(5):
        assert np.array_equal(order[start[g] : start[g + 1]], np.flatnonzero((key == g) & (keep > 0)))


@pytest.mark.parametrize("weights", [[1, 1, 1], [1, 1, 1, 1], [5, 1, 1], [1, 2, 3, 4, 5]])
def test_weighted_median_minimises_the_absolute_deviation(rng, weights):
    y, w = rng.normal(size=len(weights)), np.array(weights, float)
    median = leaves.weighted_median(y, w)
    assert w @ np.abs(y - median) <= min(w @ np.abs(y - v) for v in y) + 1e-12
