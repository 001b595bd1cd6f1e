"""Pairs of features of few values: the best tree of two levels by the statistics of all pairs at once, and more levels
above it by a search over all splits that remembers sets of rows.

Every cut of a feature is a column of bits, one for each row. The statistics of the rows of a node that have both bits
of a pair give the costs of all trees of two levels: under 0/1 loss where all rows count alike, numbers by class,
counted in words of 64 rows; else sums, to which a row adds for all pairs of its bits. Above that each split is tried
in turn, the most promising one first, unless what is known of its sides says that it is too dear: by a set of rows that
was solved before, or by a set that is nearly the same, as each row that leaves takes away what it costs at most.
"""

from collections import namedtuple
from math import comb

import numpy as np

from opttree.kernels.exact.buckets import EVALUATIONS, NODES, STOP
from opttree.kernels.exact.states import EMPTY
from opttree.kernels.exact.statistics import cost as cost_of_sums
from opttree.kernels.exact.vectors import WIDTH, add_four
from opttree.kernels.exact.words import BITS, bit, count_ones, errors
from opttree.runtime.compiling.compiled import kernel, kernel_without_refcounts

MEAN_DEPTH = 4  # of the trees of sets of rows that are remembered, at most
ROUNDED = 1e-9  # relative, of numbers of splits
RECENT = 8  # sets of rows of each depth that others are compared with
NOTHING = 1e18

# label (n,); first (n + 1,) and columns: the columns whose bit is set of each row; every (B, W) bits of all rows;
# price of a split; fewest rows of a leaf; slack: costs that differ by less are equal; whether numbers by class are
# counted; else the statistics (n, S) of rows, what a row costs at most (n,), the `Leaf`; where numbers are counted,
# bits of the rows of each class (K, W), and of those that every tree takes for another class (W,), as equal rows say
Table = namedtuple("Table", "label first columns every price min_leaf slack by_bits sums most leaf classes lost")
# of each level: rows (L, n), their number (L,), as a set key (L, W), bits (L, B W,) and classes (L, planes W,) of these
# rows, order (L, B) of the columns, splits (L, S) of the best tree, -1 for none. Scratch of two levels: total (K,),
# count (B, K), own (4, K), active (B,), best (B, 2) of both sides of each column, and the column of its split; of sums
# whole (S,), of_column (B, S), of_pair (B, B, S), parts (5, S), and numbers of active columns number (B,)
Levels = namedtuple(
    "Levels",
    "rows size key bits classes order splits total count own active best split whole of_column of_pair parts number",
)
# sets of rows that were searched: hash table of their numbers, keys (C, W), depth (C,), bound (C,) and whether it is
# the cost (C,), splits (S,) of those whose cost is known and where each's begin (C,), how many sets, and splits (2,);
# recent (D, RECENT, W) sets, their bounds (D, RECENT), how many ever (D,)
Known = namedtuple("Known", "table keys depth bound exact splits first count recent recent_bound n_recent")


