r"""The smooth tree: value and gradient of the loss under probabilistic routing, fused in one depth-first pass per block.

A row goes left at branch t with probability ``S = sigmoid(alpha (b_t - a_t . x))``. Rows come in blocks of `BLOCK`,
transposed (features x rows); a block walks the complete tree depth-first with one vector per level, so that no
(n, leaves) array exists:

    down   P[left] = P S,  P[right] = P - P[left]          path probabilities
    leaf   V = loss of each row at this leaf               and the gradient of the leaf's parameters
    up     V = S V[left] + (1 - S) V[right]                expected loss below the node
           dL/dz = P S (1 - S) (V[left] - V[right])        z = alpha (b - a . x)

Splits are evaluated a *tile* at a time: the ``levels`` levels below a node together, as a small matrix product, with
gradients gathered in the same way on the way up (levels = 1: node by node). With ``eps > 0`` a subtree that a block
reaches with less than this summed probability is skipped; tiles are then single nodes.

`EXPECTED` aggregation (GET eq. 3, SRT eq. 3, SDTR eq. 3) is one such pass. `MIXTURE` (the loss of the
probability-weighted prediction: SRT eq. 4) is two: `FORWARD` sums the prediction, `BACKWARD` takes as V the derivative
of the loss along each leaf's prediction.
"""

from collections import namedtuple

import numpy as np
from numba import njit, prange

from opttree.kernels.exponential import sigmoid
from opttree.kernels.gram import BLOCK, FASTMATH

EXPECTED, MIXTURE = range(2)
FORWARD, BACKWARD = 1, 2  # the two passes of MIXTURE; EXPECTED has one, of its own name
SQUARED, LOG = 0, 3  # as in `hard`
OPTIONS = {"cache": True, "nogil": True, "fastmath": FASTMATH, "error_model": "numpy"}
MOST_CHUNKS = 16  # parts of the rows that may run at the same time; sums are over chunks, whatever the threads

# rows in blocks: X (blocks, q/4, 4 BLOCK) with q = p rounded up to 4; Y (blocks, K or 1, BLOCK); w (blocks, BLOCK),
# 1 on average and 0 on rows that only fill a block
Data = namedtuple("Data", "X Y w")
# depth of the tree, levels of a tile, eps; loss and aggregation codes; n_features; n_outputs; linear leaves (0, 1)
Form = namedtuple("Form", "depth levels eps loss aggregation n_features n_outputs linear")
# l1 and l2 strengths on split weights and leaf coefficients
Penalty = namedtuple("Penalty", "l1_splits l2_splits l1_leaves l2_leaves")


@njit(**OPTIONS)
def tile_slots(levels):
    """Rows that a tile of ``levels`` levels takes: one more than it has nodes, so that they come in fours."""
    return 1 if levels == 1 else 1 << levels


@njit(**OPTIONS)
def products(x, W, c, Z):
    """``Z = W x + c`` for a block: ``x (q/4, 4 BLOCK)``, ``W (m, q)``, ``c (m,)``, ``Z (m, BLOCK)``; four rows at a time.

    The layout of ``x``, four features in one row, spares the compiler half of its checks whether arrays overlap.
    """
    m = W.shape[0]
    whole = m - m % 4
    for j in range(0, whole, 4):
        z0, z1, z2, z3 = Z[j], Z[j + 1], Z[j + 2], Z[j + 3]
        for r in range(BLOCK):
            z0[r] = c[j]
            z1[r] = c[j + 1]
            z2[r] = c[j + 2]
            z3[r] = c[j + 3]
        for g in range(x.shape[0]):
            xg = x[g]
            k = 4 * g
            a00, a01, a02, a03 = W[j, k], W[j, k + 1], W[j, k + 2], W[j, k + 3]
            a10, a11, a12, a13 = W[j + 1, k], W[j + 1, k + 1], W[j + 1, k + 2], W[j + 1, k + 3]
            a20, a21, a22, a23 = W[j + 2, k], W[j + 2, k + 1], W[j + 2, k + 2], W[j + 2, k + 3]
            a30, a31, a32, a33 = W[j + 3, k], W[j + 3, k + 1], W[j + 3, k + 2], W[j + 3, k + 3]
            for r in range(BLOCK):
                x0, x1, x2, x3 = xg[r], xg[BLOCK + r], xg[2 * BLOCK + r], xg[3 * BLOCK + r]
                z0[r] += a00 * x0 + a01 * x1 + a02 * x2 + a03 * x3
                z1[r] += a10 * x0 + a11 * x1 + a12 * x2 + a13 * x3
                z2[r] += a20 * x0 + a21 * x1 + a22 * x2 + a23 * x3
                z3[r] += a30 * x0 + a31 * x1 + a32 * x2 + a33 * x3
    for j in range(whole, m):
        z = Z[j]
        for r in range(BLOCK):
            z[r] = c[j]
        for g in range(x.shape[0]):
            xg = x[g]
            k = 4 * g
            a0, a1, a2, a3 = W[j, k], W[j, k + 1], W[j, k + 2], W[j, k + 3]
            for r in range(BLOCK):
                z[r] += a0 * xg[r] + a1 * xg[BLOCK + r] + a2 * xg[2 * BLOCK + r] + a3 * xg[3 * BLOCK + r]


