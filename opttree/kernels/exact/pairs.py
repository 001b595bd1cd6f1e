"""Pairs of features of few values: the best tree of two levels by the class counts of all pairs at once, under 0/1 loss
where all rows count alike, and more levels above it by a search over all splits that remembers sets of rows.

Every cut of a feature is a column of bits, one for each row. Of a node's rows the numbers with both bits of a pair, by
class, give the errors of all trees of two levels. Above that each split is tried in turn, the most promising one first,
unless what is known of its sides says that it is too dear: by a set of rows that was solved before, or by a set that is
nearly the same, as each row that leaves takes away one error at most.
"""

from collections import namedtuple
from math import comb

import numpy as np

from opttree.kernels.exact.buckets import EVALUATIONS, NODES, STOP
from opttree.kernels.exact.states import EMPTY
from opttree.kernels.exact.words import BITS, bit, count_ones, errors
from opttree.runtime.compiling.compiled import kernel, kernel_without_refcounts

RECENT = 8  # sets of rows of each depth that others are compared with
NOTHING = 1e18

# label (n,); first (n + 1,) and columns: the columns whose bit is set of each row; every (B, W) bits of all rows;
# price of a split; fewest rows of a leaf; slack: costs that differ by less are equal
Table = namedtuple("Table", "label first columns every price min_leaf slack")
# of each level: rows (L, n), their number (L,), as a set key (L, W), bits (L, B W,) and classes (L, planes W,) of these
# rows, order (L, B) of the columns, splits (L, S) of the best tree, -1 for none. Scratch of two levels: total (K,),
# count (B, K), own (4, K), active (B,), best (B, 2) of both sides of each column, and the column of its split
Levels = namedtuple("Levels", "rows size key bits classes order splits total count own active best split")
# sets of rows that were searched: hash table of their numbers, keys (C, W), depth (C,), bound (C,) and whether it is
# the cost (C,), splits (C, S), how many (1,); recent (D, RECENT, W) sets, their bounds (D, RECENT), how many ever (D,)
Known = namedtuple("Known", "table keys depth bound exact splits count recent recent_bound n_recent")


