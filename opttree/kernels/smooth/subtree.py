"""The smooth tree in the working sets of a decomposition: gates and leaf losses of selected rows."""

from collections import namedtuple

import numpy as np

from opttree.kernels.algebra.gram import FASTMATH, add_weighted_gram, mirror_lower, padded
from opttree.kernels.algebra.quadratic import solve_linear_leaf
from opttree.kernels.leaves.fit import fit_softmax, moment
from opttree.kernels.losses.codes import LOG, SMALLEST_PROBABILITY
from opttree.kernels.losses.exponential import sigmoid
from opttree.kernels.smooth.vectors import BLOCK, VECTORISED, fill, products, softmax_rows
from opttree.kernels.smooth.walk import VECTORS
from opttree.runtime.compiling.compiled import inner, kernel
from opttree.runtime.threads import share

MOST_ARGUMENT = 40.0  # |arguments| of gates are clamped at this, as in `smooth`
LEAST_WEIGHT = 1e-12  # a leaf with a smaller share of the weight, and no ridge, is unchanged
LEAST_PROBABILITY = 1e-30  # of the row's class, in the logarithm

# what is below a node: its number, levels of branches, and how many of them the problem keeps; branches below these act
# as leaves, with expected losses
Below = namedtuple("Below", "node height levels")


@inner(fastmath=FASTMATH, inline="always")
def gate(x, a, b, alpha):
    """Probability of the left branch at the split ``a . x <= b``."""
    z = b
    for k in range(x.size):
        z -= a[k] * x[k]
    z = min(max(alpha * z, -MOST_ARGUMENT), MOST_ARGUMENT)
    return 1.0 / (1.0 + np.exp(-z))


@kernel(fastmath=FASTMATH)
def gates_range(first, last, X, rows, A, b, alpha, out):
    """`gates` of some rows."""
    for i in range(first, last):
        x = X[rows[i]]
        for t in range(b.size):
            out[i, t] = gate(x, A[t], b[t], alpha)


def gates(X, rows, A, b, alpha):
    """Probability of the left branch (m, B) of rows ``X[rows]`` at the splits ``A (B, p)``, ``b (B,)``."""
    out = np.empty((rows.size, b.size))
    share(gates_range, rows.size, b.size * (X.shape[1] + 20), X, rows, A, b, alpha, out)
    return out


@kernel(fastmath=FASTMATH)
def shares_range(first, last, X, children, A, b, alpha, out):
    """`leaf_shares` of some rows."""
    n_branches = b.size
    reach = np.ones(2 * n_branches + 1)
    for i in range(first, last):
        for t in range(n_branches):
            left = reach[t] * gate(X[i], A[t], b[t], alpha)
            reach[children[t, 0]], reach[children[t, 1]] = left, reach[t] - left
        for leaf in range(n_branches + 1):
            out[i, leaf] = reach[n_branches + leaf]


