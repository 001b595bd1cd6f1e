"""Descents from many starts: one for each on the CPU, one for all on a GPU."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.problems import SmoothTreeProblem
from opttree.problems.smooth_batch import SmoothBatch
from solvers.gradient import RESORT_EVERY, Adam, Descent, Driver

Floats = NDArray[np.floating]


class AdamBatch:
    """`AdamDescent` on a GPU: the runs from several starts side by side, in one pass over the rows; a step is an epoch.

    Thetas and moments stay on the device. Batches are drawn as the runs would draw them one by one, and each run is
    judged by itself: those that have stopped go on moving, but their best does not change.
    """

    def __init__(
        self,
        options: Adam,
        smooths: Sequence[SmoothTreeProblem],
        thetas: Sequence[Floats],
        scales: Sequence[Floats],
        rngs: Sequence[Rng],
        closed_leaves: bool,
        validation: SmoothTreeProblem | None = None,
    ) -> None:
        first = smooths[0]
        self.options, self.rngs, self.closed_leaves, self.eps = options, rngs, closed_leaves, first.eps
        self.batch = SmoothBatch([s.table for s in smooths], first.form, [s.penalty for s in smooths], first.dtype)
        self.theta = self.batch.upload(thetas)
        self.state = self.batch.upload(np.zeros_like(thetas)), self.batch.upload(np.zeros_like(thetas))
        self.scales = np.stack([np.asarray(s, np.float64) for s in scales], axis=1)
        self._alphas = self.batch.upload(self.scales)
        self.rates, self.rows = options.rates(len(self.scales)), self.batch.every_row
        self.epoch = self.updates = 0
        self.checkpoints: deque[Any] = deque(maxlen=options.average)
        self.judge = None
        if validation is not None:
            count = len(smooths)
            self.judge = SmoothBatch([validation.table] * count, first.form, [validation.penalty] * count, first.dtype)
        self.best_values, self.stuck = np.full(len(smooths), np.inf), np.zeros(len(smooths), int)
        self.best_thetas = np.array(thetas, first.dtype)

    device = "gpu"

    @property
    def remaining(self) -> int:
        """Epochs to go, for those that go on."""
        stopped = self.judge is not None and bool(np.all(self.stuck >= self.options.patience))
        return 0 if stopped else len(self.scales) - self.epoch

    def advance(self, steps: int, parallel: bool) -> None:
        """Run up to ``steps`` epochs; ``parallel`` says nothing here."""
        with self.batch.within_memory():
            self._advance(self.epoch + min(steps, self.remaining))
            self.batch.wait()

    def _advance(self, last: int) -> None:
        while self.epoch < last and self.remaining:
            until = self.options.pause(self.epoch, last, self.judge is not None, self.eps)
            if self.options.batch_size is None:
                if self.eps > 0.0 and self.epoch % RESORT_EVERY == 0:
                    self.rows = self.batch.sorted_rows(self.theta, self._alphas[self.epoch])
                self._run([self.rows], until)
            else:
                until = self.epoch + 1
                self._run(self._shuffled(self.options.batch_size), until)
            self.epoch = until
            if self.epoch % self.options.check == 0 or self.epoch == len(self.scales):
                self._checkpoint()

    def _shuffled(self, batch_size: int) -> list[Any]:
        orders = [rng.permutation(size) for rng, size in zip(self.rngs, self.batch.sizes, strict=True)]
        parts = [np.array_split(order, -(-order.size // batch_size)) for order in orders]
        return [self.batch.batch(groups) for groups in zip(*parts, strict=True)]

    def _run(self, batches: list[Any], until: int) -> None:
        moments, closed = self.options.moments, self.closed_leaves
        for epoch in range(self.epoch, until):
            rate, alpha = float(self.rates[epoch]), self._alphas[epoch]
            for batch in batches:
                self.updates += 1
                self.theta, self.state = self.batch.step(
                    self.theta, self.state, self.updates, rate, alpha, batch, moments, closed
                )

    def _checkpoint(self) -> None:
        if self.options.average > 1:
            self.checkpoints.append(self.theta + 0.0)
        if self.judge is not None:
            thetas = self._averaged()
            values = self.judge.evaluate(thetas, self.scales[self.epoch - 1])[0]
            goes_on = self.stuck < self.options.patience
            better = goes_on & (values < self.best_values)
            self.stuck = np.where(better, 0, self.stuck + goes_on)
            self.best_values[better], self.best_thetas[better] = values[better], thetas[better]

    def _averaged(self) -> Floats:
        if self.checkpoints:
            return self.batch.download(sum(self.checkpoints) / len(self.checkpoints))
        return self.batch.download(self.theta)

    @property
    def thetas(self) -> list[Floats]:
        """Thetas of the starts."""
        if self.remaining:
            return list(self.batch.download(self.theta))
        return list(self._averaged() if self.judge is None else self.best_thetas)


def start_all(
    driver: Driver,
    smooths: Sequence[SmoothTreeProblem],
    thetas: Sequence[Floats],
    scales: Sequence[Floats],
    rngs: Sequence[Rng],
    *,
    closed_leaves: bool = False,
) -> list[Descent]:
    """Runs of ``driver`` from all starts: one for each, or on a GPU one for all that can take their steps together."""
    starts = list(zip(smooths, thetas, scales, rngs, strict=True))
    if not (isinstance(driver, Adam) and starts and smooths[0].device == "gpu"):
        return [driver.start(*start, closed_leaves=closed_leaves) for start in starts]
    closed = driver.closes(smooths[0], closed_leaves)
    size = driver.batch_size  # starts with fewer batches in an epoch take their steps by themselves
    groups = groupby(starts, lambda s: size and -(-s[0].problem.n_samples // size))
    sets = [list(zip(*group, strict=True)) for _count, group in groups]
    return [AdamBatch(driver, own[0], own[1], own[2], own[3], closed) for own in sets]
