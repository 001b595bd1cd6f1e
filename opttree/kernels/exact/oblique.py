"""Optimal hyperplanes by branching on the side of the root on which a row lies.

A node has fixed some rows to the left and some to the right of a split. Costs of sets of rows never fall when rows are
added, so every split that agrees costs at least ``L(rows fixed left) + R(rows fixed right)``; under squared loss of one
output and under 0/1 loss the other rows are counted as well, on the side that suits them best. Sides that no hyperplane
separates are cut (`separate`). Below a root of two levels, L and R are optimal splits themselves, found in the same
way, once those that are known no longer show that the node stays open.
"""

from collections import namedtuple

import numpy as np

from opttree.kernels.exact.hulls import TOUCH, separate
from opttree.kernels.losses.codes import ABSOLUTE, SQUARED, ZERO_ONE
from opttree.kernels.losses.entropy import log_cost
from opttree.runtime.compiling.compiled import inner, kernel

FREE, LEFT, RIGHT, OUT = 0, 1, 2, 3
NEARLY = 0.5  # of the tolerance: what rounding leaves of it, when the same plane is looked at again
NO_LIMIT = 1 << 60
QUICK = 100_000  # nodes of a search below a side to which rows may still come
# data: features in typical units, outputs (centred) or class codes, weights, (K, n) rows by output, loss, classes,
# price of a split, smallest leaf, tolerance of separation, slack of costs; a flag that stops a search
Data = namedtuple("Data", "X Y w order code n_classes price min_leaf tolerance slack stop")
# state of a search, which can be paused: numbers are [depth of the path, best cost, lower bound of what was left open,
# nodes, inner nodes, turns of the first node: 2, or 1 where no row has a side yet: the other is the mirror image]; the
# path has the row, turn, first side, bound, normal and known costs of each node; the best sides have a normal
State = namedtuple("State", "side numbers rows turns firsts bounds normals known best normal")
# a split below each side of the root, for each node of the path: normals (n + 2, 2, p), thresholds and costs
# (n + 2, 2); and what the free rows cost at most, as four leaves
Below = namedtuple("Below", "normals thresholds costs rest")
DEPTH, BEST, OPEN, NODES, INNER, TURNS = range(6)


@inner()
def cost_of(data, side, which):
    """The cost of the rows at ``side == which`` as one leaf."""
    n, K = data.Y.shape
    total = 0.0
    if data.code == SQUARED:
        for k in range(K):
            weight, first, second = 0.0, 0.0, 0.0
            for i in range(n):
                if side[i] == which:
                    weight += data.w[i]
                    first += data.w[i] * data.Y[i, k]
                    second += data.w[i] * data.Y[i, k] * data.Y[i, k]
            if weight > 0.0:
                total += max(second - first * first / weight, 0.0)
        return total
    if data.code == ABSOLUTE:
        for k in range(K):
            weight = 0.0
            for i in range(n):
                if side[i] == which:
                    weight += data.w[i]
            seen, median = 0.0, 0.0
            for i in data.order[k]:
                if side[i] == which:
                    seen += data.w[i]
                    median = data.Y[i, k]
                    if seen >= 0.5 * weight:
                        break
            for i in range(n):
                if side[i] == which:
                    total += data.w[i] * abs(data.Y[i, k] - median)
        return total
    counts = np.zeros(data.n_classes)
    for i in range(n):
        if side[i] == which:
            counts[int(data.Y[i, 0])] += data.w[i]
    if data.code == ZERO_ONE:
        return counts.sum() - counts.max()
    return log_cost(counts, 0)


@inner()
def spread_of(weight, first, second):
    """Sum of squares about the mean, from sums."""
    return max(second - first * first / weight, 0.0) if weight > 0.0 else 0.0


@inner()
def explained(weight, first):
    """What the mean takes off the sum of squares, from sums."""
    return first * first / weight if weight > 0.0 else 0.0


