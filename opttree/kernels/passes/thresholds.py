"""Exact weighted 0/1 threshold searches: along one direction, and over all features for every node of a level.

Rows carry a signed weight ``u``: positive where the row should go right, negative where left; |u| is the cost of the
wrong side. With all rows sent right the cost is ``sum(-u where u < 0)``; moving a row left changes it by ``u``, so the
best threshold is the smallest prefix sum of ``u`` in sorted order.
"""

from collections import namedtuple

import numpy as np

from opttree.runtime.compiling.compiled import kernel
from opttree.runtime.threads import share

MAX_BUCKETS = 1024
OFF_CENTRE = 0.4987  # rows of zero weight may lie at the exact midpoint, where rounding would decide their side
TIE = 1e-12  # relative to the cost: the choice among equally good cuts must not depend on rounding
RELATIVE_GAP = 1e-11  # along a hyperplane closer values count as equal: rounding in A.x must not change a side

# along every feature, the rows in increasing order and their values, (p, n) each
Sorted = namedtuple("Sorted", "order values")
# of every node of a level: rows, sum of ``u``, and cost of sending all rows right
Sums = namedtuple("Sums", "count total all_right")
# of every feature and node, (p, n_slots) each: threshold, cost, and side, +1 where low values go left, -1 where right
Cuts = namedtuple("Cuts", "threshold cost side")


def between(low, high):
    """Thresholds with ``low <= threshold < high``, for ``low < high``: halfway, or ``low`` if no double lies there."""
    middle = 0.5 * (low + high)
    return np.where(middle < high, middle, low)[()]


