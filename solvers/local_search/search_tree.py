"""The tree that local search modifies: branches at heap positions of a complete tree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.routing import project
from opttree.model.tree import Tree
from opttree.statement import TreeProblem

Floats = NDArray[np.float64]
Rows = NDArray[np.int32]


class SearchTree:
    """Branches ``(a, b)`` by their places in heap order: the children of t are at 2t + 1 and 2t + 2."""

    def __init__(self, problem: TreeProblem, branches: dict[int, tuple[Floats, float]]) -> None:
        self.problem, self.branches = problem, branches

    @staticmethod
    def of(problem: TreeProblem, tree: Tree) -> SearchTree:
        """The branches of ``tree``."""
        branches, at = {}, {0: 0}
        for node in range(tree.n_branches):
            place = at[node]
            branches[place] = tree.A[node], float(tree.b[node])
            left, right = tree.children[node].tolist()
            at[left], at[right] = 2 * place + 1, 2 * place + 2
        return SearchTree(problem, branches)

    def is_branch(self, place: int) -> bool:
        """Whether there is a branch at the place."""
        return place in self.branches

    def nodes(self, place: int = 0) -> list[int]:
        """Places of branches and leaves at and below ``place``, breadth-first."""
        places = [place]
        for t in places:
            if t in self.branches:
                places += [2 * t + 1, 2 * t + 2]
        return places

    def n_splits(self, place: int = 0) -> int:
        """Number of branches at and below the place."""
        return len(self.nodes(place)) // 2

    def subtree(self, place: int) -> tuple[object, ...]:
        """The splits at and below a place, equal for equal subtrees at other places."""
        if place not in self.branches:
            return ()
        a, b = self.branches[place]
        return a.tobytes(), b, self.subtree(2 * place + 1), self.subtree(2 * place + 2)

    def depth_left(self, place: int) -> int:
        """Number of levels allowed below the place."""
        return self.problem.depth + 1 - (place + 1).bit_length()

    # ---- other trees ----------------------------------------------------------------------------------------------

    def with_split(self, place: int, a: Floats, b: float) -> SearchTree:
        """The tree with another split at a place, subtrees as they are."""
        return SearchTree(self.problem, self.branches | {place: (a, b)})

    def without(self, place: int) -> SearchTree:
        """The tree with a leaf at the place."""
        gone = set(self.nodes(place))
        return SearchTree(self.problem, {t: split for t, split in self.branches.items() if t not in gone})

    def with_subtree(self, place: int, other: SearchTree, theirs: int) -> SearchTree:
        """The tree with the subtree that ``other`` has at ``theirs`` at ``place``."""
        branches = dict(self.without(place).branches)
        pairs = [(place, theirs)]
        for here, there in pairs:
            if there in other.branches:
                branches[here] = other.branches[there]
                pairs += [(2 * here + 1, 2 * there + 1), (2 * here + 2, 2 * there + 2)]
        return SearchTree(self.problem, branches)

    def live(self) -> SearchTree:
        """The tree without branches that send all rows one way: the child on that side takes their place."""
        tree = self
        pending = [(0, np.arange(self.problem.n_samples, dtype=np.int32))]
        while pending:
            place, rows = pending.pop()
            if not tree.is_branch(place):
                continue
            left = tree.goes_left(rows, place)
            if left.all() or not left.any():
                tree = tree.with_subtree(place, tree, 2 * place + 1 if left.all() else 2 * place + 2)
                pending.append((place, rows))
            else:
                pending += [(2 * place + 1, rows[left]), (2 * place + 2, rows[~left])]
        return tree

    # ---- rows -----------------------------------------------------------------------------------------------------

    def side(self, rows: Rows, place: int) -> Floats:
        """``a . x`` of ``rows`` at a branch."""
        a, _b = self.branches[place]
        return project(self.problem.X, rows, a)

    def goes_left(self, rows: Rows, place: int) -> NDArray[np.bool_]:
        """Whether a branch sends each of ``rows`` left."""
        return self.side(rows, place) <= self.branches[place][1]

    def rows_at(self, place: int) -> Rows:
        """Rows that reach the place."""
        turns = []
        while place:
            turns.append(((place - 1) // 2, place % 2 == 1))
            place = (place - 1) // 2
        rows = np.arange(self.problem.n_samples, dtype=np.int32)
        for t, left in reversed(turns):
            rows = rows[self.goes_left(rows, t) == left]
        return rows

    def leaves_of(self, rows: Rows, place: int) -> tuple[NDArray[np.int64], int]:
        """Leaf that each row (n,) of ``rows`` would reach from ``place``, numbered from 0, and how many there are."""
        slot = np.zeros(self.problem.n_samples, np.int64)
        count, pending = 0, [(place, rows)]
        for t, part in pending:
            if self.is_branch(t):
                left = self.goes_left(part, t)
                pending += [(2 * t + 1, part[left]), (2 * t + 2, part[~left])]
            else:
                slot[part] = count
                count += 1
        return slot, count

    def tree(self) -> Tree:
        """The `Tree`, with zero leaves."""
        places = self.nodes()
        number = {t: i for i, t in enumerate(places)}
        links = np.array([(number.get(2 * t + 1, -1), number.get(2 * t + 2, -1)) for t in places])
        A, b = np.zeros((len(places), self.problem.n_features)), np.zeros(len(places))
        for t, split in self.branches.items():
            A[number[t]], b[number[t]] = split
        values = np.zeros((len(places), self.problem.n_outputs))
        return Tree.from_links(links[:, 0], links[:, 1], A, b, values, self.problem.classes)
