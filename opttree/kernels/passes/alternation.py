"""Complete runs of tree alternating optimization on one complete tree, in single precision and one thread.

A faster, approximate version of `solvers.TAO` in one function, for squared loss and the trees of a forest:

* one pass over column-blocked data (shared by all trees) gives the side of every row at every live branch, as one bit;
  the leaf on a row's other side is found from these bits, level by level, since the hyperplanes below a level are still
  the old ones when it is refitted;
* the rows of a node are gathered once, transposed; both Newton steps of its logistic regression, the threshold and the
  new sides use that copy;
* the threshold is the best of `BINS` candidates along the margin, without sorting;
* linear leaves are ridge regressions shrunk towards their parent's model, from the root down: Gram matrices add up
  along the tree, a leaf of few rows stays close to its ancestors, and there is no least number of rows. An l1 penalty
  on leaves makes them sparse; without a ridge, each is then the lasso on its own rows;
* under an l1 penalty on splits, hyperplanes are scaled to unit length after each fit, so that candidate thresholds
  spread over the rows however small the penalty has made the weights.
"""

from collections import namedtuple

import numpy as np

from opttree.kernels.algebra.block_logistic import Node, gather, lanes, margins, newton
from opttree.kernels.algebra.gram import BLOCK, add_block_gram, gather_block, mirror_lower, padded
from opttree.kernels.algebra.quadratic import JITTER, minimise_quadratic, solve_face
from opttree.kernels.losses.exponential import sigmoid
from opttree.kernels.records import Net
from opttree.kernels.smooth.vectors import BLOCK as WIDE, VECTORISED, products
from opttree.runtime.compiling.compiled import inner, kernel

BINS = 256
DEPENDENT = 1e-7  # share of a column's square that is left where it depends on the columns before it
DROPPED = 1e30  # pivot of such a column: what is divided by it is nothing
ROOT_RIDGE = 1e-6  # ridge of the root's model, relative to the weight of all rows


# X (n, p) and Y (n, K) in rows; blocks (n / WIDE, q / 4, 4 WIDE) is X in blocks, see `smooth.Data`; w (n,) in units of
# rows, 0 for rows left out
Sample = namedtuple("Sample", "X Y blocks w")
# of leaves towards their parents' models, in rows; l1 on their weights, and relative to the weight of their rows, and
# whether it only chooses the features
Shrinkage = namedtuple("Shrinkage", "ridge l1 lasso relaxed")
# passes, how many of them have constant leaves, whether the others' are linear; l1 on split weights, the same relative
# to the weight of the node's pseudolabels, and l2; `Shrinkage`; whether answers are clipped, see `node_moments`, and to
# the range of how many rows at least; Newton steps per node
Rule = namedtuple("Rule", "passes constant_passes linear l1 split_lasso l2 shrinkage clip min_rows steps")
# of every node: number of rows of positive weight, Gram matrix, moments with Y, and a range of Y
Moments = namedtuple("Moments", "rows G c low high")
# splits A (B, p) and b (B,); words of `side_words`; leaf (n,) and loss (n,) of each row; models, low, high of leaves
State = namedtuple("State", "A b words leaf losses models low high")


@inner(**VECTORISED)
def side_words(blocks, n, A, b, live, words):
    """``words (n, ceil(B / 64))``: bit t of row i is set if ``A[t] . x_i > b[t]`` and branch t is live."""
    n_branches = b.size
    Z = np.empty((4, WIDE), A.dtype)
    own = np.empty((words.shape[1], WIDE), np.uint64)
    minus = -b
    for block in range(blocks.shape[0]):
        own[:] = 0
        for first in range(0, n_branches, 4):
            m = min(4, n_branches - first)
            alive = False
            for j in range(m):
                alive = alive or live[first + j]
            if not alive:
                continue
            products(blocks[block], A, minus, first, m, Z, 0)
            word = first >> 6
            for j in range(m):
                shift = np.uint64((first + j) & 63)
                for r in range(WIDE):
                    own[word, r] |= np.uint64(Z[j, r] > 0) << shift
        start = block * WIDE
        for r in range(min(WIDE, n - start)):
            for v in range(words.shape[1]):
                words[start + r, v] = own[v, r]


