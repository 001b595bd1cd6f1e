"""Costs of the leaves on both sides of a split, for all splits of a family in one pass.

The rows of a family are ordered so that each of its splits sends the first ones left. Adding rows one by one in this
order, and in reverse, gives the cost of either side at every cut. A side is one leaf at the last level, and several
leaves if it is a subtree.
"""

from collections import namedtuple

import numpy as np

from opttree.kernels.exact.statistics import Leaf, cost as cost_of_sums
from opttree.kernels.leaves.fit import fit_linear
from opttree.kernels.losses.codes import ABSOLUTE, LOG, SQUARED, SUMS
from opttree.kernels.losses.entropy import log_cost
from opttree.runtime.compiling.compiled import inner, kernel
from opttree.runtime.threads import share

# leaf of each row, and number of leaves
Slots = namedtuple("Slots", "of count")
# loss code; number of classes; whether leaves are linear, under squared loss only; strengths of their penalties; fewest
# rows of a linear leaf, others are constant; fewest rows of a leaf; the cost of summed statistics, where the loss is
# `SUMS` and the outputs of `Rows` are statistics with their weights
Form = namedtuple(
    "Form",
    "loss n_classes linear l1 l2 min_rows min_leaf leaf",
    defaults=(Leaf(0, np.zeros(0), 0, np.ones(2)),),
)
# ``order``, ``start`` and ``cut`` of families of splits, see `Candidates`
Families = namedtuple("Families", "order start cut")


@kernel()
def prefix_costs(rows, data, slots, form, by_y, out):
    """``out[e]``: summed cost of the best constant leaves that hold ``rows[:e + 1]``.

    Parameters
    ----------
    data : `Rows`, with outputs about centred (squared loss subtracts squares), or class codes.
    by_y : (K, m) the same rows in increasing order of each output, for the absolute loss.
    """
    _X, Y, w = data
    slot_of, n_slots = slots
    loss = form.loss
    if loss == SQUARED:
        weight = np.zeros(n_slots)
        first = np.zeros((n_slots, Y.shape[1]))
        total = 0.0
        for e in range(rows.size):
            i = rows[e]
            s = slot_of[i]
            for k in range(Y.shape[1]):
                # the sum of squares about the mean grows by the squared distance from it
                if weight[s] > 0.0:
                    r = Y[i, k] - first[s, k] / weight[s]
                    total += w[i] * weight[s] / (w[i] + weight[s]) * r * r
                first[s, k] += w[i] * Y[i, k]
            weight[s] += w[i]
            out[e] = total
    elif loss == SUMS:
        sums = np.zeros((n_slots, Y.shape[1]))
        work = np.empty(Y.shape[1])
        costs = np.zeros(n_slots)
        for e in range(rows.size):
            i = rows[e]
            s = slot_of[i]
            for k in range(Y.shape[1]):
                sums[s, k] += Y[i, k]
            costs[s] = cost_of_sums(sums[s], form.leaf, work)
            out[e] = costs.sum()
    elif loss == ABSOLUTE:
        out[: rows.size] = 0.0
        for k in range(Y.shape[1]):
            add_absolute(rows, Y[:, k], w, slot_of, n_slots, by_y[k], out)
    else:
        of_class = np.zeros((n_slots, form.n_classes))
        weight = np.zeros(n_slots)
        cost = np.zeros(n_slots)
        total = 0.0
        for e in range(rows.size):
            i = rows[e]
            s = slot_of[i]
            label = int(Y[i, 0])
            weight[s] += w[i]
            of_class[s, label] += w[i]
            total -= cost[s]
            if loss == LOG:
                cost[s] = log_cost(of_class[s], 0)
            else:
                cost[s] = weight[s] - of_class[s].max()
            total += cost[s]
            out[e] = total


