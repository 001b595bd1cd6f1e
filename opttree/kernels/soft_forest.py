"""Soft forests in layers, as one differentiable model: loss, gradient, descent.

All trees are complete, of one depth, with constant leaves of ``width`` numbers, the first ``n_outputs`` of which are
predictions. The inputs of a layer's trees are the features and all outputs of the layers before; the model predicts the
mean over all trees (SDTR, section III-D). Gate t of a tree is ``sigmoid(beta_t (b_t - a_t . x))``: every branch has its
own beta.

Trees are evaluated by `opttree.kernels.smooth`, one block of rows at a time: forward for predictions and the leaves'
masses, backward with the derivative of the loss with respect to each tree's outputs, including the contributions of
later layers.
"""

from collections import namedtuple

import numpy as np
from numba import njit, prange

from opttree.kernels import smooth
from opttree.kernels.codes import EXPECTED, MIXTURE, SQUARED
from opttree.kernels.first_order import adam_step
from opttree.kernels.smooth import tile_order, walk
from opttree.kernels.vectors import BACKWARD, BLOCK, FORWARD, kernel, tile_slots

MOST_CHUNKS = 16  # chunks of trees that may run in parallel
TILE_LEVELS = 4
LEAST_SHARE = 1e-6  # smallest share of the weight in a leaf that the path penalty uses

# levels of splits; trees of a layer; layers; features of the rows; outputs; numbers per leaf; whether the loss is the
# expected loss of each tree, or the loss of the mean; strengths of path penalty and decayed l1 norm
Form = namedtuple("Form", "depth n_trees n_layers n_features n_outputs width expected path_penalty l1")


@njit(cache=True, nogil=True)
def layer_size(form, layer):
    """Length of a layer's part of theta."""
    n_branches = (1 << form.depth) - 1
    p = form.n_features + layer * form.n_trees * form.width
    return form.n_trees * (n_branches * (p + 2) + (n_branches + 1) * form.width)


@njit(cache=True, nogil=True)
def layer_start(form, layer):
    """Start of a layer's part of theta."""
    start = 0
    for i in range(layer):
        start += layer_size(form, i)
    return start


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def tile_form(form):
    """The form of one tree for `smooth.walk`."""
    n_tiles = (form.depth + TILE_LEVELS - 1) // TILE_LEVELS
    levels = (form.depth + n_tiles - 1) // n_tiles
    aggregation = EXPECTED if form.expected else MIXTURE
    return smooth.Form(form.depth, levels, 0.0, SQUARED, aggregation, form.n_features, form.width, 0)


@kernel
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


@kernel
def forward_chunk(X, y, w, trees, form, slots, W, c, values, outs, mass):
    """Outputs ``outs (T, blocks, width, BLOCK)`` and leaf masses ``mass (T, L)`` of trees ``trees[0]..trees[1]``."""
    dtype = W.dtype
    buffers = walk_buffers(form, dtype)
    P, F = buffers[0], buffers[4]
    none = np.zeros((0, 0), dtype)
    for t in range(trees[0], trees[1]):
        params = (W[t], c[t], values[t].reshape(-1), none, np.zeros(0, dtype))
        grads = (none, c[t], c[t], none, mass[t], none)  # only the masses are written
        for i in range(X.shape[0]):
            P[0] = w[i]
            F[:] = dtype.type(0.0)
            walk(X[i], y[i], buffers, form, slots, params, grads, FORWARD)
            for k in range(F.shape[0]):
                for r in range(BLOCK):
                    outs[t, i, k, r] = F[k, r] / w[i, r] if w[i, r] > 0.0 else dtype.type(0.0)


@kernel
def backward_chunk(X, y, w, trees, form, slots, W, c, values, extra, slopes, grads):
    """Gradients of the trees ``trees[0]..trees[1]`` into ``grads``: dW, dc, dvalues by tree, mass, dX of the chunk.

    ``slopes (T, blocks, width, BLOCK)``: derivative of the loss with respect to the trees' outputs; the expected loss
    does not need it, and its sum over rows is returned.
    """
    dtype = W.dtype
    buffers = walk_buffers(form, dtype)
    P, V, F = buffers[0], buffers[1], buffers[4]
    dW, dc, dvalues, mass, dX = grads
    none, no_inputs = np.zeros((0, 0), dtype), np.zeros((0, 0), dtype)
    total = 0.0
    for t in range(trees[0], trees[1]):
        params = (W[t], c[t], values[t].reshape(-1), none, extra[t])
        for i in range(X.shape[0]):
            dx = dX[i] if dX.shape[0] > 0 else no_inputs
            own = (dW[t], dc[t], dvalues[t].reshape(-1), none, mass[t], dx)
            P[0] = w[i]
            if form.aggregation == EXPECTED:
                walk(X[i], y[i], buffers, form, slots, params, own, EXPECTED)
                for r in range(BLOCK):
                    total += w[i, r] * V[0, r]
            else:
                F[:] = slopes[t, i]
                walk(X[i], y[i], buffers, form, slots, params, own, BACKWARD)
    return total


