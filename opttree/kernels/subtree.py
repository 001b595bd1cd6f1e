"""The smooth tree in the working sets of a decomposition: gates and leaf losses of selected rows."""

import numpy as np
from numba import njit, prange

from opttree.kernels.gram import FASTMATH, add_weighted_gram, mirror_lower, padded
from opttree.kernels.leaves import moment
from opttree.kernels.quadratic import solve_linear_leaf

MOST_ARGUMENT = 40.0  # |arguments| of gates are clamped at this, as in `smooth`
LEAST_WEIGHT = 1e-12  # a leaf with a smaller share of the weight, and no ridge, is unchanged


@njit(cache=True, nogil=True, fastmath=FASTMATH, inline="always")
def gate(x, a, b, alpha):
    """Probability of the left branch at the split ``a . x <= b``."""
    z = b
    for k in range(x.size):
        z -= a[k] * x[k]
    z = min(max(alpha * z, -MOST_ARGUMENT), MOST_ARGUMENT)
    return 1.0 / (1.0 + np.exp(-z))


@njit(cache=True, nogil=True, parallel=True, fastmath=FASTMATH)
def gates(X, rows, A, b, alpha):
    """Probability of the left branch (m, B) of rows ``X[rows]`` at the splits ``A (B, p)``, ``b (B,)``."""
    out = np.empty((rows.size, b.size))
    for i in prange(rows.size):
        x = X[rows[i]]
        for t in range(b.size):
            out[i, t] = gate(x, A[t], b[t], alpha)
    return out


@njit(cache=True, nogil=True, parallel=True, fastmath=FASTMATH)
def leaf_shares(X, children, A, b, alpha):
    """Probability of each leaf (n, B + 1) of rows ``X (n, p)`` in a tree of any shape, see `opttree.Tree`."""
    n_branches = b.size
    out = np.empty((X.shape[0], n_branches + 1))
    for i in prange(X.shape[0]):
        reach = np.ones(2 * n_branches + 1)
        for t in range(n_branches):
            left = reach[t] * gate(X[i], A[t], b[t], alpha)
            reach[children[t, 0]], reach[children[t, 1]] = left, reach[t] - left
        out[i] = reach[n_branches:]
    return out


@njit(cache=True, nogil=True, parallel=True, fastmath=FASTMATH)
def squared_losses(X, Y, rows, values, coefs):
    """Squared loss (m, L) of rows at each leaf: ``values (L, K)``, ``coefs (L, K, p or 0)``."""
    L, K, p = coefs.shape
    out = np.empty((rows.size, L))
    for i in prange(rows.size):
        x, y = X[rows[i]], Y[rows[i]]
        for leaf in range(L):
            total = 0.0
            for k in range(K):
                e = values[leaf, k] - y[k]
                for j in range(p):
                    e += coefs[leaf, k, j] * x[j]
                total += e * e
            out[i, leaf] = total
    return out


@njit(cache=True, nogil=True, parallel=True)
def fit_leaves(X, Y, rows, W, l1, l2, threshold, values, coefs):
    """Weighted least squares of each leaf, ``sum_i W[i, l] |y_i - f_l(x_i)|^2 + l1 |coefs|_1 + l2 |coefs|_2^2``.

    ``W (m, L)`` belongs to ``X[rows]``. Leaves are unchanged if the norm of the gradient with respect to all of them
    (without the l1 term) is at most ``threshold``. Returns that norm before the fit.
    """
    L, K, p = coefs.shape
    q = padded(p)
    grams, moments = np.zeros((L, q, q)), np.zeros((L, K, p + 1))
    squares, mass = np.zeros(L), np.zeros(L)
    for leaf in prange(L):
        weight = np.ascontiguousarray(W[:, leaf])
        mass[leaf] = weight.sum()
        if p == 0:
            grams[leaf, 0, 0] = mass[leaf]
            for k in range(K):
                for i in range(rows.size):
                    moments[leaf, k, 0] += weight[i] * Y[rows[i], k]
        else:
            add_weighted_gram(X, rows, weight, grams[leaf])
            mirror_lower(grams[leaf])
            for k in range(K):
                moment(X, rows, weight, Y[rows, k], moments[leaf, k])
        for k in range(K):
            for i in range(p + 1):
                slope = grams[leaf, i, p] * values[leaf, k] - moments[leaf, k, i]
                if i < p:
                    slope += l2 * coefs[leaf, k, i]
                for j in range(p):
                    slope += grams[leaf, i, j] * coefs[leaf, k, j]
                squares[leaf] += 4.0 * slope * slope
    norm = np.sqrt(squares.sum())
    if norm <= threshold:
        return norm
    for leaf in prange(L):
        if mass[leaf] > LEAST_WEIGHT or (l2 > 0.0 and mass[leaf] > 0.0):
            v = np.empty(p + 1)
            for k in range(K):
                v[:p] = coefs[leaf, k]
                v[p] = values[leaf, k]
                solve_linear_leaf(grams[leaf, : p + 1, : p + 1], moments[leaf, k], l1, l2, v)
                coefs[leaf, k] = v[:p]
                values[leaf, k] = v[p]
    return norm
