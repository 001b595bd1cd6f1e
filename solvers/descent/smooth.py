"""Adam on the smooth tree: one start on the CPU, or several starts in one pass over the rows on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels.smooth.first_order import Schedule, descend
from opttree.kernels.smooth.walk import Objective
from opttree.problems import SmoothTreeProblem

Floats = NDArray[np.floating]
RESORT_EVERY = 25  # epochs between re-sorting the rows by leaf, if subtrees are skipped


class _Adam:
    """Epochs of Adam; subclasses sort the rows, draw batches, and take steps on them."""

    def __init__(
        self,
        options: Any,
        smooths: Sequence[SmoothTreeProblem],
        thetas: Sequence[Floats],
        scales: Sequence[Floats],
        rngs: Sequence[Rng],
        closed_leaves: bool,
        validation: SmoothTreeProblem | None,
    ) -> None:
        self.options, self.eps, self.rngs = options, smooths[0].eps, rngs
        self.closed_leaves, self.validation = closed_leaves, validation
        self.scales = np.stack([np.asarray(s, np.float64) for s in scales], axis=1)  # (epochs, S)
        self.rates, self.updates = options.rates(len(self.scales)), 0
        self._place(smooths, thetas)

    def _place(self, smooths: Sequence[SmoothTreeProblem], thetas: Sequence[Floats]) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _place")

    def _epochs(self, first: int, last: int) -> None:
        while first < last:
            stop = last
            if self.options.batch_size is not None:
                stop = first + 1
                self._run(self._shuffled(self.options.batch_size), first, stop)
            else:
                if self.eps > 0.0:
                    if first % RESORT_EVERY == 0:
                        self._sort(first)
                    stop = min(last, (first // RESORT_EVERY + 1) * RESORT_EVERY)
                self._run(None, first, stop)
            first = stop

    def _orders(self, sizes: Sequence[int], batch_size: int) -> list[list[NDArray[np.integer]]]:
        """For each start, the rows of its batches."""
        orders = [rng.permutation(size) for rng, size in zip(self.rngs, sizes, strict=True)]
        return [np.array_split(order, -(-order.size // batch_size)) for order in orders]

    def _sort(self, epoch: int) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _sort")

    def _shuffled(self, batch_size: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define _shuffled")

    def _run(self, batches: Any, first: int, last: int) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _run")


class AdamOnRows(_Adam):
    """Adam from one start, on the CPU. A step is an epoch."""

    device = "cpu"

    def _place(self, smooths: Sequence[SmoothTreeProblem], thetas: Sequence[Floats]) -> None:
        (self.smooth,) = smooths
        self.thetas = np.array(thetas, self.smooth.dtype)
        self.moments = np.zeros((2, self.smooth.size), self.smooth.dtype)

    def take(self, first: int, last: int) -> None:
        """Epochs number ``first`` to ``last - 1``."""
        self._epochs(first, last)

    def _sort(self, epoch: int) -> None:
        self.smooth = self.smooth.with_alpha(self.scales[epoch, 0]).sort(self.thetas[0])

    def _shuffled(self, batch_size: int) -> Any:
        return self.smooth.pack_rows(self._orders([self.smooth.problem.n_samples], batch_size)[0])

    def _run(self, batches: Any, first: int, last: int) -> None:
        if batches is None:
            batches = self.smooth.data, np.repeat([[0, self.smooth.data.w.shape[0]]], last - first, axis=0)
        data, blocks = batches
        repeat = len(blocks) // (last - first)
        rates, scales = (np.repeat(numbers[first:last], repeat) for numbers in (self.rates, self.scales[:, 0]))
        schedule = Schedule(self.updates, rates, scales, blocks)
        objective = Objective(data, self.smooth.form, self.smooth.penalty)
        descend(self.thetas[0], self.moments, schedule, self.options.moments, self.closed_leaves, objective)
        self.updates += len(blocks)

    def validation_losses(self, thetas: Floats, done: int) -> Any:
        """The objective of the validation problem, at the gate scale of the last epoch."""
        assert self.validation is not None
        smooth = self.validation.with_alpha(float(self.scales[done - 1, 0]))
        return [smooth.value_and_grad(thetas[0])[0]]

    def mean(self, thetas: Sequence[Floats]) -> Floats:
        """The mean of some thetas."""
        return np.mean(thetas, axis=0, dtype=self.thetas.dtype)

    def host(self, thetas: Floats) -> Floats:
        """A copy."""
        return thetas.copy()


class AdamOnBatch(_Adam):
    """Adam from several starts on a GPU, where thetas and moments are kept. A step is an epoch.

    Batches are the same as if the starts were run separately.
    """

    def _place(self, smooths: Sequence[SmoothTreeProblem], thetas: Sequence[Floats]) -> None:
        self.device: str = smooths[0].device
        self.batch = SmoothTreeProblem.batch_of(smooths)
        self.thetas = self.batch.upload(thetas)
        self.state = self.batch.upload(np.zeros_like(thetas)), self.batch.upload(np.zeros_like(thetas))
        self._alphas, self.rows = self.batch.upload(self.scales), self.batch.every_row
        if self.validation is not None:
            self.validation_batch = SmoothTreeProblem.batch_of([self.validation] * len(smooths))

    def take(self, first: int, last: int) -> None:
        """Epochs number ``first`` to ``last - 1`` of all starts."""
        with self.batch.within_memory():
            self._epochs(first, last)
            self.batch.backend.wait()

    def _sort(self, epoch: int) -> None:
        self.rows = self.batch.sorted_rows(self.thetas, self._alphas[epoch, ...])

    def _shuffled(self, batch_size: int) -> Any:
        parts = self._orders(self.batch.sizes, batch_size)
        return [self.batch.batch(groups) for groups in zip(*parts, strict=True)]

    def _run(self, batches: Any, first: int, last: int) -> None:
        how = self.options.moments, self.closed_leaves
        for epoch in range(first, last):
            rate, alpha = float(self.rates[epoch]), self._alphas[epoch, ...]
            for rows in [self.rows] if batches is None else batches:
                self.updates += 1
                self.thetas, self.state = self.batch.step(
                    self.thetas, self.state, self.updates, rate, alpha, rows, *how
                )

    def validation_losses(self, thetas: Any, done: int) -> Any:
        """The objectives of the validation problem, at the gate scales of the last epoch."""
        with self.batch.within_memory():
            return self.validation_batch.evaluate(self.host(thetas), self.scales[done - 1])[0]

    def mean(self, thetas: Sequence[Any]) -> Any:
        """The mean of some thetas."""
        return sum(thetas) / len(thetas)

    def host(self, thetas: Any) -> Floats:
        """A copy as a NumPy array."""
        return self.batch.download(thetas)
