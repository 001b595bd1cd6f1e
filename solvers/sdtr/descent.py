"""QHAdam on a soft forest, one batch per step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.problems import SoftForestProblem
from opttree.runtime.clock import now, seconds_left
from opttree.statement import TreeProblem
from solvers.descent import Descent, QHAdam
from solvers.descent.base import SLICE_SECONDS

Floats = NDArray[np.floating]
QHADAM = QHAdam().moments
PORTION = 200_000_000  # rows x variables between two checks of the clock, about
DIVERGED = "the weights ceased to be finite; use a lower learning rate"


def descent(
    options: Any, problem: SoftForestProblem, validation: SoftForestProblem, theta: Floats, rng: Rng
) -> Descent:
    """A run from ``theta (size,)``, with `mean_loss` on the rows of ``validation`` every ``options.check`` batches."""
    how = {"check": options.check, "patience": options.patience, "first": [validation.mean_loss(theta)]}
    return Descent(ForestSteps(options, problem, validation, theta, rng), options.max_batches, **how)


def parts_of(options: Any, problem: TreeProblem, rng: Rng) -> tuple[TreeProblem, TreeProblem]:
    """The problem on the rows to train on, and on those held out: a share of them, other ones, or all."""
    if isinstance(options.validation, TreeProblem):
        return problem, options.validation
    if options.validation is None or problem.n_samples < 2:
        return problem, problem
    return problem.split(options.validation, rng)


def portion(options: Any, n_rows: int, size: int) -> int:
    """Batches between two checks of the clock."""
    return max(1, min(options.check, PORTION // (min(options.batch_size, n_rows) * size)))


def in_slices(run: Descent, batches: int, pace: int) -> int:
    """Take so many batches, under a time limit as many of them as it allows: ``pace``, which is returned anew, at first
    between two looks at the clock.
    """
    until = run.done + batches
    if math.isinf(seconds_left()):
        run.advance(batches)
    while run.done < until and run.remaining and seconds_left() > 0.0:
        began, before = now(), run.done
        run.advance(min(pace, until - before))
        faster = min(SLICE_SECONDS / max(now() - began, 1e-9), 8.0)
        pace = max(1, int((run.done - before) * faster))
    return pace


def rates(options: Any, depth: int) -> Floats:
    """Learning rates of splits and leaves (SDTR, section III-C)."""
    return np.array([options.learning_rate, options.learning_rate * (2**depth if options.reweight else 1)])


class ForestSteps:
    """Steps from one start, on the device that evaluates the forest; thetas stay there."""

    def __init__(
        self, options: Any, problem: SoftForestProblem, validation: SoftForestProblem, theta: Floats, rng: Rng
    ) -> None:
        self.options, self.problem, self.validation, self.rng = options, problem, validation, rng
        self.device: str = problem.device
        self._current, self._state = problem.descent_state(theta)
        self._rates = rates(options, problem.problem.depth)
        self._waiting: list[NDArray[np.integer]] = []

    @property
    def thetas(self) -> Any:
        """(1, size)."""
        return self._current[None, ...]

    def take(self, first: int, last: int) -> None:
        """Batches number ``first`` to ``last - 1``."""
        groups = [self._next() for _ in range(first, last)]
        self._current, self._state, loss = self.problem.descend(
            self._current, self._state, first, self._rates, groups, QHADAM
        )
        if not (np.isfinite(loss) and np.isfinite(self.host(self.thetas)).all()):
            raise FloatingPointError(DIVERGED)

    def _next(self) -> NDArray[np.integer]:
        """Rows of the next batch; within a pass over the rows, batch sizes differ by at most one row."""
        if not self._waiting:
            order = self.rng.permutation(self.problem.problem.n_samples)
            n_batches = -(-order.size // self.options.batch_size)
            least, longer = divmod(order.size, n_batches)
            ends = [(i + 1) * least + min(i + 1, longer) for i in range(n_batches)]
            self._waiting = [order[a:b] for a, b in zip([0, *ends], ends, strict=False)]
        return self._waiting.pop()

    def validation_losses(self, thetas: Any, done: int) -> Any:
        """The mean loss."""
        return [self.validation.mean_loss(thetas[0, ...])]

    def mean(self, thetas: Sequence[Any]) -> Any:
        """The mean of some thetas."""
        return sum(thetas) / len(thetas)

    def host(self, thetas: Any) -> Floats:
        """A copy as a NumPy array."""
        return np.array(self.problem.to_numpy(thetas))
