"""First-order drivers of `opttree.SmoothTreeProblem`: Adam, QHAdam and L-BFGS, many starts at a time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol, runtime_checkable

import numba
import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels.first_order import Moments, descend
from opttree.options import Checked, changed, option
from opttree.problems import SmoothTreeProblem
from solvers.scipy_runs import Iterate, minimise

Floats = NDArray[np.floating]
SLICE_SECONDS = 0.05  # what may run before the clock is looked at
RESORT_EVERY = 25  # steps after which rows are sorted anew by their leaves, where subtrees are skipped


class Descent(Protocol):
    """One run of a driver from one start, or from several at once, in slices: where they are cut does not change a
    number.
    """

    @property
    def thetas(self) -> list[Floats]:
        """Where the starts stand, and in the end their results."""
        ...

    @property
    def device(self) -> str:
        """Where it computes, "cpu" or "gpu"."""
        ...

    @property
    def remaining(self) -> int:
        """Steps to go."""
        ...

    def advance(self, steps: int, parallel: bool) -> None:
        """Take up to ``steps`` of the remaining steps, on all threads or on this one."""
        ...


@runtime_checkable
class Driver(Protocol):
    """Options of a first-order method."""

    def start(
        self,
        smooth: SmoothTreeProblem,
        theta: Floats,
        scales: Floats,
        rng: Rng,
        *,
        closed_leaves: bool = False,
        validation: SmoothTreeProblem | None = None,
    ) -> Descent:
        """A run from ``theta`` with the gate scale of each epoch in ``scales (epochs,)``."""
        ...


@dataclass(frozen=True)
class Adam(Checked):
    """Adam (Kingma and Ba, ICLR 2015) on full batches or mini-batches, with cosine annealing and warm restarts."""

    learning_rate: float = option(0.01, "Rate at the start of each period of the schedule.", above=0)
    beta1: float = option(0.9, "Decay of the first moment.", least=0, below=1)
    beta2: float = option(0.999, "Decay of the second moment.", least=0, below=1)
    epsilon: float = option(1e-8, "Guard of the division.", least=0)
    nu1: float = option(
        1.0,
        "Share of the first moment against the plain gradient (QHAdam, Ma and Yarats, ICLR 2019).",
        least=0,
        most=1,
    )
    nu2: float = option(
        1.0,
        "The same of the second moment; 1 and 1 make it Adam.",
        least=0,
        most=1,
    )
    period: int | None = option(
        None,
        "Epochs of the first period of the cosine schedule (SGDR, Loshchilov and Hutter, ICLR 2017); None: all.",
        least=1,
    )
    factor: int = option(1, "Each period is this many times as long as the one before.", least=1)
    batch_size: int | None = option(
        None, "Rows of a mini-batch; None: all. Epochs of mini-batches shuffle the rows.", least=1
    )
    check: int = option(10, "Epochs between checkpoints (validation and averaging).", least=1)
    patience: int = option(
        10,
        """Checkpoints without a lower validation objective after which a run with a validation problem stops; its best
        checkpoint is the result.""",
        least=1,
    )
    average: int = option(
        1, "The result is the mean of the last ``average`` checkpoints; 1: the last iterate.", least=1
    )

    def rates(self, epochs: int) -> Floats:
        """Learning rate of each epoch: ``rate (1 + cos(pi k / period)) / 2`` within each period."""
        period = self.period or max(epochs, 1)
        parts: list[Floats] = []
        while sum(part.size for part in parts) < epochs:
            parts.append(0.5 * self.learning_rate * (1.0 + np.cos(np.pi * np.arange(period) / period)))
            period *= self.factor
        return np.concatenate([*parts, np.zeros(0)])[:epochs]

    @property
    def moments(self) -> Moments:
        """Its numbers as the kernels take them."""
        return Moments(self.beta1, self.beta2, self.nu1, self.nu2, self.epsilon)

    def pause(self, epoch: int, last: int, validated: bool, eps: float) -> int:
        """The epoch up to which a run goes on from ``epoch``: a checkpoint, a sort of the rows, or ``last``."""
        checked = validated or self.average > 1
        for every in (self.check if checked else 0, RESORT_EVERY if eps > 0.0 else 0):
            last = min(last, (epoch // every + 1) * every) if every else last
        return last

    def start(
        self,
        smooth: SmoothTreeProblem,
        theta: Floats,
        scales: Floats,
        rng: Rng,
        *,
        closed_leaves: bool = False,
        validation: SmoothTreeProblem | None = None,
    ) -> Descent:
        """A run from ``theta``; ``closed_leaves`` keeps the leaves' constants at their best (expected loss only).

        Linear leaves under log loss have no such closed form and move along the gradient all the same.
        """
        closed_leaves = self.closes(smooth, closed_leaves)
        if smooth.device == "gpu":
            from solvers.side_by_side import AdamBatch

            return AdamBatch(self, [smooth], [theta], [scales], [rng], closed_leaves, validation)
        return AdamDescent(self, smooth, theta, scales, rng, closed_leaves, validation)

    def closes(self, smooth: SmoothTreeProblem, closed_leaves: bool) -> bool:
        """Whether the leaves' constants are kept at their best, where that is asked for; ValueError for a mixture."""
        if closed_leaves and smooth.aggregation != "expected":
            raise ValueError(f"closed_leaves needs aggregation='expected'; got {smooth.aggregation!r}")
        return closed_leaves and not (smooth.linear and smooth.problem.is_classification)