@inner()
def free_bound(data, side):
    """A lower bound on the costs of both sides as leaves, the free rows on whichever side suits them."""
    n, K = data.Y.shape
    if data.code == SQUARED and K == 1:
        weight, first, second = np.zeros(3), np.zeros(3), 0.0
        for i in range(n):
            s = side[i]
            if s != OUT:
                y = data.Y[i, 0]
                weight[s] += data.w[i]
                first[s] += data.w[i] * y
                second += data.w[i] * y * y
        most, low_weight, low_first = 0.0, 0.0, 0.0  # of free rows, in the order of their outcomes
        for position in range(-1, n):
            if position >= 0:
                i = data.order[0, position]
                if side[i] != FREE:
                    continue
                low_weight += data.w[i]
                low_first += data.w[i] * data.Y[i, 0]
            high_weight, high_first = weight[FREE] - low_weight, first[FREE] - low_first
            for low, high in ((LEFT, RIGHT), (RIGHT, LEFT)):
                told = explained(weight[low] + low_weight, first[low] + low_first)
                most = max(most, told + explained(weight[high] + high_weight, first[high] + high_first))
        return max(second - most, 0.0)
    if data.code == ZERO_ONE:
        counts = np.zeros((3, data.n_classes))
        for i in range(n):
            if side[i] != OUT:
                counts[side[i], int(data.Y[i, 0])] += data.w[i]
        most = 0.0
        for a in range(data.n_classes):
            for b in range(data.n_classes):
                right = counts[LEFT, a] + counts[RIGHT, b] + counts[FREE, a]
                if a != b:
                    right += counts[FREE, b]
                most = max(most, right)
        return counts.sum() - most
    return cost_of(data, side, LEFT) + cost_of(data, side, RIGHT)


@inner()
def quick_bound(data, side, which):
    """A lower bound on the cost of the rows at ``side == which`` as a tree of one split, whatever the features."""
    leaf = cost_of(data, side, which)
    if leaf <= data.price:
        return leaf
    part = np.full(side.size, OUT, np.int8)
    for i in range(side.size):
        if side[i] == which:
            part[i] = FREE
    return min(leaf, data.price + free_bound(data, part))


@inner()
def four_means(data, side):
    """The least cost of the free rows in four leaves, whatever the features: under squared loss of one output intervals
    of the outcomes, by dynamic programming; else 0. It adds to the costs of other rows, which never fall when rows
    join.
    """
    if data.code != SQUARED or data.Y.shape[1] > 1:
        return 0.0
    n = side.size
    sums = np.zeros((n + 1, 3))
    m = 0
    for i in data.order[0]:
        if side[i] == FREE:
            y = data.Y[i, 0]
            sums[m + 1, 0] = sums[m, 0] + data.w[i]
            sums[m + 1, 1] = sums[m, 1] + data.w[i] * y
            sums[m + 1, 2] = sums[m, 2] + data.w[i] * y * y
            m += 1
    best = np.empty(m + 1)
    for e in range(m + 1):
        best[e] = spread_of(sums[e, 0], sums[e, 1], sums[e, 2])
    for _ in range(3):
        for e in range(m, 0, -1):  # the last rows first, so that the others are still those of one leaf fewer
            if data.stop[0] > 0.0:
                return 0.0
            for s in range(1, e):
                part = best[s] + spread_of(sums[e, 0] - sums[s, 0], sums[e, 1] - sums[s, 1], sums[e, 2] - sums[s, 2])
                if part < best[e]:
                    best[e] = part
    return best[m]


@inner()
def project(X, row, normal):
    """``normal . x`` of a row."""
    along = 0.0
    for j in range(X.shape[1]):
        along += normal[j] * X[row, j]
    return along


@inner()
def norm(normal):
    """Its length."""
    return np.sqrt(np.sum(normal * normal))


