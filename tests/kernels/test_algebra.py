"""Linear algebra of the kernels against NumPy, SciPy and scikit-learn."""

import numpy as np
import pytest
from scipy.optimize import minimize

from opttree.kernels.algebra.gram import add_weighted_gram, mirror_lower, padded
from opttree.kernels.algebra.logistic import fit_logistic
from opttree.kernels.algebra.quadratic import minimise_quadratic, solve_linear_leaf


@pytest.mark.parametrize(("m", "p"), [(1, 1), (5, 3), (127, 4), (128, 7), (300, 18), (1000, 21)])
def test_weighted_gram(rng, m, p):
    X, h = rng.normal(size=(2 * m, p)), rng.uniform(size=m)
    rows = rng.permutation(2 * m)[:m].astype(np.int32)
    G = np.zeros((padded(p), padded(p)))
    add_weighted_gram(X, rows, h, G)
    mirror_lower(G)
    Z = np.hstack([X[rows], np.ones((m, 1))])
    np.testing.assert_allclose(G[: p + 1, : p + 1], (Z * h[:, None]).T @ Z, rtol=1e-12, atol=1e-12)


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
    b, _steps = fit_logistic(X, rows, sign * weight, offset, a, 0.0, l1, l2, 1e-10, 200, True)
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
    best_b, _ = fit_logistic(X, rows, sign * weight, np.zeros(0), best, 0.0, 1e-4, 0.0, 1e-10, 500, True)
    a = start * rng.normal(size=p)
    b, steps = fit_logistic(X, rows, sign * weight, np.zeros(0), a, start, 1e-4, 0.0, 1e-8, 500, True)
    values = [
        _logistic_objective(np.append(w, -c), X, sign, weight, 0.0, 1e-4, 0.0) for w, c in ((a, b), (best, best_b))
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-7)
    assert steps < 100


def test_leaves_without_a_penalty_are_of_least_norm():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    X[:, 3], X[:, 4] = X[:, 1] - 2.0 * X[:, 0], 3.7
    for rows in (40, 4, 1):
        A, y = X[:rows], rng.normal(size=rows)
        Z = np.column_stack([A, np.ones(rows)])
        v = np.zeros(6)
        solve_linear_leaf(Z.T @ Z / rows, Z.T @ y / rows, 0.0, 0.0, v)
        unit = np.maximum(A.std(axis=0), 1e-12)
        least = np.linalg.lstsq((A - A.mean(axis=0)) / unit, y - y.mean(), rcond=1e-6)[0] / unit
        np.testing.assert_allclose(v[:5], least, atol=1e-8)
        assert v[5] == pytest.approx(y.mean() - A.mean(axis=0) @ least, abs=1e-8)
