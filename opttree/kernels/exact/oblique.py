"""Optimal hyperplanes by branching on the side of the root on which a row lies.

A node has fixed some rows to the left and some to the right of a split. Costs of sets of rows never fall when rows are
added, so every split that agrees costs at least ``L(rows fixed left) + R(rows fixed right)``; under squared loss of one
output and under 0/1 loss the other rows are counted as well, on the side that suits them best. Sides that no hyperplane
separates are cut (`separate`). Below a root of two levels, L and R are optimal splits themselves, found in the same
way.
"""

from collections import namedtuple

import numpy as np

from opttree.kernels.exact.hulls import APART, TOUCH, separate
from opttree.kernels.losses.codes import ABSOLUTE, SQUARED, ZERO_ONE
from opttree.kernels.losses.entropy import log_cost
from opttree.runtime.compiling.compiled import inner, kernel

FREE, LEFT, RIGHT, OUT = 0, 1, 2, 3
NO_LIMIT = 1 << 60
# data: features in typical units, outputs (centred) or class codes, weights, (K, n) rows by output, loss, classes,
# price of a split, smallest leaf, tolerance of separation, slack of costs; a flag that stops a search
Data = namedtuple("Data", "X Y w order code n_classes price min_leaf tolerance slack stop")
# state of a search, which can be paused: numbers are [depth of the path, best cost, lower bound of what was left open,
# nodes, inner nodes, doubtful cuts]; the path has the row, turn, first side, bound, normal and known costs of each node
State = namedtuple("State", "side numbers rows turns firsts bounds normals known best")
DEPTH, BEST, OPEN, NODES, INNER, DOUBTFUL = range(6)


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
def free_bound(data, side):
    """A lower bound on the costs of both sides as leaves, the free rows on whichever side suits them."""
    n, K = data.Y.shape
    if data.code == SQUARED and K == 1:
        sums = np.zeros((3, 3))
        for i in range(n):
            s = side[i]
            if s != OUT:
                y = data.Y[i, 0]
                sums[s, 0] += data.w[i]
                sums[s, 1] += data.w[i] * y
                sums[s, 2] += data.w[i] * y * y
        low = np.zeros(3)
        best = np.inf
        position = -1
        while True:
            high = sums[FREE] - low
            a = sums[LEFT] + low
            b = sums[RIGHT] + high
            best = min(best, spread_of(a[0], a[1], a[2]) + spread_of(b[0], b[1], b[2]))
            a = sums[LEFT] + high
            b = sums[RIGHT] + low
            best = min(best, spread_of(a[0], a[1], a[2]) + spread_of(b[0], b[1], b[2]))
            position += 1
            while position < n and side[data.order[0, position]] != FREE:
                position += 1
            if position >= n:
                return best
            i = data.order[0, position]
            y = data.Y[i, 0]
            low[0] += data.w[i]
            low[1] += data.w[i] * y
            low[2] += data.w[i] * y * y
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
def next_row(data, side):
    """The free row whose side matters most, and the side that costs less; -1 if there is none.

    Matters most: the largest least increase of the two leaves, then the largest difference.
    """
    left, right = cost_of(data, side, LEFT), cost_of(data, side, RIGHT)
    best, chosen, first = -1.0, -1, LEFT
    for i in range(side.size):
        if side[i] != FREE:
            continue
        side[i] = LEFT
        more_left = cost_of(data, side, LEFT) - left
        side[i] = RIGHT
        more_right = cost_of(data, side, RIGHT) - right
        side[i] = FREE
        score = min(more_left, more_right) + 0.1 * abs(more_left - more_right)
        if score > best:
            best, chosen, first = score, i, LEFT if more_left <= more_right else RIGHT
    return chosen, first


