"""Dense trees side by side on a GPU: epochs of straight-through gradients for S thetas at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree import devices
from opttree.devices import DeviceArrays
from opttree.kernels import fused_dense

Floats = NDArray[np.floating]
Rows = tuple[Floats, Floats, Floats]  # X (n, p); Y (n, K) or class codes (n, 1); w (n,) in float64
LOWER = "lower n_starts, max_depth or batch_size"


def memory_refusal(n_starts: int, n: int, form: Any, dtype: str, batch_size: int) -> str | None:
    """Why GPU memory does not suffice for ``n_starts`` starts on ``n`` rows, or None."""
    needed = n * ((form.n_features + form.n_outputs) * np.dtype(dtype).itemsize + 8 + 4 * n_starts)
    needed += fused_dense.needed(form, dtype, n_starts, min(batch_size, n))
    what = f"{n_starts} starts of depth {form.depth} on {n} rows of {form.n_features} features in {dtype}"
    return devices.lacking(devices.cupy(), needed, what, LOWER)


class DenseBatch(DeviceArrays):
    """The functions of `opttree.kernels.dense` on a GPU, for S starts at a time.

    Parameters
    ----------
    train, judge : training and validation rows, in the format of `DenseTreeProblem.data`.
    form : as the kernels take it; dtype : "float32" or "float64".
    n_starts : S.
    batch_size : largest number of rows in a batch.

    Raises
    ------
    RuntimeError
        If CuPy or a device is missing.
    MemoryError
        If the device has too little memory.
    """

    def __init__(self, train: Rows, judge: Rows, form: Any, dtype: str, n_starts: int, batch_size: int) -> None:
        super().__init__(None, dtype, f"{n_starts} starts of depth {form.depth} in {dtype}", LOWER)
        self.form = form
        self._w, self._judging = train[2], float(judge[2].sum())
        with self.within_memory():
            self.train = tuple(self.xp.asarray(part) for part in train)
            self.judge = self.train if judge is train else tuple(self.xp.asarray(part) for part in judge)
            self._space = fused_dense.space(self.xp, form, dtype, n_starts, min(batch_size, train[0].shape[0]))

    def batches(self, orders: NDArray[np.integer], ends: NDArray[np.integer]) -> list[Any]:
        """Batches for `step`: the rows ``orders (S, n)`` of each start, divided at ``ends``."""
        begins = np.append(0, ends[:-1])
        weights = self.xp.asarray(np.ascontiguousarray(np.add.reduceat(self._w[orders], begins, axis=1).T))
        order = self.xp.asarray(orders.astype(np.int32))
        cuts = enumerate(zip(begins, ends, strict=True))
        return [(order, int(begin), int(end - begin), weights[i]) for i, (begin, end) in cuts]

    def step(
        self,
        theta: Any,
        state: tuple[Any, Any],
        number: int,
        rates: Sequence[float],
        temperature: float,
        seeds: Any,
        batch: Any,
        moments: Any,
    ) -> None:
        """Step ``number`` (from 1) of Adam for all starts, see `opttree.kernels.dense.descend`, without waiting.

        Parameters
        ----------
        theta : (S, size) on the device; state : its moments. All are overwritten.
        rates : learning rates of logits, thresholds and leaves.
        seeds : (S,) on the device.
        """
        fused_dense.descend_step(
            self._space, theta, state, self.train, batch, seeds, number, temperature, rates, self.form, moments
        )

    def losses(self, theta: Any, seeds: Any) -> Floats:
        """Mean losses (S,) of the hard trees of theta on the validation rows."""
        sums = fused_dense.losses(self._space, theta, seeds, self.judge, self.form)
        return self.download(self.xp.sum(sums, axis=1)) / self._judging