@inner(**VECTORISED)
def walk(words, i, t, n_branches):
    """Leaf number (0-based) that row ``i`` reaches from node ``t``, by its bits."""
    while t < n_branches:
        t = 2 * t + 1 + np.int64((words[i, t >> 6] >> np.uint64(t & 63)) & np.uint64(1))
    return t - n_branches


@kernel(**VECTORISED)
def leaf_loss(X, Y, i, leaf, models, low, high):
    """Squared error of row ``i`` at a leaf, summed over the outputs."""
    p = X.shape[1]
    x = X[i]
    total = X.dtype.type(0.0)
    for k in range(Y.shape[1]):
        c = models[leaf, k]
        s = c[p]
        for j in range(p):
            s += c[j] * x[j]
        s = min(max(s, low[leaf, k]), high[leaf, k])
        total += (Y[i, k] - s) ** 2
    return total


@inner(**VECTORISED)
def best_cut(node, x, z, hist):
    """Margins ``z`` of all rows; the cut with the lowest weighted 0/1 loss out of `BINS` goes to ``x[p]``."""
    B, count, m, p, u = node
    one = z.dtype.type
    hist[:] = 0.0
    s = np.empty((1, BLOCK), z.dtype)
    for block in range(count):
        start = block * BLOCK
        width, full = lanes(m, block)
        margins(B[block], p, x, s[0], full)
        for r in range(width):
            z[start + r] = s[0, r]
        sigmoid(s, 0, full)
        for r in range(width):
            hist[np.int64(s[0, r] * one(BINS * 0.9999))] += u[start + r]
    best, lowest, running = 0, np.inf, 0.0
    for cut in range(1, BINS):
        running += hist[cut - 1]
        if running < lowest:
            best, lowest = cut, running
    share = best / (BINS * 0.9999)
    shift = np.log(share / (1.0 - share))
    x[p] -= shift
    return one(shift)


@inner(**VECTORISED)
def update_node(sample, state, order, t, rule, mask, buffers):
    """Refit branch ``t`` to the rows ``order`` that reach it and move those of its left side to the front.

    Rows that change sides get the leaf and the loss of their other side. Returns the number of rows on the left.
    """
    X, Y, _blocks, w = sample
    A, b, words, leaf, losses, models, low, high = state
    B, u, z, other, other_loss, spare, hist, x, scratch = buffers
    m, p, n_branches = order.size, X.shape[1], b.size
    one = X.dtype.type
    word, shift = t >> 6, np.uint64(t & 63)
    total = 0.0
    for e in range(m):
        i = order[e]
        right = (words[i, word] >> shift) & np.uint64(1)
        other[e] = walk(words, i, 2 * t + 2 - np.int64(right), n_branches)
        other_loss[e] = leaf_loss(X, Y, i, other[e], models, low, high)
        gain = w[i] * (losses[i] - other_loss[e])  # gain from changing sides
        u[e] = -gain if right else gain
        total += abs(gain)
    if total > 0.0:
        count = gather(X, order, B)
        unit = one(1.0 / total)
        for e in range(m):
            u[e] *= unit
        for k in range(p):
            x[k] = A[t, k]
        x[p] = -b[t]
        l1 = rule.l1 / total + rule.split_lasso
        node = Node(B, count, m, p, u)
        newton(node, x, Net(l1, rule.l2 / total), mask, rule.steps, scratch)
        if l1 > 0.0:
            length = 0.0
            for k in range(p):
                length += x[k] * x[k]
            if length > 0.0:
                x /= np.sqrt(length)
        cut = best_cut(node, x, z, hist)
        for k in range(p):
            A[t, k] = x[k]
        b[t] = -x[p]
    left = right_rows = 0
    for e in range(m):
        i = order[e]
        was = (words[i, word] >> shift) & np.uint64(1)
        now = np.uint64(z[e] > cut) if total > 0.0 else was
        if now != was:
            leaf[i] = other[e]
            losses[i] = other_loss[e]
        if now:
            spare[right_rows] = i
            right_rows += 1
        else:
            order[left] = i
            left += 1
    for e in range(right_rows):
        order[left + e] = spare[e]
    return left


