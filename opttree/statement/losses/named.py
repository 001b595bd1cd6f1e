"""The losses that a `TreeProblem` takes by name and that kernels, exact forms and programs know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.leaves import fit as leaves
from opttree.kernels.losses import codes, entropy
from opttree.statement.losses.base import NAMED, Loss
from opttree.statement.losses.robust import typical, weighted_quantile

__all__ = ["NAMED", "Absolute", "Log", "Squared", "ZeroOne"]

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]


@dataclass(frozen=True)
class Squared(Loss):
    """The squared error, ``loss="squared"``: a leaf predicts the mean.

    See Also
    --------
    opttree.TreeProblem : takes it by its name, "squared"

    Examples
    --------
    >>> import numpy as np
    >>> from opttree.losses import Squared
    >>> Squared().of_rows(np.array([[1.0], [2.0]]), np.array([[0.0], [0.0]])).tolist()
    [1.0, 4.0]
    """

    name = "squared"
    scales = averages = True
    degree = 2.0
    code = smooth = dense = codes.SQUARED
    form = "quadratic"
    linear_leaves = staticmethod(leaves.least_squares_range)
    lasso_scale = 2.0

    def value(self, y: Floats, prediction: Floats) -> Floats:
        """The squared error."""
        return np.abs(prediction - y) ** 2

    def constant(self, y: Floats, w: Floats) -> float:
        """The mean."""
        return float(np.sum(w * y) / w.sum())

    def constants(self, Y: Floats, w: Floats, order: Ints, start: Ints, n_outputs: int) -> Floats:
        """The means."""
        return leaves.fit_means(Y, w, order, start)

    def majorizer(self, y: Floats, prediction: Floats) -> tuple[Floats, Floats]:
        """The loss itself."""
        return np.ones_like(prediction), y - prediction


@dataclass(frozen=True)
class Absolute(Loss):
    """The absolute error, ``loss="absolute"``: a leaf predicts the median.

    See Also
    --------
    opttree.TreeProblem : takes it by its name, "absolute"

    Examples
    --------
    >>> import numpy as np
    >>> from opttree.losses import Absolute
    >>> Absolute().of_rows(np.array([[1.0], [2.0]]), np.array([[0.0], [0.0]])).tolist()
    [1.0, 2.0]
    """

    name = "absolute"
    scales = True
    code = codes.ABSOLUTE
    form = "absolute"
    criterion = "absolute_error"
    linear_leaves = staticmethod(leaves.least_absolute_range)

    def value(self, y: Floats, prediction: Floats) -> Floats:
        """The absolute error."""
        return np.abs(prediction - y)

    def constant(self, y: Floats, w: Floats) -> float:
        """The median."""
        return weighted_quantile(y, w, 0.5)

    def constants(self, Y: Floats, w: Floats, order: Ints, start: Ints, n_outputs: int) -> Floats:
        """The medians."""
        return leaves.fit_medians(Y, w, order, start)

    def majorizer(self, y: Floats, prediction: Floats) -> tuple[Floats, Floats]:
        """``w = 1 / (2 s)``, ``t = r`` for residuals r of all outputs, whose sizes add up to s: as in Huber's loss, s
        is at least its median over the rows, of those that are not 0.
        """
        r = y - prediction
        size = np.abs(r).sum(axis=1, keepdims=True)
        return np.broadcast_to(0.5 / np.maximum(size, typical(size)), r.shape), r


class _Labels(Loss):
    """A loss of labels: leaves hold the frequencies of the classes, linear ones the scores of a softmax."""

    labels = averages = True
    degree = 0.0
    dense = codes.LOG  # by its gradient errors are trained, too
    linear_leaves = staticmethod(leaves.softmaxes_range)

    def constants(self, Y: Floats, w: Floats, order: Ints, start: Ints, n_outputs: int) -> Floats:
        """The frequencies of the classes."""
        return leaves.fit_frequencies(Y, w, order, start, n_outputs)

    def starts(self, Y: Floats, w: Floats, order: Ints, start: Ints, n_outputs: int) -> Floats:
        """Logarithms of the frequencies."""
        shares = _Labels.constants(self, Y, w, order, start, n_outputs)
        return np.log(np.maximum(shares, codes.SMALLEST_PROBABILITY))


@dataclass(frozen=True)
class ZeroOne(_Labels):
    """The share of wrong labels, ``loss="zero_one"``: a leaf predicts its most frequent class.

    See Also
    --------
    opttree.TreeProblem : takes it by its name, "zero_one"

    Examples
    --------
    >>> import numpy as np
    >>> from opttree.losses import ZeroOne
    >>> ZeroOne().of_rows(np.array([[1.0], [0.0]]), np.array([[0.2, 0.8], [0.2, 0.8]])).tolist()
    [0.0, 1.0]
    """

    name = "zero_one"
    code = codes.ZERO_ONE
    form = "errors"
    criterion = "gini"

    def value(self, y: Floats, prediction: Floats) -> Floats:
        """1 where the class of the highest score is not y, (n, 1)."""
        return (prediction.argmax(axis=1) != y[:, 0].astype(np.int64)).astype(np.float64)[:, None]

    def constant(self, y: Floats, w: Floats) -> float:
        """The most frequent class."""
        return float(np.bincount(y.astype(np.int64), w).argmax())


@dataclass(frozen=True)
class Log(_Labels):
    """Minus the logarithm of the probability of the label, ``loss="log"``, at most ``-log(1e-6)`` for a row, so that
    one row in a pure leaf of another class does not make the mean infinite: a leaf predicts class frequencies.

    See Also
    --------
    opttree.TreeProblem : takes it by its name, "log"

    Examples
    --------
    >>> import numpy as np
    >>> from opttree.losses import Log
    >>> Log().of_rows(np.array([[1.0], [0.0]]), np.array([[0.5, 0.5], [0.8, 0.2]])).round(3).tolist()
    [0.693, 0.223]
    """

    name = "log"
    code = smooth = codes.LOG
    form = "entropy"
    criterion = "entropy"

    def value(self, y: Floats, prediction: Floats) -> Floats:
        """Minus the logarithm of the share of class y, (n, 1)."""
        share = np.take_along_axis(prediction, y[:, :1].astype(np.int64), axis=1)
        return -np.log(np.clip(share, codes.SMALLEST_PROBABILITY, 1.0))

    def constant(self, y: Floats, w: Floats) -> float:
        """The share of class 1."""
        return float(np.sum(w * y) / w.sum())

    def constants(self, Y: Floats, w: Floats, order: Ints, start: Ints, n_outputs: int) -> Floats:
        """The frequencies of the classes, 0 for those so rare that their rows cost the cap all the same."""
        shares = super().constants(Y, w, order, start, n_outputs)
        entropy.give_up_rare(shares)
        return shares
