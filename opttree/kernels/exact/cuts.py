"""Costs of linear leaves on both sides of the cuts of a family of splits, under squared loss.

The rows of a family are ordered so that each of its splits sends the first ones left. Rows are added in this order to
the sums of the leaves on the left; those on the right have what is left of their totals. A leaf's least cost grows with
its rows, so that what two cuts cost bounds from below all between them: most are never solved.

Sums of squares are about the means of their rows, however far these are from zero or from other leaves: those of two
sets of rows are joined by what their means differ (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm
for computing sample variances", 1979). Where next to nothing is left of the totals, rows on the right are summed anew.
"""

from collections import namedtuple

import numpy as np

from opttree.kernels.algebra.gram import BLOCK, FASTMATH, add_block_gram, gather_block, padded
from opttree.kernels.algebra.quadratic import solve_linear_leaf
from opttree.kernels.exact.partition import Slots
from opttree.kernels.leaves.fit import CONSTANT
from opttree.runtime.compiling.compiled import inner, kernel
from opttree.runtime.threads import share_in_time

# of S leaves: weights (S,); means (S, p + K) of features and outputs; and about them, of features G (S, q, q), its
# lower triangle, with q = padded(p), of outputs and features c (S, K, p), of outputs yy (S, K); numbers of rows (S,)
Sums = namedtuple("Sums", "mass mean G c yy count")
# of families of cuts (F, C): cost, and what the left and the right side cost at least if they grow
Found = namedtuple("Found", "cost left right")
EVERY = 5  # cuts, of which the first is tried first
UNSURE = 1e-6  # sums of squares that are less than this share of their total have few digits as differences
WIDTH = 8  # columns of a block that are multiplied together


@kernel()
def no_sums(n_slots, p, K):
    """`Sums` of leaves without rows."""
    q = padded(p)
    means, G, c = np.zeros((n_slots, p + K)), np.zeros((n_slots, q, q)), np.zeros((n_slots, K, p))
    return Sums(np.zeros(n_slots), means, G, c, np.zeros((n_slots, K)), np.zeros(n_slots, np.int64))


@inner(fastmath=FASTMATH)
def weighted_sum(values, h, width):
    """Sum of the first ``width`` values times their weights."""
    total = 0.0
    for r in range(width):
        total += h[r] * values[r]
    return total


@inner()
def about_mean(values, h, width, mass, weighted):
    """Take the weighted mean from ``values``, and return it; constants become exact zeros. Where weights are zero,
    values are any. ``weighted`` are the values times their weights.
    """
    first = values[0]
    for r in range(width):
        values[r] -= first
    middle = weighted_sum(values, h, width) / mass
    for r in range(width):
        values[r] -= middle
        weighted[r] = values[r] * h[r]
    return first + middle


@inner()
def join(sums, s, mass, mean, G, c, yy, change):
    """Add the sums of other rows to those of leaf ``s``; ``change (p + K,)`` is for work."""
    K, p = c.shape
    whole = sums.mass[s] + mass
    share, factor = mass / whole, sums.mass[s] * (mass / whole)
    for j in range(p + K):
        change[j] = mean[j] - sums.mean[s, j]
        sums.mean[s, j] += share * change[j]
    sums.mass[s] = whole
    for j in range(p):
        own, row, scaled = sums.G[s, j], G[j], factor * change[j]
        for k in range(j + 1):
            own[k] += row[k] + scaled * change[k]
    for k in range(K):
        own, row, scaled = sums.c[s, k], c[k], factor * change[p + k]
        for j in range(p):
            own[j] += row[j] + scaled * change[j]
        sums.yy[s, k] += yy[k] + scaled * change[p + k]


@kernel(fastmath=FASTMATH)
def add_rows(rows, data, left, right, lefts, rights, blocks):
    """Add rows to the `Sums` of their leaves on the left, ``lefts``, and on the right, ``rights``; ``blocks (2, q,
    BLOCK)`` is for work.
    """
    X, Y, w = data
    B, C = blocks[0], blocks[1]
    p, K, q = X.shape[1], Y.shape[1], rights.G.shape[1]
    n_pairs = left.count * right.count
    start = np.zeros(n_pairs + 1, np.int64)
    for i in rows:
        start[left.of[i] * right.count + right.of[i] + 1] += 1
    for pair in range(n_pairs):
        start[pair + 1] += start[pair]
    order = np.empty(rows.size, np.int32)
    end = start[:-1].copy()
    for i in rows:
        pair = left.of[i] * right.count + right.of[i]
        order[end[pair]] = i
        end[pair] += 1
    h, y, weighted = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    G, c, yy = np.empty((q, q)), np.empty((K, p)), np.empty(K)
    mean, change = np.empty(p + K), np.empty(p + K)
    for pair in range(n_pairs):
        s, t = pair // right.count, pair % right.count
        own = order[start[pair] : start[pair + 1]]
        for first in range(0, own.size, BLOCK):
            width = gather_block(X, own, first, B)
            whole = (width + WIDTH - 1) // WIDTH * WIDTH
            h[:] = 0.0
            mass = 0.0
            for r in range(width):
                h[r] = w[own[first + r]]
                mass += h[r]
            if not mass > 0.0:  # weights so small that they count as zero
                continue
            G[:] = 0.0
            for j in range(p):
                mean[j] = about_mean(B[j], h, whole, mass, C[j])
            add_block_gram(B, C, G, whole)
            for k in range(K):
                for r in range(width):
                    y[r] = Y[own[first + r], k]
                y[width:whole] = 0.0
                mean[p + k] = about_mean(y, h, whole, mass, weighted)
                for j in range(p):
                    c[k, j] = weighted_sum(B[j], weighted, whole)
                yy[k] = weighted_sum(y, weighted, whole)
            join(lefts, s, mass, mean, G, c, yy, change)
            join(rights, t, mass, mean, G, c, yy, change)
        lefts.count[s] += own.size
        rights.count[t] += own.size


