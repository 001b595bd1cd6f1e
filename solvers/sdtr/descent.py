"""One run of QHAdam on a soft forest: batches, early stopping counted in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels.first_order import Moments
from opttree.problems import SoftForestProblem
from solvers.gradient import QHAdam

if TYPE_CHECKING:
    from solvers.sdtr.sdtr import SDTR

Floats = NDArray[np.floating]
_QH = QHAdam()
QHADAM = Moments(_QH.beta1, _QH.beta2, _QH.nu1, _QH.nu2, _QH.epsilon)


class ForestDescent:
    """State of one run from ``theta``: after every `SDTR.check` batches theta is judged.

    ``current`` is the last iterate, ``theta`` the best so far, ``loss`` its `mean_loss` on ``judge``'s rows.
    """

    def __init__(
        self, options: SDTR, problem: SoftForestProblem, judge: SoftForestProblem, theta: Floats, rng: Rng
    ) -> None:
        self.options, self.problem, self.judge, self.rng = options, problem, judge, rng
        self.current, self._state = problem.descent_state(theta)
        rate = options.learning_rate
        self._rates = np.array([rate, rate * 2**problem.problem.depth if options.reweight else rate])
        self._parallel = problem.n_trees > 1
        self._waiting: list[NDArray[np.integer]] = []
        self.theta, self.loss = np.array(theta, problem.dtype), judge.mean_loss(theta)
        self.batches = self.best_batch = 0

    @property
    def remaining(self) -> int:
        """Batches to go."""
        looked = self.batches % self.options.check == 0
        stuck = looked and self.batches - self.best_batch >= self.options.patience
        return 0 if stuck else self.options.max_batches - self.batches

    def advance(self, batches: int) -> None:
        """Run up to ``batches`` batches; where that is cut does not change a number."""
        check, until = self.options.check, self.batches + min(batches, self.remaining)
        while self.batches < until and self.remaining:
            stop = min(until, (self.batches // check + 1) * check)
            groups = [self._next() for _ in range(stop - self.batches)]
            self.current, self._state, loss = self.problem.descend(
                self.current, self._state, self.batches, self._rates, groups, QHADAM, self._parallel
            )
            self.batches = stop
            if not (np.isfinite(loss) and np.isfinite(self.problem.to_numpy(self.current)).all()):
                raise FloatingPointError("the weights ceased to be finite; use a lower learning rate")
            if stop % check == 0 or stop == self.options.max_batches:
                judged = self.judge.mean_loss(self.current)
                if judged < self.loss:
                    self.theta, self.loss, self.best_batch = self.problem.to_numpy(self.current), judged, stop

    def _next(self) -> NDArray[np.integer]:
        """Rows of the next batch; batches of one pass over the rows are of one size, up to a row."""
        if not self._waiting:
            order = self.rng.permutation(self.problem.problem.n_samples)
            self._waiting = np.array_split(order, -(-order.size // self.options.batch_size))
        return self._waiting.pop()