@inner(**VECTORISED)
def solve_towards(G, c, ridge, l1, relaxed, parent, model, scratch):
    """Minimise ``m'Gm - 2 c.m + ridge |m - parent|^2 + l1 |m|_1`` (the constant, last, is free of l1) for every output.
    If ``relaxed``, the l1 penalty only chooses which weights are not zero; these are then fitted without it.

    Without l1 by Cholesky factors: ``model = parent + (G + ridge I)^-1 (c - G parent)``. A column
    that depends on those before it, to the single precision of ``G``, keeps the parent's weight: its pivot is noise,
    and dividing by it again and again would overflow (one-hot columns of many categories).
    """
    q = parent.shape[1]
    H, v = scratch
    if l1 > 0.0 and q > 1:
        moment, L, u = np.empty(q), np.empty((q, q)), np.empty(q)
        support = np.empty(q, np.int64)
        for j in range(q):
            for k in range(q):
                H[j, k] = 2.0 * G[j, k]
            H[j, j] += JITTER * H[j, j] + 2.0 * ridge
        for output in range(parent.shape[0]):
            for j in range(q):
                moment[j] = -2.0 * (c[output, j] + ridge * parent[output, j])
                v[j] = parent[output, j]
            minimise_quadratic(H, moment, l1, q - 1, v)
            if relaxed:
                size = 0
                for j in range(q):
                    if j == q - 1 or v[j] != 0.0:
                        support[size] = j
                        size += 1
                if solve_face(H, moment, 0.0, 0, v, support, size, L, u):
                    for e in range(size):
                        v[support[e]] = u[e]
            model[output] = v
        return
    for j in range(q):
        for k in range(j + 1):
            s = G[j, k]
            if j == k:
                s += ridge
            for e in range(k):
                s -= H[j, e] * H[k, e]
            if j == k:
                H[j, j] = np.sqrt(s) if s > DEPENDENT * (G[j, j] + ridge) else DROPPED
            else:
                H[j, k] = s / H[k, k]
    for output in range(parent.shape[0]):
        base = parent[output]
        for j in range(q):
            s = c[output, j]
            for k in range(q):
                s -= G[j, k] * base[k]
            for e in range(j):
                s -= H[j, e] * v[e]
            v[j] = s / H[j, j]
        for j in range(q - 1, -1, -1):
            s = v[j]
            for e in range(j + 1, q):
                s -= H[e, j] * v[e]
            v[j] = s / H[j, j]
        for j in range(q):
            model[output, j] = base[j] + v[j]


