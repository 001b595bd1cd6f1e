"""First-order methods for `opttree.SmoothTreeProblem`: Adam, QHAdam and L-BFGS, from many starts at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels.smooth.first_order import Moments
from opttree.problems import SmoothTreeProblem
from opttree.runtime.options import Checked, changed, option
from solvers.descent.base import Descent, Run
from solvers.descent.lbfgs import LBFGSRun
from solvers.descent.smooth import AdamOnBatch, AdamOnRows

Floats = NDArray[np.floating]


@runtime_checkable
class FirstOrder(Protocol):
    """Options of a first-order method."""

    def start(
        self,
        smooths: Sequence[SmoothTreeProblem],
        thetas: Sequence[Floats],
        scales: Sequence[Floats],
        rngs: Sequence[Rng],
        *,
        closed_leaves: bool = False,
        validation: SmoothTreeProblem | None = None,
    ) -> list[Run]:
        """Runs from all starts; each has its ``scales (epochs,)``, the gate scale of each epoch."""
        ...


@dataclass(frozen=True)
class Adam(Checked):
    """Adam (Kingma and Ba, ICLR 2015) on full batches or mini-batches, with cosine annealing and warm restarts.

    See Also
    --------
    Anneal : takes it
    LBFGS : without a learning rate

    References
    ----------
    Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015.

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import GET, Adam, Anneal, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2)
    >>> anneal = Anneal(optimizer=Adam(learning_rate=0.05), epochs=200)
    >>> annealed = solve(problem, GET(n_starts=2, anneal=anneal), random_state=0)
    >>> annealed.objective < 0.47          # of the variance
    True
    """

    learning_rate: float = option(0.01, "Learning rate at the start of each period of the schedule.", above=0)
    beta1: float = option(0.9, "Decay of the first moment.", least=0, below=1)
    beta2: float = option(0.999, "Decay of the second moment.", least=0, below=1)
    epsilon: float = option(1e-8, "Added to the denominator.", least=0)
    nu1: float = option(
        1.0, "Weight of the first moment against the gradient (QHAdam, Ma and Yarats, ICLR 2019).", least=0, most=1
    )
    nu2: float = option(1.0, "The same for the second moment; 1 and 1 give Adam.", least=0, most=1)
    period: int | None = option(
        None,
        "Epochs of the first period of the cosine schedule (SGDR, Loshchilov and Hutter, ICLR 2017); None: all.",
        least=1,
    )
    factor: int = option(1, "Each period is this many times as long as the one before.", least=1)
    batch_size: int | None = option(
        None, "Rows per mini-batch; None: all rows. Mini-batches are drawn from shuffled rows in each epoch.", least=1
    )
    check: int = option(10, "Epochs between checkpoints (validation and averaging).", least=1)
    patience: int = option(
        10,
        """With a validation problem, a run stops after this many checkpoints without a lower validation objective; its
        best checkpoint is the result.""",
        least=1,
    )
    average: int = option(
        1, "The result is the mean of the last ``average`` checkpoints; 1: the last iterate.", least=1
    )

    def rates(self, epochs: int) -> Floats:
        """Learning rate of each epoch: ``rate (1 + cos(pi k / period)) / 2`` within each period.

        Parameters
        ----------
        epochs : int
            Number of epochs.

        Returns
        -------
        ndarray of shape (epochs,)
            Learning rates.
        """
        period = self.period or max(epochs, 1)
        parts: list[Floats] = []
        while sum(part.size for part in parts) < epochs:
            parts.append(0.5 * self.learning_rate * (1.0 + np.cos(np.pi * np.arange(period) / period)))
            period *= self.factor
        return np.concatenate([*parts, np.zeros(0)])[:epochs]

    @property
    def moments(self) -> Moments:
        """The coefficients as the kernels take them."""
        return Moments(self.beta1, self.beta2, self.nu1, self.nu2, self.epsilon)

    def start(
        self,
        smooths: Sequence[SmoothTreeProblem],
        thetas: Sequence[Floats],
        scales: Sequence[Floats],
        rngs: Sequence[Rng],
        *,
        closed_leaves: bool = False,
        validation: SmoothTreeProblem | None = None,
    ) -> list[Run]:
        """One run per start, or off the CPU one run for all starts that can take their steps together.

        Parameters
        ----------
        smooths : sequence of SmoothTreeProblem
            Problem of each start.
        thetas : sequence of ndarray of shape (size,)
            Initial theta of each start.
        scales : sequence of ndarray of shape (epochs,)
            Gate scale of each epoch, of each start.
        rngs : sequence of numpy.random.Generator
            Random numbers of each start, for mini-batches.
        closed_leaves : bool, default False
            Whether the leaves' constants are kept optimal in closed form (expected loss only). Linear leaves under log
            loss have no closed form and follow the gradient in any case.
        validation : SmoothTreeProblem or None, default None
            Problem on which checkpoints are evaluated.

        Returns
        -------
        list of Run
            The runs.
        """
        starts = list(zip(smooths, thetas, scales, rngs, strict=True))
        if not starts:
            return []
        closed = self._closes(smooths[0], closed_leaves)
        size = self.batch_size  # starts with fewer batches per epoch run separately
        sets = [[start] for start in starts]
        if smooths[0].uses_device:
            groups = groupby(starts, lambda s: size and -(-s[0].problem.n_samples // size))
            sets = [list(group) for _count, group in groups]
        kind: Any = AdamOnBatch if smooths[0].uses_device else AdamOnRows
        steps = [kind(self, *zip(*group, strict=True), closed, validation) for group in sets]
        patience = None if validation is None else self.patience * self.check
        return [Descent(s, len(scales[0]), check=self.check, average=self.average, patience=patience) for s in steps]

    def _closes(self, smooth: SmoothTreeProblem, closed_leaves: bool) -> bool:
        """Whether the leaves' constants are kept optimal in closed form, if requested; ValueError for a mixture."""
        if closed_leaves and smooth.aggregation != "expected":
            raise ValueError(f"closed_leaves needs aggregation='expected'; got {smooth.aggregation!r}")
        return closed_leaves and not (smooth.linear and smooth.problem.is_classification)