@inner()
def add_absolute(rows, y, w, slot_of, n_slots, by_y, out):
    """Add to ``out[e]`` the absolute deviations of ``rows[:e + 1]`` from the medians of their leaves.

    It runs backwards: rows are removed from linked lists in the order of y, and each leaf's median moves to a
    neighbour.
    """
    m = rows.size
    largest = 0
    for e in range(m):
        largest = max(largest, rows[e])
    before = np.full(largest + 1, -1)
    after = np.full(largest + 1, -1)
    rank = np.empty(largest + 1, np.int64)
    tail = np.full(n_slots, -1)
    weight = np.zeros(n_slots)
    high_weight = np.zeros(n_slots)  # weight of the rows after the median, and their sum of w y
    high_sum = np.zeros(n_slots)
    median = np.full(n_slots, -1)
    low_weight = np.zeros(n_slots)
    low_sum = np.zeros(n_slots)
    for e in range(m):
        i = by_y[e]
        s = slot_of[i]
        rank[i] = e
        before[i] = tail[s]
        if tail[s] >= 0:
            after[tail[s]] = i
        else:
            median[s] = i
        tail[s] = i
        weight[s] += w[i]
        high_weight[s] += w[i]
        high_sum[s] += w[i] * y[i]
    cost = np.zeros(n_slots)
    total = 0.0
    for s in range(n_slots):
        if median[s] >= 0:
            high_weight[s] -= w[median[s]]
            high_sum[s] -= w[median[s]] * y[median[s]]
    for e in range(m, 0, -1):
        if e == m:
            first, last = 0, n_slots
        else:
            i = rows[e]
            s = slot_of[i]
            first, last = s, s + 1
            weight[s] -= w[i]
            if before[i] >= 0:
                after[before[i]] = after[i]
            if after[i] >= 0:
                before[after[i]] = before[i]
            if i == median[s]:
                if after[i] >= 0:
                    median[s] = after[i]
                    high_weight[s] -= w[median[s]]
                    high_sum[s] -= w[median[s]] * y[median[s]]
                else:
                    median[s] = before[i]
                    if median[s] >= 0:
                        low_weight[s] -= w[median[s]]
                        low_sum[s] -= w[median[s]] * y[median[s]]
            elif rank[i] < rank[median[s]]:
                low_weight[s] -= w[i]
                low_sum[s] -= w[i] * y[i]
            else:
                high_weight[s] -= w[i]
                high_sum[s] -= w[i] * y[i]
        for s in range(first, last):
            total -= cost[s]
            cost[s] = 0.0
            t = median[s]
            if t < 0:
                continue
            half = 0.5 * weight[s] * (1.0 + 1e-12)
            while high_weight[s] > half and after[t] >= 0:
                low_weight[s] += w[t]
                low_sum[s] += w[t] * y[t]
                t = after[t]
                high_weight[s] -= w[t]
                high_sum[s] -= w[t] * y[t]
            while low_weight[s] > half and before[t] >= 0:
                high_weight[s] += w[t]
                high_sum[s] += w[t] * y[t]
                t = before[t]
                low_weight[s] -= w[t]
                low_sum[s] -= w[t] * y[t]
            median[s] = t
            cost[s] = max(y[t] * (low_weight[s] - high_weight[s]) - low_sum[s] + high_sum[s], 0.0)
            total += cost[s]
        out[e - 1] += total


@inner()
def constant_leaf_cost(rows, data, slot_of, form):
    """Cost of one constant leaf that holds ``rows``; ``slot_of`` is zero."""
    Y = data.Y
    by_y = np.empty((Y.shape[1], rows.size), np.int32)
    for k in range(Y.shape[1]):
        by_y[k] = rows[np.argsort(Y[rows, k])]
    out = np.empty(rows.size)
    one = min(rows.size, 1)  # not the constant: numba compiles a kernel anew for each constant that it is given
    prefix_costs(rows, data, Slots(slot_of, one), form, by_y, out)
    return out[-1]


@kernel()
def linear_leaf_cost(rows, data, form):
    """Least weighted squared error plus elastic net of a linear leaf that holds ``rows``."""
    X, Y, w = data
    l1, l2 = form.l1, form.l2
    value = np.zeros(Y.shape[1])
    coef = np.zeros((Y.shape[1], X.shape[1]))
    fit_linear(X, rows, w[rows], Y[rows], l1, l2, value, coef)
    cost = l1 * np.abs(coef).sum() + l2 * np.square(coef).sum()
    for i in rows:
        for k in range(Y.shape[1]):
            r = Y[i, k] - value[k]
            for j in range(X.shape[1]):
                r -= coef[k, j] * X[i, j]
            cost += w[i] * r * r
    return cost


@inner(inline="always")
def holds(words, i):
    """Whether row ``i`` is in the set ``words``, 64 rows per word."""
    return (words[i >> 6] >> np.uint64(i & 63)) & np.uint64(1) != 0


@kernel()
def members(words, n):
    """The rows of the set ``words``, increasing."""
    rows = np.empty(n, np.int32)
    m = 0
    for i in range(n):
        if holds(words, i):
            rows[m] = i
            m += 1
    return rows[:m]


@kernel()
def costs_range(first, last, sets, data, form, cost):
    """`leaf_costs` of some sets."""
    n = data.Y.shape[0]
    one_slot = np.zeros(n, np.int64)
    for s in range(first, last):
        cost[s] = constant_leaf_cost(members(sets[s], n), data, one_slot, form)


def leaf_costs(sets, data, form):
    """(S,) cost of a constant leaf for each set of rows ``sets (S, words)``."""
    cost = np.empty(sets.shape[0])
    share(costs_range, cost.size, 10 * data.Y.shape[0], sets, data, form, cost)
    return cost


@kernel()
def linear_costs_range(first, last, sets, data, form, cost):
    """`linear_leaf_costs` of some sets."""
    for s in range(first, last):
        cost[s] = linear_leaf_cost(members(sets[s], data.Y.shape[0]), data, form)


def linear_leaf_costs(sets, data, form):
    """(S,) cost of a linear leaf, squared loss, for each set."""
    cost = np.empty(sets.shape[0])
    n, p = data.X.shape
    share(linear_costs_range, cost.size, n * p**2, sets, data, form, cost)
    return cost


