"""Losses of one's own: what a loss must know, and examples for quantiles, outliers, counts, amounts and survival times.

`TreeProblem` takes a `Loss` where it takes the name of one. Its methods work on whole arrays, so that NumPy's compiled
loops do the arithmetic; solvers ask for the losses of all rows at all leaves at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opttree.runtime.options import Checked, option

__all__ = ["Exponential", "Gamma", "Huber", "Loss", "Poisson", "Quantile", "weighted_quantile"]

Floats = NDArray[np.float64]
SMALLEST = 1e-12  # least prediction of a positive quantity, in units of the largest outcome
LEAST = 1e-100  # and in any case
NEAR = 1e-3  # residual below which a piecewise linear loss is majorised as if it were this large, in mean residuals
BISECTIONS = 200


class Loss(Checked):
    """Base class of losses of one output; several outputs are summed. Subclasses are frozen dataclasses.

    `value` and `constant` are needed by all solvers that take such losses; `majorizer` by `solvers.Boosting`.

    See Also
    --------
    opttree.TreeProblem : takes it as ``loss``
    opttree.TAORegressor : takes most by name, and any as ``loss``

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.losses import Loss
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 1))
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Relative(Loss):
    ...     # squared error relative to the outcome
    ...     def value(self, y, prediction):
    ...         return ((y - prediction) / y) ** 2
    ...     def constant(self, y, w):
    ...         return float(np.sum(w / y) / np.sum(w / y**2))
    >>> problem = TreeProblem(X, 1.0 + X[:, 0], depth=2, splits="axis", loss=Relative())
    >>> bool(problem.objective(problem.best_constant()) < 0.05)
    True
    """

    positive = False  # whether predictions must be > 0, so that sums of trees may leave the domain
    criterion = "squared_error"  # scikit-learn's criterion that grows trees most like it

    def check(self, y: Floats) -> None:
        """ValueError for outcomes ``y`` that the loss is not for."""

    def value(self, y: Floats, prediction: Floats) -> Floats:
        """The loss of outcomes at predictions, arrays that broadcast against each other."""
        raise NotImplementedError(f"{type(self).__name__} must define value")

    def constant(self, y: Floats, w: Floats) -> float:
        """The constant prediction that minimises ``sum w value(y, .)``, for ``y, w (m,)``, all weights > 0."""
        raise NotImplementedError(f"{type(self).__name__} must define constant")

    def majorizer(self, y: Floats, prediction: Floats) -> tuple[Floats, Floats]:
        """Weights w > 0 and steps t of a quadratic ``w (f - prediction - t)^2`` that, up to a constant, is nowhere
        below the loss and touches it at ``prediction``: by `gradient` and `curvature`, ``w = h / 2`` and ``t = -g /
        h``.
        """
        h = self.curvature(y, prediction)
        return 0.5 * h, -self.gradient(y, prediction) / h

    def gradient(self, y: Floats, prediction: Floats) -> Floats:
        """The derivative of `value` in the prediction."""
        raise NotImplementedError(f"{type(self).__name__} must define gradient")

    def curvature(self, y: Floats, prediction: Floats) -> Floats:
        """An upper bound, > 0, of its second derivative."""
        raise NotImplementedError(f"{type(self).__name__} must define curvature")

    def lacks(self, *methods: str) -> str | None:
        """The first of some methods that the loss does not define, or None."""
        return next((name for name in methods if getattr(type(self), name) is getattr(Loss, name)), None)

    @property
    def can_boost(self) -> bool:
        """Whether it defines a majorizer, or gradient and curvature."""
        return self.lacks("majorizer") is None or self.lacks("gradient", "curvature") is None


def weighted_quantile(y: Floats, w: Floats, q: float) -> float:
    """The smallest minimiser of the pinball loss.

    Parameters
    ----------
    y : (n,) values.
    w : (n,) weights >= 0.
    q : level, between 0 and 1.

    See Also
    --------
    Quantile : the loss whose best constant it is

    Examples
    --------
    >>> import numpy as np
    >>> from opttree.losses import weighted_quantile
    >>> float(weighted_quantile(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 5.0]), 0.5))
    3.0
    """
    order = np.argsort(y)
    below = np.cumsum(w[order])
    return float(y[order][min(int(np.searchsorted(below, q * below[-1] * (1.0 - 1e-12))), y.size - 1)])


@dataclass(frozen=True)
class Quantile(Loss):
    """Pinball loss: ``q (y - f)`` above the prediction, ``(1 - q) (f - y)`` below; a leaf predicts its q-quantile.

    See Also
    --------
    opttree.TreeProblem : takes it as ``loss``
    opttree.TAORegressor : takes most by name, and any as ``loss``

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.losses import Quantile
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 1))
    >>> problem = TreeProblem(X, X[:, 0], depth=0, loss=Quantile(0.9))
    >>> bool(abs(problem.best_constant().values[0, 0] - np.quantile(X, 0.9)) < 0.02)
    True
    """

    q: float = option(0.5, "Level of the quantile.", above=0, below=1)
    criterion = "absolute_error"

    def value(self, y: Floats, prediction: Floats) -> Floats:
        """The pinball loss."""
        r = y - prediction
        return np.maximum(self.q * r, (self.q - 1.0) * r)

    def constant(self, y: Floats, w: Floats) -> float:
        """The weighted quantile."""
        return weighted_quantile(y, w, self.q)

    def gradient(self, y: Floats, prediction: Floats) -> Floats:
        """A subgradient."""
        return np.where(y > prediction, -self.q, 1.0 - self.q)

    def majorizer(self, y: Floats, prediction: Floats) -> tuple[Floats, Floats]:
        """Hunter and Lange (2000): ``w = 1 / (4 |r|)``, ``t = r + (2 q - 1) |r|``; for small residuals not below it
        only up to their size.
        """
        r = y - prediction
        size = np.maximum(np.abs(r), NEAR * max(float(np.abs(r).mean()), 1e-300))
        return 0.25 / size, r + (2.0 * self.q - 1.0) * size


@dataclass(frozen=True)
class Huber(Loss):
    """``r^2 / 2`` for residuals of at most ``delta``, ``delta (|r| - delta / 2)`` beyond.

    See Also
    --------
    opttree.TreeProblem : takes it as ``loss``
    opttree.TAORegressor : takes most by name, and any as ``loss``

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.losses import Huber
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(200, 1))
    >>> problem = TreeProblem(X, np.append(X[1:, 0], 1e6), depth=0, loss=Huber(1.0))
    >>> bool(problem.best_constant().values[0, 0] < 1.0)         # the outlier hardly moves it
    True
    """

    delta: float = option(1.0, "Residual from which the loss is linear, in units of y.", above=0)

    def value(self, y: Floats, prediction: Floats) -> Floats:
        """Huber's loss."""
        r = np.abs(y - prediction)
        return np.where(r <= self.delta, 0.5 * r * r, self.delta * (r - 0.5 * self.delta))

    def constant(self, y: Floats, w: Floats) -> float:
        """By bisection of the derivative, which never falls."""
        low, high = float(y.min()), float(y.max())
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            if middle in (low, high):
                break
            if np.sum(w * np.clip(middle - y, -self.delta, self.delta)) < 0.0:
                low = middle
            else:
                high = middle
        return 0.5 * (low + high)

    def gradient(self, y: Floats, prediction: Floats) -> Floats:
        """The clipped residual."""
        return np.clip(prediction - y, -self.delta, self.delta)

    def majorizer(self, y: Floats, prediction: Floats) -> tuple[Floats, Floats]:
        """``w = min(1, delta / |r|) / 2``, ``t = r``."""
        r = y - prediction
        return 0.5 * np.minimum(1.0, self.delta / np.maximum(np.abs(r), 1e-300)), r


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

    def check(self, y: Floats) -> None:
        """Counts are at least 0."""
        if y.min() < 0.0:
            raise ValueError(f"y must be >= 0 for loss=Poisson(); got {y.min():g}")

    def value(self, y: Floats, prediction: Floats) -> Floats:
        """The deviance."""
        f = self._inside(y, prediction)
        return 2.0 * (np.where(y > 0.0, y * np.log(np.where(y > 0.0, y, 1.0) / f), 0.0) - y + f)

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

    def check(self, y: Floats) -> None:
        """Amounts are positive."""
        if y.min() <= 0.0:
            raise ValueError(f"y must be > 0 for loss=Gamma(); got {y.min():g}")

    def value(self, y: Floats, prediction: Floats) -> Floats:
        """The deviance."""
        ratio = y / self._inside(y, prediction)
        return 2.0 * (ratio - 1.0 - np.log(ratio))

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

    def check(self, y: Floats) -> None:
        """No time is 0."""
        if np.any(y == 0.0):
            raise ValueError("y must hold times > 0 (events) or < 0 (cut off) for loss=Exponential(); got 0")

    def value(self, y: Floats, prediction: Floats) -> Floats:
        """The negative log-likelihood less its least value, that of the row alone."""
        ratio = np.abs(y) / self._inside(y, prediction)
        return ratio - np.where(y > 0.0, 1.0 + np.log(ratio), 0.0)

    def constant(self, y: Floats, w: Floats) -> float:
        """Total time over number of events; without an event, a time so long that nothing is lost."""
        events, total = float(np.sum(w[y > 0.0])), float(np.sum(w * np.abs(y)))
        return total / events if events > 0.0 else total / float(w.min()) / SMALLEST
