"""Randomised trees on features in bins: for each node, histograms of some random features.

Rows of a node lie one after another in one array, which splits part in place. It is scikit-learn's randomised tree, but
that thresholds lie between bins. A feature of up to 256 different values loses nothing, nor one of more values, each of
several rows, as keys are, which has a code for each. Of other features, leaves whose rows are in one bin and differ may
be given bins of their own, see `solvers.ensembles.growth`.
"""

from collections import namedtuple

import numpy as np

from opttree.kernels.passes.thresholds import between
from opttree.runtime.compiling.compiled import inner, kernel

BINS = 256
CODES = 65_536  # values of a feature of many, up to which each has a code
REPEATS = 2  # rows of each of them on average, from which on it has one
DENSE = 4  # codes per row, up to which a histogram has room for those without rows, too

# of each node: children, -1 at leaves; feature, and the last bin that goes left; where its rows begin and end
Grown = namedtuple("Grown", "left right feature cut first last")


@inner()
def drawn(state, most):
    """A random number below ``most``; ``state (1,)`` uint64 goes on (xorshift)."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return np.int64(x >> np.uint64(11)) % most


@inner(fastmath={"reassoc", "contract"})
def best_cut(codes, rows, w, wy, fewest, own, weight, sums, counts):
    """The gain and the last code on the left of the best cut of one feature, and whether rows have several codes.

    ``rows (m,)`` with weights ``w (m,)`` and weighted outcomes ``wy (m, K)``; ``own`` is room for their codes,
    ``weight (C,)``, ``sums (C, K)`` and ``counts (C,)`` for the histograms of C codes, zero before and after. Where few
    rows have codes far apart, those are numbered anew.
    """
    K = wy.shape[1]
    lowest, highest = np.int64(CODES), np.int64(-1)
    for e in range(rows.size):
        c = np.int64(codes[rows[e]])
        own[e] = c
        lowest, highest = min(lowest, c), max(highest, c)
    varies, top = highest > lowest, highest - lowest
    anew = top >= max(BINS, DENSE * rows.size)
    named = np.empty(rows.size if anew else 0, own.dtype)
    if anew:
        top = np.int64(-1)
        for e in np.argsort(own[: rows.size]):
            c = own[e]
            if top < 0 or c != named[top]:
                top += 1
                named[top] = c
            own[e] = top
        lowest = np.int64(0)
    best, cut, below, n_below = -np.inf, np.int64(-1), 0.0, 0
    if varies:
        for e in range(rows.size):
            c = np.int64(own[e]) - lowest
            weight[c] += w[e]
            counts[c] += 1
            for k in range(K):
                sums[c, k] += wy[e, k]
        above = 0.0
        total, left = np.zeros(K), np.zeros(K)
        for c in range(top + 1):
            above += weight[c]
            for k in range(K):
                total[k] += sums[c, k]
        for c in range(top):
            if counts[c]:
                below += weight[c]
                above -= weight[c]
                n_below += counts[c]
                squares_left, squares_right = 0.0, 0.0
                for k in range(K):
                    left[k] += sums[c, k]
                    squares_left += left[k] * left[k]
                    squares_right += (total[k] - left[k]) * (total[k] - left[k])
                if n_below >= fewest and rows.size - n_below >= fewest and below > 0.0 and above > 0.0:
                    gain = squares_left / below + squares_right / above
                    if gain > best:
                        best, cut = gain, np.int64(named[c]) if anew else lowest + c
        weight[: top + 1], sums[: top + 1], counts[: top + 1] = 0.0, 0.0, 0
    return best, cut, varies


@inner()
def differ(values):
    """Whether rows of ``values (m, K)`` differ."""
    for e in range(1, len(values)):
        for k in range(values.shape[1]):
            if values[e, k] != values[0, k]:
                return True
    return False


@kernel()
def grow(codes, rows, Y, w, depth, fewest, n_features, seed):
    """A tree of at most ``depth`` levels on ``rows (m,)``, which are brought into the order of its leaves.

    codes : (p, n) uint8 or uint16, of the features, see `in_bins`.
    Y, w : (n, K) outcomes of means near zero, and (n,) weights.
    n_features : features that are tried at each node, those without two bins aside.
    """
    p, m, K = codes.shape[0], rows.size, Y.shape[1]
    most = 2 * min(1 << min(depth, 40), max(m // max(fewest, 1), 1)) + 1
    left, right = np.full(most, -1), np.full(most, -1)
    feature, cut = np.full(most, -1), np.full(most, -1)
    first, last, parent = np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.int64)
    constant = np.zeros((most, p), np.bool_)  # features that are known not to vary at a node
    state = np.array([seed | 1], np.uint64)
    n_codes = np.int64(BINS)
    for j in range(p if codes.itemsize > 1 else 0):
        n_codes = max(n_codes, np.int64(codes[j].max()) + 1)
    weight, sums, counts = np.zeros(n_codes), np.zeros((n_codes, K)), np.zeros(n_codes, np.int64)
    order, size = np.arange(p), 0
    y, own, wy = np.empty((m, K)), np.empty(m), np.empty((m, K))
    spare, y_spare, w_spare = np.empty(m, rows.dtype), np.empty((m, K)), np.empty(m)
    own_codes = np.empty(m, codes.dtype)
    for e in range(m):
        own[e] = w[rows[e]]
        for k in range(K):
            y[e, k] = Y[rows[e], k]
            wy[e, k] = own[e] * y[e, k]
    last[0] = m
    n_nodes, begin, end = 1, 0, 1
    for _level in range(depth):
        for t in range(begin, end):
            a, b = first[t], last[t]
            if b - a < 2 * fewest or not differ(y[a:b]):
                continue
            if t:
                constant[t] = constant[parent[t]]
            best, at, tried = -np.inf, -1, 0
            for k in range(p):
                if tried >= n_features and at >= 0:
                    break
                other = k + drawn(state, p - k)
                j = order[other]
                order[other] = order[k]
                order[k] = j
                if constant[t, j]:
                    continue
                gain, c, varies = best_cut(
                    codes[j], rows[a:b], own[a:b], wy[a:b], fewest, own_codes, weight, sums, counts
                )
                tried += varies
                constant[t, j] = not varies
                if gain > best:
                    best, at, cut[t] = gain, j, c
            if at < 0:
                continue
            code, size, kept = codes[at], 0, a
            for e in range(a, b):
                if code[rows[e]] <= cut[t]:
                    rows[kept], own[kept], y[kept] = rows[e], own[e], y[e]
                    kept += 1
                else:
                    spare[size], w_spare[size], y_spare[size] = rows[e], own[e], y[e]
                    size += 1
            for e in range(size):
                rows[kept + e], own[kept + e], y[kept + e] = spare[e], w_spare[e], y_spare[e]
            for e in range(a, b):
                for k in range(K):
                    wy[e, k] = own[e] * y[e, k]
            feature[t], left[t], right[t] = at, n_nodes, n_nodes + 1
            first[n_nodes], last[n_nodes], parent[n_nodes] = a, kept, t
            first[n_nodes + 1], last[n_nodes + 1], parent[n_nodes + 1] = kept, b, t
            n_nodes += 2
        begin, end = end, n_nodes
    return Grown(left[:n_nodes], right[:n_nodes], feature[:n_nodes], cut[:n_nodes], first[:n_nodes], last[:n_nodes])


def in_bins(X):
    """Codes (p, n) of the features of ``X (n, p)``, between which values each bin ends and the next begins, and
    (p,) whether bins hold several values.

    Bins hold about equally many rows, or one value each where there are at most `BINS` of them, or at most `CODES` and
    `REPEATS` rows of each; codes are uint8 where all are below `BINS`, else uint16.
    """
    n, p = X.shape
    codes, ends, coarse = np.empty((p, n), np.uint8), [], np.zeros(p, np.bool_)
    for j, x in enumerate(np.ascontiguousarray(X.T)):
        order = np.argsort(x)
        values = x[order]
        last = np.flatnonzero(values[1:] > values[:-1])  # places of the last rows of values
        keyed = BINS <= last.size < min(CODES, n // REPEATS)
        coarse[j] = last.size >= BINS and not keyed
        if coarse[j]:
            wanted = np.searchsorted(last + 1, np.arange(1, BINS) * (n / BINS))
            last = last[np.unique(wanted[wanted < last.size])]
        ends.append(between(values[last].astype(np.float64), values[last + 1].astype(np.float64)))
        if keyed and codes.dtype == np.uint8:
            codes = codes.astype(np.uint16)
        ordered = np.zeros(n, codes.dtype)
        ordered[last + 1] = 1
        codes[j, order] = np.cumsum(ordered, dtype=codes.dtype)
    return codes, ends, coarse
