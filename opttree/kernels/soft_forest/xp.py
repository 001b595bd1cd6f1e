"""Array-API twin of `forest`: soft forests in layers, with the trees as the leading axis.

As in `xp`, ``xp`` is the array namespace of all arrays, which have one floating dtype. (T, n, leaves) arrays are formed
for the rows of a batch.
"""

from opttree.kernels.losses.codes import LOG, SMALLEST_PROBABILITY
from opttree.kernels.smooth import xp as single
from opttree.kernels.soft_forest.walk import LEAST_PROBABILITY, LEAST_SHARE, layer_start

NUMBERS = 1 << 24  # largest size of an array over trees, rows and leaves: `mean_loss` takes the rows in portions


def unpack(xp, theta, form, layer):
    """A layer's part of theta (size,): A (T, B, p), b (T, B), beta (T, B), values (T, L, width)."""
    T, B = form.n_trees, (1 << form.depth) - 1
    p = form.n_features + layer * T * form.width
    i = layer_start.py_func(form, layer)
    shapes, parts = ((T, B, p), (T, B), (T, B), (T, B + 1, form.width)), []
    for shape in shapes:
        count = 1
        for n in shape:
            count *= n
        parts.append(xp.reshape(theta[i : i + count], shape))
        i += count
    return parts


def forward(xp, theta, X, form):
    """Outputs of the trees for rows X (n, p).

    Returns
    -------
    outs : (T, n, width) of each layer; inputs : (1, n, p) of each layer; gates : of each layer, see `xp.gates`.
    """
    outs, inputs, gates = [], [xp.expand_dims(X, axis=0)], []
    for layer in range(form.n_layers):
        A, b, beta, values = unpack(xp, theta, form, layer)
        gates.append(single.gates(xp, xp.expand_dims(beta, axis=2) * A, beta * b, 1.0, inputs[-1]))
        outs.append(xp.matmul(gates[-1][1], leaf_outputs(xp, values, form)))
        if layer < form.n_layers - 1:
            columns = xp.reshape(xp.permute_dims(outs[-1], (1, 0, 2)), (1, X.shape[0], -1))
            inputs.append(xp.concat([inputs[-1], columns], axis=2))
    return outs, inputs, gates


def leaf_outputs(xp, values, form):
    """Outputs (T, L, width) of the leaves ``values (T, L, width)``: class probabilities under log loss."""
    if form.loss != LOG:
        return values
    shifted = xp.exp(values - xp.max(values, axis=2, keepdims=True))
    return shifted / xp.sum(shifted, axis=2, keepdims=True)


def labels(xp, y, form, dtype):
    """Indicators (n, K) of the class codes ``y (n, 1)``."""
    return xp.astype(y == xp.arange(form.n_outputs, dtype=y.dtype), dtype)


def predictions(xp, outs, form):
    """Mean over all trees of their first outputs: (n, K)."""
    total = sum(xp.sum(out[:, :, : form.n_outputs], axis=0) for out in outs)
    return total / float(form.n_trees * form.n_layers)


