"""Products with some rows of a table that is not copied."""

from opttree.kernels.algebra.gram import FASTMATH
from opttree.runtime.compiling.compiled import kernel


@kernel(fastmath=FASTMATH)
def products_range(first, last, X, rows, x, out):
    """``out_i = x . X[rows[i]]`` for some rows."""
    p = X.shape[1]
    for i in range(first, last):
        s, xi = 0.0, X[rows[i]]
        for k in range(p):
            s += x[k] * xi[k]
        out[i] = s


@kernel(fastmath=FASTMATH)
def sums_range(first, last, X, rows, c, bounds, out):
    """``out[t] = sum_i c_i X[rows[i]]`` over the rows between two ``bounds``, for some ``t``; four rows at a time."""
    p = X.shape[1]
    for t in range(first, last):
        g = out[t]
        whole = bounds[t] + (bounds[t + 1] - bounds[t]) // 4 * 4
        for i in range(bounds[t], whole, 4):
            x0, x1, x2, x3 = X[rows[i]], X[rows[i + 1]], X[rows[i + 2]], X[rows[i + 3]]
            c0, c1, c2, c3 = c[i], c[i + 1], c[i + 2], c[i + 3]
            for k in range(p):
                g[k] += (c0 * x0[k] + c1 * x1[k]) + (c2 * x2[k] + c3 * x3[k])
        for i in range(whole, bounds[t + 1]):
            x = X[rows[i]]
            for k in range(p):
                g[k] += c[i] * x[k]


@kernel()
def gather_range(first, last, X, rows, some, factor, out):
    """``out[i] = factor_i X[rows[i], some]`` for some rows."""
    for i in range(first, last):
        x, own, f = X[rows[i]], out[i], factor[i]
        for k in range(some.size):
            own[k] = x[some[k]] * f
