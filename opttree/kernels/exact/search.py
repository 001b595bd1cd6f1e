"""Branch and bound on intervals of thresholds, one level of the tree at a time.

For a loss that is a sum over rows and never negative, the best cost of a subtree never falls when rows are added. With
L(c) and R(c) the best costs of the two sides of cut c of a feature, L never falls and R never rises with c: all cuts
between a and b cost at least ``L(a) + R(b)``. Evaluating one cut between them halves the interval and gives a bound for
either half. Intervals of all features wait in one queue, the lowest bound first.

A node's search takes an interval from its queue (`take`), evaluates the cut in the middle, by a histogram
(`two_levels`) or by a search of either side (`levels`), and returns both halves (`settle`). Searches of several threads
may share the queue of the whole tree.

With a smallest leaf this holds for the costs without that limit; a node therefore returns a bound for these, too.
"""

from collections import namedtuple

import numpy as np

from opttree.kernels.exact import hubers
from opttree.kernels.exact.buckets import (
    BUCKETS,
    EVALUATIONS,
    NODES,
    SCANS,
    Side,
    best_of_side,
    fill_buckets,
    hold,
    release,
    shift,
    stopped,
)
from opttree.kernels.exact.intervals import (
    EVERY,
    FEATURE,
    HIGH,
    KEY,
    LEFT_AT,
    LEFT_COST,
    LEFT_HELD,
    LOW,
    RIGHT_AT,
    RIGHT_COST,
    RIGHT_HELD,
    SHARE,
    Interval,
    Place,
    close,
    copy_reach,
    grown,
    new_interval,
    new_queue,
    pop,
    push,
    widen,
)
from opttree.kernels.exact.medians import costs_of_rest, link, make_links, median_cost
from opttree.kernels.exact.squared import Both, best_of_sides, sum_up
from opttree.kernels.exact.statistics import Node, add_row, cost, rounded_up, summed
from opttree.kernels.exact.words import MANY, NONE, Sides, best_by_words, count_left, fill_words, flip, free_all
from opttree.kernels.losses.codes import ABSOLUTE, HUBER, SQUARED
from opttree.runtime.compiling.compiled import inner, kernel, kernel_without_refcounts

# state of a node's search: the lowest cost found; the lowest bound of what is not looked at any more, for all trees and
# without the smallest leaf; the cost from which on the caller has no use for the result; the lowest bound in the queue
# at the last look; changes of the best splits, times two, odd while they are written
BEST, BOUND, RELAXED, TARGET, OPEN, CHANGES = range(6)
# orders (levels, 2, p, n) int32: rows of both sides of a cut in increasing order of each feature; splits (levels, 2, S,
# 2) of the best trees of both sides, see `two_levels`, S = 2^depth - 1; reaches (levels, 2, 2, p, 2) int32, given and
# found: first and last rank of each feature's splits that may cost less than the target
Work = namedtuple("Work", "orders splits reaches")
# what a thread works in: `Work`, `Buckets`, `Words`, and numbers of nodes and so on, see `buckets`
Room = namedtuple("Room", "work buckets words counts")
# an evaluated cut: its place in the order; best cost, bound and bound without the smallest leaf (2, 3) of the left and
# the right side; where its histogram is held; the sides' reach (p, 2) each
Cut = namedtuple("Cut", "at found held left_reach right_reach")
START = 64  # capacity of a queue at first
ROUNDED = 1e-9  # relative, of numbers of splits


@kernel_without_refcounts()
def middle_cut(order, rank, low, high):
    """The cut strictly between ``low`` and ``high`` nearest to their middle at which the value changes, or -1."""
    centre = (low + high) // 2
    for away in range(high - low):
        for c in (centre - away, centre + away):
            if low < c < high and rank[order[c - 1]] != rank[order[c]]:
                return c
    return -1


@kernel_without_refcounts()
def trimmed(order, problem, at, stop, excess):
    """Move ``at`` towards ``stop`` over cuts that cost at least what is sought, as cut ``at`` exceeds it by ``excess``
    and each row that changes sides takes away no more than its largest contribution; the first cut not excluded.
    """
    most = problem.most
    while at != stop:
        excess -= most[order[at - 1 if stop < at else at]]
        if excess < 0.0:
            break
        at += -1 if stop < at else 1
    return at


