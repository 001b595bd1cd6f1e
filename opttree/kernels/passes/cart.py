"""CART's splits, level by level: of all nodes of a level and all features, on presorted rows.

The rows of the nodes of a level lie one after another in `Grown.order`, within each node in increasing order of a
feature; a split parts them stably, so that nothing is sorted again.
"""

from collections import namedtuple

import numpy as np

from opttree.kernels.passes.thresholds import TIE, between
from opttree.runtime.compiling.compiled import inner, kernel
from opttree.runtime.threads import share

# of each node of a level, (p, nodes): what a split explains, and the two values between which it lies
Cuts = namedtuple("Cuts", "gain low high")


@inner()
def scan_number(x, order, first, last, wy, w, least):
    """The best cut of rows ``order[first:last]``, sorted by ``x``, of one number: its gain, low and high.

    ``wy`` are the numbers times the weights ``w``.
    """
    weight = total = below = left = 0.0
    for e in range(first, last):
        weight += w[order[e]]
        total += wy[order[e]]
    best, low, high = -np.inf, 0.0, 0.0
    b = x[order[first]]
    for e in range(first, last - least):
        i, a = order[e], b
        b = x[order[e + 1]]
        below += w[i]
        left += wy[i]
        above, right = weight - below, total - left
        if a < b and e + 1 - first >= least and below > 0.0 and above > 0.0:
            gain = left * left * above + right * right * below
            if gain > best * (below * above):
                best, low, high = gain / (below * above), a, b
    return best, low, high


@inner()
def scan_numbers(x, order, first, last, WY, w, least):
    """`scan_number` for several numbers ``WY (n, K)``, times the weights."""
    K = WY.shape[1]
    left, total = np.zeros(K), np.zeros(K)
    weight = below = 0.0
    for e in range(first, last):
        i = order[e]
        weight += w[i]
        for k in range(K):
            total[k] += WY[i, k]
    best, low, high = -np.inf, 0.0, 0.0
    for e in range(first, last - least):
        i = order[e]
        below += w[i]
        gain = 0.0
        above = weight - below
        for k in range(K):
            left[k] += WY[i, k]
            right = total[k] - left[k]
            gain += left[k] * left[k] * above + right * right * below
        if e + 1 - first >= least and below > 0.0 and above > 0.0:
            a, b = x[i], x[order[e + 1]]
            if a < b and gain > best * (below * above):
                best, low, high = gain / (below * above), a, b
    return best, low, high


@inner()
def scan_labels(x, order, first, last, label, w, least, n_classes):
    """`scan_numbers` for classes: of all rows of a side, what the shares of the classes explain (Gini)."""
    left, right = np.zeros(n_classes), np.zeros(n_classes)
    below = above = 0.0
    for e in range(first, last):
        i = order[e]
        above += w[i]
        right[label[i]] += w[i]
    squares_left, squares_right = 0.0, 0.0
    for k in range(n_classes):
        squares_right += right[k] * right[k]
    best, low, high = -np.inf, 0.0, 0.0
    for e in range(first, last - least):
        i = order[e]
        k, v = label[i], w[i]
        squares_left += v * (2.0 * left[k] + v)
        squares_right -= v * (2.0 * right[k] - v)
        left[k] += v
        right[k] -= v
        below += v
        above -= v
        if e + 1 - first >= least and below > 0.0 and above > 0.0:
            a, b = x[i], x[order[e + 1]]
            gain = squares_left * above + squares_right * below
            if a < b and gain > best * (below * above):
                best, low, high = gain / (below * above), a, b
    return best, low, high


