"""Statistics of the nodes of a level over some rows, which add up over parts of a table: for passes of TAO."""

import numpy as np

from opttree.kernels.algebra.gram import FASTMATH, add_weighted_gram
from opttree.kernels.algebra.logistic import _derivatives, _margins, _weighted_sum, logistic_loss
from opttree.kernels.losses.rows import row_loss
from opttree.kernels.routing import route_row, split_value
from opttree.runtime.compiling.compiled import kernel


@kernel(fastmath=FASTMATH)
def begin(rows, tree, leaves, loss, link, depth, level, tracks):
    """The leaf of every row and its loss there; its node at a ``level``, or the leaf above. Returns the summed loss."""
    total = 0.0
    n_branches = tree.b.size
    for i in range(rows.X.shape[0]):
        t = 0
        while t < n_branches and depth[t] < level:
            t = tree.children[t, 0 if split_value(rows.X, i, tree, t) <= tree.b[t] else 1]
        tracks.node[i] = t
        tracks.leaf[i] = route_row(rows.X, i, t, tree)
        tracks.leaf_loss[i] = row_loss(rows.X, rows.Y, i, tracks.leaf[i] - n_branches, leaves, loss, link)
        total += rows.weight[i] * tracks.leaf_loss[i]
    return total


@kernel()
def newton_sums(X, group, u, at, losses, gradients, hessians):
    """Of each node of a level, the logistic loss at ``at[s]``, weights and an intercept; its gradient and Hessian."""
    order, start = group
    bits, none = np.empty(128, np.int64), np.empty(0)
    for s in range(start.size - 1):
        rows, own = order[start[s] : start[s + 1]], u[start[s] : start[s + 1]]
        z, slope, curvature = np.empty(rows.size), np.empty(rows.size), np.empty(rows.size)
        _margins(X, rows, none, at[s], z)
        losses[s] = logistic_loss(z, z, 0.0, own)
        _derivatives(own, z, bits, slope, curvature)
        _weighted_sum(X, rows, slope, gradients[s])
        add_weighted_gram(X, rows, curvature, hessians[s])


