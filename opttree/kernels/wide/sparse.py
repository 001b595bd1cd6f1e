"""Rows of sparse tables: routing, and the best thresholds of axis-aligned splits.

``X`` is a SciPy array of compressed rows, of which only ``data``, ``indices`` and ``indptr`` are read, its entries in
the order of their columns; `SortedColumns` are its columns. Sums run over the entries of a row in this order, so that a
row is routed alike whatever asks for it.
"""

from collections import namedtuple

import numpy as np

from opttree.kernels.passes.thresholds import TIE, level_sums
from opttree.kernels.records import Tree
from opttree.runtime.compiling.compiled import inner, kernel, kernel_without_refcounts
from opttree.runtime.threads import share

# the entries of column j, in increasing order of their values: those from start[j] to start[j + 1] of values and rows
SortedColumns = namedtuple("SortedColumns", "start rows values")
# the best split of every node of a level: column, threshold, side and cost, see `best_axis_splits`
Best = namedtuple("Best", "feature threshold side cost")
CHUNKS = 64  # of columns, whose best splits are compared in this order, for any number of threads


@inner(inline="always")
def _entry(data, indices, low, high, column):
    """The entry of a row in a column, 0 for none; the row's entries stand from ``low`` to ``high``."""
    end = high
    while low < high:
        middle = (low + high) // 2
        if indices[middle] < column:
            low = middle + 1
        else:
            high = middle
    return data[low] if low < end and indices[low] == column else 0.0


@inner(inline="always")
def sparse_value(data, indices, low, high, splits, t):
    """``A[t] . x`` of the row whose entries stand from ``low`` to ``high``."""
    f = splits.feature[t]
    if f < 0:
        a, s = splits.A[t], 0.0
        for e in range(low, high):
            s += data[e] * a[indices[e]]
        return s
    return splits.A[t, f] * _entry(data, indices, low, high, f)


@kernel_without_refcounts()
def values_range(first, last, data, indices, indptr, rows, splits, branch, out):
    """`values` of some rows."""
    for i in range(first, last):
        out[i] = sparse_value(data, indices, indptr[rows[i]], indptr[rows[i] + 1], splits, branch[i])


def values(X, rows, splits, branch):
    """``A[branch_i] . x`` (m,) of some rows, each at a branch of its own."""
    out = np.empty(rows.size)
    cost = X.data.size / max(X.shape[0], 1)
    share(values_range, rows.size, cost, X.data, X.indices, X.indptr, rows, splits, branch, out)
    return out


@kernel_without_refcounts()
def route_range(first, last, data, indices, indptr, rows, tree, node):
    """`route` of some rows."""
    tree = Tree(*tree)
    for i in range(first, last):
        t, low, high = node[i], indptr[rows[i]], indptr[rows[i] + 1]
        while t < tree.b.size:
            left = sparse_value(data, indices, low, high, tree, t) <= tree.b[t]
            t = tree.children[t, 0] if left else tree.children[t, 1]
        node[i] = t


def route(X, rows, node, tree):
    """Leaf nodes that some rows reach from nodes ``node (m,)`` of theirs, which is overwritten."""
    cost = X.data.size / max(X.shape[0], 1) * int(tree.b.size).bit_length()
    share(route_range, rows.size, cost, X.data, X.indices, X.indptr, rows, tuple(tree), node)
    return node


@kernel_without_refcounts()
def route_packed_range(first, last, data, indices, indptr, weights, children, b, node):
    """`route_packed` of some rows of a sparse table."""
    a, column, start = weights
    for i in range(first, last):
        t, low, high = 0, indptr[i], indptr[i + 1]
        while t < b.size:
            s = 0.0
            for e in range(start[t], start[t + 1]):
                s += a[e] * _entry(data, indices, low, high, column[e])
            t = children[t, 0] if s <= b[t] else children[t, 1]
        node[i] = t


@kernel_without_refcounts()
def route_packed_dense_range(first, last, X, weights, children, b, node):
    """`route_packed` of some rows of a dense table."""
    a, column, start = weights
    for i in range(first, last):
        t = 0
        while t < b.size:
            s = 0.0
            for e in range(start[t], start[t + 1]):
                s += a[e] * X[i, column[e]]
            t = children[t, 0] if s <= b[t] else children[t, 1]
        node[i] = t


