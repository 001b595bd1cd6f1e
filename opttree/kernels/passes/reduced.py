"""Reduced problems of the branch nodes of one level (TAO, Theorem 3.2), and the bookkeeping of rows.

The loss of a row on its current side is known from the level above; only the other side is routed and evaluated.
"""

from collections import namedtuple

import numpy as np

from opttree.kernels.algebra.gram import FASTMATH
from opttree.kernels.algebra.logistic import fit_logistic
from opttree.kernels.losses.rows import row_loss
from opttree.kernels.passes.thresholds import best_threshold
from opttree.kernels.records import Group
from opttree.kernels.routing import each_left, is_sparse, levels, route_row, split_value
from opttree.kernels.wide import sparse
from opttree.runtime.compiling.compiled import kernel, kernel_without_refcounts
from opttree.runtime.threads import share

# where the rows are, (n,) each: the node of the level that holds them, the leaf that they reach under the current
# parameters, and their loss there; the index of the node in the level, -1 for none (slot), the side they go to, the
# signed weight u, and the leaf and the loss on the other side
Tracks = namedtuple("Tracks", "node leaf leaf_loss slot side u other_leaf other_loss")
# the nodes of a level: X, the `Group` of their rows, and the signed weights in its order
Level = namedtuple("Level", "X group u")


@kernel_without_refcounts(fastmath=FASTMATH)
def pseudolabels_range(first, last, rows, tree, leaves, loss, link, slot_of, tracks):
    """`pseudolabels` of some rows."""
    n_branches = tree.b.size
    for i in range(first, last):
        t = tracks.node[i]
        tracks.slot[i] = slot_of[t]
        if tracks.slot[i] < 0:
            tracks.u[i] = 0.0
            continue
        tracks.side[i] = 0 if split_value(rows.X, i, tree, t) <= tree.b[t] else 1
        tracks.other_leaf[i] = route_row(rows.X, i, tree.children[t, 1 - tracks.side[i]], tree)
        tracks.other_loss[i] = row_loss(rows.X, rows.Y, i, tracks.other_leaf[i] - n_branches, leaves, loss, link)
        gain = rows.weight[i] * (tracks.leaf_loss[i] - tracks.other_loss[i])
        tracks.u[i] = -gain if tracks.side[i] == 1 else gain


def pseudolabels(rows, tree, leaves, loss, link, slot_of, tracks):
    """Set, for every row in a branch of the level: its side, its signed weight, and leaf and loss of the other side.

    ``slot_of[node]`` is the node's index in the level or -1. ``u[i] = w_i (loss left - loss right)``: positive where
    right is better.
    """
    cost = rows.X.shape[1] * (1 + levels(tree.b.size)) + leaves.values.shape[1] * leaves.coefs.shape[2]
    share(pseudolabels_range, tracks.node.size, cost, rows, tree, leaves, loss, link, slot_of, tracks)


@kernel_without_refcounts(fastmath=FASTMATH)
def others_range(first, last, X, tree, slot_of, tracks):
    """`others` of some rows."""
    for i in range(first, last):
        t = tracks.node[i]
        tracks.slot[i] = slot_of[t]
        if tracks.slot[i] >= 0:
            tracks.side[i] = 0 if split_value(X, i, tree, t) <= tree.b[t] else 1
            tracks.other_leaf[i] = route_row(X, i, tree.children[t, 1 - tracks.side[i]], tree)


def others(X, tree, slot_of, tracks):
    """The part of `pseudolabels` that needs no leaves: the side of every row, and the leaf on its other side."""
    if is_sparse(X):
        tracks.slot[:] = slot_of[tracks.node]
        rows = np.flatnonzero(tracks.slot >= 0)
        t = tracks.node[rows]
        tracks.side[rows] = ~each_left(X, rows, tree.A, tree.b, t)
        tracks.other_leaf[rows] = sparse.route(X, rows, tree.children[t, 1 - tracks.side[rows]], tree)
        return
    cost = X.shape[1] * (1 + levels(tree.b.size))
    share(others_range, tracks.node.size, cost, X, tree, slot_of, tracks)


@kernel()
def group_rows(key, n_groups, weight):
    """Stable counting sort: the `Group` of the rows of each key.

    ``key (n,)`` is the group of each row, negative for none; rows of weight zero are left out.
    """
    start = np.zeros(n_groups + 1, np.int64)
    for i in range(key.size):
        if key[i] >= 0 and weight[i] != 0.0:
            start[key[i] + 1] += 1
    for g in range(n_groups):
        start[g + 1] += start[g]
    fill = start[:-1].copy()
    order = np.empty(start[-1], np.int32)
    for i in range(key.size):
        if key[i] >= 0 and weight[i] != 0.0:
            order[fill[key[i]]] = i
            fill[key[i]] += 1
    return Group(order, start)


