"""Array-API twin of `dense`: steps of GradTree's descent and hard losses, with the starts as the leading axis.

As in `xp`, ``xp`` is the array namespace of all arrays, which have one floating dtype (class codes, row numbers and
features are integers). The gates of all branches are evaluated for all rows of a batch, (S, rows, branches), and the
derivatives by them are spread out the same way, so that sums over rows are matrix products.
"""

import numpy as np

from opttree.kernels.dense.walk import TINY
from opttree.kernels.losses.codes import GUMBEL, LOG, SOFT
from opttree.kernels.smooth import xp as single

NUMBERS = 1 << 24  # largest size of an array over starts, rows and branches: `losses` takes the rows in portions


def unpack(xp, theta, form):
    """Logits (S, B, p), thresholds (S, B, p) and scores (S, L, K) of thetas (S, size)."""
    S, p, n_leaves = theta.shape[0], form.n_features, 1 << form.depth
    split = (n_leaves - 1) * p
    return (
        xp.reshape(theta[:, :split], (S, n_leaves - 1, p)),
        xp.reshape(theta[:, split : 2 * split], (S, n_leaves - 1, p)),
        xp.reshape(theta[:, 2 * split :], (S, n_leaves, form.n_outputs)),
    )


def entmax(xp, z):
    """1.5-entmax along the last axis, see `dense.entmax`."""
    half = 0.5 * (z - xp.max(z, axis=-1, keepdims=True))
    tau = -1.0 + xp.zeros_like(half[..., :1])
    least = 4.0 * float(xp.finfo(z.dtype).eps)
    for _ in range(50):
        s = xp.clip(half - tau, 0.0, None)
        slope = 2.0 * xp.sum(s, axis=-1, keepdims=True)
        move = xp.where(slope > 0.0, (xp.sum(s * s, axis=-1, keepdims=True) - 1.0) / slope, xp.zeros_like(slope))
        tau = tau + move
        if not bool(xp.any(move > least)):
            break
    s = xp.clip(half - tau, 0.0, None)
    return s * s


def softmax(xp, z):
    """Softmax along the last axis."""
    shifted = xp.exp(z - xp.max(z, axis=-1, keepdims=True))
    return shifted / xp.sum(shifted, axis=-1, keepdims=True)


def gumbel(seeds, count):
    """The numbers of `dense.gumbel` at places 0 to ``count`` - 1, for ``seeds (S,)``: (S, count), NumPy's."""
    place = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x = seeds.astype(np.uint64)[:, None] + place
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return -np.log(-np.log(((x >> np.uint64(11)).astype(np.float64) + 0.5) / 9007199254740992.0))


def chosen(xp, logits):
    """Indicators (S, B, p) of the feature with the largest logit, the first of equal ones."""
    places = xp.arange(logits.shape[2])
    return xp.astype(xp.expand_dims(xp.argmax(logits, axis=2), axis=2) == places, logits.dtype)


def arguments(xp, weights, T, X):
    """Arguments (S, m, B) of the gates for rows X (S or 1, m, p), features weighted by ``weights (S, B, p)``."""
    return xp.expand_dims(xp.sum(weights * T, axis=2), axis=1) - xp.matmul(X, xp.matrix_transpose(weights))


def picked(xp, table, index):
    """``table[s, index[s, i]]`` for a table (S, N) and an index (S, m)."""
    first = table.shape[1] * xp.expand_dims(xp.arange(table.shape[0]), axis=1)
    flat = xp.take(xp.reshape(table, (-1,)), xp.reshape(first + index, (-1,)), axis=0)
    return xp.reshape(flat, index.shape)


def walk(xp, z, node, levels):
    """The nodes that rows pass from ``node (S, m)`` on, by the arguments ``z (S, m, B)``, and these: ``levels`` each;
    and the node after them.
    """
    n_starts, m, n_branches = z.shape
    flat, row = xp.reshape(z, (n_starts, m * n_branches)), n_branches * xp.expand_dims(xp.arange(m), axis=0)
    path, passed = [], []
    for _ in range(levels):
        path.append(node)
        passed.append(picked(xp, flat, row + node))
        node = 2 * node + 1 + xp.astype(passed[-1] < 0.0, node.dtype)
    return path, passed, node


def scores_of(xp, scores, leaf):
    """Scores (S, m, K) of the leaves of rows (S, m)."""
    n_starts, n_leaves, K = scores.shape
    first = n_leaves * xp.expand_dims(xp.arange(n_starts), axis=1)
    flat = xp.take(xp.reshape(scores, (n_starts * n_leaves, K)), xp.reshape(first + leaf, (-1,)), axis=0)
    return xp.reshape(flat, (*leaf.shape, K))