@inner()
def can_join(data, side, row, where, normal, state_numbers):
    """Whether the sides stay separable with ``row`` (already set) at ``where``; updates ``normal``."""
    if count(side, 3 - where) == 0:
        return True
    along = project(data.X, row, normal)
    side[row] = FREE
    low, high = gap_of(data, side, normal)
    side[row] = where
    if count(side, where) > 1:
        size = np.sqrt(np.sum(normal * normal)) * data.tolerance
        if (where == LEFT and along < high - size) or (where == RIGHT and along > low + size):
            return True
    found = separate(data.X, side, LEFT, RIGHT, data.tolerance, normal)
    if found != APART and found != TOUCH:
        state_numbers[DOUBTFUL] += 1.0
    return found == APART


@inner()
def complete(data, side, normal, whole):
    """``whole``: the side of every row under the present hyperplane; returns whether both sides are large enough."""
    low, high = gap_of(data, side, normal)
    middle = 0.5 * (low + high)
    counts = np.zeros(4, np.int64)
    for i in range(side.size):
        whole[i] = side[i]
        if side[i] == FREE:
            whole[i] = LEFT if project(data.X, i, normal) <= middle else RIGHT
        counts[whole[i]] += 1
    return counts[LEFT] >= data.min_leaf and counts[RIGHT] >= data.min_leaf


@inner()
def best_below(data, side, which, cutoff, out):
    """The cost of the rows at ``side == which`` as a tree of at most one split, or a lower bound at or above
    ``cutoff``; a lower bound on it; nodes, doubtful cuts, and whether the search ended before a stop. ``out``: its
    sides (LEFT and RIGHT, or all FREE: a leaf).
    """
    n, p = data.X.shape
    part = np.full(n, OUT, np.int8)
    size = 0
    for i in range(n):
        if side[i] == which:
            part[i] = FREE
            size += 1
    out[:] = part
    leaf = cost_of(data, part, FREE)
    if leaf <= data.price or size < 2 * data.min_leaf or size < 2:
        return leaf, leaf, 0, 0, True
    state = State(
        part, np.zeros(6), np.zeros(n, np.int64), np.zeros(n + 1, np.int8), np.zeros(n, np.int8), np.zeros(n + 1),
        np.zeros((n + 1, p)), np.zeros((n + 1, 2)), out,
    )  # fmt: skip
    state.numbers[BEST] = min(leaf, cutoff)
    state.numbers[OPEN] = np.inf
    ended = search(data, state, NO_LIMIT)
    cost = state.numbers[BEST]
    lower = cost if ended else min(cost, open_bound(state))
    return cost, lower, int(state.numbers[NODES]), int(state.numbers[DOUBTFUL]), ended


@inner()
def open_bound(state):
    """Lower bound on what a paused search has not visited."""
    lowest = min(state.numbers[OPEN], state.numbers[BEST])
    depth = int(state.numbers[DEPTH])
    for d in range(depth + 1):
        if state.turns[d] < (1 if d == 0 else 2):  # the mirror image of the first row's side is the same split
            lowest = min(lowest, state.bounds[d])
    return lowest


@inner()
def moved(data, state, depth):
    """Go from a node to its next child, if the sides stay separable, or back; returns the depth of the path."""
    side, numbers = state.side, state.numbers
    last = 1 if depth == 0 else 2  # the mirror image of the first row's side is the same split
    if state.turns[depth] >= last or state.bounds[depth] >= numbers[BEST] - data.slack:
        if depth > 0:
            side[state.rows[depth - 1]] = FREE
        state.turns[depth] = 0
        return depth - 1
    row = state.rows[depth]
    where = state.firsts[depth] if state.turns[depth] == 0 else 3 - state.firsts[depth]
    state.turns[depth] += 1
    side[row] = where
    state.normals[depth + 1] = state.normals[depth]
    if not can_join(data, side, row, where, state.normals[depth + 1], numbers):
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
                if count(side, LEFT) > 0 and count(side, RIGHT) > 0 and complete(data, side, normal, whole):
                    value = data.price + cost_of(data, whole, LEFT) + cost_of(data, whole, RIGHT)
                    if value < numbers[BEST] - data.slack:
                        numbers[BEST] = value
                        state.best[:] = whole
                row, first = next_row(data, side)
                if row < 0:
                    state.turns[depth] = 3
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