@kernel_without_refcounts()
def first_at_least(order, rank, m, value):
    """The number of the rows ``order[:m]``, sorted by ``rank``, whose rank is below ``value``."""
    low, high = 0, m
    while low < high:
        middle = (low + high) // 2
        if rank[order[middle]] < value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel_without_refcounts()
def is_by_order(problem):
    """Whether costs of leaves need the rows in the order of the outputs: their statistics do not add up."""
    return problem.leaf.loss == ABSOLUTE or problem.leaf.loss == HUBER


@kernel()
def leaf_cost(node):
    """Cost of the best leaf of a node's rows."""
    order, m, problem = node.order, node.m, node.problem
    leaf = problem.leaf
    if leaf.loss == ABSOLUTE:
        return median_cost(order[problem.rank.shape[0] :], m, problem.rows, leaf.n_outputs, leaf.shape)
    if leaf.loss == HUBER:
        return hubers.huber_cost(order[problem.rank.shape[0] :], m, problem.rows, leaf.n_outputs, leaf.shape[0])
    total = summed(order[0], m, problem.rows)
    return cost(total, leaf, np.empty(total.size))


@kernel()
def begin(depth, n_splits, node, leaf, target, side_reach):
    """The queue and the state of a node's search for trees of up to ``depth`` levels and ``n_splits`` >= 1 splits;
    ``leaf`` is the cost of none, infinite where the node must split.

    An interval per feature, and for every way to share the splits below between the sides, of the cuts within the reach
    of the node that leave the smallest leaf on both sides; ``side_reach (2, p, 2)`` is that of both. The queue is empty
    where no split can beat the leaf.
    """
    order, m, problem, reach, new_reach = node
    p, price, fewest = problem.rank.shape[0], problem.price, problem.min_leaf
    below, most = n_splits - 1, (1 << (depth - 1)) - 1
    bound = min(leaf, target)
    state = np.array([leaf, bound, bound, target, np.inf, 0.0])
    queue = new_queue(START + p, p)
    if leaf <= price + problem.slack or m < 2 * fewest:
        copy_reach(reach, new_reach)
        state[RELAXED] = bound if leaf <= price + problem.slack else 0.0
        return queue, state
    close(new_reach)
    for j in range(p):
        low, high = fewest - 1, m - fewest + 1
        if reach[j, 0] > 0:
            low = max(low, first_at_least(order[j], problem.rank[j], m, reach[j, 0]))
        if reach[j, 1] < problem.rank[j, order[j, m - 1]]:
            high = min(high, first_at_least(order[j], problem.rank[j], m, reach[j, 1] + 1) + 1)
        if low + 1 < high:
            for share in range(max(0, below - most), min(below, most) + 1):
                if queue.size[1] == 0:
                    queue = grown(queue)
                place = Place(j, low, high, np.int64(0), m, np.int64(-1), np.int64(-1), share)
                push(queue, price, place, 0.0, 0.0, (side_reach[0], side_reach[1]))
        elif reach[j, 0] <= reach[j, 1] and (low < fewest or high > m - fewest):
            widen(new_reach, j, reach[j, 0], reach[j, 1])
            state[RELAXED] = min(state[RELAXED], price) if fewest > 1 else state[RELAXED]
    state[OPEN] = price if queue.size[0] > 0 else np.inf
    return queue, state


@kernel_without_refcounts()
def keep_reach(node, j, low, high):
    """Widen the reach found of feature ``j`` by the cuts strictly between ``low`` and ``high``: ranks up to the next
    row's, as further rows may come between; and next to them the cuts with too few rows on one side, which further rows
    may allow.
    """
    order, rank, m, fewest = node.order[j], node.problem.rank[j], node.m, node.problem.min_leaf
    first = 0 if low < fewest else rank[order[min(low, m - 1)]]
    last = EVERY if high > m - fewest else rank[order[max(high - 1, 0)]] - 1
    if first <= last:
        widen(node.new_reach, j, first, last)


