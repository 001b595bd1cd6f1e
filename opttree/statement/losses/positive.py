"""Losses of positive predictions: counts, amounts, survival times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.losses.deviance import gamma_parts, poisson_parts
from opttree.statement.losses.base import Loss

Floats = NDArray[np.float64]
SMALLEST = 1e-12  # least prediction of a positive quantity, in units of the largest outcome
LEAST = 1e-100  # and in any case
PRIOR = 0.01  # of the rate of all rows, which each row has beside its own events where CART starts


class _Positive(Loss):
    """A loss of a positive prediction."""

    positive = True

    @staticmethod
    def _inside(y: Floats, prediction: Floats) -> Floats:
        """Predictions above 0."""
        return np.maximum(prediction, max(SMALLEST * float(np.abs(y).max(initial=0.0)), LEAST))


@dataclass(frozen=True)
class Poisson(_Positive):
    """Poisson deviance ``2 (y log(y / f) - y + f)`` of counts y >= 0; a leaf predicts the mean.

    See Also
    --------
    opttree.TreeProblem : takes it as ``loss``
    opttree.TAORegressor : takes most by name, and any as ``loss``

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.losses import Poisson
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 1))
    >>> y = rng.poisson(1.0 + 5.0 * X[:, 0]) + 0
    >>> problem = TreeProblem(X, y, depth=0, loss=Poisson())
    >>> bool(abs(problem.best_constant().values[0, 0] - y.mean()) < 1e-9)
    True
    """

    criterion = "poisson"
    additive = "poisson"

    def check(self, y: Floats) -> None:
        """Counts are at least 0."""
        if y.min() < 0.0:
            raise ValueError(f"y must be >= 0 for loss=Poisson(); got {y.min():g}")

    def value(self, y: Floats, prediction: Floats) -> Floats:
        """The deviance."""
        f = self._inside(y, prediction)
        return 2.0 * f * poisson_parts((y - f) / f, y / f)

    def constant(self, y: Floats, w: Floats) -> float:
        """The mean."""
        return float(np.sum(w * y) / w.sum())


@dataclass(frozen=True)
class Gamma(_Positive):
    """Gamma deviance ``2 (log(f / y) + y / f - 1)`` of amounts y > 0; a leaf predicts the mean.

    See Also
    --------
    opttree.TreeProblem : takes it as ``loss``
    opttree.TAORegressor : takes most by name, and any as ``loss``

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.losses import Gamma
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 1))
    >>> y = rng.poisson(1.0 + 5.0 * X[:, 0]) + 1.0
    >>> problem = TreeProblem(X, y, depth=0, loss=Gamma())
    >>> bool(abs(problem.best_constant().values[0, 0] - y.mean()) < 1e-9)
    True
    """

    additive = "gamma"

    def check(self, y: Floats) -> None:
        """Amounts are positive."""
        if y.min() <= 0.0:
            raise ValueError(f"y must be > 0 for loss=Gamma(); got {y.min():g}")

    def value(self, y: Floats, prediction: Floats) -> Floats:
        """The deviance."""
        f = self._inside(y, prediction)
        return 2.0 * gamma_parts((y - f) / f, y / f)

    def constant(self, y: Floats, w: Floats) -> float:
        """The mean."""
        return float(np.sum(w * y) / w.sum())


@dataclass(frozen=True)
class Exponential(_Positive):
    """Negative log-likelihood of exponential survival times: y > 0 is the time of an event, y < 0 that of a loss from
    sight after the time -y. A leaf predicts the mean survival time: total time over number of events.

    ``log f + t / f`` for an event, ``t / f`` for a time that was cut off, plus a constant so that no loss is negative.

    See Also
    --------
    opttree.TreeProblem : takes it as ``loss``
    opttree.TAORegressor : takes it as ``loss``

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.losses import Exponential
    >>> times = np.random.default_rng(0).exponential(2.0, 400)
    >>> seen = np.where(times > 3.0, -3.0, times)               # lost from sight after three years
    >>> problem = TreeProblem(np.zeros((400, 1)), seen, depth=0, loss=Exponential())
    >>> bool(1.7 < problem.best_constant().values[0, 0] < 2.4)  # the mean time, lost rows counted
    True
    """

    additive = "exponential"
    criterion = "poisson"

    def pseudo(self, y: Floats) -> tuple[Floats, Floats]:
        """Events per time, weighted by the time: the likelihood is that of numbers of events. Every row has a small
        share of an event at the rate of all, since scikit-learn parts no rows of which some have none.
        """
        time, event = np.abs(y), y > 0.0
        time = np.maximum(time / time.max(axis=0), SMALLEST)
        rate = np.maximum(event.sum(axis=0), 1.0) / time.sum(axis=0)
        return event / time + PRIOR * rate, time if y.ndim == 1 else time.mean(axis=1)

    def check(self, y: Floats) -> None:
        """No time is 0."""
        if np.any(y == 0.0):
            raise ValueError("y must hold times > 0 (events) or < 0 (cut off) for loss=Exponential(); got 0")

    def value(self, y: Floats, prediction: Floats) -> Floats:
        """The negative log-likelihood less its least value, that of the row alone."""
        f, time = self._inside(y, prediction), np.abs(y)
        return np.where(y > 0.0, gamma_parts((time - f) / f, time / f), time / f)

    def constant(self, y: Floats, w: Floats) -> float:
        """Total time over number of events; without an event, a time so long that nothing is lost."""
        events, total = float(np.sum(w[y > 0.0])), float(np.sum(w * np.abs(y)))
        return total / events if events > 0.0 else total / float(w.min()) / SMALLEST
