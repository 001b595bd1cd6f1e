"""What leaves answer: constants or linear functions of a row, clipped where bounds are given; sums over a forest."""

import numpy as np

from opttree.kernels.algebra.gram import FASTMATH
from opttree.kernels.records import Leaves, Tree
from opttree.kernels.routing import levels, split_value
from opttree.runtime.compiling.compiled import inner, kernel_without_refcounts
from opttree.runtime.threads import share

ROWS, NUMBERS = 64, 2**15  # rows per block in a forest's predictions, or numbers of X if those are more rows


@inner(fastmath=FASTMATH, inline="always")
def leaf_output(X, i, leaf, k, leaves):
    """Output ``k`` of row ``i`` at leaf number ``leaf`` (0-based among leaves), clipped where bounds are given."""
    s = leaves.values[leaf, k]
    if leaves.coefs.shape[2]:
        w = leaves.coefs[leaf, k]
        x = X[i]
        for j in range(x.size):
            s += w[j] * x[j]
        if leaves.lower.size:
            s = min(max(s, leaves.lower[leaf, k]), leaves.upper[leaf, k])
    return s


@kernel_without_refcounts(fastmath=FASTMATH)
def outputs_range(first, last, X, leaf_node, leaves, out):
    """`outputs` of some rows."""
    leaves = Leaves(*leaves)
    n_branches = leaves.values.shape[0] - 1
    for i in range(first, last):
        for k in range(out.shape[1]):
            out[i, k] = leaf_output(X, i, leaf_node[i] - n_branches, k, leaves)


def outputs(X, leaf_node, leaves):
    """Leaf outputs (n, K) for rows whose leaf nodes are known."""
    out = np.empty((X.shape[0], leaves.values.shape[1]))
    cost = out.shape[1] * (1 + leaves.coefs.shape[2])
    share(outputs_range, out.shape[0], cost, X, leaf_node, tuple(leaves), out)
    return out


@kernel_without_refcounts(fastmath=FASTMATH)
def forest_range(first_row, last_row, X, first, tree, leaves, out):
    """`forest_outputs` of some rows, in blocks that pass through all trees: a block stays in the cache, and a tree,
    which may be larger, is read once for all its rows.
    """
    tree, leaves = Tree(*tree), Leaves(*leaves)
    n_outputs = out.shape[1]
    size = max(ROWS, NUMBERS // X.shape[1])
    for start in range(first_row, last_row, size):
        last = min(start + size, last_row)
        for number in range(first.size - 1):
            root, n_branches = first[number], first[number + 1] - first[number]
            for i in range(start, last):
                t = 0
                while t < n_branches:
                    side = 0 if split_value(X, i, tree, root + t) <= tree.b[root + t] else 1
                    t = tree.children[root + t, side]
                leaf = root + number + t - n_branches
                for k in range(n_outputs):
                    out[i, k] += leaf_output(X, i, leaf, k, leaves)


def forest_outputs(X, first, tree, leaves):
    """Summed leaf outputs (n, K) of trees stored one after another in a `Tree` and `Leaves`: tree t has the branches
    ``first[t]:first[t + 1]``, and its leaves, one more, start at ``first[t] + t``.
    """
    n, n_trees = X.shape[0], first.size - 1
    out = np.zeros((n, leaves.values.shape[1]))
    cost = X.shape[1] * n_trees * (levels(tree.b.size // n_trees) + 1)
    share(forest_range, n, cost, X, first, tuple(tree), tuple(leaves), out)
    return out
