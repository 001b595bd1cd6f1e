"""Soft forests in layers, as one differentiable model: loss, gradient, descent.

All trees are complete, of one depth, with constant leaves of ``width`` numbers, the first ``n_outputs`` of which are
predictions. The inputs of a layer's trees are the features and all outputs of the layers before; the model predicts the
mean over all trees (SDTR, section III-D). Gate t of a tree is ``sigmoid(beta_t (b_t - a_t . x))``: every branch has its
own beta.

Trees are evaluated by `opttree.kernels.smooth.walk`, one block of rows at a time: forward for predictions and the
leaves' masses, backward with the derivative of the loss with respect to each tree's outputs, including the
contributions of later layers.

Under squared loss the numbers of a leaf are its outputs. Under log loss they are class scores and its outputs their
softmax, so that predictions are means of class probabilities; ``y`` then holds class codes ``(blocks, 1, BLOCK)``.
"""

from collections import namedtuple

import numpy as np
from numba.extending import register_jitable

from opttree.kernels.losses.codes import EXPECTED, LOG, MIXTURE, SQUARED
from opttree.kernels.smooth import walk as smooth
from opttree.kernels.smooth.first_order import adam_step
from opttree.kernels.smooth.vectors import BACKWARD, BLOCK, FORWARD, VECTORISED, tile_slots
from opttree.kernels.smooth.walk import VECTORS, Data, tile_order, walk
from opttree.runtime.compiling.calls import address_of, run
from opttree.runtime.compiling.compiled import inner, kernel
from opttree.runtime.threads import threads_for

MOST_CHUNKS = 16  # chunks of trees that threads share; sums are over chunks, for any number of threads
TILE_LEVELS = 7  # as in `opttree.problems.smooth.problem`
LEAST_SHARE = 1e-6  # smallest share of the weight in a leaf that the path penalty uses
LEAST_PROBABILITY = 1e-30  # of the row's class, in the logarithm

# levels of splits; trees of a layer; layers; features of the rows; outputs; numbers per leaf; code of the loss; whether
# it is the expected loss of each tree, or the loss of the mean; strengths of path penalty and decayed l1 norm
Form = namedtuple("Form", "depth n_trees n_layers n_features n_outputs width loss expected path_penalty l1")


@kernel()
def layer_size(form, layer):
    """Length of a layer's part of theta."""
    n_branches = (1 << form.depth) - 1
    p = form.n_features + layer * form.n_trees * form.width
    return form.n_trees * (n_branches * (p + 2) + (n_branches + 1) * form.width)


@kernel()
def layer_start(form, layer):
    """Start of a layer's part of theta."""
    start = 0
    for i in range(layer):
        start += layer_size(form, i)
    return start


@kernel()
def unpack(theta, form, layer):
    """Views of a layer's part of theta: A (T, B, p), b (T, B), beta (T, B), values (T, L, width)."""
    T, B = form.n_trees, (1 << form.depth) - 1
    p = form.n_features + layer * T * form.width
    i = layer_start(form, layer)
    j = i + T * B * p
    k = j + T * B
    m = k + T * B
    end = m + T * (B + 1) * form.width
    return (
        theta[i:j].reshape(T, B, p),
        theta[j:k].reshape(T, B),
        theta[k:m].reshape(T, B),
        theta[m:end].reshape(T, B + 1, form.width),
    )


@inner()
def tile_form(form, loss):
    """The form of one tree for `smooth.walk`."""
    n_tiles = (form.depth + TILE_LEVELS - 1) // TILE_LEVELS
    levels = (form.depth + n_tiles - 1) // n_tiles
    aggregation = EXPECTED if form.expected else MIXTURE
    return smooth.Form(form.depth, levels, 0.0, loss, aggregation, form.n_features, form.width, 0)


