"""Vector operations on blocks of `BLOCK` rows, the building blocks of `smooth` and `forest`."""

import numpy as np

from opttree.kernels.algebra.gram import FASTMATH
from opttree.kernels.losses.codes import LOG
from opttree.kernels.losses.exponential import LOG2_E, exp2_fraction, power_of_two
from opttree.runtime.compiling.compiled import inner

BLOCK = 256  # rows per block: 128 spends a quarter more of the time between the vector loops
LEAST_POWER = 100
FORWARD, BACKWARD = 1, 2  # the two passes of MIXTURE; EXPECTED has a single pass of the same name
# with NumPy's rules of division, since checks of divisors do not vectorise
VECTORISED = {"fastmath": FASTMATH, "error_model": "numpy"}


@inner(**VECTORISED)
def tile_slots(levels):
    """Rows that a tile of ``levels`` levels takes: one more than its nodes, for a multiple of four."""
    return 1 if levels == 1 else 1 << levels


# The vector kernels below index rows of the buffers directly: a view would cost two atomic reference counts.


@inner(**VECTORISED)
def products(x, W, c, row, m, Z, at):
    """``Z[at + j] = W[row + j] . x + c[row + j]`` for j < m and a block ``x (q/4, 4 BLOCK)``; four rows at a time.

    ``x`` may hold more features than W has columns. Its layout, four features in one row, saves half of the compiler's
    checks for overlapping arrays.
    """
    whole = m - m % 4
    for j in range(0, whole, 4):
        t, z = row + j, at + j
        c0, c1, c2, c3 = c[t], c[t + 1], c[t + 2], c[t + 3]
        for g in range(W.shape[1] // 4):
            k = 4 * g
            a00, a01, a02, a03 = W[t, k], W[t, k + 1], W[t, k + 2], W[t, k + 3]
            a10, a11, a12, a13 = W[t + 1, k], W[t + 1, k + 1], W[t + 1, k + 2], W[t + 1, k + 3]
            a20, a21, a22, a23 = W[t + 2, k], W[t + 2, k + 1], W[t + 2, k + 2], W[t + 2, k + 3]
            a30, a31, a32, a33 = W[t + 3, k], W[t + 3, k + 1], W[t + 3, k + 2], W[t + 3, k + 3]
            if g == 0:
                for r in range(BLOCK):
                    x0, x1, x2, x3 = x[g, r], x[g, BLOCK + r], x[g, 2 * BLOCK + r], x[g, 3 * BLOCK + r]
                    Z[z, r] = c0 + a00 * x0 + a01 * x1 + a02 * x2 + a03 * x3
                    Z[z + 1, r] = c1 + a10 * x0 + a11 * x1 + a12 * x2 + a13 * x3
                    Z[z + 2, r] = c2 + a20 * x0 + a21 * x1 + a22 * x2 + a23 * x3
                    Z[z + 3, r] = c3 + a30 * x0 + a31 * x1 + a32 * x2 + a33 * x3
                continue
            for r in range(BLOCK):
                x0, x1, x2, x3 = x[g, r], x[g, BLOCK + r], x[g, 2 * BLOCK + r], x[g, 3 * BLOCK + r]
                Z[z, r] += a00 * x0 + a01 * x1 + a02 * x2 + a03 * x3
                Z[z + 1, r] += a10 * x0 + a11 * x1 + a12 * x2 + a13 * x3
                Z[z + 2, r] += a20 * x0 + a21 * x1 + a22 * x2 + a23 * x3
                Z[z + 3, r] += a30 * x0 + a31 * x1 + a32 * x2 + a33 * x3
    for j in range(whole, m):
        t, z = row + j, at + j
        for r in range(BLOCK):
            Z[z, r] = c[t]
        for g in range(W.shape[1] // 4):
            k = 4 * g
            a0, a1, a2, a3 = W[t, k], W[t, k + 1], W[t, k + 2], W[t, k + 3]
            for r in range(BLOCK):
                Z[z, r] += a0 * x[g, r] + a1 * x[g, BLOCK + r] + a2 * x[g, 2 * BLOCK + r] + a3 * x[g, 3 * BLOCK + r]


@inner(**VECTORISED)
def add_gradients(x, G, at, m, dW, row):
    """``dW[row + j] += sum_r G[at + j, r] x[:, r]`` for j < m and a block: the transpose of `products`."""
    whole = m - m % 4
    zero = x.dtype.type(0.0)
    for j in range(0, whole, 4):
        t, z = row + j, at + j
        for g in range(dW.shape[1] // 4):
            s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = zero
            s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = zero
            for r in range(BLOCK):
                x0, x1, x2, x3 = x[g, r], x[g, BLOCK + r], x[g, 2 * BLOCK + r], x[g, 3 * BLOCK + r]
                g0, g1, g2, g3 = G[z, r], G[z + 1, r], G[z + 2, r], G[z + 3, r]
                s00 += g0 * x0
                s01 += g0 * x1
                s02 += g0 * x2
                s03 += g0 * x3
                s10 += g1 * x0
                s11 += g1 * x1
                s12 += g1 * x2
                s13 += g1 * x3
                s20 += g2 * x0
                s21 += g2 * x1
                s22 += g2 * x2
                s23 += g2 * x3
                s30 += g3 * x0
                s31 += g3 * x1
                s32 += g3 * x2
                s33 += g3 * x3
            k = 4 * g
            dW[t, k] += s00
            dW[t, k + 1] += s01
            dW[t, k + 2] += s02
            dW[t, k + 3] += s03
            dW[t + 1, k] += s10
            dW[t + 1, k + 1] += s11
            dW[t + 1, k + 2] += s12
            dW[t + 1, k + 3] += s13
            dW[t + 2, k] += s20
            dW[t + 2, k + 1] += s21
            dW[t + 2, k + 2] += s22
            dW[t + 2, k + 3] += s23
            dW[t + 3, k] += s30
            dW[t + 3, k + 1] += s31
            dW[t + 3, k + 2] += s32
            dW[t + 3, k + 3] += s33
    for j in range(whole, m):
        t, z = row + j, at + j
        for g in range(dW.shape[1] // 4):
            s0 = s1 = s2 = s3 = zero
            for r in range(BLOCK):
                s0 += G[z, r] * x[g, r]
                s1 += G[z, r] * x[g, BLOCK + r]
                s2 += G[z, r] * x[g, 2 * BLOCK + r]
                s3 += G[z, r] * x[g, 3 * BLOCK + r]
            k = 4 * g
            dW[t, k] += s0
            dW[t, k + 1] += s1
            dW[t, k + 2] += s2
            dW[t, k + 3] += s3


@inner(**VECTORISED)
def add_inputs(W, row, m, G, at, dx):
    """``dx += sum_j W[row + j] G[at + j]`` for j < m: the gradient with respect to the block ``x`` of `products`."""
    whole = m - m % 4
    for j in range(0, whole, 4):
        t, z = row + j, at + j
        for g in range(W.shape[1] // 4):
            k = 4 * g
            a00, a01, a02, a03 = W[t, k], W[t, k + 1], W[t, k + 2], W[t, k + 3]
            a10, a11, a12, a13 = W[t + 1, k], W[t + 1, k + 1], W[t + 1, k + 2], W[t + 1, k + 3]
            a20, a21, a22, a23 = W[t + 2, k], W[t + 2, k + 1], W[t + 2, k + 2], W[t + 2, k + 3]
            a30, a31, a32, a33 = W[t + 3, k], W[t + 3, k + 1], W[t + 3, k + 2], W[t + 3, k + 3]
            for r in range(BLOCK):
                g0, g1, g2, g3 = G[z, r], G[z + 1, r], G[z + 2, r], G[z + 3, r]
                dx[g, r] += a00 * g0 + a10 * g1 + a20 * g2 + a30 * g3
                dx[g, BLOCK + r] += a01 * g0 + a11 * g1 + a21 * g2 + a31 * g3
                dx[g, 2 * BLOCK + r] += a02 * g0 + a12 * g1 + a22 * g2 + a32 * g3
                dx[g, 3 * BLOCK + r] += a03 * g0 + a13 * g1 + a23 * g2 + a33 * g3
    for j in range(whole, m):
        t, z = row + j, at + j
        for g in range(W.shape[1] // 4):
            for f in range(4):
                a0, start = W[t, 4 * g + f], f * BLOCK
                for r in range(BLOCK):
                    dx[g, start + r] += a0 * G[z, r]


@inner(**VECTORISED)
def left_share(P, depth, S, i):
    """Path probabilities of the left child into ``P[depth + 1]``; returns their sum.

    Values below 1e-18 are set to zero, since denormal numbers are slow.
    """
    tiny, zero = P.dtype.type(1e-18), P.dtype.type(0.0)
    total = zero
    for r in range(BLOCK):
        share = P[depth, r] * S[i, r]
        share = share if share > tiny else zero
        P[depth + 1, r] = share
        total += share
    return total


@inner(**VECTORISED)
def right_share(P, depth):
    """Replace the left child's probabilities in ``P[depth + 1]`` by the right child's; returns their sum."""
    total = P.dtype.type(0.0)
    for r in range(BLOCK):
        share = P[depth, r] - P[depth + 1, r]
        P[depth + 1, r] = share
        total += share
    return total


@inner(**VECTORISED)
def combine(P, depth, S, i, V, at):
    """V of a branch into ``V[at]``, from its children's V; ``S[i]`` becomes dL/dz, whose sum is returned."""
    one, total = P.dtype.type(1.0), P.dtype.type(0.0)
    left = 2 * depth + 2
    for r in range(BLOCK):
        s, v_right = S[i, r], V[left + 1, r]
        difference = V[left, r] - v_right
        g = P[depth, r] * s * (one - s) * difference
        V[at, r] = v_right + s * difference
        S[i, r] = g
        total += g
    return total


@inner(**VECTORISED)
def twin_leaves(P, depth, S, i, y, pair, V, at):
    """A branch over a pair of constant leaves under squared loss: leaves and `combine` in one loop.

    Returns the sum of dL/dz, half the gradients of the two constants, and the mass of the left leaf.
    """
    left, right = pair
    one, apart = P.dtype.type(1.0), left - right
    total = d_left = d_right = mass = P.dtype.type(0.0)
    for r in range(BLOCK):
        s, p = S[i, r], P[depth, r]
        e_left, e_right = left - y[0, r], right - y[0, r]
        p_left = p * s
        difference = apart * (e_left + e_right)  # difference of the squares: exactly 0 for equal leaves
        V[at, r] = e_right * e_right + s * difference
        g = p_left * (one - s) * difference
        d_left += p_left * e_left
        d_right += (p - p_left) * e_right
        mass += p_left
        S[i, r] = g
        total += g
    return total, d_left, d_right, mass


@inner(**VECTORISED)
def twin_leaves_and_terms(P, depth, S, i, y, pair, extra, V, at):
    """`twin_leaves` with terms ``extra`` added to the losses of the leaves; without terms that one is faster."""
    left, right = pair
    one, apart = P.dtype.type(1.0), left - right
    extra_right, extra_apart = extra[1], extra[0] - extra[1]
    total = d_left = d_right = mass = P.dtype.type(0.0)
    for r in range(BLOCK):
        s, p = S[i, r], P[depth, r]
        e_left, e_right = left - y[0, r], right - y[0, r]
        p_left = p * s
        difference = apart * (e_left + e_right) + extra_apart
        V[at, r] = e_right * e_right + extra_right + s * difference
        g = p_left * (one - s) * difference
        d_left += p_left * e_left
        d_right += (p - p_left) * e_right
        mass += p_left
        S[i, r] = g
        total += g
    return total, d_left, d_right, mass


@inner(**VECTORISED)
def twin_forward(P, depth, S, i, pair, F):
    """As `twin_leaves` for the `FORWARD` pass: adds the weighted prediction to ``F``; returns the left leaf's mass."""
    left, right = pair
    mass = P.dtype.type(0.0)
    for r in range(BLOCK):
        p = P[depth, r]
        p_left = p * S[i, r]
        F[0, r] += p_left * left + (p - p_left) * right
        mass += p_left
    return mass


@inner(**VECTORISED)
def twin_backward(P, depth, S, i, F, pair, extra, V, at):
    """As `twin_leaves` for the `BACKWARD` pass; returns the sum of dL/dz and the gradients of the two constants."""
    left, right = pair
    one, apart = P.dtype.type(1.0), left - right
    extra_right, extra_apart = extra[1], extra[0] - extra[1]
    total = d_left = d_right = P.dtype.type(0.0)
    for r in range(BLOCK):
        s, p, f = S[i, r], P[depth, r], F[0, r]
        p_left = p * s
        difference = f * apart + extra_apart
        V[at, r] = f * right + extra_right + s * difference
        g = p_left * (one - s) * difference
        d_left += p_left * f
        d_right += (p - p_left) * f
        S[i, r] = g
        total += g
    return total, d_left, d_right


@inner(**VECTORISED)
def softmax_rows(T, at, K):
    """Replace class scores ``T[at:at + K]`` by probabilities; one below 2^-`LEAST_POWER` of the largest becomes 0."""
    dtype = T.dtype.type
    zero, half, scale, least = dtype(0.0), dtype(0.5), dtype(LOG2_E), dtype(-LEAST_POWER)
    top, total = np.empty(BLOCK, T.dtype), np.empty(BLOCK, T.dtype)
    for r in range(BLOCK):
        top[r], total[r] = T[at, r], zero
    for k in range(1, K):
        for r in range(BLOCK):
            top[r] = max(top[r], T[at + k, r])
    for k in range(K):
        for r in range(BLOCK):
            x = (T[at + k, r] - top[r]) * scale
            n = np.floor(max(x, least) + half)
            odds = exp2_fraction(max(x, least) - n) * power_of_two(n)
            odds = odds if x > least else zero if x <= least else x  # not a number where x is none
            T[at + k, r] = odds
            total[r] += odds
    for k in range(K):
        for r in range(BLOCK):
            T[at + k, r] /= total[r]


@inner(**VECTORISED)
def constant_scores(y, P, depth, T, values, leaf, F, V, at, form, what, dvalues):
    """`leaf_losses` under log loss at a leaf with the same scores ``values[leaf:leaf + K]`` for all rows.

    The gradient is added to ``dvalues``, by sums over the rows of each class. ``T`` is overwritten.
    """
    dtype, K = P.dtype.type, form.n_outputs
    zero, one, tiny = dtype(0.0), dtype(1.0), dtype(1e-30)
    own = T.reshape(T.size)  # of each class probability, loss, and sum
    top = values[leaf]
    for k in range(1, K):
        top = max(top, values[leaf + k])
    total = zero
    for k in range(K):
        own[3 * k] = np.exp(values[leaf + k] - top)
        total += own[3 * k]
    for k in range(K):
        own[3 * k] /= total
        own[3 * k + 2] = zero
    if what == FORWARD:
        for r in range(BLOCK):
            F[0, r] += P[depth, r] * max(own[3 * int(y[0, r])], tiny)
        return
    if what != BACKWARD:
        for k in range(K):
            own[3 * k + 1] = -np.log(max(own[3 * k], tiny))
    for r in range(BLOCK):
        at_label = 3 * int(y[0, r])
        V[at, r] = F[0, r] * max(own[at_label], tiny) if what == BACKWARD else own[at_label + 1]
        own[at_label + 2] += -V[at, r] * P[depth, r] if what == BACKWARD else P[depth, r]
    total = zero
    for k in range(K):
        total += own[3 * k + 2]
    for k in range(K):
        share, part = own[3 * k], own[3 * k + 2]
        dvalues[leaf + k] += share * (total - part) + (share - one) * part


@inner(**VECTORISED)
def leaf_losses(y, P, depth, T, row, F, V, at, form, what):
    """At one leaf with predictions (K scores) ``T[row:row + K]``: V goes to ``V[at]``, and the gradient with respect to
    them to ``T``.

    In the `FORWARD` pass the weighted prediction is added to ``F`` instead, and ``T`` is overwritten.
    """
    dtype, K = P.dtype.type, form.n_outputs
    zero, one, two, tiny = dtype(0.0), dtype(1.0), dtype(2.0), dtype(1e-30)
    if form.loss == LOG:
        softmax_rows(T, row, K)
        for r in range(BLOCK):
            label = row + int(y[0, r])
            own = max(T[label, r], tiny)
            if what == FORWARD:
                F[0, r] += P[depth, r] * own
                continue
            T[label, r] -= one
            V[at, r] = F[0, r] * own if what == BACKWARD else -np.log(own)
        if what != FORWARD:
            for k in range(K):
                for r in range(BLOCK):
                    T[row + k, r] *= -V[at, r] * P[depth, r] if what == BACKWARD else P[depth, r]
        return
    if what == FORWARD:
        for k in range(K):
            for r in range(BLOCK):
                F[k, r] += P[depth, r] * T[row + k, r]
        return
    for r in range(BLOCK):
        V[at, r] = zero
    for k in range(K):
        if what == BACKWARD:
            for r in range(BLOCK):
                V[at, r] += F[k, r] * T[row + k, r]
                T[row + k, r] = P[depth, r] * F[k, r]
        else:
            for r in range(BLOCK):
                e = T[row + k, r] - y[k, r]
                V[at, r] += e * e
                T[row + k, r] = two * P[depth, r] * e


@inner(**VECTORISED)
def fill(T, row, value):
    """``T[row] = value``."""
    for r in range(BLOCK):
        T[row, r] = value


@inner(**VECTORISED)
def copy_row(T, row, source, index):
    """``T[row] = source[index]``."""
    for r in range(BLOCK):
        T[row, r] = source[index, r]


@inner(**VECTORISED)
def add_constant(T, row, value):
    """``T[row] += value``."""
    for r in range(BLOCK):
        T[row, r] += value


@inner(**VECTORISED)
def row_sum(T, row):
    """Sum of ``T[row]``."""
    total = T.dtype.type(0.0)
    for r in range(BLOCK):
        total += T[row, r]
    return total


@inner(**VECTORISED)
def mixture_losses(y, w, i, F, loss):
    """Loss of the mixture's predictions ``F (K, BLOCK)``, weighted and summed; ``F`` becomes its derivative."""
    dtype = w.dtype.type
    total = dtype(0.0)
    for r in range(BLOCK):
        if loss == LOG:
            own = max(F[0, r], dtype(1e-30))
            total -= w[i, r] * np.log(own)
            F[0, r] = -w[i, r] / own
        else:
            for k in range(F.shape[0]):
                e = F[k, r] - y[k, r]
                total += w[i, r] * e * e
                F[k, r] = dtype(2.0) * w[i, r] * e
    return total
