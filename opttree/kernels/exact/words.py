"""Words of 64 rows: the best splits of both sides of a cut under 0/1 loss, where all rows count alike.

Of a node's rows in the order of each feature, one bit says whether a row is of a class, one whether the value changes
after it, and one whether it is left of the cut. Class counts are then numbers of ones, and going from one cut to the
next flips bits. The cuts of a feature within one word, its *cell*, cost at least the errors before the word plus those
after it; only words that may hold something better are opened.

What a cell's cuts cost at least is kept with the cut, for cuts beside it: a fixed split has no fewer errors on more
rows, and each row that leaves takes away one error at most. Cells are places in the node's order, the same for all
cuts. Features of few values have their rows as bits in one order for all of them, and a cell for each of their cuts.
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
CLOSED = 2**30  # of a cell without cuts
BITS = 64

# label (n,): class of each row. Of a node of m rows, W = m / 64 words: place (n, p): bit of each row in the order of
# feature 0, which natural (n,) holds, too, and of those of many values; kind (p,); n_cells (p,): W, or the cuts of a
# feature of few values, of which low_cut (p, FEW) are the places in its order, lows (p FEW W,) the rows up to them, in
# the order of feature 0, and low_whole (p, FEW, K) their class counts; ones (K p W,) rows of each class (of two: of the
# second), cuts (p W,) places after which the value changes, every (W,) all rows; whole (K p (W + 1),) class counts
# before each word. For each evaluated cut that is held: bits (held p W,) of the left side and cells (held 2 p R,), R =
# max(W, FEW), what the cells cost at least on the left and on the right side. Scratch: counts (K, most W + 1) of the
# left side's rows of each class before each word; low_left (FEW, K) the same up to the cuts of a feature of few values;
# own (4, K)
Words = namedtuple(
    "Words",
    "label natural place kind n_cells low_cut lows low_whole ones cuts every whole bits cells counts low_left own "
    "width",
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


def _steps():
    """Of four rows, by their bits (which are of the side; which of these are ones): the ones less the zeros after all
    of them, and the largest and the smallest difference after any of them or none.
    """
    end, high, low = (np.zeros(256, np.int8) for _ in range(3))
    for side in range(16):
        for ones in range(16):
            at = 0
            for b in range(4):
                if side >> b & 1:
                    at += 1 if ones >> b & 1 else -1
                high[side << 4 | ones] = max(high[side << 4 | ones], at)
                low[side << 4 | ones] = min(low[side << 4 | ones], at)
            end[side << 4 | ones] = at
    return end, high, low


END, TOP, BOTTOM = _steps()


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
        np.empty((held + 1) * 2 * p * max(W, FEW), np.int32),
        np.empty((n_classes, W + 1), np.int32),
        np.empty((FEW, n_classes), np.int64),
        np.empty((4, n_classes), np.int64),
        np.zeros(1, np.int64),
    )


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
    rows between) at which the side has fewer rows, ``far`` that at which it has more.
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
def below(limit):
    """The whole number below which costs are below ``limit``."""
    return np.int64(np.ceil(min(limit, 1e9)))


@kernel_without_refcounts()
def open_two(x, ones, cuts, before, total, least, fewest):
    """Look at the cuts of a word of two classes.

    ``x``: rows of the side; ``before`` and ``total (2,)``: class counts before the word, and of the side.

    Returns
    -------
    cost : the lowest cost of its cuts, or a lower bound of it that is at least ``least``.
    best, at : the lowest cost of a cut with ``fewest`` rows on either side, if below ``least``, and its place in the
        word.
    """
    zero, one = total[0], total[1]
    leaf = min(zero, one)
    d = before[1] - before[0]
    c = x & ones
    high = low = d
    for s in range(16):
        shift = np.uint64(4 * s)
        k = np.int64(((x >> shift) & np.uint64(15)) << np.uint64(4) | ((c >> shift) & np.uint64(15)))
        high = max(high, d + TOP[k])
        low = min(low, d + BOTTOM[k])
        d += END[k]
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
        d = before[1] - before[0] + 2 * o - n
        value = min(leaf, one - d, zero + d)
        cost = min(cost, value)
        if value < best:
            rows = before[0] + before[1] + n
            if rows >= fewest and zero + one - rows >= fewest:
                best, at = value, q
    return cost, best, at


@kernel_without_refcounts()
def open_many(x, w, own_order, cuts, before, total, least, fewest, own, rest, label):
    """`open_two` for more classes; word ``w`` of the order of a feature. ``own`` and ``rest (K,)`` are scratch."""
    K = total.size
    rows = size = top = top_rest = 0
    for k in range(K):
        own[k] = before[k]
        rest[k] = total[k] - before[k]
        rows += own[k]
        size += total[k]
        top, top_rest = max(top, own[k]), max(top_rest, rest[k])
    cost, best, at = CLOSED, CLOSED, -1
    left = cuts
    while left != np.uint64(0):
        q = first_one(left)
        left &= left - np.uint64(1)
        new = x & (~np.uint64(0) >> np.uint64(63 - q))
        x ^= new
        while new != np.uint64(0):
            c = label[own_order[w * BITS + first_one(new)]]
            new &= new - np.uint64(1)
            own[c] += 1
            rest[c] -= 1
            rows += 1
            top = max(top, own[c])
            if rest[c] + 1 == top_rest:
                top_rest = 0
                for k in range(K):
                    top_rest = max(top_rest, rest[k])
        value = size - top - top_rest
        cost = min(cost, value)
        if value < min(best, least) and rows >= fewest and size - rows >= fewest:
            best, at = value, q
    return cost, best, at


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
    W, K = words.width[0], counts.shape[0]
    promising = first
    for w in range(first, last + 1):
        if cuts[j * W + w] == np.uint64(0):
            cells[here + w] = CLOSED
            continue
        at = (j * (W + 1) + w) * K
        if K == 2:
            z, o, z_next, o_next = counts[0, w], counts[1, w], counts[0, w + 1], counts[1, w + 1]
            if way == 1:
                z, o, z_next, o_next = whole[at] - z, whole[at + 1] - o, whole[at + 2] - z_next, whole[at + 3] - o_next
            least = min(z, o) + min(total[0] - z_next, total[1] - o_next)
        else:
            for k in range(K):
                before[k] = counts[k, w] if way == 0 else whole[at + k] - counts[k, w]
                done = counts[k, w + 1] if way == 0 else whole[at + K + k] - counts[k, w + 1]
                after[k] = total[k] - done
            least = errors(before) + errors(after)
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
    each and this cut. Only splits in ``sides.reach`` are looked at, see `opttree.kernels.exact.buckets.best_of_side`,
    whose results for each side go to ``found (2, 3)``. Returns the number of cells that were opened.
    """
    totals, target, allowed, split, reach, new_reach = sides
    order, problem = node.order, node.problem
    p, K, W = words.place.shape[1], words.counts.shape[0], words.width[0]
    price, slack, fewest = problem.price, problem.slack, problem.min_leaf
    cells, cuts = words.cells, words.cuts
    before, after, rest = words.own[1], words.own[2], words.own[3]
    room = max(W, FEW)
    opened, size = 0, p * room
    for way in range(2):
        n = 0
        for k in range(K):
            n += totals[way, k]
        leaf = float(errors(totals[way]))
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
                limit = below(min(found[way, 0] - slack, target[way]) - price)
                value, at = CLOSED, -1
                if known < limit:
                    opened += 1
                    if high:
                        x = words.bits[(slot * p + j) * W + cell]
                        x = x if way == 0 else words.every[cell] & ~x
                        for k in range(K):
                            own = np.int64(words.counts[k, cell])
                            before[k] = own if way == 0 else words.whole[(j * (W + 1) + cell) * K + k] - own
                        if K == 2:
                            ones = words.ones[j * W + cell]
                            cost, value, at = open_two(x, ones, cuts[j * W + cell], before, total, limit, fewest)
                        else:
                            cost, value, at = open_many(
                                x,
                                cell,
                                order[j],
                                cuts[j * W + cell],
                                before,
                                total,
                                limit,
                                fewest,
                                after,
                                rest,
                                words.label,
                            )
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
                        cost = errors(before) + errors(after)
                        if n >= fewest and m >= fewest:
                            value, at = cost, 0
                    known = max(known, cost)
                cells[here + cell] = known
                found[way, 2] = min(found[way, 2], known + price)
                if known >= limit:
                    found[way, 1] = min(found[way, 1], known + price)
                if at >= 0 and value + price < found[way, 0]:
                    found[way, 0] = value + price
                    split[way, 0] = j
                    last = cell * BITS + at if high else words.low_cut[j, cell] - 1
                    split[way, 1] = problem.rank[j, order[j, last]]
                if known + price < target[way]:
                    low, top = min(low, cell), max(top, cell)
            widen(new_reach[way], j, low, top)
    for way in range(2):
        found[way, 1] = min(found[way, 0], found[way, 1])
        found[way, 2] = min(found[way, 2], found[way, 1])
    return opened
