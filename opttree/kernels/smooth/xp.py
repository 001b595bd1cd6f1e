"""Array-API twin of the smooth kernels, batched over starts, for NumPy, CuPy, PyTorch and other array-API libraries.

The functions of `smooth` and `first_order`, level by level on whole arrays with the starts as the leading axis; unlike
the compiled kernels they form (S, n, leaves) arrays. ``xp`` is the array namespace of all arrays, as
`opttree.runtime.devices.Backend` has it; they have one floating dtype (class codes are integers). The GPU kernels of
`fused` are tested against them.
"""

from opttree.kernels.losses.codes import EXPECTED, LOG, TABLE

SURE = 18.0  # a gate with a larger |argument| sends less than 2e-8 the other way
NUMBERS = 1 << 24  # largest size of an array over starts, rows and leaves: `evaluate` takes the rows in portions


def value_and_gradient(xp, parts, alpha, rows, loss, aggregation):
    """Mean loss of S smooth trees and its gradient.

    Parameters
    ----------
    parts : A (S, B, p) split weights, heap order; b (S, B) thresholds; values (S, L, K); coefs (S, L, K, p) or None for
        constant leaves.
    alpha : scale of the gates, a number or (S, 1, 1).
    rows : X (n, p); Y (n, K) outputs, (n,) integer class codes for `LOG`, or (n, L) losses of the leaves for `TABLE`,
        for which ``values`` is (S, L, 0); w (n,) weights that sum to one. Or (S, n, p) and so on, for separate rows of
        each start.

    Returns
    -------
    value (S,), and the gradient as A, b, values, coefs; coefs is None for constant leaves.
    """
    return _pass(xp, parts, alpha, rows, loss, aggregation)[:2]


def _pass(xp, parts, alpha, rows, loss, aggregation):
    """`value_and_gradient`, and the leaves' shares of the weight (S, L)."""
    A, b, values, coefs = parts
    X, Y, w = rows
    if X.ndim == 2:
        X, Y, w = (xp.expand_dims(part, axis=0) for part in (X, Y, w))
    S, P, levels = gates(xp, A, b, alpha, X)
    mass = xp.sum(P * xp.expand_dims(w, axis=2), axis=1)
    if loss == TABLE:
        value = xp.sum(xp.sum(P * Y, axis=2) * w, axis=1)
        return value, (*backward(xp, alpha, X, S, levels, Y + xp.zeros_like(P), w), values, coefs), mass
    scores = xp.expand_dims(values, axis=1)  # (S, 1 or n, L, K)
    if coefs is not None:
        scores = scores + linear_scores(xp, coefs, X)
    terms = log_terms if loss == LOG else squared_terms
    V, value, d_scores = terms(xp, scores, Y, P, w, aggregation)
    dA, db = backward(xp, alpha, X, S, levels, V, w if aggregation == EXPECTED else None)
    d_values = xp.sum(d_scores, axis=1)
    d_coefs = None if coefs is None else moments(xp, d_scores, X)
    return value, (dA, db, d_values, d_coefs), mass


def gates(xp, A, b, alpha, X):
    """Gate probabilities (S, n, B), path probabilities of the leaves (S, n, L) and of each level's nodes."""
    z = alpha * (xp.expand_dims(b, axis=1) - xp.matmul(X, xp.matrix_transpose(A)))
    S = 1.0 / (1.0 + xp.exp(-xp.clip(z, -40.0, 40.0)))
    n_starts, n, n_branches = S.shape
    P = xp.ones_like(z[:, :, :1])
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
    out = xp.matmul(X, xp.matrix_transpose(flat))
    return xp.reshape(out, (n_starts, X.shape[1], n_leaves, n_outputs))


def moments(xp, d_scores, X):
    """Gradient of the linear terms (S, L, K, p) from that of the scores (S, n, L, K)."""
    n_starts, n, n_leaves, n_outputs = d_scores.shape
    flat = xp.reshape(d_scores, (n_starts, n, n_leaves * n_outputs))
    out = xp.matmul(xp.matrix_transpose(flat), X)
    return xp.reshape(out, (n_starts, n_leaves, n_outputs, X.shape[2]))


