"""The comparison of solvers on one clock: who reaches the best objective, by how much, how fast.

A problem is its rows and its statement, and has one reference: the lowest objective that any solver has found with any
seed. Seeds are replications of a solver on it. A table with one number for a problem and a solver holds the median over
the seeds, and means over problems are over those that every solver ran: sums over different problems compare nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from solvers.races import profiles, statistics
from solvers.races.plans import Plan

PROBLEM = ["dataset", "depth", "leaves", "split", "rows"]  # rows: the seed, where it draws the rows; else 0
BEST = 1e-4  # relative gap to the lowest objective that counts as having reached it
ROUNDING = 1e-9  # relative to an objective: a bound this little above it agrees with it
EXACT = 1e-12  # of the constant's objective: differences that are rounding
PROVED = 1e-4  # relative gap of a bound to the lowest objective up to which this counts as the optimum
TOLERANCES = (0.1, 0.01, 0.001)
PROOF = "OPTIMAL"
START = 1e-3  # seconds: what comes earlier has come at once
STATUS = {"skipped": "refused", "time_limit": "out of time", "memory_limit": "failed", "failed": "failed", "ok": "ran"}
COUNTED = ("ran", "refused", "failed", "out of time", "not run")

Traces = dict[int, pd.DataFrame]  # by seed


class Comparison:
    """What the rows and traces of a plan say.

    ``best``: the lowest objective that a solver found for each problem within the horizon, with any seed; ``start``:
    that of the constant tree; ``at(limit)``: problems x solvers, the objective found by then; ``common``: the problems
    that every solver ran.

    Parameters
    ----------
    plan : Plan
        What was planned.
    rows : pandas.DataFrame
        Rows of runs that ended well, one per problem, solver and seed.
    traces : pandas.DataFrame
        Their traces, by ``key``.
    every : pandas.DataFrame or None, default None
        Rows of all runs, also of those that were refused or failed; None: ``rows``.
    """

    def __init__(self, plan: Plan, rows: pd.DataFrame, traces: pd.DataFrame, every: pd.DataFrame | None = None) -> None:
        self.plan = plan
        self.solvers = [name for name in plan.methods if (rows["method"] == name).any()]
        self.limits = plan.limits or (float(plan.time_limit or 0.0),)
        self.horizon = max(self.limits)
        self.rows = self._keyed(rows)
        self._every = self._keyed(rows if every is None else every)
        steps = dict(iter(traces.groupby("key", sort=False)))
        self._runs: dict[tuple[Any, str], Traces] = {}
        for row in self.rows.to_dict("records"):
            trace = steps.get(row["key"], traces.head(0))
            self._runs.setdefault((row["problem"], row["method"]), {})[int(row["seed"])] = trace
        self.problems = pd.MultiIndex.from_tuples(dict.fromkeys(self.rows["problem"]), names=PROBLEM)
        lowest = self.rows.groupby("problem")["objective"].min() if len(self.rows) else pd.Series(dtype=float)
        lowest_found = self._table(lambda trace: profiles.best_at(trace, self.horizon), np.min).min(axis=1)
        known = lowest.reindex(list(self.problems)).to_numpy(float)
        self.best = pd.Series(np.fmin(lowest_found.to_numpy(float), known), index=self.problems)
        start = dict(zip(self.rows["problem"], self.rows["constant_objective"], strict=True))
        self.start = pd.Series([start[key] for key in self.problems], index=self.problems)

    def _keyed(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows with the key of their problem."""
        drawn = [self.plan.rows_of(int(seed)) for seed in rows["seed"]]
        keys = zip(*(rows[name] for name in PROBLEM[:-1]), drawn, strict=True)
        return rows.assign(rows=drawn, problem=pd.Series(list(keys), rows.index, dtype=object))

    @property
    def n_seeds(self) -> int:
        """The largest number of seeds of a solver on a problem."""
        return max((len(traces) for traces in self._runs.values()), default=0)

    @property
    def common(self) -> pd.MultiIndex:
        """The problems that every solver ran."""
        return self.problems[[all((key, name) in self._runs for name in self.solvers) for key in self.problems]]

    def _table(self, read: Callable[[pd.DataFrame], float], over: Callable[..., Any] = np.median) -> pd.DataFrame:
        """``read(trace)`` for each problem and solver, by default the median over the seeds; NaN where none ran."""
        return self._numbers(lambda _key, trace: read(trace), over)

    def _numbers(
        self, read: Callable[[Any, pd.DataFrame], float], over: Callable[..., Any] = np.median
    ) -> pd.DataFrame:
        """``read(problem, trace)``, as `_table`."""

        def of(key: Any, name: str) -> float:
            traces = self._runs.get((key, name))
            if traces is None:
                return np.nan
            with np.errstate(invalid="ignore"):
                return float(over(np.sort([read(key, trace) for trace in traces.values()])))

        values = {name: [of(key, name) for key in self.problems] for name in self.solvers}
        return pd.DataFrame(values, index=self.problems, dtype=float)

    def traces(self) -> Iterator[tuple[tuple[Any, str, int], pd.DataFrame]]:
        """The problem, the solver and the seed of each run, and its trace."""
        for (key, name), by_seed in self._runs.items():
            for seed, trace in by_seed.items():
                yield (key, name, seed), trace

    def counts(self) -> pd.DataFrame:
        """One line per solver: how many runs ran, were refused, failed, were out of time or have not been run."""
        words = self._every["status"].map(STATUS) if "status" in self._every else pd.Series("ran", self._every.index)
        newest = self._every.assign(word=words).drop_duplicates(["problem", "method", "seed"], keep="last")
        table = pd.crosstab(newest["method"], newest["word"]).reindex(columns=list(COUNTED), fill_value=0)
        table = table.reindex(list(self.plan.methods), fill_value=0)
        wanted = len(set(zip(newest["problem"], newest["seed"], strict=True)))
        return table.assign(**{"not run": (wanted - table.sum(axis=1)).clip(lower=0)}).rename_axis(columns=None)

    def missing(self) -> dict[tuple[Any, str], str]:
        """Why a solver has no run of a problem: refused, failed or out of time."""
        words = {}
        for row in self._every.to_dict("records"):
            if row.get("status", "ok") != "ok":
                words[row["problem"], row["method"]] = STATUS.get(row["status"], "failed")
        return words

    # ---- objectives and gaps --------------------------------------------------------------------------------------

    def at(self, limit: float) -> pd.DataFrame:
        """Objective that each solver had found by a time, median over seeds; infinite where none.

        Parameters
        ----------
        limit : float
            Seconds.

        Returns
        -------
        pandas.DataFrame
            Problems x solvers.
        """
        return self._table(lambda trace: profiles.best_at(trace, limit))

    def spread(self, limit: float | None = None) -> pd.DataFrame:
        """Lowest and highest objective over the seeds at a time.

        Parameters
        ----------
        limit : float or None, default None
            Seconds; None: the end.

        Returns
        -------
        pandas.DataFrame
            Problems x solvers.
        """
        read = self._until(self.horizon if limit is None else limit)
        parts = {"lowest": self._table(read, np.min), "median": self._table(read), "highest": self._table(read, np.max)}
        return pd.concat(parts, axis=1).swaplevel(axis=1).reindex(columns=self.solvers, level=0)

    @staticmethod
    def _until(limit: float) -> Callable[[pd.DataFrame], float]:
        return lambda trace: profiles.best_at(trace, limit)

    @cached_property
    def proved(self) -> pd.Series:
        """Whether ``best`` of each problem is its proved optimum: a bound of a solver that covers all its trees, see
        `Solver.covers`, which no tree of the race refutes, comes within 1e-4 of it.
        """
        known = dict(zip(self.problems, self.best, strict=True))
        held = set()
        for row in self.rows.to_dict("records"):
            if row["problem"] not in known or not covers(row) or row.get("bound") is None:
                continue
            best, bound = known[row["problem"]], float(row["bound"])
            slack = abs(best) if np.isfinite(best) else 0.0
            least = EXACT * abs(row["constant_objective"]) if np.isfinite(best) else 0.0
            if best - PROVED * slack - least <= bound <= best + ROUNDING * slack + least:  # both infinite: infeasible
                held.add(row["problem"])
        return pd.Series([key in held for key in self.problems], index=self.problems)

    def references(self) -> pd.DataFrame:
        """Per problem: the objective that gaps are to, and whether it is the proved optimum or the best known."""
        infeasible = np.where(self.proved, "proved infeasible", "no tree known")
        words = np.where(np.isinf(self.best), infeasible, np.where(self.proved, "proved optimum", "best known"))
        return pd.DataFrame({"reference": self.best, "is": words}, index=self.problems)

    def _gap(self, limit: float) -> Callable[[Any, pd.DataFrame], float]:
        known = dict(zip(self.problems, self.best, strict=True))
        start = dict(zip(self.problems, self.start, strict=True))

        def gap(key: Any, trace: pd.DataFrame) -> float:
            if np.isinf(known[key]):
                return np.nan
            if profiles.best_at(trace, limit) - known[key] <= EXACT * abs(start[key]):  # rounding of a perfect fit
                return 0.0
            return float(profiles.primal_gap(profiles.best_at(trace, limit), known[key])[0])

        return gap

    def gaps(self, limit: float | None = None) -> pd.DataFrame:
        """Primal gap to the reference, in [0, 1], median over the seeds.

        Parameters
        ----------
        limit : float or None, default None
            Seconds; None: the end.

        Returns
        -------
        pandas.DataFrame
            Problems x solvers; the last level of the index says whether the gap is to the proved optimum or to the best
            known objective.
        """
        gaps = self._numbers(self._gap(self.horizon if limit is None else limit))
        return gaps.set_index(pd.Index(self.references()["is"], name="gap to"), append=True)

    def on_common(self, table: pd.DataFrame) -> pd.DataFrame:
        """Lines of a table that are of problems that every solver ran.

        Parameters
        ----------
        table : pandas.DataFrame
            Problems x any columns.

        Returns
        -------
        pandas.DataFrame
            The lines.
        """
        keys = {tuple(key) for key in self.common}
        return table[[tuple(key)[: len(PROBLEM)] in keys for key in table.index]]

    def compare(self, baseline: str | None = None, limit: float | None = None) -> pd.DataFrame:
        """Compare each solver with one.

        Each problem that every solver ran counts once, whatever its seeds.

        Parameters
        ----------
        baseline : str or None, default None
            Label of the solver to compare with; None: the one of the lowest mean gap.
        limit : float or None, default None
            Seconds; None: the end.

        Returns
        -------
        pandas.DataFrame
            Per solver, mean difference of the gaps, Wilcoxon's signed-rank test, and its p by Holm's step-down.
        """
        gaps = self.on_common(self.gaps(limit)).dropna()
        if gaps.empty:
            raise ValueError("compare needs a problem that every solver ran and that has a tree; there is none")
        base = baseline if baseline is not None else str(gaps.mean().idxmin())
        if base not in gaps:
            raise ValueError(f"baseline must be one of {', '.join(self.solvers)}; got {baseline!r}")
        wanted = ["difference", "more", "equal", "less", "p (Wilcoxon)", "p (Wilcoxon, Holm)"]
        return statistics.paired(gaps, base).reindex(columns=wanted).rename_axis(f"against {base}")

    # ---- time -----------------------------------------------------------------------------------------------------

    def performance_profile(self, tolerance: float = 0.01) -> pd.DataFrame:
        """Dolan and Moré's profile of `seconds_to`: share of problems within a factor of the fastest.

        Parameters
        ----------
        tolerance : float, default 0.01
            Share of the way from the constant tree to the best that may be left.

        Returns
        -------
        pandas.DataFrame
            Factors x solvers.
        """
        return profiles.performance_profile(self.seconds_to(tolerance))

    def data_profile(self, tolerance: float = 0.01) -> pd.DataFrame:
        """Moré and Wild's profile of `seconds_to`: share of problems within so many seconds.

        Parameters
        ----------
        tolerance : float, default 0.01
            Share of the way from the constant tree to the best that may be left.

        Returns
        -------
        pandas.DataFrame
            Seconds x solvers.
        """
        return profiles.data_profile(self.seconds_to(tolerance))

    def seconds_to(self, tolerance: float) -> pd.DataFrame:
        """Seconds until little of the way from the constant tree to the best is left (Moré and Wild).

        Parameters
        ----------
        tolerance : float
            Share of the way from the constant tree to the best that may be left.

        Returns
        -------
        pandas.DataFrame
            Problems x solvers, medians over the seeds; infinite where half of them do not come there, or the solver did
            not run.
        """
        targets = {
            key: profiles.convergence_target(start, best, tolerance)
            for key, start, best in zip(self.problems, self.start, self.best, strict=True)
        }
        seconds = self._numbers(lambda key, trace: max(profiles.seconds_to(trace, targets[key]), START), upper_median)
        return seconds.fillna(np.inf)

    def reached(self, limit: float | None = None) -> pd.DataFrame:
        """Share of the seeds with which each solver has the reference, within 1e-4.

        Parameters
        ----------
        limit : float or None, default None
            Seconds; None: the end.

        Returns
        -------
        pandas.DataFrame
            Problems x solvers.
        """
        gap = self._gap(self.horizon if limit is None else limit)
        return self._numbers(lambda key, trace: float(gap(key, trace) <= BEST), np.mean)

    def primal_integrals(self) -> pd.DataFrame:
        """Problems x solvers: Berthold's primal integral over the horizon, in seconds; mean over the seeds."""
        return self.integrals() * self.horizon

    def integrals(self) -> pd.DataFrame:
        """Primal integrals over the horizon, divided by it: average gaps; mean over the seeds."""
        best = dict(zip(self.problems, self.best, strict=True))
        return self._numbers(
            lambda key, trace: (
                profiles.primal_integral(trace, best[key], self.horizon) / self.horizon
                if np.isfinite(best[key])
                else np.nan
            ),
            np.mean,
        )

    def cpu_seconds(self) -> pd.DataFrame:
        """CPU seconds of a run and its child processes, median over the seeds; NaN where unknown."""
        rows = self.rows.assign(cpu=self.rows.get("cpu_seconds", np.nan))
        table = rows.pivot_table(index="problem", columns="method", values="cpu", aggfunc="median", dropna=False)
        return table.reindex(index=list(self.problems), columns=self.solvers).set_axis(self.problems)

    def speedups(self, baseline: str, tolerance: float = 0.01) -> pd.DataFrame:
        """Speed of each solver against one, on the problems that both solved.

        Parameters
        ----------
        baseline : str
            Label of the solver to compare with.
        tolerance : float, default 0.01
            Share of the way from the constant tree to the best that may be left.

        Returns
        -------
        pandas.DataFrame
            Per solver, the number of problems, and how many times less time it took, as a geometric mean, the least and
            the most.
        """
        return speedups(self.seconds_to(tolerance), baseline)

    def par(self, factor: float = 10.0, tolerance: float = 0.01) -> pd.Series:
        """PAR score: mean over all problems of the seconds to a tolerance, refused problems among them.

        Parameters
        ----------
        factor : float, default 10.0
            How many times the horizon counts where the tolerance is not reached.
        tolerance : float, default 0.01
            Share of the way from the constant tree to the best that may be left.

        Returns
        -------
        pandas.Series
            Score of each solver.
        """
        return par(self.seconds_to(tolerance), self.horizon, factor)

    # ---- summaries ------------------------------------------------------------------------------------------------

    def summary(self, limit: float) -> pd.DataFrame:
        """One line per solver at a time limit.

        Parameters
        ----------
        limit : float
            Seconds.

        Returns
        -------
        pandas.DataFrame
            The problems that the solver ran; and on those that every solver ran, on how many its median is the best
            found by then, on how many it has the reference with every seed and with some seed; mean and worst gap to
            the reference; shifted geometric mean of seconds to 1 % of it.
        """
        at, gaps, reached = (self.on_common(table) for table in (self.at(limit), self.gaps(limit), self.reached(limit)))
        lowest = at.min(axis=1)
        first = at.le(lowest + BEST * lowest.abs(), axis=0) & np.isfinite(at)
        near = self.on_common(self.seconds_to(0.01)).clip(upper=limit)
        n_problems = self.at(limit).notna().sum()
        return pd.DataFrame(
            {
                "problems": n_problems,
                "best by then": first.sum(),
                "reference, every seed": reached.ge(1.0).sum(),
                "reference, some seed": reached.gt(0.0).sum(),
                "mean gap %": 100.0 * gaps.mean(),
                "worst gap %": 100.0 * gaps.max(),
                "seconds to 1 %": near.apply(profiles.shifted_geometric_mean) if len(near) else np.nan,
            }
        ).sort_values("mean gap %")

    def curves(self) -> pd.DataFrame:
        """Mean gap over the problems that every solver ran at times from 10 ms to the horizon, by solver; for
        `figures.convergence`.
        """
        times = np.geomspace(10.0 * START, self.horizon, 60)
        return pd.DataFrame({t: self.on_common(self.gaps(t)).mean() for t in times}).T

    def portfolios(self, limit: float, size: int = 2) -> pd.DataFrame:
        """Sets of solvers, each solver given an equal share of the limit.

        Parameters
        ----------
        limit : float
            Seconds.
        size : int, default 2
            Solvers in a set, 1 or 2.

        Returns
        -------
        pandas.DataFrame
            Sets by the mean gap of the better over the problems that every solver ran.
        """
        lines = []
        for count in range(1, size + 1):
            shares = self.on_common(self.gaps(limit / count))
            for group in combinations(self.solvers, count):
                gap = shares[list(group)].min(axis=1)
                lines.append(
                    {"portfolio": " + ".join(group), "mean gap %": 100 * gap.mean(), "worst gap %": 100 * gap.max()}
                )
        return pd.DataFrame(lines).sort_values("mean gap %", ignore_index=True)

    def groups(self) -> Iterator[tuple[str, Comparison]]:
        """The race on the problems of one depth and kind of leaves at a time."""
        for leaves in sorted(self.rows["leaves"].unique()):
            for depth in sorted(self.rows["depth"].unique()):
                part = self.rows[(self.rows["leaves"] == leaves) & (self.rows["depth"] == depth)]
                if len(part):
                    yield f"{leaves} leaves, depth {int(depth)}", self._restricted(part)

    def by_leaves(self) -> Iterator[tuple[str, Comparison]]:
        """The race on the problems of one kind of leaves at a time."""
        for leaves, part in self.rows.groupby("leaves"):
            yield f"{leaves} leaves", self._restricted(part)

    def _restricted(self, part: pd.DataFrame) -> Comparison:
        out = object.__new__(Comparison)
        out.__dict__.update(self.__dict__)
        keys = set(part["problem"])
        kept = [key in keys for key in self.problems]
        out.__dict__.pop("proved", None)
        out.solvers = [name for name in self.solvers if (part["method"] == name).any()]
        out.rows, out.problems, out.best, out.start = part, self.problems[kept], self.best[kept], self.start[kept]
        return out