def make_levels(n, n_columns, n_classes, depth, n_sums):
    """Work space of a search of so many levels; ``n_sums`` 0 where numbers by class are counted."""
    bits = n_columns if n_sums == 0 else 0
    W, planes, size = -(-n // BITS), 1 if n_classes == 2 else n_classes, 2**depth - 1
    return Levels(
        np.empty((depth, n), np.int32),
        np.zeros(depth, np.int64),
        np.zeros((depth, W), np.uint64),
        np.empty((depth, bits * W), np.uint64),
        np.empty((depth, planes * W), np.uint64),
        np.empty((depth, n_columns), np.int64),
        np.full((depth, size), -1, np.int32),
        np.zeros(n_classes, np.int64),
        np.zeros((n_columns, n_classes), np.int64),
        np.zeros((4, n_classes), np.int64),
        np.empty(n_columns, np.int64),
        np.empty((n_columns, 2)),
        np.empty((n_columns, 2), np.int32),
        np.empty(n_sums),
        np.empty((n_columns if n_sums else 0, n_sums)),
        np.empty((*[n_columns if n_sums else 0] * 2, n_sums)),
        np.empty((5, n_sums)),
        np.empty(n_columns, np.int64),
    )


def make_known(n, n_columns, depth, memory):
    """Room for the sets of rows that there can be, but in so many mebibytes at most."""
    W, size = -(-n // BITS), 2 ** min(max(depth - 1, 2), MEAN_DEPTH) - 1
    sets = sum(comb(n_columns, level) * 2.0**level for level in range(1, depth - 1))
    capacity = int(min(max(memory * 2**20 / (8.0 * W + 4.0 * size + 41.0), 16), sets + 1))
    table = np.full(2 ** int(np.ceil(np.log2(2.0 * capacity))), EMPTY)
    return Known(
        table,
        np.empty((capacity, W), np.uint64),
        np.empty(capacity, np.int64),
        np.empty(capacity),
        np.empty(capacity, np.bool_),
        np.empty(capacity * size, np.int32),
        np.zeros(capacity, np.int64),
        np.zeros(2, np.int64),
        np.zeros((depth + 1, RECENT, W), np.uint64),
        np.zeros((depth + 1, RECENT)),
        np.zeros(depth + 1, np.int64),
    )


@kernel_without_refcounts()
def enter(level, levels, table):
    """Set up the bits of the rows of a level, where they are counted."""
    if not table.by_bits:
        return
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
def sum_columns(level, levels, table):
    """`count_columns` by sums."""
    whole, of_column, width = levels.whole, levels.of_column, levels.whole.size
    whole[:] = 0.0
    of_column[:] = 0.0
    for e in range(levels.size[level]):
        i = levels.rows[level, e]
        for s in range(0, width, WIDTH):
            add_four(whole, s, table.sums, i * width + s, 1.0)
            for at in range(table.first[i], table.first[i + 1]):
                add_four(of_column, table.columns[at] * width + s, table.sums, i * width + s, 1.0)
    n_active = 0
    for j in range(of_column.shape[0]):
        n = of_column[j, 0]
        if n >= table.min_leaf and whole[0] - n >= table.min_leaf:
            levels.active[n_active] = j
            n_active += 1
    return n_active


@kernel_without_refcounts()
def cost_of_leaf(levels, table):
    """The cost of one leaf, after `count_columns`."""
    return float(errors(levels.total)) if table.by_bits else cost_of_sums(levels.whole, table.leaf, levels.parts[4])


@kernel_without_refcounts()
def cost_of_two(j, levels, table):
    """The costs of the two leaves of column ``j``, after `count_columns`."""
    if table.by_bits:
        own = levels.own[0]
        for k in range(own.size):
            own[k] = levels.total[k] - levels.count[j, k]
        return float(errors(levels.count[j])), float(errors(own))
    own, work = levels.parts[0], levels.parts[4]
    for s in range(own.size):
        own[s] = levels.whole[s] - levels.of_column[j, s]
    return cost_of_sums(levels.of_column[j], table.leaf, work), cost_of_sums(own, table.leaf, work)


@kernel_without_refcounts()
def count_columns(level, levels, table):
    """Statistics of the level's rows, and of those whose bit is set, for each column; the columns that divide the
    rows into sides of the smallest leaf at least, of which it returns the number.
    """
    if not table.by_bits:
        return sum_columns(level, levels, table)
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
def improve_all(i, j, sizes, costs, levels, table):
    """Note the splits of the sides of two columns by each other, by the ``sizes`` and ``costs`` of their four parts:
    the rows of both bits, of the first alone, of the second alone, of none.
    """
    fewest, price = table.min_leaf, table.price
    both, first, second, none = sizes
    if both >= fewest and first >= fewest:
        improve(i, 0, costs[0] + costs[1] + price, j, levels)
    if second >= fewest and none >= fewest:
        improve(i, 1, costs[2] + costs[3] + price, j, levels)
    if both >= fewest and second >= fewest:
        improve(j, 0, costs[0] + costs[2] + price, i, levels)
    if first >= fewest and none >= fewest:
        improve(j, 1, costs[1] + costs[3] + price, i, levels)


@kernel_without_refcounts()
def add_pairs(level, n_active, levels, table):
    """Sums over the rows of a level with both bits, for all pairs of active columns in increasing order."""
    of_pair, number, width, B = levels.of_pair, levels.number, levels.whole.size, levels.number.size
    number[:] = -1
    for a in range(n_active):
        number[levels.active[a]] = a
        for b in range(a + 1, n_active):
            for s in range(width):
                of_pair[a, b, s] = 0.0
    for e in range(levels.size[level]):
        i = np.int64(levels.rows[level, e])
        for at in range(table.first[i], table.first[i + 1]):
            a = number[table.columns[at]]
            if a < 0:
                continue
            for other in range(at + 1, table.first[i + 1]):
                b = number[table.columns[other]]
                if b >= 0:
                    for s in range(0, width, WIDTH):
                        add_four(of_pair, (a * B + b) * width + s, table.sums, i * width + s, 1.0)


@kernel_without_refcounts()
def pairs_of_sums(level, n_active, levels, table):
    """Note the best splits of both sides of every column, by sums."""
    whole, of_column, parts, leaf = levels.whole, levels.of_column, levels.parts, table.leaf
    add_pairs(level, n_active, levels, table)
    for a in range(n_active):
        i = levels.active[a]
        for b in range(a + 1, n_active):
            j = levels.active[b]
            for s in range(whole.size):
                own = levels.of_pair[a, b, s]
                parts[0, s], parts[1, s], parts[2, s] = own, of_column[i, s] - own, of_column[j, s] - own
                parts[3, s] = whole[s] - of_column[i, s] - of_column[j, s] + own
            sizes = (parts[0, 0], parts[1, 0], parts[2, 0], parts[3, 0])
            work = parts[4]
            costs = (
                cost_of_sums(parts[0], leaf, work),
                cost_of_sums(parts[1], leaf, work),
                cost_of_sums(parts[2], leaf, work),
                cost_of_sums(parts[3], leaf, work),
            )
            improve_all(i, j, sizes, costs, levels, table)


@kernel_without_refcounts()
def pairs_of_bits(level, n_active, levels, table):
    """Note the best splits of both sides of every column, by numbers of ones."""
    bits, classes, total, count = levels.bits[level], levels.classes[level], levels.total, levels.count
    both, first, second, none = levels.own[0], levels.own[1], levels.own[2], levels.own[3]
    active, K, W = levels.active, total.size, (levels.size[level] + BITS - 1) // BITS
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
                sizes = (n, i0 + i1, j0 + j1, r0 + r1)
                costs = (min(zero, one), min(i0, i1), min(j0, j1), min(r0, r1))
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
                sizes = (n, n_i, n_j, n_none)
                costs = (errors(both), errors(first), errors(second), errors(none))
            improve_all(i, j, sizes, costs, levels, table)


@kernel_without_refcounts()
def two_levels(level, levels, table):
    """The cost of the best tree of up to two levels of the rows of a level, and its ``levels.splits``."""
    splits, best, active = levels.splits[level], levels.best, levels.active
    n_active = count_columns(level, levels, table)
    cost = cost_of_leaf(levels, table)
    splits[0] = splits[1] = splits[2] = -1
    if cost <= table.price + table.slack:
        return cost
    for a in range(n_active):
        j = active[a]
        best[j, 0], best[j, 1] = cost_of_two(j, levels, table)
        levels.split[j, 0] = levels.split[j, 1] = -1
    if table.by_bits:
        pairs_of_bits(level, n_active, levels, table)
    else:
        pairs_of_sums(level, n_active, levels, table)
    for a in range(n_active):
        j = active[a]
        value = best[j, 0] + best[j, 1] + table.price
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
def limits_of(key, depth, table):
    """A lower bound of the cost of a set of rows, and the levels, at most ``depth`` and at least 2, that an optimal
    tree of it has: each of its splits saves its price, and no tree spares the errors among equal rows.
    """
    if not table.by_bits:
        return 0.0, depth
    n = top = lost = 0
    for k in range(table.classes.shape[0]):
        own = 0
        for w in range(key.size):
            own += count_ones(key[w] & table.classes[k, w])
        n += own
        top = max(top, own)
    for w in range(key.size):
        lost += count_ones(key[w] & table.lost[w])
    saved = n - top - lost
    if table.price * depth > saved:
        depth = min(depth, max(int(saved / table.price * (1.0 + ROUNDED)), 2))
    return lost + min(float(saved), table.price), depth


@kernel_without_refcounts()
def bound_of(key, depth, known, table):
    """A lower bound of the cost of a set of rows, by its classes and what is known of it and of others: not of others
    where a smallest leaf forbids trees of one set that another allows.
    """
    bound, depth = limits_of(key, depth, table)
    number = known.table[slot_of(key, depth, known)]
    bound = max(bound, known.bound[number]) if number != EMPTY else bound
    if number != EMPTY and known.exact[number]:
        return bound
    for r in range(min(known.n_recent[depth], RECENT) if table.min_leaf == 1 else 0):
        left = known.recent_bound[depth, r]
        for w in range(key.size):
            away = known.recent[depth, r, w] & ~key[w]
            if table.by_bits:
                left -= count_ones(away)
            while not table.by_bits and away != 0 and left > bound:
                left -= table.most[w * BITS + count_ones((away & (~away + np.uint64(1))) - np.uint64(1))]
                away &= away - np.uint64(1)
            if left <= bound:
                break
        bound = max(bound, left)
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
        size, first = (1 << depth) - 1, known.count[1]
        known.bound[number], known.exact[number] = cost, exact and first + size <= known.splits.size
        if known.exact[number]:
            known.first[number] = first
            known.count[1] += size
            for s in range(size):
                known.splits[first + s] = splits[s]
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
        left, right = cost_of_two(levels.active[a], levels, table)
        costs[a] = left + right
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
    for s in range((1 << depth) - 1):
        splits[s] = -1
    depth = limits_of(key, depth, table)[1]
    number = known.table[slot_of(key, depth, known)]
    if number != EMPTY and (known.exact[number] or known.bound[number] >= target):
        if known.exact[number]:
            for s in range((1 << depth) - 1):
                splits[s] = known.splits[known.first[number] + s]
        return known.bound[number], known.exact[number]
    counts[NODES] += 1
    enter(level, levels, table)
    if depth == 2:
        cost = two_levels(level, levels, table)
        remember(key, depth, cost, True, splits, known)
        return cost, True
    price, order = table.price, levels.order[level]
    n_active = ranked_columns(level, levels, table)
    best, lowest = cost_of_leaf(levels, table), NOTHING
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
            bounds[way] = bound_of(sides[way], depth - 1, known, table)
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