@inner()
def gap_of(data, side, normal):
    """Largest value on the left and smallest on the right along ``normal``."""
    low, high = -np.inf, np.inf
    for i in range(side.size):
        if side[i] == LEFT:
            low = max(low, project(data.X, i, normal))
        elif side[i] == RIGHT:
            high = min(high, project(data.X, i, normal))
    return low, high


@inner()
def count(side, which):
    """Number of rows at a side."""
    total = 0
    for s in side:
        total += s == which
    return total


@inner()
def sums_of(data, leaf):
    """What `increase` has to know of leaves 1 to 4: the weight of their rows and sums of outputs, the weights of the
    classes, or their cost.
    """
    sums = np.zeros((5, max(data.n_classes, 1 + data.Y.shape[1])))
    if data.code == ABSOLUTE:
        for k in range(1, 5):
            sums[k, 0] = cost_of(data, leaf, k)
        return sums
    for i in range(leaf.size):
        if leaf[i] > 4:
            continue
        own = sums[leaf[i]]
        if data.n_classes > 0:
            own[int(data.Y[i, 0])] += data.w[i]
        else:
            own[0] += data.w[i]
            for k in range(data.Y.shape[1]):
                own[1 + k] += data.w[i] * data.Y[i, k]
    return sums


@inner()
def increase(data, leaf, which, sums, row):
    """What a row of no leaf adds to the cost of the rows at ``leaf == which``; ``sums``: see `sums_of`."""
    w = data.w[row]
    if data.code == SQUARED:
        if not sums[0] > 0.0:
            return 0.0
        total = 0.0
        for k in range(data.Y.shape[1]):
            total += (data.Y[row, k] - sums[1 + k] / sums[0]) ** 2
        return total * w * sums[0] / (sums[0] + w)
    if data.code == ABSOLUTE:
        leaf[row] = which
        more = cost_of(data, leaf, which) - sums[0]
        leaf[row] = FREE
        return more
    own = int(data.Y[row, 0])
    if data.code == ZERO_ONE:
        top = sums.max()
        return w - (max(top, sums[own] + w) - top)
    before = log_cost(sums, 0)
    sums[own] += w
    more = log_cost(sums, 0) - before
    sums[own] -= w
    return more


@inner()
def next_row(data, side, normals, thresholds):
    """The free row whose side matters most, and the side that costs less; -1 if there is none.

    Matters most: the largest least increase of the leaf that it would join on either side, then the largest difference.
    Each side has two leaves, those of the split ``normals (2, p)`` and ``thresholds (2,)``; one, where these are 0.
    """
    n = side.size
    leaf = np.zeros(n, np.int8)  # 1 and 2 on the left, 3 and 4 on the right
    for i in range(n):
        if side[i] == OUT:
            leaf[i] = 5
        elif side[i] != FREE:
            s = side[i] - 1
            leaf[i] = 2 * s + (1 if project(data.X, i, normals[s]) <= thresholds[s] else 2)
    sums = sums_of(data, leaf)
    best, chosen, first = -np.inf, -1, LEFT
    more = np.zeros(2)
    for i in range(n):
        if side[i] != FREE:
            continue
        if chosen >= 0 and data.stop[0] > 0.0:
            break
        for s in range(2):
            k = 2 * s + (1 if project(data.X, i, normals[s]) <= thresholds[s] else 2)
            more[s] = increase(data, leaf, k, sums[k], i)
        score = min(more[0], more[1]) + 0.1 * abs(more[0] - more[1])
        if score > best:
            best, chosen, first = score, i, LEFT if more[0] <= more[1] else RIGHT
    return chosen, first


@inner()
def cost_below(data, side, which, normal, threshold):
    """The cost of the rows at ``side == which`` under one split, or none where they are all on one side of it."""
    part = np.full(side.size, OUT, np.int8)
    for i in range(side.size):
        if side[i] == which:
            part[i] = LEFT if project(data.X, i, normal) <= threshold else RIGHT
    price = data.price if count(part, LEFT) > 0 and count(part, RIGHT) > 0 else 0.0
    return price + cost_of(data, part, LEFT) + cost_of(data, part, RIGHT)