def mean_loss(xp, theta, X, y, w, form):
    """Loss of the predictions, summed over outputs and over rows by their weights ``w (n,)``."""
    portion, total = max(1, NUMBERS // (form.n_layers * form.n_trees * form.width << form.depth)), 0.0
    for i in range(0, X.shape[0], portion):
        end = min(i + portion, X.shape[0])
        means = predictions(xp, forward(xp, theta, X[i:end, :], form)[0], form)
        if form.loss == LOG:
            own = xp.sum(means * labels(xp, y[i:end, :], form, means.dtype), axis=1)
            total = total - xp.sum(w[i:end] * xp.log(xp.clip(own, SMALLEST_PROBABILITY, 1.0)))
            continue
        error = means - y[i:end, :]
        total = total + xp.sum(w[i:end] * xp.sum(error * error, axis=1))
    return total


def value_and_gradient(xp, theta, X, y, w, form):
    """`forest.value_and_gradient` on rows X (n, p), y (n, K) of weights w (n,) that sum to one: value and gradient."""
    T, K, n_leaves = form.n_trees, form.n_outputs, 1 << form.depth
    each = 1.0 / (T * form.n_layers)
    weight = xp.expand_dims(w, axis=1)
    outs, inputs, gates = forward(xp, theta, X, form)
    value = 0.0
    slopes = []  # derivative by the outputs of each layer's trees, times the weights: (T, n, width)
    if not form.expected:
        means = predictions(xp, outs, form)
        if form.loss == LOG:
            own = xp.expand_dims(xp.sum(means * labels(xp, y, form, means.dtype), axis=1), axis=1)
            own = xp.clip(own, LEAST_PROBABILITY, None)
            value = -xp.sum(weight * xp.log(own))
            slope = -each * weight * labels(xp, y, form, means.dtype) / own
        else:
            error = means - y
            value = xp.sum(weight * error * error)
            slope = 2.0 * each * weight * error
        slope = xp.concat([slope, xp.zeros((X.shape[0], form.width - K), dtype=slope.dtype)], axis=1)
        slopes = [xp.expand_dims(slope, axis=0) + xp.zeros_like(out) for out in outs]
    parts = []
    for layer in range(form.n_layers - 1, -1, -1):
        A, b, beta, values = unpack(xp, theta, form, layer)
        S, P, levels = gates[layer]
        share = xp.sum(P * xp.expand_dims(weight, axis=0), axis=1)  # of each leaf: (T, L)
        outputs = leaf_outputs(xp, values, form)
        if form.expected and form.loss == LOG:
            label = xp.reshape(labels(xp, y, form, theta.dtype), (1, X.shape[0], 1, K))
            shares = xp.expand_dims(outputs, axis=1)  # (T, 1, L, K)
            own = xp.clip(xp.sum(shares * label, axis=3), LEAST_PROBABILITY, None)
            V = -each * weight * xp.log(own)
            value = value + xp.sum(P * V)
            d_values = each * xp.sum(xp.expand_dims(P * weight, axis=3) * (shares - label), axis=1)
        elif form.expected:
            error = xp.expand_dims(values, axis=1) - xp.reshape(y, (1, X.shape[0], 1, K))  # (T, n, L, K)
            V = each * weight * xp.sum(error * error, axis=3)
            value = value + xp.sum(P * V)
            d_values = 2.0 * each * xp.sum(xp.expand_dims(P * weight, axis=3) * error, axis=1)
        else:
            V = xp.matmul(slopes[layer], xp.matrix_transpose(outputs))
            d_values = xp.matmul(xp.matrix_transpose(P), slopes[layer])
            if form.loss == LOG:  # from class probabilities to scores
                d_values = outputs * (d_values - xp.sum(outputs * d_values, axis=2, keepdims=True))
        if form.path_penalty > 0.0:
            strength = form.path_penalty * each / n_leaves
            held = xp.clip(share, LEAST_SHARE, None)
            value = value - strength * xp.sum(xp.log(held))
            pull = xp.where(share > LEAST_SHARE, -strength / held, xp.zeros_like(held))
            V = V + xp.expand_dims(pull, axis=1) * weight
        dz = single.gate_gradients(xp, S, levels, V)
        steep = xp.expand_dims(beta, axis=2)
        by_weights = -xp.matmul(xp.matrix_transpose(dz), inputs[layer])  # gradient by beta A and beta b
        by_thresholds = xp.sum(dz, axis=1)
        decay = xp.concat([xp.full((1 << d,), 0.5**d, dtype=theta.dtype) for d in range(form.depth)])
        l1 = form.l1 * each * xp.reshape(decay, (1, -1, 1))
        value = value + xp.sum(l1 * xp.abs(A))
        d_beta = xp.sum(by_weights * A, axis=2) + by_thresholds * b
        gradient = (steep * by_weights + l1 * xp.sign(A), beta * by_thresholds, d_beta, d_values)
        parts = [xp.reshape(part, (-1,)) for part in gradient] + parts
        if layer > 0:
            by_inputs = -xp.sum(xp.matmul(dz, steep * A), axis=0)[:, form.n_features :]
            for before in range(layer):
                own = by_inputs[:, before * T * form.width : (before + 1) * T * form.width]
                by_tree = xp.permute_dims(xp.reshape(own, (X.shape[0], T, form.width)), (1, 0, 2))
                slopes[before] = slopes[before] + by_tree
    return value, xp.concat(parts)


def descend(xp, theta, state, done, rate, rows, groups, form, moments):
    """`forest.descend`: one step of Adam per group of row numbers; returns theta, its moments, and the mean objective.

    ``rate (size,)`` is the learning rate of each entry; ``rows`` X (n, p), y (n, K), w (n,) > 0. ``groups`` are NumPy
    arrays.
    """
    total = 0.0
    for i, group in enumerate(groups):
        numbers = xp.asarray(group)
        X, y, w = (xp.take(part, numbers, axis=0) for part in rows)
        value, gradient = value_and_gradient(xp, theta, X, y, w / xp.sum(w), form)
        theta, state = single.adam_step(xp, theta, gradient, state, done + i + 1, rate, moments)
        total = total + value
    return theta, state, float(total) / len(groups)
