"""Reduced problems of the branch nodes of one level (TAO, Theorem 3.2), and the bookkeeping of rows.

``node_of[i]`` is the node of the current level that holds row i; ``leaf[i]`` the leaf it reaches under the current
parameters and ``own[i]`` its loss there. The loss on a row's current side is ``own[i]``, known from the level above;
only the other side is routed and evaluated.
"""

import numpy as np
from numba import njit, prange

from opttree.kernels.gram import FASTMATH
from opttree.kernels.hard import route_row, row_loss, split_value
from opttree.kernels.logistic import fit_logistic
from opttree.kernels.thresholds import best_threshold


@njit(cache=True, nogil=True, parallel=True, fastmath=FASTMATH)
def pseudolabels(
    X,
    Y,
    w,
    node_of,
    slot_of,
    own,
    children,
    A,
    b,
    feature,
    values,
    coefs,
    lower,
    upper,
    loss,
    link,
    slot,
    side,
    u,
    other,
):
    """Set, for every row in a branch of the level: its side, its signed weight, and the leaf of the other side.

    ``slot_of[node]`` is the node's index in the level or -1; each row's index goes to ``slot``. ``u[i] = w_i (loss left
    - loss right)``: positive where right is better. Returns the losses on the other side (n,).
    """
    n_branches = b.size
    other_loss = np.zeros(X.shape[0])
    for i in prange(X.shape[0]):
        t = node_of[i]
        slot[i] = slot_of[t]
        if slot[i] < 0:
            u[i] = 0.0
            continue
        side[i] = 0 if split_value(X, i, A, feature, t) <= b[t] else 1
        other[i] = route_row(X, i, children[t, 1 - side[i]], children, A, b, feature)
        other_loss[i] = row_loss(X, Y, i, other[i] - n_branches, values, coefs, lower, upper, loss, link)
        gain = w[i] * (own[i] - other_loss[i])
        u[i] = -gain if side[i] == 1 else gain
    return other_loss


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True, parallel=True, fastmath=FASTMATH)
def advance(X, node_of, slot, children, A, b, feature, side, other, other_loss, leaf, own):
    """Send the rows of the level's branches to their children; rows that change sides get the leaf and loss of the
    other side.
    """
    for i in prange(X.shape[0]):
        if slot[i] < 0:
            continue
        t = node_of[i]
        new = 0 if split_value(X, i, A, feature, t) <= b[t] else 1
        if new != side[i]:
            leaf[i] = other[i]
            own[i] = other_loss[i]
        node_of[i] = children[t, new]


@njit(cache=True, nogil=True, parallel=True, fastmath=FASTMATH)
def fit_nodes(X, order, start, u, A, b, l1, l2, tol, max_iter):
    """Logistic hyperplanes of the nodes of a level, in parallel; rows of node s are ``order[start[s]:start[s + 1]]``.

    ``u`` is aligned with ``order``; ``A (nodes, p)`` and ``b (nodes,)`` hold the warm starts and are overwritten.
    """
    for s in prange(b.size):
        rows = order[start[s] : start[s + 1]]
        if rows.size:
            node_u = u[start[s] : start[s + 1]]
            b[s], _steps = fit_logistic(X, rows, node_u, np.empty(0), A[s], b[s], l1, l2, tol, max_iter)


@njit(cache=True, nogil=True, parallel=True, fastmath=FASTMATH)
def fit_thresholds(X, order, start, u, A, feature, b, min_rows):
    """Exact 0/1 thresholds along the rows of ``A`` for every node of a level, into ``b``; returns their costs."""
    cost = np.zeros(b.size)
    for s in prange(b.size):
        m = start[s + 1] - start[s]
        if m:
            z = np.empty(m)
            for e in range(m):
                z[e] = split_value(X, order[start[s] + e], A, feature, s)
            b[s], cost[s] = best_threshold(z, u[start[s] : start[s + 1]], min_rows)
    return cost