@dataclass(frozen=True)
class QHAdam(Adam):
    """`Adam` with the quasi-hyperbolic terms and decays that Ma and Yarats (ICLR 2019) recommend."""

    beta1: float = changed(0.995)
    nu1: float = changed(0.7)


class AdamDescent:
    """State of one run of `Adam`. A step is an epoch."""

    def __init__(
        self,
        options: Adam,
        smooth: SmoothTreeProblem,
        theta: Floats,
        scales: Floats,
        rng: Rng,
        closed_leaves: bool,
        validation: SmoothTreeProblem | None,
    ) -> None:
        self.options, self.smooth, self.validation = options, smooth, validation
        self.closed_leaves, self.rng = closed_leaves, rng
        self.theta = np.array(theta, smooth.dtype)
        self.moments = np.zeros((2, self.theta.size), smooth.dtype)
        self.scales, self.rates = np.asarray(scales, np.float64), options.rates(len(scales))
        self.epoch = self.updates = 0
        self.checkpoints: deque[Floats] = deque(maxlen=options.average)
        self.parallel = True
        self.best_value, self.best_theta, self.stuck = np.inf, self.theta, 0

    device = "cpu"

    @property
    def thetas(self) -> list[Floats]:
        """The one theta."""
        return [self.theta]

    @property
    def remaining(self) -> int:
        """Epochs to go."""
        stopped = self.validation is not None and self.stuck >= self.options.patience
        return 0 if stopped else len(self.scales) - self.epoch

    def advance(self, steps: int, parallel: bool) -> None:
        """Run up to ``steps`` epochs, from checkpoint to checkpoint and from sort to sort."""
        self.parallel = parallel
        last = self.epoch + min(steps, self.remaining)
        while self.epoch < last and self.remaining:
            until = self.options.pause(self.epoch, last, self.validation is not None, self.smooth.eps)
            if self.options.batch_size is None:
                if self.smooth.eps > 0.0 and self.epoch % RESORT_EVERY == 0:
                    self.smooth = self.smooth.with_alpha(self.scales[self.epoch]).sort(self.theta)
                blocks = np.array([[0, self.smooth.data.w.shape[0]]])
                self._run(self.smooth.data, np.repeat(blocks, until - self.epoch, axis=0), until, parallel)
            else:
                until = self.epoch + 1
                order = self.rng.permutation(self.smooth.problem.n_samples)
                groups = np.array_split(order, -(-order.size // self.options.batch_size))
                self._run(*self.smooth.pack_rows(groups), until, parallel)
            self.epoch = until
            if self.epoch % self.options.check == 0 or self.epoch == len(self.scales):
                self._checkpoint()
        if not self.remaining:
            self._finish()

    def _run(self, data: Floats, batches: NDArray[np.integer], until: int, parallel: bool) -> None:
        repeat = len(batches) // (until - self.epoch)
        descend(
            self.theta,
            self.moments,
            self.updates,
            np.repeat(self.rates[self.epoch : until], repeat),
            np.repeat(self.scales[self.epoch : until], repeat),
            batches,
            self.options.moments,
            self.closed_leaves,
            data,
            self.smooth.form,
            self.smooth.penalty,
            parallel,
        )
        self.updates += len(batches)

    def _checkpoint(self) -> None:
        if self.options.average > 1:
            self.checkpoints.append(self.theta.copy())
        if self.validation is not None:
            judge = self.validation.with_alpha(float(self.scales[self.epoch - 1]))
            value = judge.value_and_grad(self._averaged(), parallel=self.parallel)[0]
            self.stuck += 1
            if value < self.best_value:
                self.best_value, self.best_theta, self.stuck = value, self._averaged().copy(), 0

    def _averaged(self) -> Floats:
        return np.mean(self.checkpoints, axis=0, dtype=self.theta.dtype) if self.checkpoints else self.theta

    def _finish(self) -> None:
        self.theta = self._averaged() if self.validation is None else self.best_theta


@dataclass(frozen=True)
class LBFGS(Checked):
    """SciPy's L-BFGS-B, one run for each stretch of the schedule with one gate scale, warm-started from the one before.

    It wants a ladder of few scales, ``Anneal(scale_ranges=...)``: where the scale grows every epoch a run is one step.
    """

    memory: int = option(10, "Pairs of the quasi-Newton approximation.", least=1)
    iterations: int = option(50, "Between two looks at the clock.", least=1)
    tol: float = option(1e-8, "Stop at a gradient norm (largest entry) under this.", least=0)

    def start(
        self,
        smooth: SmoothTreeProblem,
        theta: Floats,
        scales: Floats,
        rng: Rng,
        *,
        closed_leaves: bool = False,
        validation: SmoothTreeProblem | None = None,
    ) -> LBFGSDescent:
        """A run from ``theta``. Full batches only; it has no use for ``validation``."""
        if closed_leaves or validation is not None:
            raise ValueError("LBFGS moves all of theta on all rows; got closed_leaves or a validation problem")
        return LBFGSDescent(self, smooth, theta, scales)


class LBFGSDescent:
    """State of one run of `LBFGS`. A step is an iteration; each scale may take as many as it has epochs."""

    def __init__(self, options: LBFGS, smooth: SmoothTreeProblem, theta: Floats, scales: Floats) -> None:
        self.options, self.smooth = options, smooth
        self.theta: Floats = np.array(theta, np.float64)
        self.device = smooth.device
        self.ladder = [(float(a), len(list(run))) for a, run in groupby(np.asarray(scales))]
        self.run: Generator[Iterate | None, None, Any] | None = None  # at the scale that is due

    @property
    def thetas(self) -> list[Floats]:
        """The one theta."""
        return [self.theta]

    @property
    def remaining(self) -> int:
        """Iterations to go, at most."""
        return sum(k for _alpha, k in self.ladder)

    def advance(self, steps: int, parallel: bool) -> None:
        """The next `LBFGS.iterations`, whatever ``steps``, of the run at the gate scale that is due."""
        alpha, left = self.ladder[0]
        if self.run is None:
            smooth = self.smooth.with_alpha(alpha)
            self.run = minimise(
                lambda theta: smooth.value_and_grad(theta, parallel=parallel),
                self.theta,
                self.options.iterations,
                method="L-BFGS-B",
                options={"maxcor": self.options.memory, "maxiter": left, "gtol": self.options.tol, "ftol": 0.0},
            )
        try:
            while (iterate := next(self.run)) is None:
                pass
            self.theta = iterate.theta
            self.ladder[0] = alpha, max(left - self.options.iterations, 1)
        except StopIteration as stop:
            self.theta, self.run = stop.value[0].x, None
            self.ladder.pop(0)


def run_all(descents: Sequence[Descent]) -> Generator[None, None, None]:
    """Run ``descents`` to their ends, in slices of about `SLICE_SECONDS`; yields None between slices.

    Several run side by side, one on each thread; fewer than there are threads, and those on a GPU, run one after the
    other, each on all of it. Neither that nor the length of the slices changes a result.
    """
    threads = numba.get_num_threads()
    steps = 1
    side_by_side = len(descents) >= threads > 1 and all(d.device == "cpu" for d in descents)
    with ThreadPoolExecutor(threads) as pool:
        while left := [d for d in descents if d.remaining]:
            began = time.perf_counter()
            if side_by_side:
                list(pool.map(lambda d: d.advance(steps, False), left))  # noqa: B023
            else:
                for descent in left:
                    descent.advance(steps, True)
            taken = time.perf_counter() - began
            steps = max(1, min(int(steps * min(SLICE_SECONDS / max(taken, 1e-9), 8.0)), 100_000))
            yield


def geometric(first: float, last: float, epochs: int) -> Floats:
    """Gate scales of an anneal: ``epochs`` numbers from ``first`` to ``last`` in equal ratios."""
    return np.geomspace(first, last, epochs)
