"""Survival times: outcomes as events and times, hazards of all rows together, step functions, concordance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
TIED = 1e-8  # risks that differ by no more are equal, as in scikit-survival
BLOCK = 1024  # rows that are compared with one another at once


def outcome(event: ArrayLike, time: ArrayLike) -> NDArray[Any]:
    """Survival times as scikit-survival has them: one structured array of events and times.

    Parameters
    ----------
    event : array-like of shape (n,)
        Whether each row's event was seen; if not, it was lost from sight.
    time : array-like of shape (n,)
        When: times >= 0.

    Returns
    -------
    ndarray of shape (n,)
        With the fields "event" (bool) and "time" (float).

    Raises
    ------
    ValueError
        For arrays of different lengths, events that are neither 0 nor 1, and times that are negative or not finite.

    See Also
    --------
    opttree.SurvivalTree : learns from it

    Examples
    --------
    >>> from opttree import survival
    >>> survival.outcome([True, False], [3.5, 7.0])["time"].tolist()
    [3.5, 7.0]
    """
    if np.ma.is_masked(event) or np.ma.is_masked(time):
        raise ValueError("event and time must have no missing values; got masked ones")
    if getattr(np.asarray(time), "dtype", np.dtype(float)).kind in "cmM":
        raise ValueError(f"time must hold real numbers; got {np.asarray(time).dtype}")
    try:
        seen, when = np.asarray(event), np.asarray(time, np.float64)
        known = np.isin(seen, (0, 1))
    except (TypeError, ValueError) as error:
        raise ValueError(f"event and time must hold numbers, without blanks; got {error}") from error
    if seen.ndim != 1 or when.shape != seen.shape:
        raise ValueError(f"event and time must have one entry for each row; got shapes {seen.shape} and {when.shape}")
    if not known.all():
        raise ValueError(f"event must be True or False, or 1 or 0; got {seen[~known].tolist()[0]!r}")
    if not (np.isfinite(when).all() and (when >= 0.0).all()):
        raise ValueError(f"time must hold finite numbers >= 0; got {when[~(when >= 0.0) | ~np.isfinite(when)][0]:g}")
    found = np.empty(len(seen), dtype=[("event", "?"), ("time", "<f8")])
    found["event"], found["time"] = seen, when
    return found


def parts(y: Any) -> tuple[Flags, Floats]:
    """Events and times (n,) of a structured array whose first field is the event; ValueError for anything else."""
    y = np.asarray(y)
    if y.dtype.names is None or len(y.dtype.names) != 2 or y.ndim != 1:
        kind = f"fields {y.dtype.names}" if y.dtype.names else f"{y.dtype} of shape {y.shape}"
        raise ValueError(f"y must be a structured array of events and times, see opttree.survival.outcome; got {kind}")
    event, time = (y[name] for name in y.dtype.names)
    if event.dtype.kind != "b":
        raise ValueError(f"y must have bools, whether events were seen, as its first field; got {event.dtype}")
    checked = outcome(event, time)
    return checked["event"], checked["time"]


def nelson_aalen(event: Flags, time: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Times of events (T,), and the cumulative hazard at each, by the estimator of Nelson and Aalen."""
    times = np.unique(time[event & (weight > 0.0)])
    return times, np.cumsum(deaths(times, event, time, weight) / at_risk(times, time, weight))


def deaths(times: Floats, event: Flags, time: Floats, weight: Floats) -> Floats:
    """Weight of the events at each of the ``times`` (T,), among which are all times of events."""
    seen = event & (weight > 0.0)
    found: Floats = np.bincount(np.searchsorted(times, time[seen]), weight[seen], minlength=times.size).astype(
        np.float64
    )
    return found


def at_risk(times: Floats, time: Floats, weight: Floats) -> Floats:
    """Weight of the rows that are in sight just before each of the ``times`` (T,)."""
    order = np.argsort(time)
    still = np.concatenate([np.cumsum(weight[order][::-1])[::-1], [0.0]])
    found: Floats = still[np.searchsorted(time[order], times)]
    return found


def steps_at(times: Floats, values: Floats, at: Floats, before: float) -> Floats:
    """A function that takes ``values (T,)`` from ``times`` on, and ``before`` until then, at some times."""
    place = np.searchsorted(times, at, side="right")
    found: Floats = np.concatenate([[before], values])[place]
    return found


