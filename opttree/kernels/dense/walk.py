"""GradTree's dense representation of axis-aligned trees: loss, straight-through gradient, and whole descents.

Branch t has a logit ``I[t, j]`` and a threshold ``T[t, j]`` for every feature j. With the weights P = entmax(I) of the
features and the feature ``f`` of the largest,

    z = T[t, f] - x[f],   s = round(1 / (1 + exp(-z)))   (s = 1: left),

and the gradient is computed as if there were no rounding and no choice of f (straight-through; GradTree, section 3.3):
``ds/dz = s'(z)`` of the logistic function, ``dz/dP[j] = T[t, j] - x[j]``, ``dz/dT[t, f] = 1``. A row takes one path.
The derivative of its scores with respect to s is zero at a node off the path, because a factor above it is zero; at a
node t of the path it is the difference between the scores of the leaves that the row reaches by going left and right at
t. So a row costs O(depth^2 + depth p), instead of O(2^depth p) for the dense evaluation.
"""

from collections import namedtuple

import numpy as np

from opttree.kernels.losses.codes import GUMBEL, SOFT, SQUARED
from opttree.kernels.smooth.first_order import adam_step
from opttree.runtime.compiling.compiled import inner, kernel

Form = namedtuple("Form", "depth n_features n_outputs loss gamma epsilon index")
# number of steps before; learning rates (3,) of logits, thresholds and leaves; temperature of each step (steps,);
# `Moments`
Schedule = namedtuple("Schedule", "done rates temperatures moments")
# rows, of which batch i has order[ends[i - 1] : ends[i]]
Batches = namedtuple("Batches", "order ends")
TINY = 1e-30


@kernel()
def parts(theta, form):
    """Views of theta: I (B, p), T (B, p), scores of the leaves (L, K)."""
    n_leaves = 1 << form.depth
    n_branches, p = n_leaves - 1, form.n_features
    split = n_branches * p
    return (
        theta[:split].reshape(n_branches, p),
        theta[split : 2 * split].reshape(n_branches, p),
        theta[2 * split :].reshape(n_leaves, form.n_outputs),
    )


@kernel()
def entmax(z, out):
    """1.5-entmax of ``z (p,)`` into ``out``: ``max(z / 2 - tau, 0)^2`` with the tau at which it sums to one.

    Newton's method from ``max(z) / 2 - 1``, where the sum is at least one; the sum is convex and decreasing in tau, so
    that the iterates increase to the root (Peters, Niculae and Martins, ACL 2019, sort instead).
    """
    top = z[0]
    for j in range(z.size):
        top = max(top, z[j])
    tau = -1.0  # relative to half the largest entry
    for _ in range(50):
        total, slope = 0.0, 0.0
        for j in range(z.size):
            s = 0.5 * (z[j] - top) - tau
            if s > 0.0:
                total += s * s
                slope += 2.0 * s
        if not slope > 0.0:  # not finite: the caller stops because of the loss
            break
        move = (total - 1.0) / slope
        tau += move
        if move <= 1e-15:
            break
    for j in range(z.size):
        s = max(0.5 * (z[j] - top) - tau, 0.0)
        out[j] = s * s


@kernel()
def softmax(z, out):
    """Softmax of ``z (p,)`` into ``out``."""
    top = z[0]
    for j in range(z.size):
        top = max(top, z[j])
    total = 0.0
    for j in range(z.size):
        out[j] = np.exp(z[j] - top)
        total += out[j]
    for j in range(z.size):
        out[j] /= total


@inner()
def pull_back(P, g, index, out):
    """Gradient with respect to the arguments of entmax or softmax, given the gradient ``g`` with respect to its values
    ``P``: ``s (g - s.g / s.1)`` with s = sqrt(P) for entmax and P for softmax.
    """
    total, product = 0.0, 0.0
    for j in range(P.size):
        s = P[j] if index == GUMBEL else np.sqrt(P[j])
        out[j] = s
        total += s
        product += s * g[j]
    mean = product / total
    for j in range(P.size):
        out[j] *= g[j] - mean


