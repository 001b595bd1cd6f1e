"""How solvers are compared in operations research: profiles, shifted geometric means, primal integrals.

A trace is a table of ``seconds`` and ``best``, the lowest objective found by then, in the order of time.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def best_at(trace: pd.DataFrame, seconds: float) -> float:
    """The lowest objective found within ``seconds``; infinity where there is none yet."""
    values = trace["best"][trace["seconds"] <= seconds]
    return float(values.min()) if len(values) else np.inf


def seconds_to(trace: pd.DataFrame, target: float) -> float:
    """The first time at which the best objective is at most ``target``; infinity where it never is."""
    reached = trace["seconds"][trace["best"] <= target]
    return float(reached.min()) if len(reached) else np.inf


def performance_profile(cost: pd.DataFrame) -> pd.DataFrame:
    """Dolan and Moré's profile: the share of problems that a solver solves at a cost within a factor of the cheapest.

    Parameters
    ----------
    cost : pandas.DataFrame
        Problems x solvers, > 0; infinite where a solver fails.

    Returns
    -------
    pandas.DataFrame
        The step functions, indexed by the factors at which a profile steps, >= 1, one column per solver. Problems that
        no solver solves count in the denominator.
    """
    ratio = cost.div(cost.min(axis=1), axis=0).fillna(np.inf)  # inf / inf: nobody solves it
    steps = np.unique(np.concatenate([[1.0], ratio.to_numpy()[np.isfinite(ratio.to_numpy())]]))
    return pd.DataFrame({name: _share_up_to(ratio[name], steps) for name in cost}, index=pd.Index(steps, name="factor"))


def data_profile(cost: pd.DataFrame) -> pd.DataFrame:
    """Moré and Wild's profile: the share of problems that a solver solves within a budget.

    Parameters
    ----------
    cost : pandas.DataFrame
        Problems x solvers: what each spends until it has solved a problem, in one unit (seconds, or evaluations per
        number of variables plus one); infinite where it fails. "Solved" is for the caller to say, see
        `convergence_target`.

    Returns
    -------
    pandas.DataFrame
        The profiles, indexed by the budgets at which a profile steps, one column per solver.
    """
    spent = cost.to_numpy()
    steps = np.unique(np.concatenate([[0.0], spent[np.isfinite(spent)]]))
    return pd.DataFrame({name: _share_up_to(cost[name], steps) for name in cost}, index=pd.Index(steps, name="budget"))


def convergence_target(start: float, lowest: float, tolerance: float) -> float:
    """Moré and Wild's test: solved at an objective of at most ``lowest + tolerance (start - lowest)``.

    ``lowest`` is the best that any solver found, ``start`` the objective that all start from.
    """
    return lowest + tolerance * (start - lowest)


def shifted_geometric_mean(values: ArrayLike, shift: float = 1.0) -> float:
    """``exp(mean(log(v + shift))) - shift``: the mean of times, whose small ones the shift keeps from dominating."""
    return float(np.exp(np.mean(np.log(np.asarray(values, float) + shift))) - shift)


def primal_gap(objective: ArrayLike, best: float) -> Floats:
    """Berthold's gap in [0, 1]: ``|f - best| / max(|f|, |best|)``; 0 where both are 0, 1 where their signs differ or
    there is no solution yet (an infinite objective).
    """
    f = np.atleast_1d(np.asarray(objective, float))
    scale = np.maximum(np.abs(f), abs(best))
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.where(scale == 0.0, 0.0, np.abs(f - best) / scale)
        return np.where(np.isinf(f) | (f * best < 0.0), 1.0, gap)


def primal_integral(trace: pd.DataFrame, best: float, horizon: float) -> float:
    """Berthold's primal integral: the integral over [0, horizon] seconds of the `primal_gap` of the best objective so
    far. 0 is best, ``horizon`` the worst; divided by the horizon, it is an average gap.
    """
    inside = trace[trace["seconds"] < horizon]
    times = np.concatenate([[0.0], inside["seconds"], [horizon]])
    gaps = np.concatenate([[1.0], primal_gap(inside["best"], best)])
    return float(np.sum(np.diff(times) * gaps))


def own_gap(trace: pd.DataFrame, limit: float) -> float:
    """``(best - bound) / max(|best|, 1e-12)`` within ``limit`` seconds, at most 1; 1 without a bound or a tree."""
    inside = trace[trace["seconds"] <= limit]
    best, bound = inside["best"].min(), pd.to_numeric(inside["bound"], errors="coerce").max()
    if not (len(inside) and np.isfinite(bound) and np.isfinite(best)):
        return 1.0
    return float(min(max(best - bound, 0.0) / max(abs(best), 1e-12), 1.0))


def dual_integral(trace: pd.DataFrame, best: float, horizon: float) -> float:
    """The integral over [0, horizon] seconds of the `primal_gap` between ``best`` and the highest bound so far."""
    inside = trace[trace["seconds"] < horizon]
    bounds = pd.to_numeric(inside["bound"], errors="coerce").cummax().ffill()
    gaps = np.where(bounds.isna(), 1.0, primal_gap(np.minimum(bounds.fillna(-np.inf), best), best))
    times = np.concatenate([[0.0], inside["seconds"], [horizon]])
    return float(np.sum(np.diff(times) * np.concatenate([[1.0], gaps])))


def primal_dual_integral(trace: pd.DataFrame, horizon: float) -> float:
    """The integral over [0, horizon] seconds of the gap between the best objective and the highest bound so far, at
    most 1: what SCIP calls the primal-dual integral.
    """
    inside = trace[trace["seconds"] < horizon]
    best = pd.to_numeric(inside["best"], errors="coerce").cummin()
    bounds = pd.to_numeric(inside["bound"], errors="coerce").cummax().ffill()
    with np.errstate(invalid="ignore", divide="ignore"):
        relative: Floats = np.clip((best - bounds) / np.maximum(best.abs(), 1e-12), 0.0, 1.0).to_numpy(float)
    gaps = np.where(np.isfinite(relative), relative, 1.0)
    times = np.concatenate([[0.0], inside["seconds"], [horizon]])
    return float(np.sum(np.diff(times) * np.concatenate([[1.0], gaps])))


def _share_up_to(values: pd.Series, steps: Floats) -> Floats:
    ordered = np.sort(values.to_numpy(float))
    return np.searchsorted(ordered, steps, side="right") / len(ordered)