def make_levels(n, n_columns, n_classes, depth):
    """Work space of a search of so many levels."""
    W, planes, size = -(-n // BITS), 1 if n_classes == 2 else n_classes, 2**depth - 1
    return Levels(
        np.empty((depth, n), np.int32),
        np.zeros(depth, np.int64),
        np.zeros((depth, W), np.uint64),
        np.empty((depth, n_columns * W), np.uint64),
        np.empty((depth, planes * W), np.uint64),
        np.empty((depth, n_columns), np.int64),
        np.full((depth, size), -1, np.int32),
        np.zeros(n_classes, np.int64),
        np.zeros((n_columns, n_classes), np.int64),
        np.zeros((4, n_classes), np.int64),
        np.empty(n_columns, np.int64),
        np.empty((n_columns, 2)),
        np.empty((n_columns, 2), np.int32),
    )


def make_known(n, n_columns, depth, memory):
    """Room for the sets of rows that there can be, but in so many mebibytes at most."""
    W, size = -(-n // BITS), 2 ** max(depth - 1, 2) - 1
    sets = sum(comb(n_columns, level) * 2.0**level for level in range(1, depth - 1))
    capacity = int(min(max(memory * 2**20 / (8.0 * W + 4.0 * size + 33.0), 16), sets + 1))
    table = np.full(2 ** int(np.ceil(np.log2(2.0 * capacity))), EMPTY)
    return Known(
        table,
        np.empty((capacity, W), np.uint64),
        np.empty(capacity, np.int64),
        np.empty(capacity),
        np.empty(capacity, np.bool_),
        np.empty((capacity, size), np.int32),
        np.zeros(1, np.int64),
        np.zeros((depth + 1, RECENT, W), np.uint64),
        np.zeros((depth + 1, RECENT)),
        np.zeros(depth + 1, np.int64),
    )


@kernel_without_refcounts()
def enter(level, levels, table):
    """Set up the bits of the rows of a level."""
    rows, m = levels.rows[level], levels.size[level]
    bits, classes, K = levels.bits[level], levels.classes[level], levels.total.size
    W, n_columns = (m + BITS - 1) // BITS, table.every.shape[0]
    for k in range(n_columns * W):
        bits[k] = np.uint64(0)
    for k in range((1 if K == 2 else K) * W):
        classes[k] = np.uint64(0)
    for e in range(m):
        i = rows[e]
        one, w = bit(e), e >> 6
        c = table.label[i]
        if K > 2:
            classes[c * W + w] |= one
        elif c == 1:
            classes[w] |= one
        for at in range(table.first[i], table.first[i + 1]):
            bits[table.columns[at] * W + w] |= one


@kernel_without_refcounts()
def count_columns(level, levels, table):
    """Class counts of the level's rows, and of those whose bit is set, for each column; the columns that divide the
    rows into sides of the smallest leaf at least, of which it returns the number.
    """
    bits, classes, total, count = levels.bits[level], levels.classes[level], levels.total, levels.count
    m, K, n_columns = levels.size[level], levels.total.size, table.every.shape[0]
    W, n_active = (m + BITS - 1) // BITS, 0
    for k in range(K):
        total[k] = 0
    for e in range(m):
        total[table.label[levels.rows[level, e]]] += 1
    for j in range(n_columns):
        n = 0
        for k in range(K):
            count[j, k] = 0
        if K == 2:
            one = 0
            for w in range(W):
                x = bits[j * W + w]
                n += count_ones(x)
                one += count_ones(x & classes[w])
            count[j, 0], count[j, 1] = n - one, one
        else:
            for k in range(K):
                for w in range(W):
                    count[j, k] += count_ones(bits[j * W + w] & classes[k * W + w])
                n += count[j, k]
        if n >= table.min_leaf and m - n >= table.min_leaf:
            levels.active[n_active] = j
            n_active += 1
    return n_active


@kernel_without_refcounts()
def improve(j, way, cost, column, levels):
    """Note a split of one side of column ``j``, if it is better."""
    if cost < levels.best[j, way]:
        levels.best[j, way] = cost
        levels.split[j, way] = column


@kernel_without_refcounts()
def two_levels(level, levels, table):
    """The cost of the best tree of up to two levels of the rows of a level, and its ``levels.splits``."""
    price, fewest, K = table.price, table.min_leaf, levels.total.size
    bits, classes, total, count, active = (
        levels.bits[level],
        levels.classes[level],
        levels.total,
        levels.count,
        levels.active,
    )
    splits, best, m = levels.splits[level], levels.best, levels.size[level]
    both, first, second, none = levels.own[0], levels.own[1], levels.own[2], levels.own[3]
    W = (m + BITS - 1) // BITS
    n_active = count_columns(level, levels, table)
    cost = float(errors(total))
    splits[0] = splits[1] = splits[2] = -1
    if cost <= price + table.slack:
        return cost
    for a in range(n_active):
        j = active[a]
        for k in range(K):
            none[k] = total[k] - count[j, k]
        best[j, 0], best[j, 1] = errors(count[j]), errors(none)
        levels.split[j, 0] = levels.split[j, 1] = -1
    for a in range(n_active):
        i = active[a]
        for b in range(a + 1, n_active):
            j = active[b]
            if K == 2:
                n = one = 0
                for w in range(W):
                    x = bits[i * W + w] & bits[j * W + w]
                    n += count_ones(x)
                    one += count_ones(x & classes[w])
                zero = n - one
                i0, i1, j0, j1 = count[i, 0] - zero, count[i, 1] - one, count[j, 0] - zero, count[j, 1] - one
                r0, r1 = total[0] - zero - i0 - j0, total[1] - one - i1 - j1
                e_both, e_i, e_j, e_none = min(zero, one), min(i0, i1), min(j0, j1), min(r0, r1)
                n_i, n_j, n_none = i0 + i1, j0 + j1, r0 + r1
            else:
                n = n_i = n_j = n_none = 0
                for k in range(K):
                    own = 0
                    for w in range(W):
                        own += count_ones(bits[i * W + w] & bits[j * W + w] & classes[k * W + w])
                    both[k], first[k], second[k] = own, count[i, k] - own, count[j, k] - own
                    none[k] = total[k] - own - first[k] - second[k]
                    n += own
                    n_i += first[k]
                    n_j += second[k]
                    n_none += none[k]
                e_both, e_i, e_j, e_none = errors(both), errors(first), errors(second), errors(none)
            if n >= fewest and n_i >= fewest:
                improve(i, 0, e_both + e_i + price, j, levels)
            if n_j >= fewest and n_none >= fewest:
                improve(i, 1, e_j + e_none + price, j, levels)
            if n >= fewest and n_j >= fewest:
                improve(j, 0, e_both + e_j + price, i, levels)
            if n_i >= fewest and n_none >= fewest:
                improve(j, 1, e_i + e_none + price, i, levels)
    for a in range(n_active):
        j = active[a]
        value = best[j, 0] + best[j, 1] + price
        if value < cost:
            cost = value
            splits[0], splits[1], splits[2] = j, levels.split[j, 0], levels.split[j, 1]
    return cost


@kernel_without_refcounts()
def slot_of(key, depth, known):
    """Where the hash table holds a set of rows, to be searched to a depth, or would."""
    h = np.uint64(1469598103934665603) + np.uint64(depth)
    for w in range(key.size):
        h = (h ^ key[w]) * np.uint64(1099511628211)
        h ^= h >> np.uint64(29)
    mask = known.table.size - 1
    slot = np.int64(h & np.uint64(mask))
    while known.table[slot] != EMPTY:
        number = known.table[slot]
        same = known.depth[number] == depth
        for w in range(key.size):
            if known.keys[number, w] != key[w]:
                same = False
                break
        if same:
            break
        slot = (slot + 1) & mask
    return slot


@kernel_without_refcounts()
def bound_of(key, depth, known, compare):
    """A lower bound of the cost of a set of rows, by what is known of it and, to ``compare``, of others: not where a
    smallest leaf forbids trees of one set that another allows.
    """
    number = known.table[slot_of(key, depth, known)]
    bound = known.bound[number] if number != EMPTY else 0.0
    if number != EMPTY and known.exact[number]:
        return bound
    for r in range(min(known.n_recent[depth], RECENT) if compare else 0):
        if known.recent_bound[depth, r] > bound:
            away = 0
            for w in range(key.size):
                away += count_ones(known.recent[depth, r, w] & ~key[w])
            bound = max(bound, known.recent_bound[depth, r] - away)
    return bound


@kernel_without_refcounts()
def remember(key, depth, cost, exact, splits, known):
    """Note the cost of a set of rows, or a bound of it."""
    slot = slot_of(key, depth, known)
    number = known.table[slot]
    if number == EMPTY:
        number = known.count[0]
        if number < known.bound.size:
            known.count[0] += 1
            known.table[slot] = number
            known.depth[number] = depth
            for w in range(key.size):
                known.keys[number, w] = key[w]
    if number < known.bound.size:
        known.bound[number], known.exact[number] = cost, exact
        if exact:
            for s in range((1 << depth) - 1):
                known.splits[number, s] = splits[s]
    at = known.n_recent[depth] % RECENT
    known.n_recent[depth] += 1
    known.recent_bound[depth, at] = cost
    for w in range(key.size):
        known.recent[depth, at, w] = key[w]


@kernel_without_refcounts()
def side_key(key, column, way, every, side):
    """The set ``side`` of the rows of a set whose bit of a column is set (``way`` 0) or not; their number."""
    n = 0
    for w in range(key.size):
        x = every[column, w] if way == 0 else ~every[column, w]
        side[w] = key[w] & x
        n += count_ones(side[w])
    return n


@kernel_without_refcounts()
def fill_side(level, column, way, levels, table):
    """Make the rows of the next level those of one side of a column."""
    rows, m, below = levels.rows[level], levels.size[level], levels.rows[level + 1]
    side_key(levels.key[level], column, way, table.every, levels.key[level + 1])
    n = 0
    for e in range(m):
        i = rows[e]
        inside = (table.every[column, i >> 6] >> np.uint64(i & 63)) & np.uint64(1)
        if (inside == np.uint64(1)) == (way == 0):
            below[n] = i
            n += 1
    levels.size[level + 1] = n


@kernel_without_refcounts()
def graft(splits, column, left, right, depth):
    """The splits, in heap order, of a tree of so many levels with this root and these subtrees."""
    splits[0] = column
    for level in range(depth - 1):
        width = 1 << level
        for k in range(width):
            splits[2 * width - 1 + k] = left[width - 1 + k]
            splits[3 * width - 1 + k] = right[width - 1 + k]


@kernel()
def ranked_columns(level, levels, table):
    """The columns that divide the rows of a level, by the errors of the two leaves; the level must have been entered.
    Returns their number.
    """
    n_active = count_columns(level, levels, table)
    costs = np.empty(n_active)
    for a in range(n_active):
        j = levels.active[a]
        for k in range(levels.total.size):
            levels.own[0, k] = levels.total[k] - levels.count[j, k]
        costs[a] = errors(levels.count[j]) + errors(levels.own[0])
    ranked = np.argsort(costs)
    for a in range(n_active):
        levels.order[level, a] = levels.active[ranked[a]]
    return n_active


@kernel()
def solve_rows(level, depth, target, levels, table, known, counts):
    """The cost of the best tree of up to ``depth`` >= 2 levels of the rows of a level, and its ``levels.splits``; at or
    above ``target`` a lower bound of it. When ``counts[STOP]`` is set, 0 or another bound is returned soon.

    Returns
    -------
    cost : the cost, or a bound.
    exact : whether it is the cost.
    """
    key, splits = levels.key[level], levels.splits[level]
    number = known.table[slot_of(key, depth, known)]
    if number != EMPTY and (known.exact[number] or known.bound[number] >= target):
        if known.exact[number]:
            for s in range((1 << depth) - 1):
                splits[s] = known.splits[number, s]
        return known.bound[number], known.exact[number]
    counts[NODES] += 1
    enter(level, levels, table)
    if depth == 2:
        cost = two_levels(level, levels, table)
        remember(key, depth, cost, True, splits, known)
        return cost, True
    price, order = table.price, levels.order[level]
    n_active = ranked_columns(level, levels, table)
    best, lowest = float(errors(levels.total)), NOTHING
    for s in range((1 << depth) - 1):
        splits[s] = -1
    if best <= price + table.slack or n_active == 0:
        remember(key, depth, best, True, splits, known)
        return best, True
    sides = np.empty((2, key.size), np.uint64)
    kept = np.empty((1 << (depth - 1)) - 1, np.int32)
    bounds = np.zeros(2)
    for a in range(n_active):
        j = order[a]
        if counts[STOP] != 0:
            return 0.0 * target, False
        n_left = side_key(key, j, 0, table.every, sides[0])
        n_right = side_key(key, j, 1, table.every, sides[1])
        for way in range(2):
            bounds[way] = bound_of(sides[way], depth - 1, known, table.min_leaf == 1)
        cap = min(best - table.slack, target) - price
        if bounds[0] + bounds[1] >= cap:
            lowest = min(lowest, bounds[0] + bounds[1] + price)
            continue
        counts[EVALUATIONS] += 1
        way = 0 if n_left >= n_right else 1  # the larger side has the larger cost
        for step in range(2):
            fill_side(level, j, way, levels, table)
            bounds[way], _exact = solve_rows(level + 1, depth - 1, cap - bounds[1 - way], levels, table, known, counts)
            if bounds[0] + bounds[1] >= cap:
                break
            if step == 0:
                for s in range(kept.size):
                    kept[s] = levels.splits[level + 1, s]
                way = 1 - way
        total = bounds[0] + bounds[1] + price
        if bounds[0] + bounds[1] >= cap:
            lowest = min(lowest, total)
        else:
            best = total
            if way == 1:
                graft(splits, j, kept, levels.splits[level + 1], depth)
            else:
                graft(splits, j, levels.splits[level + 1], kept, depth)
    exact = best - table.slack < target and counts[STOP] == 0
    cost = best if exact else min(best, lowest)
    if counts[STOP] == 0:
        remember(key, depth, cost, exact, splits, known)
        return cost, exact
    return 0.0 * target, False
