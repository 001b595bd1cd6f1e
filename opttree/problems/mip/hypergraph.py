"""The hypergraph of all trees on given candidate splits: a state is a set of rows with the remaining depth."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.exact import partition, states
from opttree.kernels.losses import codes
from opttree.kernels.records import Rows
from opttree.model.tree import Tree
from opttree.problems.exact.leaves import centred, linear_absolute_cost
from opttree.problems.exact.problem import sums_of_rows
from opttree.problems.mip.candidates import Candidates
from opttree.runtime.clock import now, seconds_left
from opttree.statement.constraints import DifferentLeaf, ForbidSplit, MinPerGroup, SameLeaf
from opttree.statement.penalties import L1, L2
from opttree.statement.problem import TreeProblem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
COLUMNS = ("best", "family", "every")
CHUNK = 1 << 18  # columns between two points where it can be stopped
MOST_COLUMNS, MOST_BYTES = 30_000_000, 6e9
MOST_COMPLETE = 3_000_000  # columns of a complete program; each is a Pyomo variable
BOUNDS_SHARE, BOUNDS_SECONDS = 0.1, 10.0  # of the time, for `subtree_bounds`, at most
RULE_OUT = 1e-7  # relative tolerance: a column stays if it may lead to a tree as good as the best known


class TooLargeError(ValueError):
    """The enumeration has more columns than fit into memory."""


@dataclass(frozen=True)
class Level:
    """States of the same remaining depth, and their actions: to be a leaf, or one of the columns.

    Attributes
    ----------
    depth : int
        Remaining levels, >= 0.
    sets : ndarray of uint64 of shape (S, words)
        The sets of rows, 64 per word.
    leaf : ndarray of shape (S,)
        Cost of each set as a leaf; infinite if ruled out.
    columns : ndarray of int of shape (C, 4)
        State, split, and the two resulting states on the level below; -1, -1 at depth 1.
    cost : ndarray of shape (C,)
        Cost of the column without the price of its split: at depth 1 that of both leaves, else 0.
    """

    depth: int
    sets: NDArray[np.uint64]
    leaf: Floats
    columns: Ints
    cost: Floats

    @property
    def actions(self) -> states.Actions:
        """The actions as kernels take them."""
        return states.Actions(self.columns, self.cost, self.leaf)


@dataclass(frozen=True)
class Plan:
    """The cheapest tree from every state: per level its cost, number of splits, and column (-1 for a leaf)."""

    value: list[Floats]
    count: list[Ints]
    choice: list[Ints]

    @property
    def cost(self) -> float:
        """Cost of the whole tree, prices included."""
        return float(self.value[0][0])

    @property
    def n_splits(self) -> int:
        """Number of splits of the whole tree."""
        return int(self.count[0][0])


def enumerate_levels(
    problem: TreeProblem, candidates: Candidates, which: str, *, top: int = 0, ends: bool = False
) -> Generator[None, None, list[Level]]:
    """Levels from the root (depth ``problem.depth``) to depth 1; yields None wherever it can be stopped.

    Parameters
    ----------
    problem : TreeProblem
        The problem.
    candidates : Candidates
        The candidate splits.
    which : {"best", "family", "sets", "every"}
        "best", what an optimal tree needs: one of several equal partitions, the best of the last splits of a state, and
        none if a leaf is no worse. "family": the same for each feature separately. "sets": each partition of each
        state by each feature once. "every", what any tree needs: all splits with ``min_leaf`` rows on either side.
    top : int, default 0
        So many levels from the root are as with "every".
    ends : bool, default False
        Whether a level of depth 0 with the leaves follows.
    """
    levels = []
    sets = states.pack_rows(np.arange(problem.n_samples), problem.n_samples)[None]
    for depth in range(problem.depth, 0, -1):
        every = which == "every" or problem.depth - depth < top
        apart = every or which != "best"
        leaf = yield from _leaf_costs(problem, sets)
        can_split = states.sizes(sets) >= 2 * problem.min_leaf
        parents = np.flatnonzero(
            can_split if every or which == "sets" else can_split & (leaf > problem.price_per_split)
        )
        if depth == 1 and not every and not ends:
            columns, cost = yield from _last_columns(problem, candidates, sets, parents, leaf, apart)
            below = sets[:0]
        else:
            columns, below = yield from _columns(problem, candidates, sets[parents], apart, every)
            columns[:, 0] = parents[columns[:, 0]]
            cost = np.zeros(len(columns))
            if depth == 1 and not ends:
                both = yield from _leaf_costs(problem, below)
                cost = both[columns[:, 2]] + both[columns[:, 3]]
                columns[:, 2:] = -1
        levels.append(Level(depth, sets, leaf, columns, cost))
        sets = below
    if not levels or ends:
        leaf = yield from _leaf_costs(problem, sets)
        levels.append(Level(0, sets, leaf, np.zeros((0, 4), np.int64), np.zeros(0)))
    return levels


def _columns(
    problem: TreeProblem, candidates: Candidates, parents: NDArray[np.uint64], apart: bool, every: bool
) -> Generator[None, None, tuple[Ints, NDArray[np.uint64]]]:
    """Columns of the sets ``parents``, and the sets of the level below; see `states.split_sets`."""
    most = max(1, CHUNK // max(len(candidates), 1))
    table = np.full(2, states.EMPTY)
    sets, count = np.zeros((0, parents.shape[1]), np.uint64), 0
    chunks, total = [], 0
    for first in range(0, len(parents), most):
        last = min(first + most, len(parents))
        room = count + 2 * (last - first) * len(candidates)
        if every and total > MOST_COMPLETE:
            raise TooLargeError(
                f"the complete program has more than {total} columns; fewer thresholds, rows or levels would do, or "
                "the reduced program (complete=False, --reduced)"
            )
        if total > MOST_COLUMNS or 8.0 * room * sets.shape[1] > MOST_BYTES:
            raise TooLargeError(f"more than {total} columns; fewer thresholds, rows or levels would do")
        if room > len(sets):
            sets = np.concatenate([sets[:count], np.zeros((2 * room - count, sets.shape[1]), np.uint64)])
        if 2 * room > len(table):
            table = np.empty(1 << int(4 * room).bit_length(), np.int64)
            states.fill_table(table, sets, count)
        chunk = np.empty(((last - first) * len(candidates), 4), np.int64)
        splits, rule = states.Splits(candidates.words, candidates.start), states.Rule(problem.min_leaf, apart, every)
        count, filled = states.split_sets(parents, first, last, splits, rule, states.Sets(table, sets), count, chunk)
        chunks.append(chunk[:filled].copy())
        total += filled
        yield
    return (np.concatenate(chunks) if chunks else np.zeros((0, 4), np.int64)), sets[:count].copy()


def _leaf_costs(problem: TreeProblem, sets: NDArray[np.uint64]) -> Generator[None, None, Floats]:
    """Cost of each set as a leaf."""
    costs = np.empty(len(sets))
    if problem.leaves == "linear" and problem.loss_function.form == "absolute":
        for s, rows in enumerate(members(sets, problem.n_samples)):
            yield
            costs[s] = linear_absolute_cost(problem, rows)
        return costs
    data, form = as_kernels_take_it(problem)
    step = _states_per_chunk(problem)
    for first in range(0, len(sets), step):
        yield
        part = slice(first, first + step)
        if problem.leaves == "linear":
            costs[part] = partition.linear_leaf_costs(sets[part], data, form)
        else:
            costs[part] = partition.leaf_costs(sets[part], data, form) + _spared(problem, sets[part])
    return costs


def _spared(problem: TreeProblem, sets: NDArray[np.uint64]) -> Floats | float:
    """What no leaf spares the rows of each set, see `opttree.losses.Loss.least`."""
    loss = problem.loss_function
    if loss.lacks("least") is not None:
        return 0.0
    least = problem.w * loss.least(problem.Y if loss.joint else problem.Y[:, 0])
    sums: Floats = bits_of(sets, problem.n_samples) @ least
    return sums


def _states_per_chunk(problem: TreeProblem) -> int:
    """States processed between two points where it can be stopped."""
    of_leaf = (problem.n_features + 1) ** 2 if problem.leaves == "linear" else 1
    return max(1, CHUNK // (problem.n_samples * of_leaf))


def as_kernels_take_it(problem: TreeProblem) -> tuple[Rows, partition.Form]:
    """The rows (centred in regression: constant terms are free), and the form of the leaves."""
    data, n_classes = Rows(problem.X, problem.Y, problem.w), problem.n_outputs
    if not problem.is_classification:
        data, n_classes = Rows(centred(problem.X, problem.w), centred(problem.Y, problem.w), problem.w), 0
    l1, l2 = problem.strength(L1, "leaves"), problem.strength(L2, "leaves")
    kinds = problem.loss_code, n_classes, problem.leaves == "linear", l1, l2
    if problem.loss_code == codes.TABLE:
        sums, leaf = sums_of_rows(problem)
        return Rows(data.X, sums, problem.w), partition.Form(codes.SUMS, *kinds[1:], 1, problem.min_leaf, leaf)
    return data, partition.Form(*kinds, 1, problem.min_leaf)


def members(sets: NDArray[np.uint64], n: int) -> list[NDArray[np.int32]]:
    """Row numbers of each set."""
    return [np.flatnonzero(row).astype(np.int32) for row in bits_of(sets, n)]


def bits_of(sets: NDArray[np.uint64], n: int) -> NDArray[np.uint8]:
    """(S, n): 1 where a set holds a row."""
    words = np.ascontiguousarray(sets).view(np.uint8).reshape(len(sets), 8 * sets.shape[1])
    return np.unpackbits(words, axis=1, bitorder="little")[:, :n]


def _last_columns(
    problem: TreeProblem,
    candidates: Candidates,
    sets: NDArray[np.uint64],
    parents: Ints,
    leaf: Floats,
    by_family: bool,
) -> Generator[None, None, tuple[Ints, Floats]]:
    """The best last split of each set (and family), if it is better than a leaf."""
    cost = np.full((len(parents), candidates.order.shape[0]), np.inf)
    split = np.full(cost.shape, -1)
    n_families, work = cost.shape[1], 8 * CHUNK
    of_family = problem.n_samples  # work
    if problem.leaves == "linear":
        of_family *= max(candidates.cut.size * (problem.n_features + 1) ** 2 // (8 * max(n_families, 1)), 1)
    step, some = max(1, work // (of_family * max(n_families, 1))), n_families
    if step == 1:
        some = max(1, work // of_family)
    data, form = as_kernels_take_it(problem)
    by_y = np.zeros((0, problem.n_samples), np.int32)
    if form.loss == codes.ABSOLUTE:
        by_y = np.ascontiguousarray(np.argsort(data.Y, axis=0, kind="stable").T.astype(np.int32))
    for first in range(0, len(parents), step):
        part = slice(first, first + step)
        if problem.leaves == "linear" and problem.loss_function.form == "absolute":
            cost[part], split[part] = yield from _linear_absolute_cuts(problem, candidates, sets[parents[part]])
        else:
            for begin in range(0, n_families, max(some, 1)):
                few = slice(begin, begin + some)
                start = candidates.start[begin : begin + some + 1]
                own = partition.Families(candidates.order[few], start, candidates.cut)
                cost[part, few], split[part, few] = partition.best_cuts(sets[parents[part]], own, data, by_y, form)
                yield
            cost[part] += np.reshape(_spared(problem, sets[parents[part]]), (-1, 1))
        yield
    if cost.size and not by_family:
        best = cost.argmin(axis=1)[:, None]
        cost, split = (np.take_along_axis(table, best, axis=1) for table in (cost, split))
    state, family = np.nonzero(cost + problem.price_per_split < leaf[parents][:, None])
    columns = np.full((state.size, 4), -1)
    columns[:, 0], columns[:, 1] = parents[state], split[state, family]
    return columns, cost[state, family]


def _linear_absolute_cuts(
    problem: TreeProblem, candidates: Candidates, sets: NDArray[np.uint64]
) -> Generator[None, None, tuple[Floats, Ints]]:
    """`best_cuts` for linear leaves under absolute loss: one linear program for each side of each cut."""
    cost = np.full((len(sets), candidates.order.shape[0]), np.inf)
    split = np.full(cost.shape, -1)
    for s, rows in enumerate(members(sets, problem.n_samples)):
        for f in range(candidates.order.shape[0]):
            previous = 0
            for c in range(candidates.start[f], candidates.start[f + 1]):
                left = candidates.side(c)[rows]
                size = int(left.sum())
                if size == previous or min(size, rows.size - size) < problem.min_leaf:
                    continue
                previous = size
                yield
                both = linear_absolute_cost(problem, rows[left]) + linear_absolute_cost(problem, rows[~left])
                if both < cost[s, f]:
                    cost[s, f], split[s, f] = both, c
    return cost, split


def permitted(levels: list[Level], problem: TreeProblem, candidates: Candidates) -> list[Level]:
    """The levels without the actions that a side constraint on single splits or leaves rules out."""
    out = []
    for level in levels:
        leaf, stays = level.leaf.copy(), np.ones(len(level.columns), bool)
        for c in problem.constraints:
            if isinstance(c, ForbidSplit) and c.at(problem.depth - level.depth):
                stays &= candidates.feature[candidates.family[level.columns[:, 1]]] != c.feature
            elif isinstance(c, (SameLeaf, DifferentLeaf)):
                both = _holds(level.sets, c.i) & _holds(level.sets, c.j)
                apart = _holds(candidates.words, c.i) != _holds(candidates.words, c.j)
                if isinstance(c, SameLeaf):
                    stays &= ~(both[level.columns[:, 0]] & apart[level.columns[:, 1]])
                else:
                    leaf[both] = np.inf
                    if level.depth == 1:
                        stays &= ~(both[level.columns[:, 0]] & ~apart[level.columns[:, 1]])
            elif isinstance(c, MinPerGroup):
                groups = [states.pack_rows(np.flatnonzero(g), problem.n_samples) for g in c.members(problem)]
                leaf[~_each(level.sets, groups, c.k)] = np.inf
                if level.depth == 1:
                    of, side = level.sets[level.columns[:, 0]], candidates.words[level.columns[:, 1]]
                    stays &= _each(of & side, groups, c.k) & _each(of & ~side, groups, c.k)
        out.append(replace(level, leaf=leaf, columns=level.columns[stays], cost=level.cost[stays]))
    return out


def _each(sets: NDArray[np.uint64], groups: list[NDArray[np.uint64]], k: int) -> NDArray[np.bool_]:
    """Whether each of the ``sets (S, words)`` holds ``k`` rows of every group."""
    counts = [states.sizes(sets & group) for group in groups]
    enough: NDArray[np.bool_] = np.min(counts, axis=0) >= k
    return enough


def _holds(sets: NDArray[np.uint64], row: int) -> NDArray[np.bool_]:
    """Whether each of the ``sets (S, words)`` holds a row."""
    return (sets[:, row // 64] >> np.uint64(row % 64)) & np.uint64(1) == 1


def plan(levels: list[Level], price: float) -> Plan:
    """Solve the dynamic program, from the last level to the root."""
    value: list[Floats] = [np.zeros(0)]
    count: list[Ints] = [np.zeros(0, np.int64)]
    choice: list[Ints] = []
    for level in reversed(levels):
        v, k, a = np.empty(len(level.sets)), np.empty(len(level.sets), np.int64), np.empty(len(level.sets), np.int64)
        states.best_actions(level.actions, value[0], count[0], price, v, k, a)
        value.insert(0, v)
        count.insert(0, k)
        choice.insert(0, a)
    return Plan(value[:-1], count[:-1], choice)


def subtree_bounds(problem: TreeProblem, candidates: Candidates) -> Generator[None, None, tuple[Floats, float] | None]:
    """What a tree costs at least whose root has each of the candidate splits (C,), and one leaf: by the dynamic program
    without side constraints. None where that takes long, or there are no splits.
    """
    free = problem.restated(constraints=())
    until = now() + min(BOUNDS_SHARE * seconds_left(), BOUNDS_SECONDS)
    work = enumerate_levels(free, candidates, "every" if free.depth == 1 else "family")
    try:
        while True:
            next(work)
            yield
            if now() > until:
                return None
    except StopIteration as stop:
        levels: list[Level] = stop.value
    except TooLargeError:
        return None
    root, found = levels[0], np.full(len(candidates), np.inf)  # of those that leave too few rows on a side
    if not len(candidates) or root.depth == 0:
        return None
    costs, below = root.cost.copy(), plan(levels, free.price_per_split).value
    if root.depth > 1:
        costs += below[1][root.columns[:, 2]] + below[1][root.columns[:, 3]]
    found[root.columns[:, 1]] = costs + free.price_per_split
    return found, float(root.leaf[0])


def tree_of(levels: list[Level], choice: list[Ints], candidates: Candidates, problem: TreeProblem) -> Tree:
    """The tree of the actions ``choice`` (per level, the column of each state or -1 for a leaf); leaves are zero."""
    left, right, split = [-1], [-1], [-1]
    pending = [(0, 0, 0)]
    for node, d, s in pending:
        column = int(choice[d][s]) if s >= 0 else -1
        if column < 0:
            continue
        split[node] = int(levels[d].columns[column, 1])
        left[node], right[node] = len(left), len(left) + 1
        for child in levels[d].columns[column, 2:].tolist():
            pending.append((len(left), d + 1, child))
            left.append(-1)
            right.append(-1)
            split.append(-1)
    A, b = np.zeros((len(left), problem.n_features)), np.zeros(len(left))
    taken = np.array(split) >= 0
    A[taken], b[taken] = candidates.A[np.array(split)[taken]], candidates.b[np.array(split)[taken]]
    values = np.zeros((len(left), problem.n_outputs))
    return Tree.from_links(np.array(left), np.array(right), A, b, values, problem.classes)


def reduce_levels(levels: list[Level], price: float, room: float) -> list[Level]:
    """The levels without the states and actions whose trees cost more than ``room`` above the cheapest.

    The values of the dynamic program are dual values of its linear program; this is fixing by reduced costs.
    """
    best = plan(levels, price)
    keep_state = [np.ones(1, bool)]
    excess = np.zeros(1)
    reduced: list[Level] = []
    for d, level in enumerate(levels):
        below = best.value[d + 1] if d + 1 < len(levels) else np.zeros(0)
        next_excess, of_column, of_leaf = np.empty(below.size), np.empty(level.cost.size), np.empty(level.leaf.size)
        states.least_excess(level.actions, below, price, best.value[d], excess, next_excess, of_column, of_leaf)
        stays = np.isfinite(of_column) & (of_column <= room)
        columns = level.columns[stays]
        number = np.cumsum(keep_state[d]) - 1
        columns[:, 0] = number[columns[:, 0]]
        reached = np.zeros(below.size, bool)
        if below.size:
            reached[columns[:, 2:]] = True
            columns[:, 2:] = (np.cumsum(reached) - 1)[columns[:, 2:]]
        leaf = np.where(np.isfinite(of_leaf) & (of_leaf <= room), level.leaf, np.inf)[keep_state[d]]
        reduced.append(
            replace(level, sets=level.sets[keep_state[d]], leaf=leaf, columns=columns, cost=level.cost[stays])
        )
        keep_state.append(reached)
        excess = next_excess
    return reduced
