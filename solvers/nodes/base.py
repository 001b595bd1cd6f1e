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
    """Finds hyperplanes for node problems. Subclasses find one direction, or all directions of a level."""

    axis_aligned = False
    exact = False  # whether the split found is a global optimum of the weighted 0/1 loss

    def penalty_refusal(self, level_l1: float, level_l2: float) -> str | None:
        """Reason why the node solver cannot take penalties on splits.

        Parameters
        ----------
        level_l1 : float
            Strength of the l1 penalty.
        level_l2 : float
            Strength of the l2 penalty.

        Returns
        -------
        str or None
            One sentence, or None if it can take them.
        """
        return None

    def solve(self, problem: NodeProblem, a: Floats, b: float, rng: Rng) -> tuple[Floats, float]:
        """Find the hyperplane of one node, before the exact threshold search.

        Parameters
        ----------
        problem : NodeProblem
            The weighted 0/1 problem of the node.
        a : ndarray of shape (p,)
            Weights to start from.
        b : float
            Threshold to start from.
        rng : numpy.random.Generator
            Random numbers.

        Returns
        -------
        a : ndarray of shape (p,)
            Weights.
        b : float
            Threshold.
        """
        raise NotImplementedError(f"{type(self).__name__} must define solve")

    def looks_at_the_clock(self, level: LevelProblem) -> bool:
        """Whether `directions` ends by itself when time is up.

        Parameters
        ----------
        level : LevelProblem
            The problems of the nodes.

        Returns
        -------
        bool
            The answer.
        """
        return False

    def directions(self, level: LevelProblem, A: Floats, b: Floats, rng: Rng) -> tuple[Floats, Floats]:
        """`solve` for every node of a level that has rows.

        Parameters
        ----------
        level : LevelProblem
            The problems of the nodes.
        A : ndarray of shape (nodes, p)
            Weights to start from.
        b : ndarray of shape (nodes,)
            Thresholds to start from.
        rng : numpy.random.Generator
            Random numbers.

        Returns
        -------
        A : ndarray of shape (nodes, p)
            Weights.
        b : ndarray of shape (nodes,)
            Thresholds.
        """
        A, b = A.copy(), b.copy()
        for s, problem in enumerate(level):
            if problem.rows.size:
                A[s], b[s] = self.solve(problem, A[s], b[s], rng)
        return A, b

    def solve_level(self, level: LevelProblem, A: Floats, b: Floats, rng: Rng) -> tuple[Floats, Floats, Floats]:
        """Find new splits of the nodes of a level.

        Parameters
        ----------
        level : LevelProblem
            The problems of the nodes.
        A : ndarray of shape (nodes, p)
            Current weights.
        b : ndarray of shape (nodes,)
            Current thresholds.
        rng : numpy.random.Generator
            Random numbers.

        Returns
        -------
        A : ndarray of shape (nodes, p)
            Directions from `solve`.
        b : ndarray of shape (nodes,)
            Thresholds that minimise the weighted 0/1 loss along the directions.
        cost : ndarray of shape (nodes,)
            That loss of each node.
        """
        A, b = self.directions(level, A, b, rng)
        return A, b, fit_thresholds(level.rows, Splits(A, b, single_features(A)), level.min_leaf)