@kernel_without_refcounts()
def take(queue, node, state, stop, interval, buckets):
    """Take the interval of the lowest bound into ``interval``: `Interval`; the cut in its middle, or 0 if there is
    nothing left to look at.
    """
    place, values, left_reach, right_reach = interval
    order, m, problem, _reach, _new_reach = node
    rank, fewest = problem.rank, problem.min_leaf
    while queue.size[0] > 0:
        number = queue.heap[0]
        key = state[OPEN] = queue.values[number, KEY]
        if key >= min(state[BEST] - problem.slack, state[TARGET]) or stop:
            return 0
        pop(queue)
        for k in range(place.size):
            place[k] = queue.places[number, k]
        for k in range(3):
            values[k] = queue.values[number, k]
        copy_reach(queue.reach[number, 0], left_reach)
        copy_reach(queue.reach[number, 1], right_reach)
        j, first, last = place[FEATURE], place[LOW], place[HIGH]
        c = middle_cut(order[j], rank[j], first, last)
        if c > 0:
            return c
        if key < state[TARGET] and (first < fewest or last > m - fewest):  # next to cuts with few rows on one side
            state[RELAXED] = min(state[RELAXED], key) if fewest > 1 else state[RELAXED]
            keep_reach(node, j, first, last)
        release(buckets, place[LEFT_HELD])
        release(buckets, place[RIGHT_HELD])
    state[OPEN] = np.inf
    return 0


@kernel_without_refcounts()
def settle(queue, node, state, interval, cut, buckets):
    """Return both halves of an interval to the queue, after a cut of it was evaluated. The queue must have room for one
    interval more.
    """
    order, m, problem, _reach, _new_reach = node
    c, found, held, new_left, new_right = cut
    place, values, left_reach, right_reach = interval
    price, fewest, target = problem.price, problem.min_leaf, state[TARGET]
    j, share = place[FEATURE], place[SHARE]
    own = order[j]
    aim = min(state[BEST] - problem.slack, target)
    cost_a, cost_b = values[LEFT_COST], values[RIGHT_COST]
    cost_left, cost_right = max(found[0, 2], cost_a), max(found[1, 2], cost_b)
    value = cost_left + cost_right + price
    state[BOUND] = min(state[BOUND], found[0, 1] + found[1, 1] + price)
    state[RELAXED] = min(state[RELAXED], value)
    if value < target:
        keep_reach(node, j, c - 1, c + 1)
    users = 0
    for way in range(2):
        stop = place[LOW] if way == 0 else place[HIGH]
        key = (cost_a + cost_right if way == 0 else cost_left + cost_b) + price
        end = trimmed(own, problem, c, stop, value - aim) if value > aim else c
        if end != c:
            state[RELAXED], state[BOUND] = min(state[RELAXED], aim), min(state[BOUND], aim)
            if aim < target:
                keep_reach(node, j, min(c, end) - 1, max(c, end) + 1)
        if key < aim and abs(end - stop) > 1:
            near = place[LEFT_HELD] if way == 0 else place[RIGHT_HELD]
            if way == 0:
                half = Place(j, stop, end, place[LEFT_AT], c, near, held, share)
                push(queue, key, half, cost_a, cost_right, (left_reach, new_right))
            else:
                half = Place(j, end, stop, c, place[RIGHT_AT], held, near, share)
                push(queue, key, half, cost_left, cost_b, (new_left, right_reach))
            users += 1
            if near >= 0:
                buckets.users[near] += 1
            continue
        if key >= aim:
            state[RELAXED], state[BOUND] = min(state[RELAXED], key), min(state[BOUND], key)
        elif fewest > 1 and (stop < fewest or stop > m - fewest):
            state[RELAXED] = min(state[RELAXED], key)
        if key < target:
            keep_reach(node, j, min(end, stop), max(end, stop))
    release(buckets, place[LEFT_HELD])
    release(buckets, place[RIGHT_HELD])
    if held >= 0:
        buckets.users[held] = users + 1
        release(buckets, held)