def route_packed(X, weights, children, b):
    """Leaf nodes (n,) int32 of all rows, dense or sparse, for splits whose weights are compressed rows themselves:
    ``(data, indices, indptr)``.
    """
    node = np.zeros(X.shape[0], np.int32)
    cost = weights[0].size / max(b.size, 1) * int(b.size).bit_length() * 8
    if isinstance(X, np.ndarray):
        share(route_packed_dense_range, node.size, cost, X, weights, children, b, node)
    else:
        share(route_packed_range, node.size, cost, X.data, X.indices, X.indptr, weights, children, b, node)
    return node


@kernel()
def axis_range(first, last, columns, slot, u, sums, min_rows, price, bounds, best):
    """The best split of every node by the columns between two ``bounds``, into row k of ``best``, for some k.

    A column's zeros, those that have no entry, are one block between its negative and its positive numbers.
    """
    count, total, _all_right = sums
    n_slots = count.size
    seen, block = np.zeros(n_slots, np.int64), np.zeros(n_slots, np.int64)  # rows so far; rows of zeros
    running, block_u, previous = np.zeros(n_slots), np.zeros(n_slots), np.zeros(n_slots)
    for k in range(first, last):
        for j in range(bounds[k], bounds[k + 1]):
            low, high = columns.start[j], columns.start[j + 1]
            for s in range(n_slots):
                seen[s], running[s], block[s], block_u[s] = 0, 0.0, count[s], total[s]
            for e in range(low, high):
                s = slot[columns.rows[e]]
                if s >= 0:
                    block[s] -= 1
                    block_u[s] -= u[columns.rows[e]]
            zeros = True  # are still ahead
            e = low
            while e < high or zeros:
                if zeros and (e == high or columns.values[e] >= 0.0):
                    zeros = False
                    for s in range(n_slots):
                        if 0 < block[s] < count[s]:
                            _cut(k, j, s, 0.0, seen, running, previous, sums, min_rows, price, best)
                            seen[s] += block[s]
                            running[s] += block_u[s]
                            previous[s] = 0.0
                    continue
                i = columns.rows[e]
                s = slot[i]
                if s >= 0:
                    _cut(k, j, s, columns.values[e], seen, running, previous, sums, min_rows, price, best)
                    seen[s] += 1
                    running[s] += u[i]
                    previous[s] = columns.values[e]
                e += 1


@inner()
def _cut(k, j, s, x, seen, running, previous, sums, min_rows, price, best):
    """Try the cut below ``x`` in node ``s``."""
    count, total, all_right = sums
    low = previous[s]
    if seen[s] < max(min_rows, 1) or count[s] - seen[s] < min_rows or not x > low:
        return
    middle, slack = 0.5 * (low + x), TIE * all_right[s]
    left_low, left_high = all_right[s] + running[s] + price, all_right[s] + total[s] - running[s] + price
    if left_low < best.cost[k, s] - slack:
        best.feature[k, s], best.side[k, s], best.cost[k, s] = j, 1.0, left_low
        best.threshold[k, s] = middle if middle < x else low
    if left_high < best.cost[k, s] - slack:
        best.feature[k, s], best.side[k, s], best.cost[k, s] = j, -1.0, left_high
        best.threshold[k, s] = middle if middle > low else x


def best_axis_splits(columns, slot, u, n_slots, min_rows, price):
    """`opttree.kernels.passes.thresholds.best_axis_splits` on `SortedColumns`, whose zeros stand between numbers."""
    p = columns.start.size - 1
    sums = level_sums(slot, u, n_slots)
    all_left = sums.all_right + sums.total
    one_way = np.where(all_left < sums.all_right, np.inf, -np.inf)
    shape = (CHUNKS, n_slots)
    best = Best(
        np.zeros(shape, np.int32),
        np.tile(one_way, (CHUNKS, 1)),
        np.ones(shape),
        np.tile(np.minimum(all_left, sums.all_right), (CHUNKS, 1)),
    )
    work = 8.0 * (columns.rows.size + p * n_slots) / CHUNKS
    bounds = np.arange(CHUNKS + 1) * p // CHUNKS
    share(axis_range, CHUNKS, work, columns, slot, u, sums, min_rows, price, bounds, best)
    place, every = np.zeros(n_slots, np.int64), np.arange(n_slots)
    for k in range(1, CHUNKS):
        better = best.cost[k] < best.cost[place, every] - TIE * sums.all_right
        place[better] = k
    feature, threshold, side, cost = (part[place, every] for part in best)
    return feature, threshold, np.where(np.isfinite(threshold), cost - price, cost), side