@kernel()
def bin_of(z, edges):
    """The first bin whose upper edge is at least ``z``; the last has none."""
    low, high = 0, edges.size
    while low < high:
        middle = (low + high) // 2
        if z <= edges[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@kernel(fastmath=FASTMATH)
def along_hyperplanes(X, group, u, splits, edges, weights, counts):
    """Add the signed weights of the rows of each node to the bins along its direction: ``weights (S, bins)``."""
    order, start = group
    for s in range(start.size - 1):
        for e in range(start[s], start[s + 1]):
            k = bin_of(split_value(X, order[e], splits, s), edges[s])
            weights[s, k] += u[e]
            counts[s, k] += 1


@kernel()
def along_features(X, group, u, edges, weights, counts):
    """Add the signed weights of the rows of each node to the bins of every feature: ``weights (S, p, bins)``."""
    order, start = group
    for s in range(start.size - 1):
        for e in range(start[s], start[s + 1]):
            x = X[order[e]]
            for j in range(x.size):
                k = bin_of(x[j], edges[j])
                weights[s, j, k] += u[e]
                counts[s, j, k] += 1


@kernel()
def leaf_sums(rows, leaf, n_leaves, classes, mass, sums, squares, low, high):
    """Of the rows of each leaf: weights (L,), weighted outcomes (L, K) or weights of classes, squares (L,), and the
    range of the outcomes of rows of positive weight (L, K).
    """
    for i in range(leaf.size):
        t, w = leaf[i], rows.weight[i]
        mass[t] += w
        if classes:
            sums[t, np.int64(rows.Y[i, 0])] += w
            continue
        for k in range(rows.Y.shape[1]):
            y = rows.Y[i, k]
            sums[t, k] += w * y
            squares[t] += w * y * y
            if w > 0.0:
                low[t, k], high[t, k] = min(low[t, k], y), max(high[t, k], y)


@kernel()
def linear_sums(rows, group, grams, products):
    """Of the rows of each leaf the Gram matrix of features and a one, (L, q, q), and their products with the outcomes,
    (L, K, p + 1).
    """
    order, start = group
    p = rows.X.shape[1]
    for t in range(start.size - 1):
        own = order[start[t] : start[t + 1]]
        w = np.empty(own.size)
        for e in range(own.size):
            w[e] = rows.weight[own[e]]
        add_weighted_gram(rows.X, own, w, grams[t])
        for k in range(rows.Y.shape[1]):
            total = products[t, k]
            for e in range(own.size):
                wy = w[e] * rows.Y[own[e], k]
                x = rows.X[own[e]]
                for j in range(p):
                    total[j] += wy * x[j]
                total[p] += wy


@kernel()
def exact_moments(X, Y, w, leaf, unit, rows, G, c, low, high):
    """Add the rows of positive weight to their leaves: numbers of rows (L,), Gram matrices ``G (L, q, q)`` of features
    and a one (lower halves), products with the outcomes ``c (L, K, used)``, and the range of the outcomes (L, K). With
    q of 1 the one alone counts. Each product is rounded to a multiple of ``1 / unit``, a power of two, so that sums
    have no error while they are below ``2^53 / unit``: then it does not matter how the rows are cut into parts.
    """
    p, used = X.shape[1], c.shape[2]
    x = np.ones(p + 1)
    for i in range(w.size):
        if w[i] <= 0.0:
            continue
        t = leaf[i]
        rows[t] += 1
        if used > 1:
            x[:p] = X[i]
        first = p + 1 - used
        for a in range(used):
            wa, row = w[i] * x[first + a] * unit, G[t, a]
            for b in range(a + 1):
                row[b] += np.rint(wa * x[first + b]) / unit
            for k in range(Y.shape[1]):
                c[t, k, a] += np.rint(wa * Y[i, k]) / unit
        for k in range(Y.shape[1]):
            low[t, k], high[t, k] = min(low[t, k], Y[i, k]), max(high[t, k], Y[i, k])


@kernel()
def softmax_sums(rows, group, wanted, leaves, losses, gradients, hessians):
    """Of the rows of each wanted leaf with scores of classes: the cross-entropy (L,), its gradient (L, K, p + 1), and
    what bounds its Hessian (L, C, q, q): for each class the Gram matrix of features and a one by its probabilities, or,
    where C is 1, by the largest.
    """
    order, start = group
    values, coefs = leaves.values, leaves.coefs
    K, p = values.shape[1], rows.X.shape[1]
    for t in range(start.size - 1):
        own = order[start[t] : start[t + 1]]
        if not wanted[t]:
            continue
        shares, largest = np.empty((K, own.size)), np.zeros(own.size)
        for e in range(own.size):
            i = own[e]
            x, label, top, total = rows.X[i], np.int64(rows.Y[i, 0]), -np.inf, 0.0
            for k in range(K):
                score = values[t, k]
                for j in range(p):
                    score += coefs[t, k, j] * x[j]
                shares[k, e] = score
                top = max(top, score)
            losses[t] -= rows.weight[i] * (shares[label, e] - top)
            for k in range(K):
                shares[k, e] = np.exp(shares[k, e] - top)
                total += shares[k, e]
            losses[t] += rows.weight[i] * np.log(total)
            for k in range(K):
                shares[k, e] *= rows.weight[i] / total
                largest[e] = max(largest[e], shares[k, e])
        if hessians.shape[1] == 1:
            add_weighted_gram(rows.X, own, largest, hessians[t, 0])
        for k in range(K):
            if hessians.shape[1] > 1:
                add_weighted_gram(rows.X, own, shares[k], hessians[t, k])
            for e in range(own.size):
                if np.int64(rows.Y[own[e], 0]) == k:
                    shares[k, e] -= rows.weight[own[e]]
            _weighted_sum(rows.X, own, shares[k], gradients[t, k])


@kernel()
def in_bins(X, edges):
    """Codes (p, n) uint8 of the features: the bins of `bin_of` for ``edges (p, bins - 1)``."""
    codes = np.empty((X.shape[1], X.shape[0]), np.uint8)
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            codes[j, i] = bin_of(X[i, j], edges[j])
    return codes


@kernel()
def send_on(codes, node, feature, cut, child):
    """Send rows of nodes with a ``feature`` to ``child[t]``, or to the next node where their bin is above the cut."""
    for i in range(node.size):
        t = node[i]
        if feature[t] >= 0:
            node[i] = child[t] + (codes[feature[t], i] > cut[t])


@kernel()
def histograms(codes, offset, slot, w, wt, sums):
    """Add weights and weighted targets ``wt (n, K)`` of rows in a slot to ``sums (S, bins, 1 + K)``, in which the bins
    of feature j begin at ``offset[j]``.
    """
    K = wt.shape[1]
    for j in range(codes.shape[0]):
        own, first = codes[j], offset[j]
        for i in range(slot.size):
            s = slot[i]
            if s >= 0:
                bin_ = sums[s, first + own[i]]
                bin_[0] += w[i]
                for k in range(K):
                    bin_[1 + k] += wt[i, k]


@kernel()
def best_cuts(sums, offset, least, gain, feature, cut, sides):
    """Of each node of `histograms` the best cut: its gain, feature and last bin on the left, and the sums on both sides
    (S, 2, 1 + K). A side has at least the weight ``least``.
    """
    S, _bins, both = sums.shape
    left, whole = np.empty(both), np.empty(both)
    for s in range(S):
        gain[s], feature[s] = -np.inf, -1
        for j in range(offset.size - 1):
            left[:], whole[:] = 0.0, 0.0
            for c in range(offset[j], offset[j + 1]):
                for k in range(both):
                    whole[k] += sums[s, c, k]
            before = 0.0
            for k in range(1, both):
                before += whole[k] * whole[k]
            before /= max(whole[0], 1e-300)
            for c in range(offset[j], offset[j + 1] - 1):
                for k in range(both):
                    left[k] += sums[s, c, k]
                right = whole[0] - left[0]
                if sums[s, c, 0] <= 0.0 or left[0] < least or right < least or right <= 0.0:
                    continue
                below, above = 0.0, 0.0
                for k in range(1, both):
                    below += left[k] * left[k]
                    above += (whole[k] - left[k]) * (whole[k] - left[k])
                found = below / left[0] + above / right - before
                if found > gain[s]:
                    gain[s], feature[s], cut[s] = found, j, c - offset[j]
                    for k in range(both):
                        sides[s, 0, k], sides[s, 1, k] = left[k], whole[k] - left[k]