@inner()
def leaf_outputs(theta, form, layer):
    """Outputs of the leaves of a layer's trees (T, L width): their numbers, or class probabilities under log loss."""
    values = unpack(theta, form, layer)[3].reshape(form.n_trees, form.width << form.depth)
    if form.loss != LOG:
        return values
    outputs = np.empty_like(values)
    for t in range(values.shape[0]):
        for i in range(0, values.shape[1], form.width):
            top = values[t, i]
            for k in range(1, form.width):
                top = max(top, values[t, i + k])
            total = values[t, i] - values[t, i]
            for k in range(form.width):
                outputs[t, i + k] = np.exp(values[t, i + k] - top)
                total += outputs[t, i + k]
            for k in range(form.width):
                outputs[t, i + k] /= total
    return outputs


@inner(**VECTORISED)
def walk_buffers(form, dtype):
    """Work buffers for `smooth.walk`."""
    n_levels = (form.depth + form.levels - 1) // form.levels
    return (
        np.empty((form.depth + 1, BLOCK), dtype),
        np.zeros((2 * form.depth + 2, BLOCK), dtype),
        np.zeros((n_levels * tile_slots(form.levels), BLOCK), dtype),
        np.zeros((form.n_outputs, BLOCK), dtype),
        np.zeros((form.n_outputs, BLOCK), dtype),
        np.zeros(n_levels, np.int64),
    )


@kernel(**VECTORISED)
def forward_chunks(first, last, work):
    """Outputs and leaf masses of the trees of some chunks, see `forward_work`."""
    X, y, w, bounds, form, slots, W, c, values, outs, mass = work
    dtype = W.dtype
    buffers = walk_buffers(form, dtype)
    P, F = buffers[0], buffers[4]
    none = np.zeros((0, 0), dtype)
    what = FORWARD + bounds[0]  # not the constant: numba compiles a kernel anew for each constant that it is given
    for t in range(bounds[first], bounds[last]):
        params = (W[t], c[t], values[t], none, np.zeros(0, dtype))
        grads = (none, c[t], c[t], none, mass[t], none)  # only the masses are written
        for i in range(X.shape[0]):
            for r in range(BLOCK):
                P[0, r] = w[i, r]
                for k in range(F.shape[0]):
                    F[k, r] = dtype.type(0.0)
            walk(X[i], y[i], buffers, form, slots, params, grads, what)
            for k in range(F.shape[0]):
                for r in range(BLOCK):
                    outs[t, i, k, r] = F[k, r] / w[i, r] if w[i, r] > 0.0 else dtype.type(0.0)


@kernel(**VECTORISED)
def backward_chunks(first, last, work):
    """Gradients of the trees of some chunks, see `backward_work`."""
    X, y, w, bounds, form, slots, W, c, values, extra, slopes, grads, totals = work
    dtype = W.dtype
    buffers = walk_buffers(form, dtype)
    P, V, F = buffers[0], buffers[1], buffers[4]
    dW, dc, dvalues, mass, dX = grads
    none = np.zeros((0, 0), dtype)
    what = (EXPECTED if form.aggregation == EXPECTED else BACKWARD) + bounds[0]
    for chunk in range(first, last):
        total = 0.0
        for t in range(bounds[chunk], bounds[chunk + 1]):
            params = (W[t], c[t], values[t], none, extra[t])
            for i in range(X.shape[0]):
                own = (dW[t], dc[t], dvalues[t], none, mass[t], dX[chunk, i] if dX.shape[1] > 0 else none)
                for r in range(BLOCK):
                    P[0, r] = w[i, r]
                for k in range(F.shape[0]):
                    for r in range(BLOCK):
                        F[k, r] = slopes[t, i, k, r]
                walk(X[i], y[i], buffers, form, slots, params, own, what)
                if form.aggregation == EXPECTED:
                    for r in range(BLOCK):
                        total += w[i, r] * V[0, r]
        totals[chunk] = total


