"""One run of Adam on the dense representation: batches, averaged weights, early stopping."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels import dense
from opttree.kernels.first_order import Moments
from opttree.problems import DenseTreeProblem

if TYPE_CHECKING:
    from solvers.gradtree.gradtree import GradTree

Floats = NDArray[np.floating]
ADAM = Moments(0.9, 0.999, 1.0, 1.0, 1e-7)  # TensorFlow's numbers, which the authors use


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
        size = min(self.options.batch_size, -(-n // 2))
        ends = np.append(np.arange(size, n, size), n)
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
                raise FloatingPointError("the weights of a start ceased to be finite; use lower learning rates")
            self._last.append(self._current.copy())
            mean = np.mean(self._last, axis=0, dtype=self._current.dtype)
            judged = self.judge.value(mean)
            self.stuck += 1
            if judged < self.loss:
                self.theta, self.loss, self.stuck, self.best_epoch = mean, judged, 0, self.epoch