@njit(**OPTIONS)
def add_gradients(x, G, dW):
    """``dW += G x'`` for a block: the transpose of `products`."""
    m = dW.shape[0]
    whole = m - m % 4
    zero = x.dtype.type(0.0)
    for j in range(0, whole, 4):
        g0, g1, g2, g3 = G[j], G[j + 1], G[j + 2], G[j + 3]
        for g in range(x.shape[0]):
            xg = x[g]
            s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = zero
            s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = zero
            for r in range(BLOCK):
                x0, x1, x2, x3 = xg[r], xg[BLOCK + r], xg[2 * BLOCK + r], xg[3 * BLOCK + r]
                s00 += g0[r] * x0
                s01 += g0[r] * x1
                s02 += g0[r] * x2
                s03 += g0[r] * x3
                s10 += g1[r] * x0
                s11 += g1[r] * x1
                s12 += g1[r] * x2
                s13 += g1[r] * x3
                s20 += g2[r] * x0
                s21 += g2[r] * x1
                s22 += g2[r] * x2
                s23 += g2[r] * x3
                s30 += g3[r] * x0
                s31 += g3[r] * x1
                s32 += g3[r] * x2
                s33 += g3[r] * x3
            k = 4 * g
            d0, d1, d2, d3 = dW[j], dW[j + 1], dW[j + 2], dW[j + 3]
            d0[k] += s00
            d0[k + 1] += s01
            d0[k + 2] += s02
            d0[k + 3] += s03
            d1[k] += s10
            d1[k + 1] += s11
            d1[k + 2] += s12
            d1[k + 3] += s13
            d2[k] += s20
            d2[k + 1] += s21
            d2[k + 2] += s22
            d2[k + 3] += s23
            d3[k] += s30
            d3[k + 1] += s31
            d3[k + 2] += s32
            d3[k + 3] += s33
    for j in range(whole, m):
        gj, d = G[j], dW[j]
        for g in range(x.shape[0]):
            xg = x[g]
            s0 = s1 = s2 = s3 = zero
            for r in range(BLOCK):
                s0 += gj[r] * xg[r]
                s1 += gj[r] * xg[BLOCK + r]
                s2 += gj[r] * xg[2 * BLOCK + r]
                s3 += gj[r] * xg[3 * BLOCK + r]
            k = 4 * g
            d[k] += s0
            d[k + 1] += s1
            d[k + 2] += s2
            d[k + 3] += s3


@njit(**OPTIONS)
def left_share(p, s, left):
    """``left = p s``; returns its sum. Shares under 1e-18 are flushed to zero: denormal numbers are slow."""
    tiny, zero = p.dtype.type(1e-18), p.dtype.type(0.0)
    total = zero
    for r in range(BLOCK):
        share = p[r] * s[r]
        share = share if share > tiny else zero
        left[r] = share
        total += share
    return total


@njit(**OPTIONS)
def right_share(p, left):
    """Overwrite ``left`` by ``p - left``; returns its sum."""
    total = p.dtype.type(0.0)
    for r in range(BLOCK):
        share = p[r] - left[r]
        left[r] = share
        total += share
    return total


@njit(**OPTIONS)
def combine(p, s, v_left, v_right, v):
    """``v = s v_left + (1 - s) v_right``; ``s`` is overwritten by dL/dz, whose sum is returned."""
    one = p.dtype.type(1.0)
    total = p.dtype.type(0.0)
    for r in range(BLOCK):
        difference = v_left[r] - v_right[r]
        g = p[r] * s[r] * (one - s[r]) * difference
        v[r] = v_right[r] + s[r] * difference
        s[r] = g
        total += g
    return total