class StepFunction:
    """A function of time that takes the values ``y`` from the times ``x`` on.

    Attributes
    ----------
    x : ndarray of shape (T,)
        Times, increasing.
    y : ndarray of shape (T,)
        Values from these on.
    domain : tuple of float
        0 and infinity: before the first time the value is ``before``, after the last one the last.

    See Also
    --------
    opttree.SurvivalTree : predicts them

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import survival
    >>> alive = survival.StepFunction(np.array([1.0, 3.0]), np.array([0.8, 0.5]), before=1.0)
    >>> float(alive(2.0)), alive([0.0, 1.0, 5.0]).tolist()
    (0.8, [1.0, 0.8, 0.5])
    """

    domain = (0.0, np.inf)

    def __init__(self, x: Floats, y: Floats, before: float) -> None:
        self.x, self.y, self.before = x, y, before

    def __call__(self, x: ArrayLike) -> Any:
        """Values at some times: a float, or an array of the shape of ``x``."""
        at = np.asarray(x, np.float64)
        found = steps_at(self.x, self.y, at, self.before)
        return float(found) if at.ndim == 0 else found

    def __repr__(self) -> str:
        return f"StepFunction of {self.x.size} times"


def concordance(y: Any, risk: ArrayLike) -> float:
    """Harrell's C: of the pairs of rows of which one had its event while the other was still in sight, the share in
    which the first has the higher risk; equal risks count as half.

    Parameters
    ----------
    y : structured array of shape (n,)
        Events and times, see `outcome`.
    risk : array-like of shape (n,)
        Predicted risks.

    Returns
    -------
    float
        Between 0 and 1; .5 is chance.

    Raises
    ------
    ValueError
        If no two rows can be compared.

    References
    ----------
    Harrell, Califf, Pryor, Lee and Rosati, "Evaluating the yield of medical tests", JAMA 247 (1982).

    See Also
    --------
    opttree.SurvivalTree : its ``score``

    Examples
    --------
    >>> from opttree import survival
    >>> survival.concordance(survival.outcome([True, True, False], [1.0, 2.0, 3.0]), [0.9, 0.5, 0.1])
    1.0
    """
    event, time = parts(y)
    scores = np.asarray(risk, np.float64)
    if scores.shape != time.shape:
        raise ValueError(f"risk must have one number for each row of y, {time.size}; got shape {scores.shape}")
    if not np.isfinite(scores).all():
        raise ValueError(f"risk must hold finite numbers; got {scores[~np.isfinite(scores)][0]}")
    order = np.lexsort((event, -time))  # from the last time on; of equal times those lost from sight first
    event, time, scores = event[order], time[order], scores[order]
    known = np.empty(0)  # risks of the rows before a block, sorted
    lower = equal = pairs = 0.0
    for first in range(0, time.size, BLOCK):
        here = slice(first, first + BLOCK)
        of, when, seen = scores[here], time[here], event[here]
        # rows of the blocks before that are in sight: all but events at the same time
        same = np.flatnonzero(seen & (when == time[first - 1])) if first else np.empty(0, np.intp)
        below, upto = np.searchsorted(known, of - TIED), np.searchsorted(known, of + TIED, side="right")
        lower += below[seen].sum()
        equal += (upto - below)[seen].sum()
        pairs += known.size * seen.sum()
        if same.size:
            others = scores[:first][event[:first] & (time[:first] == time[first - 1])]
            gap = of[same, None] - others
            lower -= np.sum(gap > TIED)
            equal -= np.sum(np.abs(gap) <= TIED)
            pairs -= gap.size
        later = (when[None, :] > when[:, None]) | ((when[None, :] == when[:, None]) & ~seen[None, :])
        later &= seen[:, None]
        gap = of[:, None] - of[None, :]
        lower += np.sum(later & (gap > TIED))
        equal += np.sum(later & (np.abs(gap) <= TIED))
        pairs += np.sum(later)
        known = np.sort(np.concatenate([known, of]), kind="stable")
    if not pairs:
        raise ValueError("y must have two rows that can be compared: an event, and a row in sight after it; got none")
    return float((lower + 0.5 * equal) / pairs)
