"""Reduced problems of branch nodes (TAO paper, Theorem 3.2): one hyperplane under a weighted 0/1 loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.algebra.logistic import logistic_loss
from opttree.kernels.passes import reduced
from opttree.kernels.records import Group
from opttree.kernels.routing import goes_left
from opttree.statement.penalties import unit_norm

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NodeProblem:
    """Minimise over (a, b):  ``sum_i |u_i| [row i is sent to its wrong side]``  plus penalties on a.

    The statement's penalty is ``l1 |a|_1 + l2 |a|_2^2`` for a at unit length (`LevelProblem.penalties`); surrogate
    losses depend on the length of a and use the penalty of the weights as they are (`penalty`, `surrogate`).

    Parameters
    ----------
    X : ndarray of shape (n, p)
        All rows.
    rows : ndarray of int of shape (m,)
        Numbers of the rows of the node.
    u : ndarray of shape (m,)
        Signed weights: the loss if sent left minus the loss if sent right, times the row's weight. The pseudolabel is
        right where ``u > 0``, left where ``u < 0``; zero where the sides are equally good.
    l1, l2 : float, default 0.0
        Penalties on the split weights, in the units of ``u``.
    min_leaf : int, default 1
        Fewest rows on either side, unless a side is empty.
    """

    X: Floats
    rows: NDArray[np.int32]
    u: Floats
    l1: float = 0.0
    l2: float = 0.0
    min_leaf: int = 1

    @property
    def labels(self) -> NDArray[np.int64]:
        """(m,) pseudolabels: +1 for right, -1 for left (and for ties, whose weight is zero)."""
        return np.where(self.u > 0.0, 1, -1)

    @property
    def weights(self) -> Floats:
        """(m,) cost of sending each row to its wrong side."""
        return np.abs(self.u)

    def penalty(self, a: Floats) -> float:
        """The surrogate's penalty on split weights ``a (p,)``, not normalised."""
        return float(self.l1 * np.abs(a).sum() + self.l2 * np.square(a).sum())

    def cost(self, a: Floats, b: float) -> float:
        """Weighted 0/1 loss of the split ``a.x <= b``, without the penalty (eq. 4)."""
        right = ~goes_left(self.X, a, b, self.rows)
        return float(self.weights[right != (self.u > 0.0)].sum())

    def surrogate(self, a: Floats, b: float) -> float:
        """The objective of the logistic node solvers: weighted logistic loss plus the penalty."""
        z = self.X[self.rows] @ a - b
        return float(logistic_loss(z, z, 0.0, self.u)) + self.penalty(a)


@dataclass(frozen=True, eq=False)
class LevelProblem:
    """The node problems of one level of a tree, which are separable (Theorem 3.1) and solved independently.

    Rows of node s are ``order[start[s]:start[s + 1]]``; ``u`` is aligned with ``order``. ``presorted``, the rows
    in increasing order of each feature and its values in that order, (p, n) each, or `SortedColumns` of a sparse table,
    spares axis-aligned node solvers the sorting.
    """

    X: Floats
    order: NDArray[np.int32]
    start: NDArray[np.int64]
    u: Floats
    l1: float
    l2: float
    min_leaf: int = 1
    presorted: Any = None

    def __len__(self) -> int:
        return self.start.size - 1

    @property
    def rows(self) -> reduced.Level:
        """The level as kernels take it."""
        return reduced.Level(self.X, Group(self.order, self.start), self.u)

    def __getitem__(self, s: int) -> NodeProblem:
        piece = slice(self.start[s], self.start[s + 1])
        return NodeProblem(self.X, self.order[piece], self.u[piece], self.l1, self.l2, self.min_leaf)

    def __iter__(self) -> Iterator[NodeProblem]:
        return (self[s] for s in range(len(self)))

    def part(self, first: int, last: int) -> LevelProblem:
        """The nodes ``first..last - 1`` as a separate `LevelProblem`."""
        piece = slice(self.start[first], self.start[last])
        return LevelProblem(
            self.X,
            self.order[piece],
            self.start[first : last + 1] - self.start[first],
            self.u[piece],
            self.l1,
            self.l2,
            self.min_leaf,
            self.presorted,
        )

    def penalties(self, A: Floats) -> Floats:
        """(nodes,) penalty of each row of ``A``, at unit length as in the statement."""
        A = unit_norm(A)
        total = np.zeros(len(A))
        if self.l1 > 0.0:
            total += self.l1 * np.abs(A).sum(axis=1)
        if self.l2 > 0.0:
            total += self.l2 * np.square(A).sum(axis=1)
        return total
