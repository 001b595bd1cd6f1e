"""`Curves`: features on piecewise linear curves that rise, such as those to their normal scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

__all__ = ["Curves"]

FEWEST = 5  # rows that are averaged in a knot: no knot tells the value of one row
MOST = 128  # knots of a curve, but for those at its ends
ROWS = 100_000  # that say what the curves are
CLOSEST = 1e-290  # of two knots: the slope between them is finite
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Curves:
    """A piecewise linear curve for each feature, constant beyond its first and its last knot.

    Parameters
    ----------
    knots : sequence of (array-like of shape (m,), array-like of shape (m,))
        For each feature, values of it that ascend, at least one, and what they become, which does not descend.

    Raises
    ------
    ValueError
        For knots that are not as said.

    See Also
    --------
    NormalQuantiles : scikit-learn's normal scores, which are not linear between quantiles
    SDTRRegressor : has them by default

    Examples
    --------
    >>> import numpy as np
    >>> from opttree.preprocessing import Curves
    >>> X = np.random.default_rng(0).exponential(size=(500, 1))
    >>> Z = Curves.normal(X).transform(X)
    >>> bool(abs(np.median(Z)) < 0.01), round(float(Z.std()), 1)
    (True, 1.0)
    """

    knots: Sequence[tuple[Floats, Floats]]

    def __post_init__(self) -> None:
        kept = []
        for number, pair in enumerate(self.knots):
            at, to = (np.asarray(part, np.float64) for part in pair)
            fits = at.ndim == 1 and at.size > 0 and at.shape == to.shape
            if not (fits and np.isfinite(at).all() and np.isfinite(to).all()):
                raise ValueError(f"knots[{number}] must be as many finite numbers as what they become, at least one")
            with np.errstate(over="ignore"):
                rises = (np.diff(at) > CLOSEST).all() and (np.diff(to) >= 0.0).all()
            if not rises:
                raise ValueError(f"knots[{number}] must ascend, and what they become must not descend")
            kept.append((at, to))
        object.__setattr__(self, "knots", tuple(kept))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Curves) and self.to_list() == other.to_list()

    @staticmethod
    def normal(X: Floats) -> Curves:
        """Curves to normal scores: the quantile of the standard normal distribution that belongs to a value's rank.

        A knot is the mean of at least five neighbours by rank, and of their scores, if there are ten rows or more;
        equal values have the mean of their scores. Beyond the outer knots the curve goes on as before, to the scores of
        the smallest and the largest rank. Of more than 100,000 rows, so many say what the curves are.

        Parameters
        ----------
        X : ndarray of shape (n, p)
            Finite numbers, at least one row.

        Returns
        -------
        Curves
            The curves.

        Raises
        ------
        ValueError
            For other shapes, no rows, and numbers that are not finite.
        """
        X = np.asarray(X, np.float64)
        if X.ndim != 2 or not len(X):
            raise ValueError(f"X must have shape (n, p) with n >= 1; got {X.shape}")
        if not np.isfinite(X).all():
            raise ValueError(f"X must be finite; got {X[~np.isfinite(X)][0]}")
        X = np.sort(X[:: max(-(-X.shape[0] // ROWS), 1)], axis=0)
        n = X.shape[0]
        scores = ndtri((np.arange(n) + 0.5) / n)
        first = _blocks(scores)
        sizes = np.diff(np.append(first, n))
        base, last = X[first], X[first + sizes - 1]
        with np.errstate(over="ignore"):
            above = np.add.reduceat(X - np.repeat(base, sizes, axis=0), first, axis=0) / sizes[:, None]
            at = np.clip(base + above, base, last)  # in order, and what is equal stays so
        to = np.add.reduceat(scores, first) / sizes
        return Curves([_curve(column, to, sizes, scores[-1]) for column in at.T])

    def transform(self, X: Any) -> Floats:
        """Features on their curves.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Features.

        Returns
        -------
        ndarray of shape (n, p)
            What they become; NaN stays NaN.
        """
        Z = np.array(X, np.float64)
        if Z.ndim != 2 or Z.shape[1] != len(self.knots):
            raise ValueError(f"X must have shape (n, {len(self.knots)}); got {Z.shape}")
        for j, (at, to) in enumerate(self.knots):
            Z[:, j] = np.interp(Z[:, j], at, to)
        return Z

    def to_list(self) -> list[list[list[float]]]:
        """The knots as lists, which `json` can write; `Curves` takes them back."""
        return [[at.tolist(), to.tolist()] for at, to in self.knots]


def _blocks(scores: Floats) -> NDArray[np.intp]:
    """The first rank of each block of neighbours, evenly by their scores, of `FEWEST` ranks or more."""
    n = scores.size
    least, most = min(FEWEST, max(n // 2, 1)), -scores[0] if n > 1 else 1.0
    place = np.minimum(((scores + most) * (MOST / (2.0 * most))).astype(np.intp), MOST - 1)
    first = [0]
    for start in map(int, np.flatnonzero(np.diff(place)) + 1):
        if start - first[-1] >= least and n - start >= least:
            first.append(start)
    return np.array(first, np.intp)


def _curve(at: Floats, to: Floats, sizes: NDArray[np.intp], most: float) -> tuple[Floats, Floats]:
    """One curve, from means of blocks in order, equal ones joined; it goes on to scores of size ``most``."""
    own, which = np.unique(at, return_inverse=True)
    scores = np.bincount(which, to * sizes) / np.bincount(which, sizes)
    with np.errstate(over="ignore"):
        apart = np.append(True, np.diff(own) > CLOSEST)
    own, scores = own[apart], scores[apart]
    if own.size == 1:
        return own, np.zeros(1)
    with np.errstate(over="ignore"):
        low = own[0] - (own[1] - own[0]) * ((scores[0] + most) / (scores[1] - scores[0]))
        high = own[-1] + (own[-1] - own[-2]) * ((most - scores[-1]) / (scores[-1] - scores[-2]))
    if np.isfinite(low) and low < own[0]:
        own, scores = np.append(low, own), np.append(-most, scores)
    if np.isfinite(high) and high > own[-1]:
        own, scores = np.append(own, high), np.append(scores, most)
    return own, scores
