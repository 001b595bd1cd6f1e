"""`opttree.kernels.algebra.logistic` for many features: proximal Newton steps without a p x p Hessian.

Under an l1 penalty, features that are zero and whose slope is at most ``l1`` stay at zero in the minimiser of the
quadratic model, and mostly in that of the problem: the Hessian of the others, the working set, is enough. Its columns
are gathered, and it is formed in single precision by BLAS; since gradients are exact, it only shapes the steps. The set
grows until the conditions of optimality hold for all features. Without an l1 penalty, steps come from conjugate
gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.algebra.logistic import ARMIJO_SIGMA, MAX_TRIALS, MOST_MARGIN, ROUNDING, fit_logistic as narrow
from opttree.kernels.algebra.quadratic import JITTER as QUADRATIC_JITTER, RANK
from opttree.kernels.routing import is_sparse
from opttree.kernels.wide.quadratic import minimise
from opttree.runtime.calm import calm_threads
from opttree.wide.rows import WIDE, Part, part_of

Floats = NDArray[np.float64]
WORKING = 256  # features of a working set, or twice as many as are not zero
LARGEST_SET = 3000  # features, whose Hessian is 72 MB
MORE_STEPS = 3  # beside those that are asked for, where a working set did not hold all that the model may use
JITTER = 1e-6  # share of the mean curvature, added to the diagonal: what single precision may lose
LARGEST_HESSIAN = 1000  # features; without an l1 penalty
FARTHEST = 1e150  # size of weights to which no step goes, so that products are finite
TINY = 1e-300  # a diagonal without curvature
CG_STEPS, CG_TOLERANCE = 100, 1e-4  # most conjugate gradients, and the relative residual at which they end


def _never() -> bool:
    return False


def _loss(u: Floats, z: Floats) -> float:
    return float(np.sum(np.abs(u) * np.logaddexp(0.0, np.where(u > 0.0, -z, z))))


def _derivatives(u: Floats, z: Floats) -> tuple[Floats, Floats]:
    """First and second derivatives of each row's loss with respect to its margin."""
    e, weight = np.exp(-np.abs(z)), np.abs(u)
    s = 1.0 / (1.0 + e)
    right = np.where(z >= 0.0, s, e * s)  # the sigmoid
    return weight * (right - (u > 0.0)), weight * s * s * e


def _violation(g: Floats, x: Floats, l1: float, l2: float) -> float:
    """1-norm of the minimum-norm subgradient of the penalised loss at ``x = (a, intercept)``."""
    a, slope = x[:-1], g[:-1] + 2.0 * l2 * x[:-1]
    least = np.where(a == 0.0, np.maximum(np.abs(slope) - l1, 0.0), np.abs(slope + l1 * np.sign(a)))
    return float(np.abs(g[-1]) + least.sum())


def _directional(g: Floats, x: Floats, d: Floats, l1: float, l2: float, ahead: float) -> float:
    """Derivative of the penalised loss along ``d`` at x; at a kink the one ahead (+1) or behind (-1)."""
    a, e = x[:-1], d[:-1]
    bent = np.where(a == 0.0, ahead * np.abs(e), np.sign(a) * e)
    return float(g @ d + 2.0 * l2 * (a @ e) + l1 * bent.sum())


def working_set(g: Floats, x: Floats, l1: float) -> tuple[NDArray[np.intp], bool]:
    """Features whose model is solved: all that are not zero, and of the zero ones whose slope is above ``l1`` those
    that are furthest above; and whether there are no others.
    """
    used = x[:-1] != 0.0
    excess = np.where(used, np.inf, np.abs(g[:-1]) - l1)
    some = np.flatnonzero(excess > 0.0)
    most = max(WORKING, 2 * int(np.count_nonzero(used)))
    if most > LARGEST_SET:
        most = LARGEST_SET
        excess = np.where(used, np.abs(g[:-1] + l1 * np.sign(x[:-1])), excess)
    if some.size <= most:
        return some, True
    return np.sort(some[np.argpartition(-excess[some], most)[:most]]), False