@inner()
def can_join(data, side, row, where, normal):
    """Whether the sides stay separable with ``row`` (already set) at ``where``, or rounding does not let it say;
    updates ``normal``, if they do.
    """
    if count(side, 3 - where) == 0:
        return True
    along = project(data.X, row, normal)
    side[row] = FREE
    low, high = gap_of(data, side, normal)
    side[row] = where
    if count(side, where) > 1:
        size = norm(normal) * data.tolerance
        if (where == LEFT and along < high - size) or (where == RIGHT and along > low + size):
            return True
    return separate(data.X, side, LEFT, RIGHT, data.tolerance, data.stop, normal) != TOUCH


@inner()
def complete(data, side, normal, whole):
    """``whole``: the side of every row under the present hyperplane. Returns whether both sides are large enough, and
    whether the hyperplane divides the fixed rows: where rounding did not let it say, it may not.
    """
    low, high = gap_of(data, side, normal)
    middle = 0.5 * (low + high)
    counts = np.zeros(4, np.int64)
    for i in range(side.size):
        whole[i] = side[i]
        if side[i] == FREE:
            whole[i] = LEFT if project(data.X, i, normal) <= middle else RIGHT
        counts[whole[i]] += 1
    large = counts[LEFT] >= data.min_leaf and counts[RIGHT] >= data.min_leaf
    apart = NEARLY * data.tolerance * norm(normal) if data.X.shape[1] > 1 else 0.0  # one feature is exact
    return large, low + apart < high


@inner()
def best_below(data, side, which, cutoff, budget, out, normal):
    """The cost of the rows at ``side == which`` under the best tree of at most one split that was found in ``budget``
    nodes, or ``cutoff`` if none costs less; a lower bound on it; nodes. ``out``: its sides (LEFT and RIGHT, or all
    FREE: a leaf); and its normal.
    """
    rows = np.flatnonzero(side == which)
    out[:] = OUT
    out[rows] = FREE
    normal[:] = 0.0
    leaf = cost_of(data, out, FREE)
    n, p = rows.size, data.X.shape[1]
    if leaf <= data.price or n < 2 * data.min_leaf or n < 2:
        return leaf, leaf, 0
    place = np.cumsum(side == which) - 1
    order = np.empty((data.order.shape[0], n), data.order.dtype)
    for k in range(order.shape[0]):
        order[k] = place[data.order[k][side[data.order[k]] == which]]
    own = Data(
        data.X[rows], data.Y[rows], data.w[rows], order, data.code, data.n_classes, data.price, data.min_leaf,
        data.tolerance, data.slack, data.stop,
    )  # fmt: skip
    best = np.zeros(n, np.int8)
    state = State(
        np.zeros(n, np.int8), np.zeros(6), np.zeros(n, np.int64), np.zeros(n + 1, np.int8), np.zeros(n, np.int8),
        np.zeros(n + 1), np.zeros((n + 1, p)), np.zeros((n + 1, 2)), best, normal,
    )  # fmt: skip
    state.numbers[BEST] = min(leaf, cutoff)
    state.numbers[OPEN], state.numbers[TURNS] = np.inf, 1.0
    search(own, state, budget)
    out[rows] = best
    return state.numbers[BEST], open_bound(state), int(state.numbers[NODES])


@inner()
def open_bound(state):
    """Lower bound on what a paused search has not visited."""
    lowest = min(state.numbers[OPEN], state.numbers[BEST])
    depth = int(state.numbers[DEPTH])
    for d in range(depth + 1):
        if state.turns[d] < (state.numbers[TURNS] if d == 0 else 2):
            lowest = min(lowest, state.bounds[d])
    return lowest