@inner(fastmath=FASTMATH)
def solve_leaf(G, c, yy, form, v):
    """Least ``yy - 2 c.v + v'Gv + elastic net``, per output, from the sums of (x, 1); ``v (K, p + 1)``."""
    q = G.shape[0]
    cost = 0.0
    for k in range(v.shape[0]):
        solve_linear_leaf(G, c[k], form.l1, form.l2, v[k])
        cost += yy[k]
        for i in range(q):
            s = -2.0 * c[k, i]
            for j in range(q):
                s += G[i, j] * v[k, j]
            cost += s * v[k, i]
        for j in range(q - 1):
            cost += form.l1 * abs(v[k, j]) + form.l2 * v[k, j] ** 2
    return max(cost, 0.0)


@kernel(fastmath=FASTMATH)
def cost_of_side(sums, form, V):
    """Cost of the leaves that hold ``sums``, and a bound for those with more rows, too.

    The cost is infinite where a leaf has rows, but fewer than ``min_leaf``. ``V (S, K, p + 1)`` are starts and
    solutions.
    """
    S, K, q = V.shape
    G, c = np.zeros((q, q)), np.zeros((K, q))
    cost = 0.0
    least = 0.0
    for s in range(S):
        count = sums.count[s]
        if count == 0:
            continue
        for j in range(q - 1):
            for k in range(j + 1):
                G[j, k] = G[k, j] = sums.G[s, j, k]
            for k in range(K):
                c[k, j] = sums.c[s, k, j]
        G[q - 1, q - 1] = sums.mass[s]
        for j in range(q - 1):
            if G[j, j] <= sums.mass[s] * (CONSTANT * sums.mean[s, j]) ** 2:  # constant, but for rounding
                G[j] = 0.0
                G[:, j] = 0.0
                c[:, j] = 0.0
                V[s, :, j] = 0.0
        if count >= form.min_rows:
            V[s, :, q - 1] = 0.0
            own = solve_leaf(G, c, sums.yy[s], form, V[s])
            least += own
        else:  # a constant costs more than a linear leaf of more rows may
            own = 0.0
            for k in range(K):
                own += max(sums.yy[s, k], 0.0)
        cost += own if count >= form.min_leaf else np.inf
    return cost, least


@inner()
def take_from(totals, gone, rest, few):
    """The sums ``rest`` of what is left of totals without the rows that are gone. Returns whether they have few digits:
    with a share of the weight next to nothing; or, by ``few (S, p + K)``, sums of squares, which may also be zero.
    """
    S, K, p = totals.c.shape
    tiny = False
    few[:] = False
    for s in range(S):
        rest.count[s] = totals.count[s] - gone.count[s]
        rest.mass[s], rest.mean[s], rest.G[s] = totals.mass[s], totals.mean[s], totals.G[s]
        rest.c[s], rest.yy[s] = totals.c[s], totals.yy[s]
        if rest.count[s] == 0 or gone.count[s] == 0:
            continue
        rest.mass[s] -= gone.mass[s]
        if rest.mass[s] <= UNSURE * totals.mass[s]:
            tiny = True
            continue
        share, factor = gone.mass[s] / rest.mass[s], gone.mass[s] * (totals.mass[s] / rest.mass[s])
        change = totals.mean[s] - gone.mean[s]
        rest.mean[s] += share * change
        for j in range(p):
            scaled = factor * change[j]
            for k in range(j + 1):
                rest.G[s, j, k] -= gone.G[s, j, k] + scaled * change[k]
            few[s, j] = rest.G[s, j, j] <= UNSURE * totals.G[s, j, j] and totals.G[s, j, j] > 0.0
        for k in range(K):
            scaled = factor * change[p + k]
            for j in range(p):
                rest.c[s, k, j] -= gone.c[s, k, j] + scaled * change[j]
            rest.yy[s, k] -= gone.yy[s, k] + scaled * change[p + k]
            few[s, p + k] = rest.yy[s, k] <= UNSURE * totals.yy[s, k] and totals.yy[s, k] > 0.0
    return tiny


