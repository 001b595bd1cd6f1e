"""Dense trees side by side on a device: epochs of straight-through gradients for S thetas at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.dense import fused as fused_dense, xp as xp_dense
from opttree.kernels.losses.codes import GUMBEL, LOG
from opttree.runtime import devices
from opttree.runtime.devices import Backend, DeviceArrays

Floats = NDArray[np.floating]
State = tuple[Any, Any]
Rows = tuple[Floats, Floats, Floats]  # X (n, p); Y (n, K) or class codes (n, 1); w (n,) in float64
LOWER = "lower n_starts, max_depth or batch_size"
ARRAYS = 6  # arrays over starts, rows and branches in memory at a time, by the array functions


def memory_refusal(backend: Backend, n_starts: int, n: int, form: Any, dtype: str, batch_size: int) -> str | None:
    """Why a device's memory does not suffice for ``n_starts`` starts on ``n`` rows, or None."""
    item, batch = np.dtype(dtype).itemsize, min(batch_size, n)
    needed = n * ((form.n_features + form.n_outputs) * item + 8 + 4 * n_starts)
    if backend.kernels is None:
        each = form.n_features + form.n_outputs + (ARRAYS << form.depth)
        judged = min(xp_dense.NUMBERS, n_starts * n << form.depth)
        needed += item * max(n_starts * batch * each, ARRAYS * judged)
    else:
        needed += fused_dense.needed(form, dtype, n_starts, batch)
    what = f"{n_starts} starts of depth {form.depth} on {n} rows of {form.n_features} features in {dtype}"
    return devices.lacking(backend, needed, what, LOWER)


class Update(NamedTuple):
    """A step of Adam: its number, from 1; learning rates of logits, thresholds and leaves, or of each entry of theta;
    divisor of the logits; and the coefficients of the moments.
    """

    number: int
    rates: Any
    temperature: float
    moments: Any


class DenseBatch(DeviceArrays):
    """The functions of `opttree.kernels.dense.walk` on a device, for S starts at a time; subclasses evaluate them.

    Parameters
    ----------
    backend : Backend
        The device's arrays.
    train, validation : tuple of ndarray
        Training and validation rows, in the format of `DenseTreeProblem.data`.
    form : Form
        Shape of the problem, as the kernels take it.
    dtype : {"float32", "float64"}
        Floating type of the variables.
    seeds : ndarray of int of shape (S,)
        Seed of each start.
    batch_size : int
        Largest number of rows in a batch.

    Raises
    ------
    MemoryError
        If the device has too little memory.
    """

    def __init__(
        self,
        backend: Backend,
        train: Rows,
        validation: Rows,
        form: Any,
        dtype: str,
        seeds: NDArray[np.int64],
        batch_size: int,
    ) -> None:
        super().__init__(backend, dtype, f"{seeds.size} starts of depth {form.depth} in {dtype}", LOWER)
        self.form, self._w, self._validation_weight = form, train[2], float(validation[2].sum())
        with self.within_memory():
            self._place(train, validation, seeds, min(batch_size, train[0].shape[0]))

    def _place(self, train: Rows, validation: Rows, seeds: NDArray[np.int64], batch_size: int) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _place")

    def batches(self, orders: NDArray[np.integer], ends: NDArray[np.integer]) -> list[Any]:
        """Batches for `step`: the rows ``orders (S, n)`` of each start, divided at ``ends``."""
        raise NotImplementedError(f"{type(self).__name__} must define batches")

    def step(self, theta: Any, state: State, batch: Any, update: Update) -> tuple[Any, State]:
        """A step of Adam for all starts, see `opttree.kernels.dense.walk.descend`, without waiting.

        Parameters
        ----------
        theta : array of shape (S, size)
            The variables of all starts, on the device; may be overwritten.
        state : object
            The moments; may be overwritten.
        batch : object
            Rows, one of `batches`.
        update : Update
            Number, learning rates and coefficients of the step.

        Returns
        -------
        theta : array of shape (S, size)
            The variables.
        state : object
            The moments.
        """
        raise NotImplementedError(f"{type(self).__name__} must define step")

    def losses(self, theta: Any) -> Floats:
        """Mean losses (S,) of the hard trees of theta on the validation rows."""
        raise NotImplementedError(f"{type(self).__name__} must define losses")