@inner()
def moved(data, state, depth):
    """Go from a node to its next child, if the sides stay separable, or back; returns the depth of the path."""
    side, numbers = state.side, state.numbers
    if state.turns[depth] >= (numbers[TURNS] if depth == 0 else 2) or state.bounds[depth] >= numbers[BEST] - data.slack:
        if depth > 0:
            side[state.rows[depth - 1]] = FREE
        state.turns[depth] = 0
        return depth - 1
    row = state.rows[depth]
    where = state.firsts[depth] if state.turns[depth] == 0 else 3 - state.firsts[depth]
    state.turns[depth] += 1
    side[row] = where
    state.normals[depth + 1] = state.normals[depth]
    if not can_join(data, side, row, where, state.normals[depth + 1]):
        side[row] = FREE
        return depth
    state.turns[depth + 1], state.bounds[depth + 1] = 0, state.bounds[depth]
    state.known[depth + 1] = state.known[depth]
    return depth + 1


@inner()
def search(data, state, budget):
    """A tree of one split: go on until the end, a stop, or for ``budget`` nodes; returns whether it has ended."""
    side, numbers = state.side, state.numbers
    whole = np.empty(side.size, np.int8)
    no_split = np.zeros((2, data.X.shape[1])), np.zeros(2)
    depth = int(numbers[DEPTH])
    visited = 0
    while depth >= 0:
        if state.turns[depth] == 0:  # a new node
            visited += 1
            numbers[NODES] += 1.0
            bound = data.price + free_bound(data, side)
            state.bounds[depth] = bound
            normal = state.normals[depth]
            if bound < numbers[BEST] - data.slack:
                large, divided = complete(data, side, normal, whole)
                if large and divided:
                    value = data.price + cost_of(data, whole, LEFT) + cost_of(data, whole, RIGHT)
                    if value < numbers[BEST] - data.slack:
                        numbers[BEST] = value
                        state.best[:], state.normal[:] = whole, normal
                row, first = next_row(data, side, no_split[0], no_split[1])
                if row < 0:
                    state.turns[depth] = 3
                    if large and not divided:
                        numbers[OPEN] = min(numbers[OPEN], bound)
                else:
                    state.rows[depth], state.firsts[depth] = row, first
                    if depth == 0:
                        state.firsts[depth] = LEFT
            else:
                state.turns[depth] = 3
        depth = moved(data, state, depth)
        if (visited >= budget or data.stop[0] > 0.0) and depth >= 0:
            numbers[DEPTH] = depth
            return False
    numbers[DEPTH] = -1.0
    return True


@kernel()
def search_once(data, state, budget):
    """`search` for a tree of one split, from Python."""
    return search(data, state, budget)


@inner()
def whole_cost(data, below, depth, whole):
    """The cost of all rows under the splits that a node knows."""
    normals, thresholds = below.normals[depth], below.thresholds[depth]
    left = cost_below(data, whole, LEFT, normals[0], thresholds[0])
    return data.price + left + cost_below(data, whole, RIGHT, normals[1], thresholds[1])


