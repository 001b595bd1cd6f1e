"""The smooth tree in the working sets of a decomposition: gates and leaf losses of selected rows."""

import numpy as np

from opttree.compiled import inner, kernel
from opttree.kernels.gram import FASTMATH, add_weighted_gram, mirror_lower, padded
from opttree.kernels.leaves import moment
from opttree.kernels.quadratic import solve_linear_leaf
from opttree.threads import share

MOST_ARGUMENT = 40.0  # |arguments| of gates are clamped at this, as in `smooth`
LEAST_WEIGHT = 1e-12  # a leaf with a smaller share of the weight, and no ridge, is unchanged


@inner(fastmath=FASTMATH, inline="always")
def gate(x, a, b, alpha):
    """Probability of the left branch at the split ``a . x <= b``."""
    z = b
    for k in range(x.size):
        z -= a[k] * x[k]
    z = min(max(alpha * z, -MOST_ARGUMENT), MOST_ARGUMENT)
    return 1.0 / (1.0 + np.exp(-z))


@kernel(fastmath=FASTMATH)
def gates_range(first, last, X, rows, A, b, alpha, out):
    """`gates` of some rows."""
    for i in range(first, last):
        x = X[rows[i]]
        for t in range(b.size):
            out[i, t] = gate(x, A[t], b[t], alpha)


def gates(X, rows, A, b, alpha):
    """Probability of the left branch (m, B) of rows ``X[rows]`` at the splits ``A (B, p)``, ``b (B,)``."""
    out = np.empty((rows.size, b.size))
    share(gates_range, rows.size, b.size * (X.shape[1] + 20), X, rows, A, b, alpha, out)
    return out


@kernel(fastmath=FASTMATH)
def shares_range(first, last, X, children, A, b, alpha, out):
    """`leaf_shares` of some rows."""
    n_branches = b.size
    reach = np.ones(2 * n_branches + 1)
    for i in range(first, last):
        for t in range(n_branches):
            left = reach[t] * gate(X[i], A[t], b[t], alpha)
            reach[children[t, 0]], reach[children[t, 1]] = left, reach[t] - left
        for leaf in range(n_branches + 1):
            out[i, leaf] = reach[n_branches + leaf]


def leaf_shares(X, children, A, b, alpha):
    """Probability of each leaf (n, B + 1) of rows ``X (n, p)`` in a tree of any shape, see `opttree.Tree`."""
    out = np.empty((X.shape[0], b.size + 1))
    share(shares_range, X.shape[0], b.size * (X.shape[1] + 20), X, children, A, b, alpha, out)
    return out


@kernel(fastmath=FASTMATH)
def squares_range(first, last, X, Y, rows, values, coefs, out):
    """`squared_losses` of some rows."""
    L, K, p = coefs.shape
    for i in range(first, last):
        x, y = X[rows[i]], Y[rows[i]]
        for leaf in range(L):
            total = 0.0
            for k in range(K):
                e = values[leaf, k] - y[k]
                for j in range(p):
                    e += coefs[leaf, k, j] * x[j]
                total += e * e
            out[i, leaf] = total


def squared_losses(X, Y, rows, values, coefs):
    """Squared loss (m, L) of rows at each leaf: ``values (L, K)``, ``coefs (L, K, p or 0)``."""
    out = np.empty((rows.size, values.shape[0]))
    share(squares_range, rows.size, values.size * (1 + coefs.shape[2]), X, Y, rows, values, coefs, out)
    return out


@kernel()
def equations_range(first, last, X, Y, rows, W, l2, values, coefs, equations):
    """Normal equations of some leaves, into ``equations``: Gram matrices, moments, squared norms of the gradients,
    masses; see `fit_leaves`.
    """
    grams, moments, squares, mass = equations
    _L, K, p = coefs.shape
    for leaf in range(first, last):
        weight = np.empty(rows.size)
        for i in range(rows.size):
            weight[i] = W[i, leaf]
            mass[leaf] += weight[i]
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


@kernel()
def solve_leaves(equations, l1, l2, values, coefs):
    """Solve the normal equations of all leaves with rows, see `fit_leaves`."""
    grams, moments, _squares, mass = equations
    L, K, p = coefs.shape
    v = np.empty(p + 1)
    for leaf in range(L):
        if mass[leaf] > LEAST_WEIGHT or (l2 > 0.0 and mass[leaf] > 0.0):
            for k in range(K):
                v[:p] = coefs[leaf, k]
                v[p] = values[leaf, k]
                solve_linear_leaf(grams[leaf, : p + 1, : p + 1], moments[leaf, k], l1, l2, v)
                coefs[leaf, k] = v[:p]
                values[leaf, k] = v[p]


def fit_leaves(X, Y, rows, W, l1, l2, threshold, values, coefs):
    """Weighted least squares of each leaf, ``sum_i W[i, l] |y_i - f_l(x_i)|^2 + l1 |coefs|_1 + l2 |coefs|_2^2``.

    ``W (m, L)`` belongs to ``X[rows]``. Leaves are unchanged if the norm of the gradient with respect to all of them
    (without the l1 term) is at most ``threshold``. Returns that norm before the fit.
    """
    L, K, p = coefs.shape
    q = padded(p)
    equations = np.zeros((L, q, q)), np.zeros((L, K, p + 1)), np.zeros(L), np.zeros(L)
    share(equations_range, L, rows.size * (p + 1) ** 2, X, Y, rows, W, l2, values, coefs, equations)
    norm = float(np.sqrt(equations[2].sum()))
    if norm > threshold:
        solve_leaves(equations, l1, l2, values, coefs)
    return norm
