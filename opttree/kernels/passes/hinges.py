"""Hinge splits of one node: two ridge models whose boundary is moved to where they are equal.

One Gram matrix of all rows of the node is formed; of the two sides' only that of the smaller one is, and the other is
what it leaves.
"""

import numpy as np

from opttree.kernels.algebra.gram import FASTMATH, add_weighted_gram, mirror_lower, padded
from opttree.kernels.algebra.quadratic import least_norm
from opttree.kernels.leaves.fit import moment
from opttree.runtime.compiling.compiled import inner, kernel


@kernel()
def gram_of(X, rows, w):
    """``sum_i w_i (x_i, 1)(x_i, 1)'`` as (q, q), ``q = padded(p)``."""
    q = padded(X.shape[1])
    G = np.zeros((q, q))
    add_weighted_gram(X, rows, w, G)
    mirror_lower(G)
    return G


@kernel(fastmath=FASTMATH)
def ridge_models(X, rows, w, T, G, ridge):
    """Ridge models (K, p + 1) of the columns of ``T (m, K)``, constants last; ``ridge``: relative to their weight."""
    p = X.shape[1]
    V = np.empty((T.shape[1], p + 1))
    c = np.empty(p + 1)
    for k in range(T.shape[1]):
        moment(X, rows, w, T[:, k], c)
        least_norm(G[: p + 1, : p + 1], c, ridge * G[p, p], V[k])
    return V


@inner(fastmath=FASTMATH)
def answer(x, v):
    """The answer of a model ``v (p + 1,)`` to ``x (p,)``."""
    s = v[x.size]
    for k in range(x.size):
        s += x[k] * v[k]
    return s


@kernel(fastmath=FASTMATH)
def move_boundary(X, rows, w, t, G, boundary, moves, fewest, ridge, best):
    """Move ``boundary (p + 1,)``, weights and threshold, at most so many times; False once a side has too few rows.

    ``best (p + 2,)`` is the boundary whose models had the lowest error so far, and this error.
    """
    p, m = X.shape[1], rows.size
    right = np.empty(m, np.bool_)
    some, h, y = np.empty(m, rows.dtype), np.empty(m), np.empty(m)
    own, c = np.empty_like(G), np.empty(p + 1)
    rest, c_rest = np.empty_like(G), np.empty(p + 1)
    all_moments = np.empty(p + 1)
    moment(X, rows, w, t, all_moments)
    on_few, on_rest = np.empty(p + 1), np.empty(p + 1)
    for _ in range(moves):
        n_right = 0
        for i in range(m):
            x = X[rows[i]]
            s = 0.0
            for k in range(p):
                s += x[k] * boundary[k]
            right[i] = s > boundary[p]
            n_right += right[i]
        if min(n_right, m - n_right) < fewest:
            return False
        few = n_right <= m - n_right
        size = 0
        for i in range(m):
            if right[i] == few:
                some[size], h[size], y[size] = rows[i], w[i], t[i]
                size += 1
        own[:] = 0.0
        add_weighted_gram(X, some[:size], h[:size], own)
        mirror_lower(own)
        moment(X, some[:size], h[:size], y[:size], c)
        rest[:] = G - own
        c_rest[:] = all_moments - c
        least_norm(own[: p + 1, : p + 1], c, ridge * own[p, p], on_few)
        least_norm(rest[: p + 1, : p + 1], c_rest, ridge * rest[p, p], on_rest)
        low, high = (on_rest, on_few) if few else (on_few, on_rest)
        error = convex = concave = 0.0
        for i in range(m):
            x = X[rows[i]]
            below, above = answer(x, low), answer(x, high)
            error += w[i] * (t[i] - (above if right[i] else below)) ** 2
            convex += w[i] * (t[i] - max(below, above)) ** 2
            concave += w[i] * (t[i] - min(below, above)) ** 2
        if error < best[p + 1]:
            best[: p + 1] = boundary
            best[p + 1] = error
        sign = 1.0 if convex <= concave else -1.0  # the right side is where its model is larger (max) or smaller (min)
        boundary[:p] = sign * (high[:p] - low[:p])
        boundary[p] = sign * (low[p] - high[p])
    return True
