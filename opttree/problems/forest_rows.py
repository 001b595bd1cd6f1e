"""Rows of a statement on a device, and what a soft forest does with them there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree import devices
from opttree.devices import DeviceArrays
from opttree.kernels import xp_forest
from opttree.kernels.forest import layer_start
from opttree.problems.tree_problem import TreeProblem

Floats = NDArray[np.floating]
LOWER = "lower n_trees, max_depth or batch_size"
ARRAYS = 16  # over trees, rows and leaves, that exist at a time


def described(form: Any, dtype: str) -> str:
    """What a forest is, in words."""
    return f"a forest of {form.n_trees * form.n_layers} trees of depth {form.depth} in {dtype}"


def memory_refusal(problem: TreeProblem, form: Any, dtype: str, batch_size: int, idle: bool = False) -> str | None:
    """Why the GPU has no room for batches of so many rows, or None; ``idle``: if nobody else were there."""
    each = form.n_layers * form.n_trees * form.width << form.depth  # numbers of a row
    most = max(min(batch_size, problem.n_samples) * each, min(xp_forest.NUMBERS, problem.n_samples * each))
    needed = (ARRAYS * most + problem.X.size + problem.Y.size) * np.dtype(dtype).itemsize
    what = f"batches of {batch_size} rows of {described(form, dtype)}"
    return devices.lacking(devices.cupy(), needed, what, LOWER, idle)


class ForestRows(DeviceArrays):
    """The kernels of `opttree.kernels.forest`, by array functions, on another device than the CPU.

    Parameters
    ----------
    problem : whose rows go to the device.
    form : of the forest, as the kernels take it.
    dtype : "float32" or "float64".
    xp : array namespace; None: CuPy.

    Raises
    ------
    RuntimeError
        Where there is no CuPy or no device.
    MemoryError
        Where the device has too little memory, in one sentence.
    """

    def __init__(self, problem: TreeProblem, form: Any, dtype: str, xp: Any = None) -> None:
        super().__init__(xp, dtype, described(form, dtype), LOWER)
        self.form = form
        with self.within_memory():
            self.X, self.y, self.w = (self.upload(part) for part in (problem.X, problem.Y, problem.w))

    def value_and_grad(self, theta: Floats) -> tuple[float, Floats]:
        """The objective at ``theta (size,)`` on all rows as one batch, and its gradient (size,)."""
        with self.within_memory():
            value, gradient = xp_forest.value_and_gradient(
                self.xp, self.upload(theta), self.X, self.y, self.w, self.form
            )
        return float(value), self.download(gradient)

    def mean_loss(self, theta: Any) -> float:
        """Squared error of the forest's answers on all rows; ``theta`` is NumPy's or on the device."""
        theta = self.upload(theta) if isinstance(theta, np.ndarray) else theta
        with self.within_memory():
            return float(xp_forest.mean_loss(self.xp, theta, self.X, self.y, self.w, self.form))

    def descend(
        self, theta: Any, state: Any, done: int, rates: Floats, groups: Sequence[NDArray[np.integer]], moments: Any
    ) -> tuple[Any, Any, float]:
        """See `opttree.SoftForestProblem.descend`."""
        rate, rows = self.upload(self._rates(rates)), (self.X, self.y, self.w)
        with self.within_memory():
            return xp_forest.descend(self.xp, theta, state, done, rate, rows, groups, self.form, moments)

    def _rates(self, rates: Floats) -> Floats:
        """The learning rate of each entry of theta."""
        form = self.form
        n_leaves = form.n_trees * (1 << form.depth) * form.width
        parts = []
        for layer in range(form.n_layers):
            size = layer_start.py_func(form, layer + 1) - layer_start.py_func(form, layer)
            parts.append(np.repeat(rates, [size - n_leaves, n_leaves]))
        return np.concatenate(parts)
