"""Costs of linear leaves on both sides of the cuts of a family of splits, under squared loss.

The rows of a family are ordered so that each of its splits sends the first ones left. Rows are added in this order to
the normal equations of the leaves on the left; those on the right have what is left of their totals. A leaf's least
cost grows with its rows, so that what two cuts cost bounds from below all between them: most are never solved.
"""

from collections import namedtuple

import numpy as np

from opttree.kernels.algebra.gram import BLOCK, FASTMATH, add_block_gram, gather_block, padded
from opttree.kernels.algebra.quadratic import solve_linear_leaf
from opttree.kernels.exact.partition import Slots
from opttree.runtime.compiling.compiled import inner, kernel
from opttree.runtime.threads import share_in_time

# normal equations of S leaves in (x, 1): G (S, q, q), its lower triangle, with q = padded(p); c (S, K, p + 1);
# sums of squared outputs (S, K); numbers of rows (S,)
Sums = namedtuple("Sums", "G c yy count")
# of families of cuts (F, C): cost, and what the left and the right side cost at least if they grow
Found = namedtuple("Found", "cost left right")
EVERY = 5  # cuts, of which the first is tried first
NOISE = 1e-13  # of a feature's sum of squares that is left of its total
WIDTH = 8  # columns of a block that are multiplied together


@kernel()
def no_sums(n_slots, p, K):
    """`Sums` of leaves without rows."""
    q = padded(p)
    G, c = np.zeros((n_slots, q, q)), np.zeros((n_slots, K, p + 1))
    return Sums(G, c, np.zeros((n_slots, K)), np.zeros(n_slots, np.int64))


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
    h = np.empty(BLOCK)
    G, c, yy = np.empty((q, q)), np.empty((K, p + 1)), np.empty(K)
    for pair in range(n_pairs):
        s, t = pair // right.count, pair % right.count
        own = order[start[pair] : start[pair + 1]]
        if own.size == 0:
            continue
        G[:] = 0.0
        c[:] = 0.0
        yy[:] = 0.0
        for first in range(0, own.size, BLOCK):
            width = gather_block(X, own, first, B)
            whole = (width + WIDTH - 1) // WIDTH * WIDTH
            h[:] = 0.0
            for r in range(width):
                h[r] = w[own[first + r]]
            for j in range(p + 1):
                for r in range(whole):
                    C[j, r] = B[j, r] * h[r]
            add_block_gram(B, C, G, whole)
            for k in range(K):
                for r in range(width):
                    y = Y[own[first + r], k]
                    h[r] = w[own[first + r]] * y
                    yy[k] += h[r] * y
                for j in range(p + 1):
                    dot = 0.0
                    for r in range(whole):
                        dot += B[j, r] * h[r]
                    c[k, j] += dot
        lefts.count[s] += own.size
        rights.count[t] += own.size
        for j in range(q):
            for k in range(j + 1):
                lefts.G[s, j, k] += G[j, k]
                rights.G[t, j, k] += G[j, k]
        for k in range(K):
            for j in range(p + 1):
                lefts.c[s, k, j] += c[k, j]
                rights.c[t, k, j] += c[k, j]
            lefts.yy[s, k] += yy[k]
            rights.yy[t, k] += yy[k]


@inner(fastmath=FASTMATH)
def solve_leaf(G, c, yy, form, v):
    """Least ``yy - 2 c.v + v'Gv + elastic net``, per output, from the normal equations of (x, 1); ``v (K, p + 1)``."""
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
def cost_of_side(total, sums, sign, form, V):
    """Cost of the leaves that hold ``total`` plus ``sign`` times ``sums``, and a bound for those with more rows, too.

    The cost is infinite where a leaf has rows, but fewer than ``min_leaf``. ``V (S, K, p + 1)`` are starts and
    solutions.
    """
    S, K, q = V.shape
    G, c, yy = np.empty((q, q)), np.empty((K, q)), np.empty(K)
    cost = 0.0
    least = 0.0
    for s in range(S):
        count = total.count[s] + sign * sums.count[s]
        if count == 0:
            continue
        for j in range(q):
            for k in range(j + 1):
                G[j, k] = total.G[s, j, k] + sign * sums.G[s, j, k]
                G[k, j] = G[j, k]
        for k in range(K):
            for j in range(q):
                c[k, j] = total.c[s, k, j] + sign * sums.c[s, k, j]
            yy[k] = total.yy[s, k] + sign * sums.yy[s, k]
        for j in range(q - 1):
            if G[j, j] <= NOISE * total.G[s, j, j]:  # constant, but for rounding
                G[j] = 0.0
                G[:, j] = 0.0
                c[:, j] = 0.0
                V[s, :, j] = 0.0
        if count >= form.min_rows:
            own = solve_leaf(G, c, yy, form, V[s])
            least += own
        else:  # a constant costs more than a linear leaf of more rows may
            own = 0.0
            for k in range(K):
                own += max(yy[k] - c[k, q - 1] ** 2 / G[q - 1, q - 1], 0.0)
        cost += own if count >= form.min_leaf else np.inf
    return cost, least


@kernel()
def cuts_range(first, last, families, order, cuts, wanted, data, sides, totals, form, found):
    """`Found` of some ``families`` at the ``wanted`` cuts."""
    X, Y, _w = data
    left, right = sides
    p, K = X.shape[1], Y.shape[1]
    nothing = no_sums(left.count, p, K)
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
            low, found.left[f, c] = cost_of_side(nothing, lefts, 1.0, form, V)
            high, found.right[f, c] = cost_of_side(totals, rights, -1.0, form, W)
            found.cost[f, c] = low + high


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
def leaves_cost(rows, data, slots, form):
    """Cost of the linear leaves ``slots`` that hold ``rows``; infinite if one is too small."""
    X, Y, _w = data
    sums = totals_of(rows, data, slots)
    starts = np.zeros((slots.count, Y.shape[1], X.shape[1] + 1))
    return cost_of_side(sums, sums, 0.0, form, starts)[0]


def best_cuts(order, cuts, data, sides, form):
    """The best of all cuts of families of splits above given subtrees, of which all leaves are refitted.

    Parameters
    ----------
    order : (F, m) int32, the rows of ``data``, those that go left first.
    cuts : (F, C) positions in ``order`` after which to cut, increasing, then -1.
    data : `Rows`, about centred: what is left of the totals is a difference.
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
        share_in_time(cuts_range, families.size, m * p, p, *args)
        left = np.maximum.accumulate(found.left, axis=1)
        right = np.maximum.accumulate(found.right[:, ::-1], axis=1)[:, ::-1]
        bound = left + right
        step //= EVERY
    family, cut = divmod(int(found.cost.argmin()), C)
    return float(found.cost[family, cut]), family, int(cuts[family, cut])
