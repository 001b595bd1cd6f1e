"""Reduced problems of the branch nodes of one level (TAO, Theorem 3.2), and the bookkeeping of rows.

``node_of[i]`` is the node of the current level that holds row i; ``leaf[i]`` the leaf it reaches under the current
parameters and ``own[i]`` its loss there. The loss on a row's current side is ``own[i]``, known from the level above;
only the other side is routed and evaluated.
"""

import numpy as np

from opttree.kernels.algebra.gram import FASTMATH
from opttree.kernels.algebra.logistic import fit_logistic
from opttree.kernels.losses.rows import row_loss
from opttree.kernels.passes.thresholds import best_threshold
from opttree.kernels.routing import levels, route_row, split_value
from opttree.runtime.compiling.compiled import kernel
from opttree.runtime.threads import share


@kernel(fastmath=FASTMATH)
def pseudolabels_range(
    first, last, X, Y, w, node_of, slot_of, own, tree, leaves, loss, link, slot, side, u, other, lost
):
    """`pseudolabels` of some rows; ``lost (n,)`` are the losses on the other side."""
    children, A, b, feature = tree
    values, coefs, lower, upper = leaves
    for i in range(first, last):
        t = node_of[i]
        slot[i] = slot_of[t]
        if slot[i] < 0:
            u[i] = 0.0
            continue
        side[i] = 0 if split_value(X, i, A, feature, t) <= b[t] else 1
        other[i] = route_row(X, i, children[t, 1 - side[i]], children, A, b, feature)
        lost[i] = row_loss(X, Y, i, other[i] - b.size, values, coefs, lower, upper, loss, link)
        gain = w[i] * (own[i] - lost[i])
        u[i] = -gain if side[i] == 1 else gain


def pseudolabels(X, Y, w, node_of, slot_of, own, tree, leaves, loss, link, slot, side, u, other):
    """Set, for every row in a branch of the level: its side, its signed weight, and the leaf of the other side.

    ``tree`` is ``(children, A, b, feature)``, ``leaves`` is ``(values, coefs, lower, upper)``. ``slot_of[node]`` is the
    node's index in the level or -1; each row's index goes to ``slot``. ``u[i] = w_i (loss left - loss right)``:
    positive where right is better. Returns the losses on the other side (n,).
    """
    lost = np.zeros(X.shape[0])
    cost = X.shape[1] * (1 + levels(tree[2].size)) + leaves[0].shape[1] * leaves[1].shape[2]
    arrays = X, Y, w, node_of, slot_of, own, tree, leaves, loss, link, slot, side, u, other, lost
    share(pseudolabels_range, lost.size, cost, *arrays)
    return lost


@kernel()
def group_rows(key, n_groups, keep):
    """Stable counting sort: ``(order, start)`` with the rows of group g in ``order[start[g]:start[g + 1]]``.

    ``key (n,)`` is the group of each row, negative for none; rows with ``keep`` zero are left out.
    """
    start = np.zeros(n_groups + 1, np.int64)
    for i in range(key.size):
        if key[i] >= 0 and keep[i] != 0.0:
            start[key[i] + 1] += 1
    for g in range(n_groups):
        start[g + 1] += start[g]
    fill = start[:-1].copy()
    order = np.empty(start[-1], np.int32)
    for i in range(key.size):
        if key[i] >= 0 and keep[i] != 0.0:
            order[fill[key[i]]] = i
            fill[key[i]] += 1
    return order, start


@kernel()
def level_weights(order, start, u, side):
    """``u`` in the order of ``order``, and each node's current cost: the summed |u| of rows on their wrong sides."""
    sorted_u = np.empty(order.size)
    cost = np.zeros(start.size - 1)
    for s in range(cost.size):
        for e in range(start[s], start[s + 1]):
            i = order[e]
            sorted_u[e] = u[i]
            if (u[i] > 0.0) != (side[i] == 1):
                cost[s] += abs(u[i])
    return sorted_u, cost


@kernel(fastmath=FASTMATH)
def advance_range(first, last, X, node_of, slot, tree, side, other, other_loss, leaf, own):
    """`advance` of some rows."""
    children, A, b, feature = tree
    for i in range(first, last):
        if slot[i] < 0:
            continue
        t = node_of[i]
        new = 0 if split_value(X, i, A, feature, t) <= b[t] else 1
        if new != side[i]:
            leaf[i] = other[i]
            own[i] = other_loss[i]
        node_of[i] = children[t, new]


def advance(X, node_of, slot, tree, side, other, other_loss, leaf, own):
    """Send the rows of the level's branches to their children; rows that change sides get the leaf and loss of the
    other side.
    """
    share(advance_range, X.shape[0], X.shape[1], X, node_of, slot, tree, side, other, other_loss, leaf, own)


@kernel(fastmath=FASTMATH)
def fit_range(first, last, X, order, start, u, A, b, l1, l2, tol, max_iter):
    """`fit_nodes` of some nodes."""
    for s in range(first, last):
        rows = order[start[s] : start[s + 1]]
        if rows.size:
            node_u = u[start[s] : start[s + 1]]
            b[s], _steps = fit_logistic(X, rows, node_u, np.empty(0), A[s], b[s], l1, l2, tol, max_iter)


def fit_nodes(X, order, start, u, A, b, l1, l2, tol, max_iter):
    """Logistic hyperplanes of the nodes of a level; rows of node s are ``order[start[s]:start[s + 1]]``.

    ``u`` is aligned with ``order``; ``A (nodes, p)`` and ``b (nodes,)`` hold the warm starts and are overwritten.
    """
    cost = order.size / max(b.size, 1) * X.shape[1] ** 2
    share(fit_range, b.size, cost, X, order, start, u, A, b, l1, l2, tol, max_iter)


@kernel(fastmath=FASTMATH)
def thresholds_range(first, last, X, order, start, u, A, feature, b, min_rows, cost):
    """`fit_thresholds` of some nodes."""
    for s in range(first, last):
        m = start[s + 1] - start[s]
        if m:
            z = np.empty(m)
            for e in range(m):
                z[e] = split_value(X, order[start[s] + e], A, feature, s)
            b[s], cost[s] = best_threshold(z, u[start[s] : start[s + 1]], min_rows)


def fit_thresholds(X, order, start, u, A, feature, b, min_rows):
    """Exact 0/1 thresholds along the rows of ``A`` for every node of a level, into ``b``; returns their costs."""
    cost = np.zeros(b.size)
    work = order.size / max(b.size, 1) * (X.shape[1] + 20)
    share(thresholds_range, b.size, work, X, order, start, u, A, feature, b, min_rows, cost)
    return cost
