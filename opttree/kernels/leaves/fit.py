"""Leaf predictors given their rows (TAO, Theorem 3.3): means, medians, class frequencies, lasso/ridge, softmax.

The rows of a leaf are a `Group`; leaves without rows are unchanged. Weights sum to one over the training set, so
penalties are in the units of the mean loss.
"""

import numpy as np

from opttree.kernels.algebra.absolute import descend_absolute
from opttree.kernels.algebra.gram import FASTMATH, add_weighted_gram, mirror_lower, padded
from opttree.kernels.algebra.logistic import fit_logistic
from opttree.kernels.algebra.quadratic import solve_linear_leaf
from opttree.kernels.records import Leaves
from opttree.runtime.compiling.compiled import inner, kernel
from opttree.runtime.threads import share, share_in_time

LAD_ROUNDS = 20
LAD_TOLERANCE = 1e-6
SOFTMAX_ROUNDS = 10
SOFTMAX_TOLERANCE = 1e-4
CONSTANT = 1e-13  # a feature that differs from its mean by less, relative to it, is constant in the leaf
LEAST_SIZE = 1e-150  # or by less than this, whose inverse would overflow
NEWTON_STEPS = 5
SMALLEST_ODDS = 1e-200  # sums below it are formed anew, relative to the largest
LARGEST_SCORE = 600.0  # above the largest of a round's start: its exponential is finite


@kernel()
def weighted_median(y, w):
    """Smallest value whose cumulative weight reaches half of the total; the midpoint if it is met exactly."""
    order = np.argsort(y)
    half = 0.5 * w.sum()
    slack = 1e-12 * half
    running = 0.0
    for i in range(y.size):
        running += w[order[i]]
        if running >= half - slack:
            if running <= half + slack and i + 1 < y.size:
                return 0.5 * (y[order[i]] + y[order[i + 1]])
            return y[order[i]]
    return y[order[-1]]


@inner(fastmath=FASTMATH)
def moment(X, rows, h, y, c):
    """``c = sum_i h_i y_i (x_i, 1)``."""
    p = X.shape[1]
    c[:] = 0.0
    for i in range(rows.size):
        x = X[rows[i]]
        s = h[i] * y[i]
        for k in range(p):
            c[k] += s * x[k]
        c[p] += s


@inner()
def about_means(X, rows, h):
    """The features of some rows (m, p) about their means, and the means (p,).

    Features that are constant but for rounding are zero. Normal equations of others, such as times of a day in a leaf
    of a table of years, would have few digits.
    """
    m, p = rows.size, X.shape[1]
    own, mean = np.zeros((m, p)), np.zeros(p)
    weight = np.sum(h)
    if not weight > 0.0:
        return own, mean
    first = X[rows[0]]
    for i in range(m):
        x, share = X[rows[i]], h[i] / weight
        for j in range(p):
            own[i, j] = x[j] - first[j]
            mean[j] += share * own[i, j]
    largest = np.zeros(p)
    for i in range(m):
        for j in range(p):
            own[i, j] -= mean[j]
            largest[j] = max(largest[j], abs(own[i, j]))
    for j in range(p):
        mean[j] += first[j]
        if largest[j] <= max(CONSTANT * abs(mean[j]), LEAST_SIZE):
            own[:, j] = 0.0
    return own, mean


@kernel()
def fit_linear(X, rows, h, Y, l1, l2, value, coef):
    """Elastic-net leaf: ``sum h (y - x.coef - value)^2 + l1 |coef|_1 + l2 |coef|_2^2``, for each output separately; of
    several solutions, the one of least norm (`quadratic.least_norm`).
    """
    p = X.shape[1]
    X, mean = about_means(X, rows, h)
    rows = np.arange(rows.size).astype(rows.dtype)
    q = padded(p)
    G = np.zeros((q, q))
    add_weighted_gram(X, rows, h, G)
    mirror_lower(G)
    c = np.empty(p + 1)
    v = np.empty(p + 1)
    for k in range(Y.shape[1]):
        for j in range(p):
            v[j] = coef[k, j] if G[j, j] > 0.0 else 0.0
        v[p] = value[k] + np.sum(coef[k] * mean)
        moment(X, rows, h, Y[:, k], c)
        solve_linear_leaf(G[: p + 1, : p + 1], c, l1, l2, v)
        coef[k] = v[:p]
        value[k] = v[p] - np.sum(coef[k] * mean)


