"""Weighted logistic regression with an l1 and an l2 penalty, by proximal Newton steps in covariance mode.

The problem of one branch node (``z = a.x - b``; the signed weight ``u`` is positive where the row should go right):

    minimise over (a, b)   sum_i |u_i| log(1 + exp(-sign(u_i) (o_i + z_i)))  +  l1 |a|_1  +  l2 |a|_2^2

Each outer step forms the p x p Hessian of the loss once and minimises the quadratic model plus the penalty exactly
(`minimise_quadratic`): newGLMNET (Yuan, Ho and Lin, JMLR 2012) with the Gram matrix instead of products with the data,
since p is small here and the cost of inner iterations then does not depend on n. As the loss is convex, a full step
with a negative slope at its end has decreased the objective all the way, and that slope comes from the gradient, which
the next step needs anyway; the loss itself, with its logarithms, is evaluated only if the slope is positive. If the
first step raises the objective, the warm start was bad (rows far on their wrong side have a slope but no curvature),
and the method restarts at zero weights, where every row has full curvature. Later steps are shortened by Armijo's rule.
"""

import numpy as np

from opttree.kernels.algebra.gram import BLOCK, FASTMATH, add_weighted_gram, mirror_lower, padded
from opttree.kernels.algebra.quadratic import JITTER, minimise_quadratic
from opttree.kernels.losses.exponential import exp_minus_abs
from opttree.runtime.compiling.compiled import inner, kernel

ARMIJO_SIGMA = 0.01
MAX_TRIALS = 30
MOST_MARGIN = 1e6
ROUNDING = 1e-8  # a predicted decrease below this share of the loss may be rounding error: the start is the solution


@kernel(fastmath=FASTMATH)
def logistic_loss(z, new_z, t, u):
    """``sum_i |u_i| log(1 + exp(-sign(u_i) v_i))`` at the margins ``v = z + t (new_z - z)``."""
    total = 0.0
    for i in range(z.size):
        v = z[i] + t * (new_z[i] - z[i])
        wrong = -v if u[i] > 0.0 else v
        total += abs(u[i]) * (max(wrong, 0.0) + np.log1p(np.exp(-abs(v))))
    return total


@inner(fastmath=FASTMATH)
def _margins(X, rows, offset, x, z):
    """``z_i = offset_i + x[:p] . X[rows[i]] + x[p]``; an empty ``offset`` means none."""
    p = X.shape[1]
    for i in range(rows.size):
        s = x[p] + (offset[i] if offset.size else 0.0)
        xi = X[rows[i]]
        for k in range(p):
            s += x[k] * xi[k]
        z[i] = s


@inner(fastmath=FASTMATH)
def _weighted_sum(X, rows, c, g):
    """``g = sum_i c_i (x_i, 1)``, four rows at a time."""
    p = X.shape[1]
    g[:] = 0.0
    whole = rows.size - rows.size % 4
    for i in range(0, whole, 4):
        x0, x1, x2, x3 = X[rows[i]], X[rows[i + 1]], X[rows[i + 2]], X[rows[i + 3]]
        c0, c1, c2, c3 = c[i], c[i + 1], c[i + 2], c[i + 3]
        for k in range(p):
            g[k] += (c0 * x0[k] + c1 * x1[k]) + (c2 * x2[k] + c3 * x3[k])
        g[p] += (c0 + c1) + (c2 + c3)
    for i in range(whole, rows.size):
        x = X[rows[i]]
        for k in range(p):
            g[k] += c[i] * x[k]
        g[p] += c[i]


@inner(fastmath=FASTMATH)
def _derivatives(u, z, bits, slope, curvature):
    """First and second derivatives of each row's loss with respect to its margin, into ``slope`` and ``curvature``."""
    for start in range(0, z.size, BLOCK):
        width = min(BLOCK, z.size - start)
        e = curvature[start : start + width]
        exp_minus_abs(z, start, width, bits, e)
        for r in range(width):
            i = start + r
            s = 1.0 / (1.0 + e[r])
            right = s if z[i] >= 0.0 else e[r] * s  # sigmoid(z_i)
            weight = abs(u[i])
            slope[i] = weight * (right - (1.0 if u[i] > 0.0 else 0.0))
            e[r] = weight * s * s * e[r]


@inner()
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


@inner()
def _armijo(z, new_z, u, x, d, descent, l1, l2, trials):
    """First of the steps 1, 1/2, 1/4, ... along ``d`` with sufficient decrease of the objective, or 0 if there is
    none.
    """
    before = logistic_loss(z, z, 0.0, u)
    t = 1.0
    for _ in range(trials):
        change = logistic_loss(z, new_z, t, u) - before
        for k in range(x.size - 1):
            v = x[k] + t * d[k]
            change += l1 * (abs(v) - abs(x[k])) + l2 * (v * v - x[k] * x[k])
        if change <= ARMIJO_SIGMA * t * descent:
            return t
        t *= 0.5
    return 0.0


@inner()
def directional(g, x, d, p, l1, l2, ahead):
    """Derivative of the penalised loss along ``d`` at x; at a kink the one ahead (+1) or behind (-1)."""
    total = g[p] * d[p]
    for k in range(p):
        total += (g[k] + 2.0 * l2 * x[k]) * d[k]
        total += l1 * (d[k] if x[k] > 0.0 else -d[k] if x[k] < 0.0 else ahead * abs(d[k]))
    return total


