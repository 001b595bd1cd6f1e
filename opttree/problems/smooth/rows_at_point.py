"""What every row meets at a point of the smooth tree: its gates and its losses at the leaves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.smooth import subtree
from opttree.problems.smooth.blocks import packed
from opttree.problems.smooth.problem import SmoothTreeProblem

Floats = NDArray[np.floating]


class RowsAtPoint:
    """Gates and leaf losses of all rows at a point that moves a few splits and leaves at a time.

    A decomposition reads rows, weights and losses of its working sets off here, and computes anew what has moved.

    Attributes
    ----------
    theta : ndarray of shape (size,)
        The point.
    gates : ndarray of shape (B, n or more)
        Probability that a row goes left at each branch; columns beyond n are padding.
    losses : ndarray of shape (L, n or more)
        Loss of each row at each leaf.
    """

    def __init__(self, whole: SmoothTreeProblem, theta: Floats) -> None:
        problem = whole.problem
        self.whole, self.theta = whole, theta
        self._data = packed(problem, "float64")
        width = self._data.w.size
        self.gates = np.empty((whole.n_branches, width))
        self.losses = np.empty((whole.n_branches + 1, width))
        self.move(theta, np.arange(whole.n_branches), slice(0, whole.n_branches + 1))

    def move(self, theta: Floats, branches: NDArray[np.int64] | None = None, leaves: slice = slice(0)) -> None:
        """Go to ``theta (size,)``, which differs from the point at ``branches`` and ``leaves`` only."""
        self.theta = theta
        A, b, values, coefs = self.whole.unpack(theta)
        X, Y, _w = self._data
        if branches is not None:
            subtree.set_gates(X, A, b, float(self.whole.alpha), branches, self.gates)
        if leaves.stop > (leaves.start or 0):
            code = self.whole.problem.loss_code
            subtree.set_losses(X, Y, values[leaves], coefs[leaves], code, self.losses[leaves])

    def value(self) -> float:
        """The objective of the whole smooth tree at the point, as `SmoothTreeProblem.value`."""
        A, b, values, coefs = self.whole.unpack(self.theta)
        penalty = self.whole.penalty
        value = subtree.expected_loss(self.gates, self.losses, self._data.w) / self.whole.problem.n_samples
        for part, l1, l2 in (
            (A, penalty.l1_splits, penalty.l2_splits),
            (b, 0.0, penalty.l2_thresholds),
            (values, 0.0, penalty.l2_constants),
            (coefs, penalty.l1_leaves, penalty.l2_leaves),
        ):
            if l1 or l2:
                value += l1 * float(np.sum(np.abs(part))) + l2 * float(np.sum(np.square(part)))
        return value
