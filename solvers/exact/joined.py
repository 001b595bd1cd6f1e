"""All trees whose priced cost is below a limit, half by half, and the cheapest of them within limits that add up."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.exact import states
from opttree.model.tree import Tree
from opttree.problems.mip.candidates import Candidates, bytes_of_thresholds, thresholds
from opttree.problems.mip.hypergraph import (
    RULE_OUT,
    Level,
    TooLargeError,
    bits_of,
    enumerate_levels,
    permitted,
    plan,
    reduce_levels,
)
from opttree.statement import TreeProblem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MOST_BYTES = 2e8  # of the candidate splits
DIGITS = 9  # of what halves use of the limits: equal ones are merged
TOGETHER = 4_000_000  # pairs of halves between two looks at the clock
COMBINED = 50.0  # pairs of halves of a column, in numbers of halves that may be held


class Halves(NamedTuple):
    """Trees of a state: cost (H,), what each uses of the limits (H, M), its priced cost (H,), and how it is made (H,
    3): column and trees of both sides, or -1 and the answer.
    """

    cost: Floats
    used: Floats
    priced: Floats
    made: Ints


def joined(
    stated: TreeProblem, costs: Floats, G: Floats, h: Floats, multipliers: Floats, upper: float, most: float
) -> Generator[None, None, tuple[Tree | None, float, int]]:
    """The cheapest tree within the limits ``G, h`` whose cost is below ``upper``, or None; its cost, or infinity; and
    how many halves of trees were held. Yields None wherever it can be stopped.

    ``stated`` is the problem priced by the ``multipliers``; ``costs (n, K)`` are those of the rows without prices.

    Raises
    ------
    TooLargeError
        If there are too many candidate splits, states or halves.
    """
    count, size = bytes_of_thresholds(stated.X, "all")
    if size > MOST_BYTES:
        raise TooLargeError(f"{count:,} candidate splits are too many")
    candidates = thresholds(stated.X, "all")
    levels = yield from enumerate_levels(stated, candidates, "every")
    levels = permitted(levels, stated, candidates)
    price, table = stated.price_per_split, np.ascontiguousarray(G.transpose(1, 2, 0))  # (n, K, M)
    rows = costs + table @ multipliers
    spared = rows.min(axis=1)  # by no leaf
    rows -= spared[:, None]
    least = plan(levels, price).cost
    room = upper - float(spared.sum() - multipliers @ h) - least + RULE_OUT * (abs(upper) + abs(least))
    if not np.isfinite(room):
        raise TooLargeError("no tree within the limits is known")
    levels = reduce_levels(levels, price, room)
    best, excess = plan(levels, price).value, _excess(levels, price)
    leaves = _Leaves(costs, table, rows, stated.n_samples)
    held = 0
    every: list[list[Halves]] = []
    below: list[Halves] = []
    for d in range(len(levels) - 1, -1, -1):
        level, here = levels[d], []
        limits = best[d] + room - excess[d]
        own = leaves.of(level.sets)
        places = np.searchsorted(level.columns[:, 0], np.arange(len(level.sets) + 1))
        for s in range(len(level.sets)):
            parts = [own[s]] if np.isfinite(level.leaf[s]) else []
            for c in range(places[s], places[s + 1]):
                if level.depth > 1:
                    sides = [below[side] for side in level.columns[c, 2:]]
                else:
                    side = candidates.words[level.columns[c, 1]]
                    sides = leaves.of(np.stack([level.sets[s] & side, level.sets[s] & ~side]))
                for part in _products(sides[0], sides[1], c, price, float(limits[s]), most):
                    parts.append(_cheapest(part, h) if d == 0 else part)
                    yield
            here.append(_merged(parts, float(limits[s])) if parts else _none(G.shape[0]))
            held += here[-1].cost.size
            if held > most:
                raise TooLargeError(f"more than {most:g} halves of trees are below the best one known")
        every.insert(0, here)
        below = here
        yield
    root = _cheapest(every[0][0], h)
    if not root.cost.size or root.cost[0] >= upper:
        return None, np.inf, held
    every[0][0] = root
    return _tree(levels, every, candidates, stated), float(root.cost[0]), held


class _Leaves:
    """The leaves of sets of rows, one for each answer."""

    def __init__(self, costs: Floats, table: Floats, rows: Floats, n: int) -> None:
        self.costs, self.table, self.rows, self.n = costs, table.reshape(n, -1), rows, n
        K = costs.shape[1]
        self.made = np.column_stack([np.full(K, -1), np.arange(K), np.zeros(K, np.int64)])

    def of(self, sets: NDArray[np.uint64]) -> list[Halves]:
        """The leaves of each set."""
        bits = bits_of(sets, self.n).astype(np.float64)
        K = self.costs.shape[1]
        used = (bits @ self.table).reshape(len(sets), K, self.table.shape[1] // K)
        return [Halves(*one, self.made) for one in zip(bits @ self.costs, used, bits @ self.rows, strict=True)]


def _excess(levels: list[Level], price: float) -> list[Floats]:
    """How much more than the cheapest tree one through a state costs at least, of each level's states."""
    value = plan(levels, price).value
    found = [np.zeros(1)]
    for d, level in enumerate(levels[:-1]):
        below = np.empty(len(levels[d + 1].sets))
        of_column, of_leaf = np.empty(level.cost.size), np.empty(level.leaf.size)
        states.least_excess(level.actions, value[d + 1], price, value[d], found[d], below, of_column, of_leaf)
        found.append(below)
    return found