@inner()
def _largest(z):
    """Max |z_i|; loops over numbers compile in a fraction of the time of expressions of arrays."""
    largest = 0.0
    for i in range(z.size):
        largest = max(largest, abs(z[i]))
        if z[i] != z[i]:
            return z[i]
    return largest


@inner()
def _towards(x, new, t, out):
    """``out = x + t (new - x)``."""
    for i in range(out.size):
        out[i] = x[i] + t * (new[i] - x[i])


@inner()
def _filled(out, value):
    for i in range(out.size):
        out[i] = value


@kernel()
def fit_logistic(X, rows, u, offset, a, b, l1, l2, tol, max_iter, anew):
    """Solve one node problem from the warm start ``(a, b)``; returns ``(b, Newton steps)``; the weights are in ``a``.

    ``rows (m,)`` index ``X``; ``u`` and ``offset`` (empty for none) are aligned with ``rows``. Stops when the 1-norm of
    the minimum-norm subgradient is at most ``tol * min(W+, W-) / W`` times that at zero weights, liblinear's rule.
    ``anew``: where the first full step from the warm start fails, zero weights take its place, from which few steps may
    not reach the minimum.
    """
    p = X.shape[1]
    m = rows.size
    q = padded(p)
    x = np.empty(p + 1)  # (a, intercept = -b)
    for j in range(p):
        x[j] = a[j]
    x[p] = -b
    z = np.empty(m)
    new_z = np.empty(m)
    slope = np.empty(m)
    curvature = np.empty(m)
    bits = np.empty(BLOCK, np.int64)
    g = np.empty(p + 1)
    H = np.empty((q, q))
    c = np.empty(p + 1)
    new = np.empty(p + 1)
    d = np.empty(p + 1)

    positive = 0.0
    total = 0.0
    for i in range(m):
        slope[i] = -0.5 * u[i]
        total += abs(u[i])
        positive += max(u[i], 0.0)
    _weighted_sum(X, rows, slope, g)
    _filled(new, 0.0)
    stop = tol * _violation(g, new, p, l1, l2) * min(positive, total - positive) / max(total, 1e-300)

    _margins(X, rows, offset, x, z)
    if m > 0 and not _largest(z) < 0.25 * MOST_MARGIN:  # a warm start on a plateau of the loss
        _filled(x, 0.0)
        _margins(X, rows, offset, x, z)
    _derivatives(u, z, bits, slope, curvature)
    _weighted_sum(X, rows, slope, g)
    steps = 0
    while steps < max_iter and _violation(g, x, p, l1, l2) > stop:
        steps += 1
        for j in range(q):
            _filled(H[j], 0.0)
        add_weighted_gram(X, rows, curvature, H)
        mirror_lower(H)
        # the same jitter for all coordinates: without curvature the model is unbounded in some directions
        jitter = 0.0
        for j in range(p + 1):
            jitter += JITTER * H[j, j] / (p + 1)
        for j in range(p + 1):
            H[j, j] += jitter + (2.0 * l2 if j < p else 0.0)
        # the model around x, in the new point v: c.v + v'Hv/2 + l1 |v|_1 with c = g + 2 l2 x - Hx
        for j in range(p + 1):
            s = g[j] + (2.0 * l2 * x[j] if j < p else 0.0)
            for k in range(p + 1):
                s -= H[j, k] * x[k]
            c[j] = s
            new[j] = x[j]
        minimise_quadratic(H[: p + 1, : p + 1], c, l1, p, new)
        for j in range(p + 1):
            d[j] = new[j] - x[j]
        descent = directional(g, x, d, p, l1, l2, 1.0)
        if not descent < 0.0:
            break
        _margins(X, rows, offset, new, new_z)
        farthest = _largest(new_z)
        if farthest > MOST_MARGIN:  # separable rows without a penalty: the minimiser is at infinity
            if _largest(z) >= 0.5 * MOST_MARGIN:
                break
            shrink = 0.25 * MOST_MARGIN / farthest
            for j in range(p + 1):
                d[j] *= shrink
                new[j] = x[j] + d[j]
            _towards(z, new_z, shrink, new_z)
            descent *= shrink
        _derivatives(u, new_z, bits, slope, curvature)
        _weighted_sum(X, rows, slope, g)
        t = 1.0
        begins = anew and steps == 1
        if directional(g, new, d, p, l1, l2, -1.0) > 0.0:
            t = _armijo(z, new_z, u, x, d, descent, l1, l2, 1 if begins else MAX_TRIALS)
        if t == 1.0:
            x, new = new, x
            z, new_z = new_z, z
            continue
        if t > 0.0:
            for j in range(p + 1):
                x[j] += t * d[j]
            _towards(z, new_z, t, z)
        elif begins and -descent > ROUNDING * logistic_loss(z, z, 0.0, u):
            _filled(x, 0.0)
            _margins(X, rows, offset, x, z)
        else:
            break
        _derivatives(u, z, bits, slope, curvature)
        _weighted_sum(X, rows, slope, g)
    for j in range(p):
        a[j] = x[j]
    return -x[p], steps