@kernel()
def best_threshold(z, u, min_rows):
    """``(threshold, cost)`` minimising the 0/1 cost of "left where ``z <= threshold``", exactly.

    Both sides get at least ``min_rows`` rows, or one gets none. Only rows that can matter are sorted: z is divided into
    buckets, and inside a bucket the prefix sum falls by at most the sum of its negative weights, so buckets that cannot
    beat the best cut between buckets are skipped. O(m) in practice, O(m log m) at worst.
    """
    m = z.size
    first = z[0]
    last = z[0]
    all_right = 0.0
    for i in range(m):
        first = min(first, z[i])
        last = max(last, z[i])
        if u[i] < 0.0:
            all_right -= u[i]
    margin = max(abs(first), abs(last))
    if margin == 0.0:
        margin = 1.0
    gap = RELATIVE_GAP * margin
    slack = TIE * all_right

    n_buckets = max(1, min(m // 4, MAX_BUCKETS))
    scale = (n_buckets - 1) / (last - first) if last > first else 0.0
    bucket = np.empty(m, np.int32)
    count = np.zeros(n_buckets + 1, np.int64)  # after the cumulative sum: rows in the buckets before this one
    change = np.zeros(n_buckets)
    fall = np.zeros(n_buckets)
    low = np.full(n_buckets, np.inf)
    high = np.full(n_buckets, -np.inf)
    for i in range(m):
        at = (z[i] - first) * scale
        k = np.int32(at) if 0.0 <= at < n_buckets else np.int32(0)  # differences near the smallest double overflow
        bucket[i] = k
        count[k + 1] += 1
        change[k] += u[i]
        fall[k] += min(u[i], 0.0)
        low[k] = min(low[k], z[i])
        high[k] = max(high[k], z[i])
    following = np.inf  # smallest z in a later bucket
    for k in range(n_buckets - 1, -1, -1):
        own = low[k]
        low[k] = following
        following = min(following, own)
    for k in range(n_buckets):
        count[k + 1] += count[k]
    fill = count[:-1].copy()
    order = np.empty(m, np.int32)  # rows bucket by bucket
    for i in range(m):
        order[fill[bucket[i]]] = i
        fill[bucket[i]] += 1

    best, best_cost = first - margin, all_right
    if all_right + change.sum() < best_cost - slack:
        best, best_cost = last + margin, all_right + change.sum()
    cost = all_right
    for k in range(n_buckets):  # cuts right after a bucket
        cost += change[k]
        left = count[k + 1]
        if (
            count[k + 1] > count[k]
            and low[k] - high[k] > gap
            and min_rows <= left <= m - min_rows
            and cost < best_cost - slack
        ):
            best, best_cost = high[k] + OFF_CENTRE * (low[k] - high[k]), cost
    cost = all_right
    for k in range(n_buckets):  # cuts inside a bucket
        if cost + fall[k] < best_cost - slack:
            inside = order[count[k] : count[k + 1]]
            inside = inside[np.argsort(z[inside])]
            running = cost
            for e in range(inside.size - 1):
                a, b = z[inside[e]], z[inside[e + 1]]
                running += u[inside[e]]
                left = count[k] + e + 1
                if b - a > gap and min_rows <= left <= m - min_rows and running < best_cost - slack:
                    best, best_cost = a + OFF_CENTRE * (b - a), running
        cost += change[k]
    return best, best_cost


@kernel()
def level_sums(slot, u, n_slots):
    """The `Sums` of a level."""
    count = np.zeros(n_slots, np.int64)
    total = np.zeros(n_slots)
    all_right = np.zeros(n_slots)
    for i in range(slot.size):
        s = slot[i]
        if s >= 0:
            count[s] += 1
            total[s] += u[i]
            if u[i] < 0.0:
                all_right[s] -= u[i]
    return Sums(count, total, all_right)


@kernel()
def axis_range(first, last, columns, slot, u, sums, min_rows, cuts):
    """The best cut of every node along some features, into ``cuts``."""
    order, values = columns
    count, total, all_right = sums
    cut, cost, side = cuts
    n_slots, n = count.size, slot.size
    for j in range(first, last):
        running = np.zeros(n_slots)
        seen = np.zeros(n_slots, np.int64)
        previous = np.zeros(n_slots)
        for s in range(n_slots):
            cost[j, s] = np.inf
            cut[j, s] = np.inf
        for e in range(n):
            i = order[j, e]
            s = slot[i]
            if s < 0:
                continue
            x = values[j, e]
            if seen[s] >= min_rows and count[s] - seen[s] >= min_rows:
                low = previous[s]
                if x > low:
                    middle = 0.5 * (low + x)
                    slack = TIE * all_right[s]
                    left_low = all_right[s] + running[s]
                    left_high = all_right[s] + total[s] - running[s]
                    if left_low < cost[j, s] - slack:
                        cost[j, s] = left_low
                        cut[j, s] = middle if middle < x else low
                        side[j, s] = 1.0
                    if left_high < cost[j, s] - slack:
                        cost[j, s] = left_high
                        cut[j, s] = middle if middle > low else x
                        side[j, s] = -1.0
            running[s] += u[i]
            seen[s] += 1
            previous[s] = x


@kernel()
def cheapest(sums, cuts, price):
    """The best of the features' cuts for every node, see `best_axis_splits`."""
    _count, total, all_right = sums
    cut, cost, side = cuts
    p, n_slots = cost.shape
    feature = np.zeros(n_slots, np.int32)
    threshold = np.empty(n_slots)
    best_cost = np.empty(n_slots)
    best_side = np.ones(n_slots)
    for s in range(n_slots):
        all_left = all_right[s] + total[s]
        threshold[s] = np.inf if all_left < all_right[s] else -np.inf
        best_cost[s] = min(all_left, all_right[s])
        for j in range(p):
            if cost[j, s] + price < best_cost[s] - TIE * all_right[s]:
                best_cost[s] = cost[j, s] + price
                feature[s] = j
                threshold[s] = cut[j, s]
                best_side[s] = side[j, s]
        if np.isfinite(threshold[s]):
            best_cost[s] -= price
    return feature, threshold, best_cost, best_side


def best_axis_splits(order, values, slot, u, n_slots, min_rows, price):
    """Exact best split over all features and thresholds, for every node of one level in one scan per feature.

    Parameters
    ----------
    order : (p, n) int32, rows in increasing order of each feature.
    values : (p, n) the feature's values in that order.
    slot : (n,) int32, the row's node in the level, -1 for none.
    u : (n,) signed weights.
    price : additional cost of a split, compared with sending all rows one way.

    Returns
    -------
    feature (n_slots,) int32, threshold (n_slots,), cost (n_slots,), side (n_slots,)
        ``side`` is +1 where low values go left and -1 where they go right (the split is ``-x <= -threshold``).
        If no cut beats sending all rows one way, ``threshold`` is infinite with the sign of that way.
    """
    p, n = order.shape
    sums = level_sums(slot, u, n_slots)
    cuts = Cuts(np.empty((p, n_slots)), np.empty((p, n_slots)), np.ones((p, n_slots)))
    share(axis_range, p, 4 * n, Sorted(order, values), slot, u, sums, min_rows, cuts)
    return cheapest(sums, cuts, price)
