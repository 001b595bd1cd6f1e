"""Weighted logistic regression with an l1 and an l2 penalty, by proximal Newton steps in covariance mode.

The problem of one branch node (``z = a.x - b``; ``sign`` is +1 where the row should go right):

    minimise over (a, b)   sum_i w_i log(1 + exp(-s_i (o_i + z_i)))  +  l1 |a|_1  +  l2 |a|_2^2

Each outer step forms the p x p Hessian of the loss once, minimises the quadratic model plus the penalty exactly
(`minimise_quadratic`) and backtracks along the direction: newGLMNET (Yuan, Ho and Lin, JMLR 2012) with the Gram matrix
in place of products with the data, since p is small here and inner iterations then cost nothing in n.
"""

import numpy as np
from numba import njit

from opttree.kernels.gram import BLOCK, FASTMATH, add_block_gram, gather_block, mirror_lower, padded
from opttree.kernels.quadratic import minimise_quadratic

ARMIJO_SIGMA = 0.01
MAX_HALVINGS = 30


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def logistic_loss(z, sign, weight):
    """``sum_i w_i log(1 + exp(-s_i z_i))``."""
    total = 0.0
    for i in range(z.size):
        u = -sign[i] * z[i]
        total += weight[i] * (max(u, 0.0) + np.log1p(np.exp(-abs(u))))
    return total


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _margins(X, rows, x, z):
    """``z_i = x[:p] . X[rows[i]] + x[p]``."""
    p = X.shape[1]
    for i in range(rows.size):
        s = x[p]
        xi = X[rows[i]]
        for k in range(p):
            s += x[k] * xi[k]
        z[i] = s


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _violation_at_zero(X, rows, sign, weight, l1):
    """1-norm of the minimum-norm subgradient at zero weights, times ``min(W+, W-) / W``."""
    p = X.shape[1]
    g = np.zeros(p + 1)
    positive = 0.0
    total = 0.0
    for i in range(rows.size):
        xi = X[rows[i]]
        c = 0.5 * sign[i] * weight[i]
        for k in range(p):
            g[k] += c * xi[k]
        g[p] += c
        total += weight[i]
        if sign[i] > 0:
            positive += weight[i]
    norm = abs(g[p])
    for k in range(p):
        norm += max(abs(g[k]) - l1, 0.0)
    return norm * min(positive, total - positive) / total if total > 0.0 else 0.0


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _derivatives(X, rows, sign, weight, z, B, C, g, H):
    """Gradient ``g (q,)`` and Hessian ``H (q, q)`` of the loss in (a, intercept), block by block."""
    p = X.shape[1]
    slope = np.empty(BLOCK)
    curvature = np.empty(BLOCK)
    g[:] = 0.0
    H[:] = 0.0
    for start in range(0, rows.size, BLOCK):
        width = gather_block(X, rows, start, B)
        for r in range(width):
            i = start + r
            e = np.exp(-abs(z[i]))
            s = 1.0 / (1.0 + e)
            right = s if z[i] >= 0.0 else e * s  # sigmoid(z_i)
            slope[r] = weight[i] * (right - (1.0 if sign[i] > 0.0 else 0.0))
            curvature[r] = weight[i] * s * s * e
        for r in range(width, BLOCK):
            slope[r] = 0.0
            curvature[r] = 0.0
        for k in range(p + 1):
            s = 0.0
            for r in range(BLOCK):
                s += slope[r] * B[k, r]
                C[k, r] = curvature[r] * B[k, r]
            g[k] += s
        add_block_gram(B, C, H)
    mirror_lower(H)


@njit(cache=True, nogil=True)
def _violation(g, x, p, l1, l2):
    """1-norm of the minimum-norm subgradient of the penalised loss at ``x = (a, intercept)``."""
    norm = abs(g[p])
    for k in range(p):
        slope = g[k] + 2.0 * l2 * x[k]
        if x[k] > 0.0:
            norm += abs(slope + l1)
        elif x[k] < 0.0:
            norm += abs(slope - l1)
        else:
            norm += max(abs(slope) - l1, 0.0)
    return norm


@njit(cache=True, nogil=True)
def _penalty_change(x, d, t, p, l1, l2):
    change = 0.0
    for k in range(p):
        v = x[k] + t * d[k]
        change += l1 * (abs(v) - abs(x[k])) + l2 * (v * v - x[k] * x[k])
    return change


@njit(cache=True, nogil=True)
def fit_logistic(X, rows, sign, weight, offset, a, b, l1, l2, tol, max_iter):
    """Solve one node problem from the warm start ``(a, b)``; returns ``(b, Newton steps)``, the weights stay in ``a``.

    ``rows (m,)`` index ``X``; ``sign``, ``weight`` and ``offset`` (empty for none) are aligned with ``rows``. Stops
    when the 1-norm of the minimum-norm subgradient is at most ``tol * min(W+, W-) / W`` times that at zero weights,
    liblinear's rule.
    """
    p = X.shape[1]
    q = padded(p)
    x = np.empty(p + 1)  # (a, intercept = -b)
    x[:p] = a
    x[p] = -b
    z = np.empty(rows.size)
    dz = np.empty(rows.size)
    _margins(X, rows, x, z)
    if offset.size:
        z += offset
    stop = tol * _violation_at_zero(X, rows, sign, weight, l1)
    loss = logistic_loss(z, sign, weight)
    B = np.zeros((q, BLOCK))
    C = np.zeros((q, BLOCK))
    g = np.empty(q)
    H = np.empty((q, q))
    c = np.empty(p + 1)
    v = np.empty(p + 1)
    steps = 0
    while steps < max_iter:
        _derivatives(X, rows, sign, weight, z, B, C, g, H)
        if _violation(g, x, p, l1, l2) <= stop:
            break
        jitter = 0.0
        for j in range(p + 1):
            jitter += 1e-10 * H[j, j] / (p + 1)
        for j in range(p + 1):
            H[j, j] += jitter + (2.0 * l2 if j < p else 0.0)
        # the model around x, in the new point v: c.v + v'Hv/2 + l1 |v|_1 with c = g + 2 l2 x - Hx
        for j in range(p + 1):
            s = g[j] + (2.0 * l2 * x[j] if j < p else 0.0)
            for k in range(p + 1):
                s -= H[j, k] * x[k]
            c[j] = s
            v[j] = x[j]
        minimise_quadratic(H[: p + 1, : p + 1], c, l1, p, v)
        v -= x  # the direction
        predicted = _penalty_change(x, v, 1.0, p, l1, l2)
        for j in range(p + 1):
            predicted += g[j] * v[j]
        if predicted >= 0.0:
            break
        _margins(X, rows, v, dz)
        z += dz
        t = 1.0
        change = 0.0
        for _ in range(MAX_HALVINGS):
            change = logistic_loss(z, sign, weight) - loss
            if change + _penalty_change(x, v, t, p, l1, l2) <= ARMIJO_SIGMA * t * predicted:
                break
            t *= 0.5
            z -= t * dz
        else:
            break
        x += t * v
        loss += change
        steps += 1
    a[:] = x[:p]
    return -x[p], steps
