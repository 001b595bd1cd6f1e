"""Logistic regression of a node in single precision, on its rows gathered in transposed blocks: for `alternation`."""

from collections import namedtuple

import numpy as np

from opttree.kernels.algebra.gram import BLOCK, add_block_gram, gather_block, mirror_lower, padded
from opttree.kernels.algebra.logistic import directional
from opttree.kernels.algebra.quadratic import minimise_quadratic, solve_face
from opttree.kernels.losses.exponential import sigmoid
from opttree.kernels.smooth.vectors import VECTORISED
from opttree.runtime.compiling.compiled import inner

JITTER = 1e-6  # share of the mean curvature that keeps a single-precision Hessian positive definite
FARTHEST = 4.0  # mean |margin| to which warm starts are shrunk: beyond it the logistic loss has almost no curvature

# the rows of a node: B (blocks, q, BLOCK), see `gather`, and how many blocks of it are in use; rows, features; signed
# weights u (m,)
Node = namedtuple("Node", "B count m p u")


@inner(**VECTORISED)
def gather(X, rows, B):
    """Transpose ``X[rows]`` into blocks ``B (blocks, q, BLOCK)``; returns the number of blocks."""
    count = 0
    for start in range(0, rows.size, BLOCK):
        gather_block(X, rows, start, B[count])
        count += 1
    return count


@inner(**VECTORISED)
def margins(B, p, x, z, width):
    """``z = x[:p] . features + x[p]`` for the first ``width`` rows of a block."""
    one = z.dtype.type
    c = one(x[p])
    for r in range(width):
        z[r] = c
    for k in range(0, p - p % 4, 4):
        x0, x1, x2, x3 = one(x[k]), one(x[k + 1]), one(x[k + 2]), one(x[k + 3])
        b0, b1, b2, b3 = B[k], B[k + 1], B[k + 2], B[k + 3]
        for r in range(width):
            z[r] += x0 * b0[r] + x1 * b1[r] + x2 * b2[r] + x3 * b3[r]
    for k in range(p - p % 4, p):
        x0, b0 = one(x[k]), B[k]
        for r in range(width):
            z[r] += x0 * b0[r]


@inner(**VECTORISED)
def lanes(m, block):
    """Number of the ``m`` rows in a block, and that number rounded up to whole vectors."""
    width = min(BLOCK, m - block * BLOCK)
    return width, (width + 15) // 16 * 16


@inner(**VECTORISED)
def logistic_derivatives(node, x, g, H, scratch):
    """Gradient ``g (p + 1,)`` of the node's logistic loss at ``x``, and its Hessian ``H`` unless that is empty."""
    B, count, m, p, u = node
    z, slope, curvature, C = scratch
    one = z.dtype.type
    g[:] = 0.0
    H[:] = 0.0
    for block in range(count):
        b = B[block]
        start = block * BLOCK
        width, full = lanes(m, block)
        margins(b, p, x, z[0], full)
        sigmoid(z, 0, full)
        for r in range(width):
            s, v = z[0, r], u[start + r]
            slope[r] = v * (s - one(1.0)) if v > 0 else -v * s
            curvature[r] = abs(v) * s * (one(1.0) - s)
        for r in range(width, full):
            slope[r] = curvature[r] = one(0.0)
        for k in range(p + 1):
            row, total = b[k], one(0.0)
            for r in range(full):
                total += slope[r] * row[r]
            g[k] += total
        if H.size:
            for k in range(p + 1):
                row, c = b[k], C[k]
                for r in range(full):
                    c[r] = curvature[r] * row[r]
            add_block_gram(b, C, H, full)


@inner(**VECTORISED)
def newton(node, x, net, mask, steps, scratch):
    """Up to ``steps`` proximal Newton steps on a node's logistic regression, from ``x = (a, intercept)`` and in place.

    If the slope is positive at the end of a step, the step is shortened to the zero of its linear interpolation.
    Features outside ``mask`` (empty: no mask) keep zero weights.
    """
    B, count, m, p, _u = node
    l1, l2 = net
    q = padded(p)
    g, ahead = np.empty(p + 1), np.empty(p + 1)
    H = np.empty((q, q))
    none = np.empty((0, 0))
    c, new, d = np.empty(p + 1), np.empty(p + 1), np.empty(p + 1)
    z = scratch[0]
    total = 0.0
    for block in range(count):
        width, full = lanes(m, block)
        margins(B[block], p, x, z[0], full)
        for r in range(width):
            total += abs(z[0, r])
    if total > FARTHEST * m:
        x *= FARTHEST * m / total
    support, L, point = np.arange(p + 1), np.empty((p + 1, p + 1)), np.empty(p + 1)
    logistic_derivatives(node, x, g, H, scratch)
    for step in range(steps):
        mirror_lower(H)
        jitter = 0.0
        for j in range(p + 1):
            jitter += H[j, j]
        jitter = JITTER * jitter / (p + 1) + 1e-30
        for j in range(p + 1):
            if mask.size and j < p and not mask[j]:
                H[j] = 0.0
                H[:, j] = 0.0
                H[j, j] = 1.0
                g[j] = 0.0
            H[j, j] += jitter + (2.0 * l2 if j < p else 0.0)
        for j in range(p + 1):
            s = g[j] + (2.0 * l2 * x[j] if j < p else 0.0)
            for k in range(p + 1):
                s -= H[j, k] * x[k]
            c[j] = s
            new[j] = x[j]
        if l1 > 0.0:
            minimise_quadratic(H[: p + 1, : p + 1], c, l1, p, new)
        elif solve_face(H, c, 0.0, p - p, new, support, p + 1, L, point):
            new[:] = point
        d[:] = new - x
        here = directional(g, x, d, p, l1, l2, 1.0)
        if not here < 0.0:
            break
        again = step < steps - 1
        logistic_derivatives(node, new, ahead, H if again else none, scratch)
        there = directional(ahead, new, d, p, l1, l2, -1.0)
        if there <= 0.0:
            x[:], g[:] = new, ahead
        else:
            x += here / (here - there) * d
            if again:
                logistic_derivatives(node, x, g, H, scratch)
