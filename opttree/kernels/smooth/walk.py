r"""The smooth tree: loss and gradient under probabilistic routing, fused in one depth-first pass per block.

A row goes left at branch t with probability ``S = sigmoid(alpha (b_t - a_t . x))``. Rows come in blocks of `BLOCK`,
transposed (features x rows); a block walks the complete tree depth-first with one vector per level, so that no
(n, leaves) array exists:

    down   P[left] = P S,  P[right] = P - P[left]          path probabilities
    leaf   V = loss of each row at this leaf               and the gradient of the leaf's parameters
    up     V = S V[left] + (1 - S) V[right]                expected loss below the node
           dL/dz = P S (1 - S) (V[left] - V[right])        z = alpha (b - a . x)

Splits are evaluated a *tile* at a time: the ``levels`` levels below a node together, as a small matrix product, and
gradients are accumulated in the same way on the way up. With ``eps > 0`` a subtree that a block reaches with less than
this summed probability is skipped; small tiles then waste less work.

`EXPECTED` aggregation (GET eq. 3, SRT eq. 3, SDTR eq. 3) is one such pass. `MIXTURE` (the loss of the
probability-weighted prediction: SRT eq. 4) is two: `FORWARD` sums the prediction, `BACKWARD` uses as V the derivative
of the loss along each leaf's prediction.
"""

from collections import namedtuple

import numpy as np
from numba.extending import register_jitable

from opttree.kernels.losses.codes import EXPECTED, LOG, SQUARED, TABLE
from opttree.kernels.losses.exponential import sigmoid
from opttree.kernels.smooth.vectors import (
    BACKWARD,
    BLOCK,
    FORWARD,
    VECTORISED,
    add_constant,
    add_gradients,
    add_inputs,
    combine,
    constant_scores,
    copy_row,
    fill,
    leaf_losses,
    left_share,
    mixture_losses,
    products,
    right_share,
    row_sum,
    tile_slots,
    twin_backward,
    twin_forward,
    twin_leaves,
    twin_leaves_and_terms,
)
from opttree.runtime.compiling.calls import address_of, run
from opttree.runtime.compiling.compiled import inner, kernel
from opttree.runtime.threads import threads_for

MOST_CHUNKS = 16  # chunks of rows that threads share; sums are over chunks, for any number of threads
VECTORS = 4  # numbers read by a vector loop in the time of one

# rows in blocks: X (blocks, q/4, 4 BLOCK) with q = p rounded up to 4; Y (blocks, K or 1, BLOCK), under `TABLE` one row
# per leaf; w (blocks, BLOCK), 1 on average and 0 on padding rows
Data = namedtuple("Data", "X Y w")
# depth of the tree, levels of a tile, eps; loss and aggregation codes; n_features; n_outputs; linear leaves (0, 1)
Form = namedtuple("Form", "depth levels eps loss aggregation n_features n_outputs linear")
# l1 and l2 strengths on split weights and leaf coefficients; l2 strengths on thresholds and leaf constants
Penalty = namedtuple("Penalty", "l1_splits l2_splits l1_leaves l2_leaves l2_thresholds l2_constants")
# the three of them
Objective = namedtuple("Objective", "data form penalty")