@kernel()
def search_twice(data, loose, state, budget, lower_left, lower_right):
    """A tree of two levels: go on until the end, a stop, or for ``budget`` nodes of this search and those below;
    returns whether it has ended.

    ``state.known (n + 1, 2)``: proved costs of the rows fixed on either side, as trees of one split.
    ``lower_left``, ``lower_right`` (n,): the sides below the best root. ``loose``: the data without the smallest
    leaf, for bounds: rows that are still free may fill a leaf.
    """
    side, numbers = state.side, state.numbers
    n = side.size
    whole, low, high = np.empty(n, np.int8), np.empty(n, np.int8), np.empty(n, np.int8)
    depth = int(numbers[DEPTH])
    spent = 0
    while depth >= 0:
        if state.turns[depth] == 0:
            spent += 1
            numbers[NODES] += 1.0
            known = state.known[depth]
            quick_left, quick_right = quick_bound(data, side, LEFT), quick_bound(data, side, RIGHT)
            known[0], known[1] = max(known[0], quick_left), max(known[1], quick_right)
            rest = four_means(data, side)
            bound = data.price + known[0] + known[1] + rest
            if depth > 0 and bound < numbers[BEST] - data.slack:  # the side of the last row has grown
                grown = side[state.rows[depth - 1]]
                cutoff = numbers[BEST] - data.price - known[2 - grown] - rest
                _cost, lower, nodes, doubtful, _ended = best_below(loose, side, grown, cutoff, whole)
                spent += nodes
                numbers[INNER] += nodes
                numbers[DOUBTFUL] += doubtful
                known[grown - 1] = max(known[grown - 1], lower)
                bound = data.price + known[0] + known[1] + rest
            state.bounds[depth] = bound
            if bound < numbers[BEST] - data.slack:
                row, first = next_row(data, side)
                both = count(side, LEFT) > 0 and count(side, RIGHT) > 0
                if both and complete(data, side, state.normals[depth], whole):
                    cost_left, under_left, n_left, d_left, e_left = best_below(
                        data, whole, LEFT, numbers[BEST] - data.price - known[1], low
                    )
                    spent += n_left
                    numbers[DOUBTFUL] += d_left
                    if data.price + cost_left + known[1] < numbers[BEST] - data.slack:
                        cost_right, under_right, n_right, d_right, e_right = best_below(
                            data, whole, RIGHT, numbers[BEST] - data.price - cost_left, high
                        )
                        spent += n_right
                        numbers[DOUBTFUL] += d_right
                        value = data.price + cost_left + cost_right
                        if value < numbers[BEST] - data.slack:
                            numbers[BEST] = value
                            state.best[:] = whole
                            lower_left[:] = low
                            lower_right[:] = high
                        if row < 0 and not (e_left and e_right):
                            numbers[OPEN] = min(numbers[OPEN], data.price + under_left + under_right)
                    elif row < 0 and not e_left:
                        numbers[OPEN] = min(numbers[OPEN], data.price + under_left + known[1])
                if row < 0:
                    state.turns[depth] = 3
                else:
                    state.rows[depth], state.firsts[depth] = row, LEFT if depth == 0 else first
            else:
                state.turns[depth] = 3
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


@kernel()
def hyperplane(data, side, normal):
    """The threshold of a hyperplane that separates the sides LEFT and RIGHT, whose ``normal`` is set; nan if none
    does.
    """
    if separate(data.X, side, LEFT, RIGHT, data.tolerance, normal) != APART:
        return np.nan
    low, high = gap_of(data, side, normal)
    return 0.5 * (low + high)
