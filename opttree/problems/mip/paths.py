"""Trees by the paths of their subtrees: the columns of column generation, and the rows that tie them together."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.problems.mip.candidates import Candidates
from opttree.problems.mip.complete import Complete
from opttree.problems.mip.hypergraph import Level, TooLargeError, bits_of, enumerate_levels, permitted, plan
from opttree.runtime.interrupts import in_background
from opttree.statement.constraints import DifferentLeaf, ForbidSplit, LeafConstraint, MinPerGroup, SameLeaf, picks
from opttree.statement.problem import TreeProblem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Nested = tuple[int, "Nested | None", "Nested | None"]  # a split and what is below it; None is a leaf
MOST_PATHS, MOST_BYTES = 20_000_000, 1e9
CELLS = 1 << 25  # bits of sets that are unpacked at a time


@dataclass(frozen=True)
class Prices:
    """What the subtrees of paths cost at some multipliers: cost (S,), uses of the limits (S, M), and of each level from
    the last branches on, which column each state takes (-1: a leaf) and which answer it would give.
    """

    cost: Floats
    used: Floats
    choice: list[Ints]


class Paths:
    """All paths through the ``top`` levels of the complete tree, with the sets of rows at their ends.

    A path makes a choice at each of its branches: a candidate split, or ``none`` (their number), after which the branch
    is a leaf: all rows go left, without further splits. Below the top levels is the best subtree of the rest of the
    depth, at ``top == depth`` a leaf. Sets are numbered over all levels, -1 is the empty one.

    Attributes
    ----------
    splits : list of ndarray of int of shape (P, top)
        For each slot below the top levels, from left to right, the choices of its paths.
    sets : list of ndarray of int of shape (P,)
        The set of rows that each path leads to.
    value : ndarray of shape (S,)
        What the best subtree of a set costs.
    """

    def __init__(self, problem: TreeProblem, candidates: Candidates, levels: list[Level], top: int) -> None:
        self.problem, self.candidates, self.levels = problem, candidates, levels
        self.tree = Complete(top)
        self.top, self.none = top, len(candidates)
        self.first = np.concatenate([[0], np.cumsum([len(level.sets) for level in levels[: top + 1]])])
        self._plan = plan(levels, problem.price_per_split)
        ends = self._plan.value[top] if top < len(levels) else np.zeros(0)
        self.value = np.concatenate([*(level.leaf for level in levels[:top]), ends])
        words = np.concatenate([level.sets for level in levels[: top + 1]])
        _patterns, self.rows, self.pattern = np.unique(
            candidates.left.T, axis=0, return_index=True, return_inverse=True
        )
        if not len(candidates):
            self.rows, self.pattern = np.zeros(1, np.int64), np.zeros(problem.n_samples, np.int64)
        self.pattern = self.pattern.reshape(-1)
        self.words = words
        self.splits, self.sets = self._enumerated()

    @classmethod
    def prepare(
        cls, problem: TreeProblem, candidates: Candidates, top: int, *, complete: bool
    ) -> Generator[None, None, Paths]:
        """Enumerate; yields None wherever it can be stopped.

        ``complete``: with every subtree below the top levels, not only the cheapest.

        Raises
        ------
        TooLargeError
            A ValueError, if there are too many sets or paths.
        """
        sides = 2.0**top * float(len(candidates) + 1) ** max(top, 1)
        if sides > MOST_PATHS:
            raise TooLargeError(f"{sides:.3g} paths are too many; fewer thresholds, or deeper subtrees as columns, do")
        if float(len(candidates)) * problem.n_samples > MOST_BYTES:
            raise TooLargeError(f"{len(candidates):,} candidate splits of {problem.n_samples:,} rows are too many")
        kinds = {type(c) for c in problem.constraints}
        which = "best"  # below the top levels, unless constraints rule out what it keeps
        if kinds & {SameLeaf, DifferentLeaf, MinPerGroup}:
            which = "every"
        elif ForbidSplit in kinds:
            which = "family"
        every = problem.depth if complete else top
        levels = yield from enumerate_levels(problem, candidates, which, top=every, ends=every == problem.depth)
        found: Paths = yield from in_background(
            lambda: cls(problem, candidates, permitted(levels, problem, candidates), top)
        )
        return found

    def _enumerated(self) -> tuple[list[NDArray[np.int32]], list[Ints]]:
        """Choices and sets of the paths to every slot."""
        frontier = [
            (np.zeros((1, 0), np.int32), np.zeros(1, np.int64), np.full(1, -1))
        ]  # choices, state, set if closed
        for d in range(self.top):
            level = self.levels[d]
            start = np.searchsorted(level.columns[:, 0], np.arange(len(level.sets) + 1))
            nodes = []
            for choices, state, closed in frontier:
                is_open = np.flatnonzero(state >= 0)
                counts = start[state[is_open] + 1] - start[state[is_open]]
                of = np.repeat(is_open, counts)
                column = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
                column += np.repeat(start[state[is_open]], counts)
                last = np.concatenate([level.columns[column, 1], np.full(len(state), self.none)])[:, None]
                taken = np.hstack([choices[np.concatenate([of, np.arange(len(state))])], last.astype(np.int32)])
                for side in (2, 3):
                    below = np.concatenate([level.columns[column, side], np.full(len(state), -1)])
                    ended = (
                        np.where(state >= 0, self.first[d] + state, closed) if side == 2 else np.full(len(state), -1)
                    )
                    nodes.append((taken, below, np.concatenate([np.full(len(of), -1), ended])))
            frontier = nodes
        splits, sets = [], []
        for choices, state, closed in frontier:
            ends = np.where(state >= 0, self.first[self.top] + state, closed)
            kept = (ends < 0) | np.isfinite(self.value[ends])
            splits.append(choices[kept])
            sets.append(ends[kept])
        return splits, sets

    # ---- costs ----------------------------------------------------------------------------------------------------

    @cached_property
    def size(self) -> Floats:
        """(G,) number of rows of each pattern; rows that no candidate separates are one."""
        return np.bincount(self.pattern).astype(np.float64)

    def by_pattern(self, table: Floats) -> Floats:
        """Rows' numbers (n, ...) added up (G, ...)."""
        found = np.zeros((len(self.rows), *table.shape[1:]))
        np.add.at(found, self.pattern, table)
        return found

    def sums(self, table: Floats, words: NDArray[np.uint64] | None = None) -> Floats:
        """Numbers of patterns (G, ...) added up over each set (S, ...)."""
        words = self.words if words is None else words
        flat = table.reshape(len(table), -1)
        found = np.empty((len(words), flat.shape[1]))
        step = max(1, CELLS // max(self.problem.n_samples, 1))
        for s in range(0, len(words), step):
            found[s : s + step] = bits_of(words[s : s + step], self.problem.n_samples)[:, self.rows] @ flat
        return found.reshape(len(words), *table.shape[1:])

    def holds(self, number: int) -> NDArray[np.bool_]:
        """(G,) whether a set has the rows of each pattern."""
        if number < 0:
            return np.zeros(len(self.rows), bool)
        inside: NDArray[np.bool_] = bits_of(self.words[number : number + 1], self.problem.n_samples)[0, self.rows] > 0
        return inside

    def priced(self, costs: Floats, used: Floats, multipliers: Floats) -> Prices:
        """The best subtrees where the answers of patterns cost ``costs (G, K)`` and pay for what they use of the
        limits, ``used (G, K, M)``. The levels must be complete.
        """
        price, below = self.problem.price_per_split, Prices(np.zeros(0), np.zeros((0, used.shape[2])), [])
        paid, cost = np.zeros(0), np.zeros(0)
        for level in reversed(self.levels[self.top :]):
            plain, taken = self.sums(costs, level.sets), self.sums(used, level.sets)
            answer = (plain + taken @ multipliers).argmin(axis=1)
            every = np.arange(len(answer))
            cost, use = plain[every, answer], taken[every, answer]
            total = np.where(np.isfinite(level.leaf), cost + use @ multipliers, np.inf)
            choice = np.full(len(total), -1)
            if level.depth:
                state, left, right = level.columns[:, 0], level.columns[:, 2], level.columns[:, 3]
                both = paid[left] + paid[right] + price
                order = np.lexsort((both, state))
                first = order[np.unique(state[order], return_index=True)[1]] if order.size else order
                better = first[both[first] < total[state[first]] - 1e-12 * np.abs(total[state[first]])]
                s = state[better]
                total[s], choice[s] = both[better], better
                cost[s] = below.cost[left[better]] + below.cost[right[better]] + price
                use[s] = below.used[left[better]] + below.used[right[better]]
            paid, below = total, Prices(cost, use, [choice, *below.choice])
        top = self.first[self.top]
        plain, taken = self.sums(costs, self.words[:top]), self.sums(used, self.words[:top])
        answer = (plain + taken @ multipliers).argmin(axis=1)
        every = np.arange(top)
        cost = np.concatenate([np.where(np.isfinite(self.value[:top]), plain[every, answer], np.inf), below.cost])
        return Prices(cost, np.concatenate([taken[every, answer], below.used]), below.choice)

    def answered(self, costs: Floats, used: Floats) -> tuple[Floats, Floats]:
        """Cost (S, K) and use of the limits (S, K, M) of each set as a leaf, for every answer."""
        plain = self.sums(costs)
        plain[~np.isfinite(self.value)] = np.inf
        return plain, self.sums(used)

    # ---- trees ----------------------------------------------------------------------------------------------------

    def below(self, number: int, choice: list[Ints] | None = None) -> Nested | None:
        """The subtree of a set at the end of a path; ``choice`` as `Prices` hold it."""
        if number < self.first[self.top]:
            return None
        return self._traced(0, int(number - self.first[self.top]), choice or self._plan.choice[self.top :])

    def _traced(self, d: int, state: int, choice: list[Ints]) -> Nested | None:
        level = self.levels[self.top + d] if self.top + d < len(self.levels) else None
        column = -1 if level is None or state < 0 else int(choice[d][state])
        if level is None or column < 0:
            return None
        _state, split, left, right = level.columns[column].tolist()
        return split, self._traced(d + 1, left, choice), self._traced(d + 1, right, choice)

    def tree_of(self, chosen: list[int], ends: list[Nested | None]) -> Tree:
        """The tree with the choice of each branch of the top levels, and these subtrees in its slots."""

        def nested(t: int) -> Nested | None:
            if t >= self.tree.n_branches:
                return ends[t - self.tree.n_branches]
            if chosen[t] == self.none:
                return None
            return chosen[t], nested(2 * t + 1), nested(2 * t + 2)

        left, right, split = [-1], [-1], [-1]
        pending = [(0, nested(0))]
        for node, part in pending:
            if part is None:
                continue
            split[node], left[node], right[node] = part[0], len(left), len(left) + 1
            for child in part[1:]:
                pending.append((len(left), child))
                for links in (left, right, split):
                    links.append(-1)
        taken = np.array(split) >= 0
        A, b = np.zeros((len(left), self.problem.n_features)), np.zeros(len(left))
        A[taken], b[taken] = self.candidates.A[np.array(split)[taken]], self.candidates.b[np.array(split)[taken]]
        values = np.zeros((len(left), self.problem.n_outputs))
        tree = Tree.from_links(np.array(left), np.array(right), A, b, values, self.problem.classes)
        return self.problem.fit_leaves(self.problem.live(tree))

    def path_of(self, chosen: list[int], slot: int) -> tuple[NDArray[np.int32], int] | None:
        """The choices of the path to a slot under the choices of all branches, and its number; None if it is left
        out.
        """
        turns = [t for t, _left in reversed(self.tree.turns(slot))]
        path = np.array([chosen[t] for t in turns], np.int32)
        found = np.flatnonzero(np.all(self.splits[slot] == path, axis=1))
        return (path, int(found[0])) if found.size else None

    def choices_of(self, tree: Tree) -> list[int] | None:
        """What the branches of the top levels choose in a tree of candidate splits; None if a split is not one."""
        placed = Complete(max(self.top, tree.depth)).place(tree, self.problem.X)
        chosen = [self.none] * self.tree.n_branches
        for t, node in placed.branches.items():
            if t < len(chosen):
                same = np.all(tree.A[node] == self.candidates.A, axis=1) & (self.candidates.b == tree.b[node])
                if not same.any():
                    return None
                chosen[t] = int(np.flatnonzero(same)[0])
        return chosen


def has_limits(problem: TreeProblem) -> bool:
    """Whether answers are one of several, within limits that add up."""
    return picks(problem) and any(isinstance(c, LeafConstraint) for c in problem.constraints)
