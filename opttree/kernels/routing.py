r"""The law of routing: a row goes left where ``A[t].x <= b[t]``, by the arithmetic of `split_value`.

A tree with B branch nodes and L = B + 1 leaves numbers its branches 0..B-1 and its leaves B..B+L-1, each breadth-first;
in a complete tree that is the heap order (children of t: 2t+1 and 2t+2). ``children[t] = (left, right)``.
``feature[t]`` is the only nonzero coordinate of ``A[t]``, or -1 where there are more.

                 0                   `Tree`: one row per branch (0, 1, 2)
             /       \
            1         2              `Leaves`: one row per leaf (3..6 -> 0..3)
          /   \     /   \
         3     4   5     6

Whatever decides the side of a row in a hard tree agrees with `split_value`, which sums in this order in float64; rows
that lie on a hyperplane go left. Kernels call it, and what is written in Python asks `route`, `goes_left` or
`each_left`, or compares `project` with a threshold. Sums in another order (``@``, `np.sum`, `np.einsum`) send such rows
elsewhere. Gates of soft trees, forests in single precision and exported code route by sums of their own, and rows of
sparse tables by sums over their entries, see `opttree.kernels.wide.sparse`.
"""

import numpy as np

from opttree.kernels.algebra.gram import FASTMATH
from opttree.kernels.records import Splits, Tree
from opttree.kernels.wide import sparse
from opttree.runtime.compiling.compiled import inner, kernel, kernel_without_refcounts
from opttree.runtime.threads import share


@inner(fastmath=FASTMATH, inline="always")
def split_value(X, i, splits, t):
    """``A[t] . X[i]``, on which all routing decisions are based; ``splits`` is a `Tree` or `Splits`."""
    f = splits.feature[t]
    if f >= 0:
        return splits.A[t, f] * X[i, f]
    a = splits.A[t]
    x = X[i]
    s = 0.0
    for k in range(x.size):
        s += a[k] * x[k]
    return s


@inner(inline="always")
def route_row(X, i, t, tree):
    """Leaf node that row ``i`` reaches from node ``t``."""
    while t < tree.b.size:
        t = tree.children[t, 0] if split_value(X, i, tree, t) <= tree.b[t] else tree.children[t, 1]
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
    if is_sparse(X):
        splits = Splits(a[None], np.zeros(1), single_features(a[None]))
        return sparse.values(X, rows, splits, np.zeros(rows.size, np.int32))
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


@kernel_without_refcounts(fastmath=FASTMATH)
def each_left_range(first, last, X, rows, splits, branch, out):
    """`each_left` of some rows."""
    for i in range(first, last):
        t = branch[i]
        out[i] = split_value(X, rows[i], splits, t) <= splits.b[t]


def each_left(X, rows, A, b, branch):
    """Whether the law sends each of ``rows`` left at a branch of its own, ``branch (m,)``: (m,) bool."""
    if is_sparse(X):
        return sparse.values(X, rows, Splits(A, b, single_features(A)), branch) <= b[branch]
    out = np.empty(rows.size, np.bool_)
    share(each_left_range, rows.size, A.shape[1], X, rows, Splits(A, b, single_features(A)), branch, out)
    return out


@kernel_without_refcounts(fastmath=FASTMATH)
def route_range(first, last, X, tree, out):
    """`route` of some rows."""
    tree = Tree(*tree)
    for i in range(first, last):
        out[i] = route_row(X, i, 0, tree)


def route(X, tree):
    """Leaf node of every row: (n,) int32."""
    if is_sparse(X):
        return sparse.route(X, np.arange(X.shape[0]), np.zeros(X.shape[0], np.int32), tree)
    out = np.empty(X.shape[0], np.int32)
    share(route_range, out.size, tree.A.shape[1] * levels(tree.b.size), X, tuple(tree), out)
    return out


def is_sparse(X):
    """Whether a table is one of compressed rows."""
    return not isinstance(X, np.ndarray)


def levels(n_branches):
    """Levels of a balanced tree with so many branches."""
    return int(n_branches).bit_length()


def single_features(A):
    """(B,) int32: the only nonzero coordinate of each row of ``A (B, p)``, -1 for rows with none or several."""
    nonzero = A != 0.0
    return np.where(nonzero.sum(axis=1) == 1, nonzero.argmax(axis=1), -1).astype(np.int32)