@inner()
def gates_of(theta, form, layer, slots, n_rows):
    """Splits of a layer as `smooth.walk` takes them: W (T, n_rows, q), c (T, n_rows), multiplied by beta."""
    A, b, beta, _values = unpack(theta, form, layer)
    T, B, p = A.shape
    W = np.zeros((T, n_rows, (p + 3) // 4 * 4), theta.dtype)
    c = np.zeros((T, n_rows), theta.dtype)
    for t in range(T):
        for s in range(B):
            c[t, slots[s]] = beta[t, s] * b[t, s]
            for j in range(p):
                W[t, slots[s], j] = -beta[t, s] * A[t, s, j]
    return W, c


@kernel()
def chunks(form):
    """Bounds of the chunks of trees: (chunks + 1,)."""
    n = min(MOST_CHUNKS, form.n_trees)
    bounds = np.empty(n + 1, np.int64)
    for i in range(n + 1):
        bounds[i] = form.n_trees * i // n
    return bounds


@kernel()
def forward_space(theta, X, form):
    """Arrays that `forward` fills, see there."""
    dtype = theta.dtype
    n_blocks, T, width = X.shape[0], form.n_trees, form.width
    outs = np.zeros((form.n_layers, T, n_blocks, width, BLOCK), dtype)
    mass = np.zeros((form.n_layers, T, 1 << form.depth), dtype)
    inputs = X
    if form.n_layers > 1:
        q = form.n_features + (form.n_layers - 1) * T * width
        inputs = np.zeros((n_blocks, (q + 3) // 4, 4 * BLOCK), dtype)
        for i in range(n_blocks):
            for g in range(X.shape[1]):
                for r in range(4 * BLOCK):
                    inputs[i, g, r] = X[i, g, r]
    return outs, mass, inputs


@kernel()
def forward_work(theta, data, form, layer, outs, mass):
    """The work of `forward_chunks` in a layer: rows, chunks of trees, splits, and leaves; and where the trees' outputs
    ``(T, blocks, width, BLOCK)`` and the leaves' masses ``(T, L)`` go.
    """
    inputs, y, w = data
    tile = tile_form(form, SQUARED)  # sums of outputs; y is not read
    slots, n_rows = tile_order(form.depth, tile.levels)
    W, c = gates_of(theta, form, layer, slots, n_rows)
    return inputs, y, w, chunks(form), tile, slots, W, c, leaf_outputs(theta, form, layer), outs, mass


@kernel()
def pass_on(outs, inputs, form, layer):
    """The outputs of a layer as features of the next ones."""
    for t in range(form.n_trees):
        for k in range(form.width):
            f = form.n_features + (layer * form.n_trees + t) * form.width + k
            g, at = f // 4, f % 4 * BLOCK
            for i in range(inputs.shape[0]):
                for r in range(BLOCK):
                    inputs[i, g, at + r] = outs[t, i, k, r]


@register_jitable
def forward_on(kernel, theta, data, form):
    """`forward`, by `forward_chunks` or its address: see `opttree.runtime.compiling.calls`."""
    outs, mass, inputs = forward_space(theta, data.X, form)
    for layer in range(form.n_layers):
        work = forward_work(theta, Data(inputs, data.Y, data.w), form, layer, outs[layer], mass[layer])
        run(kernel, work[3].size - 1, cost_of_chunk(form, data.X.shape[0]), work)
        if layer < form.n_layers - 1:
            pass_on(outs[layer], inputs, form, layer)
    return outs, mass, inputs


@kernel()
def mean_outputs(outs, n_outputs):
    """Predictions (blocks, K, BLOCK): the mean over trees of their first outputs."""
    n_layers, T, n_blocks, _width, _block = outs.shape
    dtype = outs.dtype
    mean = np.zeros((n_blocks, n_outputs, BLOCK), dtype)
    for layer in range(n_layers):
        for t in range(T):
            for i in range(n_blocks):
                for k in range(n_outputs):
                    for r in range(BLOCK):
                        mean[i, k, r] += outs[layer, t, i, k, r]
    for i in range(n_blocks):
        for k in range(n_outputs):
            for r in range(BLOCK):
                mean[i, k, r] /= dtype.type(n_layers * T)
    return mean


@kernel()
def mean_slopes(outs, y, w, form, weight):
    """Derivative of each row's loss by the mean predictions (blocks, K, BLOCK), and mean loss; 0 for trees alone."""
    value = 0.0
    slopes = np.zeros((w.shape[0], form.n_outputs, BLOCK), w.dtype)
    if not form.expected:
        means = mean_outputs(outs, form.n_outputs)
        one, two, least = w.dtype.type(1.0), w.dtype.type(2.0), w.dtype.type(LEAST_PROBABILITY)
        for i in range(w.shape[0]):
            if form.loss == LOG:
                for r in range(BLOCK):
                    own = max(means[i, int(y[i, 0, r]), r], least)
                    slopes[i, int(y[i, 0, r]), r] = -one / own
                    value -= w[i, r] * np.log(own) / weight
                continue
            for k in range(form.n_outputs):
                for r in range(BLOCK):
                    error = means[i, k, r] - y[i, k, r]
                    slopes[i, k, r] = two * error
                    value += w[i, r] * error**2 / weight
    return slopes, value


@kernel()
def path_terms(mass, form, weight):
    """The path penalty of a layer's trees, and what it adds to the losses of the leaves: (T, L), or (T, 0) without."""
    T, n_leaves = form.n_trees, 1 << form.depth
    value = 0.0
    extra = np.zeros((T, n_leaves if form.path_penalty > 0.0 else 0), mass.dtype)
    if form.path_penalty > 0.0:
        strength = form.path_penalty / (T * form.n_layers) / n_leaves
        for t in range(T):
            for leaf in range(n_leaves):
                share = mass[t, leaf] / weight
                value -= strength * np.log(max(share, LEAST_SHARE))
                if share > LEAST_SHARE:
                    extra[t, leaf] = -strength / share
                    if form.expected:  # the kernel's sum includes the terms added to the losses, for T trees
                        extra[t, leaf] *= T
                        value += strength
    return extra, value


@kernel()
def backward_work(theta, gradient, data, form, layer, extra, by_means, dX):
    """The work of `backward_chunks` in a layer; ``by_means``, from `mean_slopes`.

    It holds the slopes ``(T, blocks, width, BLOCK)``: derivatives of the loss with respect to the trees' outputs, later
    layers included (the expected loss does not need them); and the gradients: of the splits by tree, of the leaves in
    ``gradient`` itself, of the inputs by chunk in ``dX``; and the chunks' sums of the expected loss.
    """
    inputs, y, w = data
    bounds = chunks(form)
    dtype = theta.dtype
    T, n_blocks, K = form.n_trees, w.shape[0], form.n_outputs
    tile = tile_form(form, form.loss if form.expected else SQUARED)  # SQUARED: by ``slopes``, for both losses
    slots, n_rows = tile_order(form.depth, tile.levels)
    W, c = gates_of(theta, form, layer, slots, n_rows)
    slopes = np.zeros((T, n_blocks, form.width, BLOCK), dtype)
    if not form.expected:
        each = dtype.type(1.0 / (T * form.n_layers))
        for t in range(T):
            for i in range(n_blocks):
                for k in range(K):
                    for r in range(BLOCK):
                        slopes[t, i, k, r] = each * by_means[i, k, r]
                if layer < form.n_layers - 1:
                    for k in range(form.width):
                        f = form.n_features + (layer * T + t) * form.width + k
                        g, at = f // 4, f % 4 * BLOCK
                        for part in range(dX.shape[0]):
                            for r in range(BLOCK):
                                if w[i, r] > 0.0:
                                    slopes[t, i, k, r] += dX[part, i, g, at + r] / w[i, r]
    n_leaves = 1 << form.depth
    values = unpack(theta, form, layer)[3].reshape(T, form.width * n_leaves)
    if not form.expected:
        values = leaf_outputs(theta, form, layer)
    dvalues = unpack(gradient, form, layer)[3].reshape(T, form.width * n_leaves)
    for t in range(T):
        for i in range(dvalues.shape[1]):
            dvalues[t, i] = 0.0
    own = dX if layer > 0 else np.zeros((dX.shape[0], 0, 0, 0), dtype)
    grads = np.zeros_like(W), np.zeros_like(c), dvalues, np.zeros((T, n_leaves), dtype), own
    totals = np.zeros(bounds.size - 1)
    return inputs, y, w, bounds, tile, slots, W, c, values, extra, slopes, grads, totals


@kernel()
def backward_finish(theta, gradient, work, form, layer, weight):
    """Set a layer's gradient from its work; returns its l1 norms and expected losses."""
    dtype = theta.dtype
    slots, outputs, grads, totals = work[5], work[8], work[11], work[12]
    T, n_branches = form.n_trees, (1 << form.depth) - 1
    A, b, beta, _values = unpack(theta, form, layer)
    dA, db, dbeta, dvalues = unpack(gradient, form, layer)
    dW, dc = grads[0], grads[1]
    scale = dtype.type((1.0 / T if form.expected else 1.0) / weight)
    value = 0.0
    for t in range(T):
        for leaf in range(dvalues.shape[1]):
            along = theta[0] - theta[0]
            if form.loss == LOG and not form.expected:  # from class probabilities to scores
                for k in range(dvalues.shape[2]):
                    along += dvalues[t, leaf, k] * outputs[t, leaf * form.width + k]
                for k in range(dvalues.shape[2]):
                    dvalues[t, leaf, k] = outputs[t, leaf * form.width + k] * (dvalues[t, leaf, k] - along)
            for k in range(dvalues.shape[2]):
                dvalues[t, leaf, k] *= scale
        for s in range(n_branches):
            steep, slot = beta[t, s], slots[s]
            by_beta = dc[t, slot] * b[t, s]
            db[t, s] = scale * steep * dc[t, slot]
            decay = 1.0
            while (1.0 / decay) * 2 - 1 <= s:
                decay /= 2
            l1 = dtype.type(form.l1 / (T * form.n_layers) * decay)
            for j in range(A.shape[2]):
                a = A[t, s, j]
                by_beta -= dW[t, slot, j] * a
                dA[t, s, j] = l1 * np.sign(a) - scale * steep * dW[t, slot, j]
                value += l1 * abs(a)
            dbeta[t, s] = scale * by_beta
    if form.expected:
        for chunk in range(totals.size):
            value += totals[chunk] / (T * weight)
    return value


@kernel()
def weight_of(w):
    """The sum of all weights."""
    weight = 0.0
    for i in range(w.shape[0]):
        for r in range(BLOCK):
            weight += w[i, r]
    return weight


@register_jitable
def evaluate(kernels, theta, data, form, gradient):
    """`value_and_gradient`, by `forward_chunks` and `backward_chunks` or their addresses."""
    X, y, w = data
    weight = weight_of(w)
    if not form.expected or form.path_penalty > 0.0:
        outs, mass, inputs = forward_on(kernels[0], theta, data, form)
    else:
        outs, mass, inputs = forward_space(theta, X[:0], form)
        inputs = X
    by_means, value = mean_slopes(outs, y, w, form, weight)
    n_chunks = chunks(form).size - 1 if form.n_layers > 1 else 0
    dX = np.zeros((n_chunks, w.shape[0], inputs.shape[1], 4 * BLOCK), theta.dtype)
    for back in range(form.n_layers):
        layer = form.n_layers - 1 - back
        extra, penalty = path_terms(mass[layer], form, weight)
        work = backward_work(theta, gradient, Data(inputs, y, w), form, layer, extra, by_means, dX)
        run(kernels[1], work[3].size - 1, 2 * cost_of_chunk(form, w.shape[0]), work)
        value += penalty + backward_finish(theta, gradient, work, form, layer, weight)
    return value


@kernel()
def update(theta, gradient, state, step, rates, form, moments):
    """Step number ``step`` (from 1) of `descend`."""
    for layer in range(form.n_layers):
        start, end = layer_start(form, layer), layer_start(form, layer + 1)
        leaves = end - form.n_trees * (1 << form.depth) * form.width
        for part in range(2):
            u, v = (start, leaves) if part == 0 else (leaves, end)
            adam_step(theta[u:v], gradient[u:v], state[0, u:v], state[1, u:v], step, rates[part], moments)


@register_jitable
def take_steps(kernels, theta, state, done, rates, batches, data, form, moments):
    """`descend`, by `forward_chunks` and `backward_chunks` or their addresses."""
    gradient = np.empty_like(theta)
    total = 0.0
    for i in range(batches.shape[0]):
        a, b = batches[i, 0], batches[i, 1]
        total += evaluate(kernels, theta, Data(data.X[a:b], data.Y[a:b], data.w[a:b]), form, gradient)
        update(theta, gradient, state, done + i + 1, rates, form, moments)
    return total / batches.shape[0]


forward_alone = kernel()(forward_on)
evaluate_alone = kernel()(evaluate)
take_steps_alone = kernel()(take_steps)


@register_jitable
def cost_of_chunk(form, n_blocks):
    """The work of a chunk of trees on so many blocks, in numbers read one by one."""
    inputs = form.n_features + (form.n_layers - 1) * form.n_trees * form.width
    each = n_blocks * BLOCK * (1 << form.depth) * (inputs + 10) / VECTORS
    return each * form.n_trees / min(MOST_CHUNKS, form.n_trees)


def alone(theta, data, form):
    """Addresses of both kernels if passes over these rows are worth one thread only, else None."""
    X, y, w = data
    if threads_for(min(MOST_CHUNKS, form.n_trees), 2 * cost_of_chunk(form, X.shape[0])) > 1:
        return None
    key = theta.dtype, *((array.dtype, array.flags.c_contiguous) for array in data), *map(type, form)
    found = _addresses.get(key)
    if found is None:
        outs, mass, inputs = forward_space(theta, X[:1], form)
        there = Data(inputs, y[:1], w[:1]), form, 0
        forward = address_of(forward_chunks, forward_work, (theta, *there, outs[0], mass[0]), key)
        by_means, _value = mean_slopes(outs, y[:1], w[:1], form, 1.0)
        extra, _value = path_terms(mass[0], form, 1.0)
        dX = np.zeros((0, 1, inputs.shape[1], 4 * BLOCK), theta.dtype)
        work = theta, theta, *there, extra, by_means, dX
        found = forward, address_of(backward_chunks, backward_work, work, key)
        _addresses[key] = found
    return found


def forward(theta, data, form):
    """Outputs of all trees on blocks of rows, see `smooth.Data`.

    Returns
    -------
    outs : (layers, T, blocks, width, BLOCK).
    mass : (layers, T, L) summed weight of the rows in each leaf.
    inputs : (blocks, q/4, 4 BLOCK) the rows with the outputs of all layers but the last as additional features.
    """
    known = alone(theta, data, form)
    if known is None:
        return forward_on(forward_chunks, theta, data, form)
    return forward_alone(known[0], theta, data, form)


def value_and_gradient(theta, data, form, gradient):
    """Objective on blocks of rows, see `smooth.Data`.

    Mean loss plus, averaged over trees, the path penalty on these rows and the decayed l1 norm; ``gradient`` (as theta)
    is overwritten. SDTR eq. (5) with its weights 2^-d telescopes: per tree,
    ``L_pp = -2^-depth sum over leaves of log(share of the rows in the leaf)``; shares are at least `LEAST_SHARE`.
    """
    arguments = theta, data, form, gradient
    known = alone(theta, data, form)
    return evaluate(KERNELS, *arguments) if known is None else evaluate_alone(known, *arguments)


def descend(theta, state, done, rates, batches, data, form, moments):
    """One step of (QH)Adam for each batch of blocks ``batches (steps, 2)``; updates theta and ``state (2, size)``.

    ``rates (2,)`` are the learning rates of splits and leaves; ``done`` is the number of earlier steps. Returns the
    mean objective.
    """
    arguments = theta, state, done, rates, batches, data, form, moments
    first, last = batches[0]
    known = alone(theta, Data(*(part[first:last] for part in data)), form)
    return take_steps(KERNELS, *arguments) if known is None else take_steps_alone(known, *arguments)


KERNELS = forward_chunks, backward_chunks
_addresses: dict[object, tuple[tuple[int, int], tuple[int, int]]] = {}
