"""Batched smooth problems of one form on a device: objectives, gradients and Adam for S thetas in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opttree.kernels.losses.codes import LOG
from opttree.kernels.smooth import fused, xp as arrays
from opttree.kernels.smooth.vectors import BLOCK
from opttree.runtime import devices
from opttree.runtime.devices import Backend, DeviceArrays

Floats = NDArray[np.floating]
Rows = tuple[Floats, Floats, Floats]  # X (n, p); Y (n, K), class codes (n, 1) or losses of the leaves (n, L); w (n,)
ARRAYS = 12  # arrays over starts, rows and leaves in memory at a time, by the array functions
LOWER = "lower n_starts or the number of rows, use dtype='float32'"  # how to need less memory


def described(n_starts: int, n_rows: int, form: Any, dtype: str) -> str:
    """A description of the batch, for messages."""
    return f"{n_starts} starts of depth {form.depth} on {n_rows} rows of {form.n_features} features in {dtype}"


def memory_refusal(
    backend: Backend,
    n_starts: int,
    n_stored: int,
    n_rows: int,
    width: int,
    form: Any,
    dtype: str,
    idle: bool = False,
) -> str | None:
    """Why a device's memory is too small for a batch, or None: ``n_stored`` rows in total, with ``width`` outputs, up
    to ``n_rows`` per start; ``idle``: as if all of it were free.
    """
    cp, item, p = backend.kernels, np.dtype(dtype).itemsize, form.n_features
    what = described(n_starts, n_rows, form, dtype)
    if cp is None:
        portion = min(arrays.NUMBERS, (n_starts * n_rows * max(1, form.n_outputs)) << form.depth)
        rows = (n_stored + n_starts * n_rows) * (p + width + 3)
        return devices.lacking(backend, item * (rows + ARRAYS * portion), what, LOWER, idle)
    size = fused.own_sizes(cp, form, dtype)
    if size.shared > fused.shared_limit(cp):
        return f"device must have {size.shared} bytes of shared memory for {what}; it has {fused.shared_limit(cp)}"
    rows = n_stored * (size.q + width + 1) * item + 8 * max(n_stored, BLOCK * n_starts)
    if form.eps > 0.0:  # room for sorting the rows
        rows += 8 * n_starts * n_rows + n_rows * (2 * p * item + 80)
    needed = rows + fused.needed(cp, form, dtype, n_starts, -(-n_rows // BLOCK))
    return devices.lacking(backend, needed, what, LOWER, idle)


def block_bounds(sizes: NDArray[np.integer]) -> NDArray[np.int32]:
    """First and last block (exclusive) of each start, given its number of rows: (S, 2)."""
    ends = np.cumsum(-(-sizes // BLOCK))
    return np.stack([np.append(0, ends[:-1]), ends], axis=1).astype(np.int32)


class SmoothBatch(DeviceArrays):
    """The functions of the smooth kernels on a device, for S starts at a time.

    Parameters
    ----------
    tables : sequence of ndarray of int
        Rows of each start, ``(X, Y, w)``; starts with the same rows share one object.
    form : Form
        Common form of all starts, as the kernels take it.
    penalties : sequence
        Penalties of each start, as the kernels take them.
    dtype : {"float32", "float64"}
        Floating type of the variables.
    backend : Backend or None, default None
        The device's arrays; None: those of "gpu".
    use_fused : bool or None, default None
        Whether to use the kernels of ``smooth.cu``; None: where there is CuPy. False: the array functions of
        `opttree.kernels.smooth.xp`, which follow the array API and skip no subtrees: they take ``form.eps`` as 0.

    Raises
    ------
    RuntimeError
        If the device is missing.
    MemoryError
        If the device has too little memory; raised before any work.
    """

    def __init__(
        self,
        tables: Sequence[Rows],
        form: Any,
        penalties: Sequence[Any],
        dtype: str,
        *,
        backend: Backend | None = None,
        use_fused: bool | None = None,
    ) -> None:
        backend = devices.backend("gpu") if backend is None else backend
        super().__init__(backend, dtype, described(len(tables), max(len(t[0]) for t in tables), form, dtype), LOWER)
        self.form, self.use_fused = form, backend.kernels is not None if use_fused is None else use_fused
        self.n_starts = len(tables)
        first: dict[int, int] = {}  # first row of each table
        kept: list[Rows] = []
        total = 0
        for table in tables:
            if id(table) not in first:
                first[id(table)] = total
                kept.append(table)
                total += table[0].shape[0]
        self._starts = [first[id(table)] for table in tables]
        self.sizes = [table[0].shape[0] for table in tables]
        X, Y, w = (np.concatenate(parts) if len(kept) > 1 else parts[0] for parts in zip(*kept, strict=True))
        reason = memory_refusal(backend, self.n_starts, X.shape[0], max(self.sizes), Y.shape[1], form, dtype)
        if reason is not None:
            raise MemoryError(reason)
        if self.use_fused:
            X = fused.features(X, fused.own_sizes(backend.kernels, form, dtype).q, dtype)
        elif form.loss == LOG:
            Y = Y[:, 0].astype(np.int64)
        self.w = w
        sums = [w[start : start + size].sum() for start, size in zip(self._starts, self.sizes, strict=True)]
        with self.within_memory():
            self.data = tuple(backend.asarray(x) if x.dtype.kind == "i" else self.upload(x) for x in (X, Y, w))
            self.penalty, self._weight = self.upload(penalties), self.upload(sums)
            every = [np.arange(size) for size in (self.sizes[:1] if len(kept) == 1 else self.sizes)]
            self._all_rows = self.numbered(every)
            if self.use_fused:
                self._space = fused.space(backend.kernels, form, dtype, self.n_starts, -(-max(self.sizes) // BLOCK))

    def numbered(self, orders: Sequence[NDArray[np.integer]]) -> Any:
        """Row numbers in the given orders (one per start, or one for all), as the kernels take them.

        -1 means no row. The fused kernels take blocks (blocks, BLOCK) and the range of blocks of each start (S, 2); the
        array functions take (S or 1, m).
        """
        sizes = np.array([order.size for order in orders])
        if not self.use_fused:
            rows = np.full((sizes.size, sizes.max()), -1, np.int32)
            for numbers, order, start in zip(rows, orders, self._starts, strict=False):
                numbers[: order.size] = start + order
            return self.backend.asarray(rows)
        bounds = block_bounds(sizes)
        rows = np.full(bounds[-1, 1] * BLOCK, -1, np.int32)
        for first, order, start in zip(bounds[:, 0] * BLOCK, orders, self._starts, strict=False):
            rows[first : first + order.size] = start + order
        bounds = np.ascontiguousarray(np.broadcast_to(bounds, (self.n_starts, 2)))
        return self.backend.asarray(rows.reshape(-1, BLOCK)), self.backend.asarray(bounds)

    @cached_property
    def _everything(self) -> tuple[Any, Any, Any]:
        return self._take(*self.every_row)

    def _gathered(self, rows: Any, weight: Any) -> tuple[Any, Any, Any]:
        """X, Y, w of ``rows`` with a leading axis of starts; weights are normalised."""
        return self._everything if rows is self._all_rows else self._take(rows, weight)

    def _take(self, rows: Any, weight: Any) -> tuple[Any, Any, Any]:
        xp, (X, Y, w) = self.xp, self.data
        flat = xp.reshape(rows, (-1,))
        there = flat >= 0
        places = xp.where(there, flat, xp.zeros_like(flat))
        parts = [xp.reshape(xp.take(part, places, axis=0), (*rows.shape, *part.shape[1:])) for part in (X, Y, w)]
        share = xp.reshape(xp.where(there, xp.reshape(parts[2], (-1,)), 0.0 * w[:1]), rows.shape)
        return parts[0], parts[1], share / xp.reshape(weight if rows.shape[0] > 1 else weight[:1], (-1, 1))

    def evaluate(self, thetas: ArrayLike, alphas: ArrayLike) -> tuple[NDArray[np.float64], Floats, Floats]:
        """Objectives (S,) and gradients (S, size) of ``thetas (S, size)`` at gate scales ``alphas (S,)``, and the
        leaves' shares of the weight (S, L).
        """
        theta, xp = self.upload(thetas), self.xp
        alpha = self.upload(alphas)
        if self.use_fused:
            with self.within_memory():
                self._launch(theta, alpha, *self.every_row)
                losses = self.download(xp.sum(self._space.values, axis=1)) / self.download(self._weight)
                penalties = self.download(arrays.penalty_value(xp, theta, self.form, self.penalty))
            return losses + penalties, self.download(self._space.gradient), self.download(self._space.mass)
        with self.within_memory():
            rows = self._gathered(*self.every_row)
            value, gradient, mass = arrays.evaluate(xp, theta, alpha, *rows, self.form, self.penalty)
            return self.download(value).astype(np.float64), self.download(gradient), self.download(mass)

    def _launch(self, theta: Any, alpha: Any, rows: Any, weight: Any) -> None:
        fused.evaluate(self._space, theta, alpha, self.data, rows, weight, self.form, self.penalty)

    def step(
        self,
        theta: Any,
        state: Any,
        number: int,
        rate: float,
        alpha: Any,
        batch: Any,
        moments: Any,
        closed_leaves: bool,
    ) -> tuple[Any, Any]:
        """Step ``number`` (from 1) of Adam for all starts, as in `first_order.descend`, without waiting.

        Parameters
        ----------
        theta : array of shape (S, size)
            The variables of all starts, on the device; may be overwritten.
        state : tuple of array
            The two moments, each of the shape of ``theta``; may be overwritten.
        number : int
            Number of the step, from 1.
        rate : float
            Learning rate.
        alpha : array of shape (S,)
            Gate scales, on the device.
        batch : object
            Rows, see `numbered`, and sums of their weights (S,) on the device.
        moments : Moments
            Coefficients of Adam.
        closed_leaves : bool
            Whether the leaves' constants are kept optimal in closed form.

        Returns
        -------
        theta : array of shape (S, size)
            The variables.
        state : tuple of array
            The moments.
        """
        rows, weight = batch
        if self.use_fused:
            self._launch(theta, alpha, rows, weight)
            fused.adam_step(self._space, theta, state, number, rate, moments, closed_leaves, self.penalty)
            return theta, state
        gathered = self._gathered(rows, weight)
        _value, gradient, mass = arrays.evaluate(self.xp, theta, alpha, *gathered, self.form, self.penalty)
        return arrays.descend_step(
            self.xp, theta, gradient, mass, state, number, rate, moments, self.form, closed_leaves, self.penalty
        )

    def sorted_rows(self, theta: Any, alpha: Any) -> tuple[Any, Any]:
        """The batch of all rows of each start in the order of `opttree.kernels.smooth.xp.path_keys`, for ``eps > 0``;
        the array functions, which skip nothing, take them as they are.
        """
        if not self.use_fused:
            return self.every_row
        xp, p = self.xp, self.form.n_features
        A, b, _values, _coefs = arrays.unpack(xp, theta, self.form)
        bounds = block_bounds(np.array(self.sizes))
        rows = xp.full(int(bounds[-1, 1]) * BLOCK, -1, dtype=xp.int32)
        for s, (start, size) in enumerate(zip(self._starts, self.sizes, strict=True)):
            X = self.data[0][start : start + size, :p]
            order = xp.argsort(arrays.path_keys(xp, A[s], b[s], alpha[s], X, self.form.depth))  # CuPy's sort is stable
            first = int(bounds[s, 0]) * BLOCK
            rows[first : first + size] = xp.astype(order + start, xp.int32)
        return (xp.reshape(rows, (-1, BLOCK)), self.backend.asarray(bounds)), self._weight

    @property
    def every_row(self) -> tuple[Any, Any]:
        """The batch of all rows, for `step`."""
        return self._all_rows, self._weight

    def batch(self, orders: Sequence[NDArray[np.integer]]) -> tuple[Any, Any]:
        """A batch for `step` of some rows, numbered within each start's rows; equally many for each start."""
        sums = [self.w[start + order].sum() for start, order in zip(self._starts, orders, strict=True)]
        return self.numbered(orders), self.upload(sums)
