"""One run of Adam on the dense representation: batches, averaged weights, early stopping."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels import dense
from opttree.kernels.first_order import Moments
from opttree.problems import DenseTreeProblem
from opttree.problems.dense_batch import DenseBatch

if TYPE_CHECKING:
    from solvers.gradtree.gradtree import GradTree

Floats = NDArray[np.floating]
DIVERGED = "the weights of a start ceased to be finite; use lower learning rates"
ADAM = Moments(0.9, 0.999, 1.0, 1.0, 1e-7)  # TensorFlow's numbers, which the authors use


def batch_ends(n: int, batch_size: int) -> NDArray[np.integer]:
    """Where the batches of ``n`` rows end: of ``batch_size`` rows, at most half of all."""
    size = min(batch_size, -(-n // 2))
    return np.append(np.arange(size, n, size), n)


class DenseDescent:
    """State of one run from ``theta``: after each epoch, the mean of the last thetas is judged.

    ``theta`` is the best of these means so far, ``loss`` its hard loss on ``judge``'s rows.
    """

    def __init__(
        self, options: GradTree, problem: DenseTreeProblem, judge: DenseTreeProblem, theta: Floats, rng: Rng
    ) -> None:
        self.options, self.problem, self.judge, self.rng = options, problem, judge, rng
        self._current = np.array(theta, problem.dtype)
        self._state = np.zeros((2, theta.size), problem.dtype)
        self._last: deque[Floats] = deque(maxlen=options.average)
        self._temperatures = np.geomspace(*options.temperatures, options.epochs)
        self._rates = np.array(options.learning_rates, np.float64)
        self._seed = int(rng.integers(2**31))
        self.theta, self.loss = self._current.copy(), judge.value(theta)
        self.epoch = self.updates = self.stuck = self.best_epoch = 0

    @property
    def remaining(self) -> int:
        """Epochs to go."""
        return 0 if self.stuck >= self.options.patience else self.options.epochs - self.epoch

    def advance(self, epochs: int) -> None:
        """Run up to ``epochs`` epochs, on the calling thread."""
        n = self.problem.problem.n_samples
        ends = batch_ends(n, self.options.batch_size)
        for _ in range(epochs):
            if not self.remaining:
                return
            temperatures = np.full(ends.size, self._temperatures[self.epoch])
            loss = dense.descend(
                self._current,
                self._state,
                self.updates,
                self._rates,
                temperatures,
                self._seed,
                *self.problem.data,
                self.rng.permutation(n),
                ends,
                self.problem.form,
                ADAM,
            )
            self.updates += ends.size
            self.epoch += 1
            if not (np.isfinite(loss) and np.isfinite(self._current).all()):
                raise FloatingPointError(DIVERGED)
            self._last.append(self._current.copy())
            mean = np.mean(self._last, axis=0, dtype=self._current.dtype)
            judged = self.judge.value(mean)
            self.stuck += 1
            if judged < self.loss:
                self.theta, self.loss, self.stuck, self.best_epoch = mean, judged, 0, self.epoch


@dataclass
class Start:
    """Where one of the starts of a `DenseDescents` stands, as a `DenseDescent` says it."""

    theta: Floats
    loss: float
    stuck: int = 0
    best_epoch: int = 0


class DenseDescents:
    """`DenseDescent` on a GPU: the runs from all starts side by side, each judged by itself.

    Thetas, moments and the last thetas stay on the device; after each epoch the losses come back. Starts that have
    stopped go on moving, but their best does not change.
    """

    def __init__(
        self,
        options: GradTree,
        problem: DenseTreeProblem,
        judge: DenseTreeProblem,
        thetas: Sequence[Floats],
        rngs: Sequence[Rng],
    ) -> None:
        self.options, self.rngs, self.n = options, rngs, problem.problem.n_samples
        self._ends = batch_ends(self.n, options.batch_size)
        rows, count = (problem.data, judge.data), len(thetas)
        self._batch = DenseBatch(*rows, problem.form, problem.dtype, count, int(np.diff(self._ends, prepend=0).max()))
        self._seeds = self._batch.xp.asarray(np.array([rng.integers(2**31) for rng in rngs], np.int64))
        self._current = self._batch.upload(thetas)
        self._state = self._batch.upload(np.zeros_like(thetas)), self._batch.upload(np.zeros_like(thetas))
        self._last: deque[Any] = deque(maxlen=options.average)
        self._temperatures = np.geomspace(*options.temperatures, options.epochs)
        self.starts = [Start(np.array(theta, problem.dtype), judge.value(theta)) for theta in thetas]
        self.epoch = self.updates = 0

    @property
    def remaining(self) -> int:
        """Epochs to go, for those that go on."""
        goes_on = any(start.stuck < self.options.patience for start in self.starts)
        return self.options.epochs - self.epoch if goes_on else 0

    def advance(self, epochs: int) -> None:
        """Run up to ``epochs`` epochs."""
        with self._batch.within_memory():
            for _ in range(epochs):
                if self.remaining:
                    self._epoch()

    def _epoch(self) -> None:
        xp, orders = self._batch.xp, np.stack([rng.permutation(self.n) for rng in self.rngs])
        rates, temperature = self.options.learning_rates, float(self._temperatures[self.epoch])
        for batch in self._batch.batches(orders, self._ends):
            self.updates += 1
            self._batch.step(self._current, self._state, self.updates, rates, temperature, self._seeds, batch, ADAM)
        self.epoch += 1
        self._last.append(self._current + 0.0)
        mean = sum(self._last) / len(self._last)
        losses = self._batch.losses(mean, self._seeds)
        if not (np.isfinite(losses).all() and bool(xp.all(xp.isfinite(self._current)))):
            raise FloatingPointError(DIVERGED)
        for k, start in enumerate(self.starts):
            if start.stuck >= self.options.patience:
                continue
            start.stuck += 1
            if losses[k] < start.loss:
                start.theta, start.loss = xp.asnumpy(mean[k]), float(losses[k])
                start.stuck, start.best_epoch = 0, self.epoch
