"""S-OCT: rows choose leaves, and cuts say which rows no hyperplane divides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import lil_array

from opttree.model.tree import Tree
from opttree.problems.mip.complete import Complete
from opttree.problems.mip.cuts import Cut
from opttree.statement.numbers import unit_range
from opttree.statement.problem import TreeProblem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ShatterProgram:
    """Oblique trees without big-M rows on hyperplanes, for 0/1 loss and costs of actions.

    Variables, in this order: ``at[g, l]``, whether distinct row g is at leaf l of the complete tree; ``answer[l, k]``;
    ``split[t]``, whether a branch has rows on its right; ``lost[l]``, what a leaf costs. Hyperplanes are not there:
    where the rows left and right of a branch have convex hulls that meet, those of some p + 2 of them meet, and not all
    of these may be on their sides (a shattering inequality). The linear program has the value 0 but for the errors that
    no tree can save.
    """

    def __init__(self, problem: TreeProblem) -> None:
        self.problem, self.tree = problem, Complete(problem.depth)
        low, scale = unit_range(problem.X)
        self.points, group = np.unique((problem.X - low) / scale, axis=0, return_inverse=True)
        self.low, self.scale, self.group = low, scale, group.reshape(-1)
        K = problem.n_outputs
        lost = problem.Y if problem.loss_function.chooses else 1.0 - (np.arange(K) == problem.Y)
        costs = np.zeros((len(self.points), K))
        np.add.at(costs, self.group, problem.w[:, None] * lost)
        self.offset = float(costs.min(axis=1).sum())
        self.costs = costs - costs.min(axis=1, keepdims=True)
        self.unit = float(self.costs.max(initial=0.0)) or 1.0
        self.n_at, self.n_answer = len(self.points) * self.tree.n_leaves, self.tree.n_leaves * K
        self.n_columns = self.n_at + self.n_answer + self.tree.n_branches + self.tree.n_leaves

    def at(self, g: Any, leaf: Any) -> Any:
        """Place of ``at[g, leaf]`` in a point."""
        return g * self.tree.n_leaves + leaf

    def rows(self) -> dict[str, Any]:
        """The program as arrays in units of `unit`, without its offset; HiGHS's names."""
        G, L, B, K = len(self.points), self.tree.n_leaves, self.tree.n_branches, self.problem.n_outputs
        first, last = self.n_at, self.n_at + self.n_answer
        costs, every = self.costs / self.unit, np.arange(G)
        matrix = lil_array((G + L + L * K + G * B + max(B - 1, 0), self.n_columns))
        low, high = np.full(matrix.shape[0], -np.inf), np.zeros(matrix.shape[0])
        row = 0
        for g in range(G):
            matrix[row, self.at(g, np.arange(L))] = 1.0
            low[row] = high[row] = 1.0
            row += 1
        for leaf in range(L):
            matrix[row, first + leaf * K + np.arange(K)] = 1.0
            low[row] = high[row] = 1.0
            row += 1
            for k in range(K):
                most = float(costs[:, k].sum())
                matrix[row, self.at(every, leaf)] = costs[:, k]
                matrix[row, first + leaf * K + k] = most
                matrix[row, last + B + leaf] = -1.0
                high[row] = most
                row += 1
        for t in range(B):
            right = np.array(self.tree.below(2 * t + 2))
            for g in range(G):
                matrix[row, self.at(g, right)] = 1.0
                matrix[row, last + t] = -1.0
                row += 1
            if t:
                matrix[row, last + t], matrix[row, last + (t - 1) // 2] = 1.0, -1.0
                row += 1
        whole = matrix.tocsc()
        cost, upper = np.zeros(self.n_columns), np.ones(self.n_columns)
        cost[last : last + B], cost[last + B :], upper[last + B :] = (
            self.problem.price_per_split / self.unit,
            1.0,
            np.inf,
        )
        return {
            "n_columns": self.n_columns,
            "n_rows": matrix.shape[0],
            "col_cost_": cost,
            "col_lower_": np.zeros(self.n_columns),
            "col_upper_": upper,
            "row_lower_": low,
            "row_upper_": high,
            "matrix": (whole.indptr.astype(np.int32), whole.indices.astype(np.int32), whole.data),
            "integer": np.arange(self.n_columns) < last + B,
        }

    def _sides(self, point: Floats, t: int) -> tuple[Ints, Ints]:
        """The distinct rows left and right of a branch."""
        leaf = point[: self.n_at].reshape(len(self.points), -1).argmax(axis=1)
        left, right = self.tree.below(2 * t + 1), self.tree.below(2 * t + 2)
        return np.flatnonzero(np.isin(leaf, left)), np.flatnonzero(np.isin(leaf, right))

    def shattered(self, point: Floats) -> Iterator[Cut]:
        """A row for each branch whose sides have hulls that meet, and its mirror image."""
        for t in range(self.tree.n_branches):
            left, right = self._sides(point, t)
            if not left.size or not right.size:
                continue
            meet = meeting(self.points[left], self.points[right])
            if meet is None:
                continue
            some = left[meet[0]], right[meet[1]]
            sides = np.array(self.tree.below(2 * t + 1)), np.array(self.tree.below(2 * t + 2))
            for first, second in (sides, sides[::-1]):
                places = [self.at(g, side) for rows, side in zip(some, (first, second), strict=True) for g in rows]
                flat = np.concatenate(places)
                yield Cut(flat, np.ones(len(flat)), float(len(some[0]) + len(some[1]) - 1))

    def chosen(self, point: Floats) -> Tree:
        """The tree of the rows' leaves, by hyperplanes midway between them; leaves are zero."""
        splits = {}
        for t in range(self.tree.n_branches):
            left, right = self._sides(point, t)
            parent = (t - 1) // 2
            if not right.size or (t and parent not in splits):
                continue
            a, b = divider(self.points[left], self.points[right])
            weights = a / self.scale
            splits[t] = weights, b + float(weights @ self.low)
        return self.problem.live(self.tree.decode(splits, self.problem))

    def encode(self, tree: Tree) -> Floats:
        """A tree as a point."""
        point, K = np.zeros(self.n_columns), self.problem.n_outputs
        placed = self.tree.place(tree, self.problem.X)
        leaf = np.zeros(len(self.points), np.int64)
        leaf[self.group] = placed.leaf
        point[self.at(np.arange(len(leaf)), leaf)] = 1.0
        answer = tree.values.argmax(axis=1)[placed.owner]
        point[self.n_at + np.arange(len(answer)) * K + answer] = 1.0
        last = self.n_at + self.n_answer
        point[last + np.array(list(placed.branches), np.int64)] = 1.0
        spent = np.zeros(self.tree.n_leaves)
        np.add.at(spent, leaf, self.costs[np.arange(len(leaf)), answer[leaf]] / self.unit)
        point[last + self.tree.n_branches :] = spent
        return point


def meeting(left: Floats, right: Floats) -> tuple[Ints, Ints] | None:
    """Some p + 2 rows of two sets at most whose convex hulls meet, or None where a hyperplane divides the sets."""
    a, b, p = len(left), len(right), left.shape[1]
    equal = np.zeros((p + 2, a + b))
    equal[:p, :a], equal[:p, a:] = left.T, -right.T
    equal[p, :a] = equal[p + 1, a:] = 1.0
    aim = np.append(np.zeros(p), np.ones(2))
    found = linprog(np.zeros(a + b), A_eq=equal, b_eq=aim, bounds=(0.0, None), method="highs-ds")
    if found.x is None:
        return None
    some = np.flatnonzero(found.x > 0.0)
    return some[some < a], some[some >= a] - a


def divider(left: Floats, right: Floats) -> tuple[Floats, float]:
    """A hyperplane ``a . x <= b`` with ``left`` on one side, as far from both sets as weights of 1 at most allow."""
    p = left.shape[1]
    rows = np.vstack([np.hstack([left, -np.ones((len(left), 1)), np.ones((len(left), 1))]),
                      np.hstack([-right, np.ones((len(right), 1)), np.ones((len(right), 1))])])  # fmt: skip
    bounds = [(-1.0, 1.0)] * p + [(None, None), (None, 1.0)]
    aim = np.append(np.zeros(p + 1), -1.0)
    found = linprog(aim, A_ub=rows, b_ub=np.zeros(len(rows)), bounds=bounds, method="highs-ds")
    return found.x[:p], float(found.x[p])