@kernel(**VECTORISED)
def node_moments(sample, leaf, children, linear, min_rows):
    """The `Moments` of each node's rows of positive weight.

    ``leaf (n,)`` is every row's leaf number. The range, to which predictions are clipped, is that of the smallest
    subtree around the node with at least ``min_rows`` rows. Without ``linear`` the matrices contain the intercept only.
    """
    X, Y, _blocks, w = sample
    n, p = X.shape
    K = Y.shape[1]
    q = padded(p) if linear else 1
    used = p + 1 if linear else 1
    n_branches = children.shape[0]
    n_leaves = n_branches + 1
    n_nodes = n_branches + n_leaves
    rows = np.zeros(n_nodes, np.int64)
    G = np.zeros((n_nodes, q, q))
    c = np.zeros((n_nodes, K, used))
    low, high = np.full((n_nodes, K), np.inf, X.dtype), np.full((n_nodes, K), -np.inf, X.dtype)
    start = np.zeros(n_leaves + 1, np.int64)
    for i in range(n):
        if w[i] > 0:
            start[leaf[i] + 1] += 1
    for number in range(n_leaves):
        start[number + 1] += start[number]
    fill = start[:-1].copy()
    order = np.empty(start[-1], np.int32)
    for i in range(n):
        if w[i] > 0:
            order[fill[leaf[i]]] = i
            fill[leaf[i]] += 1
    B, C = np.zeros((q, BLOCK), X.dtype), np.zeros((q, BLOCK), X.dtype)
    for number in range(n_leaves):
        own = order[start[number] : start[number + 1]]
        node = n_branches + number
        rows[node] = own.size
        for i in own:
            for k in range(K):
                low[node, k] = min(low[node, k], Y[i, k])
                high[node, k] = max(high[node, k], Y[i, k])
        if not linear:
            for i in own:
                G[node, 0, 0] += w[i]
                for k in range(K):
                    c[node, k, 0] += w[i] * Y[i, k]
            continue
        for first in range(0, own.size, BLOCK):
            width = gather_block(X, own, first, B)
            full = (width + 15) // 16 * 16
            for k in range(p + 1):
                for r in range(width):
                    C[k, r] = w[own[first + r]] * B[k, r]
                for r in range(width, full):
                    C[k, r] = 0.0
            add_block_gram(B, C, G[node], full)
            for k in range(K):
                for j in range(p + 1):
                    s = X.dtype.type(0.0)
                    for r in range(width):
                        s += C[j, r] * Y[own[first + r], k]
                    c[node, k, j] += s
        mirror_lower(G[node])
    for t in range(n_branches - 1, -1, -1):
        one, two = children[t]
        rows[t] = rows[one] + rows[two]
        G[t] = G[one] + G[two]
        c[t] = c[one] + c[two]
        low[t] = np.minimum(low[one], low[two])
        high[t] = np.maximum(high[one], high[two])
    for t in range(n_branches):
        for kid in children[t]:
            if rows[kid] < min_rows:
                low[kid], high[kid] = low[t], high[t]
    return Moments(rows, G, c, low, high)


@kernel(**VECTORISED)
def leaf_models(children, moments, shrinkage, models):
    """Models of the leaves, each shrunk towards its parent's from the root down: ``models (L, K, p + 1)``, overwritten.

    Leaves without rows get their parent's model. With a ridge of 0 the leaves alone are fitted, without regard to their
    parents. The l1 penalty of `solve_towards` is ``l1 + lasso * weight of the node``.
    """
    rows, G, c, _low, _high = moments
    ridge, l1, lasso, relaxed = shrinkage
    p = models.shape[2] - 1
    n_nodes, K, used = c.shape
    n_branches = children.shape[0]
    every = np.zeros((n_nodes, K, used))
    scratch = np.zeros((used, used)), np.zeros(used)
    mass = G[0, used - 1, used - 1]
    solve_towards(G[0], c[0], ROOT_RIDGE * mass, l1 + lasso * mass, relaxed, every[0], every[0], scratch)
    for t in range(n_branches):
        for kid in children[t]:
            if rows[kid] > 0 and (ridge > 0.0 or kid >= n_branches):
                penalty = l1 + lasso * G[kid, used - 1, used - 1]
                solve_towards(G[kid], c[kid], ridge, penalty, relaxed, every[t], every[kid], scratch)
            else:
                every[kid] = every[t]
    models[:, :, :p] = 0.0
    for number in range(n_branches + 1):
        own = every[n_branches + number]
        for k in range(K):
            models[number, k, p] = own[k, used - 1]
            if used > 1:
                for j in range(p):
                    models[number, k, j] = own[k, j]


@kernel(**VECTORISED)
def medians(X, rows, A, b):
    """Set thresholds ``b``: each branch cuts the rows that reach it at their median along ``A[t]``."""
    order = rows.copy()
    ends = np.zeros((2 * b.size + 1, 2), np.int64)
    ends[0, 1] = rows.size
    z = np.empty(rows.size, X.dtype)
    spare = np.empty(rows.size, np.int32)
    for t in range(b.size):
        first, last = ends[t]
        m = last - first
        own = order[first:last]
        for e in range(m):
            s = X.dtype.type(0.0)
            x = X[own[e]]
            for k in range(x.size):
                s += A[t, k] * x[k]
            z[e] = s
        b[t] = np.median(z[:m]) if m else 0.0
        left = right = 0
        for e in range(m):
            if z[e] > b[t]:
                spare[right] = own[e]
                right += 1
            else:
                own[left] = own[e]
                left += 1
        own[left:] = spare[:right]
        ends[2 * t + 1, 0], ends[2 * t + 1, 1] = first, first + left
        ends[2 * t + 2, 0], ends[2 * t + 2, 1] = first + left, last