@kernel_without_refcounts()
def finish(queue, node, state):
    """Best cost, bound, and bound without the smallest leaf at the end; what waits in the queue goes to the reach."""
    for e in range(queue.size[0]):
        number = queue.heap[e]
        key, j = queue.values[number, KEY], queue.places[number, FEATURE]
        state[BOUND] = min(state[BOUND], key)
        if key < state[TARGET]:
            keep_reach(node, j, queue.places[number, LOW], queue.places[number, HIGH])
    bound, relaxed = rounded_up(state[BOUND], node.problem), rounded_up(state[RELAXED], node.problem)
    return state[BEST], min(state[BEST], bound), min(relaxed, bound)


@inner()
def add_costs(order, rank, m, low, high, problem, cut_cost):
    """Add the costs of both sides of every cut between ``low`` and ``high`` of a feature to ``cut_cost``."""
    rows = problem.rows
    total = summed(order, m, rows)
    own, rest, work = np.zeros(total.size), np.empty(total.size), np.empty(total.size)
    for c in range(1, high):
        add_row(own, rows[order[c - 1]])
        if c > low and rank[order[c - 1]] != rank[order[c]]:
            for s in range(total.size):
                rest[s] = total[s] - own[s]
            cut_cost[c] += cost(own, problem.leaf, work) + cost(rest, problem.leaf, work)


@kernel()
def one_split(node, leaf, target, split):
    """The best split of a node's rows, or none, at the cost ``leaf``, by the costs of all cuts within its reach, those
    not below ``target`` excepted; feature (-1: none) and rank go to ``split (2,)``. Returns what `levels` returns.
    """
    order, m, problem, reach, new_reach = node
    rank, rows, fewest = problem.rank, problem.rows, problem.min_leaf
    best = leaf
    relaxed = min(leaf, target)
    split[0], split[1] = -1, 0
    if leaf <= problem.price + problem.slack:
        copy_reach(reach, new_reach)
        return best, relaxed, relaxed
    if leaf + problem.price < target:  # cuts with all rows on one side, which further rows may change
        copy_reach(reach, new_reach)
    else:
        close(new_reach)
    by_order, shape = is_by_order(problem), problem.leaf.shape
    links = make_links(m if by_order else 0, rank.shape[1] if by_order else 0)
    cut_cost = np.empty(m + 1)
    for j in range(rank.shape[0]):
        if reach[j, 0] > reach[j, 1]:
            continue
        low, high = first_at_least(order[j], rank[j], m, reach[j, 0]), m
        if reach[j, 1] < rank[j, order[j, m - 1]]:
            high = first_at_least(order[j], rank[j], m, reach[j, 1] + 1) + 1
        cut_cost[:] = problem.price
        if by_order:
            for k in range(problem.leaf.n_outputs):
                link(order[rank.shape[0] + k], m, rows, k, links)
                for way in range(2):
                    if problem.leaf.loss == HUBER:
                        hubers.costs_of_rest(order[j], m, way == 0, links, shape[0], cut_cost)
                    else:
                        costs_of_rest(order[j], m, way == 0, links, shape, cut_cost)
        else:
            add_costs(order[j], rank[j], m, low, high, problem, cut_cost)
        for c in range(low + 1, high):
            if rank[j, order[j, c - 1]] == rank[j, order[j, c]]:
                continue
            value = cut_cost[c]
            relaxed = min(relaxed, value)
            if value < target:
                keep_reach(node, j, c - 1, c + 1)
            if value < best and c >= fewest and m - c >= fewest:
                best = value
                split[0], split[1] = j, rank[j, order[j, c - 1]]
    bound, relaxed = rounded_up(min(best, target), problem), rounded_up(relaxed, problem)
    return best, min(best, bound), min(relaxed, bound)


