"""Histograms of a node's rows over buckets of every feature, and the best split of one side of a cut from them.

A bucket is a range of a feature's sorted order that ends where the value changes. Splits at the ends of buckets are
evaluated exactly from running sums; a split inside a bucket costs at least the cost of what is left of the bucket plus
the cost of what is right of it, so that the rows of few buckets need to be visited.
"""

from collections import namedtuple

import numpy as np

from opttree.kernels.exact.intervals import close, copy_reach, widen
from opttree.kernels.exact.statistics import add_row, cost, costs
from opttree.kernels.exact.vectors import WIDTH, add_four
from opttree.kernels.losses.codes import SQUARED
from opttree.runtime.compiling.compiled import kernel_without_refcounts

BUCKETS = 64  # of a feature, at most
STOP, NODES, EVALUATIONS, SCANS, MOST = range(5)  # of ``counts``: whether to stop, set by other threads; searches,
# evaluated cuts, buckets whose rows were visited; evaluated cuts from which on to stop
NEAR = np.sqrt(2.0) - 1.0  # of an octagon around the unit circle: its corners are (1, NEAR), (NEAR, 1) and so on
PER_ROOT = 1.5  # buckets per square root of the number of rows

# number (n, p) uint8: the bucket of every row of the node; count (p,) buckets; ends (p, BUCKETS + 1): their bounds in
# the sorted order; top (p, BUCKETS): rank of a bucket's last row; several (p, BUCKETS): whether its rows differ; total
# (p, BUCKETS, S): histogram of all rows of the node; pool (held, p, BUCKETS, S) of histograms, how many intervals use
# each, the free ones and their number. Scratch: running sums left and right (S, BUCKETS), costs before and after a
# bucket's end (BUCKETS,), bound (p, BUCKETS) of splits inside, own, rest and work (S,); for both sides at once the
# running sums cumulated (p, 4, BUCKETS) of all rows and sums of the left side, value (BUCKETS,) of the ends, bounds
# (2, p, BUCKETS), open (2,): whether a side is looked at, costs
# ends_before (BUCKETS + 1,), from none on
Buckets = namedtuple(
    "Buckets",
    "number count ends top several total pool users free n_free left right before after bound own rest work cumulated "
    "sums value bounds open ends_before",
)
# of a side of a cut: whether it is the right one, its statistics (S,), its best split (2,), feature and rank, and the
# reach (p, 2) of its splits, given and found, in buckets
Side = namedtuple("Side", "right total split reach new_reach")


def make_buckets(n, p, n_statistics, held):
    """Work space for nodes of up to ``n`` rows; ``held`` histograms are kept at a time."""
    return Buckets(
        np.empty((n, p), np.uint8),
        np.zeros(p, np.int64),
        np.zeros((p, BUCKETS + 1), np.int32),
        np.zeros((p, BUCKETS), np.int32),
        np.zeros((p, BUCKETS), np.bool_),
        np.zeros((p, BUCKETS, n_statistics)),
        np.empty((held, p, BUCKETS, n_statistics)),
        np.zeros(held, np.int32),
        np.arange(held, dtype=np.int32),
        np.full(1, held),
        np.empty((n_statistics, BUCKETS)),
        np.empty((n_statistics, BUCKETS)),
        np.empty(BUCKETS),
        np.empty(BUCKETS),
        np.empty((p, BUCKETS)),
        np.empty(n_statistics),
        np.empty(n_statistics),
        np.empty(n_statistics),
        np.empty((p, 4, BUCKETS)),
        np.empty((p, 4, BUCKETS)),
        np.empty(BUCKETS),
        np.empty((2, p, BUCKETS)),
        np.empty(2, np.bool_),
        np.empty(BUCKETS + 1),
    )


@kernel_without_refcounts()
def stopped(counts):
    """Whether a search is to stop."""
    return counts[STOP] != 0 or counts[EVALUATIONS] >= counts[MOST]


