"""Array-API twin of the smooth kernels, batched over starts: NumPy, CuPy and whatever else follows the standard.

Same function as `smooth.value_and_gradient`, written level by level on whole arrays, with the starts as the leading
axis: the (S, n, leaves) arrays that the compiled kernel avoids are what a device with fast memory wants. ``xp`` is the
array namespace; every array is of it, of one floating dtype (class codes are integers).
"""

EXPECTED, MIXTURE = range(2)  # as in `smooth`
SQUARED, LOG = 0, 3


def value_and_gradient(xp, A, b, values, coefs, alpha, X, Y, w, loss, aggregation):
    """Mean loss of S smooth trees and its gradient.

    Parameters
    ----------
    A : (S, B, p) split weights, heap order; b : (S, B) thresholds; values : (S, L, K); coefs : (S, L, K, p) or None
        for constant leaves.
    alpha : scale of the gates, a number.
    X : (n, p); Y : (n, K) outputs, or (n,) integer class codes for `LOG`; w : (n,) weights that sum to one.

    Returns
    -------
    value (S,), and the gradient as A, b, values, coefs; coefs None for constant leaves.
    """
    S, P, levels = gates(xp, A, b, alpha, X)
    scores = xp.expand_dims(values, axis=1)  # (S, 1 or n, L, K)
    if coefs is not None:
        scores = scores + linear_scores(xp, coefs, X)
    if loss == LOG:
        V, value, d_scores = log_terms(xp, scores, Y, P, w, aggregation)
    else:
        V, value, d_scores = squared_terms(xp, scores, Y, P, w, aggregation)
    dA, db = backward(xp, A, alpha, X, S, levels, V, w if aggregation == EXPECTED else None)
    d_values = xp.sum(d_scores, axis=1)
    d_coefs = None if coefs is None else moments(xp, d_scores, X)
    return value, (dA, db, d_values, d_coefs)


def gates(xp, A, b, alpha, X):
    """Gate probabilities (S, n, B), path probabilities of the leaves (S, n, L) and of each level's nodes."""
    z = alpha * (xp.expand_dims(b, axis=1) - xp.matmul(xp.expand_dims(X, axis=0), xp.matrix_transpose(A)))
    S = 1.0 / (1.0 + xp.exp(-xp.clip(z, -40.0, 40.0)))
    n_starts, n, n_branches = S.shape
    P = xp.ones((n_starts, n, 1), dtype=S.dtype)
    levels = []
    first = 0
    while first < n_branches:
        width = P.shape[2]
        s = S[:, :, first : first + width]
        levels.append(P)
        P = xp.reshape(xp.stack([P * s, P * (1.0 - s)], axis=3), (n_starts, n, 2 * width))
        first += width
    return S, P, levels


def linear_scores(xp, coefs, X):
    """``coefs . x``: (S, n, L, K)."""
    n_starts, n_leaves, n_outputs, p = coefs.shape
    flat = xp.reshape(coefs, (n_starts, n_leaves * n_outputs, p))
    out = xp.matmul(xp.expand_dims(X, axis=0), xp.matrix_transpose(flat))
    return xp.reshape(out, (n_starts, X.shape[0], n_leaves, n_outputs))


def moments(xp, d_scores, X):
    """Gradient of the linear terms (S, L, K, p) from that of the scores (S, n, L, K)."""
    n_starts, n, n_leaves, n_outputs = d_scores.shape
    flat = xp.reshape(d_scores, (n_starts, n, n_leaves * n_outputs))
    out = xp.matmul(xp.matrix_transpose(flat), xp.expand_dims(X, axis=0))
    return xp.reshape(out, (n_starts, n_leaves, n_outputs, X.shape[1]))


def squared_terms(xp, scores, Y, P, w, aggregation):
    """V (S, n, L): the derivative of each row's loss by its path probabilities; mean loss (S,); that by the scores."""
    weight = xp.reshape(w, (1, -1, 1, 1))
    share = xp.expand_dims(P, axis=3)
    target = xp.reshape(Y, (1, Y.shape[0], 1, Y.shape[1]))
    if aggregation == EXPECTED:
        error = scores - target
        V = xp.sum(error * error, axis=3)
        value = xp.sum(xp.sum(P * V, axis=2) * xp.reshape(w, (1, -1)), axis=1)
        return V, value, 2.0 * weight * share * error
    error = xp.sum(share * scores, axis=2, keepdims=True) - target
    value = xp.sum(xp.sum(error * error, axis=3)[:, :, 0] * xp.reshape(w, (1, -1)), axis=1)
    slope = 2.0 * weight * error
    return xp.sum(slope * scores, axis=3), value, slope * share


def log_terms(xp, scores, Y, P, w, aggregation):
    """As `squared_terms`, for class scores and cross-entropy."""
    n_classes = scores.shape[3]
    label = xp.astype(xp.expand_dims(Y, axis=1) == xp.reshape(xp.arange(n_classes, dtype=Y.dtype), (1, -1)), P.dtype)
    label = xp.reshape(label, (1, Y.shape[0], 1, n_classes))
    shifted = xp.exp(scores - xp.max(scores, axis=3, keepdims=True))
    probability = shifted / xp.sum(shifted, axis=3, keepdims=True)
    own = xp.clip(xp.sum(probability * label, axis=3), 1e-30, None)
    rows = xp.reshape(w, (1, -1))
    if aggregation == EXPECTED:
        V = -xp.log(own)
        value = xp.sum(xp.sum(P * V, axis=2) * rows, axis=1)
        slope = P * xp.reshape(w, (1, -1, 1))
    else:
        mixed = xp.clip(xp.sum(P * own, axis=2, keepdims=True), 1e-30, None)
        value = xp.sum(-xp.log(mixed[:, :, 0]) * rows, axis=1)
        V = -xp.reshape(w, (1, -1, 1)) * own / mixed
        slope = -P * V
    return V, value, xp.expand_dims(slope, axis=3) * (probability - label)


def backward(xp, A, alpha, X, S, levels, V, w):
    """Gradient by A (S, B, p) and b (S, B): V goes up level by level; ``w`` weights the rows, None: V holds it."""
    parts = []
    last = S.shape[2]
    for P in reversed(levels):
        width = P.shape[2]
        pairs = xp.reshape(V, (V.shape[0], V.shape[1], width, 2))
        left, right = pairs[:, :, :, 0], pairs[:, :, :, 1]
        s = S[:, :, last - width : last]
        parts.append(P * s * (1.0 - s) * (left - right))
        V = s * left + (1.0 - s) * right
        last -= width
    dz = alpha * xp.concat(parts[::-1], axis=2)
    if w is not None:
        dz = dz * xp.reshape(w, (1, -1, 1))
    return -xp.matmul(xp.matrix_transpose(dz), xp.expand_dims(X, axis=0)), xp.sum(dz, axis=1)