@njit(**OPTIONS)
def twin_leaves(p, s, y, left, right, v, sums):
    """A branch over two constant leaves under squared loss: leaves and `combine` in one loop.

    ``sums``: dL/dz, the gradients of the two constants (by 2), and the mass of the left leaf.
    """
    one = p.dtype.type(1.0)
    total = d_left = d_right = mass = p.dtype.type(0.0)
    for r in range(BLOCK):
        e_left, e_right = left - y[r], right - y[r]
        p_left = p[r] * s[r]
        v_right = e_right * e_right
        difference = e_left * e_left - v_right
        v[r] = v_right + s[r] * difference
        g = p_left * (one - s[r]) * difference
        d_left += p_left * e_left
        d_right += (p[r] - p_left) * e_right
        mass += p_left
        s[r] = g
        total += g
    sums[0], sums[1], sums[2], sums[3] = total, d_left, d_right, mass


@njit(**OPTIONS)
def softmax_rows(T):
    """Overwrite class scores ``T (K, BLOCK)`` by probabilities."""
    for r in range(BLOCK):
        top = T[0, r]
        for k in range(1, T.shape[0]):
            top = max(top, T[k, r])
        total = T.dtype.type(0.0)
        for k in range(T.shape[0]):
            T[k, r] = np.exp(T[k, r] - top)
            total += T[k, r]
        for k in range(T.shape[0]):
            T[k, r] /= total


@njit(**OPTIONS)
def leaf_losses(y, p, T, F, v, loss, what):
    """At one leaf with predictions (scores) ``T (K, BLOCK)``: V into ``v``, and over ``T`` the gradient along them.

    In the `FORWARD` pass the share of the prediction is added to ``F`` instead, and ``T`` is spoilt.
    """
    dtype = p.dtype.type
    two, tiny = dtype(2.0), dtype(1e-30)
    if loss == LOG:
        softmax_rows(T)
        for r in range(BLOCK):
            label = int(y[0, r])
            own = max(T[label, r], tiny)
            if what == FORWARD:
                F[0, r] += p[r] * own
                continue
            slope = p[r]
            if what == BACKWARD:
                v[r] = F[0, r] * own
                slope *= -v[r]
            else:
                v[r] = -np.log(own)
            T[label, r] -= dtype(1.0)
            for k in range(T.shape[0]):
                T[k, r] *= slope
        return
    if what == FORWARD:
        for k in range(T.shape[0]):
            for r in range(BLOCK):
                F[k, r] += p[r] * T[k, r]
        return
    v[:] = dtype(0.0)
    for k in range(T.shape[0]):
        if what == BACKWARD:
            for r in range(BLOCK):
                v[r] += F[k, r] * T[k, r]
                T[k, r] = p[r] * F[k, r]
        else:
            for r in range(BLOCK):
                e = T[k, r] - y[k, r]
                v[r] += e * e
                T[k, r] = two * p[r] * e


@njit(**OPTIONS)
def mixture_losses(y, w, F, loss):
    """Loss of the mixture's predictions ``F (K, BLOCK)``, weighted and summed; ``F`` becomes its derivative."""
    dtype = w.dtype.type
    total = dtype(0.0)
    for r in range(BLOCK):
        if loss == LOG:
            own = max(F[0, r], dtype(1e-30))
            total -= w[r] * np.log(own)
            F[0, r] = -w[r] / own
        else:
            for k in range(F.shape[0]):
                e = F[k, r] - y[k, r]
                total += w[r] * e * e
                F[k, r] = dtype(2.0) * w[r] * e
    return total


