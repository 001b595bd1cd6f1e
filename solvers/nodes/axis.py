"""Axis-aligned nodes: the weighted 0/1 problem over one feature and one threshold, solved exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels.passes.thresholds import best_axis_splits
from opttree.kernels.routing import is_sparse
from opttree.kernels.wide.sparse import best_axis_splits as best_sparse_splits
from opttree.problems import LevelProblem, NodeProblem
from opttree.wide.sparse import sorted_columns
from solvers.nodes.base import NodeSolver

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AxisNode(NodeSolver):
    """Exact enumeration of features, thresholds and both orientations, with penalty, in O(n p) for all nodes of a level
    together.

    Weights are +1 (low values left) or -1 (low values right). If sending all rows one way is best, the split is the
    zero vector with a threshold of +1 (all left) or -1 (all right).

    See Also
    --------
    TAO : takes it as ``node_solver``, by default for axis-aligned splits

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import TAO, AxisNode, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2, splits="axis")
    >>> solve(problem, TAO(node_solver=AxisNode()), random_state=0).tree.is_axis_aligned
    True
    """

    axis_aligned = True
    exact = True

    def solve(self, problem: NodeProblem, a: Floats, b: float, rng: Rng) -> tuple[Floats, float]:
        """One node."""
        level = LevelProblem(
            problem.X,
            problem.rows,
            np.array([0, problem.rows.size]),
            problem.u,
            problem.l1,
            problem.l2,
            problem.min_leaf,
        )
        A, b_new, _cost = self.solve_level(level, a[None], np.array([b]), rng)
        return A[0], float(b_new[0])

    def solve_level(self, level: LevelProblem, A: Floats, b: Floats, rng: Rng) -> tuple[Floats, Floats, Floats]:
        """All nodes of a level in one scan per feature, over columns sorted once per problem."""
        slot = np.full(level.X.shape[0], -1, np.int32)
        u = np.zeros(level.X.shape[0])
        slot[level.order] = np.repeat(np.arange(len(level), dtype=np.int32), np.diff(level.start))
        u[level.order] = level.u
        settings = slot, u, len(level), level.min_leaf, level.l1 + level.l2
        if is_sparse(level.X):
            columns = sorted_columns(level.X) if level.presorted is None else level.presorted
            feature, threshold, cost, side = best_sparse_splits(columns, *settings)
        else:
            feature, threshold, cost, side = best_axis_splits(*self._presorted(level), *settings)
        A, b = np.zeros_like(A), side * threshold
        split = np.isfinite(threshold)
        A[split, feature[split]] = side[split]
        b[~split] = np.sign(threshold[~split])
        return A, b, cost

    def _presorted(self, level: LevelProblem) -> tuple[NDArray[np.int32], Floats]:
        """The rows in increasing order of each feature, and its values in that order."""
        if level.presorted is None:
            order = np.argsort(level.X, axis=0, kind="stable").T.astype(np.int32)
            return order, np.take_along_axis(level.X.T, order, axis=1)
        return level.presorted
