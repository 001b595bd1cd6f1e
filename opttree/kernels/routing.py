r"""The law of routing: a row goes left where ``A[t].x <= b[t]``.

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

from opttree.kernels.algebra.gram import FASTMATH
from opttree.runtime.compiling.compiled import inner, kernel
from opttree.runtime.threads import share


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
    """``a . x`` (m,) of some rows, in the arithmetic of `split_value`, without copying the rows."""
    used = np.flatnonzero(a)
    if used.size == 1:
        return a[used[0]] * X[rows, used[0]]
    out = np.empty(rows.size)
    share(project_range, rows.size, a.size, X, rows, a, out)
    return out


def goes_left(X, a, b, rows=None):
    """Whether the law sends each row left, or each of ``rows``: (m,) bool. What is written in Python calls this: a
    product of matrices, `np.sum` and `np.einsum` round otherwise, and send tied rows elsewhere.
    """
    return project(X, np.arange(X.shape[0]) if rows is None else rows, a) <= b


@kernel(fastmath=FASTMATH)
def each_left_range(first, last, X, rows, A, b, feature, branch, out):
    """`each_left` of some rows."""
    for i in range(first, last):
        t = branch[i]
        out[i] = split_value(X, rows[i], A, feature, t) <= b[t]


def each_left(X, rows, A, b, branch):
    """Whether the law sends each of ``rows`` left at a branch of its own, ``branch (m,)``: (m,) bool."""
    out = np.empty(rows.size, np.bool_)
    share(each_left_range, rows.size, A.shape[1], X, rows, A, b, single_features(A), branch, out)
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


def levels(n_branches):
    """Levels of a balanced tree with so many branches."""
    return int(n_branches).bit_length()


def single_features(A):
    """(B,) int32: the only nonzero coordinate of each row of ``A (B, p)``, -1 for rows with none or several."""
    nonzero = A != 0.0
    return np.where(nonzero.sum(axis=1) == 1, nonzero.argmax(axis=1), -1).astype(np.int32)