@njit(cache=True, nogil=True, parallel=True)
def forward_parallel(X, y, w, bounds, form, slots, W, c, values, outs, mass):
    """`forward_chunk` for all chunks of trees in parallel."""
    for k in prange(bounds.size - 1):
        forward_chunk(X, y, w, bounds[k : k + 2], form, slots, W, c, values, outs, mass)


@njit(cache=True, nogil=True, parallel=True)
def backward_parallel(X, y, w, bounds, form, slots, W, c, values, extra, slopes, grads, totals):
    """`backward_chunk` for all chunks of trees in parallel, each with its own gradient with respect to the inputs."""
    for k in prange(bounds.size - 1):
        own = (grads[0], grads[1], grads[2], grads[3], grads[4][k])
        totals[k] = backward_chunk(X, y, w, bounds[k : k + 2], form, slots, W, c, values, extra, slopes, own)


@njit(cache=True, nogil=True)
def backward_chunks(X, y, w, bounds, form, slots, W, c, values, extra, slopes, grads, totals):
    """`backward_parallel` one chunk after another, with identical results."""
    for k in range(bounds.size - 1):
        own = (grads[0], grads[1], grads[2], grads[3], grads[4][k])
        totals[k] = backward_chunk(X, y, w, bounds[k : k + 2], form, slots, W, c, values, extra, slopes, own)


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def chunks(form):
    """Bounds of the chunks of trees: (chunks + 1,)."""
    n = min(MOST_CHUNKS, form.n_trees)
    bounds = np.empty(n + 1, np.int64)
    for i in range(n + 1):
        bounds[i] = form.n_trees * i // n
    return bounds