def _none(n_limits: int) -> Halves:
    return Halves(np.zeros(0), np.zeros((0, n_limits)), np.zeros(0), np.zeros((0, 3), np.int64))


def _products(left: Halves, right: Halves, column: int, price: float, limit: float, most: float) -> Iterator[Halves]:
    """The trees of a column, one of either side, that are priced below a limit; some at a time."""
    if not left.cost.size or not right.cost.size:
        return
    order = np.argsort(right.priced, kind="stable")
    counts = np.searchsorted(right.priced[order], limit - price - left.priced, side="right")
    if counts.sum() > COMBINED * most:
        raise TooLargeError(f"{counts.sum():,} pairs of halves are too many")
    ends = np.cumsum(counts)
    first = 0
    while first < counts.size:
        last = max(int(np.searchsorted(ends, (ends[first - 1] if first else 0) + TOGETHER)), first + 1)
        some = counts[first:last]
        a = np.repeat(np.arange(first, last), some)
        starts = np.repeat(np.cumsum(some) - some, some)
        b = order[np.arange(a.size) - starts]
        made = np.column_stack([np.full(a.size, column), a, b])
        yield Halves(
            left.cost[a] + right.cost[b] + price,
            left.used[a] + right.used[b],
            left.priced[a] + right.priced[b] + price,
            made,
        )
        first = last


def _cheapest(halves: Halves, h: Floats) -> Halves:
    """The cheapest one within the limits, or none."""
    inside = np.flatnonzero(np.all(halves.used <= h, axis=1))
    if inside.size:
        inside = inside[[int(np.argmin(halves.cost[inside]))]]
    return Halves(halves.cost[inside], halves.used[inside], halves.priced[inside], halves.made[inside])


def _merged(parts: list[Halves], limit: float) -> Halves:
    """Those priced below a limit; of those that use the same, the cheapest."""
    cost, used, priced, made = (np.concatenate(table) for table in zip(*parts, strict=True))
    keep = np.flatnonzero(priced <= limit)
    keys = np.round(used[keep], DIGITS)
    order = keep[np.lexsort((cost[keep], *keys.T))]
    keys = np.round(used[order], DIGITS)
    new = np.ones(order.size, bool)
    new[1:] = np.any(keys[1:] != keys[:-1], axis=1)
    order = order[new]
    return Halves(cost[order], used[order], priced[order], made[order])


def _tree(levels: list[Level], every: list[list[Halves]], candidates: Candidates, problem: TreeProblem) -> Tree:
    """The tree of the root's first half; leaves are zero."""
    left, right, split = [-1], [-1], [-1]
    pending = [(0, 0, 0, 0)]  # node, level, state, half
    for node, d, s, half in pending:
        if d >= len(levels) or s < 0:
            continue
        column, a, b = every[d][s].made[half].tolist()
        if column < 0:
            continue
        split[node] = int(levels[d].columns[column, 1])
        left[node], right[node] = len(left), len(left) + 1
        for child, which in zip(levels[d].columns[column, 2:].tolist(), (a, b), strict=True):
            pending.append((len(left), d + 1, child, which))
            left.append(-1)
            right.append(-1)
            split.append(-1)
    taken = np.array(split) >= 0
    A, threshold = np.zeros((len(left), problem.n_features)), np.zeros(len(left))
    A[taken], threshold[taken] = candidates.A[np.array(split)[taken]], candidates.b[np.array(split)[taken]]
    values = np.zeros((len(left), problem.n_outputs))
    return Tree.from_links(np.array(left), np.array(right), A, threshold, values, problem.classes)
