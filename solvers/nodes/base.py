"""The interface of node solvers."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels.passes.reduced import fit_thresholds
from opttree.kernels.records import Splits
from opttree.kernels.routing import single_features
from opttree.problems import LevelProblem, NodeProblem
from opttree.runtime.options import Checked

Floats = NDArray[np.float64]


class NodeSolver(Checked):
    """Finds hyperplanes for node problems. Subclasses define how to find one direction, or those of a whole level."""

    axis_aligned = False
    exact = False  # whether the split found is a global optimum of the weighted 0/1 loss

    def penalty_refusal(self, level_l1: float, level_l2: float) -> str | None:
        """Reason why the node solver cannot take these l1 and l2 penalties on splits; None if it can."""
        return None

    def solve(self, problem: NodeProblem, a: Floats, b: float, rng: Rng) -> tuple[Floats, float]:
        """Hyperplane ``(a (p,), b)`` of one node from the warm start ``(a, b)``, before the exact threshold search."""
        raise NotImplementedError(f"{type(self).__name__} must define solve")

    def directions(self, level: LevelProblem, A: Floats, b: Floats, rng: Rng) -> tuple[Floats, Floats]:
        """`solve` for every node of a level that has rows."""
        A, b = A.copy(), b.copy()
        for s, problem in enumerate(level):
            if problem.rows.size:
                A[s], b[s] = self.solve(problem, A[s], b[s], rng)
        return A, b

    def solve_level(self, level: LevelProblem, A: Floats, b: Floats, rng: Rng) -> tuple[Floats, Floats, Floats]:
        """New splits of a level's nodes from the current ``A (nodes, p)``, ``b (nodes,)``.

        Returns
        -------
        A, b, cost
            The direction from `solve`, the threshold that minimises the weighted 0/1 loss along it, and that loss.
        """
        A, b = self.directions(level, A, b, rng)
        return A, b, fit_thresholds(level.rows, Splits(A, b, single_features(A)), level.min_leaf)