@inner()
def are_constant(rows, data, slots, few, sums):
    """Whether the features and outputs ``few`` of the leaves are constant in these rows; their sums become zero."""
    X, Y, _w = data
    p, K = X.shape[1], Y.shape[1]
    first = np.full(slots.count, -1)
    for i in rows:
        s = slots.of[i]
        if first[s] < 0:
            first[s] = i
            continue
        for j in range(p + K):
            if few[s, j]:
                there, here = (X[first[s], j], X[i, j]) if j < p else (Y[first[s], j - p], Y[i, j - p])
                if here != there:
                    return False
    for s in range(slots.count):
        for j in range(p):
            if few[s, j]:
                sums.G[s, j, :] = 0.0
                sums.G[s, :, j] = 0.0
                sums.c[s, :, j] = 0.0
        for k in range(K):
            if few[s, p + k]:
                sums.c[s, k, :] = 0.0
                sums.yy[s, k] = 0.0
    return True


@kernel()
def totals_of(rows, data, slots):
    """`Sums` of the leaves ``slots`` of some rows."""
    X, Y, _w = data
    n, p = X.shape
    sums, all_rows = no_sums(slots.count, p, Y.shape[1]), no_sums(min(n, 1), p, Y.shape[1])
    one = Slots(np.zeros(n, np.int64), min(n, 1))
    add_rows(rows, data, one, slots, all_rows, sums, np.zeros((2, padded(p), BLOCK)))
    return sums


@kernel()
def cuts_range(first, last, families, order, cuts, wanted, data, sides, totals, form, found):
    """`Found` of some ``families`` at the ``wanted`` cuts."""
    X, Y, _w = data
    left, right = sides
    p, K = X.shape[1], Y.shape[1]
    rest, few = no_sums(right.count, p, K), np.zeros((right.count, p + K), np.bool_)
    blocks = np.zeros((2, padded(p), BLOCK))
    for f in families[first:last]:
        lefts, rights = no_sums(left.count, p, K), no_sums(right.count, p, K)
        V, W = np.zeros((left.count, K, p + 1)), np.zeros((right.count, K, p + 1))
        start = 0
        for c in range(cuts.shape[1]):
            if not wanted[f, c]:
                continue
            end = cuts[f, c] + 1
            add_rows(order[f, start:end], data, left, right, lefts, rights, blocks)
            start = end
            low, found.left[f, c] = cost_of_side(lefts, form, V)
            anew = take_from(totals, rights, rest, few)
            if anew or (few.any() and not are_constant(order[f, end:], data, right, few, rest)):
                high, found.right[f, c] = cost_of_side(totals_of(order[f, end:], data, right), form, W)
            else:
                high, found.right[f, c] = cost_of_side(rest, form, W)
            found.cost[f, c] = low + high


@kernel()
def leaves_cost(rows, data, slots, form):
    """Cost of the linear leaves ``slots`` that hold ``rows``; infinite if one is too small."""
    X, Y, _w = data
    starts = np.zeros((slots.count, Y.shape[1], X.shape[1] + 1))
    return cost_of_side(totals_of(rows, data, slots), form, starts)[0]


def best_cuts(order, cuts, data, sides, form):
    """The best of all cuts of families of splits above given subtrees, of which all leaves are refitted.

    Parameters
    ----------
    order : (F, m) int32, the rows of ``data``, those that go left first.
    cuts : (F, C) positions in ``order`` after which to cut, increasing, then -1.
    data : `Rows`.
    sides : `Slots` of rows on the left, and of those on the right.
    form : `Form` of linear leaves.

    Returns
    -------
    cost, family, position : infinite, 0 and any if no cut leaves ``min_leaf`` rows in all leaves.
    """
    m, p, C = order.shape[1], data.X.shape[1], cuts.shape[1]
    totals = totals_of(np.arange(m, dtype=np.int32), data, sides[1])
    found = Found(np.full(cuts.shape, np.inf), np.zeros(cuts.shape), np.zeros(cuts.shape))
    bound = np.zeros(cuts.shape)
    done = cuts < 0
    step = EVERY ** max(int(np.log(C / 2) / np.log(EVERY)), 0) if C > 2 else 1
    while step:  # some, then some of those between them that may be better than the best, and so on
        wanted = (np.arange(C) % step == 0) & ~done & (bound <= found.cost.min())
        done |= wanted
        families = np.flatnonzero(wanted.any(axis=1))
        if not families.size:
            break
        args = families, order, cuts, wanted, data, sides, totals, form, found
        solved = wanted.sum() / families.size * (sides[0].count + sides[1].count) * data.Y.shape[1] * p**2 / 3.0
        share_in_time(cuts_range, families.size, (m + solved) * p, p, *args)
        left = np.maximum.accumulate(found.left, axis=1)
        right = np.maximum.accumulate(found.right[:, ::-1], axis=1)[:, ::-1]
        bound = left + right
        step //= EVERY
    family, cut = divmod(int(found.cost.argmin()), C)
    return float(found.cost[family, cut]), family, int(cuts[family, cut])
