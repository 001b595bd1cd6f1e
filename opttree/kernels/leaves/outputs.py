"""What leaves answer: constants or linear functions of a row, clipped where bounds are given; sums over a forest."""

import numpy as np

from opttree.kernels.algebra.gram import FASTMATH
from opttree.kernels.routing import levels, split_value
from opttree.runtime.compiling.compiled import inner, kernel
from opttree.runtime.threads import share

ROWS, NUMBERS = 64, 2**15  # rows per block in a forest's predictions, or numbers of X if those are more rows


@inner(fastmath=FASTMATH, inline="always")
def leaf_output(X, i, leaf, k, values, coefs, lower, upper):
    """Output ``k`` of row ``i`` at leaf number ``leaf`` (0-based among leaves), clipped where bounds are given."""
    s = values[leaf, k]
    if coefs.shape[2]:
        w = coefs[leaf, k]
        x = X[i]
        for j in range(x.size):
            s += w[j] * x[j]
        if lower.size:
            s = min(max(s, lower[leaf, k]), upper[leaf, k])
    return s


@kernel(fastmath=FASTMATH)
def outputs_range(first, last, X, leaf_node, n_branches, values, coefs, lower, upper, out):
    """`outputs` of some rows."""
    for i in range(first, last):
        for k in range(out.shape[1]):
            out[i, k] = leaf_output(X, i, leaf_node[i] - n_branches, k, values, coefs, lower, upper)


def outputs(X, leaf_node, n_branches, values, coefs, lower, upper):
    """Leaf outputs (n, K) for rows whose leaf nodes are known."""
    out = np.empty((X.shape[0], values.shape[1]))
    cost = out.shape[1] * (1 + coefs.shape[2])
    share(outputs_range, out.shape[0], cost, X, leaf_node, n_branches, values, coefs, lower, upper, out)
    return out


@kernel(fastmath=FASTMATH)
def forest_range(first_row, last_row, X, first, children, A, b, feature, values, coefs, lower, upper, out):
    """`forest_outputs` of some rows, in blocks that pass through all trees: a block stays in the cache, and a tree,
    which may be larger, is read once for all its rows.
    """
    n_outputs = out.shape[1]
    size = max(ROWS, NUMBERS // X.shape[1])
    for start in range(first_row, last_row, size):
        last = min(start + size, last_row)
        for tree in range(first.size - 1):
            root, n_branches = first[tree], first[tree + 1] - first[tree]
            for i in range(start, last):
                t = 0
                while t < n_branches:
                    side = 0 if split_value(X, i, A, feature, root + t) <= b[root + t] else 1
                    t = children[root + t, side]
                leaf = root + tree + t - n_branches
                for k in range(n_outputs):
                    out[i, k] += leaf_output(X, i, leaf, k, values, coefs, lower, upper)


def forest_outputs(X, first, children, A, b, feature, values, coefs, lower, upper):
    """Summed leaf outputs (n, K) of trees stored one after another in the arrays: tree t has the branches
    ``first[t]:first[t + 1]``, and its leaves, one more, start at ``first[t] + t``.
    """
    n, n_trees = X.shape[0], first.size - 1
    out = np.zeros((n, values.shape[1]))
    cost = X.shape[1] * n_trees * (levels(b.size // n_trees) + 1)
    arrays = X, first, children, A, b, feature, values, coefs, lower, upper, out
    share(forest_range, n, cost, *arrays)
    return out
