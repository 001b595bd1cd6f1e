"""Losses that outliers hardly move: quantiles, and Huber's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opttree.runtime.options import option
from opttree.statement.losses.base import Loss

Floats = NDArray[np.float64]
NEAR = 1e-3  # residual below which a piecewise linear loss is majorised as if it were this large, in `typical` ones
BISECTIONS = 200


def typical(sizes: Floats) -> float:
    """The median of the sizes of residuals that are not 0: a few spoilt outcomes do not change it."""
    sizes = sizes[sizes > 0.0]
    return float(np.median(sizes)) if sizes.size else 1e-300


def weighted_quantile(y: Floats, w: Floats, q: float) -> float:
    """The smallest minimiser of the pinball loss.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Values.
    w : ndarray of shape (n,)
        Weights, >= 0.
    q : float
        Level, between 0 and 1.

    Returns
    -------
    float
        The quantile.

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
    additive = "quantile"

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
        size = np.maximum(np.abs(r), NEAR * typical(np.abs(r)))
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
    additive = "huber"

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
