"""The smooth formulation: `TreeProblem` with probabilistic routing, an unconstrained problem in one vector theta."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import array_api_compat.numpy
import numpy as np
from numpy.typing import ArrayLike, NDArray

from opttree.kernels import records
from opttree.kernels.losses import codes
from opttree.kernels.smooth import subtree, walk as smooth, xp as arrays
from opttree.kernels.smooth.first_order import best_constants, lbfgs, lbfgs_elsewhere, lbfgs_memory
from opttree.model.tree import Tree
from opttree.problems.smooth.batch import Rows, SmoothBatch, memory_refusal
from opttree.problems.smooth.blocks import pack_rows, packed
from opttree.runtime import devices
from opttree.runtime.devices import Device
from opttree.runtime.options import Checked, Rule, option
from opttree.statement.penalties import L1, L2, L2Constants
from opttree.statement.problem import TreeProblem
from opttree.wide import soft

Floats = NDArray[np.floating]
AGGREGATIONS = {"expected": codes.EXPECTED, "mixture": codes.MIXTURE}
TILE_LEVELS = 7  # levels of splits evaluated as one matrix product, at most: as fast as any, measured to depth 10
SCORE_LEVELS = 4  # the same with linear leaves of more than `FEW_OUTPUTS`: their scores are all held, for each thread
FEW_OUTPUTS = 8
CONDITIONAL_LEVELS = 2  # the same when subtrees may be skipped: three splits together cost no more than two separately
ROWS_AT_ONCE = 4096  # rows whose path probabilities to all leaves are in memory at a time


@dataclass(frozen=True, eq=False)
class SmoothTreeProblem(Checked):
    """Minimise over theta = (A, b, values, coefs) the loss of a complete tree whose gates are scaled sigmoids.

    Row x goes left at branch t with probability ``1 / (1 + exp(-alpha (b_t - a_t . x)))`` (GET paper, eq. 4); P_l(x) is
    the product of these along the path to leaf l, f_l(x) the leaf's prediction. The objective is

    - "expected": ``sum_i w_i sum_l P_l(x_i) loss(y_i, f_l(x_i))`` (GET eq. 3, SRT eq. 3, SDTR eq. 3), or
    - "mixture": ``sum_i w_i loss(y_i, sum_l P_l(x_i) f_l(x_i))`` (SRT eq. 4; GradTree);

    with weights that sum to one (the papers' sums over rows divided by n), plus the `L1`, `L2` and `L2Constants`
    penalties of the statement (GET eq. 5, SRT eq. 7); other penalties, such as `SplitPrice`, are ignored. As alpha
    grows, both tend to the mean loss of the hard tree plus those penalties (under log loss, where no row hits the cap
    of the statement).

    Raises
    ------
    ValueError
        For a statement without a smooth form, an invalid option, or "gpu" without a GPU.

    See Also
    --------
    solvers.GET : anneals it
    SubtreeProblem : the part below one branch

    References
    ----------
    "Can a single tree outperform an entire forest?", under review (2024).

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.optimize import minimize
    >>> from opttree import SmoothTreeProblem, TreeProblem
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(400, 2))
    >>> y = np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0)
    >>> smooth = SmoothTreeProblem(TreeProblem(X, y, depth=2), alpha=5.0)
    >>> theta = smooth.random_theta(rng)
    >>> found = minimize(smooth.value_and_grad, theta, jac=True)
    >>> tree = smooth.problem.fit_leaves(smooth.harden(found.x))
    >>> bool(smooth.problem.objective(tree) < 0.1 < smooth.value(theta))
    True
    """

    problem: TreeProblem = option(
        doc="""The statement; oblique splits, squared or log loss, depth >= 1. With log loss, leaves hold class scores
        (softmax), including constant leaves."""
    )
    alpha: float = option(1.0, "Scale of the gates.", above=0)
    aggregation: Literal["expected", "mixture"] = option("expected", '"expected" or "mixture".')
    dtype: Literal["float32", "float64"] = option("float64", '"float32" or "float64".')
    eps: float = option(
        0.0,
        """A block of rows skips subtrees that it reaches with a summed probability below this; 0 is exact. Most
        effective with rows sorted by leaf, see `sort`.""",
        least=0,
    )
    data: Any = field(default=None, repr=False, metadata={"rule": Rule("Rows in blocks; None: they are packed here.")})
    device: Device = option(
        "cpu",
        """Device of `value_and_grad`: "cpu"; "gpu", by CuPy, or by PyTorch where there is no CuPy; "torch"; or "auto",
        which selects one, see `opttree.runtime.devices.on_gpu`.""",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (reason := self.refusal(self.problem)) is not None:
            raise ValueError(f"problem cannot be smoothed: {reason}")
        devices.require(self.device, self.dtype)
        object.__setattr__(self, "device", self.placed(self.problem, self.device, dtype=self.dtype))
        if self.uses_device:
            object.__setattr__(self, "data", None)
        elif self.data is None:
            object.__setattr__(self, "data", packed(self.problem, self.dtype))
        elif self.data.w.dtype != self.dtype or np.count_nonzero(self.data.w) != self.problem.n_samples:
            raise ValueError("data must be the rows of this problem in its dtype; got others: leave it out")

    @staticmethod
    def refusal(problem: TreeProblem) -> str | None:
        """Reason why a problem has no smooth formulation.

        Parameters
        ----------
        problem : TreeProblem
            The problem.

        Returns
        -------
        str or None
            One sentence, or None.
        """
        if problem.splits != "oblique":
            return "its splits are axis-aligned, and the gates are hyperplanes"
        if (reason := problem.loss_function.refusal("smooth")) is not None:
            return reason
        if problem.depth < 1:
            return "its depth is 0, so that it has no gates"
        if problem.is_classification and problem.strength(L2Constants, "leaves"):
            return "its penalty on the constants of leaves is for regression, and it has classes"
        return problem.float32_refusal

    @staticmethod
    def placed(problem: TreeProblem, device: Device, n_starts: int = 1, **options: Any) -> Device:
        """Device that evaluates some thetas of a problem together.

        "auto" becomes "gpu" if `opttree.runtime.devices.on_gpu` says so and the total memory of the GPU suffices.

        Parameters
        ----------
        problem : TreeProblem
            The problem.
        device : {"cpu", "gpu", "torch", "auto"}
            Device that was asked for.
        n_starts : int, default 1
            Number of thetas.
        **options : object
            Options of `SmoothTreeProblem`.

        Returns
        -------
        {"cpu", "gpu", "torch"}
            The device.
        """
        work = float(problem.n_samples) * 2**problem.depth * (problem.n_features + 1) * n_starts
        if not devices.on_gpu(device, work):
            return "cpu"
        if device == "auto" and SmoothTreeProblem._lacking(problem, n_starts, "gpu", idle=True, **options) is not None:
            return "cpu"
        devices.require(device)
        return devices.resolved(device)

    @staticmethod
    def device_refusal(problem: TreeProblem, device: str, n_starts: int = 1, **options: Any) -> str | None:
        """Reason why some thetas of a problem cannot be evaluated together on a device.

        Parameters
        ----------
        problem : TreeProblem
            The problem.
        device : str
            The device.
        n_starts : int, default 1
            Number of thetas.
        **options : object
            Options of `SmoothTreeProblem`.

        Returns
        -------
        str or None
            One sentence, or None.
        """
        reason = devices.refusal(device, options.get("dtype", "float64"))
        if reason is not None or device in ("cpu", "auto") or SmoothTreeProblem.refusal(problem) is not None:
            return reason
        return SmoothTreeProblem._lacking(problem, n_starts, device, idle=False, **options)

    @staticmethod
    def _lacking(problem: TreeProblem, n_starts: int, device: str, idle: bool, **options: Any) -> str | None:
        smooth: SmoothTreeProblem = SmoothTreeProblem(problem, device=device, **options)  # type: ignore[arg-type]
        n, width, backend = problem.n_samples, problem.Y.shape[1], devices.backend(device)
        return memory_refusal(backend, n_starts, n, n, width, smooth.form, smooth.dtype, idle)

    @property
    def uses_device(self) -> bool:
        """Whether a device evaluates the problem, and not the kernels of the CPU."""
        return self.device != "cpu"

    # ---- sizes and layout -----------------------------------------------------------------------------------------

    @property
    def linear(self) -> bool:
        """Whether leaves are linear."""
        return self.problem.leaves == "linear"

    @property
    def n_branches(self) -> int:
        """Branch nodes of the complete tree, 2^depth - 1."""
        return 2**self.problem.depth - 1

    @property
    def size(self) -> int:
        """Length of theta."""
        B, K, p = self.n_branches, self.problem.n_outputs, self.problem.n_features
        return B * (p + 1) + (B + 1) * K * (1 + p * self.linear)

    @cached_property
    def form(self) -> Any:
        """The formulation as the kernels take it."""
        depth = self.problem.depth
        most = SCORE_LEVELS if self.linear and self.problem.n_outputs > FEW_OUTPUTS else TILE_LEVELS
        if self.eps > 0.0:
            most = CONDITIONAL_LEVELS
        n_tiles = -(-depth // most)
        return smooth.Form(
            depth,
            -(-depth // n_tiles),
            float(self.eps),
            self.problem.loss_function.smooth,
            AGGREGATIONS[self.aggregation],
            self.problem.n_features,
            self.problem.n_outputs,
            int(self.linear),
        )

    @cached_property
    def penalty(self) -> Any:
        """The penalties as the kernels take them."""
        strength = self.problem.strength
        weights = (strength(kind, on) for on in ("splits", "leaves") for kind in (L1, L2))
        return smooth.Penalty(*weights, *(strength(L2Constants, on) for on in ("splits", "leaves")))

    @property
    def objective(self) -> smooth.Objective:
        """Rows, formulation and penalties as the kernels take them."""
        return smooth.Objective(self.data, self.form, self.penalty)

    def pack_rows(self, groups: Sequence[NDArray[np.integer]]) -> tuple[Any, NDArray[np.int64]]:
        """Rows in blocks, a new block for each group.

        Parameters
        ----------
        groups : sequence of ndarray of int
            Numbers of the rows of each group.

        Returns
        -------
        data : object
            The blocks, as the kernels take them.
        ranges : ndarray of int of shape (groups, 2)
            First and last block of each group.
        """
        return pack_rows(self.problem, groups, self.dtype)

    @cached_property
    def table(self) -> Rows:
        """The rows in the format of `SmoothBatch`."""
        problem = self.problem
        return problem.X, problem.Y, problem.w * problem.n_samples

    @staticmethod
    def batch_of(smooths: Sequence[SmoothTreeProblem]) -> SmoothBatch:
        """Copy several problems of one form to the device, once: the first of them keeps the last batch.

        Parameters
        ----------
        smooths : sequence of SmoothTreeProblem
            The problems.

        Returns
        -------
        SmoothBatch
            The batch.
        """
        first = smooths[0]
        tables = [smooth.table for smooth in smooths]
        known = first.__dict__.get("_sent")
        if (
            known is None
            or len(known[0]) != len(tables)
            or any(a is not b for a, b in zip(known[0], tables, strict=True))
        ):
            known = tables, first.to_device(tables, first.form, [smooth.penalty for smooth in smooths])
            first.__dict__["_sent"] = known
        return known[1]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_batch", "_sent")}

    @cached_property
    def _batch(self) -> SmoothBatch:
        """The problem as a batch of one on the device."""
        return self.to_device([self.table], self.form, [self.penalty])

    def to_device(self, tables: Sequence[Rows], form: Any, penalties: Sequence[Any]) -> SmoothBatch:
        """Copy problems of equal shape to this problem's device as one batch.

        Parameters
        ----------
        tables : sequence of ndarray of int
            Rows of each problem.
        form : Form
            Their shape, as the kernels take it.
        penalties : sequence
            Penalties of each problem.

        Returns
        -------
        SmoothBatch
            The batch.
        """
        return SmoothBatch(tables, form, penalties, self.dtype, backend=devices.backend(self.device))

    def unpack(self, theta: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Views of theta.

        Parameters
        ----------
        theta : ndarray of shape (size,)
            The variables.

        Returns
        -------
        A : ndarray of shape (B, p)
            Weights of the splits.
        b : ndarray of shape (B,)
            Thresholds of the splits.
        values : ndarray of shape (L, K)
            Constant terms of the leaves.
        coefs : ndarray of shape (L, K, p)
            Linear terms of the leaves; of shape (L, K, 0) for constant leaves.
        """
        if theta.shape != (self.size,):
            raise ValueError(f"theta must have shape ({self.size},); got {theta.shape}")
        return smooth.unpack.py_func(theta, self.form)

    def parts(self, theta: Floats) -> tuple[NDArray[np.float64], ...]:
        """Float64 copies of what `unpack` returns.

        Parameters
        ----------
        theta : ndarray of shape (size,)
            The variables.

        Returns
        -------
        tuple of ndarray
            The copies.
        """
        A, b, values, coefs = (np.array(part, np.float64) for part in self.unpack(np.asarray(theta)))
        return A, b, values, coefs

    def random_theta(self, rng: np.random.Generator) -> Floats:
        """Random hyperplanes of unit length, at normal distances from the mean; all leaves hold the best constant.

        Parameters
        ----------
        rng : numpy.random.Generator
            Random numbers.

        Returns
        -------
        ndarray of shape (size,)
            The variables.
        """
        theta = np.zeros(self.size, self.dtype)
        A, b, values, _coefs = self.unpack(theta)
        self._randomise(A, b, np.ones(b.size, bool), rng)
        root = self.problem.best_constant()
        values[:] = self._scores(root.values, root.link)
        return theta

    # ---- value and gradient ---------------------------------------------------------------------------------------

    def unit_splits(self, theta: Floats) -> Floats:
        """Theta with hyperplanes of unit length: the same hard tree, with equally steep gates.

        Parameters
        ----------
        theta : ndarray of shape (size,)
            The variables.

        Returns
        -------
        ndarray of shape (size,)
            The variables.
        """
        theta = np.array(theta, self.dtype)
        A, b, _values, _coefs = self.unpack(theta)
        norm = np.linalg.norm(A, axis=1)
        norm[norm == 0.0] = 1.0
        A /= norm[:, None]
        b /= norm
        return theta

    def value_and_grad(self, theta: Floats) -> tuple[float, Floats]:
        """Objective and gradient.

        Parameters
        ----------
        theta : ndarray of shape (size,)
            The variables.

        Returns
        -------
        value : float
            The objective.
        gradient : ndarray of shape (size,)
            Its gradient, in the dtype of the problem.
        """
        value, gradient, _mass = self._evaluate(theta)
        return value, gradient

    def lbfgs(self, theta: Floats, iterations: int, memory: Any = None) -> float:
        """Minimise over all variables by L-BFGS.

        Parameters
        ----------
        theta : ndarray of shape (size,)
            The variables; updated.
        iterations : int
            Largest number of iterations.
        memory : tuple or None, default None
            What `lbfgs_memory` returned; updated, so that a run can be split into parts.

        Returns
        -------
        float
            The objective.
        """
        memory = lbfgs_memory(theta.size) if memory is None else memory
        if self.uses_device:
            return float(lbfgs_elsewhere(theta, self.value_and_grad, iterations, memory)[0])
        return float(lbfgs(theta, float(self.alpha), self.objective, iterations, memory)[0])

    def value(self, theta: Floats) -> float:
        """Objective; costs as much as `value_and_grad`, since the same pass computes both.

        Parameters
        ----------
        theta : ndarray of shape (size,)
            The variables.

        Returns
        -------
        float
            The objective.
        """
        return self._evaluate(theta)[0]

    def _evaluate(self, theta: ArrayLike) -> tuple[float, Floats, Floats]:
        theta = np.ascontiguousarray(theta, self.dtype)
        if theta.shape != (self.size,):
            raise ValueError(f"theta must have shape ({self.size},); got {theta.shape}")
        if self.uses_device:
            values, gradients, masses = self._batch.evaluate(theta[None], [self.alpha])
            return float(values[0]), gradients[0], masses[0]
        gradient, mass = np.empty_like(theta), np.empty(self.n_branches + 1, self.dtype)
        blocks = np.array([0, self.data.w.shape[0]])
        value = smooth.value_and_gradient(theta, float(self.alpha), blocks, self.objective, gradient, mass)
        return float(value), gradient, mass

    def with_alpha(self, alpha: float) -> SmoothTreeProblem:
        """The same problem with another gate scale; the blocks of rows are shared.

        Parameters
        ----------
        alpha : float
            Scale of the gates.

        Returns
        -------
        SmoothTreeProblem
            The problem.
        """
        other = replace(self, alpha=alpha)
        for name in ("table", "_batch"):
            if name in self.__dict__:
                other.__dict__[name] = self.__dict__[name]
        return other

    def sort(self, theta: Floats) -> SmoothTreeProblem:
        """The same problem with the rows sorted so that blocks share their paths; for ``eps > 0``.

        Parameters
        ----------
        theta : ndarray of shape (size,)
            The variables that give the paths.

        Returns
        -------
        SmoothTreeProblem
            The problem.
        """
        A, b, _values, _coefs = self.unpack(np.asarray(theta))
        keys = arrays.path_keys(array_api_compat.numpy, A, b, self.alpha, self.problem.X, self.problem.depth)
        return replace(self, data=self.pack_rows([np.argsort(keys, kind="stable")])[0])

    # ---- to trees and back ----------------------------------------------------------------------------------------

    def harden(self, theta: Floats) -> Tree:
        """Complete hard tree of a theta; leaves are not refitted, see `TreeProblem.fit_leaves`.

        Parameters
        ----------
        theta : ndarray of shape (size,)
            The variables.

        Returns
        -------
        Tree
            The tree.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> import numpy as np
        >>> smooth = opttree.SmoothTreeProblem(opttree.TreeProblem.standardized(X, y, depth=2), alpha=5.0)
        >>> tree = smooth.harden(smooth.random_theta(np.random.default_rng(0)))
        >>> tree.n_leaves, smooth.soften(tree).shape == (smooth.size,)
        (4, True)
        """
        A, b, values, coefs = self.parts(theta)
        problem = self.problem
        tree = Tree.complete(A, b, problem.n_outputs, problem.classes)
        link = problem.link(self.linear)
        if problem.is_classification and link == "identity":
            values = np.exp(values - values.max(axis=1, keepdims=True))
            values /= values.sum(axis=1, keepdims=True)
        return replace(tree, values=values, coefs=coefs, link=link)

    def _randomise(self, A: Floats, b: Floats, which: NDArray[np.bool_], rng: np.random.Generator) -> None:
        directions = rng.normal(size=(int(which.sum()), A.shape[1]))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        mean, deviation = self.problem.moments
        spread = np.linalg.norm(directions * deviation, axis=1)
        A[which], b[which] = directions, np.sum(directions * mean, axis=1) + spread * rng.normal(size=len(directions))

    def soften(self, tree: Tree, rng: np.random.Generator | None = None) -> Floats:
        """Theta of a tree, the inverse of `harden`, completed to the depth of the problem.

        Bounds on linear leaves are not part of theta and are dropped.

        Parameters
        ----------
        tree : Tree
            The tree.
        rng : numpy.random.Generator or None, default None
            A leaf above the problem's depth becomes a subtree with copies of this leaf, and zero hyperplanes or, with
            random numbers, random ones, which an optimizer can move.

        Returns
        -------
        ndarray of shape (size,)
            The variables.

        Raises
        ------
        ValueError
            If the tree is infeasible for the problem.
        """
        if (reason := self.problem.violation(tree)) is not None:
            raise ValueError(f"tree must be feasible; {reason}")
        theta = np.zeros(self.size, self.dtype)
        A, b, values, coefs = self.unpack(theta)
        node = np.zeros(2 * self.n_branches + 1, np.intp)  # the tree's node at each heap position
        for t in range(self.n_branches):
            kids = tree.children[node[t]] if node[t] < tree.n_branches else (node[t], node[t])
            node[2 * t + 1], node[2 * t + 2] = kids
            if node[t] < tree.n_branches:
                A[t], b[t] = tree.A[node[t]], tree.b[node[t]]
        if rng is not None:
            self._randomise(A, b, node[: self.n_branches] >= tree.n_branches, rng)
        leaf = node[self.n_branches :] - tree.n_branches
        values[:] = self._scores(tree.values, tree.link)[leaf]
        if self.linear and tree.linear_leaves:
            coefs[:] = tree.leaf_arrays[1][leaf]
        return theta

    def with_leaves(self, theta: Floats, tree: Tree) -> Floats:
        """Theta with the leaves of a tree.

        Parameters
        ----------
        theta : ndarray of shape (size,)
            The variables.
        tree : Tree
            A complete tree from `harden`.

        Returns
        -------
        ndarray of shape (size,)
            The variables.
        """
        theta = np.array(theta, self.dtype)
        _A, _b, values, coefs = self.unpack(theta)
        values[:] = self._scores(tree.values, tree.link)
        coefs[:] = tree.leaf_arrays[1] if self.linear else 0.0
        return theta

    def _scores(self, values: Floats, link: str) -> Floats:
        """Leaf constants in the format of theta: class shares become log shares."""
        if self.problem.is_classification and link == "identity":
            return np.log(np.maximum(values, codes.SMALLEST_PROBABILITY))
        return values

    # ---- leaves ---------------------------------------------------------------------------------------------------

    def path_probabilities(self, theta: Floats, rows: slice = slice(None)) -> Floats:
        """Probability of each leaf, P_l(x_i).

        Parameters
        ----------
        theta : ndarray of shape (size,)
            The variables.
        rows : slice, default slice(None)
            Rows of X.

        Returns
        -------
        ndarray of shape (rows, L)
            The probabilities.
        """
        A, b, _values, _coefs = self.parts(theta)
        numbers = np.arange(self.problem.n_samples, dtype=np.int32)[rows]
        return path_products(subtree.gates(self.problem.X, numbers, A, b, float(self.alpha)))

    def best_leaves(self, theta: Floats) -> Floats:
        """Theta with the leaves that minimise the objective for its gates, in closed form.

        Constant leaves of "expected": weighted means (shares of the classes under log loss). Linear leaves of
        "expected": weighted least squares with the leaf penalties. Leaves of "mixture": one least-squares problem
        over all leaves.

        Parameters
        ----------
        theta : ndarray of shape (size,)
            The variables.

        Returns
        -------
        ndarray of shape (size,)
            The variables.

        Raises
        ------
        ValueError
            For linear leaves and mixtures under log loss, which have no closed form.
        """
        theta = np.array(theta, self.dtype)
        if self.problem.is_classification and (self.linear or self.aggregation == "mixture"):
            raise ValueError(
                f"best_leaves needs a closed form; log loss with leaves={self.problem.leaves!r} and "
                f"aggregation={self.aggregation!r} has none"
            )
        if self.aggregation == "mixture":
            self._fit_mixture(theta)
        elif self.linear:
            self._fit_expected_linear(theta)
        else:
            _value, gradient, mass = self._evaluate(theta)
            best_constants(theta, gradient, mass, self.form, self.penalty.l2_constants)
        return theta

    @cached_property
    def _with_origin(self) -> tuple[Floats, Floats]:
        """X and Y with one row more, of zeros."""
        X, Y = (np.concatenate([part, np.zeros((1, part.shape[1]))]) for part in (self.problem.X, self.problem.Y))
        return X, Y

    def leaf_rows(self, numbers: NDArray[np.int32], weights: Floats) -> tuple[records.Rows, NDArray[np.int32]]:
        """What the kernels fit leaves to, with an l2 penalty on their constants as a row more: a leaf's answer at
        ``x = 0`` is its constant, for which 0 is right.

        Parameters
        ----------
        numbers : ndarray of int of shape (m,)
            Rows of the problem.
        weights : ndarray of shape (m, leaves)
            Weights of these in leaves.

        Returns
        -------
        rows : Rows
            X, Y and weights.
        numbers : ndarray of int of shape (m,) or (m + 1,)
            The rows of X and Y that count.
        """
        problem, ridge = self.problem, self.penalty.l2_constants
        if not ridge:
            return records.Rows(problem.X, problem.Y, np.ascontiguousarray(weights)), numbers
        weights = np.concatenate([weights, np.full((1, weights.shape[1]), ridge)])
        numbers = np.append(numbers, np.int32(problem.n_samples))
        return records.Rows(*self._with_origin, weights), numbers

    def _fit_expected_linear(self, theta: Floats) -> None:
        problem = self.problem
        _A, _b, values, coefs = self.parts(theta)
        weights = problem.w[:, None] * self.path_probabilities(theta)
        rows, numbers = self.leaf_rows(np.arange(problem.n_samples, dtype=np.int32), weights)
        net = records.Net(problem.strength(L1, "leaves"), problem.strength(L2, "leaves"))
        soft.fit_leaves(rows, numbers, net, 0.0, values, coefs, softmax=False)
        for view, fitted in zip(self.unpack(theta)[2:], (values, coefs), strict=True):
            view[:] = fitted

    def _fit_mixture(self, theta: Floats) -> None:
        problem = self.problem
        if self.linear and problem.strength(L1, "leaves") > 0.0:
            raise ValueError(
                "best_leaves needs a closed form; the mixture of linear leaves with an l1 penalty has none"
            )
        n, p = problem.X.shape
        _A, _b, values, coefs = self.unpack(theta)
        L = values.shape[0]
        width = L * (1 + p * self.linear)
        gram, moment = np.zeros((width, width)), np.zeros((width, problem.n_outputs))
        for i in range(0, n, ROWS_AT_ONCE):
            part = slice(i, i + ROWS_AT_ONCE)
            P = self.path_probabilities(theta, part)
            if self.linear:
                P = np.concatenate([P, (P[:, :, None] * problem.X[part, None, :]).reshape(P.shape[0], -1)], axis=1)
            weighted = P * problem.w[part, None]
            gram += weighted.T @ P
            moment += weighted.T @ problem.Y[part]
        gram[:L, :L] += problem.strength(L2Constants, "leaves") * np.eye(L)
        gram[L:, L:] += problem.strength(L2, "leaves") * np.eye(width - L)
        solution = np.linalg.lstsq(gram, moment, rcond=1e-12)[0]
        values[:] = solution[:L]
        if self.linear:
            coefs[:] = solution[L:].reshape(L, p, -1).transpose(0, 2, 1)


def path_products(S: Floats) -> Floats:
    """Probabilities of the leaves (m, 2^d) from those of the left branches ``S (m, 2^d - 1)`` of a complete tree."""
    P = np.ones((S.shape[0], 1))
    for level in range((S.shape[1] + 1).bit_length() - 1):
        s = S[:, 2**level - 1 : 2 ** (level + 1) - 1]
        P = np.stack([P * s, P * (1.0 - s)], axis=2).reshape(S.shape[0], 2 ** (level + 1))
    return P