@inner(**VECTORISED)
def walk(x, y, buffers, form, slots, params, grads, what):
    """Depth-first pass of one block over the tree, from the path probabilities at the root in ``P[0]``.

    V of the root goes to ``V[0]``. ``params``: W, c (splits in the order of ``slots``), values (L K,) and coefs of the
    leaves, and terms added to their V, (L,) or empty (0,); ``grads`` likewise, with the leaves' masses (sums of P) and
    the gradient with respect to ``x``, or empty (0, .). A node at depth d stores its V in row 2 d (left children) or 2
    d + 1 (right children); tile m keeps its splits in rows ``m tile_slots`` of S.
    """
    P, V, S, T, F, first = buffers
    W, c, values, coefs, extra = params
    dW, dc, dvalues, dcoefs, mass, dx = grads
    n_branches, K = (1 << form.depth) - 1, form.n_outputs
    linear, backward = form.linear == 1, what != FORWARD
    twins = form.loss == SQUARED and K == 1 and not linear
    stride = tile_slots(form.levels)
    zero = slots[0]  # not the constant 0: numba compiles a kernel anew for each constant that it is given
    t = depth = at = first_leaf = zero
    zero_loss = P.dtype.type(0.0)
    total = row_sum(P, zero)
    while True:
        # down, to the left, until a leaf, a branch over twin leaves, or one that the block hardly reaches
        twin = False
        while t < n_branches and total >= form.eps:
            m = depth // form.levels
            levels = min(form.levels, form.depth - m * form.levels)
            if depth == m * form.levels:
                first[m] = slots[t]
                products(x, W, c, slots[t], tile_slots(levels), S, m * stride)
                for i in range(m * stride, m * stride + tile_slots(levels)):
                    sigmoid(S, i)
                if linear and depth + levels == form.depth:
                    first_leaf = ((t + 1) << levels) - 1 - n_branches
                    products(x, coefs, values, first_leaf * K, K << levels, T, zero)
            i = m * stride + slots[t] - first[m]
            twin = twins and depth == form.depth - 1
            if twin:
                leaf = 2 * t + 1 - n_branches
                pair = values[leaf], values[leaf + 1]
                more = (extra[leaf], extra[leaf + 1]) if extra.size > 0 else (zero_loss, zero_loss)
                if what == FORWARD:
                    m_left = twin_forward(P, depth, S, i, pair, F)
                elif what == BACKWARD:
                    dz, left, right = twin_backward(P, depth, S, i, F, pair, more, V, at)
                elif extra.size > 0:
                    dz, left, right, m_left = twin_leaves_and_terms(P, depth, S, i, y, pair, more, V, at)
                    left, right = 2 * left, 2 * right
                else:
                    dz, left, right, m_left = twin_leaves(P, depth, S, i, y, pair, V, at)
                    left, right = 2 * left, 2 * right
                if what != BACKWARD:
                    mass[leaf] += m_left
                    mass[leaf + 1] += total - m_left
                if not backward:
                    break
                dc[slots[t]] += dz
                dvalues[leaf] += left
                dvalues[leaf + 1] += right
                if depth == m * form.levels:
                    add_gradients(x, S, i, tile_slots(levels), dW, slots[t])
                    if dx.shape[0] > 0:
                        add_inputs(W, slots[t], tile_slots(levels), S, i, dx)
                break
            total = left_share(P, depth, S, i)
            t, depth = 2 * t + 1, depth + 1
            at = 2 * depth
        if not twin:
            leaf = t - n_branches
            row = (leaf - first_leaf) * K if linear else 0
            if total < form.eps:
                fill(V, at, P.dtype.type(0.0))
                # within a tile, neither splits nor leaves below this node have a gradient
                m = depth // form.levels
                levels = min(form.levels, form.depth - m * form.levels)
                if leaf < 0 and depth > m * form.levels:
                    for e in range(levels - depth + m * form.levels):
                        for o in range(1 << e):
                            fill(S, m * stride + slots[((t + 1) << e) - 1 + o] - first[m], P.dtype.type(0.0))
                if linear and (leaf >= 0 or (depth > m * form.levels and m * form.levels + levels == form.depth)):
                    e = form.depth - depth
                    row = (((t + 1) << e) - 1 - n_branches - first_leaf) * K
                    for k in range(K << e):
                        fill(T, row + k, P.dtype.type(0.0))
            else:
                one_for_all = form.loss == LOG and not linear
                if one_for_all:
                    constant_scores(y, P, depth, T, values, leaf * K, F, V, at, form, what, dvalues)
                elif form.loss == TABLE:
                    copy_row(V, at, y, leaf)
                else:
                    if not linear:
                        for k in range(K):
                            fill(T, k, values[leaf * K + k])
                    leaf_losses(y, P, depth, T, row, F, V, at, form, what)
                if what != BACKWARD:
                    mass[leaf] += total
                if backward:
                    if extra.size > 0:
                        add_constant(V, at, extra[leaf])
                    if not one_for_all:
                        for k in range(K):
                            dvalues[leaf * K + k] += row_sum(T, row + k)
        # up, from right children
        while t > 0 and t % 2 == 0:
            t, depth = (t - 2) // 2, depth - 1
            at = 2 * depth + (t % 2 == 0 and t > 0)
            if backward:
                m = depth // form.levels
                dc[slots[t]] += combine(P, depth, S, m * stride + slots[t] - first[m], V, at)
                if depth == m * form.levels:
                    levels = min(form.levels, form.depth - depth)
                    add_gradients(x, S, m * stride, tile_slots(levels), dW, slots[t])
                    if dx.shape[0] > 0:
                        add_inputs(W, slots[t], tile_slots(levels), S, m * stride, dx)
                    if linear and depth + levels == form.depth:
                        add_gradients(x, T, zero, K << levels, dcoefs, first_leaf * K)
        if t == 0:
            return
        t += 1
        at += 1
        total = right_share(P, depth - 1)


@inner(**VECTORISED)
def tile_order(depth, levels):
    """Row of each branch (heap order) in the order of tiles, and the number of rows: (2^depth - 1,), int."""
    slots = np.empty((1 << depth) - 1, np.int64)
    row = 0
    for top in range(0, depth, levels):
        below = min(levels, depth - top)
        for t in range((1 << top) - 1, (2 << top) - 1):
            for e in range(below):
                for o in range(1 << e):
                    slots[((t + 1) << e) - 1 + o] = row + (1 << e) - 1 + o
            row += tile_slots(below)
    return slots, row


