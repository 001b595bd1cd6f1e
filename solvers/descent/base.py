"""`Descent`, the loop of first-order methods: time slices, checkpoints, averaging, early stopping, many starts."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from opttree.runtime.clock import now, seconds_left
from opttree.runtime.threads import available, each

Floats = NDArray[np.floating]
SLICE_SECONDS = 0.05  # target time of a slice between two checks of the clock


class Run(Protocol):
    """A run from one or several starts, in slices; the results do not depend on the slices."""

    @property
    def thetas(self) -> list[Floats]:
        """The current theta of each start; in the end, the results."""
        ...

    @property
    def device(self) -> str:
        """The device that it runs on, "cpu", "gpu" or "torch"."""
        ...

    @property
    def remaining(self) -> int:
        """Number of remaining steps."""
        ...

    def advance(self, steps: int) -> None:
        """Take up to ``steps`` of the remaining steps."""
        ...


class Steps(Protocol):
    """Optimizer steps, run by a `Descent`: from one or several starts, on the CPU or a GPU."""

    @property
    def thetas(self) -> Any:
        """The current thetas of the starts (S, size), as arrays of the device."""
        ...

    @property
    def device(self) -> str:
        """The device that it runs on, "cpu", "gpu" or "torch"."""
        ...

    def take(self, first: int, last: int) -> None:
        """Steps number ``first`` to ``last - 1``."""
        ...

    def validation_losses(self, thetas: Any, done: int) -> Any:
        """(S,) validation losses of thetas after ``done`` steps."""
        ...

    def mean(self, thetas: Sequence[Any]) -> Any:
        """The mean of some ``thetas``."""
        ...

    def host(self, thetas: Any) -> Floats:
        """A copy of thetas (S, size) as a NumPy array."""
        ...


@dataclass
class Best:
    """The best theta of a start so far, its validation loss, and the number of steps after which it was found."""

    theta: Floats
    loss: float = np.inf
    step: int = 0


class Descent:
    """Run up to ``total`` of the ``steps`` from all their starts.

    Parameters
    ----------
    steps : Steps
        The optimizer steps, of all starts.
    total : int
        Largest number of steps.
    check : int, default 1
        Steps between checkpoints; there is also one at the end.
    average : int, default 1
        The thetas of a checkpoint are averaged over this many last checkpoints.
    patience : int or None, default None
        None: the last checkpoint is the result, without validation. A number: the result is each start's best
        checkpoint, and a start stops after this many steps without a better one. A stopped start is still updated
        together with the others, but its result stays fixed.
    first : sequence of float or None, default None
        Validation loss of the initial theta of each start; None: any checkpoint is better.
    """

    def __init__(
        self,
        steps: Steps,
        total: int,
        *,
        check: int = 1,
        average: int = 1,
        patience: int | None = None,
        first: Sequence[float] | None = None,
    ) -> None:
        self.steps, self.total, self.check, self.patience = steps, total, check, patience
        self.done = 0
        self.best = [Best(theta) for theta in steps.host(steps.thetas)]
        for best, loss in zip(self.best, first or (), strict=False):
            best.loss = float(loss)
        self._last: deque[Any] = deque(maxlen=average)
        self._stopped = np.zeros(len(self.best), bool)

    @property
    def device(self) -> str:
        """The device that it runs on, "cpu", "gpu" or "torch"."""
        return self.steps.device

    @property
    def settled(self) -> bool:
        """Whether all starts have stopped early."""
        return bool(self._stopped.all())

    @property
    def remaining(self) -> int:
        """Remaining steps; 0 if all starts have stopped."""
        return 0 if self.settled else self.total - self.done

    def advance(self, steps: int) -> None:
        """Take up to ``steps`` steps."""
        until = self.done + min(steps, self.remaining)
        checked = self.patience is not None or (self._last.maxlen or 1) > 1
        while self.done < until and self.remaining:
            stop = min(until, (self.done // self.check + 1) * self.check) if checked else until
            self.steps.take(self.done, stop)
            self.done = stop
            if checked and (stop % self.check == 0 or stop == self.total):
                self._checkpoint()

    def _checkpoint(self) -> None:
        if (self._last.maxlen or 1) > 1:
            self._last.append(self.steps.thetas + 0)
        if self.patience is None:
            return
        thetas = self._averaged()
        losses, host = self.steps.validation_losses(thetas, self.done), None
        for k, best in enumerate(self.best):
            if self._stopped[k]:
                continue
            if losses[k] < best.loss:
                host = self.steps.host(thetas) if host is None else host
                best.theta, best.loss, best.step = host[k], float(losses[k]), self.done
            self._stopped[k] = self.done - best.step >= self.patience

    def _averaged(self) -> Any:
        return self.steps.mean(self._last) if self._last else self.steps.thetas

    @property
    def thetas(self) -> list[Floats]:
        """The current thetas; in the end, the thetas of the best checkpoints or of the last one."""
        if self.remaining:
            return list(self.steps.host(self.steps.thetas))
        if self.patience is not None:
            return [best.theta for best in self.best]
        return list(self.steps.host(self._averaged()))


def run_all(runs: Sequence[Run], remaining: int = 0) -> Generator[None, None, None]:
    """Run all ``runs`` until so many of their steps remain, in slices of about `SLICE_SECONDS`; yields None between
    slices.

    As many runs as threads, or more, go side by side, each on one thread. Fewer runs, and runs on a GPU, take turns,
    each on all threads or the whole GPU. Neither this nor the length of the slices changes the results.
    """
    steps = 1
    while left := [run for run in runs if run.remaining > remaining]:
        began = time.perf_counter()
        advance = partial(_advance, steps, remaining, now() + seconds_left(), left[0])
        if len(left) >= available() and all(run.device == "cpu" for run in left):
            each(advance, left)
        else:
            for run in left:
                advance(run)
        taken = time.perf_counter() - began
        steps = max(1, min(int(steps * min(SLICE_SECONDS / max(taken, 1e-9), 8.0)), 100_000))
        yield


def _advance(steps: int, remaining: int, until: float, first: Run, run: Run) -> None:
    if run is first or now() < until:  # of many runs with slow steps, the first goes on in any case
        run.advance(min(steps, run.remaining - remaining))
