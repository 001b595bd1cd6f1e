"""Words of 64 rows: the best splits of both sides of a cut where the cost of a leaf depends on its numbers of rows of
each class: 0/1 loss, also where classes have weights, and log loss where all rows count alike.

Of a node's rows in the order of each feature, one bit says whether a row is of a class, one whether the value changes
after it, and one whether it is left of the cut. Class counts are then numbers of ones, and going from one cut to the
next flips bits. The cuts of a feature within one word, its *cell*, cost at least the errors before the word plus those
after it; only words that may hold something better are opened.

What a cell's cuts cost at least is kept with the cut, for cuts beside it: a fixed split costs no less on more rows, and
each row that leaves takes away one error, or what a row may cost, at most. Costs are whole numbers: of errors, or of
units so small that rounding does not count. Cells are places in the node's order, the same for all cuts. Features of
few values have their rows as bits in one order for all of them, and a cell for each of their cuts.
"""

from collections import namedtuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from opttree.kernels.exact.intervals import close, copy_reach, widen
from opttree.runtime.compiling.compiled import kernel_without_refcounts

FEW = 3  # cuts of a feature of few values, at most
NONE, SOME, MANY = range(3)  # kinds of features of a node: without cuts, of few values, all others
CLOSED = 2**62  # of a cell without cuts, above all costs
LARGEST = 2.0**60  # cost in units, where these are not errors
BITS = 64

# label (n,): class of each row. Of a node of m rows, W = m / 64 words: place (n, p): bit of each row in the order of
# feature 0, which natural (n,) holds, too, and of those of many values; kind (p,); n_cells (p,): W, or the cuts of a
# feature of few values, of which low_cut (p, FEW) are the places in its order, lows (p FEW W,) the rows up to them, in
# the order of feature 0, and low_whole (p, FEW, K) their class counts; ones (K p W,) rows of each class (of two: of the
# second), cuts (p W,) places after which the value changes, every (W,) all rows; whole (K p (W + 1),) class counts
# before each word. For each evaluated cut that is held: bits (held p W,) of the left side and cells (held 2 p R,), R =
# max(W, FEW), what the cells cost at least on the left and on the right side. Scratch: counts (K, most W + 1) of the
# left side's rows of each class before each word; low_left (FEW, K) the same up to the cuts of a feature of few values;
# own (4, K). unit (1,) of the costs, 1 for errors, and in units: weight (K,) of an error in each class; steps (3, 256),
# see `steps_of`; most (1,) that a row may cost; entropy (n + 1,) of n log n, for the log loss, else empty
Words = namedtuple(
    "Words",
    "label natural place kind n_cells low_cut lows low_whole ones cuts every whole bits cells counts low_left own "
    "width unit weight steps most entropy",
)
# of both sides of a cut: their class counts total (2, K), the cost from which on they are of no use (2,), whether they
# may be split at all (2,), their best splits (2, 2), and the reach (2, p, 2), given and found, in cells
Sides = namedtuple("Sides", "total target allowed split reach new_reach")


@intrinsic
def count_ones(_context, word):
    """The number of ones of a word."""

    def generate(_context, builder, _signature, values):
        return builder.ctpop(values[0])

    return types.int64(types.uint64), generate