@kernel(**VECTORISED)
def shares_blocks(first, last, X, children, A, b, alpha, out):
    """`leaf_shares` of the rows of some blocks."""
    n_branches, p = A.shape
    zero = p - p
    W, c = np.zeros((n_branches, -(-p // 4) * 4)), alpha * b
    W[:, :p] = -alpha * A
    x, Z = np.zeros((W.shape[1] // 4, 4 * BLOCK)), np.empty((n_branches, BLOCK))
    reach = np.ones((2 * n_branches + 1, BLOCK))
    for i in range(first, last):
        rows = X[i * BLOCK : (i + 1) * BLOCK]
        for k in range(p):
            at = (k % 4) * BLOCK
            for r in range(rows.shape[0]):
                x[k // 4, at + r] = rows[r, k]
        products(x, W, c, zero, n_branches, Z, zero)
        for t in range(n_branches):
            sigmoid(Z, t)
            low, high = children[t]
            for r in range(BLOCK):
                left = reach[t, r] * Z[t, r]
                reach[low, r], reach[high, r] = left, reach[t, r] - left
        for r in range(rows.shape[0]):
            for leaf in range(n_branches + 1):
                out[i * BLOCK + r, leaf] = reach[n_branches + leaf, r]


def leaf_shares(X, children, A, b, alpha):
    """Probability of each leaf (n, B + 1) of rows ``X (n, p)`` in a tree of any shape, see `opttree.Tree`."""
    n, p = X.shape
    out = np.empty((n, b.size + 1))
    if n >= BLOCK // 4:
        share(shares_blocks, -(-n // BLOCK), BLOCK * b.size * (p + 20) / VECTORS, X, children, A, b, alpha, out)
    else:
        share(shares_range, n, b.size * (p + 20), X, children, A, b, alpha, out)
    return out


@kernel(**VECTORISED)
def mixture_blocks(first, last, X, shares, values, coefs, lower, upper, is_softmax, out):
    """`mixture` of the rows of some blocks."""
    L, K, p = coefs.shape
    zero = L - L
    W, c, Z = np.zeros((L * K, -(-p // 4) * 4)), np.empty(L * K), np.empty((L * K, BLOCK))
    x, total = np.zeros((W.shape[1] // 4, 4 * BLOCK)), np.empty((K, BLOCK))
    for j in range(L * K):
        c[j] = values[j // K, j % K]
        W[j, :p] = coefs[j // K, j % K]
    for i in range(first, last):
        begin, size = i * BLOCK, min(BLOCK, X.shape[0] - i * BLOCK)
        for k in range(p):
            at = (k % 4) * BLOCK
            for r in range(size):
                x[k // 4, at + r] = X[begin + r, k]
        products(x, W, c, zero, L * K, Z, zero)
        total[:] = 0.0
        for leaf in range(L):
            if lower.size:
                for k in range(K):
                    for r in range(BLOCK):
                        Z[leaf * K + k, r] = min(max(Z[leaf * K + k, r], lower[leaf, k]), upper[leaf, k])
            if is_softmax:
                softmax_rows(Z, leaf * K, K)
            for k in range(K):
                for r in range(size):
                    total[k, r] += shares[begin + r, leaf] * Z[leaf * K + k, r]
        for r in range(size):
            for k in range(K):
                out[begin + r, k] = total[k, r]


def mixture(X, shares, leaves, is_softmax):
    """Answers (n, K) of all linear leaves, or their class probabilities, weighted by the leaves' ``shares (n, L)``."""
    n, p = X.shape
    L, K = leaves.values.shape
    if n < BLOCK:  # a block's work would be for naught
        scores = (X @ leaves.coefs.reshape(L * K, p).T).reshape(n, L, K) + leaves.values
        if leaves.lower.size:
            scores = np.clip(scores, leaves.lower, leaves.upper)
        if is_softmax:
            odds = np.exp(scores - scores.max(axis=2, keepdims=True))
            scores = odds / odds.sum(axis=2, keepdims=True)
        return np.einsum("il,ilk->ik", shares, scores)
    out = np.empty((n, K))
    share(mixture_blocks, -(-n // BLOCK), BLOCK * L * K * (p + 10) / VECTORS, X, shares, *leaves, is_softmax, out)
    return out


@kernel(**VECTORISED)
def gates_blocks(first, last, X, A, b, alpha, branches, out):
    """Left probabilities of the rows of some blocks at ``branches``, see `set_gates`."""
    m = branches.size
    zero = m - m  # not the constant 0: numba compiles a kernel anew for each constant that it is given
    W, c, Z = np.zeros((m, 4 * X.shape[1])), np.empty(m), np.empty((m, BLOCK))
    for j in range(m):
        c[j] = alpha * b[branches[j]]
        for k in range(A.shape[1]):
            W[j, k] = -alpha * A[branches[j], k]
    for i in range(first, last):
        products(X[i], W, c, zero, m, Z, zero)
        for j in range(m):
            sigmoid(Z, j)
            for r in range(BLOCK):
                out[branches[j], i * BLOCK + r] = Z[j, r]


def set_gates(X, A, b, alpha, branches, out):
    """Left probabilities of all rows at ``branches``, into these rows of ``out (B, rows)``."""
    cost = BLOCK * branches.size * (A.shape[1] + 20) / VECTORS
    share(gates_blocks, X.shape[0], cost, X, A, b, alpha, branches, out)


@kernel(**VECTORISED)
def losses_blocks(first, last, X, Y, values, coefs, loss, out):
    """Losses of the rows of some blocks at the leaves ``values (L, K)``, ``coefs (L, K, p or 0)``, see `set_losses`."""
    L, K, p = coefs.shape
    zero = L - L
    W, c, Z = np.zeros((L * K, 4 * X.shape[1])), np.empty(L * K), np.empty((L * K, BLOCK))
    for j in range(L * K):
        c[j] = values[j // K, j % K]
        for k in range(p):
            W[j, k] = coefs[j // K, j % K, k]
    for i in range(first, last):
        if p > 0:
            products(X[i], W, c, zero, L * K, Z, zero)
        elif i == first:  # the same for all blocks
            for j in range(L * K):
                fill(Z, j, c[j])
        for leaf in range(L):
            if loss == LOG:
                if p > 0 or i == first:
                    softmax_rows(Z, leaf * K, K)
                for r in range(BLOCK):
                    own = max(Z[leaf * K + int(Y[i, 0, r]), r], LEAST_PROBABILITY)
                    out[leaf, i * BLOCK + r] = -np.log(own)
                continue
            for r in range(BLOCK):
                out[leaf, i * BLOCK + r] = 0.0
            for k in range(K):
                for r in range(BLOCK):
                    e = Z[leaf * K + k, r] - Y[i, k, r]
                    out[leaf, i * BLOCK + r] += e * e


def set_losses(X, Y, values, coefs, loss, out):
    """Losses of all rows at some leaves, by the code ``loss`` (squared or log), into ``out (L, rows)``; under log loss
    the leaves hold class scores, and Y class codes.
    """
    cost = BLOCK * values.size * (coefs.shape[2] + 5) / VECTORS
    share(losses_blocks, X.shape[0], cost, X, Y, values, coefs, loss, out)


@kernel(**VECTORISED)
def expected_blocks(first, last, gates, losses, w, totals):
    """Weighted sum of the expected losses of each of some blocks of rows, into ``totals``."""
    n_branches = gates.shape[0]
    V = np.empty((2 * n_branches + 1, BLOCK))
    for i in range(first, last):
        for leaf in range(n_branches + 1):
            for r in range(BLOCK):
                V[n_branches + leaf, r] = losses[leaf, i * BLOCK + r]
        for t in range(n_branches - 1, -1, -1):
            for r in range(BLOCK):
                right = V[2 * t + 2, r]
                V[t, r] = right + gates[t, i * BLOCK + r] * (V[2 * t + 1, r] - right)
        total = 0.0
        for r in range(BLOCK):
            total += w[i, r] * V[0, r]
        totals[i] = total


def expected_loss(gates, losses, w):
    """Sum over all rows, weighted by ``w (blocks, BLOCK)``, of the expected losses of a complete tree."""
    totals = np.empty(w.shape[0])
    share(expected_blocks, w.shape[0], 4 * gates.shape[0] * BLOCK / VECTORS, gates, losses, w, totals)
    return float(np.sum(totals))


@kernel()
def passing(gates, path, goes_left, n):
    """The rows among 0..n - 1 whose most probable path passes the branches ``path`` to the sides ``goes_left``."""
    rows = np.empty(n, np.int32)
    count = 0
    for i in range(n):
        inside = True
        for j in range(path.size):
            inside = inside and (gates[path[j], i] >= 0.5) == goes_left[j]  # ties go left, as in the hard tree
        if inside:
            rows[count] = i
            count += 1
    return rows[:count]


@kernel(**VECTORISED)
def subtree_blocks(first, last, X, rows, w, point, below, packed):
    """Rows ``X[rows]``, weights ``w`` and the losses below a node, in some blocks of ``packed``, see `smooth.Data`;
    ``point`` are the gates and losses of all rows.
    """
    gates, losses = point
    node, height, levels = below
    m, p = rows.size, X.shape[1]
    first_leaf = ((node + 1) << height) - 1 - gates.shape[0]
    V = np.empty(1 << height)
    for i in range(first, last):
        for r in range(BLOCK):
            at = i * BLOCK + r
            row = rows[min(at, m - 1)]
            inside = at < m  # else a padding row
            for k in range(packed.X.shape[1] * 4):
                packed.X[i, k // 4, (k % 4) * BLOCK + r] = X[row, k] if inside and k < p else 0.0
            for leaf in range(V.size):
                V[leaf] = losses[first_leaf + leaf, row]
            for level in range(height - 1, levels - 1, -1):
                top = ((node + 1) << level) - 1
                for o in range(1 << level):
                    V[o] = V[2 * o + 1] + gates[top + o, row] * (V[2 * o] - V[2 * o + 1])
            for leaf in range(1 << levels):
                packed.Y[i, leaf, r] = V[leaf] if inside else 0.0
            packed.w[i, r] = w[at] if inside else 0.0


def pack_subtree(X, rows, w, point, below, packed):
    """Fill ``packed``, see `subtree_blocks`."""
    cost = BLOCK * (2 * X.shape[1] + (4 << below.height))
    share(subtree_blocks, packed.w.shape[0], cost, X, rows, w, point, below, packed)


@kernel(**VECTORISED)
def leaf_weights_range(first, last, rows, w, gates, node, height, out):
    """`leaf_weights` of some rows."""
    for i in range(first, last):
        row = rows[i]
        out[i, 0] = w[i]
        for level in range(height):
            top = ((node + 1) << level) - 1
            for o in range((1 << level) - 1, -1, -1):
                reach, s = out[i, o], gates[top + o, row]
                out[i, 2 * o + 1] = reach * (1.0 - s)
                out[i, 2 * o] = reach * s


def leaf_weights(rows, w, gates, node, height):
    """Weights (m, 2^height) of ``rows`` at the leaves below ``node``: ``w (m,)`` times path probabilities."""
    out = np.empty((rows.size, 1 << height))
    share(leaf_weights_range, rows.size, 4 << height, rows, w, gates, node, height, out)
    return out


@kernel()
def equations_range(first, last, data, rows, l2, values, coefs, equations):
    """Normal equations of some leaves, into ``equations``: Gram matrices, moments, squared norms of the gradients,
    masses; see `fit_leaves`.
    """
    X, Y, W = data
    grams, moments, squares, mass = equations
    _L, K, p = coefs.shape
    for leaf in range(first, last):
        weight = np.empty(rows.size)
        for i in range(rows.size):
            weight[i] = W[i, leaf]
            mass[leaf] += weight[i]
        if p == 0:
            grams[leaf, 0, 0] = mass[leaf]
            for k in range(K):
                for i in range(rows.size):
                    moments[leaf, k, 0] += weight[i] * Y[rows[i], k]
        else:
            add_weighted_gram(X, rows, weight, grams[leaf])
            mirror_lower(grams[leaf])
            for k in range(K):
                moment(X, rows, weight, Y[rows, k], moments[leaf, k])
        for k in range(K):
            for i in range(p + 1):
                slope = grams[leaf, i, p] * values[leaf, k] - moments[leaf, k, i]
                if i < p:
                    slope += l2 * coefs[leaf, k, i]
                for j in range(p):
                    slope += grams[leaf, i, j] * coefs[leaf, k, j]
                squares[leaf] += 4.0 * slope * slope


@kernel()
def solve_leaves(equations, net, values, coefs):
    """Solve the normal equations of all leaves with rows, see `fit_leaves`."""
    l1, l2 = net
    grams, moments, _squares, mass = equations
    L, K, p = coefs.shape
    v = np.empty(p + 1)
    for leaf in range(L):
        if mass[leaf] > LEAST_WEIGHT or (l2 > 0.0 and mass[leaf] > 0.0):
            for k in range(K):
                v[:p] = coefs[leaf, k]
                v[p] = values[leaf, k]
                solve_linear_leaf(grams[leaf, : p + 1, : p + 1], moments[leaf, k], l1, l2, v)
                coefs[leaf, k] = v[:p]
                values[leaf, k] = v[p]


def fit_leaves(data, rows, net, threshold, values, coefs):
    """Weighted least squares of each leaf, ``sum_i W[i, l] |y_i - f_l(x_i)|^2 + l1 |coefs|_1 + l2 |coefs|_2^2``.

    ``data`` are `Rows` of which ``rows (m,)`` count, with weights ``W (m, L)`` of these. Leaves are unchanged if the
    norm of the gradient with respect to all of them (without the l1 term) is at most ``threshold``. Returns that norm
    before the fit.
    """
    L, K, p = coefs.shape
    q = padded(p)
    equations = np.zeros((L, q, q)), np.zeros((L, K, p + 1)), np.zeros(L), np.zeros(L)
    share(equations_range, L, rows.size * (p + 1) ** 2, data, rows, net.l2, values, coefs, equations)
    norm = float(np.sqrt(equations[2].sum()))
    if norm > threshold:
        solve_leaves(equations, net, values, coefs)
    return norm


@kernel()
def softmax_slopes_range(first, last, data, rows, l2, values, coefs, squares):
    """Squared norms of the gradients of some leaves (without the l1 term), into ``squares``."""
    X, Y, W = data
    _L, K, p = coefs.shape
    for leaf in range(first, last):
        slope, share = np.zeros((K, p + 1)), np.empty(K)
        for k in range(K):
            for j in range(p):
                slope[k, j] = 2.0 * l2 * coefs[leaf, k, j]
        for i in range(rows.size):
            x = X[rows[i]]
            top = -np.inf
            for k in range(K):
                share[k] = values[leaf, k]
                for j in range(p):
                    share[k] += coefs[leaf, k, j] * x[j]
                top = max(top, share[k])
            total = 0.0
            for k in range(K):
                share[k] = np.exp(share[k] - top)
                total += share[k]
            for k in range(K):
                g = W[i, leaf] * (share[k] / total - (1.0 if Y[rows[i], 0] == k else 0.0))
                for j in range(p):
                    slope[k, j] += g * x[j]
                slope[k, p] += g
        squares[leaf] = np.sum(slope**2)


@kernel()
def softmax_leaves_range(first, last, data, rows, net, values, coefs):
    """`fit_softmax_leaves` for some leaves."""
    X, Y, W = data
    _L, K, p = coefs.shape
    for leaf in range(first, last):
        weight = W[:, leaf].copy()
        mass = np.sum(weight)
        if not mass > LEAST_WEIGHT:
            continue
        if p == 0:
            shares = np.zeros(K)
            for i in range(rows.size):
                shares[int(Y[rows[i], 0])] += weight[i] / mass
            for k in range(K):
                values[leaf, k] = np.log(max(shares[k], SMALLEST_PROBABILITY))
            continue
        near = np.flatnonzero(weight > LEAST_WEIGHT * mass)
        fit_softmax(X, rows[near], weight[near], Y[rows[near], 0], net.l1, net.l2, values[leaf], coefs[leaf])


def fit_softmax_leaves(data, rows, net, threshold, values, coefs):
    """As `fit_leaves` under log loss, for class scores and the class codes ``Y (n, 1)``: multinomial logistic
    regressions of linear leaves, and log shares of the classes in constant ones.
    """
    squares = np.zeros(values.shape[0])
    cost = rows.size * values.shape[1] * (coefs.shape[2] + 10)
    share(softmax_slopes_range, squares.size, cost, data, rows, net.l2, values, coefs, squares)
    norm = float(np.sqrt(squares.sum()))
    if norm > threshold:
        share(softmax_leaves_range, squares.size, 10 * cost, data, rows, net, values, coefs)
    return norm
