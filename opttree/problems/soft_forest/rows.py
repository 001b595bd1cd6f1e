"""Evaluation of soft forests on a device, with the rows of a problem stored there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.soft_forest import xp as xp_soft_forest
from opttree.kernels.soft_forest.walk import layer_start
from opttree.runtime import devices
from opttree.runtime.devices import Backend, DeviceArrays
from opttree.statement.problem import TreeProblem

Floats = NDArray[np.floating]
LOWER = "lower n_trees, max_depth or batch_size"
ARRAYS = 16  # arrays over trees, rows and leaves in memory at a time


def described(form: Any, dtype: str) -> str:
    """A description of the forest, for messages."""
    return f"a forest of {form.n_trees * form.n_layers} trees of depth {form.depth} in {dtype}"


def memory_refusal(
    backend: Backend, problem: TreeProblem, form: Any, dtype: str, batch_size: int, idle: bool = False
) -> str | None:
    """Why a device's memory is too small for batches of ``batch_size`` rows, or None; ``idle``: as if all of it were
    free.
    """
    each = form.n_layers * form.n_trees * form.width << form.depth  # numbers per row
    most = max(min(batch_size, problem.n_samples) * each, min(xp_soft_forest.NUMBERS, problem.n_samples * each))
    needed = (ARRAYS * most + problem.X.size + problem.Y.size) * np.dtype(dtype).itemsize
    what = f"batches of {batch_size} rows of {described(form, dtype)}"
    return devices.lacking(backend, needed, what, LOWER, idle)


class ForestRows(DeviceArrays):
    """The functions of `opttree.kernels.soft_forest.walk` on a device, by array functions.

    Parameters
    ----------
    problem : TreeProblem
        The problem whose rows are uploaded.
    form : Form
        Shape of the forest, as the kernels take it.
    dtype : {"float32", "float64"}
        Floating type of the variables.
    backend : Backend
        The device's arrays.

    Raises
    ------
    MemoryError
        If the device has too little memory.
    """

    def __init__(self, problem: TreeProblem, form: Any, dtype: str, backend: Backend) -> None:
        super().__init__(backend, dtype, described(form, dtype), LOWER)
        self.form = form
        with self.within_memory():
            self.X, self.y, self.w = (self.upload(part) for part in (problem.X, problem.Y, problem.w))

    def value_and_grad(self, theta: Floats) -> tuple[float, Floats]:
        """The objective at ``theta (size,)`` on all rows as one batch, and its gradient (size,)."""
        with self.within_memory():
            value, gradient = xp_soft_forest.value_and_gradient(
                self.xp, self.upload(theta), self.X, self.y, self.w, self.form
            )
        return float(value), self.download(gradient)

    def mean_loss(self, theta: Any) -> float:
        """Loss of the forest's predictions on all rows; ``theta`` is a NumPy or device array."""
        theta = self.upload(theta) if isinstance(theta, np.ndarray) else theta
        with self.within_memory():
            return float(xp_soft_forest.mean_loss(self.xp, theta, self.X, self.y, self.w, self.form))

    def descend(
        self, theta: Any, state: Any, done: int, rates: Floats, groups: Sequence[NDArray[np.integer]], moments: Any
    ) -> tuple[Any, Any, float]:
        """See `opttree.SoftForestProblem.descend`."""
        rate, rows = self.upload(self._rates(rates)), (self.X, self.y, self.w)
        with self.within_memory():
            return xp_soft_forest.descend(self.xp, theta, state, done, rate, rows, groups, self.form, moments)

    def _rates(self, rates: Floats) -> Floats:
        """The learning rate of each entry of theta."""
        form = self.form
        n_leaves = form.n_trees * (1 << form.depth) * form.width
        parts = []
        for layer in range(form.n_layers):
            size = layer_start.py_func(form, layer + 1) - layer_start.py_func(form, layer)
            parts.append(np.repeat(rates, [size - n_leaves, n_leaves]))
        return np.concatenate(parts)