def squared_terms(xp, scores, Y, P, w, aggregation):
    """V (S, n, L), the derivative of each row's loss by path probabilities; mean loss (S,); derivative by scores."""
    weight = xp.expand_dims(xp.expand_dims(w, axis=2), axis=3)
    share = xp.expand_dims(P, axis=3)
    target = xp.expand_dims(Y, axis=2)
    if aggregation == EXPECTED:
        error = scores - target
        V = xp.sum(error * error, axis=3)
        value = xp.sum(xp.sum(P * V, axis=2) * w, axis=1)
        return V, value, 2.0 * weight * share * error
    error = xp.sum(share * scores, axis=2, keepdims=True) - target
    value = xp.sum(xp.sum(error * error, axis=3)[:, :, 0] * w, axis=1)
    slope = 2.0 * weight * error
    return xp.sum(slope * scores, axis=3), value, slope * share


def log_terms(xp, scores, Y, P, w, aggregation):
    """As `squared_terms`, for class scores and cross-entropy."""
    n_classes = scores.shape[3]
    label = xp.astype(xp.expand_dims(Y, axis=2) == xp.arange(n_classes, dtype=Y.dtype), P.dtype)
    label = xp.expand_dims(label, axis=2)
    shifted = xp.exp(scores - xp.max(scores, axis=3, keepdims=True))
    probability = shifted / xp.sum(shifted, axis=3, keepdims=True)
    own = xp.clip(xp.sum(probability * label, axis=3), 1e-30, None)
    weight = xp.expand_dims(w, axis=2)
    if aggregation == EXPECTED:
        V = -xp.log(own)
        value = xp.sum(xp.sum(P * V, axis=2) * w, axis=1)
        slope = P * weight
    else:
        mixed = xp.clip(xp.sum(P * own, axis=2, keepdims=True), 1e-30, None)
        value = xp.sum(-xp.log(mixed[:, :, 0]) * w, axis=1)
        V = -weight * own / mixed
        slope = -P * V
    return V, value, xp.expand_dims(slope, axis=3) * (probability - label)


def gate_gradients(xp, S, levels, V):
    """Derivative by the gates' arguments (S, n, B), from that by the leaves' probabilities, V (S, n, L)."""
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
    return xp.concat(parts[::-1], axis=2)


def backward(xp, alpha, X, S, levels, V, w):
    """Gradient by A (S, B, p) and b (S, B) at gate scale alpha; ``w``: weights of the rows, None if V includes them."""
    dz = alpha * gate_gradients(xp, S, levels, V)
    if w is not None:
        dz = dz * xp.expand_dims(w, axis=2)
    return -xp.matmul(xp.matrix_transpose(dz), X), xp.sum(dz, axis=1)


# ---- thetas, penalties, descent -----------------------------------------------------------------------------------


def unpack(xp, theta, form):
    """A (S, B, p), b (S, B), values (S, L, K), coefs (S, L, K, p) or None of thetas (S, size)."""
    S, p, K, n_leaves = theta.shape[0], form.n_features, form.n_outputs, 1 << form.depth
    i = (n_leaves - 1) * p
    j = i + n_leaves - 1
    k = j + n_leaves * K
    return (
        xp.reshape(theta[:, :i], (S, n_leaves - 1, p)),
        theta[:, i:j],
        xp.reshape(theta[:, j:k], (S, n_leaves, K)),
        xp.reshape(theta[:, k:], (S, n_leaves, K, p)) if form.linear else None,
    )


def penalty_value(xp, theta, form, penalty):
    """Value (S,) of the penalties (S, 6): strengths of l1 and l2 on split weights, and on coefficients of leaves; of l2
    on thresholds, and on constants of leaves.
    """
    A, b, values, coefs = unpack(xp, theta, form)
    total = xp.zeros(theta.shape[0], dtype=theta.dtype)
    for part, l1, l2 in ((A, 0, 1), (b, None, 4), (values, None, 5), (coefs, 2, 3)):
        if part is not None:
            flat = xp.reshape(part, (theta.shape[0], -1))
            total = total + penalty[:, l2] * xp.sum(flat * flat, axis=1)
            if l1 is not None:
                total = total + penalty[:, l1] * xp.sum(xp.abs(flat), axis=1)
    return total


def penalty_gradient(xp, theta, form, penalty):
    """Gradient of `penalty_value`, (S, size). The l1 norm has derivative 0 at 0."""
    p, n_leaves = form.n_features, 1 << form.depth
    splits = (n_leaves - 1) * p
    values = splits + n_leaves - 1
    leaves = values + n_leaves * form.n_outputs
    A, coefs = theta[:, :splits], theta[:, leaves:]
    return xp.concat(
        [
            penalty[:, 0:1] * xp.sign(A) + 2.0 * penalty[:, 1:2] * A,
            2.0 * penalty[:, 4:5] * theta[:, splits:values],
            2.0 * penalty[:, 5:6] * theta[:, values:leaves],
            penalty[:, 2:3] * xp.sign(coefs) + 2.0 * penalty[:, 3:4] * coefs,
        ],
        axis=1,
    )