@kernel()
def two_levels(n_splits, node, queue, state, splits, buckets, counts):
    """The best tree of up to two levels and ``n_splits`` >= 2 splits on a node's rows, from a histogram per evaluated
    cut; not for absolute loss.

    ``queue`` and ``state`` are those of `begin`, for a reach of the sides in buckets, see `all_buckets`; ``splits
    (3, 2)``: feature (-1: none) and rank of the node and its two children. Returns what `levels` returns.
    """
    order, m, problem = node.order, node.m, node.problem
    rank, p, price = problem.rank, problem.rank.shape[0], problem.price
    splits[:, 0] = -1
    counts[NODES] += 1
    if queue.size[0] == 0 or stopped(counts):  # before the rows are looked at
        return finish(queue, node, state)
    fill_buckets(node, buckets)
    total = summed(order[0], m, problem.rows)
    simple = total.size == 4 and problem.leaf.loss == SQUARED and problem.leaf.ridge.size == 0
    for f in range(p if simple else 0):
        sum_up(buckets.total[f], buckets.count[f], buckets.cumulated[f])
    targets = np.empty(2)
    both = Both(
        np.empty((2, total.size)),
        np.empty((2, 2), np.int64),
        np.zeros((2, p, 2), np.int32),
        np.zeros((2, p, 2), np.int32),
    )
    left, right, left_reach, right_reach = both.total[0], both.total[1], both.reach[0], both.reach[1]
    interval = Interval(np.empty(8, np.int32), np.empty(3), left_reach, right_reach)
    place, values = interval.place, interval.values
    spare = np.empty(buckets.total.shape)
    none = np.empty((0, 0, 0))
    sides = (
        Side(p < 0, left, both.split[0], left_reach, both.new_reach[0]),  # not constants: numba would compile anew
        Side(p > 0, right, both.split[1], right_reach, both.new_reach[1]),
    )
    features, found = np.empty(p, np.int64), np.empty((2, 3))
    while True:
        c = take(queue, node, state, stopped(counts), interval, buckets)
        if c == 0:
            break
        counts[EVALUATIONS] += 1
        j = place[FEATURE]
        own = order[j]
        held = hold(buckets)
        histogram = spare if held < 0 else buckets.pool[held]
        # from the nearest of: nothing, all rows, the two histograms at hand
        near, at, base = c, 0, none
        if m - c < near:
            near, at, base = m - c, m, buckets.total
        if place[LEFT_HELD] >= 0 and c - place[LEFT_AT] < near:
            near, at, base = c - place[LEFT_AT], place[LEFT_AT], buckets.pool[place[LEFT_HELD]]
        if place[RIGHT_HELD] >= 0 and place[RIGHT_AT] - c < near:
            near, at, base = place[RIGHT_AT] - c, place[RIGHT_AT], buckets.pool[place[RIGHT_HELD]]
        n_features = 0
        for f in range(p):
            if left_reach[f, 0] <= left_reach[f, 1] or right_reach[f, 0] <= right_reach[f, 1] or f == j:
                features[n_features] = f
                n_features += 1
        some = features[:n_features]
        shift(histogram, base, own[min(at, c) : max(at, c)], 1.0 if at < c else -1.0, some, problem, buckets)
        for s in range(total.size):
            left[s] = 0.0
            for k in range(buckets.count[j]):
                left[s] += histogram[j, k, s]
            right[s] = total[s] - left[s]
        r = rank[j, own[c - 1]]
        aim = min(state[BEST] - problem.slack, state[TARGET])
        for way in range(2):
            side, least = sides[way], values[RIGHT_COST] if way == 0 else values[LEFT_COST]
            n_below = place[SHARE] if way == 0 else n_splits - 1 - place[SHARE]
            buckets.open[way] = n_below > 0
            if n_below == 0:
                found[way] = cost(side.total, problem.leaf, buckets.work)
                side.split[0] = -1
                close(side.new_reach)
                continue
            targets[way] = aim - price - least
            if not simple:
                found[way, 0], found[way, 1], found[way, 2] = best_of_side(
                    histogram, j, r, node, targets[way], side, buckets, counts
                )
        if simple:
            best_of_sides(histogram, j, r, node, targets, both, buckets, counts, found)
        if found[0, 0] + found[1, 0] + price < state[BEST]:
            state[CHANGES] += 1
            state[BEST] = found[0, 0] + found[1, 0] + price
            splits[0, 0], splits[0, 1] = j, r
            splits[1], splits[2] = both.split[0], both.split[1]
            state[CHANGES] += 1
        if queue.size[1] < 2:
            queue = grown(queue)
        settle(queue, node, state, interval, Cut(c, found, held, both.new_reach[0], both.new_reach[1]), buckets)
    return finish(queue, node, state)


