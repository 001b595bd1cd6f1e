"""Costs of actions and of decisions: a leaf chooses one for all its rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.runtime.options import option
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

    def of_rows(self, Y: Floats, outputs: Floats) -> Floats:
        """The cost of the action with the highest output (n,)."""
        return np.take_along_axis(Y, outputs.argmax(axis=1)[:, None], axis=1)[:, 0]

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


@dataclass(frozen=True)
class Decision(Loss):
    """The extra cost of decisions that are made before their costs are known ("smart predict, then optimize"): a leaf
    predicts costs (d,), their mean on its rows, and all its rows pay for the best decision at these.

    Outcomes are costs (n, d) of edges, items, hours; the loss of a row is what the leaf's decision costs more than the
    row's own best one. The leaf of least loss is the mean, so that the exact search proves such trees.

    See Also
    --------
    ActionCost : where the decisions can be listed
    opttree.TreeProblem : takes it as ``loss``

    References
    ----------
    Elmachtoub and Grigas, "Smart predict, then optimize", Management Science 68 (2022); Elmachtoub, Liang and McNellis,
    "Decision trees for decision-making under the predict-then-optimize framework" (2020).

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.losses import Decision
    >>> from solvers import BranchAndBound, solve
    >>> def two_of_four(costs):                        # the two cheapest items
    ...     chosen = np.zeros(costs.size)
    ...     chosen[np.argsort(costs)[:2]] = 1.0
    ...     return chosen
    >>> X = np.arange(6.0)[:, None]
    >>> costs = np.array([[1, 2, 8, 9], [2, 1, 9, 9], [1, 3, 9, 7], [9, 1, 1, 9], [8, 2, 1, 8], [9, 1, 3, 9.0]])
    >>> problem = TreeProblem(X, costs, depth=1, splits="axis", loss=Decision(two_of_four))
    >>> result = solve(problem, BranchAndBound())
    >>> result.termination.name, result.objective
    ('OPTIMAL', 0.0)
    >>> [two_of_four(costs).tolist() for costs in result.tree.predict(X[[0, 5]])]
    [[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]]
    """

    decide: Any = option(
        doc="""A function of costs (d,) that returns a decision (d,) of least cost: the amounts that are multiplied by
        the costs. `BranchAndBound`, `LocalSearch` and "hyperflow" need one that numba compiles, others do not.""",
        test=callable,
        words="a function of costs",
    )

    joint = True

    @property
    def cost(self) -> Any:
        """A function of sums of `statistics`, for numba, see `Loss.cost`."""
        return _regret(self.decide)

    def check(self, y: Floats) -> None:
        """ValueError for one column, and for decisions of another shape."""
        if y.ndim != 2:
            raise ValueError(f"y must hold costs (n, d) for loss=Decision(...); got {y.shape}")
        chosen = self._decided(y[0])
        if chosen.shape != y.shape[1:] or not np.isfinite(chosen).all():
            raise ValueError(f"decide must return a finite amount for each of {y.shape[1]} costs; got {chosen}")

    def value(self, y: Floats, prediction: Floats) -> Floats:
        """What the decision at the predicted costs costs more than the best one, by columns (n, d)."""
        rows, which = np.unique(np.broadcast_to(prediction, y.shape), axis=0, return_inverse=True)
        chosen = np.array([self._decided(row) for row in rows])[which.reshape(-1)]
        return y * (chosen - np.array([self._decided(row) for row in y]))

    def _decided(self, costs: Floats) -> Floats:
        return np.asarray(self.decide(costs.copy()), np.float64)

    def of_rows(self, Y: Floats, outputs: Floats) -> Floats:
        """Extra costs, without rounding errors below 0."""
        return np.maximum(self.value(Y, outputs).sum(axis=1), 0.0)

    def constant(self, y: Floats, w: Floats) -> float:
        """The mean costs (d,)."""
        return w @ y / w.sum()

    def constants(self, Y: Floats, w: Floats, order: NDArray[Any], start: NDArray[Any], n_outputs: int) -> Floats:
        """The mean costs of each group."""
        best = np.zeros((len(start) - 1, n_outputs))
        some = np.flatnonzero(np.diff(start))
        if some.size:
            sums = np.add.reduceat(np.column_stack([Y, np.ones(len(Y))])[order] * w[order, None], start[some], axis=0)
            best[some] = sums[:, :-1] / sums[:, -1:]
        return best

    def statistics(self, y: Floats) -> Floats:
        """The costs, and that of the best decision (n, d + 1)."""
        return np.column_stack([y, [float(row @ self._decided(row)) for row in y]])


@cache
def _regret(decide: Any) -> Any:
    """`Loss.cost` of sums of costs and of the least ones, for decisions by a function, which numba compiles."""
    from numba import njit

    inside = njit(decide) if not hasattr(decide, "py_func") else decide

    def cost(s: Floats) -> float:
        total = s[:-1].copy()
        chosen = inside(total)
        value = -s[-1]
        for k in range(total.size):
            value += total[k] * chosen[k]
        return value

    return cost