def evaluate(xp, theta, alpha, X, Y, w, form, penalty):
    """Objectives (S,) of thetas (S, size) with their gradients (S, size) and the leaves' shares of the weight (S, L).

    Parameters
    ----------
    alpha : (S,) scales of the gates.
    X, Y, w : as `value_and_gradient` takes them, with a leading axis of length S or 1.
    penalty : see `penalty_value`.
    """
    trees, scale = unpack(xp, theta, form), xp.reshape(alpha, (-1, 1, 1))
    portion = max(1, NUMBERS // (theta.shape[0] * max(1, form.n_outputs) << form.depth))
    totals = None
    for i in range(0, X.shape[1], portion):
        some = [part[:, i : min(i + portion, X.shape[1]), ...] for part in (X, Y, w)]
        value, slopes, mass = _pass(xp, trees, scale, some, form.loss, form.aggregation)
        flat = [xp.reshape(slope, (theta.shape[0], -1)) for slope in slopes if slope is not None]
        parts = value, xp.concat(flat, axis=1), mass
        totals = parts if totals is None else tuple(x + y for x, y in zip(totals, parts, strict=True))
    value, gradient, mass = totals
    value = value + penalty_value(xp, theta, form, penalty)
    return value, gradient + penalty_gradient(xp, theta, form, penalty), mass


def path_keys(xp, A, b, alpha, X, depth):
    """Sort keys (n,) of the rows X (n, p), for which neighbours share their paths in the tree A (B, p), b (B,).

    Rows are ordered by their hard paths from the root; rows that go both ways at a branch come between those that go
    left and those that go right.
    """
    node = key = xp.zeros(X.shape[0], dtype=xp.int64)
    for _ in range(depth):
        z = alpha * (xp.take(b, node) - xp.sum(xp.take(A, node, axis=0) * X, axis=1))
        key = 3 * key + xp.astype(z <= SURE, xp.int64) + xp.astype(z < -SURE, xp.int64)
        node = 2 * node + 1 + xp.astype(z < 0.0, xp.int64)
    return key * 2 ** (depth + 1) + node


def best_constants(xp, values, slopes, mass, loss, ridge):
    """`first_order.best_constants`: the optimal leaf values (S, L, K) for the gates."""
    weight = xp.expand_dims(mass, axis=2) + xp.reshape(ridge, (-1, 1, 1))
    reached = weight > 1e-9
    weight = xp.where(reached, weight, xp.ones_like(weight))
    if loss == LOG:
        shifted = xp.exp(values - xp.max(values, axis=2, keepdims=True))
        shares = shifted / xp.sum(shifted, axis=2, keepdims=True)
        best = xp.log(xp.clip(shares - slopes / weight, 1e-6, None))
    else:
        best = values - slopes / (2.0 * weight)
    return xp.where(reached, best, values)


def adam_step(xp, theta, gradient, state, step, rate, moments):
    """Step number ``step`` (from 1) of Adam or QHAdam (see `first_order`): the new theta and its two moments.

    ``rate`` is a number, or broadcasts against theta.
    """
    first = moments.beta1 * state[0] + (1.0 - moments.beta1) * gradient
    second = moments.beta2 * state[1] + (1.0 - moments.beta2) * gradient * gradient
    mean = (1.0 - moments.nu1) * gradient + moments.nu1 / (1.0 - moments.beta1**step) * first
    square = (1.0 - moments.nu2) * gradient * gradient + moments.nu2 / (1.0 - moments.beta2**step) * second
    return theta - rate * mean / (xp.sqrt(square) + moments.epsilon), (first, second)


def descend_step(xp, theta, gradient, mass, state, step, rate, moments, form, closed_leaves, penalty):
    """`adam_step`, with the leaves' constants set to their optimum if these are in closed form."""
    moved, state = adam_step(xp, theta, gradient, state, step, rate, moments)
    if closed_leaves:
        values, slopes = (unpack(xp, part, form)[2] for part in (theta, gradient))
        best = xp.reshape(best_constants(xp, values, slopes, mass, form.loss, penalty[:, 5]), (theta.shape[0], -1))
        i = ((1 << form.depth) - 1) * (form.n_features + 1)
        moved = xp.concat([moved[:, :i], best, moved[:, i + best.shape[1] :]], axis=1)
    return moved, state
