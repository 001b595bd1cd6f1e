"""The loss of a row at a leaf, for every named loss."""

import numpy as np

from opttree.kernels.algebra.gram import FASTMATH
from opttree.kernels.leaves.outputs import leaf_output
from opttree.kernels.losses.codes import ABSOLUTE, IDENTITY, SMALLEST_PROBABILITY, SQUARED, TABLE, ZERO_ONE
from opttree.runtime.compiling.compiled import inner, kernel_without_refcounts
from opttree.runtime.threads import share


@inner(inline="always")
def row_loss(X, Y, i, leaf, leaves, loss, link):
    """Loss of row ``i`` at a leaf. ``Y (n, K)``; ``(n, 1)`` class codes for `ZERO_ONE` and `LOG`; for `TABLE`, the
    losses ``(n, L)`` themselves.
    """
    if loss == TABLE:
        return Y[i, leaf]
    n_outputs = leaves.values.shape[1]
    if loss in (SQUARED, ABSOLUTE):
        total = 0.0
        for k in range(n_outputs):
            r = Y[i, k] - leaf_output(X, i, leaf, k, leaves)
            total += r * r if loss == SQUARED else abs(r)
        return total
    label = int(Y[i, 0])
    own = leaf_output(X, i, leaf, label, leaves)
    if loss == ZERO_ONE:
        for k in range(n_outputs):
            if k != label:
                s = leaf_output(X, i, leaf, k, leaves)
                if s > own or (s == own and k < label):
                    return 1.0
        return 0.0
    if link == IDENTITY:
        return -np.log(min(max(own, SMALLEST_PROBABILITY), 1.0))
    odds = 0.0
    for k in range(n_outputs):
        odds += np.exp(min(leaf_output(X, i, leaf, k, leaves) - own, 700.0))
    return min(np.log(odds), -np.log(SMALLEST_PROBABILITY))


@kernel_without_refcounts(fastmath=FASTMATH)
def losses_range(first, last, rows, leaf_node, leaves, loss, link, out):
    """`losses` of some rows."""
    n_branches = leaves.values.shape[0] - 1
    for i in range(first, last):
        out[i] = row_loss(rows.X, rows.Y, i, leaf_node[i] - n_branches, leaves, loss, link)


def losses(rows, leaf_node, leaves, loss, link):
    """Loss (n,) of rows whose leaf nodes are known."""
    out = np.empty(leaf_node.size)
    cost = leaves.values.shape[1] * (1 + leaves.coefs.shape[2])
    share(losses_range, out.size, cost, rows, leaf_node, leaves, loss, link, out)
    return out