@kernel()
def cut_range(first, last, X, order, start, WY, label, w, least, n_classes, gain, low, high):
    """The best cuts of some features for all nodes of a level, into (p, nodes)."""
    x = np.empty(X.shape[0])
    for j in range(first, last):
        for i in range(x.size):
            x[i] = X[i, j]
        for s in range(start.size - 1):
            if WY.shape[1] == 1:
                found = scan_number(x, order[j], start[s], start[s + 1], WY[:, 0], w, least)
            elif n_classes:
                found = scan_labels(x, order[j], start[s], start[s + 1], label, w, least, n_classes)
            else:
                found = scan_numbers(x, order[j], start[s], start[s + 1], WY, w, least)
            gain[j, s], low[j, s], high[j, s] = found


@kernel()
def part_range(first, last, order, start, splits, right, new, new_start):
    """Part the rows of the split nodes, stably, for some features; rows of other nodes are left out."""
    for j in range(first, last):
        child = 0
        for s in range(start.size - 1):
            if not splits[s]:
                continue
            a, b = new_start[child], new_start[child + 1]
            for e in range(start[s], start[s + 1]):
                i = order[j, e]
                if right[i]:
                    new[j, b] = i
                    b += 1
                else:
                    new[j, a] = i
                    a += 1
            child += 2


@kernel()
def mixed(order, start, Y):
    """(nodes,) whether the rows of each node differ in ``Y``."""
    found = np.zeros(start.size - 1, np.bool_)
    for s in range(found.size):
        for e in range(start[s] + 1, start[s + 1]):
            for k in range(Y.shape[1]):
                found[s] = found[s] or Y[order[e], k] != Y[order[start[s]], k]
            if found[s]:
                break
    return found


def grow(X, presorted, Y, label, w, depth, least, n_classes, draw):
    """Links ``left, right`` (-1 at leaves), features and thresholds of CART's tree, nodes level by level.

    ``presorted (p, n)``: the rows in increasing order of each feature; ``label (n,)``: codes of ``n_classes`` classes,
    which ``Y (n, 1)`` holds, too; no classes for numbers ``Y (n, K)`` whose means are about 0. Rows of weight zero are
    left out. Of equal cuts one is taken at random: ``draw`` gives
    numbers between 0 and 1.
    """
    n, p = X.shape
    order = presorted if w.all() else presorted[w[presorted] > 0.0].reshape(p, -1)
    start, nodes = np.array([0, order.shape[1]]), [0]
    # of two classes the Gini impurity is twice the squared error of the shares of one
    WY = np.zeros((n, 2)) if n_classes > 2 else Y * w[:, None]
    left, right, feature, threshold = [-1], [-1], [-1], [0.0]
    for _level in range(depth):
        cuts = Cuts(*np.empty((3, p, len(nodes))))
        cost = 3.0 * start[-1] * (1 if n_classes else Y.shape[1]) + n
        share(cut_range, p, cost, X, order, start, WY, label, w, least, n_classes, *cuts)
        at = np.arange(len(nodes))
        equal = cuts.gain >= cuts.gain.max(axis=0) * (1.0 - TIE)
        best = np.argmax(equal * draw(equal.shape), axis=0)
        splits = mixed(order[0], start, Y) & (cuts.gain[best, at] > -np.inf)
        if not splits.any():
            break
        goes_right, below, sizes = np.zeros(n, bool), [], [0]
        for s in np.flatnonzero(splits):
            j, t = int(best[s]), nodes[s]
            b = float(between(cuts.low[j, s], cuts.high[j, s]))
            rows = order[j, start[s] : start[s + 1]]
            size = int(np.searchsorted(X[rows, j], b, side="right"))
            goes_right[rows[size:]] = True
            left[t], right[t], feature[t], threshold[t] = len(left), len(left) + 1, j, b
            below += [len(left), len(left) + 1]
            sizes += [size, rows.size - size]
            for links in (left, right, feature):
                links += [-1, -1]
            threshold += [0.0, 0.0]
        new_start = np.cumsum(sizes)
        new = np.empty((p, new_start[-1]), order.dtype)
        share(part_range, p, 2.0 * start[-1], order, start, splits, goes_right, new, new_start)
        order, start, nodes = new, new_start, below
    return left, right, feature, threshold