@kernel()
def two_levels_by_words(n_splits, node, queue, state, splits, room):
    """`two_levels` by `opttree.kernels.exact.words`, for costs of class counts; for a reach of the sides
    in cells, see `all_ranks`.
    """
    _work, buckets, words, counts = room
    order, m, problem = node.order, node.m, node.problem
    rank, p, price, K = problem.rank, problem.rank.shape[0], problem.price, words.counts.shape[0]
    splits[:, 0] = -1
    counts[NODES] += 1
    if queue.size[0] == 0 or stopped(counts):  # before the rows are looked at
        return finish(queue, node, state)
    fill_words(node, words)
    free_all(buckets, words)
    interval = new_interval(p)
    place, values, left_reach, right_reach = interval
    sides = Sides(
        np.zeros((2, K), np.int64),
        np.empty(2),
        np.zeros(2, np.bool_),
        np.empty((2, 2), np.int64),
        np.zeros((2, p, 2), np.int32),
        np.zeros((2, p, 2), np.int32),
    )
    features, flipped, found = np.empty(p, np.int64), np.empty(p + 1, np.int64), np.empty((2, 3))
    ends = np.empty((2, 2), np.int64)
    while True:
        c = take(queue, node, state, stopped(counts), interval, buckets)
        if c == 0:
            break
        counts[EVALUATIONS] += 1
        j = place[FEATURE]
        own = order[j]
        held = hold(buckets)
        slot = buckets.free.size if held < 0 else held
        ends[0, 0], ends[0, 1] = place[LEFT_HELD], c - place[LEFT_AT]
        ends[1, 0], ends[1, 1] = place[RIGHT_HELD], place[RIGHT_AT] - c
        # from the nearest of: nothing, all rows, the two cuts at hand
        near, at, base = c, 0, -1
        if m - c < near:
            near, at, base = m - c, m, -2
        if ends[0, 0] >= 0 and ends[0, 1] < near:
            near, at, base = ends[0, 1], place[LEFT_AT], ends[0, 0]
        if ends[1, 0] >= 0 and ends[1, 1] < near:
            near, at, base = ends[1, 1], place[RIGHT_AT], ends[1, 0]
        n_features, n_flipped = 0, 1
        flipped[0] = 0
        for f in range(p):
            open_left, open_right = left_reach[f, 0] <= left_reach[f, 1], right_reach[f, 0] <= right_reach[f, 1]
            if words.kind[f] != NONE and (open_left or open_right):
                features[n_features] = f
                n_features += 1
                if words.kind[f] == MANY and f > 0:
                    flipped[n_flipped] = f
                    n_flipped += 1
        flip(slot, base, own[min(at, c) : max(at, c)], flipped[:n_flipped], words)
        count_left(j, c, words, sides.total)
        aim = min(state[BEST] - problem.slack, state[TARGET])
        for way in range(2):
            sides.target[way] = aim - price - (values[RIGHT_COST] if way == 0 else values[LEFT_COST])
            sides.allowed[way] = (place[SHARE] if way == 0 else n_splits - 1 - place[SHARE]) > 0
            copy_reach(left_reach if way == 0 else right_reach, sides.reach[way])
        counts[SCANS] += best_by_words(slot, ends, features[:n_features], node, sides, words, found)
        if found[0, 0] + found[1, 0] + price < state[BEST]:
            state[CHANGES] += 1
            state[BEST] = found[0, 0] + found[1, 0] + price
            splits[0, 0], splits[0, 1] = j, rank[j, own[c - 1]]
            splits[1], splits[2] = sides.split[0], sides.split[1]
            state[CHANGES] += 1
        if queue.size[1] < 2:
            queue = grown(queue)
        settle(queue, node, state, interval, Cut(c, found, held, sides.new_reach[0], sides.new_reach[1]), buckets)
    return finish(queue, node, state)


