"""Costs of actions: a leaf chooses one for all its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.statement.losses.base import Loss

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ActionCost(Loss):
    """The mean cost of actions, ``loss="cost"``: outcomes are the costs (n, K) of K actions, and a leaf chooses the
    action that costs its rows the least. Actions are the classes 0 to K - 1 of the trees.

    A matrix of rewards is one of costs after ``rewards.max(axis=1, keepdims=True) - rewards``, the regrets.

    See Also
    --------
    opttree.PolicyTree : the estimator
    opttree.TreeProblem : takes it by its name, "cost"

    References
    ----------
    Zhou, Athey and Wager, "Offline multi-action policy learning: generalization and optimization" (2023).

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from solvers import BranchAndBound, solve
    >>> X = np.arange(6.0)[:, None]
    >>> costs = np.array([[0, 4], [1, 3], [0, 2], [5, 0], [2, 1], [3, 1]])
    >>> result = solve(TreeProblem(X, costs, depth=1, splits="axis", loss="cost"), BranchAndBound())
    >>> result.tree.predict(X).tolist(), result.objective        # (0 + 1 + 0 + 0 + 1 + 1) / 6
    ([0, 0, 0, 1, 1, 1], 0.5)
    """

    name = "cost"
    joint = chooses = True
    criterion = "gini"

    def check(self, y: Floats) -> None:
        """ValueError for fewer than two actions, and for costs below zero."""
        if y.ndim != 2 or y.shape[1] < 2:
            raise ValueError(f"y must hold the costs of two or more actions, (n, K), for loss='cost'; got {y.shape}")
        if y.min() < 0.0:
            raise ValueError(
                f"y must be >= 0 for loss='cost', got {y.min():g}; of rewards take max(axis=1, keepdims=True) - rewards"
            )

    def value(self, y: Floats, prediction: Floats) -> Floats:
        """The cost of the action with the highest output, in its column (n, K)."""
        chosen = prediction.argmax(axis=1)[:, None] == np.arange(y.shape[1])
        return np.where(chosen, y, 0.0)

    def constant(self, y: Floats, w: Floats) -> float:
        """The action of the least weighted cost of rows ``y (m, K)``."""
        return float(np.argmin(w @ y))

    def constants(self, Y: Floats, w: Floats, order: NDArray[Any], start: NDArray[Any], n_outputs: int) -> Floats:
        """1 for the action of each group, 0 for all others."""
        best = np.zeros((len(start) - 1, n_outputs))
        some = np.flatnonzero(np.diff(start))
        if some.size:
            sums = np.add.reduceat(w[order, None] * Y[order], start[some], axis=0)
            best[some, sums.argmin(axis=1)] = 1.0
        return best

    def least(self, y: Floats) -> Floats:
        """The cost of each row's own best action."""
        return y.min(axis=1)

    def statistics(self, y: Floats) -> Floats:
        """What each action costs more than the best one, (n, K)."""
        return y - y.min(axis=1, keepdims=True)

    @staticmethod
    def cost(s: Floats) -> float:
        """The least of the sums."""
        return s.min()

    def pseudo(self, y: Floats) -> tuple[Floats, Floats]:
        """The best action of each row, which weighs what the others cost more on average."""
        return y.argmin(axis=1).astype(np.float64), self.statistics(y).sum(axis=1) / (y.shape[1] - 1)
