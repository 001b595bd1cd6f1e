"""`check_loss`: whether what a loss says of itself is so, on drawn rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opttree.statement.losses.base import Loss

Floats = NDArray[np.float64]
DRAWS = 40  # of groups of rows
CLOSE = 1e-6  # relative error that is not one
STEPS = (0.5, 0.1, 0.01, 1e-3)  # away from the best constant, relative to the spread of the outcomes


def check_loss(loss: Loss, y: ArrayLike, random_state: int | None = 0) -> None:
    """Check a loss of one's own on outcomes that it is for: each method that it defines, on groups of rows drawn from
    them with random weights.

    - `Loss.value` is a number >= 0 for each row, of the shape that outcomes and predictions have together.
    - `Loss.constant` has no weighted loss above that of constants near it, and does not depend on the unit of weights.
    - `Loss.cost` of summed `Loss.statistics` is the weighted loss of the best constant less what `Loss.least` says; it
      grows with the weights, is never negative, and is no less for two groups together than for each alone, added up.
    - `Loss.gradient` is the slope of the value, and `Loss.curvature` is nowhere below its curvature;
      `Loss.majorizer` touches the value and is nowhere below it.
    - `Loss.pseudo` has an outcome and a weight >= 0 for each row.

    Parameters
    ----------
    loss : Loss
        A loss of one output, or of several that it takes together.
    y : array-like of shape (n,), or (n, K) of a joint loss
        Outcomes; some hundred, as different as they come.
    random_state : int or None, default 0
        Seed of the draws.

    Raises
    ------
    ValueError
        For the first thing that is not so, in one sentence that names the method.

    See Also
    --------
    Loss : what it checks
    solvers.check_solver : the same for solvers

    Examples
    --------
    >>> import numpy as np
    >>> from opttree.losses import Huber, check_loss
    >>> check_loss(Huber(1.0), np.random.default_rng(0).normal(size=200))
    """
    outcomes = np.asarray(y, np.float64)
    if loss.labels or outcomes.ndim != 1 + loss.joint:
        raise ValueError(f"y must hold numbers of one output, (n,), or (n, K) of a joint loss; got {outcomes.shape}")
    loss.check(outcomes)
    rng = np.random.default_rng(random_state)
    table = outcomes.reshape(len(outcomes), -1)
    groups = [rng.integers(len(table), size=int(size)) for size in rng.integers(1, 13, DRAWS)]
    weights = [rng.exponential(size=group.size) + 0.01 for group in groups]
    best = [_constant(loss, table[group], w) for group, w in zip(groups, weights, strict=True)]
    for group, w, constant in zip(groups, weights, best, strict=True):
        _check_constant(loss, table[group], w, constant, float(np.ptp(table)) or 1.0)
    if loss.lacks("statistics", "cost") is None:
        _check_statistics(loss, outcomes, groups, weights, best)
    if not loss.joint:
        _check_slopes(loss, outcomes, np.array([constant[0] for constant in best]))
    target, factor = loss.pseudo(outcomes)
    if len(target) != len(outcomes) or np.shape(factor) != (len(outcomes),) or not np.all(np.asarray(factor) >= 0.0):
        raise ValueError("pseudo must give an outcome and a weight >= 0 for each row; got others")


def _constant(loss: Loss, y: Floats, w: Floats) -> Floats:
    """The best constant (K,) of some rows."""
    order, start = np.arange(len(y)), np.array([0, len(y)])
    found: Floats = loss.constants(y, w, order, start, y.shape[1])[0]
    if not np.isfinite(found).all():
        raise ValueError(f"constant must be a finite number; got {found} for y = {y.ravel()[:5]}")
    return found


def _losses(loss: Loss, y: Floats, constant: Floats) -> Floats:
    """Losses (m,) of rows at a constant."""
    at = np.broadcast_to(constant, y.shape)
    if not loss.joint and np.shape(loss.value(y, at)) != y.shape:
        raise ValueError(f"value must have the shape {y.shape} of its arguments; got {np.shape(loss.value(y, at))}")
    found = np.asarray(loss.of_rows(y, at))
    if found.shape != (len(y),) or not np.all(found >= -CLOSE):
        raise ValueError(f"value must be a number >= 0 for each row; got {found.ravel()[:5]} at {constant}")
    return found


def _check_constant(loss: Loss, y: Floats, w: Floats, constant: Floats, spread: float) -> None:
    """No constant near it is better."""
    lowest = float(w @ _losses(loss, y, constant))
    if loss.chooses:
        others = [np.eye(y.shape[1])[k] for k in range(y.shape[1])]
    else:
        others = [constant + sign * step * spread for step in STEPS for sign in (-1.0, 1.0)]
        others = [other for other in others if not loss.positive or np.all(other > 0.0)]
    for other in others:
        value = float(w @ _losses(loss, y, other))
        if value < lowest - CLOSE * max(abs(lowest), 1e-9):
            raise ValueError(f"constant must minimise the loss; {other} has {value:.6g}, and {constant} {lowest:.6g}")
    again = _constant(loss, y, 7.0 * w)
    if not np.allclose(float(w @ _losses(loss, y, again)), lowest, rtol=CLOSE, atol=1e-12):
        raise ValueError(f"constant must not depend on the unit of weights; got {constant} and {again}")


def _check_statistics(loss: Loss, y: Floats, groups: list[Any], weights: list[Floats], best: list[Floats]) -> None:
    """The cost of sums is the loss of the best constant; sums of two groups cost no less than each alone."""
    rows = np.asarray(loss.statistics(y), np.float64)
    if rows.ndim != 2 or len(rows) != len(y):
        raise ValueError(f"statistics must have shape (n, S); got {rows.shape}")
    least = np.asarray(loss.least(y))
    if least.shape != (len(y),) or not np.all(least >= 0.0):
        raise ValueError("least must be a number >= 0 for each row; got others")
    table = y.reshape(len(y), -1)
    sums, costs = [], []
    for group, w, constant in zip(groups, weights, best, strict=True):
        s = w @ rows[group]
        value, cost = float(w @ _losses(loss, table[group], constant)), float(loss.cost(s))
        scale = max(value, 1e-9 * float(w.sum()))
        if abs(cost + float(w @ least[group]) - value) > 1e3 * CLOSE * scale:
            rule = f"cost must be the loss of the best constant less what least says, {value:.6g}"
            raise ValueError(f"{rule}; got {cost:.6g}")
        if cost < -CLOSE * scale:
            raise ValueError(f"cost must be >= 0; got {cost:.6g}")
        if abs(float(loss.cost(3.0 * s)) - 3.0 * cost) > 1e3 * CLOSE * scale:
            thrice = float(loss.cost(3.0 * s))
            raise ValueError(
                f"cost must grow with the weights; three times the sums cost {thrice:.6g}, not 3 x {cost:.6g}"
            )
        sums.append(s)
        costs.append(cost)
    for k in range(1, len(sums)):
        together, alone = float(loss.cost(sums[k - 1] + sums[k])), costs[k - 1] + costs[k]
        if together < alone - 1e3 * CLOSE * max(alone, 1e-9):
            raise ValueError(f"cost must be no less for two groups together; got {together:.6g}, and {alone:.6g} apart")


def _check_slopes(loss: Loss, y: Floats, points: Floats) -> None:
    """Gradient, curvature and majorizer against differences of the value."""
    spread = float(np.ptp(y)) or 1.0
    rows = y[np.arange(points.size) % len(y)]
    h = 1e-5 * spread
    keep = (points > 2.0 * h) if loss.positive else np.ones(points.size, bool)
    f, rows = points[keep], rows[keep]

    def value(at: Floats) -> Floats:
        return np.asarray(loss.value(rows[:, None], at[:, None]), np.float64).reshape(-1)

    smooth = np.abs(value(f + h) - 2.0 * value(f) + value(f - h)) < 1e-3 * (np.abs(value(f + h) - value(f - h)) + h * h)
    if loss.lacks("gradient") is None:
        slope = (value(f + h) - value(f - h)) / (2.0 * h)
        given = np.asarray(loss.gradient(rows[:, None], f[:, None])).reshape(-1)
        wrong = smooth & (np.abs(given - slope) > 1e-3 * (1.0 + np.abs(slope)))
        if wrong.any():
            raise ValueError(f"gradient must be the slope of value, {slope[wrong][0]:.6g}; got {given[wrong][0]:.6g}")
    if loss.can_boost:
        w, step = (np.reshape(part, -1) for part in loss.majorizer(rows[:, None], f[:, None]))
        if not np.all(w > 0.0):
            raise ValueError("majorizer must have weights > 0, and curvature be > 0; got others")
        for away in (-0.3, -0.05, 0.05, 0.3):
            g = f + away * spread
            inside = (g > 0.0) if loss.positive else np.ones(g.size, bool)
            bound = value(f) + w * (np.square(g - f - step) - np.square(step))
            above = inside & (value(np.where(inside, g, f)) > bound + 1e-3 * (1.0 + np.abs(bound)))
            if above.any():
                where = f"y = {rows[above][0]:.6g}, f = {g[above][0]:.6g}"
                raise ValueError(f"majorizer, or curvature, must be nowhere below value; it is at {where}")