@kernel()
def reach_of_sides(place, last, problem):
    """The reach (2, p, 2) of both sides of the node at a ``place`` of the tree, in heap order: up to ``last``, the last
    rank or bucket, for all features on which the nodes below it may split.
    """
    reach = np.zeros((2, problem.rank.shape[0], 2), np.int32)
    reach[:, :, 1] = last
    for way in range(2):
        below = 2 * place + 1 + way
        if below < problem.allowed.shape[0]:
            for j in range(problem.rank.shape[0]):
                if not problem.allowed[below, j]:
                    reach[way, j, 0], reach[way, j, 1] = EVERY, -1
    return reach


@kernel_without_refcounts()
def divide(order, m, j, c, rank, left, right):
    """The sorted orders ``left (p, .)`` and ``right`` of the two sides of cut ``c`` of feature ``j``."""
    own = rank[j]
    r = own[order[j, c - 1]]
    for f in range(order.shape[0]):
        a = b = 0
        for e in range(m):
            i = order[f, e]
            left[f, a] = i
            right[f, b] = i
            on_left = own[np.uint64(i)] <= r
            a += on_left
            b += not on_left


@kernel_without_refcounts()
def graft(splits, left, right, levels_below):
    """Copy the subtrees ``left`` and ``right`` of so many levels, in heap order, below the root of ``splits``."""
    for level in range(levels_below):
        width = 1 << level
        for k in range(width):
            for c in range(2):
                splits[2 * width - 1 + k, c] = left[width - 1 + k, c]
                splits[3 * width - 1 + k, c] = right[width - 1 + k, c]


@kernel()
def levels(depth, n_splits, level, side, place, m, problem, target, room):
    """The best tree of up to ``depth`` >= 1 levels and ``n_splits`` splits on the ``m`` rows ``work.orders[level, side,
    :, :m]`` of the `Room`, which reach the node at a ``place`` of the whole tree, in heap order.

    ``target``: the caller has no use for costs of this and above. When ``counts[STOP]`` is set, the search ends soon,
    with valid bounds.

    Returns
    -------
    best : the lowest cost found, that of ``work.splits[level, side]``.
    bound : proved lower bound; equal to ``best``, to rounding, or at least ``target``, unless the search was stopped.
    relaxed : lower bound without the smallest leaf.
    """
    work, buckets, _words, counts = room
    order, splits = work.orders[level, side], work.splits[level, side]
    node = Node(order, m, problem, work.reaches[level, side, 0], work.reaches[level, side, 1])
    splits[:, 0] = -1
    leaf = leaf_cost(node)
    if n_splits == 0:
        close(node.new_reach)
        return leaf, leaf, leaf
    given, all_of_reach = depth, False
    if problem.price * depth > leaf:  # of an optimal tree every split saves its price
        depth = max(int(leaf / problem.price * (1.0 + ROUNDED)), 1)
        n_splits = min(n_splits, (1 << depth) - 1)
        # of further rows it may not be: cuts that are worth it in deeper trees alone stay within the reach
        all_of_reach = depth < given and problem.price * (depth + 1) < target
    by_buckets = depth == 2 and not is_by_order(problem)
    if depth == 1 or n_splits == 1:
        counts[NODES] += 1
        costs = one_split(node, leaf, target, splits[0])
    elif by_buckets and problem.by_words:
        queue, state = begin(depth, n_splits, node, leaf, target, reach_of_sides(place, EVERY, problem))
        costs = two_levels_by_words(n_splits, node, queue, state, splits, room)
    elif by_buckets:
        queue, state = begin(depth, n_splits, node, leaf, target, reach_of_sides(place, BUCKETS, problem))
        costs = two_levels(n_splits, node, queue, state, splits, buckets, counts)
    else:
        counts[NODES] += 1
        queue, state = begin(depth, n_splits, node, leaf, target, reach_of_sides(place, EVERY, problem))
        interval, found = new_interval(problem.rank.shape[0]), np.empty((2, 3))
        below = work.reaches[level + 1]
        while True:
            c = take(queue, node, state, stopped(counts), interval, buckets)
            if c == 0:
                break
            counts[EVALUATIONS] += 1
            j, share = interval.place[FEATURE], interval.place[SHARE]
            divide(order, m, j, c, problem.rank, work.orders[level + 1, 0], work.orders[level + 1, 1])
            copy_reach(interval.left_reach, below[0, 0])
            copy_reach(interval.right_reach, below[1, 0])
            aim = min(state[BEST] - problem.slack, target) - problem.price
            for way in range(2):  # not the constants 0 and 1: numba would need other versions of this function
                rows, other = (c, interval.values[RIGHT_COST]) if way == 0 else (m - c, interval.values[LEFT_COST])
                own = share + 0 * n_splits if way == 0 else n_splits - 1 - share
                below_place = 2 * place + 1 + way
                found[way] = levels(depth - 1, own, level + 1, way, below_place, rows, problem, aim - other, room)
            if found[0, 0] + found[1, 0] + problem.price < state[BEST]:
                state[BEST] = found[0, 0] + found[1, 0] + problem.price
                splits[0, 0], splits[0, 1] = j, problem.rank[j, order[j, c - 1]]
                graft(splits, work.splits[level + 1, 0], work.splits[level + 1, 1], depth - 1)
            if queue.size[1] < 2:
                queue = grown(queue)
            cut = Cut(c, found, np.int64(-1), below[0, 1], below[1, 1])
            settle(queue, node, state, interval, cut, buckets)
        costs = finish(queue, node, state)
    if all_of_reach:
        copy_reach(node.reach, node.new_reach)
    return costs