@inner()
def fit_linear_absolute(X, rows, h, Y, l1, l2, value, coef):
    """Least absolute deviations with an elastic net: reweighted least squares (majorise |r| by r^2/2s + s/2), then, but
    with a ridge, the exact minimiser (`descend_absolute`; the l1 norm counts as p rows).
    """
    m, p = rows.size, X.shape[1]
    X, mean = about_means(X, rows, h)
    rows = np.arange(m).astype(rows.dtype)
    for k in range(Y.shape[1]):
        value[k] += np.sum(coef[k] * mean)
    more = p if l1 > 0.0 else 0
    Z, target, weight = np.zeros((m + more, p + 1)), np.zeros(m + more), np.full(m + more, l1)
    for i in range(m):
        for j in range(p):
            Z[i, j] = X[rows[i], j]
        Z[i, p] = 1.0
        weight[i] = h[i]
    for j in range(more):
        Z[m + j, j] = 1.0
    v = np.empty(p + 1)
    for k in range(Y.shape[1]):
        y = Y[:, k : k + 1]
        middle = np.median(y)
        away = np.abs(y - middle)
        scale = np.median(away)
        if scale == 0.0:
            scale = away.mean()
        if scale == 0.0:
            coef[k], value[k] = 0.0, middle
            continue
        previous = np.inf
        for _ in range(LAD_ROUNDS):
            g = np.empty(m)
            current = 0.0
            for i in range(m):
                r = y[i, 0] - value[k]
                for j in range(p):
                    r -= coef[k, j] * X[rows[i], j]
                current += h[i] * abs(r)
                g[i] = 0.5 * h[i] / max(abs(r) / scale, 1e-4)
            for j in range(p):
                current += l1 * abs(coef[k, j]) + l2 * coef[k, j] ** 2
            if current > previous * (1.0 - LAD_TOLERANCE):
                break
            previous = current
            fit_linear(X, rows, g, y, scale * l1, scale * l2, value[k : k + 1], coef[k : k + 1])
        if l2 == 0.0:
            v[:p], v[p], target[:m] = coef[k], value[k], y[:, 0]
            descend_absolute(Z, target, weight, v)
            coef[k], value[k] = v[:p], v[p]
        value[k] -= np.sum(coef[k] * mean)