@inner()
def set_bound(data, loose, state, below, depth, part):
    """Raise the bound of a node of a tree of two levels, if that may cut it: if the splits that are known below both
    sides, which cost no less than the best ones, would do so. Returns the nodes that searches of splits below took.
    """
    side, numbers, known = state.side, state.numbers, state.known[depth]
    normals, thresholds, costs = below.normals[depth], below.thresholds[depth], below.costs[depth]
    limit = numbers[BEST] - data.slack - data.price
    grown, spent, plane = 0, 0, np.empty(data.X.shape[1])
    if depth > 0:  # the side of the last row has grown
        grown = side[state.rows[depth - 1]] - 1
        for array in (below.thresholds, below.costs):
            array[depth] = array[depth - 1]
        normals[:], below.rest[depth] = below.normals[depth - 1], below.rest[depth - 1]
        costs[grown] = cost_below(data, side, grown + 1, normals[grown], thresholds[grown])
        if costs[0] + costs[1] + below.rest[depth] < limit:
            return spent
    rest = below.rest[depth] = four_means(data, side)
    for s in range(2):
        known[s] = max(known[s], quick_bound(data, side, s + 1))
    for s in (grown, 1 - grown):
        open_still = known[0] + known[1] + rest < limit <= costs[0] + costs[1] + rest
        if open_still and known[s] < costs[s] - data.slack:
            cutoff = min(numbers[BEST] - data.price - known[1 - s] - rest, costs[s])
            cost, lower, nodes = best_below(loose, side, s + 1, cutoff, QUICK, part, plane)
            spent += nodes
            numbers[INNER] += nodes
            known[s] = max(known[s], lower)
            if cost < cutoff:
                low, high = gap_of(data, part, plane)
                normals[s], thresholds[s] = plane, 0.5 * (low + high) if low < high < np.inf else 0.0
                costs[s] = cost_below(data, side, s + 1, normals[s], thresholds[s])
    state.bounds[depth] = max(state.bounds[depth], data.price + known[0] + known[1] + rest)
    return spent


@kernel()
def search_twice(data, loose, state, below, budget, lower, planes):
    """A tree of two levels: go on until the end, a stop, or for ``budget`` nodes of this search and those below;
    returns whether it has ended.

    ``state.known (n + 1, 2)``: proved costs of the rows fixed on either side, as trees of one split.
    ``lower (2, n)``, ``planes (2, p)``: sides and normals below the best root. ``loose``: the data without the smallest
    leaf, for bounds: rows that are still free may fill a leaf.
    """
    side, numbers = state.side, state.numbers
    n = side.size
    whole, parts, normals = np.empty(n, np.int8), np.empty_like(lower), np.empty_like(planes)
    depth = int(numbers[DEPTH])
    spent = 0
    while depth >= 0:
        if state.turns[depth] == 0:
            spent += 1 + set_bound(data, loose, state, below, depth, whole)
            numbers[NODES] += 1.0
            known = state.known[depth]
            row, first = -1, LEFT
            if state.bounds[depth] < numbers[BEST] - data.slack:
                row, first = next_row(data, side, below.normals[depth], below.thresholds[depth])
                large, divided = complete(data, side, state.normals[depth], whole)
                if large and row >= 0:  # rows that are still free where the hyperplanes have them, if that is better
                    large = divided and whole_cost(data, below, depth, whole) < numbers[BEST] - data.slack
                if large:
                    quick = QUICK if row >= 0 else NO_LIMIT
                    cutoff = numbers[BEST] - data.price - known[1]
                    left, under, more = best_below(data, whole, LEFT, cutoff, quick, parts[0], normals[0])
                    spent += more
                    numbers[INNER] += more
                    right, under_right = known[1], known[1]
                    if divided and data.price + left + known[1] < numbers[BEST] - data.slack:
                        cutoff = numbers[BEST] - data.price - left
                        right, under_right, more = best_below(data, whole, RIGHT, cutoff, quick, parts[1], normals[1])
                        spent += more
                        numbers[INNER] += more
                        value = data.price + left + right
                        if value < numbers[BEST] - data.slack:
                            numbers[BEST] = value
                            state.best[:], state.normal[:] = whole, state.normals[depth]
                            lower[:], planes[:] = parts, normals
                    if row < 0:
                        numbers[OPEN] = min(numbers[OPEN], data.price + under + under_right)
            if row < 0:
                state.turns[depth] = 3
            else:
                state.rows[depth], state.firsts[depth] = row, LEFT if depth == 0 else first
        depth = moved(data, state, depth)
        if (spent >= budget or data.stop[0] > 0.0) and depth >= 0:
            numbers[DEPTH] = depth
            return False
    numbers[DEPTH] = -1.0
    return True


@kernel()
def lower_bound(state):
    """`open_bound`, from Python."""
    return open_bound(state)