@kernel(**VECTORISED)
def add_chunks(first, last, work):
    """Add the gradients of some chunks of rows to those of ``work``, and set the chunks' losses, see `prepare`."""
    data, bounds, form, slots, params, sums, totals = work
    dtype = data.w.dtype
    n_levels = (form.depth + form.levels - 1) // form.levels
    n_leaves = 1 << min(form.levels, form.depth - (n_levels - 1) * form.levels)
    buffers = (
        np.empty((form.depth + 1, BLOCK), dtype),
        np.zeros((2 * form.depth + 2, BLOCK), dtype),
        np.zeros((n_levels * tile_slots(form.levels), BLOCK), dtype),
        np.zeros((form.n_outputs * (n_leaves if form.linear else 1), BLOCK), dtype),
        np.zeros((1 if form.loss == LOG else form.n_outputs, BLOCK), dtype),
        np.zeros(n_levels, np.int64),
    )
    P, V, F = buffers[0], buffers[1], buffers[4]
    zero, one = dtype.type(0.0), dtype.type(1.0)
    for chunk in range(first, last):
        grads = (sums[0][chunk], sums[1][chunk], sums[2][chunk], sums[3][chunk], sums[4][chunk], sums[5])
        total = 0.0
        for i in range(bounds[chunk], bounds[chunk + 1]):
            x, y = data.X[i], data.Y[i]
            for step in range(1 if form.aggregation == EXPECTED else 2):
                what = EXPECTED if form.aggregation == EXPECTED else FORWARD + step
                if what == EXPECTED:
                    copy_row(P, step, data.w, i)
                elif what == FORWARD:
                    for r in range(BLOCK):
                        P[0, r] = one if data.w[i, r] > 0.0 else zero
                    for k in range(F.shape[0]):
                        fill(F, k, zero)
                else:
                    total += mixture_losses(y, data.w, i, F, form.loss)
                walk(x, y, buffers, form, slots, params, grads, what)
                if what == EXPECTED:
                    own = zero
                    for r in range(BLOCK):
                        own += data.w[i, r] * V[0, r]
                    total += own
        totals[chunk] = total


@kernel()
def unpack(theta, form):
    """Views of ``theta``: A (B, p), b (B,), values (L, K), coefs (L, K, p or 0)."""
    n_branches, p = (1 << form.depth) - 1, form.n_features
    i = n_branches * p
    j = i + n_branches
    k = j + (n_branches + 1) * form.n_outputs
    return (
        theta[:i].reshape(n_branches, p),
        theta[i:j],
        theta[j:k].reshape(n_branches + 1, form.n_outputs),
        theta[k:].reshape(n_branches + 1, form.n_outputs, p * form.linear),
    )


@inner()
def add_penalties(theta, gradient, form, penalty):
    """Add the gradient of the penalties; returns their value. The l1 norm has derivative 0 at 0."""
    n_branches, p = (1 << form.depth) - 1, form.n_features
    thresholds, values = n_branches * p, n_branches * (p + 1)
    coefs = values + (n_branches + 1) * form.n_outputs
    total = 0.0
    for first, last, l1, l2 in (
        (0, thresholds, penalty.l1_splits, penalty.l2_splits),
        (thresholds, values, 0.0, penalty.l2_thresholds),
        (values, coefs, 0.0, penalty.l2_constants),
        (coefs, theta.size, penalty.l1_leaves, penalty.l2_leaves),
    ):
        if l1 > 0.0 or l2 > 0.0:
            for i in range(first, last):
                total += l1 * abs(theta[i]) + l2 * theta[i] ** 2
                gradient[i] += l1 * np.sign(theta[i]) + 2.0 * l2 * theta[i]
    return total