class FusedDense(DenseBatch):
    """By the kernels of ``dense.cu``."""

    def _place(self, train: Rows, validation: Rows, seeds: NDArray[np.int64], batch_size: int) -> None:
        self._train = tuple(self.backend.asarray(part) for part in train)
        is_other = validation is not train
        self._validation = tuple(map(self.backend.asarray, validation)) if is_other else self._train
        self._seeds = self.backend.asarray(seeds)
        self._space = fused_dense.space(self.backend.kernels, self.form, self.dtype, seeds.size, batch_size)

    def batches(self, orders: NDArray[np.integer], ends: NDArray[np.integer]) -> list[Any]:
        """See `DenseBatch.batches`."""
        begins = np.append(0, ends[:-1])
        weights = self.backend.asarray(np.ascontiguousarray(np.add.reduceat(self._w[orders], begins, axis=1).T))
        order = self.backend.asarray(orders.astype(np.int32))
        cuts = enumerate(zip(begins, ends, strict=True))
        return [(order, int(begin), int(end - begin), weights[i]) for i, (begin, end) in cuts]

    def step(self, theta: Any, state: State, batch: Any, update: Update) -> tuple[Any, State]:
        """See `DenseBatch.step`."""
        fused_dense.descend_step(self._space, theta, state, self._train, batch, self._seeds, self.form, update)
        return theta, state

    def losses(self, theta: Any) -> Floats:
        """See `DenseBatch.losses`."""
        sums = fused_dense.losses(self._space, theta, self._seeds, self._validation, self.form)
        return self.download(self.xp.sum(sums, axis=1)) / self._validation_weight


class ArrayDense(DenseBatch):
    """By the array functions of `opttree.kernels.dense.xp`."""

    def _place(self, train: Rows, validation: Rows, seeds: NDArray[np.int64], batch_size: int) -> None:
        self._train = self._tables(*train[:2])
        self._validation = self._train if validation is train else self._tables(*validation[:2])
        self._share = self.upload(validation[2] / self._validation_weight)
        self._seeds = seeds

    def _tables(self, X: Floats, Y: Floats) -> tuple[Any, Any]:
        return self.upload(X), self.backend.asarray(Y.astype(np.int64)) if self.form.loss == LOG else self.upload(Y)

    def batches(self, orders: NDArray[np.integer], ends: NDArray[np.integer]) -> list[Any]:
        """See `DenseBatch.batches`."""
        batches = []
        for begin, end in zip(np.append(0, ends[:-1]), ends, strict=True):
            rows = orders[:, begin:end]
            weights = self._w[rows]
            share = self.upload(weights / weights.sum(axis=1, keepdims=True))
            batches.append((self.backend.asarray(rows.astype(np.int64)), share))
        return batches

    def step(self, theta: Any, state: State, batch: Any, update: Update) -> tuple[Any, State]:
        """See `DenseBatch.step`."""
        (order, share), xp, form = batch, self.xp, self.form
        places, split = xp.reshape(order, (-1,)), ((1 << form.depth) - 1) * form.n_features
        X, Y = (xp.reshape(xp.take(part, places, axis=0), (*order.shape, part.shape[1])) for part in self._train)
        noise = None
        if form.index == GUMBEL:
            numbers = xp_dense.gumbel(self._seeds + update.number, split)
            noise = self.upload(numbers.reshape(len(numbers), -1, form.n_features))
        rate = self.upload(np.repeat(update.rates, [split, split, form.n_outputs << form.depth]))
        return xp_dense.descend_step(xp, theta, state, noise, (X, Y, share), form, update._replace(rates=rate))

    def losses(self, theta: Any) -> Floats:
        """See `DenseBatch.losses`."""
        losses = xp_dense.losses(self.xp, theta, *self._validation, self._share, self.form)
        return self.download(losses).astype(np.float64)
