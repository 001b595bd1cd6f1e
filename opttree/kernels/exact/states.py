"""Enumeration of the distinct sets of rows that splits produce: the states of the hypergraph of trees.

Sets are bit strings, 64 rows per word, in the order in which they were found, with an open-addressing hash table of
their numbers.
"""

from collections import namedtuple

import numpy as np

from opttree.runtime.compiling.compiled import inner, kernel

EMPTY = -1

# bit strings of the left sides (m, words); splits of family f are start[f]..start[f + 1] - 1, nested
Splits = namedtuple("Splits", "words start")
# fewest rows of a side; whether equal partitions by splits of different families, and of one family too, stay apart
Rule = namedtuple("Rule", "min_leaf by_family every")
# hash table of the numbers of sets, and their bit strings
Sets = namedtuple("Sets", "table words")
# of a level: columns (C, 4), see `split_sets`, and their cost (C,) without ``price``; the last two columns are numbers
# of states of the level below, or -1 if the cost includes both leaves; leaf (S,): cost of being a leaf
Actions = namedtuple("Actions", "columns cost leaf")


@inner(inline="always")
def count_bits(word):
    """Number of ones."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel()
def pack(order, start, cut):
    """(m, words) bit strings of the left sides of families of splits, see `Candidates`."""
    n = order.shape[1]
    words = np.zeros((cut.size, (n + 63) // 64), np.uint64)
    for f in range(start.size - 1):
        for c in range(start[f], start[f + 1]):
            first = 0
            if c > start[f]:
                words[c] = words[c - 1]
                first = cut[c - 1]
            for e in range(first, cut[c]):
                i = order[f, e]
                words[c, i >> 6] |= np.uint64(1) << np.uint64(i & 63)
    return words


@kernel()
def pack_rows(rows, n):
    """(words,) bit string of row numbers."""
    words = np.zeros((n + 63) // 64, np.uint64)
    for i in rows:
        words[i >> 6] |= np.uint64(1) << np.uint64(i & 63)
    return words


@kernel()
def differences(splits, inside, left):
    """(m,) number of rows of ``inside`` that each split ``(m, words)`` routes differently from ``left``."""
    out = np.zeros(splits.shape[0], np.int64)
    for c in range(splits.shape[0]):
        for k in range(inside.size):
            out[c] += count_bits((splits[c, k] ^ left[k]) & inside[k])
    return out


@kernel()
def sizes(sets):
    """(S,) number of rows of each set."""
    out = np.zeros(sets.shape[0], np.int64)
    for s in range(sets.shape[0]):
        for k in range(sets.shape[1]):
            out[s] += count_bits(sets[s, k])
    return out


@kernel()
def slot_of(words, table, sets):
    """Index in the table where the set is, or would be inserted."""
    h = np.uint64(1469598103934665603)
    for k in range(words.size):
        h = (h ^ words[k]) * np.uint64(1099511628211)
        h ^= h >> np.uint64(29)
    mask = table.size - 1
    slot = np.int64(h & np.uint64(mask))
    while table[slot] != EMPTY:
        same = True
        for k in range(words.size):
            if sets[table[slot], k] != words[k]:
                same = False
                break
        if same:
            break
        slot = (slot + 1) & mask
    return slot


@kernel()
def fill_table(table, sets, count):
    """Insert the first ``count`` sets."""
    table[:] = EMPTY
    for s in range(count):
        table[slot_of(sets[s], table, sets)] = s


@kernel()
def split_sets(parents, first, last, splits, rule, known, count, columns):
    """Split the sets ``parents[first:last]`` in every distinct way; inserts new sets and fills ``columns``.

    Parameters
    ----------
    splits, rule : `Splits` and `Rule`.
    known, count : the `Sets` so far and their number; the arrays must be large enough.
    columns : (capacity, 4) int64: parent, split, left set, right set.

    Returns
    -------
    (count, columns filled)
    """
    min_leaf, by_family, every = rule
    start, sides = splits.start, splits.words
    table, sets = known
    words = sides.shape[1]
    left = np.empty(words, np.uint64)
    right = np.empty(words, np.uint64)
    stamp = np.full(sets.shape[0], -1)
    filled = 0
    for s in range(first, last):
        m = 0
        for k in range(words):
            m += count_bits(parents[s, k])
        for f in range(start.size - 1):
            previous = 0
            for c in range(start[f], start[f + 1]):
                size = 0
                for k in range(words):
                    left[k] = parents[s, k] & sides[c, k]
                    size += count_bits(left[k])
                if (size == previous and not every) or size < min_leaf or m - size < min_leaf:
                    continue
                previous = size
                for k in range(words):
                    right[k] = parents[s, k] & ~sides[c, k]
                found = slot_of(left, table, sets)
                if table[found] != EMPTY and stamp[table[found]] == s and not by_family:
                    continue  # the same partition as by an earlier split, or its mirror image
                if table[found] == EMPTY:
                    table[found] = count
                    sets[count] = left
                    count += 1
                a = table[found]
                found = slot_of(right, table, sets)
                if table[found] == EMPTY:
                    table[found] = count
                    sets[count] = right
                    count += 1
                b = table[found]
                stamp[a] = s
                stamp[b] = s
                columns[filled, 0] = s
                columns[filled, 1] = c
                columns[filled, 2] = a
                columns[filled, 3] = b
                filled += 1
    return count, filled


@kernel()
def best_actions(actions, below, below_count, price, value, count, choice):
    """Backward step of the dynamic program for one level: the cheapest action of each state.

    Parameters
    ----------
    below, below_count : values and numbers of splits of the states below.
    value, count, choice (S,) : overwritten; ``choice`` is a column, -1 for a leaf. Ties are broken by fewer splits.
    """
    columns, cost, leaf = actions
    value[:] = leaf
    count[:] = 0
    choice[:] = -1
    for c in range(cost.size):
        s, _split, left, right = columns[c]
        total = cost[c] + price
        splits = 1
        if left >= 0:
            total += below[left] + below[right]
            splits += below_count[left] + below_count[right]
        slack = 1e-12 * abs(value[s]) if value[s] < np.inf else 0.0
        if total < value[s] - slack or (total <= value[s] + slack and splits < count[s]):
            value[s] = total
            count[s] = splits
            choice[s] = c


@kernel()
def least_excess(actions, below, price, value, excess, below_excess, column_excess, leaf_excess):
    """Forward step: lower bounds (reduced costs) on how much more than the cheapest a tree with an action costs.

    ``excess (S,)`` of the level's states is given; those of the states below, the columns and the leaves are computed.
    """
    columns, cost, leaf = actions
    below_excess[:] = np.inf
    for s in range(value.size):
        leaf_excess[s] = excess[s] + leaf[s] - value[s]
    for c in range(cost.size):
        s, _split, left, right = columns[c]
        total = excess[s] + cost[c] + price - value[s]
        if left >= 0:
            total += below[left] + below[right]
            below_excess[left] = min(below_excess[left], total)
            below_excess[right] = min(below_excess[right], total)
        column_excess[c] = total