@kernel()
def level_weights(group, u, side):
    """``u`` in the order of ``group``, and each node's current cost: the summed |u| of rows on their wrong sides."""
    order, start = group
    sorted_u = np.empty(order.size)
    cost = np.zeros(start.size - 1)
    for s in range(cost.size):
        for e in range(start[s], start[s + 1]):
            i = order[e]
            sorted_u[e] = u[i]
            if (u[i] > 0.0) != (side[i] == 1):
                cost[s] += abs(u[i])
    return sorted_u, cost


@kernel_without_refcounts(fastmath=FASTMATH)
def advance_range(first, last, X, tree, tracks):
    """`advance` of some rows."""
    for i in range(first, last):
        if tracks.slot[i] < 0:
            continue
        t = tracks.node[i]
        new = 0 if split_value(X, i, tree, t) <= tree.b[t] else 1
        if new != tracks.side[i]:
            tracks.leaf[i] = tracks.other_leaf[i]
            tracks.leaf_loss[i] = tracks.other_loss[i]
        tracks.node[i] = tree.children[t, new]


def advance(X, tree, tracks):
    """Send the rows of the level's branches to their children; rows that change sides get the leaf and loss of the
    other side.
    """
    if is_sparse(X):
        rows = np.flatnonzero(tracks.slot >= 0)
        t = tracks.node[rows]
        right = ~each_left(X, rows, tree.A, tree.b, t)
        moved = rows[right != (tracks.side[rows] == 1)]
        tracks.leaf[moved], tracks.leaf_loss[moved] = tracks.other_leaf[moved], tracks.other_loss[moved]
        tracks.node[rows] = tree.children[t, right.astype(np.intp)]
        return
    share(advance_range, X.shape[0], X.shape[1], X, tree, tracks)


@kernel(fastmath=FASTMATH)
def fit_range(first, last, level, A, b, net, tol, max_iter):
    """`fit_nodes` of some nodes."""
    order, start = level.group
    for s in range(first, last):
        rows = order[start[s] : start[s + 1]]
        if rows.size:
            u = level.u[start[s] : start[s + 1]]
            b[s], _steps = fit_logistic(
                level.X, rows, u, np.empty(0), A[s], b[s], net.l1, net.l2, tol, max_iter, rows.size >= 0
            )


def fit_nodes(level, A, b, net, tol, max_iter):
    """Logistic hyperplanes of the nodes of a `Level`; ``A (nodes, p)`` and ``b (nodes,)`` hold the warm starts and are
    overwritten.
    """
    cost = level.u.size / max(b.size, 1) * A.shape[1] ** 2
    share(fit_range, b.size, cost, level, A, b, net, tol, max_iter)


@kernel_without_refcounts(fastmath=FASTMATH)
def values_along(level, splits, s, z):
    """`split_value` of the rows of node ``s`` of a level."""
    order, start = level.group
    for e in range(z.size):
        z[e] = split_value(level.X, order[start[s] + e], splits, s)


@kernel(fastmath=FASTMATH)
def thresholds_range(first, last, level, splits, min_rows, cost):
    """`fit_thresholds` of some nodes."""
    start = level.group.start
    for s in range(first, last):
        m = start[s + 1] - start[s]
        if m:
            z = np.empty(m)
            values_along(level, splits, s, z)
            splits.b[s], cost[s] = best_threshold(z, level.u[start[s] : start[s + 1]], min_rows)


@kernel()
def along_range(first, last, z, u, start, min_rows, b, cost):
    """`fit_thresholds` of some nodes, where ``A . x`` of their rows is known."""
    for s in range(first, last):
        if start[s + 1] > start[s]:
            b[s], cost[s] = best_threshold(z[start[s] : start[s + 1]], u[start[s] : start[s + 1]], min_rows)


def fit_thresholds(level, splits, min_rows):
    """Exact 0/1 thresholds along the directions of every node of a `Level`, into ``splits.b``; returns their costs."""
    cost = np.zeros(splits.b.size)
    if is_sparse(level.X):
        order, start = level.group
        z = sparse.values(level.X, order, splits, np.repeat(np.arange(cost.size, dtype=np.int32), np.diff(start)))
        work = 20.0 * z.size / max(cost.size, 1)
        share(along_range, cost.size, work, z, level.u, start, min_rows, splits.b, cost)
        return cost
    work = level.u.size / max(cost.size, 1) * (level.X.shape[1] + 20)
    share(thresholds_range, cost.size, work, level, splits, min_rows, cost)
    return cost
