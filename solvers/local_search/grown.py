"""The tree that local search changes: branches at the places of a complete tree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opttree.problems import TreeProblem
from opttree.tree import Tree

Floats = NDArray[np.float64]
Rows = NDArray[np.int32]


class Grown:
    """Branches in heap order: place t splits where ``splits[t]``, by ``A[t] . x <= b[t]``; places below are free."""

    def __init__(self, problem: TreeProblem, tree: Tree) -> None:
        self.problem = problem
        places = (1 << problem.depth) - 1
        self.splits = np.zeros(places, bool)
        self.A, self.b = np.zeros((places, problem.n_features)), np.zeros(places)
        at = {0: 0}
        for node in range(tree.n_branches):
            place = at[node]
            self.splits[place], self.A[place], self.b[place] = True, tree.A[node], tree.b[node]
            left, right = tree.children[node].tolist()
            at[left], at[right] = 2 * place + 1, 2 * place + 2

    def copy_from(self, other: Grown, place: int, theirs: int) -> None:
        """Put the subtree that ``other`` has at ``theirs`` at ``place`` of this tree."""
        pairs = [(place, theirs)]
        for here, there in pairs:
            if here < self.splits.size:
                splits = there < other.splits.size and other.splits[there]
                self.splits[here] = splits
                if splits:
                    self.A[here], self.b[here] = other.A[there], other.b[there]
                pairs += [(2 * here + 1, 2 * there + 1), (2 * here + 2, 2 * there + 2)]

    def set_split(self, place: int, a: Floats, b: float) -> None:
        """Make the place a branch."""
        self.splits[place], self.A[place], self.b[place] = True, a, b

    def clear(self, place: int) -> None:
        """Make the place a leaf."""
        pending = [place]
        for t in pending:
            if t < self.splits.size:
                self.splits[t] = False
                pending += [2 * t + 1, 2 * t + 2]

    def copy(self) -> Grown:
        """An independent copy."""
        new = object.__new__(Grown)
        new.problem, new.splits, new.A, new.b = self.problem, self.splits.copy(), self.A.copy(), self.b.copy()
        return new

    def is_branch(self, place: int) -> bool:
        """Whether the place exists and splits."""
        return bool(place < self.splits.size and self.splits[place])

    def depth_left(self, place: int) -> int:
        """Levels that may lie below the place."""
        return self.problem.depth + 1 - (place + 1).bit_length()

    def nodes(self) -> list[int]:
        """Places of branches and leaves, from the root."""
        found = [0]
        for t in found:
            if self.is_branch(t):
                found += [2 * t + 1, 2 * t + 2]
        return found

    def n_splits(self, place: int) -> int:
        """Branches at and below the place."""
        if not self.is_branch(place):
            return 0
        return 1 + self.n_splits(2 * place + 1) + self.n_splits(2 * place + 2)

    def rows_at(self, place: int) -> Rows:
        """Rows that come by the place."""
        turns = []
        while place:
            turns.append(((place - 1) // 2, place % 2 == 1))
            place = (place - 1) // 2
        rows = np.arange(self.problem.n_samples, dtype=np.int32)
        for t, left in reversed(turns):
            rows = rows[(self.side(rows, t) <= self.b[t]) == left]
        return rows

    def side(self, rows: Rows, place: int) -> Floats:
        """``A . x`` of rows at a place."""
        used = np.flatnonzero(self.A[place])
        if used.size == 1:
            return self.problem.X[rows, used[0]] * self.A[place, used[0]]
        return self.problem.X[rows] @ self.A[place]

    def leaves_of(self, rows: Rows, place: int) -> tuple[NDArray[np.int64], int]:
        """Leaf that each row (n,) of ``rows`` would reach from ``place``, numbered from 0, and how many there are."""
        slot = np.zeros(self.problem.n_samples, np.int64)
        count, pending = 0, [(place, rows)]
        for t, part in pending:
            if self.is_branch(t):
                left = self.side(part, t) <= self.b[t]
                pending += [(2 * t + 1, part[left]), (2 * t + 2, part[~left])]
            else:
                slot[part] = count
                count += 1
        return slot, count

    def drop_dead(self) -> None:
        """Replace branches that send all rows one way by the child on that side."""
        t = 0
        while t < self.splits.size:
            if self.splits[t]:
                rows = self.rows_at(t)
                left = int(np.count_nonzero(self.side(rows, t) <= self.b[t]))
                if left in (0, rows.size):
                    self.copy_from(self.copy(), t, 2 * t + 1 if left else 2 * t + 2)
                    continue
            t += 1

    def tree(self) -> Tree:
        """The `Tree`, leaves zero."""
        size = 2 * self.splits.size + 1
        left, right = np.full(size, -1), np.full(size, -1)
        branches = [t for t in self.nodes() if self.is_branch(t)]
        for t in branches:
            left[t], right[t] = 2 * t + 1, 2 * t + 2
        A, b = np.zeros((size, self.A.shape[1])), np.zeros(size)
        A[branches], b[branches] = self.A[branches], self.b[branches]
        values = np.zeros((size, self.problem.n_outputs))
        return Tree.from_links(left, right, A, b, values, self.problem.classes)