@inner()
def fit_softmax(X, rows, h, label, l1, l2, value, coef):
    """Multinomial logistic leaf by block coordinate descent over classes.

    With the other classes' scores fixed, class k has a binary logistic problem with offset ``-log sum_{c != k}
    exp(score_c)``: each block is `fit_logistic`, on centred features; without penalties in units of their size, and
    with them, what is common to all classes, which the probabilities do not depend on, is taken out after each round.
    """
    n_classes = value.size
    p = X.shape[1]
    m = rows.size
    X, mean = about_means(X, rows, h)
    rows = np.arange(m).astype(rows.dtype)
    size = np.ones(p)
    for j in range(p):
        largest = np.abs(X[:, j]).max()
        if l1 == 0.0 and l2 == 0.0 and largest > 0.0:
            size[j] = largest
        for i in range(m):
            X[i, j] /= size[j]
        for k in range(n_classes):
            value[k] += coef[k, j] * mean[j]
            coef[k, j] *= size[j] if largest > 0.0 else 0.0
    score = np.empty((m, n_classes))
    for i in range(m):
        for k in range(n_classes):
            s = value[k]
            for j in range(p):
                s += coef[k, j] * X[rows[i], j]
            score[i, k] = s
    u = np.empty(m)
    offset = np.empty(m)
    odds, top = np.empty((m, n_classes)), np.empty(m)  # exp(score - top), of which a block changes one column
    steps = max(NEWTON_STEPS, m - m)  # not the constant: numba compiles a kernel anew for each that it is given
    for _ in range(SOFTMAX_ROUNDS):
        change = 0.0
        for i in range(m):
            top[i] = np.max(score[i])
            for c in range(n_classes):
                odds[i, c] = np.exp(score[i, c] - top[i])
        for k in range(n_classes):
            present = False
            for i in range(m):
                present = present or label[i] == k
            if not present:
                continue
            for i in range(m):
                s = 0.0
                for c in range(n_classes):
                    s += odds[i, c] if c != k else 0.0
                if s < SMALLEST_ODDS:  # all others are far below
                    high = -np.inf
                    for c in range(n_classes):
                        if c != k:
                            high = max(high, score[i, c])
                    s = 0.0
                    for c in range(n_classes):
                        if c != k:
                            s += np.exp(score[i, c] - high)
                    offset[i] = -(high + np.log(s))
                else:
                    offset[i] = -(top[i] + np.log(s))
                u[i] = h[i] if label[i] == k else -h[i]
            b, _steps = fit_logistic(X, rows, u, offset, coef[k], -value[k], l1, l2, 1e-3, steps, m < 0)
            value[k] = -b
            for i in range(m):
                s = value[k]
                for j in range(p):
                    s += coef[k, j] * X[rows[i], j]
                change = max(change, abs(s - score[i, k]))
                score[i, k] = s
                odds[i, k] = np.exp(min(s - top[i], LARGEST_SCORE))
        if l1 > 0.0 or l2 > 0.0:
            for j in range(p):
                shift = np.mean(coef[:, j]) if l2 > 0.0 else np.median(coef[:, j])
                for k in range(n_classes):
                    coef[k, j] -= shift
                    for i in range(m):
                        score[i, k] -= shift * X[rows[i], j]
        if change <= SOFTMAX_TOLERANCE:
            break
    for j in range(p):
        for k in range(n_classes):
            coef[k, j] /= size[j]
            value[k] -= coef[k, j] * mean[j]


@kernel()
def means_range(first, last, Y, w, order, start, values):
    """`fit_means` of some leaves."""
    for leaf in range(first, last):
        total = 0.0
        for e in range(start[leaf], start[leaf + 1]):
            total += w[order[e]]
        if start[leaf] < start[leaf + 1]:
            for k in range(Y.shape[1]):
                s = 0.0
                for e in range(start[leaf], start[leaf + 1]):
                    s += w[order[e]] * Y[order[e], k]
                values[leaf, k] = s / total


@kernel()
def medians_range(first, last, Y, w, order, start, values):
    """`fit_medians` of some leaves."""
    for leaf in range(first, last):
        rows = order[start[leaf] : start[leaf + 1]]
        if rows.size:
            for k in range(Y.shape[1]):
                values[leaf, k] = weighted_median(Y[rows, k], w[rows])


@kernel()
def frequencies_range(first, last, Y, w, order, start, values):
    """`fit_frequencies` of some leaves."""
    for leaf in range(first, last):
        if start[leaf] < start[leaf + 1]:
            total = 0.0
            for k in range(values.shape[1]):
                values[leaf, k] = 0.0
            for e in range(start[leaf], start[leaf + 1]):
                i = order[e]
                values[leaf, int(Y[i, 0])] += w[i]
                total += w[i]
            for k in range(values.shape[1]):
                values[leaf, k] /= total


def fit_constants(kernel, n_outputs, Y, w, order, start):
    """(L, K) constants of the leaves by one of the three kernels above; NaN where there are no rows."""
    values = np.full((start.size - 1, n_outputs), np.nan)
    share(kernel, start.size - 1, 4 * order.size / (start.size - 1), Y, w, order, start, values)
    return values


def fit_means(Y, w, order, start):
    """(L, K) weighted means of the leaves' rows; NaN where there are none."""
    return fit_constants(means_range, Y.shape[1], Y, w, order, start)


def fit_medians(Y, w, order, start):
    """(L, K) weighted medians of the leaves' rows; NaN where there are none."""
    return fit_constants(medians_range, Y.shape[1], Y, w, order, start)