@kernel()
def prepare(theta, alpha, data, blocks, form):
    """The work of `add_chunks` on the blocks ``blocks[0]..blocks[1] - 1``: rows, chunks, parameters, sums of zero."""
    dtype = theta.dtype
    A, b, values, coefs = unpack(theta, form)
    n_branches, p = A.shape
    n_leaves, n_outputs = values.shape
    q = data.X.shape[1] * 4
    slots, n_rows = tile_order(form.depth, form.levels)
    W, c = np.zeros((n_rows, q), dtype), np.zeros(n_rows, dtype)
    scale = dtype.type(alpha)
    for t in range(n_branches):
        c[slots[t]] = scale * b[t]
        for k in range(p):
            W[slots[t], k] = -scale * A[t, k]
    C = np.zeros((n_leaves * n_outputs * form.linear, q), dtype)
    for leaf in range(n_leaves * form.linear):
        for k in range(n_outputs):
            for j in range(p):
                C[leaf * n_outputs + k, j] = coefs[leaf, k, j]
    constants = np.empty(n_leaves * n_outputs, dtype)
    for leaf in range(n_leaves):
        for k in range(n_outputs):
            constants[leaf * n_outputs + k] = values[leaf, k]
    n_chunks = max(1, min(MOST_CHUNKS, blocks[1] - blocks[0]))
    bounds = np.empty(n_chunks + 1, np.int64)
    for i in range(n_chunks + 1):
        bounds[i] = blocks[0] + (blocks[1] - blocks[0]) * i // n_chunks
    sums = (
        np.zeros((n_chunks, n_rows, q), dtype),
        np.zeros((n_chunks, n_rows), dtype),
        np.zeros((n_chunks, n_leaves * n_outputs), dtype),
        np.zeros((n_chunks, C.shape[0], q), dtype),
        np.zeros((n_chunks, n_leaves), dtype),
        np.zeros((0, 0), dtype),
    )
    params = (W, c, constants, C, np.zeros(0, dtype))
    return data, bounds, form, slots, params, sums, np.zeros(n_chunks)


@kernel()
def finish(theta, alpha, work, penalty, gradient, mass):
    """Overwrite ``gradient`` and ``mass``, see `value_and_gradient`, by the chunks' sums; returns the objective."""
    data, bounds, form, slots, _params, sums, totals = work
    dtype = theta.dtype
    scale = dtype.type(alpha)
    weight = 0.0
    for i in range(bounds[0], bounds[-1]):
        own = dtype.type(0.0)
        for r in range(BLOCK):
            own += data.w[i, r]
        weight += own
    share = dtype.type(1.0 / weight)
    dA, db, dvalues, dcoefs = unpack(gradient, form)
    n_branches, p = dA.shape
    n_leaves, n_outputs = dvalues.shape
    for j in range(gradient.size):
        gradient[j] = 0.0
    for leaf in range(n_leaves):
        mass[leaf] = 0.0
    loss = 0.0
    for i in range(totals.size):
        loss += totals[i]
        for t in range(n_branches):
            db[t] += scale * share * sums[1][i, slots[t]]
            for k in range(p):
                dA[t, k] -= scale * share * sums[0][i, slots[t], k]
        for leaf in range(n_leaves):
            mass[leaf] += share * sums[4][i, leaf]
            for k in range(n_outputs):
                dvalues[leaf, k] += share * sums[2][i, leaf * n_outputs + k]
                for j in range(p * form.linear):
                    dcoefs[leaf, k, j] += share * sums[3][i, leaf * n_outputs + k, j]
    return loss / weight + add_penalties(theta, gradient, form, penalty)


@register_jitable
def evaluate(chunks, theta, alpha, blocks, objective, gradient, mass):
    """`value_and_gradient`, by `add_chunks` or its address: see `opttree.runtime.compiling.calls`."""
    data, form, penalty = objective
    work = prepare(theta, alpha, data, blocks, form)
    run(chunks, work[1].size - 1, cost_of_chunk(form, blocks), work)
    return finish(theta, alpha, work, penalty, gradient, mass)


evaluate_alone = kernel()(evaluate)


@register_jitable
def cost_of_chunk(form, blocks):
    """The work of a chunk of rows, in numbers read one by one."""
    rows = (blocks[1] - blocks[0]) * BLOCK
    return rows / MOST_CHUNKS * (1 << form.depth) * (form.n_features + 10) * (1 + form.linear) / VECTORS


def alone(theta, blocks, objective):
    """Address of `add_chunks` if evaluations on these blocks are worth one thread only, else None."""
    data, form, _penalty = objective
    n_chunks = max(1, min(MOST_CHUNKS, int(blocks[1] - blocks[0])))
    if threads_for(n_chunks, cost_of_chunk(form, blocks)) > 1:
        return None
    key = theta.dtype, *((array.dtype, array.flags.c_contiguous) for array in data), *map(type, form)
    return address_of(add_chunks, prepare, (theta, 1.0, data, blocks, form), key)


def value_and_gradient(theta, alpha, blocks, objective, gradient, mass):
    """`Objective` of ``theta`` on the blocks ``blocks[0]..blocks[1] - 1``: their mean loss plus the penalties.

    ``gradient`` (as theta) and ``mass (L,)``, each leaf's share of the weight, are overwritten. The result does not
    depend on the number of threads.
    """
    arguments = theta, alpha, blocks, objective, gradient, mass
    address = alone(theta, blocks, objective)
    return evaluate(add_chunks, *arguments) if address is None else evaluate_alone(address, *arguments)