@kernel(**VECTORISED)
def alternate(sample, rows, A, b, live, rule, begun, masks):
    """Passes of TAO over the complete tree ``A (B, p)``, ``b (B,)`` in place; leaf number (n,) of every row at the end.

    ``rows`` are those of positive weight. See `Rule`; ``begun`` of its passes are done already. ``live (B,)``, at first
    True, says which branches rows reach. ``masks (B, p)`` of the features that each node may use are empty for all.
    """
    X, Y, blocks, _w = sample
    n, p = X.shape
    m = rows.size
    n_branches = b.size
    n_leaves = n_branches + 1
    K = Y.shape[1]
    dtype = X.dtype
    words = np.zeros((n, (n_branches + 63) // 64), np.uint64)
    leaf = np.zeros(n, np.int64)
    losses = np.zeros(n, dtype)
    models = np.zeros((n_leaves, K, p + 1), dtype)
    order = np.empty(m, np.int32)
    q = padded(p)
    B = np.zeros(((m + BLOCK - 1) // BLOCK, q, BLOCK), dtype)
    scratch = (np.zeros((1, BLOCK), dtype), np.zeros(BLOCK, dtype), np.zeros(BLOCK, dtype), np.zeros((q, BLOCK), dtype))
    buffers = (
        B,
        np.zeros(m, dtype),
        np.zeros(m, dtype),
        np.zeros(m, np.int64),
        np.zeros(m, dtype),
        np.zeros(m, np.int32),
        np.zeros(BINS),
        np.zeros(p + 1),
        scratch,
    )
    ends = np.zeros((2 * n_branches + 1, 2), np.int64)
    children = np.arange(1, 2 * n_branches + 1).astype(np.int32).reshape(n_branches, 2)
    no_mask = np.ones(0, np.bool_)
    for iteration in range(begun, rule.passes + 1):
        side_words(blocks, n, A, b, live, words)
        for i in range(n):
            leaf[i] = walk(words, i, 0, n_branches)
        if iteration == rule.passes:
            break
        now_linear = rule.linear and iteration >= rule.constant_passes
        moments = node_moments(sample, leaf, children, now_linear, rule.min_rows)
        leaf_models(children, moments, rule.shrinkage, models)
        low, high = moments.low[n_branches:], moments.high[n_branches:]
        if not rule.clip:
            low[:], high[:] = -np.inf, np.inf
        for i in rows:
            losses[i] = leaf_loss(X, Y, i, leaf[i], models, low, high)
        state = State(A, b, words, leaf, losses, models, low, high)
        order[:] = rows
        ends[0, 1] = m
        for t in range(n_branches):
            first, last = ends[t]
            live[t] = last > first
            left = 0
            if live[t]:
                mask = masks[t] if masks.size else no_mask
                left = update_node(sample, state, order[first:last], t, rule, mask, buffers)
            ends[2 * t + 1, 0], ends[2 * t + 1, 1] = first, first + left
            ends[2 * t + 2, 0], ends[2 * t + 2, 1] = first + left, last
    return leaf


@kernel(**VECTORISED)
def answers(X, leaf, models, low, high):
    """Predictions (n, K) of the models at leaves ``leaf (n,)``."""
    n, p = X.shape
    out = np.empty((n, models.shape[1]), X.dtype)
    for i in range(n):
        x, number = X[i], leaf[i]
        for k in range(models.shape[1]):
            c = models[number, k]
            s = c[p]
            for j in range(p):
                s += c[j] * x[j]
            out[i, k] = min(max(s, low[number, k]), high[number, k])
    return out
