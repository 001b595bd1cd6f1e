"""The complete tree behind "flow" and "big-m", in heap order; branches that do not split send all rows left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyomo.core as pyo
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.statement.problem import TreeProblem

Floats = NDArray[np.float64]


class Placed(NamedTuple):
    """A tree placed in the complete one: its branch for each model branch; the model leaf of each row and each leaf;
    its leaf at or above each model leaf.
    """

    branches: dict[int, int]
    leaf: NDArray[np.intp]
    place: list[int]
    owner: list[int]


@dataclass(frozen=True)
class Complete:
    """Complete tree of ``depth`` levels."""

    depth: int

    @property
    def n_leaves(self) -> int:
        """2^depth."""
        return 1 << self.depth

    @property
    def n_branches(self) -> int:
        """2^depth - 1."""
        return self.n_leaves - 1

    def path(self, leaf: int) -> set[int]:
        """Nodes from the root to a leaf, leaves numbered after the branches."""
        node = self.n_branches + leaf
        nodes = {node}
        while node:
            node = (node - 1) // 2
            nodes.add(node)
        return nodes

    @staticmethod
    def level(node: int) -> int:
        """Level of a node; the root's is 0."""
        return (node + 1).bit_length() - 1

    def below(self, node: int) -> range:
        """The leaves at and below a node."""
        first = last = node
        while first < self.n_branches:
            first, last = 2 * first + 1, 2 * last + 2
        return range(first - self.n_branches, last - self.n_branches + 1)

    def turns(self, leaf: int) -> list[tuple[int, bool]]:
        """Branches above a leaf, and whether the leaf is on their left."""
        node, path = self.n_branches + leaf, []
        while node:
            path.append(((node - 1) // 2, node % 2 == 1))
            node = (node - 1) // 2
        return path

    def order_splits(self, model: Any, splits: Mapping[int, Any]) -> None:
        """A branch may split only where its parent does."""
        model.parent_first = pyo.Constraint(
            range(1, self.n_branches), rule=lambda m, t: splits[t] <= splits[(t - 1) // 2]
        )

    def limit_leaves(
        self,
        model: Any,
        min_leaf: int,
        rows_at: Callable[[int], Any],
        pairs: Iterable[tuple[int, int]],
        at: Callable[[int, int], Any],
    ) -> None:
        """Nonempty leaves (``used[l]``) have at least ``min_leaf`` rows."""
        if min_leaf < 2:
            return
        self.add_used(model, pairs, at)
        model.min_leaf = pyo.Constraint(
            range(self.n_leaves), rule=lambda m, leaf: rows_at(leaf) >= min_leaf * m.used[leaf]
        )

    def add_used(self, model: Any, pairs: Iterable[tuple[int, int]], at: Callable[[int, int], Any]) -> None:
        """``used[l]``: 1 for nonempty leaves, once."""
        if hasattr(model, "used"):
            return
        model.used = pyo.Var(range(self.n_leaves), domain=pyo.Binary)
        model.used_there = pyo.Constraint(list(pairs), rule=lambda m, g, leaf: at(g, leaf) <= m.used[leaf])

    def encode_leaves(self, model: Any, leaf: NDArray[np.intp]) -> None:
        """Set ``used`` for rows at ``leaf (n,)``."""
        if hasattr(model, "used"):
            for number, v in model.used.items():
                v.set_value(float(np.any(leaf == number)))

    def place(self, tree: Tree, X: Floats) -> Placed:
        """Place the nodes of ``tree``; leaves above the bottom level take the leftmost leaf below their position."""
        position = {0: 0}
        for node in range(tree.n_branches):
            for side in (0, 1):
                position[int(tree.children[node, side])] = 2 * position[node] + 1 + side
        blocks = [self.below(position[leaf]) for leaf in range(tree.n_branches, tree.n_nodes)]
        place = [block[0] for block in blocks]
        owner = [leaf for slot in range(self.n_leaves) for leaf, block in enumerate(blocks) if slot in block]
        branches = {position[node]: node for node in range(tree.n_branches)}
        return Placed(branches, np.array(place)[tree.apply(X) - tree.n_branches], place, owner)

    def decode(self, chosen: Mapping[int, tuple[Floats, float]], problem: TreeProblem) -> Tree:
        """The tree of the branches ``chosen``."""
        nodes = self.n_branches + self.n_leaves
        A, b = np.zeros((nodes, problem.n_features)), np.zeros(nodes)
        left, right = np.full(nodes, -1), np.full(nodes, -1)
        for t in sorted(chosen):
            A[t], b[t] = chosen[t]
            left[t], right[t] = 2 * t + 1, 2 * t + 2
        values = np.zeros((nodes, problem.n_outputs))
        return Tree.from_links(left, right, A, b, values, problem.classes)
