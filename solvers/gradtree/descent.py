"""Adam on the dense representation, one epoch per step: one start on the CPU, several on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels.dense import walk as dense
from opttree.kernels.smooth.first_order import Moments
from opttree.problems import DenseTreeProblem
from opttree.problems.dense.batch import ArrayDense, DenseBatch, FusedDense, Update
from opttree.runtime import devices
from solvers.descent import Descent

Floats = NDArray[np.floating]
DIVERGED = "the weights of a start ceased to be finite; use lower learning rates"
ADAM = Moments(0.9, 0.999, 1.0, 1.0, 1e-7)  # TensorFlow's defaults, which the authors use


def descents(
    options: Any, problem: DenseTreeProblem, validation: DenseTreeProblem, thetas: Sequence[Floats], rngs: Sequence[Rng]
) -> list[Descent]:
    """One descent per start, or one for all on a GPU; each epoch ends with the hard loss on ``validation``."""
    kind: Any = DenseOnRows
    sets = [([theta], [rng]) for theta, rng in zip(thetas, rngs, strict=True)]
    if options.device in ("gpu", "torch"):
        kind, sets = DenseOnBatch, [(list(thetas), list(rngs))]
    how = {"average": options.average, "patience": options.patience}
    return [
        Descent(
            kind(options, problem, validation, *starts),
            options.epochs,
            first=[validation.value(t) for t in starts[0]],
            **how,
        )
        for starts in sets
    ]


def batch_ends(n: int, batch_size: int) -> NDArray[np.integer]:
    """End of each batch of ``n`` rows; batches have ``batch_size`` rows, at most half of all."""
    size = min(batch_size, -(-n // 2))
    return np.append(np.arange(size, n, size), n)


class _Dense:
    """Common part of the CPU and GPU versions."""

    def __init__(
        self,
        options: Any,
        problem: DenseTreeProblem,
        validation: DenseTreeProblem,
        thetas: Sequence[Floats],
        rngs: Sequence[Rng],
    ) -> None:
        self.options, self.problem, self.rngs, self.n = options, problem, rngs, problem.problem.n_samples
        self._ends = batch_ends(self.n, options.batch_size)
        self._temperatures = np.geomspace(options.temperatures[0], options.temperatures[1], options.epochs)
        self._seeds = np.array([rng.integers(2**31) for rng in rngs], np.int64)
        self.updates = 0
        self._place(validation, thetas)

    def _place(self, validation: DenseTreeProblem, thetas: Sequence[Floats]) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _place")


class DenseOnRows(_Dense):
    """Steps from one start, on the CPU and the calling thread."""

    device = "cpu"

    def _place(self, validation: DenseTreeProblem, thetas: Sequence[Floats]) -> None:
        self.validation = validation
        self.thetas = np.array(thetas, self.problem.dtype)
        self._state = np.zeros((2, self.thetas.shape[1]), self.problem.dtype)
        self._rates = np.array(self.options.learning_rates, np.float64)
        self._seed = int(self._seeds[0])

    def take(self, first: int, last: int) -> None:
        """Epochs number ``first`` to ``last - 1``."""
        theta, rng, data, form = self.thetas[0], self.rngs[0], self.problem.data, self.problem.form
        for epoch in range(first, last):
            hot = np.full(self._ends.size, self._temperatures[epoch])
            schedule = dense.Schedule(self.updates, self._rates, hot, ADAM)
            batches = dense.Batches(rng.permutation(self.n), self._ends)
            loss = dense.descend(theta, self._state, schedule, self._seed, data, batches, form)
            self.updates += self._ends.size
            if not (np.isfinite(loss) and np.isfinite(theta).all()):
                raise FloatingPointError(DIVERGED)

    def validation_losses(self, thetas: Floats, done: int) -> Any:
        """The hard loss."""
        return [self.validation.value(thetas[0])]

    def mean(self, thetas: Sequence[Floats]) -> Floats:
        """The mean of some thetas."""
        return np.mean(thetas, axis=0, dtype=self.thetas.dtype)

    def host(self, thetas: Floats) -> Floats:
        """A copy."""
        return thetas.copy()


class DenseOnBatch(_Dense):
    """Steps from several starts on a GPU, where thetas and moments are kept; only losses return after each epoch."""

    def _place(self, validation: DenseTreeProblem, thetas: Sequence[Floats]) -> None:
        backend, largest = devices.backend(self.options.device), int(np.diff(self._ends, prepend=0).max())
        self.device = backend.name
        kind: type[DenseBatch] = ArrayDense if backend.kernels is None else FusedDense
        shape = self.problem.form, self.problem.dtype, self._seeds
        self._batch = kind(backend, self.problem.data, validation.data, *shape, largest)
        self.thetas = self._batch.upload(thetas)
        self._state = self._batch.upload(np.zeros_like(thetas)), self._batch.upload(np.zeros_like(thetas))

    def take(self, first: int, last: int) -> None:
        """Epochs number ``first`` to ``last - 1`` of all starts."""
        with self._batch.within_memory():
            for epoch in range(first, last):
                orders = np.stack([rng.permutation(self.n) for rng in self.rngs])
                how = self.options.learning_rates, float(self._temperatures[epoch]), ADAM
                for batch in self._batch.batches(orders, self._ends):
                    self.updates += 1
                    update = Update(self.updates, *how)
                    self.thetas, self._state = self._batch.step(self.thetas, self._state, batch, update)

    def validation_losses(self, thetas: Any, done: int) -> Any:
        """The hard losses."""
        xp = self._batch.xp
        with self._batch.within_memory():
            losses = self._batch.losses(thetas)
        if not (np.isfinite(losses).all() and bool(xp.all(xp.isfinite(self.thetas)))):
            raise FloatingPointError(DIVERGED)
        return losses

    def mean(self, thetas: Sequence[Any]) -> Any:
        """The mean of some thetas."""
        return sum(thetas) / len(thetas)

    def host(self, thetas: Any) -> Floats:
        """A copy as a NumPy array."""
        return self._batch.download(thetas)
