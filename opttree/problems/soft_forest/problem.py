"""SDTR's formulation: soft trees with an inverse temperature at every branch, averaged and in layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from opttree.kernels.losses import codes
from opttree.kernels.smooth.walk import Data
from opttree.kernels.soft_forest import walk as soft_forest
from opttree.model.forest import Forest
from opttree.model.tree import Tree
from opttree.problems.smooth.blocks import pack_rows, packed
from opttree.problems.smooth.problem import SmoothTreeProblem
from opttree.problems.soft_forest.rows import ForestRows, memory_refusal
from opttree.runtime import devices
from opttree.runtime.devices import Device
from opttree.runtime.options import Checked, option
from opttree.statement.problem import TreeProblem

Floats = NDArray[np.floating]
BATCH = 1024  # assumed batch size when "auto" chooses the device
BLOCKS_AT_ONCE = 16  # blocks of rows whose outputs are held in memory at a time


@dataclass(frozen=True, eq=False)
class SoftForestProblem(Checked):
    """Minimise over theta the loss of a forest of complete soft trees (by default, one tree).

    At branch t row x goes left with probability ``1 / (1 + exp(-beta_t (b_t - a_t . x)))``, where beta_t is a variable
    like the others (SDTR, eq. 1 and below). The objective is the weighted mean over rows of

    - "expected": ``mean over trees of sum_l P_l(x) |R_l - y|^2`` (SDTR eq. 3): trees are trained independently; or
    - "mixture": ``|mean over trees of sum_l P_l(x) R_l - y|^2`` (section III-D: the average is used in training),

    or, under log loss (section V-E), where the R_l are class scores, of ``sum_l P_l(x) -log softmax(R_l)_y`` or
    ``-log(mean over trees of sum_l P_l(x) softmax(R_l)_y)``; plus, averaged over trees,

    - ``path_penalty`` times SDTR eq. (5), ``-sum_t 2^-d_t [log(alpha_t) + log(1 - alpha_t)] / 2`` with alpha_t the
      share of the rows at branch t that go left. With these weights the sum over branches telescopes to ``-2^-depth
      sum_l log(share of the rows in leaf l)``, the cross-entropy to the uniform distribution over leaves;
    - ``l1`` times eq. (7), ``sum_t 2^-d_t |a_t|_1``.

    d_t is the depth of branch t, 0 at the root. Penalties of the statement are ignored.

    Raises
    ------
    ValueError
        For a statement that has no such form, or an invalid option.

    See Also
    --------
    solvers.SDTR : trains it
    SmoothTreeProblem : one tree, with linear leaves

    References
    ----------
    Luo, Cheng, Yu and Yi, "SDTR: soft decision tree regressor for tabular data", IEEE Access 9 (2021).

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 2))
    >>> y = np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0)
    >>> from opttree import SoftForestProblem
    >>> soft = SoftForestProblem(TreeProblem(X, y, depth=2), n_trees=3)
    >>> theta = soft.random_theta(rng)
    >>> value, gradient = soft.value_and_grad(theta)
    >>> gradient.shape == theta.shape, bool(np.isfinite(value))
    (True, True)
    """

    problem: TreeProblem = option(
        doc="The statement; oblique splits, constant leaves, squared or log loss, depth >= 1."
    )
    n_trees: int = option(1, "Trees per layer.", least=1)
    n_layers: int = option(
        1, "Layers; the outputs of the layers before are additional features of a layer's trees.", least=1
    )
    tree_output_dim: int | None = option(
        None,
        """Numbers per leaf, at least the number of outputs; the first ones are the predictions. None: equal to it, as
        log loss asks for.""",
        least=1,
    )
    aggregation: Literal["expected", "mixture"] = option(
        "expected", '"expected" (one layer, no further outputs) or "mixture".'
    )
    path_penalty: float = option(0.0, "The paper's lambda_1.", least=0)
    l1: float = option(0.0, "The paper's lambda_2.", least=0)
    dtype: Literal["float32", "float64"] = option("float32", '"float32" or "float64".')
    device: Device = option(
        "cpu",
        """"cpu", "gpu" (CuPy, or PyTorch where there is no CuPy) or "torch", by the array functions of
        `opttree.kernels.soft_forest.xp`; or "auto", which selects one, see `opttree.runtime.devices.on_gpu`. Thetas
        are NumPy arrays in any case, except those of `descend`.""",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        devices.require(self.device, self.dtype)
        if (reason := self.refusal(self.problem)) is not None:
            raise ValueError(f"problem has no soft forest: {reason}")
        if self.width < self.problem.n_outputs:
            raise ValueError(
                f"tree_output_dim must be at least the number of outputs, {self.problem.n_outputs}; got {self.width}"
            )
        if self.width > self.problem.n_outputs and self.problem.is_classification:
            raise ValueError(
                f"tree_output_dim must be None or the number of classes, {self.problem.n_outputs}; got {self.width}"
            )
        if self.aggregation == "expected" and (self.n_layers > 1 or self.width > self.problem.n_outputs):
            raise ValueError(
                "aggregation='expected' looks at each tree's own predictions; layers and further outputs need 'mixture'"
            )
        work = float(min(self.problem.n_samples, BATCH)) * self.size
        there, auto = devices.on_gpu(self.device, work), self.device == "auto"
        object.__setattr__(self, "device", devices.resolved(self.device) if there else "cpu")
        if auto and self.memory_refusal(BATCH, idle=True) is not None:
            object.__setattr__(self, "device", "cpu")

    @staticmethod
    def refusal(problem: TreeProblem) -> str | None:
        """Reason why a problem has no such form.

        Parameters
        ----------
        problem : TreeProblem
            The problem.

        Returns
        -------
        str or None
            One sentence, or None.
        """
        if problem.leaves != "constant":
            return "its leaves are linear, and those of soft forests are constant"
        return SmoothTreeProblem.refusal(problem)

    def memory_refusal(self, batch_size: int, idle: bool = False) -> str | None:
        """Reason why device memory is too small for batches.

        Parameters
        ----------
        batch_size : int
            Rows of a batch.
        idle : bool, default False
            Whether to count all memory, as if all of it were free.

        Returns
        -------
        str or None
            One sentence, or None.
        """
        if self.device == "cpu":
            return None
        return memory_refusal(devices.backend(self.device), self.problem, self.form, self.dtype, batch_size, idle)

    # ---- sizes and layout -----------------------------------------------------------------------------------------

    @property
    def width(self) -> int:
        """Numbers per leaf."""
        return self.problem.n_outputs if self.tree_output_dim is None else self.tree_output_dim

    @property
    def form(self) -> Any:
        """The formulation as the kernels take it."""
        problem = self.problem
        return soft_forest.Form(
            problem.depth,
            self.n_trees,
            self.n_layers,
            problem.n_features,
            problem.n_outputs,
            self.width,
            problem.loss_function.smooth,
            self.aggregation == "expected",
            float(self.path_penalty),
            float(self.l1),
        )

    @property
    def size(self) -> int:
        """Length of theta."""
        return soft_forest.layer_start.py_func(self.form, self.n_layers)

    @cached_property
    def data(self) -> Any:
        """All rows in blocks."""
        return packed(self.problem, self.dtype)

    def pack_rows(self, groups: list[NDArray[np.integer]]) -> tuple[Any, NDArray[np.int64]]:
        """Rows in blocks, see `opttree.problems.smooth.blocks.pack_rows`.

        Parameters
        ----------
        groups : list of ndarray of int
            Numbers of the rows of each group.

        Returns
        -------
        data : object
            The blocks, as the kernels take them.
        ranges : ndarray of int of shape (groups, 2)
            First and last block of each group.
        """
        return pack_rows(self.problem, groups, self.dtype)

    def unpack(self, theta: Floats, layer: int = 0) -> tuple[Floats, Floats, Floats, Floats]:
        """Views of a layer's theta.

        p grows from layer to layer by the number of outputs of the layer before.

        Parameters
        ----------
        theta : ndarray of shape (size,)
            The variables.
        layer : int, default 0
            Number of the layer.

        Returns
        -------
        A : ndarray of shape (T, B, p)
            Weights of the splits.
        b : ndarray of shape (T, B)
            Thresholds of the splits.
        beta : ndarray of shape (T, B)
            Inverse temperatures of the gates.
        values : ndarray of shape (T, L, tree_output_dim)
            The leaves.
        """
        if theta.shape != (self.size,):
            raise ValueError(f"theta must have shape ({self.size},); got {theta.shape}")
        return soft_forest.unpack.py_func(theta, self.form, layer)

    def random_theta(self, rng: np.random.Generator, beta: float = 1.5) -> Floats:
        """Random initial values.

        Xavier uniform for splits, with each branch a layer of p inputs and one output; standard normal for leaves
        (SDTR, section IV-C).

        Parameters
        ----------
        rng : numpy.random.Generator
            Random numbers.
        beta : float, default 1.5
            Inverse temperature of all gates.

        Returns
        -------
        ndarray of shape (size,)
            The variables.
        """
        theta = np.empty(self.size, self.dtype)
        for layer in range(self.n_layers):
            A, b, betas, values = self.unpack(theta, layer)
            bound = np.sqrt(6.0 / (A.shape[2] + 1))
            A[:], b[:] = rng.uniform(-bound, bound, A.shape), rng.uniform(-bound, bound, b.shape)
            betas[:], values[:] = beta, rng.normal(size=values.shape)
        return theta

    # ---- value and gradient ---------------------------------------------------------------------------------------

    def value_and_grad(self, theta: Floats) -> tuple[float, Floats]:
        """Objective on all rows as one batch, and its gradient.

        Parameters
        ----------
        theta : ndarray of shape (size,)
            The variables.

        Returns
        -------
        value : float
            The objective.
        gradient : ndarray of shape (size,)
            Its gradient.
        """
        theta = self._checked(theta)
        if self.device != "cpu":
            return self._on_device.value_and_grad(theta)
        gradient = np.empty_like(theta)
        return float(soft_forest.value_and_gradient(theta, self.data, self.form, gradient)), gradient

    def mean_loss(self, theta: Floats) -> float:
        """Loss of the forest's mixture predictions, averaged over all rows.

        Squared error, summed over outputs, or log loss, capped as the statement's.

        Parameters
        ----------
        theta : ndarray of shape (size,)
            The variables.

        Returns
        -------
        float
            The loss.
        """
        if self.device != "cpu":
            return self._on_device.mean_loss(theta)
        theta, total = self._checked(theta), 0.0
        X, Y, w = self.data
        for i in range(0, X.shape[0], BLOCKS_AT_ONCE):
            some = slice(i, i + BLOCKS_AT_ONCE)
            outs = soft_forest.forward(theta, Data(X[some], Y[some], w[some]), self.form)[0]
            means = soft_forest.mean_outputs(outs, self.problem.n_outputs)
            if self.problem.is_classification:
                shares = np.take_along_axis(means, Y[some].astype(np.intp), axis=1)
                losses = -np.log(np.clip(shares, codes.SMALLEST_PROBABILITY, 1.0))
            else:
                losses = np.square(means - Y[some])
            total += float(np.sum(w[some, None] * losses, dtype=np.float64))
        return total / float(np.sum(w, dtype=np.float64))

    def descent_state(self, theta: Floats, moments: Floats | None = None) -> tuple[Any, Any]:
        """Copies for `descend`, on the device in use.

        Parameters
        ----------
        theta : ndarray of shape (size,)
            The variables.
        moments : ndarray of shape (2, size) or None, default None
            The two moments of theta; None: zeros.

        Returns
        -------
        theta : array of shape (size,)
            Copy of theta.
        state : object
            Copy of the moments.
        """
        moments = np.zeros((2, theta.size)) if moments is None else moments
        if self.device != "cpu":
            return self._on_device.upload(theta), tuple(self._on_device.upload(moment) for moment in moments)
        return np.array(theta, self.dtype), np.array(moments, self.dtype)

    def descend(
        self,
        theta: Any,
        state: Any,
        done: int,
        rates: Floats,
        groups: list[NDArray[np.integer]],
        moments: Any,
    ) -> tuple[Any, Any, float]:
        """Take one step of Adam per group of rows, see `opttree.kernels.soft_forest.walk.descend`.

        Parameters
        ----------
        theta : array of shape (size,)
            The variables; may be overwritten.
        state : object
            The moments; may be overwritten.
        done : int
            Steps before.
        rates : ndarray of shape (2,)
            Learning rates of splits and leaves.
        groups : list of ndarray of int
            Numbers of the rows of each group.
        moments : Moments
            Coefficients of Adam.

        Returns
        -------
        theta : array of shape (size,)
            The variables.
        state : object
            The moments.
        objective : float
            Mean objective of the steps.
        """
        if self.device != "cpu":
            return self._on_device.descend(theta, state, done, rates, groups, moments)
        data, bounds = self.pack_rows(groups)
        return theta, state, soft_forest.descend(theta, state, done, rates, bounds, data, self.form, moments)

    def to_numpy(self, theta: Any) -> Floats:
        """Copy of a theta of `descend` as a NumPy array.

        Parameters
        ----------
        theta : array of shape (size,)
            The variables, on the device.

        Returns
        -------
        ndarray of shape (size,)
            The variables.
        """
        return theta.copy() if self.device == "cpu" else self._on_device.download(theta)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_on_device"}

    @cached_property
    def _on_device(self) -> ForestRows:
        return ForestRows(self.problem, self.form, self.dtype, devices.backend(self.device))

    def _checked(self, theta: ArrayLike) -> Floats:
        theta = np.ascontiguousarray(theta, self.dtype)
        if theta.shape != (self.size,):
            raise ValueError(f"theta must have shape ({self.size},); got {theta.shape}")
        return theta

    # ---- to trees and back ----------------------------------------------------------------------------------------

    def harden(self, theta: Floats) -> Tree | Forest:
        """Model of a theta: mixtures with gates of scale 1, as beta is in the weights.

        Parameters
        ----------
        theta : ndarray of shape (size,)
            The variables.

        Returns
        -------
        Tree or Forest
            A `Tree` if there is one.
        """
        layers = []
        for layer in range(self.n_layers):
            A, b, beta, values = (np.array(part, np.float64) for part in self.unpack(np.asarray(theta), layer))
            trees = []
            if layer == self.n_layers - 1:  # the additional outputs of the last layer are unused
                values = values[:, :, : self.problem.n_outputs]
            for t in range(self.n_trees):
                problem, leaves = self.problem, values[t]
                if problem.is_classification:
                    leaves = softmax(leaves, axis=1)
                tree = Tree.complete(beta[t][:, None] * A[t], beta[t] * b[t], values.shape[2], problem.classes)
                trees.append(replace(tree, values=leaves, gate=1.0, mixture=True))
            layers.append(tuple(trees))
        return layers[0][0] if self.n_trees == self.n_layers == 1 else Forest(tuple(layers), self.problem.n_outputs)

    def with_first(self, theta: Floats, tree_theta: Floats) -> Floats:
        """Theta with another first tree.

        Weights are divided by the betas, so that the gates are the same.

        Parameters
        ----------
        theta : ndarray of shape (size,)
            The variables.
        tree_theta : ndarray of shape (size of a tree,)
            Theta of a `SmoothTreeProblem` of the same statement with ``alpha=1``.

        Returns
        -------
        ndarray of shape (size,)
            The variables.
        """
        theta = np.array(theta, self.dtype)
        A, b, beta, values = self.unpack(theta)
        weights, thresholds, constants, _coefs = SmoothTreeProblem(self.problem).parts(tree_theta)
        A[0], b[0] = weights / beta[0][:, None], thresholds / beta[0]
        values[0, :, : self.problem.n_outputs] = constants
        return theta
