"""Proximal gradient descent under `FeatureL1`: features leave a soft tree as a whole."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from opttree.problems import SmoothTreeProblem
from opttree.statement import FeatureL1

Floats = NDArray[np.floating]
MOST_SCORE = 10.0  # of a class in a leaf
LONGER = 1.3  # a step may be longer than the last one by this factor
SHORTEST = 2.0**-40  # of the step tried first
ROUND = 1e-3  # norm below which the smoothed penalty is a parabola
CLOSE = 1e-9  # relative change of the objective at which descent ends


def feature_norms(smooth: SmoothTreeProblem, theta: Floats) -> Floats:
    """(p,) the norm of all weights that a feature has, in splits and linear leaves."""
    A, _b, _values, coefs = smooth.unpack(theta)
    squares = np.sum(A * A, axis=0)
    return np.sqrt(squares + np.sum(coefs * coefs, axis=(0, 1)) if smooth.linear else squares)


def smoothed(smooth: SmoothTreeProblem, theta: Floats, strength: float) -> tuple[float, Floats]:
    """The smooth objective with the penalty, its norms rounded off at zero, and the gradient."""
    value, gradient = smooth.value_and_grad(theta)
    if strength == 0.0:
        return float(value), gradient
    gradient = np.array(gradient, np.float64)
    return float(value) + add_smoothed(smooth, theta, strength, gradient), gradient


def add_smoothed(smooth: SmoothTreeProblem, theta: Floats, strength: float, gradient: Floats) -> float:
    """The penalty, rounded off at zero; its gradient is added to another."""
    norms = np.hypot(feature_norms(smooth, theta), ROUND)
    (A, _b, _values, coefs), (of_A, _of_b, _of_values, of_coefs) = smooth.unpack(theta), smooth.unpack(gradient)
    of_A += strength * A / norms
    if smooth.linear:
        of_coefs += strength * coefs / norms
    return strength * float(norms.sum())


def constant_bounds(smooth: SmoothTreeProblem, *, always: bool = False) -> tuple[Floats, Floats]:
    """Bounds on theta: under `FeatureL1`, or ``always``, of the constants of leaves, the range of y, or of class scores
    `MOST_SCORE`; else weights could be as small as one likes, and constants large.
    """
    low, high = np.full(smooth.size, -np.inf), np.full(smooth.size, np.inf)
    problem = smooth.problem
    if always or problem.strength(FeatureL1, "strength"):
        scores = problem.is_classification
        smooth.unpack(low)[2][:] = -MOST_SCORE if scores else problem.Y.min(axis=0)
        smooth.unpack(high)[2][:] = MOST_SCORE if scores else problem.Y.max(axis=0)
    return low, high


def without_tiny(smooth: SmoothTreeProblem, theta: Floats) -> Floats:
    """The point without features whose norm is in the round part of the penalty, where there is one."""
    if not smooth.problem.strength(FeatureL1, "strength"):
        return theta
    theta = theta.copy()
    tiny = feature_norms(smooth, theta) < ROUND
    A, _b, _values, coefs = smooth.unpack(theta)
    A[:, tiny] = 0.0
    if smooth.linear:
        coefs[:, :, tiny] = 0.0
    return theta


def shrunk(smooth: SmoothTreeProblem, theta: Floats, amount: float) -> Floats:
    """The proximal point: the weights of each feature, shortened by ``amount`` as one vector, at most to zero."""
    theta = theta.copy()
    A, _b, _values, coefs = smooth.unpack(theta)
    norms = feature_norms(smooth, theta)
    factor = np.maximum(1.0 - amount / np.maximum(norms, np.finfo(np.float64).tiny), 0.0)
    A *= factor
    if smooth.linear:
        coefs *= factor
    return theta


def without_weak(smooth: SmoothTreeProblem, theta: Floats, strength: float) -> tuple[Floats, int]:
    """The point without the features, from the weakest on, whose leaving lowers the objective, until one does not; and
    the evaluations that this took.
    """
    value, norms, evaluations = float(smooth.value(theta)), feature_norms(smooth, theta), 1
    for j in np.argsort(norms, kind="stable"):
        new = theta.copy()
        A, _b, _values, coefs = smooth.unpack(new)
        A[:, j] = 0.0
        if smooth.linear:
            coefs[:, :, j] = 0.0
        reached, evaluations = float(smooth.value(new)), evaluations + 1
        if reached > value + strength * norms[j]:
            break
        theta, value = new, reached
    return theta, evaluations


def descend(
    smooth: SmoothTreeProblem, theta: Floats, strength: float, iterations: int, low: Floats, high: Floats
) -> Iterator[tuple[Floats, int]]:
    """Accelerated proximal gradient descent (Beck and Teboulle 2009), begun anew where the objective would rise.
    Weak features leave first.

    Parameters
    ----------
    smooth : SmoothTreeProblem
        The smooth part.
    theta : ndarray
        Where descent begins.
    strength : float
        Of the penalty.
    iterations : int
        Their largest number.
    low, high : ndarray
        Bounds on theta.

    Yields
    ------
    theta : ndarray
        The point after an iteration, which the next one does not change.
    evaluations : int
        Evaluations of the smooth part in it.
    """

    def objective_of(point: Floats, value: float) -> float:
        return value + strength * float(feature_norms(smooth, point).sum())

    theta, evaluations = without_weak(smooth, theta, strength)
    yield theta, evaluations
    value = objective_of(theta, float(smooth.value(theta)))
    ahead, momentum, step, still = theta, 1.0, 1.0, False
    for _ in range(iterations):
        here, gradient = smooth.value_and_grad(ahead)
        evaluations, shortest = 1, SHORTEST * step
        while True:
            new = np.clip(shrunk(smooth, ahead - step * gradient, step * strength), low, high)
            moved, reached = new - ahead, float(smooth.value(new))
            evaluations += 1
            if reached <= here + gradient @ moved + (moved @ moved) / (2.0 * step) or step <= shortest:
                break
            step *= 0.5
        objective = objective_of(new, reached)
        if not objective <= value:
            if ahead is theta:
                return
            ahead, momentum = theta, 1.0
            yield theta, evaluations
            continue
        longer = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        ahead = new + (momentum - 1.0) / longer * (new - theta)
        gain = value - objective
        theta, value, momentum, step = new, objective, longer, LONGER * step
        yield theta, evaluations
        if gain <= CLOSE * abs(value):
            if still:
                return
            still = True
        else:
            still = False