@intrinsic
def first_one(_context, word):
    """The place of the lowest one of a word that is not 0."""

    def generate(_context, builder, _signature, values):
        return builder.cttz(values[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


def steps_of(zero, one):
    """Of four rows, by their bits (which are of the side; which of these are ones), with these costs of an error in a
    zero and in a one: (3, 256) the ones less the zeros after all of them, and the largest and the smallest difference
    after any of them or none.
    """
    found = np.zeros((3, 256), np.int64)
    for side in range(16):
        for ones in range(16):
            at = 0
            where = found[:, side << 4 | ones]
            for b in range(4):
                if side >> b & 1:
                    at += one if ones >> b & 1 else -zero
                where[1:] = max(where[1], at), min(where[2], at)
            where[0] = at
    return found


STEPS = steps_of(1, 1)


def make_words(n, p, n_classes, held):
    """Work space for nodes of up to ``n`` rows; ``held`` cuts are kept at a time, and one more."""
    W = (n + BITS - 1) // BITS
    planes = 1 if n_classes == 2 else n_classes
    return Words(
        np.zeros(n, np.int32),
        np.empty(n, np.int32),
        np.empty((n, p), np.int32),
        np.zeros(p, np.int64),
        np.zeros(p, np.int64),
        np.zeros((p, FEW), np.int64),
        np.empty(p * FEW * W, np.uint64),
        np.empty((p, FEW, n_classes), np.int64),
        np.empty(planes * p * W, np.uint64),
        np.empty(p * W, np.uint64),
        np.empty(W, np.uint64),
        np.empty(n_classes * p * (W + 1), np.int32),
        np.empty((held + 1) * p * W, np.uint64),
        np.empty((held + 1) * 2 * p * max(W, FEW), np.int64),
        np.empty((n_classes, W + 1), np.int32),
        np.empty((FEW, n_classes), np.int64),
        np.empty((4, n_classes), np.int64),
        np.zeros(1, np.int64),
        np.ones(1),
        np.ones(n_classes, np.int64),
        STEPS,
        np.ones(1, np.int64),
        np.zeros(0, np.int64),
    )


def with_weights(words, weight, n_rows):
    """The work space for errors of class k that cost ``weight[k] (K,)``; of each class there are ``n_rows (K,)``."""
    unit = float(weight @ n_rows) / LARGEST
    units = np.rint(weight / unit).astype(np.int64)
    steps = steps_of(*units) if units.size == 2 else STEPS
    return words._replace(unit=np.array([unit]), weight=units, steps=steps, most=np.array([units.max()]))


def with_logs(words, weight, n):
    """The work space for the log loss of ``n`` rows, each of this ``weight``."""
    sizes = np.arange(n + 1, dtype=np.float64)
    cost = weight * sizes * np.log(np.maximum(sizes, 1.0))
    unit = max(float(cost[-1]), 1e-300) / LARGEST
    units = np.rint(cost / unit).astype(np.int64)
    return words._replace(unit=np.array([unit]), most=np.array([units[-1] - units[-2] + 1]), entropy=units)


@kernel_without_refcounts()
def bit(place):
    """The word with the one bit of a place."""
    return np.uint64(1) << np.uint64(place & 63)


@kernel_without_refcounts()
def find_cuts(order, rank, m, found):
    """The first cuts of a feature, up to ``FEW`` of them, into ``found``; how many there are, ``FEW + 1`` for more."""
    count = start = 0
    last = rank[order[m - 1]]
    while rank[order[start]] != last:
        if count == FEW:
            return FEW + 1
        value = rank[order[start]]
        low, high = start, m - 1  # the values at these are equal to it and above it
        while high - low > 1:
            middle = (low + high) // 2
            if rank[order[middle]] == value:
                low = middle
            else:
                high = middle
        found[count] = start = high
        count += 1
    return count


@kernel_without_refcounts()
def fill_many(j, order, m, rank, words):
    """The bits of a node's rows in the order of a feature of many values."""
    label, place, ones, cuts, whole, count = (
        words.label,
        words.place,
        words.ones,
        words.cuts,
        words.whole,
        words.own[0],
    )
    p, K, W = place.shape[1], words.counts.shape[0], words.width[0]
    for k in range(K):
        count[k] = 0
    for w in range(W):
        for k in range(K):
            whole[(j * (W + 1) + w) * K + k] = count[k]
        change = one = np.uint64(0)
        if K > 2:
            for k in range(K):
                ones[(k * p + j) * W + w] = np.uint64(0)
        for e in range(w * BITS, min(w * BITS + BITS, m)):
            i = order[e]
            place[i, j] = e
            c = label[i]
            count[c] += 1
            if K > 2:
                ones[(c * p + j) * W + w] |= bit(e)
            elif c == 1:
                one |= bit(e)
            if e + 1 < m and rank[i] != rank[order[e + 1]]:
                change |= bit(e)
        cuts[j * W + w] = change
        if K <= 2:
            ones[j * W + w] = one
    for k in range(K):
        whole[(j * (W + 1) + W) * K + k] = count[k]


@kernel_without_refcounts()
def fill_few(j, order, words):
    """The rows up to each cut of a feature of few values, and their class counts."""
    lows, W = words.lows, words.width[0]
    for t in range(words.n_cells[j]):
        at = (j * FEW + t) * W
        for w in range(W):
            lows[at + w] = lows[at - W + w] if t > 0 else np.uint64(0)
        for k in range(words.own.shape[1]):
            words.low_whole[j, t, k] = words.low_whole[j, t - 1, k] if t > 0 else 0
        for e in range(words.low_cut[j, t - 1] if t > 0 else 0, words.low_cut[j, t]):
            i = order[e]
            q = words.natural[i]
            lows[at + (q >> 6)] |= bit(q)
            words.low_whole[j, t, words.label[i]] += 1


@kernel_without_refcounts()
def fill_words(node, words):
    """The bits of a node's rows."""
    order, m, rank = node.order, node.m, node.problem.rank
    W = (m + BITS - 1) // BITS
    words.width[0] = W
    for w in range(W):
        words.every[w] = ~np.uint64(0)
    if m & 63:
        words.every[W - 1] = bit(m) - np.uint64(1)
    for e in range(m):
        words.natural[order[0, e]] = e
    for j in range(rank.shape[0]):
        n_cuts = find_cuts(order[j], rank[j], m, words.low_cut[j])
        words.kind[j] = NONE if n_cuts == 0 else SOME if n_cuts <= FEW else MANY
        words.n_cells[j] = n_cuts if n_cuts <= FEW else W
        if words.kind[j] == MANY or j == 0:
            fill_many(j, order[j], m, rank[j], words)
        if words.kind[j] == SOME:
            fill_few(j, order[j], words)


@kernel_without_refcounts()
def count_left(j, c, words, total):
    """Class counts ``total (2, K)`` of the rows before cut ``c`` of feature ``j``, and of the others."""
    p, K, W = words.place.shape[1], words.counts.shape[0], words.width[0]
    for k in range(K):
        total[0, k] = 0
    if words.kind[j] == SOME:
        for t in range(words.n_cells[j]):
            if words.low_cut[j, t] == c:
                for k in range(K):
                    total[0, k] = words.low_whole[j, t, k]
    else:
        w, mask = c >> 6, bit(c) - np.uint64(1)
        for k in range(K):
            total[0, k] = words.whole[(j * (W + 1) + w) * K + k]
        if w < W and K == 2:
            total[0, 1] += count_ones(words.ones[j * W + w] & mask)
            total[0, 0] = c - total[0, 1]
        elif w < W:
            for k in range(K):
                total[0, k] += count_ones(words.ones[(k * p + j) * W + w] & mask)
    for k in range(K):
        total[1, k] = words.whole[W * K + k] - total[0, k]


@kernel_without_refcounts()
def free_all(buckets, words):
    """All slots that the bits of a node's cuts fit into are free."""
    size = words.place.shape[1] * words.width[0]
    fit = min(buckets.free.size, words.bits.size // size - 1)
    buckets.n_free[0] = fit
    for h in range(fit):
        buckets.free[h] = h
        buckets.users[h] = 0


@kernel_without_refcounts()
def flip(slot, base, rows, some, words):
    """The bits of ``slot`` for the features ``some``, the first of which is 0: those of ``base`` (-1: no row is on the
    left, -2: all are) with the places of ``rows`` flipped.
    """
    bits, place, every, W, p = words.bits, words.place, words.every, words.width[0], words.place.shape[1]
    for t in range(some.size):
        j = some[t]
        at, source = (slot * p + j) * W, (base * p + j) * W
        for w in range(W):
            bits[at + w] = bits[source + w] if base >= 0 else every[w] if base == -2 else np.uint64(0)
    for e in range(rows.size):
        i = rows[e]
        for t in range(some.size):
            j = some[t]
            q = place[i, j]
            bits[(slot * p + j) * W + (q >> 6)] ^= bit(q)


@kernel_without_refcounts()
def inherited(cell, way, near, far, words):
    """What a cell costs at least by what is known at the ends of the interval: ``near`` is the end (slot, or -1, and
    what the rows between cost at most) at which the side has fewer rows, ``far`` that at which it has more.
    """
    cells, size = words.cells, words.place.shape[1] * max(words.width[0], FEW)
    known = 0
    if near[0] >= 0:
        known = cells[(near[0] * 2 + way) * size + cell]
    if far[0] >= 0:
        value = cells[(far[0] * 2 + way) * size + cell]
        known = max(known, CLOSED if value == CLOSED else value - far[1])
    return known


@kernel_without_refcounts()
def errors(total):
    """The errors of a leaf of these class counts (K,)."""
    other = top = 0
    for k in range(total.size):
        other += min(top, total[k])
        top = max(top, total[k])
    return other


@kernel_without_refcounts()
def log_cost(total, words):
    """The log loss of a leaf of these class counts (K,), in units."""
    n = other = 0
    for k in range(total.size):
        n += total[k]
        other += words.entropy[total[k]]
    return max(words.entropy[n] - other, 0)


@kernel_without_refcounts()
def leaf_cost(total, words):
    """What a leaf of these class counts (K,) costs, in units."""
    if words.entropy.size:
        return log_cost(total, words)
    other = top = 0
    for k in range(total.size):
        value = total[k] * words.weight[k]
        other += min(top, value)
        top = max(top, value)
    return other


@kernel_without_refcounts()
def below(limit, unit):
    """The number of units below which costs are below ``limit``."""
    return np.int64(np.ceil(min(limit / unit, 4.0 * LARGEST)))


@kernel_without_refcounts()
def open_two(x, ones, cuts, before, total, least, fewest, words):
    """Look at the cuts of a word of two classes, under 0/1 loss.

    ``x``: rows of the side; ``before`` and ``total (2,)``: class counts before the word, and of the side.

    Returns
    -------
    cost : the lowest cost of its cuts, or a lower bound of it that is at least ``least``.
    best, at : the lowest cost of a cut with ``fewest`` rows on either side, if below ``least``, and its place in the
        word.
    """
    weight, steps = words.weight, words.steps
    zero, one = total[0] * weight[0], total[1] * weight[1]
    leaf = min(zero, one)
    start = d = before[1] * weight[1] - before[0] * weight[0]
    c = x & ones
    high = low = d
    for s in range(16):
        shift = np.uint64(4 * s)
        k = np.int64(((x >> shift) & np.uint64(15)) << np.uint64(4) | ((c >> shift) & np.uint64(15)))
        high = max(high, d + steps[1, k])
        low = min(low, d + steps[2, k])
        d += steps[0, k]
    cost = min(leaf, one - high, zero + low)
    best, at = CLOSED, -1
    if cost >= least:
        return cost, best, at
    cost = leaf
    left = cuts
    while left != np.uint64(0):
        q = first_one(left)
        left &= left - np.uint64(1)
        mask = ~np.uint64(0) >> np.uint64(63 - q)
        o, n = count_ones(c & mask), count_ones(x & mask)
        d = start + o * weight[1] - (n - o) * weight[0]
        value = min(leaf, one - d, zero + d)
        cost = min(cost, value)
        if value < best:
            rows = before[0] + before[1] + n
            if rows >= fewest and total[0] + total[1] - rows >= fewest:
                best, at = value, q
    return cost, best, at


@kernel_without_refcounts()
def open_many(x, j, w, own_order, before, total, least, fewest, words):
    """`open_two` for more classes; word ``w`` of feature ``j``, whose order is ``own_order``."""
    own, rest, weight, label = words.own[2], words.own[3], words.weight, words.label
    K = total.size
    rows = n = size = top = top_rest = 0
    for k in range(K):
        own[k] = before[k] * weight[k]
        rest[k] = (total[k] - before[k]) * weight[k]
        rows += before[k]
        n += total[k]
        size += total[k] * weight[k]
        top, top_rest = max(top, own[k]), max(top_rest, rest[k])
    cost, best, at = CLOSED, CLOSED, -1
    left = words.cuts[j * words.width[0] + w]
    while left != np.uint64(0):
        q = first_one(left)
        left &= left - np.uint64(1)
        new = x & (~np.uint64(0) >> np.uint64(63 - q))
        x ^= new
        while new != np.uint64(0):
            c = label[own_order[w * BITS + first_one(new)]]
            new &= new - np.uint64(1)
            falls = rest[c] == top_rest
            own[c] += weight[c]
            rest[c] -= weight[c]
            rows += 1
            top = max(top, own[c])
            if falls:
                top_rest = 0
                for k in range(K):
                    top_rest = max(top_rest, rest[k])
        value = size - top - top_rest
        cost = min(cost, value)
        if value < min(best, least) and rows >= fewest and n - rows >= fewest:
            best, at = value, q
    return cost, best, at


@kernel_without_refcounts()
def open_by_eights(x, j, w, before, total, least, fewest, words):
    """`open_two` for the log loss; word ``w`` of feature ``j``. Of eight places, the cuts cost at least what the rows
    before them and those after them do. ``before (K,)`` is changed.
    """
    ones, after, own, rest = words.ones, words.own[0], words.own[2], words.own[3]
    p, W, K = words.place.shape[1], words.width[0], total.size
    cost, best, at = CLOSED, CLOSED, -1
    for s in range(8):
        eight = np.uint64(255) << np.uint64(8 * s)
        left, y = words.cuts[j * W + w] & eight, x & eight
        count_word(y, j, w, before, ones, p, W, after)
        if left != np.uint64(0):
            for k in range(K):
                rest[k] = total[k] - after[k]
            bound = log_cost(before, words) + log_cost(rest, words)
            if bound >= min(best, least):
                cost = min(cost, bound)
                left = np.uint64(0)
        while left != np.uint64(0):
            q = first_one(left)
            left &= left - np.uint64(1)
            count_word(y & (~np.uint64(0) >> np.uint64(63 - q)), j, w, before, ones, p, W, own)
            rows = size = 0
            for k in range(K):
                rest[k] = total[k] - own[k]
                rows += own[k]
                size += rest[k]
            value = log_cost(own, words) + log_cost(rest, words)
            cost = min(cost, value)
            if value < min(best, least) and rows >= fewest and size >= fewest:
                best, at = value, q
        for k in range(K):
            before[k] = after[k]
    return cost, best, at


@kernel_without_refcounts()
def count_word(x, j, w, before, ones, p, W, found):
    """Class counts ``before (K,)`` with those of the rows ``x`` of word ``w`` of feature ``j``, into ``found``."""
    K = before.size
    if K == 2:
        o = count_ones(x & ones[j * W + w])
        found[0], found[1] = before[0] + count_ones(x) - o, before[1] + o
    else:
        for k in range(K):
            found[k] = before[k] + count_ones(x & ones[(k * p + j) * W + w])


@kernel_without_refcounts()
def count_before(slot, j, last, words):
    """Class counts of the left side's rows before each word of feature ``j``, and before the one after ``last``."""
    counts, ones, bits = words.counts, words.ones, words.bits
    p, W, K = words.place.shape[1], words.width[0], counts.shape[0]
    start = (slot * p + j) * W
    for k in range(K):
        counts[k, 0] = 0
    for w in range(last + 1):
        x = bits[start + w]
        if K == 2:
            o = count_ones(x & ones[j * W + w])
            counts[1, w + 1] = counts[1, w] + o
            counts[0, w + 1] = counts[0, w] + count_ones(x) - o
        else:
            for k in range(K):
                counts[k, w + 1] = counts[k, w] + count_ones(x & ones[(k * p + j) * W + w])


@kernel_without_refcounts()
def bound_cells(here, j, first, last, way, total, near, far, words):
    """What the cells of feature ``j`` cost at least, into ``words.cells`` from ``here`` on; the most promising one."""
    counts, cells, cuts, whole = words.counts, words.cells, words.cuts, words.whole
    before, after = words.own[1], words.own[2]
    W, K, weight = words.width[0], counts.shape[0], words.weight
    plain, simple = words.unit[0] == 1.0, K == 2 and words.entropy.size == 0
    promising = first
    for w in range(first, last + 1):
        if cuts[j * W + w] == np.uint64(0):
            cells[here + w] = CLOSED
            continue
        at = (j * (W + 1) + w) * K
        if simple:
            z, o, z_next, o_next = counts[0, w], counts[1, w], counts[0, w + 1], counts[1, w + 1]
            if way == 1:
                z, o, z_next, o_next = whole[at] - z, whole[at + 1] - o, whole[at + 2] - z_next, whole[at + 3] - o_next
            z_next, o_next = total[0] - z_next, total[1] - o_next
            if not plain:
                z, o, z_next, o_next = z * weight[0], o * weight[1], z_next * weight[0], o_next * weight[1]
            least = min(z, o) + min(z_next, o_next)
        else:
            for k in range(K):
                before[k] = counts[k, w] if way == 0 else whole[at + k] - counts[k, w]
                done = counts[k, w + 1] if way == 0 else whole[at + K + k] - counts[k, w + 1]
                after[k] = total[k] - done
            least = errors(before) + errors(after) if plain else leaf_cost(before, words) + leaf_cost(after, words)
        cells[here + w] = max(least, inherited(j * max(W, FEW) + w, way, near, far, words))
        if cells[here + w] < cells[here + promising]:
            promising = w
    return promising


@kernel_without_refcounts()
def count_low(slot, j, words):
    """Class counts of the left side's rows up to each cut of a feature of few values, into ``words.low_left``."""
    bits, lows, ones, counts = words.bits, words.lows, words.ones, words.low_left
    p, W, K = words.place.shape[1], words.width[0], counts.shape[1]
    natural = slot * p * W
    for t in range(words.n_cells[j]):
        at = (j * FEW + t) * W
        if K == 2:
            n = one = 0
            for w in range(W):
                x = bits[natural + w] & lows[at + w]
                n += count_ones(x)
                one += count_ones(x & ones[w])
            counts[t, 0], counts[t, 1] = n - one, one
        else:
            for k in range(K):
                counts[t, k] = 0
            for w in range(W):
                x = bits[natural + w] & lows[at + w]
                for k in range(K):
                    counts[t, k] += count_ones(x & ones[k * p * W + w])


@kernel_without_refcounts()
def best_by_words(slot, ends, some, node, sides, words, found):
    """The best split, or none, of both sides of a cut whose bits are in ``slot``.

    ``ends (2, 2)``: slot (-1: none) of the cuts at the left and the right end of the interval, and the rows between
    each and this cut, which become what these cost at most. Only splits in ``sides.reach`` are looked at, see
    `opttree.kernels.exact.buckets.best_of_side`, whose results for each side go to ``found (2, 3)``. Returns the number
    of cells that were opened.
    """
    totals, target, allowed, split, reach, new_reach = sides
    order, problem = node.order, node.problem
    p, K, W = words.place.shape[1], words.counts.shape[0], words.width[0]
    price, slack, fewest = problem.price, problem.slack, problem.min_leaf
    unit = words.unit[0]
    cells, cuts = words.cells, words.cuts
    before, after = words.own[1], words.own[2]
    room = max(W, FEW)
    opened, size = 0, p * room
    for way in range(2):
        ends[way, 1] = np.int64(min(float(ends[way, 1]) * words.most[0], float(CLOSED)))
    for way in range(2):
        n = 0
        for k in range(K):
            n += totals[way, k]
        leaf = leaf_cost(totals[way], words) * unit
        split[way, 0], split[way, 1] = -1, 0
        close(new_reach[way])
        found[way, 0] = leaf if n >= fewest or not allowed[way] else np.inf
        found[way, 1] = found[way, 2] = min(leaf, target[way]) if allowed[way] else leaf
        if allowed[way] and leaf <= price + slack:
            found[way, 1], found[way, 2] = leaf, leaf
            copy_reach(reach[way], new_reach[way])
            for cell in range(size):
                cells[(slot * 2 + way) * size + cell] = 0
            allowed[way] = False
    for t in range(some.size):
        j = some[t]
        high, counted = words.kind[j] == MANY, False
        if high:
            last = -1
            for way in range(2):
                if allowed[way]:
                    last = max(last, min(reach[way, j, 1], W - 1))
            count_before(slot, j, last, words)
        for way in range(2):
            first, last = reach[way, j, 0], min(reach[way, j, 1], words.n_cells[j] - 1)
            if first > last or not allowed[way]:
                continue
            here = (slot * 2 + way) * size + j * room
            near, far, total = ends[way], ends[1 - way], totals[way]
            promising = bound_cells(here, j, first, last, way, total, near, far, words) if high else first
            low, top = CLOSED, -1
            for step in range(first - 1, last + 1):  # the most promising one first
                cell = promising if step < first else step
                if step == promising:
                    continue
                known = np.int64(cells[here + cell]) if high else inherited(j * room + cell, way, near, far, words)
                limit = below(min(found[way, 0] - slack, target[way]) - price, unit)
                value, at = CLOSED, -1
                if known < limit:
                    opened += 1
                    if high:
                        x = words.bits[(slot * p + j) * W + cell]
                        x = x if way == 0 else words.every[cell] & ~x
                        for k in range(K):
                            own = np.int64(words.counts[k, cell])
                            before[k] = own if way == 0 else words.whole[(j * (W + 1) + cell) * K + k] - own
                        where = before, totals[way], limit, fewest, words
                        if words.entropy.size:
                            cost, value, at = open_by_eights(x, j, cell, *where)
                        elif K == 2:
                            cost, value, at = open_two(x, words.ones[j * W + cell], cuts[j * W + cell], *where)
                        else:
                            cost, value, at = open_many(x, j, cell, order[j], *where)
                    else:
                        if not counted:
                            count_low(slot, j, words)
                            counted = True
                        n = m = 0
                        for k in range(K):
                            before[k] = words.low_left[cell, k]
                            if way == 1:
                                before[k] = words.low_whole[j, cell, k] - before[k]
                            after[k] = total[k] - before[k]
                            n += before[k]
                            m += after[k]
                        cost = leaf_cost(before, words) + leaf_cost(after, words)
                        if n >= fewest and m >= fewest:
                            value, at = cost, 0
                    known = max(known, cost)
                cells[here + cell] = known
                found[way, 2] = min(found[way, 2], known * unit + price)
                if known >= limit:
                    found[way, 1] = min(found[way, 1], known * unit + price)
                if at >= 0 and value * unit + price < found[way, 0]:
                    found[way, 0] = value * unit + price
                    split[way, 0] = j
                    last = cell * BITS + at if high else words.low_cut[j, cell] - 1
                    split[way, 1] = problem.rank[j, order[j, last]]
                if known * unit + price < target[way]:
                    low, top = min(low, cell), max(top, cell)
            widen(new_reach[way], j, low, top)
    for way in range(2):
        found[way, 1] = min(found[way, 0], found[way, 1])
        found[way, 2] = min(found[way, 2], found[way, 1])
    return opened
