"""The working set of a decomposition: the splits at and below one branch node of the smooth tree, all else fixed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.losses import codes
from opttree.kernels.smooth import subtree, walk as smooth
from opttree.kernels.smooth.first_order import lbfgs, lbfgs_elsewhere, lbfgs_memory
from opttree.problems.smooth.blocks import empty_blocks
from opttree.problems.smooth.problem import TILE_LEVELS, SmoothTreeProblem, path_products
from opttree.problems.smooth.rows_at_point import RowsAtPoint

Floats = NDArray[np.floating]
DEVICE_ROWS = 2000  # fewer rows are evaluated on the CPU


@dataclass(frozen=True, eq=False)
class SubtreeProblem:
    """Minimise a smooth objective over the splits at and below one branch node (SRT paper, BN step of section 4.1).

    With leaves fixed, the expected loss is linear in the leaves' losses of each row, which are computed once; the rest
    is a smooth tree of gates, evaluated by the same kernel as the whole tree. Two forms (section 5.2):

    - exact: all rows, row i weighted by ``w_i P_t(x_i)``, with P_t its probability of reaching the node. This is the
      objective of the whole tree up to a constant.
    - proxy: the rows whose path of highest branch probability (HBP) passes the node, as if they reached it with
      certainty, ``P_t = 1``. The paper does not fix the scale of this form; here the weights are ``w_i`` of the whole
      problem, so that penalties keep their meaning and both forms agree at the root.

    Parameters
    ----------
    whole : SmoothTreeProblem
        The smooth problem; expected aggregation.
    theta : ndarray of shape (size,)
        The current point, whose other parts stay fixed.
    node : int, default 0
        Branch node t, numbered breadth-first from 0.
    alone : bool, default False
        Whether only the split of the node itself may move.
    exact : bool, default True
        Whether the form is exact, or else the proxy.
    point : RowsAtPoint or None, default None
        Gates and losses of all rows at ``theta``; None: they are computed. Where it is moved, this problem is of the
        time before: its rows and weights stay, its other quantities must have been read.

    Raises
    ------
    ValueError
        For another aggregation, or a node that is not a branch; on evaluation, if no row passes the node.

    See Also
    --------
    solvers.NODEC : what decomposes so

    References
    ----------
    Consolo, Amaldi and Manno, "Soft regression trees: a model variant and a decomposition training algorithm"
    (2024).

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 2))
    >>> y = np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0)
    >>> from opttree import SmoothTreeProblem, SubtreeProblem
    >>> smooth = SmoothTreeProblem(TreeProblem(X, y, depth=2), alpha=5.0)
    >>> theta = smooth.best_leaves(smooth.random_theta(rng))
    >>> part = SubtreeProblem(smooth, theta, node=1)
    >>> before, gradient = part.value_and_grad(part.start)
    >>> part.value_and_grad(part.start - 0.1 * gradient)[0] < before
    True
    """

    whole: SmoothTreeProblem
    theta: Floats
    node: int = 0
    alone: bool = False
    exact: bool = True
    point: RowsAtPoint | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if (reason := self.refusal(self.whole)) is not None:
            raise ValueError(f"whole must be decomposable: {reason}")
        if self.point is not None and self.point.theta is not self.theta:
            raise ValueError("point must be at theta; it is elsewhere: leave it out")
        if not 0 <= self.node < self.whole.n_branches:
            raise ValueError(f"node must be a branch node, 0..{self.whole.n_branches - 1}; got {self.node}")

    @staticmethod
    def refusal(whole: SmoothTreeProblem) -> str | None:
        """Reason why a problem cannot be decomposed into problems in the splits alone.

        Parameters
        ----------
        whole : SmoothTreeProblem
            The smooth problem.

        Returns
        -------
        str or None
            One sentence, or None.
        """
        if whole.aggregation != "expected":
            return f"its aggregation is {whole.aggregation!r}, and only 'expected' is linear in the leaves' losses"
        return None

    # ---- nodes and rows -------------------------------------------------------------------------------------------

    @cached_property
    def path(self) -> list[tuple[int, bool]]:
        """The branches above the node, from the root, and whether the path goes left there."""
        steps, t = [], self.node
        while t > 0:
            steps.append(((t - 1) // 2, t % 2 == 1))
            t = (t - 1) // 2
        return steps[::-1]

    @cached_property
    def below(self) -> NDArray[np.int64]:
        """The branches at and below the node, breadth-first: (2^h - 1,) for a height h above the leaves."""
        return np.concatenate([((self.node + 1) << e) - 1 + np.arange(1 << e) for e in range(self.height)])

    @property
    def height(self) -> int:
        """Levels of branches at and below the node."""
        return self.whole.problem.depth - len(self.path)

    @property
    def branches(self) -> NDArray[np.int64]:
        """The working set: branches whose splits may move."""
        return self.below[:1] if self.alone else self.below

    @property
    def leaves(self) -> slice:
        """The leaves below the node, as numbers 0..L-1."""
        count = self.below.size + 1
        first = (self.node + 1) * count - 1 - self.whole.n_branches
        return slice(first, first + count)

    @cached_property
    def _reach(self) -> tuple[NDArray[np.int32], Floats]:
        """The rows of the problem and their weights."""
        problem, gates = self.whole.problem, self.at_point.gates
        above = np.array([t for t, _left in self.path], np.int64)
        goes_left = np.array([left for _t, left in self.path], bool)
        if not self.exact:
            rows = subtree.passing(gates, above, goes_left, problem.n_samples)
            return rows, problem.w[rows]
        weights = problem.w
        for t, left in self.path:
            side = gates[t, : problem.n_samples]
            weights = weights * (side if left else 1.0 - side)
        return np.arange(problem.n_samples, dtype=np.int32), weights

    @property
    def rows(self) -> NDArray[np.int32]:
        """Numbers of the rows of the problem: (m,)."""
        return self._reach[0]

    @property
    def weights(self) -> Floats:
        """Weights (m,) of these rows, normalised as in the whole problem."""
        return self._reach[1]

    @cached_property
    def share(self) -> float:
        """Sum of the weights: the rows' share of the whole."""
        return float(np.sum(self.weights))

    @cached_property
    def at_point(self) -> RowsAtPoint:
        """Gates and losses of all rows at ``theta``."""
        return RowsAtPoint(self.whole, self.theta) if self.point is None else self.point

    @property
    def losses(self) -> Floats:
        """Losses of the rows at each leaf below: (m, leaves)."""
        return self.at_point.losses[self.leaves].T[self.rows]

    @property
    def left_probabilities(self) -> Floats:
        """Gates of the branches below at ``theta``: (m, 2^h - 1)."""
        return self.at_point.gates[self.below].T[self.rows]

    @property
    def leaf_weights(self) -> Floats:
        """Weights of the rows at each leaf below, ``weights`` times path probabilities: (m, leaves)."""
        return subtree.leaf_weights(self.rows, self.weights, self.at_point.gates, self.node, self.height)

    @cached_property
    def row_losses(self) -> Floats:
        """Expected loss of each row in the subtree at ``theta`` (the paper's (18)): (m,)."""
        return np.einsum("ij,ij->i", path_products(self.left_probabilities), self.losses)

    # ---- the problem ----------------------------------------------------------------------------------------------

    @property
    def on_gpu(self) -> bool:
        """Whether it is evaluated on the device of the whole problem: on the CPU where there are few rows."""
        return self.whole.uses_device and self.rows.size >= DEVICE_ROWS

    @cached_property
    def stated(self) -> smooth.Objective:
        """The kernels' inputs: rows with the leaves' losses in place of y, in blocks or on a GPU; formulation;
        penalties.

        Their objective is that of `value_and_grad` divided by `share`.
        """
        if not self.share > 0.0:
            raise ValueError(f"node must be on the path of some rows; no row passes node {self.node}")
        problem, point = self.whole.problem, self.at_point
        m, levels = self.rows.size, 1 if self.alone else self.height
        n_tiles = -(-levels // TILE_LEVELS)
        form = smooth.Form(levels, -(-levels // n_tiles), 0.0, codes.TABLE, codes.EXPECTED, problem.n_features, 0, 0)
        whole = self.whole.penalty
        penalty = smooth.Penalty(
            whole.l1_splits / self.share, whole.l2_splits / self.share, 0.0, 0.0, whole.l2_thresholds / self.share, 0.0
        )
        data = empty_blocks(m, problem.n_features, 1 << levels, self.whole.dtype)
        weights = self.weights * (m / self.share)
        below = subtree.Below(self.node, self.height, levels)
        subtree.pack_subtree(problem.X, self.rows, weights, (point.gates, point.losses), below, data)
        if self.on_gpu:
            losses = data.Y.transpose(0, 2, 1).reshape(-1, 1 << levels)[:m]
            table = problem.X[self.rows], losses, weights
            return smooth.Objective(self.whole.to_device([table], form, [penalty]), form, penalty)
        return smooth.Objective(data, form, penalty)

    @property
    def start(self) -> Floats:
        """The part of ``theta`` in the working set: weights, then thresholds, ``(branches (p + 1),)``."""
        A, b, _values, _coefs = self.whole.unpack(self.theta)
        return np.concatenate([A[self.branches].ravel(), b[self.branches]])

    def value_and_grad(self, point: Floats) -> tuple[float, Floats]:
        """Objective and gradient.

        Parameters
        ----------
        point : ndarray of shape (n_variables,)
            The variables, in the layout of `start`.

        Returns
        -------
        value : float
            The objective.
        gradient : ndarray of shape (n_variables,)
            Its gradient.
        """
        value, gradient = self._evaluate(self._checked(point))
        return self.share * value, self.share * gradient

    def lbfgs(self, point: Floats, iterations: int, least: float = -1.0) -> Floats:
        """Minimise by L-BFGS.

        Parameters
        ----------
        point : ndarray of shape (n_variables,)
            The variables to start from.
        iterations : int
            Largest number of iterations.
        least : float, default -1.0
            Norm of the gradient up to which nothing is done.

        Returns
        -------
        ndarray of shape (n_variables,)
            The variables.
        """
        point = np.array(self._checked(point))
        memory, least = lbfgs_memory(point.size), least / self.share
        if self.on_gpu:
            lbfgs_elsewhere(point, self._evaluate, iterations, memory, least)
        else:
            lbfgs(point, float(self.whole.alpha), self.stated, iterations, memory, least)
        return point

    def _checked(self, point: Floats) -> Floats:
        point = np.ascontiguousarray(point, self.whole.dtype)
        if point.shape != (self.branches.size * (self.whole.problem.n_features + 1),):
            raise ValueError(f"point must have the shape of start, {self.start.shape}; got {point.shape}")
        return point

    def _evaluate(self, point: Floats) -> tuple[float, Floats]:
        """`value_and_grad` divided by `share`."""
        data, form, _penalty = self.stated
        if self.on_gpu:
            values, gradients, _masses = data.evaluate(point[None], [self.whole.alpha])
            return float(values[0]), gradients[0]
        gradient, mass = np.empty_like(point), np.empty(1 << form.depth, self.whole.dtype)
        blocks = np.array([0, data.w.shape[0]])
        value = smooth.value_and_gradient(point, float(self.whole.alpha), blocks, self.stated, gradient, mass)
        return float(value), gradient

    def insert(self, point: Floats) -> Floats:
        """``theta`` with the splits of a point.

        Parameters
        ----------
        point : ndarray of shape (n_variables,)
            The variables, in the layout of `start`.

        Returns
        -------
        ndarray of shape (size,)
            The variables of the whole tree.
        """
        theta = np.array(self.theta)
        A, b, _values, _coefs = self.whole.unpack(theta)
        cut = self.branches.size * A.shape[1]
        A[self.branches], b[self.branches] = point[:cut].reshape(-1, A.shape[1]), point[cut:]
        return theta