@dataclass(frozen=True)
class QHAdam(Adam):
    """`Adam` with the quasi-hyperbolic terms and decays that Ma and Yarats (ICLR 2019) recommend.

    See Also
    --------
    Anneal : takes it
    LBFGS : without a learning rate

    References
    ----------
    Ma and Yarats, "Quasi-hyperbolic momentum and Adam for deep learning", ICLR 2019.

    Examples
    --------
    >>> from solvers import Anneal, QHAdam
    >>> anneal = Anneal(optimizer=QHAdam(learning_rate=0.05))
    >>> anneal.optimizer.beta1, anneal.optimizer.nu1
    (0.995, 0.7)
    """

    beta1: float = changed(0.995)
    nu1: float = changed(0.7)


@dataclass(frozen=True)
class LBFGS(Checked):
    """SciPy's L-BFGS-B, with one run per gate scale of the schedule, warm-started from the run before.

    Use it with few scales, ``Anneal(scale_ranges=...)``: if the scale grows every epoch, each run is a single step.

    See Also
    --------
    Anneal : takes it
    Adam, QHAdam : with a learning rate

    References
    ----------
    Byrd, Lu, Nocedal and Zhu, "A limited memory algorithm for bound constrained optimization", SIAM Journal on
    Scientific Computing 16 (1995).

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import GET, LBFGS, Anneal, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2)
    >>> anneal = Anneal(optimizer=LBFGS(), epochs=20, closed_leaves=False)
    >>> annealed = solve(problem, GET(n_starts=2, anneal=anneal), random_state=0)
    >>> annealed.objective < 0.47          # of the variance
    True
    """

    memory: int = option(10, "Pairs of the quasi-Newton approximation.", least=1)
    iterations: int = option(50, "Iterations between two checks of the clock.", least=1)
    tol: float = option(1e-8, "Stop if the gradient's largest entry is below this.", least=0)

    def start(
        self,
        smooths: Sequence[SmoothTreeProblem],
        thetas: Sequence[Floats],
        scales: Sequence[Floats],
        rngs: Sequence[Rng],
        *,
        closed_leaves: bool = False,
        validation: SmoothTreeProblem | None = None,
    ) -> list[Run]:
        """One run per start, on full batches only.

        Parameters
        ----------
        smooths : sequence of SmoothTreeProblem
            Problem of each start.
        thetas : sequence of ndarray of shape (size,)
            Initial theta of each start.
        scales : sequence of ndarray of shape (epochs,)
            Gate scale of each epoch, of each start.
        rngs : sequence of numpy.random.Generator
            Ignored: there are no mini-batches.
        closed_leaves : bool, default False
            Whether the leaves' constants are kept optimal in closed form.
        validation : SmoothTreeProblem or None, default None
            Not supported.

        Returns
        -------
        list of Run
            The runs.
        """
        if closed_leaves or validation is not None:
            raise ValueError("LBFGS moves all of theta on all rows; got closed_leaves or a validation problem")
        return [LBFGSRun(self, *start) for start in zip(smooths, thetas, scales, strict=True)]


def geometric(first: float, last: float, epochs: int) -> Floats:
    """Gate scales of an anneal: a geometric sequence of ``epochs`` numbers from ``first`` to ``last``."""
    return np.geomspace(first, last, epochs)
