"""Stable orders of numbers: NumPy's quickest sort, which is vectorised, and then the rows of equal values in order."""

import numpy as np

from opttree.runtime.compiling.compiled import kernel

FEW = 64  # numbers, below which NumPy's stable sort is as quick


@kernel()
def settle(values, order):
    """Bring the positions of equal ``values``, in ``order``, into increasing order; in place, O(n)."""
    n = order.size
    rank = np.empty(n, np.int64)
    fill = np.empty(n, np.int64)
    count = 0
    for e in range(n):
        if e == 0 or values[order[e]] != values[order[e - 1]]:
            fill[count] = e
            count += 1
        rank[order[e]] = count - 1
    if count == n:
        return
    for i in range(n):
        order[fill[rank[i]]] = i
        fill[rank[i]] += 1


def stable_order(values):
    """``np.argsort(values, axis=-1, kind="stable")`` of numbers ``(n,)`` or ``(p, n)`` without NaN, much sooner."""
    if values.ndim > 1:
        order = np.empty(values.shape, np.intp)
        for own, row in zip(order, values, strict=True):
            own[:] = stable_order(row)
        return order
    if values.size < FEW:
        return np.argsort(values, kind="stable")
    order = np.argsort(values)
    settle(values, order)
    return order