@kernel()
def evaluate(depth, n_splits, node, aim, interval, c, found, room, queue, state, splits):
    """Evaluate cut ``c`` of an interval of the whole tree's search: both sides, of up to ``depth - 1`` >= 1 levels,
    with ``aim`` the cost to beat. ``found``, and the sides' splits and reach in ``room.work``, are those of level 0.

    For ``c`` 0 cuts of the ``queue`` are evaluated one after another, to the end of the search or until it is to stop;
    ``splits`` are those of the best tree. Returns the queue, which may have grown.
    """
    order, m, problem, work = node.order, node.m, node.problem, room.work
    price, alone = problem.price, c == 0
    while True:
        if alone:
            if queue.size[1] < 2:
                queue = grown(queue)
            c = take(queue, node, state, stopped(room.counts), interval, room.buckets)
            if c == 0:
                return queue
            aim = min(state[BEST] - problem.slack, state[TARGET])
        j, share = interval.place[FEATURE], interval.place[SHARE]
        divide(order, m, j, c, problem.rank, work.orders[0, 0], work.orders[0, 1])
        copy_reach(interval.left_reach, work.reaches[0, 0, 0])
        copy_reach(interval.right_reach, work.reaches[0, 1, 0])
        for way in range(2):
            rows, other = (c, interval.values[RIGHT_COST]) if way == 0 else (m - c, interval.values[LEFT_COST])
            own = share + 0 * n_splits if way == 0 else n_splits - 1 - share
            found[way] = levels(depth - 1, own, 0 * way, way, 1 + way, rows, problem, aim - price - other, room)
        if not alone:
            return queue
        if found[0, 0] + found[1, 0] + price < state[BEST]:
            state[CHANGES] += 1
            state[BEST] = found[0, 0] + found[1, 0] + price
            splits[0, 0], splits[0, 1] = j, problem.rank[j, order[j, c - 1]]
            graft(splits, work.splits[0, 0], work.splits[0, 1], depth - 1)
            state[CHANGES] += 1
        cut = Cut(c, found, np.int64(-1), work.reaches[0, 0, 1], work.reaches[0, 1, 1])
        settle(queue, node, state, interval, cut, room.buckets)