@kernel()
def gumbel(seed, place):
    """The standard Gumbel number at a position of a random sequence (SplitMix64)."""
    x = np.uint64(seed) + np.uint64(place + 1) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    u = (np.float64(x >> np.uint64(11)) + 0.5) / 9007199254740992.0
    return -np.log(-np.log(u))


@inner()
def row_loss(scores, y, form, slope):
    """Loss of one row; its derivatives with respect to the scores go to ``slope (K,)``.

    LOG: ``-(1 - q)^gamma log q + epsilon (1 - q)`` of the softmax probability q of class ``y[0]``: cross-entropy with a
    focal factor (Lin et al.) and PolyLoss (Leng et al.). SQUARED: ``sum (score - y)^2``.
    """
    if form.loss == SQUARED:
        total = 0.0
        for k in range(scores.size):
            error = scores[k] - y[k]
            slope[k] = 2.0 * error
            total += error * error
        return total
    own = int(y[0])
    softmax(scores, slope)
    q = max(float(slope[own]), TINY)
    miss = 1.0 - q
    log_q = np.log(q)
    focus, factor = 1.0, 0.0
    if form.gamma > 0.0:
        focus = miss**form.gamma
        factor = form.gamma * q * miss ** (form.gamma - 1.0) * log_q if miss > 0.0 else 0.0
    along = factor - focus - form.epsilon * q  # q times the derivative with respect to q
    for k in range(scores.size):
        slope[k] *= -along
    slope[own] += along
    return -focus * log_q + form.epsilon * miss


@kernel()
def largest(z):
    """Index of the largest entry, the first of equal ones."""
    best = 0
    for j in range(1, z.size):
        if z[j] > z[best]:
            best = j
    return best


@kernel()
def features_of(theta, form):
    """The feature of every branch (B,), with the largest logit."""
    logits = parts(theta, form)[0]
    out = np.empty(logits.shape[0], np.int64)
    for t in range(out.size):
        out[t] = largest(logits[t])
    return out


@kernel()
def value(theta, data, form):
    """Weighted mean loss of the hard tree of theta on `Rows`; weights > 0, always in float64, since their range may
    exceed float32.
    """
    X, Y, w = data
    feature = features_of(theta, form)
    _logits, T, scores = parts(theta, form)
    slope = np.empty(form.n_outputs, theta.dtype)
    total, weight = 0.0, 0.0
    for i in range(X.shape[0]):
        t = 0
        for _ in range(form.depth):
            f = feature[t]
            t = 2 * t + (1 if X[i, f] <= T[t, f] else 2)
        total += w[i] * row_loss(scores[t - feature.size], Y[i], form, slope)
        weight += w[i]
    return total / weight


@inner(inline="always")
def _argument(X, i, t, feature, P, T, soft):
    """``z`` of row i at branch t; a weighted mean over all features if the choice is soft."""
    f = feature[t]
    z = T[t, f] - X[i, f]
    if soft:
        z *= 0
        for j in range(T.shape[1]):
            z += P[t, j] * (T[t, j] - X[i, j])
    return z


