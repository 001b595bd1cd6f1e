"""The tree being optimised, as arrays that the passes of `TAO` update, and the reduced set of every node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.kernels import records, routing
from opttree.kernels.losses import codes
from opttree.kernels.passes import reduced, whole
from opttree.kernels.routing import is_sparse
from opttree.model.structure import writable
from opttree.model.tree import LINKS, Tree
from opttree.problems import LevelProblem
from opttree.statement import L1, L2, TreeProblem
from opttree.wide import leaves as wide
from opttree.wide.rows import WIDE
from solvers.nodes import NewtonNode

Floats = NDArray[np.float64]
GROUP_WORK = 4_000_000  # numbers of X read per group of nodes, between two checks of the clock


class State:
    """Mutable working copy of a tree: ``A, b`` of branches, leaf arrays, and each row's leaf and loss."""

    def __init__(
        self,
        problem: TreeProblem,
        tree: Tree,
        min_linear_rows: int | None,
        improve: bool,
        *,
        split_lasso: float = 0.0,
        leaf_lasso: float = 0.0,
        clip: bool = True,
    ) -> None:
        self.problem = problem
        self.improve = improve
        self.min_linear_rows = min_linear_rows
        self.split_lasso = split_lasso if problem.splits == "oblique" else 0.0
        self.leaf_lasso = leaf_lasso
        self.clip = clip
        self.children = writable(tree.children)
        self.depth = tree.node_depth
        self.A, self.b = tree.A.copy(), tree.b.copy()
        self.feature = routing.single_features(self.A)
        self.leaf_arrays = tree.leaf_arrays
        self.leaf = tree.apply(problem.X)
        self.link = tree.link
        self.leaf_loss = self._losses(self.leaf_arrays, self.link)
        self.leaves_changed = True
        n = problem.n_samples
        self.slot = np.zeros(n, np.int32)
        self.side = np.zeros(n, np.int8)
        self.u = np.zeros(n)
        self.other = np.zeros(n, np.int32)
        self.other_loss = np.zeros(n)
        self.node_of = np.zeros(n, np.int32)

    @property
    def n_branches(self) -> int:
        """Branch nodes of the structure, dead ones included."""
        return int(self.b.size)

    @property
    def _tree(self) -> records.Tree:
        """The splits as the kernels take them."""
        return records.Tree(self.children, self.A, self.b, self.feature)

    @property
    def _tracks(self) -> reduced.Tracks:
        """Where the rows are, as the kernels take it."""
        sides = self.slot, self.side, self.u, self.other, self.other_loss
        return reduced.Tracks(self.node_of, self.leaf, self.leaf_loss, *sides)

    def levels(self) -> Iterator[NDArray[np.int64]]:
        """The branch nodes of each level, root first. Starts a pass: all rows are at the root."""
        self.node_of[:] = 0
        depth = self.depth[: self.n_branches]
        for d in range(int(depth.max(initial=-1)) + 1):
            yield np.flatnonzero(depth == d)

    def whole_pass(self, node_solver: NewtonNode) -> bool:
        """All levels at once, compiled, where that is worth it; False where they are to be refitted one by one."""
        problem, leaves = self.problem, self.leaf_arrays
        X, code = problem.X, problem.loss_code
        plain = not (problem.is_sparse or self.improve or problem.min_leaf > 1 or problem.splits == "axis")
        work = problem.n_samples * problem.n_features * (int(self.depth.max()) + 1)
        if not plain or code == codes.TABLE or work > GROUP_WORK or X.shape[1] > WIDE or wide.by_products(X, leaves):
            return False
        l1, l2 = problem.strength(L1, "splits"), problem.strength(L2, "splits")
        nodes = whole.Nodes(float(l1), float(l2), float(self.split_lasso), node_solver.tol, node_solver.max_iter)
        depth, link = self.depth[: self.n_branches], LINKS[self.link]
        whole.whole_pass(self._rows(leaves), self._tree, leaves, code, link, depth, self._tracks, nodes)
        return True

    def reduced_problems(self, nodes: NDArray[np.int64]) -> tuple[LevelProblem, Floats]:
        """The node problems of one level (Theorem 3.2), and the cost of each node's current split."""
        problem = self.problem
        slot_of = np.full(self.depth.size, -1, np.int32)
        slot_of[nodes] = np.arange(nodes.size, dtype=np.int32)
        rows, leaves = self._rows(self.leaf_arrays), self.leaf_arrays
        code, link = problem.loss_code, LINKS[self.link]
        if is_sparse(rows.X) or (code != codes.TABLE and wide.by_products(rows.X, leaves)):
            reduced.others(rows.X, self._tree, slot_of, self._tracks)
            there = np.where(self.slot >= 0, self.other - self.n_branches, -1)
            self.other_loss[:] = wide.losses(rows, there, leaves, code, link)
            gain = np.where(self.slot >= 0, rows.weight * (self.leaf_loss - self.other_loss), 0.0)
            self.u[:] = np.where(self.side == 1, -gain, gain)
        else:
            reduced.pseudolabels(rows, self._tree, leaves, code, link, slot_of, self._tracks)
        # axis-aligned thresholds lie between values of all rows, including rows of weight zero in the node problem
        weight = self.u if problem.min_leaf == 1 and problem.splits == "oblique" else problem.w
        group = reduced.group_rows(self.slot, nodes.size, weight)
        u, current_cost = reduced.level_weights(group, self.u, self.side)
        l1, l2 = problem.strength(L1, "splits"), problem.strength(L2, "splits")
        if self.split_lasso:
            l1, counts = self.split_lasso, np.diff(group.start)
            total = np.bincount(np.repeat(np.arange(nodes.size), counts), np.abs(u), nodes.size)
            total[total == 0.0] = 1.0
            u, current_cost = u / np.repeat(total, counts), current_cost / total
        level = LevelProblem(
            problem.X,
            group.order,
            group.start,
            u,
            l1,
            l2,
            problem.min_leaf,
            problem.in_order if problem.splits == "axis" else None,
        )
        return level, current_cost

    def groups(self, level: LevelProblem, whole: bool) -> Iterator[tuple[int, int]]:
        """Ranges of a level's nodes of about `GROUP_WORK` numbers each; one range if ``whole``."""
        if whole:  # one range for solvers that look at the clock themselves, and for exact ones
            yield 0, len(level)
            return
        work = np.cumsum(np.diff(level.start)) * self.problem.n_features
        first = 0
        while first < len(level):
            done = work[first - 1] if first else 0
            last = max(int(np.searchsorted(work, done + GROUP_WORK, side="right")), first + 1)
            yield first, last
            first = last

    def accept(
        self,
        nodes: NDArray[np.int64],
        level: LevelProblem,
        proposed: tuple[Floats, Floats, Floats],
        current_cost: Floats,
        exact: bool,
    ) -> None:
        """Accept the proposed splits of nodes with nonzero row weights; under "improve", only if the objective does not
        rise.

        If an exact node solver finds nothing better than the current split, it is kept.
        """
        A, b, cost = proposed
        take = np.diff(level.start) > 0
        caring = (self.slot >= 0) & (self.u != 0.0)
        take &= np.bincount(self.slot[caring], minlength=nodes.size) > 0
        if exact or self.improve:
            penalised, current = cost + level.penalties(A), current_cost + level.penalties(self.A[nodes])
            take &= penalised < current * (1.0 - 1e-9) if exact else penalised <= current
        if self.problem.min_leaf > 1:
            take &= ~self._starves_a_leaf(nodes, A, b)
        chosen = nodes[take]
        self.A[chosen], self.b[chosen] = A[take], b[take]
        self.feature[chosen] = routing.single_features(A[take])

    def _starves_a_leaf(self, nodes: NDArray[np.int64], A: Floats, b: Floats) -> NDArray[np.bool_]:
        """Which nodes' proposals leave a nonempty leaf below them with fewer than ``min_leaf`` rows."""
        rows = np.flatnonzero(self.slot >= 0)
        slot = self.slot[rows]
        new_side = ~routing.each_left(self.problem.X, rows, A, b, slot)
        leaf = np.where(new_side == (self.side[rows] == 1), self.leaf[rows], self.other[rows])
        counts = np.bincount(leaf, minlength=self.depth.size)
        small = (counts > 0) & (counts < self.problem.min_leaf)
        starved = np.zeros(nodes.size, bool)
        starved[slot[small[leaf]]] = True
        return starved

    def advance(self) -> None:
        """Move the rows of the level to the children of their nodes."""
        reduced.advance(self.problem.X, self._tree, self._tracks)

    def fit_leaves(self, linear: bool) -> None:
        """Refit every leaf on its reduced set (Theorem 3.3); under "improve", leaves that would get worse are kept."""
        problem = self.problem
        values, coefs = self.leaf_arrays[:2]
        number = self.leaf - self.n_branches
        if (coefs.shape[2] > 0) != linear:
            coefs = np.zeros((values.shape[0], problem.n_outputs, problem.n_features if linear else 0))
        new = problem.fit_leaf_arrays(number, values, coefs, self.min_linear_rows, self.leaf_lasso)
        if not self.clip:
            new = records.Leaves(*new[:2], np.zeros((0, 0)), np.zeros((0, 0)))
        same_form = all(x.shape == y.shape for x, y in zip(new, self.leaf_arrays, strict=True))
        link = problem.link(linear)
        leaf_loss = self._losses(new, link)
        if self.improve and same_form and link == self.link:
            n_leaves = values.shape[0]
            l1, l2 = problem.strength(L1, "leaves"), problem.strength(L2, "leaves")

            def leaf_objective(loss: Floats, coefs: Floats) -> Floats:
                penalty = l1 * np.abs(coefs).sum(axis=(1, 2)) + l2 * np.square(coefs).sum(axis=(1, 2))
                return np.bincount(number, problem.w * loss, n_leaves) + penalty

            worse = leaf_objective(leaf_loss, new[1]) > leaf_objective(self.leaf_loss, self.leaf_arrays[1])
            for array, old in zip(new, self.leaf_arrays, strict=True):
                if array.size:
                    array[worse] = old[worse]
            leaf_loss = np.where(worse[number], self.leaf_loss, leaf_loss)
        self.leaves_changed = not same_form or not all(
            np.allclose(x, y, rtol=1e-7, atol=1e-10) for x, y in zip(new[:2], self.leaf_arrays[:2], strict=True)
        )
        self.leaf_arrays, self.link, self.leaf_loss = new, link, leaf_loss

    def snapshot(self) -> dict[str, Any]:
        """The state that `restore` returns to."""
        names = ("A", "b", "feature", "leaf", "leaf_loss")
        copies = {name: getattr(self, name).copy() for name in names}
        return {**copies, "leaf_arrays": records.Leaves(*(x.copy() for x in self.leaf_arrays)), "link": self.link}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go back to a `snapshot`."""
        for name, value in saved.items():
            setattr(self, name, value)

    def _losses(self, leaves: records.Leaves, link: str) -> Floats:
        code = self.problem.loss_code
        return wide.losses_at(self._rows(leaves), self.leaf, leaves, code, LINKS[link])

    def _rows(self, leaves: records.Leaves) -> records.Rows:
        """The rows as kernels take them: with the losses at the leaves as outcomes, where the loss has no code."""
        problem = self.problem
        given = problem.loss_code == codes.TABLE
        return records.Rows(problem.X, problem.leaf_losses(leaves.values) if given else problem.Y, problem.w)

    def pruned(self) -> tuple[Tree, float]:
        """The tree without its dead subtrees, and its objective."""
        values, coefs, lower, upper = self.leaf_arrays
        tree = Tree(
            self.children,
            self.A,
            self.b,
            values,
            coefs,
            lower if lower.size else None,
            upper if upper.size else None,
            self.problem.classes,
            self.link,
        )
        counts = np.bincount(self.leaf - self.n_branches, minlength=tree.n_leaves)
        tree = tree.keep(counts > 0)
        return tree, float(np.sum(self.problem.w * self.leaf_loss)) + self.problem.penalty(tree)
