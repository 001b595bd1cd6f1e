r"""Hard trees on arrays: routing, leaf outputs and losses.

A tree with B branch nodes and L = B + 1 leaves numbers its branches 0..B-1 and its leaves B..B+L-1, each breadth-first;
in a complete tree that is the heap order (children of t: 2t+1 and 2t+2). ``children[t] = (left, right)``; a row goes
left where ``A[t].x <= b[t]``. ``feature[t]`` is the only nonzero coordinate of ``A[t]``, or -1 where there are more.

                 0                   A, b, feature, children: one row per branch (0, 1, 2)
             /       \
            1         2              values, coefs, lower, upper: one row per leaf (3..6 -> 0..3)
          /   \     /   \
         3     4   5     6
"""

import numpy as np

from opttree.compiled import inner, kernel
from opttree.kernels.codes import ABSOLUTE, GIVEN, SQUARED, ZERO_ONE
from opttree.kernels.gram import FASTMATH
from opttree.threads import share

IDENTITY, SOFTMAX = range(2)
ROWS, NUMBERS = 64, 2**15  # rows per block in a forest's predictions, or numbers of X if those are more rows
SMALLEST_PROBABILITY = 1e-6  # the log loss of a row is capped at -log of this


@inner(fastmath=FASTMATH, inline="always")
def split_value(X, i, A, feature, t):
    """``A[t] . X[i]``, on which all routing decisions are based."""
    f = feature[t]
    if f >= 0:
        return A[t, f] * X[i, f]
    a = A[t]
    x = X[i]
    s = 0.0
    for k in range(x.size):
        s += a[k] * x[k]
    return s


@inner(inline="always")
def route_row(X, i, t, children, A, b, feature):
    """Leaf node that row ``i`` reaches from node ``t``."""
    while t < b.size:
        t = children[t, 0] if split_value(X, i, A, feature, t) <= b[t] else children[t, 1]
    return t


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


@inner(inline="always")
def row_loss(X, Y, i, leaf, values, coefs, lower, upper, loss, link):
    """Loss of row ``i`` at a leaf. ``Y (n, K)``; ``(n, 1)`` class codes for `ZERO_ONE` and `LOG`; for `GIVEN`, the
    losses ``(n, L)`` themselves.
    """
    if loss == GIVEN:
        return Y[i, leaf]
    n_outputs = values.shape[1]
    if loss in (SQUARED, ABSOLUTE):
        total = 0.0
        for k in range(n_outputs):
            r = Y[i, k] - leaf_output(X, i, leaf, k, values, coefs, lower, upper)
            total += r * r if loss == SQUARED else abs(r)
        return total
    label = int(Y[i, 0])
    own = leaf_output(X, i, leaf, label, values, coefs, lower, upper)
    if loss == ZERO_ONE:
        for k in range(n_outputs):
            if k != label:
                s = leaf_output(X, i, leaf, k, values, coefs, lower, upper)
                if s > own or (s == own and k < label):
                    return 1.0
        return 0.0
    if link == IDENTITY:
        return -np.log(min(max(own, SMALLEST_PROBABILITY), 1.0))
    odds = 0.0
    for k in range(n_outputs):
        odds += np.exp(min(leaf_output(X, i, leaf, k, values, coefs, lower, upper) - own, 700.0))
    return min(np.log(odds), -np.log(SMALLEST_PROBABILITY))


@kernel(fastmath=FASTMATH)
def project_range(first, last, X, rows, a, out):
    """`project` of some rows."""
    for i in range(first, last):
        x = X[rows[i]]
        s = 0.0
        for k in range(x.size):
            s += a[k] * x[k]
        out[i] = s


def project(X, rows, a):
    """``X[rows] @ a`` (m,) without copying the rows."""
    out = np.empty(rows.size)
    share(project_range, rows.size, a.size, X, rows, a, out)
    return out


@kernel(fastmath=FASTMATH)
def route_range(first, last, X, children, A, b, feature, out):
    """`route` of some rows."""
    for i in range(first, last):
        out[i] = route_row(X, i, 0, children, A, b, feature)


def route(X, children, A, b, feature):
    """Leaf node of every row: (n,) int32."""
    out = np.empty(X.shape[0], np.int32)
    share(route_range, out.size, A.shape[1] * levels(b.size), X, children, A, b, feature, out)
    return out


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


@kernel(fastmath=FASTMATH)
def losses_range(first, last, X, Y, leaf_node, n_branches, values, coefs, lower, upper, loss, link, out):
    """`losses` of some rows."""
    for i in range(first, last):
        out[i] = row_loss(X, Y, i, leaf_node[i] - n_branches, values, coefs, lower, upper, loss, link)


def losses(X, Y, leaf_node, n_branches, values, coefs, lower, upper, loss, link):
    """Loss (n,) of rows whose leaf nodes are known."""
    out = np.empty(X.shape[0])
    cost = values.shape[1] * (1 + coefs.shape[2])
    arrays = X, Y, leaf_node, n_branches, values, coefs, lower, upper
    share(losses_range, out.size, cost, *arrays, loss, link, out)
    return out


def levels(n_branches):
    """Levels of a balanced tree with so many branches."""
    return int(n_branches).bit_length()


def single_features(A):
    """(B,) int32: the only nonzero coordinate of each row of ``A (B, p)``, -1 for rows with none or several."""
    nonzero = A != 0.0
    return np.where(nonzero.sum(axis=1) == 1, nonzero.argmax(axis=1), -1).astype(np.int32)