def fit_frequencies(Y, w, order, start, n_classes):
    """(L, K) weighted class frequencies of the leaves' rows (class codes ``Y (n, 1)``); NaN where there are none."""
    return fit_constants(frequencies_range, n_classes, Y, w, order, start)


# The three below share a signature. They are separate so that a program compiles only the one it uses.


@kernel()
def least_squares_range(first, last, rows, group, net, min_rows, values, coefs):
    """`fit_linear` for some leaves."""
    X, Y, w = rows
    order, start = group
    for leaf in range(first, last):
        own = order[start[leaf] : start[leaf + 1]]
        if own.size >= min_rows:
            fit_linear(X, own, w[own], Y[own], net.l1, net.l2, values[leaf], coefs[leaf])
        elif own.size:
            coefs[leaf] = 0.0


@kernel()
def least_absolute_range(first, last, rows, group, net, min_rows, values, coefs):
    """`fit_linear_absolute` for some leaves."""
    X, Y, w = rows
    order, start = group
    for leaf in range(first, last):
        own = order[start[leaf] : start[leaf + 1]]
        if own.size >= min_rows:
            fit_linear_absolute(X, own, w[own], Y[own], net.l1, net.l2, values[leaf], coefs[leaf])
        elif own.size:
            coefs[leaf] = 0.0


@kernel()
def softmaxes_range(first, last, rows, group, net, min_rows, values, coefs):
    """`fit_softmax` for some leaves."""
    X, Y, w = rows
    order, start = group
    for leaf in range(first, last):
        own = order[start[leaf] : start[leaf + 1]]
        if own.size >= min_rows:
            fit_softmax(X, own, w[own], Y[own, 0], net.l1, net.l2, values[leaf], coefs[leaf])
        elif own.size:
            coefs[leaf] = 0.0


def fit_linear_leaves(kernel, rows, group, net, min_rows, values, coefs):
    """Fit the linear predictor of every leaf with at least ``min_rows`` rows by one of the three kernels above.

    From the constants in ``values (L, K)`` and the warm starts in ``coefs (L, K, p)``, both overwritten; other leaves
    keep their constants. Where that takes long, leaves whose turn comes after the run's time limit stay as they are.
    """
    cost = group.order.size / len(values) * rows.X.shape[1] ** 2
    share_in_time(kernel, len(values), cost, values.shape[1], rows, group, net, min_rows, values, coefs)


@kernel()
def ranges_range(first, last, rows, group, leaves):
    """`output_ranges` of some leaves, into ``lower`` and ``upper``."""
    X, Y, _weight = rows
    order, start = group
    values, coefs, lower, upper = leaves
    for leaf in range(first, last):
        if start[leaf] == start[leaf + 1]:
            continue
        for k in range(values.shape[1]):
            low = high = Y[order[start[leaf]], k]
            fitted_low = np.inf
            fitted_high = -np.inf
            for e in range(start[leaf], start[leaf + 1]):
                i = order[e]
                low = min(low, Y[i, k])
                high = max(high, Y[i, k])
                fitted = values[leaf, k]
                for j in range(X.shape[1]):
                    fitted += coefs[leaf, k, j] * X[i, j]
                fitted_low = min(fitted_low, fitted)
                fitted_high = max(fitted_high, fitted)
            lower[leaf, k] = min(max(low, fitted_low), high)
            upper[leaf, k] = max(min(high, fitted_high), low)


def output_ranges(rows, group, values, coefs):
    """``(lower, upper)``, each (L, K): the intersection of the ranges of y and of the fitted values of a leaf.

    On the leaf's own rows clipping to it is as good as clipping to the range of y alone, and it limits extrapolation.
    Leaves without rows get the range of their constant.
    """
    leaves = Leaves(values, coefs, values.copy(), values.copy())
    cost = group.order.size / len(values) * rows.X.shape[1] * values.shape[1]
    share(ranges_range, len(values), cost, rows, group, leaves)
    return leaves.lower, leaves.upper