def covers(row: Any) -> bool:
    """Whether the bound of a run is over all trees of its problem."""
    return row.get("covers") is True or row.get("covers") == 1.0


def upper_median(values: Any) -> float:
    """The median of increasing values, the upper one of two: where half of them are infinite, it is."""
    return float(values[len(values) // 2])


def speedups(seconds: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """See `Comparison.speedups`, of a table of seconds that is infinite where a problem is not solved."""
    if baseline not in seconds:
        raise ValueError(f"baseline must be one of {', '.join(map(str, seconds))}; got {baseline!r}")
    lines = {}
    for name in seconds.columns.drop(baseline):
        both = np.isfinite(seconds[name]) & np.isfinite(seconds[baseline])
        ratio = (seconds[baseline] / seconds[name])[both]
        lines[name] = {
            "solved by both": int(both.sum()),
            "by it alone": int((np.isfinite(seconds[name]) & ~both).sum()),
            f"by {baseline} alone": int((np.isfinite(seconds[baseline]) & ~both).sum()),
            "times faster": float(np.exp(np.log(ratio).mean())) if both.any() else np.nan,
            "least": float(ratio.min()) if both.any() else np.nan,
            "most": float(ratio.max()) if both.any() else np.nan,
        }
    return pd.DataFrame.from_dict(lines, orient="index").rename_axis(f"against {baseline}")


def par(seconds: pd.DataFrame, limit: float, factor: float) -> pd.Series:
    """Mean seconds by solver; ``factor * limit`` for what is not solved within the limit."""
    return seconds.where(seconds <= limit, factor * limit).mean().rename(f"PAR-{factor:g}")
