"""`opttree.kernels.exact.buckets.best_of_side` for both sides of a cut at once, for one output under squared loss.

The running sums of the left side serve the right one too, whose sums are those of all rows less these; costs of all
ends of buckets are computed side by side, and rows inside a bucket are compared with the best cut without a division.
"""

from collections import namedtuple

import numpy as np

from opttree.kernels.exact.buckets import SCANS, inside_cost
from opttree.kernels.exact.intervals import close, copy_reach, widen
from opttree.kernels.exact.statistics import cost
from opttree.runtime.compiling.compiled import kernel_without_refcounts

# of both sides of a cut: statistics (2, S), best splits (2, 2), and the reach (2, p, 2), given and found, in buckets
Both = namedtuple("Both", "total split reach new_reach")
TINY = 1e-300  # in place of a weight of zero
NEARLY = 1.0 - 1e-9  # of what a cut must explain to be better: rounding of products


@kernel_without_refcounts()
def sum_up(histogram, m, sums):
    """Running sums ``sums (4, .)`` of the first ``m`` buckets of ``histogram (., 4)``."""
    a = b = c = d = 0.0
    for k in range(m):
        a += histogram[k, 0]
        b += histogram[k, 1]
        c += histogram[k, 2]
        d += histogram[k, 3]
        sums[0, k], sums[1, k], sums[2, k], sums[3, k] = a, b, c, d


@kernel_without_refcounts(error_model="numpy")
def costs_of_ends(sums, whole, right, m, total, before, after):
    """Costs of the rows before and after the ends of the first ``m`` buckets, of the left side, with the running sums
    ``sums (4, .)``, or of the right one, with ``whole`` less these; ``total (4,)`` of all rows of the side.
    """
    sign, share = (-1.0, 1.0) if right else (1.0, 0.0)
    n, w, q, t = total[0], total[1], total[2], total[3]
    for k in range(m):  # not from a later one: the compiler would not do several at a time
        a = sign * sums[0, k] + share * whole[0, k]
        b = sign * sums[1, k] + share * whole[1, k]
        c = sign * sums[2, k] + share * whole[2, k]
        d = sign * sums[3, k] + share * whole[3, k]
        low = c - d * d / max(b, TINY)
        high = (q - c) - (t - d) * (t - d) / max(w - b, TINY)
        before[k + 1] = low if (a > 0.0) & (low > 0.0) else 0.0
        after[k] = high if (n - a > 0.0) & (high > 0.0) else 0.0


@kernel_without_refcounts(error_model="numpy", fastmath={"nnan", "nsz"})
def bounds_of_buckets(before, after, several, price, first, m, inside, value):
    """Costs ``value`` of cuts at the ends of the first ``m`` buckets, and bounds of those ``inside``; the least of
    either from the bucket ``first`` on.
    """
    for k in range(m):
        value[k] = before[k + 1] + after[k] + price
        inside[k] = before[k] + after[k] + price if several[k] else np.inf
    for k in range(first):
        value[k] = inside[k] = np.inf
    least = least_inside = np.inf
    for k in range(m):
        least = min(least, value[k])
        least_inside = min(least_inside, inside[k])
    return least, least_inside


@kernel_without_refcounts(error_model="numpy")
def best_of_sides(histogram, feature, cut, node, targets, both, buckets, counts, found):
    """The best split, or none, of both sides of a cut, to ``found (2, 3)``; see `best_of_side`, whose arguments these
    are, but for ``targets (2,)`` and ``both``, a `Both`. What stands in ``found`` of a side that is not
    ``buckets.open`` stays.
    """
    totals, split, reach, new_reach = both
    problem, is_open = node.problem, buckets.open
    count, sums, whole, value = buckets.count, buckets.sums, buckets.cumulated, buckets.value
    before, after, work = buckets.ends_before, buckets.after, buckets.work
    price, fewest = problem.price, problem.min_leaf
    for way in range(2):
        if not is_open[way]:
            continue
        leaf = cost(totals[way], problem.leaf, work)
        found[way, 0] = leaf if totals[way, 0] >= fewest else np.inf
        found[way, 1] = found[way, 2] = min(leaf, targets[way])
        split[way, 0], split[way, 1] = -1, 0
        close(new_reach[way])
        is_open[way] = leaf > price + problem.slack
        if not is_open[way]:
            copy_reach(reach[way], new_reach[way])
            found[way, 1], found[way, 2] = min(found[way, 0], leaf), leaf
    for j in range(count.size):
        last = 0
        for way in range(2):
            if is_open[way] and reach[way, j, 0] <= reach[way, j, 1]:
                last = max(last, min(reach[way, j, 1] + 1, count[j]))
        if last == 0:
            continue
        sum_up(histogram[j], last, sums[j])
        for way in range(2):
            first, m = reach[way, j, 0], min(reach[way, j, 1] + 1, count[j])
            if not is_open[way] or first >= m:
                continue
            bound, target = buckets.bounds[way, j], targets[way]
            before[0] = 0.0
            costs_of_ends(sums[j], whole[j], way == 1, m, totals[way], before, after)
            if m == count[j]:  # nothing is right of the last bucket
                before[m] = np.inf
            least, inside = bounds_of_buckets(before, after, buckets.several[j], price, first, m, bound, value)
            found[way, 2] = min(found[way, 2], least)
            if min(least, inside) < target:
                low, high = first, m - 1
                while value[low] >= target and bound[low] >= target:
                    low += 1
                while value[high] >= target and bound[high] >= target:
                    high -= 1
                widen(new_reach[way], j, low, high)
            if least < found[way, 0]:
                for k in range(first, m):
                    if value[k] < found[way, 0]:
                        a = whole[j, 0, k] - sums[j, 0, k] if way == 1 else sums[j, 0, k]
                        if a >= fewest and totals[way, 0] - a >= fewest:
                            found[way, 0] = value[k]
                            split[way, 0], split[way, 1] = j, buckets.top[j, k]
    for way in range(2):
        if is_open[way]:
            scan_side(way, histogram, feature, cut, node, targets[way], both, buckets, counts, found[way])