@kernel()
def cuts_range(first, last, sets, families, data, y_order, form, found):
    """`best_cuts` of some sets."""
    order, start, cut = families
    min_leaf = form.min_leaf
    best, which = found
    n = data.Y.shape[0]
    slots = Slots(np.zeros(n, np.int64), min(n, 1))
    for s in range(first, last):
        member = np.zeros(n, np.bool_)
        m = 0
        for i in range(n):
            member[i] = holds(sets[s], i)
            m += member[i]
        if m < 2 * min_leaf:
            continue
        by_y = np.empty((y_order.shape[0], m), np.int32)
        for k in range(y_order.shape[0]):
            e = 0
            for i in y_order[k]:
                if member[i]:
                    by_y[k, e] = i
                    e += 1
        rows = np.empty(m, np.int32)
        low = np.empty(m)
        high = np.empty(m)
        for f in range(order.shape[0]):
            e = 0
            for i in order[f]:
                if member[i]:
                    rows[e] = i
                    e += 1
            if not form.linear:
                prefix_costs(rows, data, slots, form, by_y, low)
                prefix_costs(rows[::-1].copy(), data, slots, form, by_y, high)
            position = 0
            size = 0
            previous = 0
            for c in range(start[f], start[f + 1]):
                while position < cut[c]:
                    size += member[order[f, position]]
                    position += 1
                if size == previous or size < min_leaf or m - size < min_leaf:
                    continue
                previous = size
                if form.linear:
                    cost = linear_leaf_cost(rows[:size], data, form)
                    cost += linear_leaf_cost(rows[size:], data, form)
                else:
                    cost = low[size - 1] + high[m - size - 1]
                if cost < best[s, f]:
                    best[s, f] = cost
                    which[s, f] = c


def best_cuts(sets, families, data, y_order, form):
    """Best split into two leaves of every set, family by family.

    Parameters
    ----------
    sets : (S, words) sets of rows.
    y_order : (K, n) rows in increasing order of each output; empty unless the loss is absolute.
    form : `Form`, of linear leaves of any number of rows.

    Returns
    -------
    cost (S, families), split (S, families) : summed cost of the two leaves, infinite and -1 if no split has
        ``min_leaf`` rows on both sides.
    """
    n_families, n = families.order.shape
    found = np.full((sets.shape[0], n_families), np.inf), np.full((sets.shape[0], n_families), -1)
    cost = n_families * n * (10 + (families.cut.size / n_families * data.X.shape[1] ** 2 if form.linear else 0))
    share(cuts_range, sets.shape[0], cost, sets, families, data, y_order, form, found)
    return found


@inner()
def feasible_prefixes(rows, slots, min_leaf, out):
    """``out[e]``: whether every nonempty leaf of ``rows[:e + 1]`` has ``min_leaf`` rows."""
    slot_of = slots.of
    count = np.zeros(slots.count, np.int64)
    small = 0
    for e in range(rows.size):
        s = slot_of[rows[e]]
        count[s] += 1
        if count[s] == 1 and min_leaf > 1:
            small += 1
        elif count[s] == min_leaf and min_leaf > 1:
            small -= 1
        out[e] = small == 0


@kernel()
def splits_range(first, last, families, wanted, data, sides, form, y_order, found):
    """`best_splits` of some families."""
    left, right = sides
    cost, position = found
    m = families.shape[1]
    for f in range(first, last):
        rows = families[f]
        back = rows[::-1].copy()
        low = np.empty(m)
        high = np.empty(m)
        prefix_costs(rows, data, left, form, y_order, low)
        prefix_costs(back, data, right, form, y_order, high)
        low_ok = np.empty(m, np.bool_)
        high_ok = np.empty(m, np.bool_)
        feasible_prefixes(rows, left, form.min_leaf, low_ok)
        feasible_prefixes(back, right, form.min_leaf, high_ok)
        for e in range(m - 1):
            if wanted[f, e] and low_ok[e] and high_ok[m - 2 - e] and low[e] + high[m - 2 - e] < cost[f]:
                cost[f] = low[e] + high[m - 2 - e]
                position[f] = e


def best_splits(families, wanted, data, sides, form, y_order):
    """Best split of each family above given subtrees, of which all leaves, constant ones, are refitted.

    Parameters
    ----------
    families : (F, m) the rows, those that go left first.
    wanted : (F, m) whether to try a cut after position e.
    sides : `Slots` of rows on the left, and of those on the right.
    y_order : (K, m) the rows in increasing order of each output, for the absolute loss; else empty.

    Returns
    -------
    cost (F,), position (F,) : the cheapest cut is after this position; infinite and -1 for none.
    """
    F, m = families.shape
    found = np.full(F, np.inf), np.full(F, -1)
    share(splits_range, F, 20 * m, families, wanted, data, sides, form, y_order, found)
    return found


@kernel()
def leaves_cost(rows, data, slots, form, y_order):
    """Cost of the constant leaves ``slots`` that hold ``rows``, refitted; infinite if one is too small."""
    out = np.empty(rows.size)
    ok = np.empty(rows.size, np.bool_)
    feasible_prefixes(rows, slots, form.min_leaf, ok)
    if not ok[-1]:
        return np.inf
    prefix_costs(rows, data, slots, form, y_order, out)
    return out[-1]