@kernel_without_refcounts()
def fill_buckets(node, buckets):
    """Divide the node's rows into buckets, and sum their statistics."""
    order, m, problem = node.order, node.m, node.problem
    number, count, ends, total = buckets.number, buckets.count, buckets.ends, buckets.total
    rank, rows = problem.rank, problem.rows
    width = rows.shape[1]
    most = max(1, min(BUCKETS, int(PER_ROOT * np.sqrt(m))))
    for j in range(count.size):
        k = start = 0
        ends[j, 0] = 0
        while start < m:
            end = m if k + 1 == most else start + max(1, (m - start) // (most - k))
            if end < m and rank[j, order[j, end]] == rank[j, order[j, end - 1]]:  # to the nearer end of equal values
                before, after = end - 1, end + 1
                while before > start and rank[j, order[j, before - 1]] == rank[j, order[j, end]]:
                    before -= 1
                while after < m and rank[j, order[j, after]] == rank[j, order[j, end]]:
                    after += 1
                end = before if before > start and end - before < after - end else after
            for s in range(width):
                total[j, k, s] = 0.0
            for e in range(start, end):
                i = order[j, e]
                number[i, j] = k
                for s in range(0, width, WIDTH):
                    add_four(total, (j * BUCKETS + k) * width + s, rows, i * width + s, 1.0)
            buckets.top[j, k] = rank[j, order[j, end - 1]]
            buckets.several[j, k] = rank[j, order[j, start]] != buckets.top[j, k]
            k += 1
            ends[j, k] = end
            start = end
        count[j] = k
    buckets.n_free[0] = buckets.free.size
    for h in range(buckets.free.size):
        buckets.free[h] = h
        buckets.users[h] = 0


@kernel_without_refcounts()
def hold(buckets):
    """A free histogram of the pool, not in use yet; -1 if there is none."""
    if buckets.n_free[0] == 0:
        return -1
    buckets.n_free[0] -= 1
    return buckets.free[buckets.n_free[0]]


@kernel_without_refcounts()
def release(buckets, held):
    """One interval less uses the histogram ``held``."""
    if held >= 0:
        buckets.users[held] -= 1
        if buckets.users[held] <= 0:
            buckets.free[buckets.n_free[0]] = held
            buckets.n_free[0] += 1


@kernel_without_refcounts()
def shift(histogram, base, order, sign, some, problem, buckets):
    """``histogram`` = ``base`` plus (``sign`` 1) or minus (-1) the rows ``order``, for the features ``some``; ``base``
    may be empty, for zero.
    """
    number, count, rows = buckets.number, buckets.count, problem.rows
    width = np.uint64(rows.shape[1])
    for j in some:
        for k in range(count[j]):
            for s in range(rows.shape[1]):
                histogram[j, k, s] = base[j, k, s] if base.size else 0.0
    for e in range(order.size):  # numbers without a sign, which no index from the end needs to be told from
        i = np.uint64(order[e])
        start = i * width
        for f in range(some.size):
            j = np.uint64(some[f])
            at = (j * np.uint64(BUCKETS) + np.uint64(number[i, j])) * width
            for s in range(0, rows.shape[1], WIDTH):
                add_four(histogram, np.int64(at) + s, rows, np.int64(start) + s, sign)


@kernel_without_refcounts(error_model="numpy")
def squared_costs(histogram, whole, m, right, total, P, before, after):
    """`running_sums` and `costs` in one, for one output under squared loss; of ``P`` only the number of rows."""
    a = b = c = d = 0.0
    n, w, q, t = total[0], total[1], total[2], total[3]
    for k in range(m):
        if right:
            a += whole[k, 0] - histogram[k, 0]
            b += whole[k, 1] - histogram[k, 1]
            c += whole[k, 2] - histogram[k, 2]
            d += whole[k, 3] - histogram[k, 3]
        else:
            a += histogram[k, 0]
            b += histogram[k, 1]
            c += histogram[k, 2]
            d += histogram[k, 3]
        P[0, k] = a
        low = c - d * d / b
        high = (q - c) - (t - d) * (t - d) / (w - b)
        before[k] = low if a > 0.0 and low > 0.0 else 0.0
        after[k] = high if n - a > 0.0 and high > 0.0 else 0.0


@kernel_without_refcounts()
def running_sums(histogram, whole, m, right, total, P, Q):
    """Statistics up to each of the first ``m`` buckets ``P (S, .)``, and from there on ``Q``, of one side of a cut;
    ``histogram (., S)`` is that of its left side, ``whole`` that of both.
    """
    if total.size == 4:
        a = b = c = d = 0.0
        for k in range(m):
            if right:
                a += whole[k, 0] - histogram[k, 0]
                b += whole[k, 1] - histogram[k, 1]
                c += whole[k, 2] - histogram[k, 2]
                d += whole[k, 3] - histogram[k, 3]
            else:
                a += histogram[k, 0]
                b += histogram[k, 1]
                c += histogram[k, 2]
                d += histogram[k, 3]
            P[0, k], P[1, k], P[2, k], P[3, k] = a, b, c, d
            Q[0, k], Q[1, k], Q[2, k], Q[3, k] = total[0] - a, total[1] - b, total[2] - c, total[3] - d
        return
    for s in range(total.size):
        running = 0.0
        for k in range(m):
            value = histogram[k, s]
            running += whole[k, s] - value if right else value
            P[s, k] = running
            Q[s, k] = total[s] - running


@kernel_without_refcounts(error_model="numpy")
def inside_cost(before, own, total):
    """Lower bound of the cost of two leaves, for one output under squared loss, for the splits inside a bucket of the
    statistics ``own (4,)`` after rows of the statistics ``before``; ``total`` of all rows.

    Of a bucket of weight W, sum S and V = sum w y^2 - S^2 / W, rows of weight x on the left sum to s with
    ``(s - x S / W)^2 <= x (W - x) V / W``: an ellipse in x and s. What two leaves explain is convex in both, and so
    at most its largest value at the corners of an octagon around the ellipse.
    """
    weight = own[1]
    explained = 0.0
    away = 0.5 * np.sqrt(max(weight * own[2] - own[3] * own[3], 0.0))
    for corner in range(4):
        along = 0.0 if corner == 0 else 1.0 if corner == 3 else 0.5 + NEAR * (corner - 1.5)
        off = away if corner == 1 or corner == 2 else away * NEAR
        left, middle = before[1] + along * weight, before[3] + along * own[3]
        right, rest = total[1] - left, total[3] - middle
        if not (left > 0.0 and right > 0.0):
            return 0.0
        low = (middle - off) * (middle - off) / left + (rest + off) * (rest + off) / right
        high = (middle + off) * (middle + off) / left + (rest - off) * (rest - off) / right
        explained = max(explained, max(low, high))
    return max(total[2] - explained, 0.0)


@kernel_without_refcounts(error_model="numpy")
def best_of_side(histogram, feature, cut, node, target, side, buckets, counts):
    """The best split, or none, of one side of a cut: the rows of rank up to ``cut`` in ``feature``, or (on the right)
    the others. ``histogram`` is that of the left side.

    Only splits in ``side.reach`` are looked at; others cost ``target`` at least. Those of this side that may cost less
    than ``target`` are in ``side.new_reach``.

    Returns
    -------
    best : the lowest cost found; the lowest of all if below ``target``. The split goes to ``side.split``.
    bound : lower bound of all splits.
    relaxed : lower bound without the smallest leaf.
    """
    right, total, split, reach, new_reach = side
    order, problem = node.order, node.problem
    count, bound = buckets.count, buckets.bound
    P, Q, before, after = buckets.left, buckets.right, buckets.before, buckets.after
    rank, rows, form, price, fewest = problem.rank, problem.rows, problem.leaf, problem.price, problem.min_leaf
    n_statistics = total.size
    simple = n_statistics == 4 and form.loss == SQUARED and form.ridge.size == 0
    work = buckets.work
    leaf = cost(total, form, work)
    best = leaf if total[0] >= fewest else np.inf
    relaxed = lowest = min(leaf, target)
    split[0], split[1] = -1, 0
    close(new_reach)
    if leaf <= price + problem.slack:
        copy_reach(reach, new_reach)
        return best, min(best, leaf), leaf
    for j in range(count.size):
        first, m = reach[j, 0], min(reach[j, 1] + 1, count[j])
        if first >= m:
            continue
        start = max(first - 1, 0)
        if simple:
            squared_costs(histogram[j], buckets.total[j], m, right, total, P, before, after)
        else:
            running_sums(histogram[j], buckets.total[j], m, right, total, P, Q)
            costs(P, start, m, form, buckets.own, work, before)
            costs(Q, start, m, form, buckets.own, work, after)
        previous = before[start] if first > 0 else 0.0
        low, high = m, -1
        for k in range(first, m):
            inside = previous + after[k] + price if buckets.several[j, k] else np.inf
            previous = before[k]
            value = previous + after[k] + price if k + 1 < count[j] else np.inf
            bound[j, k] = inside
            if value < target or inside < target:
                low, high = min(low, k), k
            relaxed = min(relaxed, value)
            if value < best and P[0, k] >= fewest and total[0] - P[0, k] >= fewest:
                best = value
                split[0], split[1] = j, buckets.top[j, k]
        widen(new_reach, j, low, high)
    own, rest = buckets.own, buckets.rest
    for j in range(count.size):
        for k in range(reach[j, 0], min(reach[j, 1] + 1, count[j])):
            if bound[j, k] >= min(best - problem.slack, target):
                lowest = min(lowest, bound[j, k])
                continue
            for s in range(n_statistics):
                own[s] = 0.0
                for b in range(k):
                    value = histogram[j, b, s]
                    own[s] += buckets.total[j, b, s] - value if right else value
                value = histogram[j, k, s]
                rest[s] = buckets.total[j, k, s] - value if right else value
            if simple:
                value = max(bound[j, k], inside_cost(own, rest, total) + price)
                if value >= min(best - problem.slack, target):
                    lowest = min(lowest, value)
                    continue
            counts[SCANS] += 1
            last = -1
            for e in range(buckets.ends[j, k], buckets.ends[j, k + 1]):
                i = order[j, e]
                if (rank[feature, i] > cut) != right:
                    continue
                if last >= 0 and rank[j, i] != last:
                    for s in range(n_statistics):
                        rest[s] = total[s] - own[s]
                    value = cost(own, form, work) + cost(rest, form, work) + price
                    relaxed = min(relaxed, value)
                    if value < best and own[0] >= fewest and rest[0] >= fewest:
                        best = value
                        split[0], split[1] = j, last
                last = rank[j, i]
                add_row(own, rows[i])
    return best, min(best, lowest), min(relaxed, lowest)