def step_on_some(part: Part, curvature: Floats, g: Floats, x: Floats, l1: float, l2: float) -> tuple[Floats, bool]:
    """The minimiser of the quadratic model around ``x`` plus penalties on the working set, and whether the set holds
    all that the model may use; ``g (p + 1,)`` is the gradient, ``curvature (m,)`` the second derivatives of the rows.
    """
    some, whole = working_set(g, x, l1)
    at = np.append(some, x.size - 1)
    ridge = np.append(np.full(some.size, 2.0 * l2), 0.0)
    v = x[at]
    V = v[None].copy()
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers whose squares overflow: no step is taken
        H = part.gram(curvature, some, np.float32)
        H[np.diag_indices_from(H)] += JITTER * np.trace(H) / len(H) + ridge
        slope = g[at] + ridge * v - H @ v
    if np.isfinite(slope).all():
        minimise(H, slope[None], l1, V)
    new = x.copy()
    new[at] = V[0]
    return new, whole


def full_step(part: Part, curvature: Floats, g: Floats, x: Floats, l2: float) -> Floats:
    """The minimiser of the quadratic model around ``x`` plus a ridge, by a factorisation of the Hessian."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve  # imported late: a tree that predicts needs none

    H = part.gram(curvature, np.arange(part.p))
    ridge = np.append(np.full(part.p, 2.0 * l2), 0.0)
    # the same jitter for all coordinates: without curvature the model is unbounded in some directions
    H[np.diag_indices_from(H)] += ridge + QUADRATIC_JITTER * np.trace(H) / len(H) + TINY
    try:
        new: Floats = x - cho_solve(cho_factor(H, overwrite_a=True, check_finite=False), g + ridge * x)
    except LinAlgError:
        return step_by_gradients(part, curvature, g, x, l2)
    return new if np.all(np.isfinite(new)) else x.copy()


def step_by_gradients(
    part: Part, curvature: Floats, g: Floats, x: Floats, l2: float, late: Callable[[], bool] = _never
) -> Floats:
    """The minimiser of the quadratic model around ``x`` plus a ridge, by conjugate gradients with the diagonal of the
    Hessian as preconditioner.
    """
    ridge = np.append(np.full(x.size - 1, 2.0 * l2), 0.0)
    r = -(g + ridge * x)
    diagonal = part.squares(curvature)
    ridge = ridge + QUADRATIC_JITTER * diagonal.mean() + TINY
    diagonal = diagonal + ridge
    new = x.copy()
    with np.errstate(over="ignore", invalid="ignore"):  # of rows far from the hyperplane, where there is no curvature
        d = r / diagonal
        size = start = float(r @ d)
        for _ in range(CG_STEPS):
            if not size > CG_TOLERANCE**2 * start or late():
                break
            bent = part.sums(curvature * part.times(d)) + ridge * d
            along = float(d @ bent)
            if not 0.0 < along < np.inf:
                break
            new += (size / along) * d
            r -= (size / along) * bent
            before, size = size, float(r @ (r / diagonal))
            d = r / diagonal + (size / before) * d
    return new if np.all(np.isfinite(new)) else x.copy()


def _turned(part: Part) -> tuple[Floats, Floats] | None:
    """The rows A (m, p) in coordinates of their own span, ``L (m, m)`` with ``L L' = A A'``: the weights of a fit with
    a ridge lie in it, and ``a = A' L'^-1 z`` is as long as z. None where rows depend on each other.
    """
    from scipy.linalg import LinAlgError, cholesky

    A = part.columns(np.arange(part.p), np.ones(part.size), 0, part.size, np.float64)[:, :-1]
    try:
        L = np.ascontiguousarray(cholesky(A @ A.T, lower=True, check_finite=False))
    except LinAlgError:
        return None
    size = np.diag(L)
    return (A, L) if np.square(size).min() > RANK * np.square(size).max() else None


def fit_logistic(
    part: Part,
    u: Floats,
    offset: Floats | None,
    a: Floats,
    b: float,
    l1: float,
    l2: float,
    tol: float,
    max_iter: int,
    late: Callable[[], bool] = _never,
    anew: bool = True,
) -> tuple[float, int]:
    """Solve one node problem from the warm start ``(a, b)``; returns ``(b, Newton steps)``; the weights are in ``a``.

    As `opttree.kernels.algebra.logistic.fit_logistic`, but for steps that do not count, see `MORE_STEPS`, and for
    ``late``, asked before each step, which ends the fit where it is.
    """
    if l1 == 0.0 < l2 and part.p > part.size and type(part) is Part and (turned := _turned(part)):
        from scipy.linalg import solve_triangular

        A, L = turned
        z = solve_triangular(L, A @ a, lower=True, check_finite=False)
        own = Part(L, np.arange(part.size, dtype=np.int32))
        b, steps = fit_logistic(own, u, offset, z, b, l1, l2, tol, max_iter, late, anew)
        a[:] = solve_triangular(L, z, trans=1, lower=True, check_finite=False) @ A
        return b, steps
    beside = 0.0 if offset is None else offset
    x = np.append(a, -b)
    if l1 > 0.0 and np.count_nonzero(a) > LARGEST_SET:  # from a start that is not sparse
        x[:] = 0.0
    zero = part.sums(-0.5 * u)
    weights = max(float(np.abs(u).sum()), 1e-300)
    smaller = min(float(np.maximum(u, 0.0).sum()), float(np.maximum(-u, 0.0).sum()))
    stop = tol * _violation(zero, np.zeros_like(x), l1, l2) * smaller / weights
    z = part.times(x) + beside
    if z.size and not np.abs(z).max() < 0.25 * MOST_MARGIN:  # a warm start on a plateau of the loss
        x[:] = 0.0
        z = part.times(x) + beside
    slope, curvature = _derivatives(u, z)
    g = part.sums(slope)
    steps = more = 0
    while steps < max_iter + more and _violation(g, x, l1, l2) > stop and not late():
        steps += 1
        if l1 > 0.0:
            new, whole = step_on_some(part, curvature, g, x, l1, l2)
            more = min(more + (not whole), MORE_STEPS)
        elif part.p <= min(part.size, LARGEST_HESSIAN):
            new = full_step(part, curvature, g, x, l2)
        else:
            new = step_by_gradients(part, curvature, g, x, l2, late)
        if not np.abs(new).max() <= FARTHEST:
            break
        d = new - x
        descent = _directional(g, x, d, l1, l2, 1.0)
        if not descent < 0.0:
            break
        new_z = part.times(new) + beside
        farthest = float(np.abs(new_z).max())
        if farthest > MOST_MARGIN:  # separable rows without a penalty: the minimiser is at infinity
            if np.abs(z).max() >= 0.5 * MOST_MARGIN:
                break
            shrink = 0.25 * MOST_MARGIN / farthest
            d, descent, new, new_z = shrink * d, shrink * descent, x + shrink * d, z + shrink * (new_z - z)
        slope, curvature = _derivatives(u, new_z)
        g_new = part.sums(slope)
        t = 1.0
        if _directional(g_new, new, d, l1, l2, -1.0) > 0.0:
            t = _armijo(u, z, new_z, x, d, descent, l1, l2, 1 if anew and steps == 1 else MAX_TRIALS)
        if t == 1.0:
            x, z, g = new, new_z, g_new
            continue
        if t > 0.0:
            x, z = x + t * d, z + t * (new_z - z)
        elif anew and steps == 1 and -descent > ROUNDING * _loss(u, z):
            x = np.zeros_like(x)
            z = part.times(x) + beside
        else:
            break
        slope, curvature = _derivatives(u, z)
        g = part.sums(slope)
    a[:] = x[:-1]
    return float(-x[-1]), steps


def fit_at_any_width(
    X: Any,
    rows: NDArray[np.integer],
    u: Floats,
    offset: Floats,
    a: Floats,
    b: float,
    l1: float,
    l2: float,
    tol: float,
    max_iter: int,
) -> tuple[float, int]:
    """The kernel where features are few, `fit_logistic` where they are many or the table is sparse; an empty ``offset``
    means none.
    """
    if X.shape[1] <= WIDE and not is_sparse(X):
        found: tuple[float, int] = narrow(X, rows, u, offset, a, b, l1, l2, tol, max_iter, True)
        return found
    with calm_threads():
        return fit_logistic(part_of(X, rows), u, offset if offset.size else None, a, b, l1, l2, tol, max_iter)


def _armijo(
    u: Floats, z: Floats, new_z: Floats, x: Floats, d: Floats, descent: float, l1: float, l2: float, trials: int
) -> float:
    """First of the steps 1, 1/2, 1/4, ... along ``d`` with sufficient decrease of the objective, or 0 if there is
    none.
    """
    before, a, e, t = _loss(u, z), x[:-1], d[:-1], 1.0
    for _ in range(trials):
        v = a + t * e
        change = _loss(u, z + t * (new_z - z)) - before
        change += l1 * float(np.sum(np.abs(v) - np.abs(a))) + l2 * float(v @ v - a @ a)
        if change <= ARMIJO_SIGMA * t * descent:
            return t
        t *= 0.5
    return 0.0