@njit(cache=True, nogil=True)
def forward(theta, X, y, w, form, parallel):
    """Outputs of all trees on blocks of rows.

    Returns
    -------
    outs : (layers, T, blocks, width, BLOCK).
    mass : (layers, T, L) summed weight of the rows in each leaf.
    inputs : (blocks, q/4, 4 BLOCK) the rows with the outputs of all layers but the last as additional features.
    """
    dtype = theta.dtype
    n_blocks, T, width = X.shape[0], form.n_trees, form.width
    outs = np.zeros((form.n_layers, T, n_blocks, width, BLOCK), dtype)
    mass = np.zeros((form.n_layers, T, 1 << form.depth), dtype)
    tile = tile_form(form)
    slots, n_rows = tile_order(form.depth, tile.levels)
    bounds = chunks(form)
    inputs = X
    if form.n_layers > 1:
        q = form.n_features + (form.n_layers - 1) * T * width
        inputs = np.zeros((n_blocks, (q + 3) // 4, 4 * BLOCK), dtype)
        inputs[:, : X.shape[1]] = X
    for layer in range(form.n_layers):
        W, c = gates_of(theta, form, layer, slots, n_rows)
        values = unpack(theta, form, layer)[3]
        if parallel:
            forward_parallel(inputs, y, w, bounds, tile, slots, W, c, values, outs[layer], mass[layer])
        else:
            forward_chunk(inputs, y, w, np.array([0, T]), tile, slots, W, c, values, outs[layer], mass[layer])
        if layer < form.n_layers - 1:
            for t in range(T):
                for k in range(width):
                    f = form.n_features + (layer * T + t) * width + k
                    g, at = f // 4, f % 4 * BLOCK
                    for i in range(n_blocks):
                        for r in range(BLOCK):
                            inputs[i, g, at + r] = outs[layer, t, i, k, r]
    return outs, mass, inputs


@njit(cache=True, nogil=True)
def mean_outputs(outs, n_outputs):
    """Predictions (blocks, K, BLOCK): the mean over trees of their first outputs."""
    n_layers, T, n_blocks, _width, _block = outs.shape
    mean = np.zeros((n_blocks, n_outputs, BLOCK), outs.dtype)
    for layer in range(n_layers):
        for t in range(T):
            mean += outs[layer, t, :, :n_outputs]
    return mean / outs.dtype.type(n_layers * T)


@njit(cache=True, nogil=True)
def value_and_gradient(theta, X, y, w, form, gradient, parallel):
    """Objective on blocks of rows ``X (blocks, q/4, 4 BLOCK)``, ``y (blocks, K, BLOCK)``, ``w (blocks, BLOCK)``.

    Mean loss plus, averaged over trees, the path penalty on these rows and the decayed l1 norm; ``gradient`` (as theta)
    is overwritten. SDTR eq. (5) with its weights 2^-d telescopes: per tree,
    ``L_pp = -2^-depth sum over leaves of log(share of the rows in the leaf)``; shares are at least `LEAST_SHARE`.
    """
    dtype = theta.dtype
    n_blocks, T, K = X.shape[0], form.n_trees, form.n_outputs
    n_branches, n_leaves = (1 << form.depth) - 1, 1 << form.depth
    each = 1.0 / (T * form.n_layers)
    weight = w.astype(np.float64).sum()
    tile = tile_form(form)
    slots, n_rows = tile_order(form.depth, tile.levels)
    bounds = chunks(form)
    n_chunks = bounds.size - 1
    value = 0.0
    outs = np.zeros((1, 1, 1, 1, 1), dtype)
    mass = np.zeros((1, 1, 1), dtype)
    inputs = X
    slopes = np.zeros((T, n_blocks, form.width, BLOCK), dtype)
    errors = np.zeros((n_blocks, K, BLOCK), dtype)
    if not form.expected or form.path_penalty > 0.0:
        outs, mass, inputs = forward(theta, X, y, w, form, parallel)
    if not form.expected:
        errors = mean_outputs(outs, K) - y
        for i in range(n_blocks):
            for k in range(K):
                for r in range(BLOCK):
                    value += w[i, r] * errors[i, k, r] ** 2 / weight
    dX = np.zeros((n_chunks if form.n_layers > 1 else 0, n_blocks, inputs.shape[1], 4 * BLOCK), dtype)
    gradient[:] = dtype.type(0.0)
    totals = np.zeros(n_chunks)
    for back in range(form.n_layers):
        layer = form.n_layers - 1 - back
        W, c = gates_of(theta, form, layer, slots, n_rows)
        A, b, beta, values = unpack(theta, form, layer)
        dA, db, dbeta, dvalues = unpack(gradient, form, layer)
        extra = np.zeros((T, n_leaves if form.path_penalty > 0.0 else 0), dtype)
        if form.path_penalty > 0.0:
            strength = form.path_penalty * each / n_leaves
            for t in range(T):
                for leaf in range(n_leaves):
                    share = mass[layer, t, leaf] / weight
                    value -= strength * np.log(max(share, LEAST_SHARE))
                    if share > LEAST_SHARE:
                        extra[t, leaf] = -strength / share
                        if form.expected:  # the kernel's sum includes the terms added to the losses, for T trees
                            extra[t, leaf] *= T
                            value += strength
        if not form.expected:
            for t in range(T):
                for i in range(n_blocks):
                    for k in range(K):
                        slopes[t, i, k] = dtype.type(2.0 * each) * errors[i, k]
                    for k in range(K, form.width):
                        slopes[t, i, k] = dtype.type(0.0)
                    if back > 0:
                        for k in range(form.width):
                            f = form.n_features + (layer * T + t) * form.width + k
                            g, at = f // 4, f % 4 * BLOCK
                            for part in range(n_chunks):
                                for r in range(BLOCK):
                                    if w[i, r] > 0.0:
                                        slopes[t, i, k, r] += dX[part, i, g, at + r] / w[i, r]
        dW, dc = np.zeros_like(W), np.zeros_like(c)
        own = dX if layer > 0 else np.zeros((n_chunks, 0, 0, 0), dtype)
        seen = np.zeros((T, n_leaves), dtype)
        grads = (dW, dc, dvalues, seen, own)
        if parallel:
            backward_parallel(inputs, y, w, bounds, tile, slots, W, c, values, extra, slopes, grads, totals)
        else:
            backward_chunks(inputs, y, w, bounds, tile, slots, W, c, values, extra, slopes, grads, totals)
        scale = dtype.type((1.0 / T if form.expected else 1.0) / weight)
        dvalues *= scale
        for t in range(T):
            for s in range(n_branches):
                steep, slot = beta[t, s], slots[s]
                along = dc[t, slot] * b[t, s]
                db[t, s] = scale * steep * dc[t, slot]
                decay = 1.0
                while (1.0 / decay) * 2 - 1 <= s:
                    decay /= 2
                l1 = dtype.type(form.l1 * each * decay)
                for j in range(A.shape[2]):
                    a = A[t, s, j]
                    along -= dW[t, slot, j] * a
                    dA[t, s, j] = l1 * np.sign(a) - scale * steep * dW[t, slot, j]
                    value += l1 * abs(a)
                dbeta[t, s] = scale * along
    if form.expected:
        value += totals.sum() / (T * weight)
    return value


@njit(cache=True, nogil=True)
def descend(theta, state, done, rates, batches, data, form, moments, parallel):
    """One step of (QH)Adam for each batch of blocks ``batches (steps, 2)``; updates theta and ``state (2, size)``.

    ``rates (2,)`` are the learning rates of splits and leaves; ``done`` is the number of earlier steps. Returns the
    mean objective.
    """
    gradient = np.empty_like(theta)
    total = 0.0
    for i in range(batches.shape[0]):
        a, b = batches[i, 0], batches[i, 1]
        total += value_and_gradient(theta, data.X[a:b], data.Y[a:b], data.w[a:b], form, gradient, parallel)
        for layer in range(form.n_layers):
            start, end = layer_start(form, layer), layer_start(form, layer + 1)
            leaves = end - form.n_trees * (1 << form.depth) * form.width
            for part in range(2):
                u, v = (start, leaves) if part == 0 else (leaves, end)
                adam_step(theta[u:v], gradient[u:v], state[0, u:v], state[1, u:v], done + i + 1, rates[part], moments)
    return total / batches.shape[0]