@njit(**OPTIONS)
def walk(x, y, buffers, form, slots, params, grads, what):
    """Depth-first pass of one block over the tree; its path probabilities at the root are in ``P[0]``.

    Returns V at the root. ``params``: W, c (splits in the order of ``slots``), values, coefs of the leaves; ``grads``
    alike, and the leaves' masses: sums of P.
    """
    P, V, S, T, F, first, sums = buffers
    W, c, values, coefs = params
    dW, dc, dvalues, dcoefs, mass = grads
    n_branches, n_outputs = (1 << form.depth) - 1, values.shape[1]
    linear, backward = coefs.shape[0] > 0, what != FORWARD
    twins = what == EXPECTED and form.loss == SQUARED and n_outputs == 1 and not linear
    t = depth = 0
    total = P[0].sum()
    while True:
        done = False
        while t < n_branches and total >= form.eps and not done:  # down, to the left
            m = depth // form.levels
            levels = min(form.levels, form.depth - m * form.levels)
            if depth == m * form.levels:
                first[m] = slots[t]
                n_slots = tile_slots(levels)
                tile = slice(first[m], first[m] + n_slots)
                products(x, W[tile], c[tile], S[m])
                sigmoid(S[m, :n_slots].reshape(-1))
                if linear and depth + levels == form.depth:
                    leaf = ((t + 1) << levels) - 1 - n_branches
                    rows = slice(leaf * n_outputs, (leaf + (1 << levels)) * n_outputs)
                    products(x, coefs[rows], values.reshape(-1)[rows], T)
                    first[-1] = leaf
            s = S[m, slots[t] - first[m]]
            if twins and depth == form.depth - 1:
                leaf = 2 * t + 1 - n_branches
                twin_leaves(P[depth], s, y[0], values[leaf, 0], values[leaf + 1, 0], V[depth, (t + 1) % 2], sums)
                dc[slots[t]] += sums[0]
                dvalues[leaf, 0] += 2 * sums[1]
                dvalues[leaf + 1, 0] += 2 * sums[2]
                mass[leaf] += sums[3]
                mass[leaf + 1] += total - sums[3]
                done = True
            else:
                t, depth = 2 * t + 1, depth + 1
                total = left_share(P[depth - 1], s, P[depth])
        if done:
            if depth % form.levels == 0:
                add_gradients(x, S[depth // form.levels], dW[slots[t] : slots[t] + 1])
        elif t < n_branches or total < form.eps:
            V[depth, (t + 1) % 2] = 0.0
            if linear and t >= n_branches:
                row = (t - n_branches - first[-1]) * n_outputs
                T[row : row + n_outputs] = 0.0
        else:
            leaf = t - n_branches
            row = (leaf - first[-1]) * n_outputs if linear else 0
            t_leaf = T[row : row + n_outputs]
            if not linear:
                for k in range(n_outputs):
                    t_leaf[k] = values[leaf, k]
            leaf_losses(y, P[depth], t_leaf, F, V[depth, (t + 1) % 2], form.loss, what)
            if backward:
                mass[leaf] += total
                for k in range(n_outputs):
                    dvalues[leaf, k] += t_leaf[k].sum()
        while t > 0 and t % 2 == 0:  # up, from right children
            t, depth = (t - 2) // 2, depth - 1
            if not backward:
                continue
            m = depth // form.levels
            s = S[m, slots[t] - first[m]]
            dc[slots[t]] += combine(P[depth], s, V[depth + 1, 0], V[depth + 1, 1], V[depth, (t + 1) % 2])
            if depth == m * form.levels:
                levels = min(form.levels, form.depth - m * form.levels)
                add_gradients(x, S[m], dW[slots[t] : slots[t] + tile_slots(levels)])
                if linear and depth + levels == form.depth:
                    add_gradients(x, T, dcoefs[first[-1] * n_outputs : (first[-1] + (1 << levels)) * n_outputs])
        if t == 0:
            return V[0, 1]
        t += 1
        total = right_share(P[depth - 1], P[depth])


@njit(**OPTIONS)
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


@njit(**OPTIONS)
def add_chunk(data, blocks, form, slots, params, grads):
    """Add the gradient of the rows in ``blocks`` to ``grads``; returns their loss, weighted and summed."""
    dtype = data.w.dtype
    n_levels = (form.depth + form.levels - 1) // form.levels
    n_leaves = 1 << min(form.levels, form.depth - (n_levels - 1) * form.levels)
    buffers = (
        np.empty((form.depth + 1, BLOCK), dtype),
        np.zeros((form.depth + 1, 2, BLOCK), dtype),
        np.zeros((n_levels, tile_slots(form.levels), BLOCK), dtype),
        np.zeros((form.n_outputs * (n_leaves if form.linear else 1), BLOCK), dtype),
        np.zeros((1 if form.loss == LOG else form.n_outputs, BLOCK), dtype),
        np.zeros(n_levels + 1, np.int64),
        np.zeros(4, dtype),
    )
    P, F = buffers[0], buffers[4]
    total = 0.0
    for i in range(blocks[0], blocks[1]):
        x, y, w = data.X[i], data.Y[i], data.w[i]
        if form.aggregation == EXPECTED:
            P[0] = w
            v = walk(x, y, buffers, form, slots, params, grads, EXPECTED)
            part = w.dtype.type(0.0)
            for r in range(BLOCK):
                part += w[r] * v[r]
            total += part
        else:
            F[:] = 0.0
            for r in range(BLOCK):
                P[0, r] = 1.0 if w[r] > 0.0 else 0.0
            walk(x, y, buffers, form, slots, params, grads, FORWARD)
            total += mixture_losses(y, w, F, form.loss)
            for r in range(BLOCK):
                P[0, r] = 1.0 if w[r] > 0.0 else 0.0
            walk(x, y, buffers, form, slots, params, grads, BACKWARD)
    return total


@njit(cache=True, nogil=True, parallel=True)
def add_chunks_parallel(data, bounds, form, slots, params, grads, totals):
    """`add_chunk` for all chunks of rows, at the same time, each into gradients of its own."""
    for c in prange(bounds.size - 1):
        own = (grads[0][c], grads[1][c], grads[2][c], grads[3][c], grads[4][c])
        totals[c] = add_chunk(data, bounds[c : c + 2], form, slots, params, own)


@njit(cache=True, nogil=True)
def add_chunks(data, bounds, form, slots, params, grads, totals):
    """`add_chunks_parallel` one after another: same numbers, for callers that are parallel themselves."""
    for c in range(bounds.size - 1):
        own = (grads[0][c], grads[1][c], grads[2][c], grads[3][c], grads[4][c])
        totals[c] = add_chunk(data, bounds[c : c + 2], form, slots, params, own)


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def add_penalties(theta, gradient, form, penalty):
    """Add the gradient of the penalties; returns their value. The l1 norm has derivative 0 at 0."""
    A, _b, _values, coefs = unpack(theta, form)
    dA, _db, _dvalues, dcoefs = unpack(gradient, form)
    total = 0.0
    for weights, slopes, l1, l2 in (
        (A.reshape(-1), dA.reshape(-1), penalty.l1_splits, penalty.l2_splits),
        (coefs.reshape(-1), dcoefs.reshape(-1), penalty.l1_leaves, penalty.l2_leaves),
    ):
        if l1 > 0.0 or l2 > 0.0:
            for i in range(weights.size):
                total += l1 * abs(weights[i]) + l2 * weights[i] ** 2
                slopes[i] += l1 * np.sign(weights[i]) + 2.0 * l2 * weights[i]
    return total


@njit(cache=True, nogil=True)
def value_and_gradient(theta, alpha, data, blocks, form, penalty, gradient, mass, parallel):
    """Objective of ``theta`` on the blocks ``blocks[0]..blocks[1] - 1``: their mean loss plus the penalties.

    ``gradient`` (as theta) and ``mass (L,)``, each leaf's share of the weight, are overwritten.
    """
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
    if form.linear:
        C[:, :p] = coefs.reshape(n_leaves * n_outputs, p)
    n_chunks = max(1, min(MOST_CHUNKS, blocks[1] - blocks[0]))
    bounds = np.empty(n_chunks + 1, np.int64)
    for i in range(n_chunks + 1):
        bounds[i] = blocks[0] + (blocks[1] - blocks[0]) * i // n_chunks
    grads = (
        np.zeros((n_chunks, n_rows, q), dtype),
        np.zeros((n_chunks, n_rows), dtype),
        np.zeros((n_chunks, n_leaves, n_outputs), dtype),
        np.zeros((n_chunks, C.shape[0], q), dtype),
        np.zeros((n_chunks, n_leaves), dtype),
    )
    totals = np.zeros(n_chunks)
    params = (W, c, values, C)
    if parallel:
        add_chunks_parallel(data, bounds, form, slots, params, grads, totals)
    else:
        add_chunks(data, bounds, form, slots, params, grads, totals)
    weight = 0.0
    for i in range(blocks[0], blocks[1]):
        weight += data.w[i].sum()
    share = dtype.type(1.0 / weight)
    dA, db, dvalues, dcoefs = unpack(gradient, form)
    gradient[:] = 0.0
    mass[:] = 0.0
    for i in range(n_chunks):
        for t in range(n_branches):
            db[t] += scale * share * grads[1][i, slots[t]]
            for k in range(p):
                dA[t, k] -= scale * share * grads[0][i, slots[t], k]
        for leaf in range(n_leaves):
            mass[leaf] += share * grads[4][i, leaf]
            for k in range(n_outputs):
                dvalues[leaf, k] += share * grads[2][i, leaf, k]
                for j in range(p * form.linear):
                    dcoefs[leaf, k, j] += share * grads[3][i, leaf * n_outputs + k, j]
    return totals.sum() / weight + add_penalties(theta, gradient, form, penalty)