def row_losses(xp, scores, Y, form):
    """`dense.row_loss` of rows with ``scores (S, m, K)`` and Y (S or 1, m, K or 1): losses (S, m), derivatives."""
    if form.loss != LOG:
        error = scores - Y
        return xp.sum(error * error, axis=2), 2.0 * error
    shares = softmax(xp, scores)
    label = xp.astype(xp.arange(form.n_outputs, dtype=Y.dtype) == Y, scores.dtype)
    q = xp.clip(xp.sum(shares * label, axis=2), TINY, None)
    miss, log_q = 1.0 - q, xp.log(q)
    focus, factor = xp.ones_like(q), xp.zeros_like(q)
    if form.gamma > 0.0:
        focus = miss**form.gamma
        held = xp.where(miss > 0.0, miss, xp.ones_like(miss))
        factor = xp.where(miss > 0.0, form.gamma * q * held ** (form.gamma - 1.0) * log_q, xp.zeros_like(q))
    along = xp.expand_dims(factor - focus - form.epsilon * q, axis=2)
    return form.epsilon * miss - focus * log_q, along * (label - shares)


def gradient(xp, theta, temperature, noise, X, Y, share, form):
    """Straight-through gradients (S, size) of thetas (S, size), see `dense.value_and_gradient`.

    Parameters
    ----------
    noise : (S, B, p) Gumbel numbers; None for the other kinds of index.
    X : (S, m, p) rows; Y : (S, m, K or 1); share : (S, m) weights that sum to one.
    """
    logits, T, scores = unpack(xp, theta, form)
    noisy = logits if noise is None else logits + noise
    sharp = noisy / temperature
    weights = softmax(xp, sharp) if form.index == GUMBEL else entmax(xp, sharp)
    forward = weights if form.index == SOFT else chosen(xp, noisy)
    z = arguments(xp, forward, T, X)
    n_branches, places = T.shape[1], xp.arange(1 << form.depth)
    path, passed, node = walk(xp, z, xp.zeros(share.shape, dtype=xp.int64), form.depth)
    reached = scores_of(xp, scores, node - n_branches)
    slope = row_losses(xp, reached, Y, form)[1] * xp.expand_dims(share, axis=2)
    parts = []
    for level, (here, argument) in enumerate(zip(path, passed, strict=True)):
        right = xp.astype(argument < 0.0, here.dtype)
        other = walk(xp, z, 2 * here + 2 - right, form.depth - level - 1)[2]
        along = xp.sum(slope * (reached - scores_of(xp, scores, other - n_branches)), axis=2)
        e = xp.exp(-xp.abs(argument))
        along = xp.where(right == 1, -along, along) * e / ((1.0 + e) * (1.0 + e))
        own = xp.expand_dims(here - ((1 << level) - 1), axis=2) == places[: 1 << level]
        parts.append(xp.astype(own, along.dtype) * xp.expand_dims(along, axis=2))
    dz = xp.concat(parts, axis=2)  # (S, m, B)
    own = xp.astype(xp.expand_dims(node - n_branches, axis=2) == places, slope.dtype)
    through = xp.expand_dims(xp.sum(dz, axis=1), axis=2)
    by_weights = through * T - xp.matmul(xp.matrix_transpose(dz), X)
    steep = weights if form.index == GUMBEL else xp.sqrt(weights)
    mean = xp.sum(steep * by_weights, axis=2, keepdims=True) / xp.sum(steep, axis=2, keepdims=True)
    found = steep * (by_weights - mean) / temperature, through * forward, xp.matmul(xp.matrix_transpose(own), slope)
    return xp.concat([xp.reshape(part, (theta.shape[0], -1)) for part in found], axis=1)


def descend_step(xp, theta, state, noise, rows, form, update):
    """A step of Adam on ``rows`` X, Y, share: theta and its moments. ``update``: number of the step, from 1, learning
    rates (size,), temperature and `Moments`.
    """
    step, rate, temperature, moments = update
    slope = gradient(xp, theta, temperature, noise, *rows, form)
    return single.adam_step(xp, theta, slope, state, step, rate, moments)


def losses(xp, theta, X, Y, share, form):
    """Losses (S,) of the hard trees of theta on rows X (n, p), Y (n, K or 1) with weights ``share (n,)``."""
    logits, T, scores = unpack(xp, theta, form)
    weights, n_branches, total = chosen(xp, logits), T.shape[1], xp.zeros_like(theta[:, 0])
    portion = max(1, NUMBERS // (theta.shape[0] * (n_branches + 1)))
    for i in range(0, X.shape[0], portion):
        some = slice(i, min(i + portion, X.shape[0]))
        z = arguments(xp, weights, T, xp.expand_dims(X[some, :], axis=0))
        node = walk(xp, z, xp.zeros(z.shape[:2], dtype=xp.int64), form.depth)[2]
        loss = row_losses(xp, scores_of(xp, scores, node - n_branches), xp.expand_dims(Y[some, :], axis=0), form)[0]
        total = total + xp.sum(loss * share[some], axis=1)
    return total