@kernel()
def value_and_gradient(theta, temperature, seed, data, rows, form, gradient):
    """Weighted mean loss over ``rows`` of the data, see `value`, and its straight-through gradient, into ``gradient``.

    Parameters
    ----------
    temperature : divisor of the logits.
    seed : seed of the Gumbel noise; unused in other forms.
    """
    X, Y, w = data
    dtype = theta.dtype
    logits, T, scores = parts(theta, form)
    g_logits, g_T, g_scores = parts(gradient, form)
    gradient[:] = 0
    n_branches, p = logits.shape
    soft = form.index == SOFT
    scale = dtype.type(1.0 / temperature)
    feature = np.zeros(n_branches, np.int64)
    P = np.empty((n_branches, p) if soft else (1, p), dtype)
    noisy = np.empty(p, dtype)
    for t in range(n_branches):
        if soft:
            for j in range(p):
                noisy[j] = logits[t, j] * scale
            entmax(noisy, P[t])
        elif form.index == GUMBEL:
            for j in range(p):
                noisy[j] = logits[t, j] + dtype.type(gumbel(seed, t * p + j))
            feature[t] = largest(noisy)
        else:
            feature[t] = largest(logits[t])

    slope = np.empty(form.n_outputs, dtype)
    path = np.empty(form.depth, np.int64)
    z = np.empty(form.depth, dtype)
    through = np.zeros(n_branches, dtype)  # sum over rows of the derivative with respect to z
    visited = np.zeros(n_branches, np.bool_)
    total, weight = 0.0, 0.0
    for r in range(rows.size):
        weight += w[rows[r]]
    for r in range(rows.size):
        i = rows[r]
        x = X[i]
        share = dtype.type(w[i] / weight)
        t = 0
        for level in range(form.depth):
            path[level] = t
            z[level] = _argument(X, i, t, feature, P, T, soft)
            t = 2 * t + (1 if z[level] >= 0.0 else 2)
        reached = t - n_branches
        total += share * row_loss(scores[reached], Y[i], form, slope)
        for k in range(form.n_outputs):
            slope[k] *= share
            g_scores[reached, k] += slope[k]
        for level in range(form.depth):
            t = path[level]
            left = z[level] >= 0.0
            other = 2 * t + (2 if left else 1)
            for _ in range(form.depth - level - 1):
                other = 2 * other + (1 if _argument(X, i, other, feature, P, T, soft) >= 0.0 else 2)
            other -= n_branches
            along = dtype.type(0.0)
            for k in range(form.n_outputs):
                along += slope[k] * (scores[reached, k] - scores[other, k])
            if not left:
                along = -along
            e = np.exp(-abs(z[level]))
            along *= e / ((1 + e) * (1 + e))
            through[t] += along
            visited[t] = True
            g = g_logits[t]  # the gradient with respect to P until it is pulled back
            for j in range(p):
                g[j] -= along * x[j]

    weights = np.empty(p, dtype)
    pulled = np.empty(p, dtype)
    for t in range(n_branches):
        if not visited[t]:
            continue
        if soft:
            weights[:] = P[t]
            for j in range(p):
                g_T[t, j] = through[t] * weights[j]
        else:
            g_T[t, feature[t]] = through[t]
            for j in range(p):
                noise = dtype.type(gumbel(seed, t * p + j)) if form.index == GUMBEL else dtype.type(0.0)
                noisy[j] = (logits[t, j] + noise) * scale
            if form.index == GUMBEL:
                softmax(noisy, weights)
            else:
                entmax(noisy, weights)
        for j in range(p):
            g_logits[t, j] += through[t] * T[t, j]
        pull_back(weights, g_logits[t], form.index, pulled)
        for j in range(p):
            g_logits[t, j] = pulled[j] * scale
    return total


@kernel()
def descend(theta, state, schedule, seed, data, batches, form):
    """One step of Adam for each batch, by a `Schedule`; updates theta and ``state (2, size)``.

    Returns
    -------
    Mean of the batches' losses; not finite if theta is not.
    """
    done, rates, temperatures, moments = schedule
    order, ends = batches
    gradient = np.empty_like(theta)
    n_leaves = 1 << form.depth
    split = (n_leaves - 1) * form.n_features
    bounds = (0, split, 2 * split, theta.size)
    total, begin = 0.0, 0
    for i in range(ends.size):
        step = done + i + 1
        rows = order[begin : ends[i]]
        begin = ends[i]
        loss = value_and_gradient(theta, temperatures[i], seed + step, data, rows, form, gradient)
        total += loss
        if not np.isfinite(loss):
            break
        for part in range(3):
            a, b = bounds[part], bounds[part + 1]
            adam_step(theta[a:b], gradient[a:b], state[0, a:b], state[1, a:b], step, rates[part], moments)
    return total / ends.size