@kernel_without_refcounts(error_model="numpy")
def scan_side(way, histogram, feature, cut, node, target, both, buckets, counts, found):
    """Look inside the buckets of one side, where their bounds allow a split that is better than ``found (3,)``."""
    totals, split, reach, _new_reach = both
    order, problem = node.order, node.problem
    slack, price = problem.slack, problem.price
    total, right, own, rest = totals[way], way == 1, buckets.own, buckets.rest
    best, lowest = found[0], found[1]
    for j in range(buckets.count.size):
        bounds, sums, whole = buckets.bounds[way, j], buckets.sums[j], buckets.cumulated[j]
        for k in range(reach[way, j, 0], min(reach[way, j, 1] + 1, buckets.count[j])):
            bound = bounds[k]
            if bound >= min(best - slack, target):
                lowest = min(lowest, bound)
                continue
            for s in range(4):
                own[s] = rest[s] = 0.0
                if k > 0:
                    own[s] = whole[s, k - 1] - sums[s, k - 1] if right else sums[s, k - 1]
                rest[s] = buckets.total[j, k, s] - histogram[j, k, s] if right else histogram[j, k, s]
            bound = max(bound, inside_cost(own, rest, total) + price)
            if bound >= min(best - slack, target):
                lowest = min(lowest, bound)
                continue
            counts[SCANS] += 1
            some = order[j, buckets.ends[j, k] : buckets.ends[j, k + 1]]
            best, relaxed, last = scan(some, j, feature, cut, right, problem, own, total, best, target)
            if last >= 0:
                split[way, 0], split[way, 1] = j, last
            found[2] = min(found[2], relaxed)
    found[0], found[1], found[2] = best, min(best, lowest), min(found[2], lowest)


@kernel_without_refcounts(error_model="numpy")
def scan(order, feature, cut_feature, cut, right, problem, own, total, best, target):
    """The least cost of cuts of a feature between the rows ``order`` of one side of a cut, after rows of the statistics
    ``own``, if it is below ``best`` and ``target``; the least of all below them without the smallest leaf; the rank
    before the best cut, -1 for none.
    """
    rank, own_rank, rows = problem.rank[cut_feature], problem.rank[feature], problem.rows
    price, fewest = problem.price, problem.min_leaf
    a, b, c, d = own[0], own[1], own[2], own[3]
    n, w, q, t = total[0], total[1], total[2], total[3]
    relaxed, found, last = np.inf, -1, -1
    limit = min(best, target)
    needed = (q + price - limit) * NEARLY
    for e in range(order.size):
        i = np.uint64(order[e])
        if (rank[i] > cut) != right:
            continue
        r = own_rank[i]
        if r != last and last >= 0:
            after, rest = w - b, t - d
            if d * d * after + rest * rest * b > needed * b * after:
                low, high = c - d * d / b, (q - c) - rest * rest / after
                value = max(low, 0.0) + max(high, 0.0) + price
                relaxed = min(relaxed, value)
                if value < limit and a >= fewest and n - a >= fewest:
                    best = limit = value
                    found = last
                    needed = (q + price - limit) * NEARLY
        last = r
        a += rows[i, 0]
        b += rows[i, 1]
        c += rows[i, 2]
        d += rows[i, 3]
    return best, relaxed, found
