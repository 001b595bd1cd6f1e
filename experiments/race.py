"""The comparison of solvers on one clock: who reaches the best objective, by how much, how fast."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from experiments import profiles
from experiments.protocol import Protocol

PROBLEM = ["dataset", "depth", "leaves", "seed", "split"]
BEST = 1e-4  # relative gap to the lowest objective that counts as having reached it
TOLERANCES = (0.1, 0.01, 0.001)
PROOF = "OPTIMAL"
START = 1e-3  # seconds: what comes earlier has come at once


class Race:
    """What the rows and traces of a solve protocol say.

    ``best``: the lowest objective that a solver found for each problem within the horizon (where a solver has proved
    its own, the proved one); ``start``: that of the constant tree; ``at(limit)``: problems x solvers, the objective
    found by then.
    """

    def __init__(self, protocol: Protocol, rows: pd.DataFrame, traces: pd.DataFrame) -> None:
        self.solvers = [name for name in protocol.methods if (rows["method"] == name).any()]
        self.limits = protocol.limits or (float(protocol.time_limit or 0.0),)
        self.horizon = max(self.limits)
        self.rows = rows
        steps = dict(iter(traces.groupby("key", sort=False)))
        self._runs = {
            (tuple(row[name] for name in PROBLEM), row["method"]): steps.get(row["key"], traces.head(0))
            for row in rows.to_dict("records")
        }
        self.problems = pd.MultiIndex.from_tuples(dict.fromkeys(key for key, _solver in self._runs), names=PROBLEM)
        self.best = self.at(self.horizon).min(axis=1)
        start = {tuple(row[name] for name in PROBLEM): row["constant_objective"] for row in rows.to_dict("records")}
        self.start = pd.Series([start[key] for key in self.problems], index=self.problems)

    def _table(self, read: Any) -> pd.DataFrame:
        """``read(trace)`` for each problem and solver; NaN where there was no run."""
        values = {
            name: [read(self._runs[key, name]) if (key, name) in self._runs else np.nan for key in self.problems]
            for name in self.solvers
        }
        return pd.DataFrame(values, index=self.problems, dtype=float)

    def traces(self) -> Iterator[tuple[tuple[tuple[Any, ...], str], pd.DataFrame]]:
        """The problem and the solver of each run, and its trace."""
        yield from self._runs.items()

    def at(self, limit: float) -> pd.DataFrame:
        """The objective that each solver had found by ``limit`` seconds; infinite where none."""
        return self._table(lambda trace: profiles.best_at(trace, limit))

    @cached_property
    def proved(self) -> pd.Series:
        """Whether ``best`` of each problem is its proved optimum: a solver of ours that covers all its trees, see
        `Solver.covers`, has ended OPTIMAL with a bound that no tree refutes.
        """
        known = dict(zip(self.problems, self.best, strict=True))
        held = set()
        for row in self.rows.to_dict("records"):
            key = tuple(row[name] for name in PROBLEM)
            covers = row.get("covers") is True or row.get("covers") == 1.0
            if key in known and covers and row.get("termination") == PROOF:
                slack = BEST * abs(known[key])
                if row["objective"] <= known[key] + slack and row["bound"] >= known[key] - slack:
                    held.add(key)
        return pd.Series([key in held for key in self.problems], index=self.problems)

    def references(self) -> pd.DataFrame:
        """Per problem: the objective that gaps are to, and whether it is the proved optimum or the best known."""
        words = np.where(self.proved, "proved optimum", "best known")
        return pd.DataFrame({"reference": self.best, "is": words}, index=self.problems)

    def gaps(self, limit: float | None = None) -> pd.DataFrame:
        """The primal gap of `at` to the reference, in [0, 1], by default at the end; the last level of the index says
        whether it is to the proved optimum or to the best known objective.
        """
        at = self.at(self.horizon if limit is None else limit)
        gaps = pd.DataFrame(
            {name: [profiles.primal_gap(f, b)[0] for f, b in zip(at[name], self.best, strict=True)] for name in at},
            index=at.index,
        ).where(at.notna())
        return gaps.set_index(pd.Index(self.references()["is"], name="gap to"), append=True)

    def performance_profile(self, tolerance: float = 0.01) -> pd.DataFrame:
        """Dolan and Moré's profile of `seconds_to`: share of problems within a factor of the fastest."""
        return profiles.performance_profile(self.seconds_to(tolerance))

    def data_profile(self, tolerance: float = 0.01) -> pd.DataFrame:
        """Moré and Wild's profile of `seconds_to`: share of problems within so many seconds."""
        return profiles.data_profile(self.seconds_to(tolerance))

    def primal_integrals(self) -> pd.DataFrame:
        """Problems x solvers: Berthold's primal integral over the horizon, in seconds."""
        return self.integrals() * self.horizon

    def seconds_to(self, tolerance: float) -> pd.DataFrame:
        """Seconds until ``tolerance`` of the way from the constant tree to the best is left (Moré and Wild)."""
        columns = {}
        for name in self.solvers:
            column = []
            for key, start, best in zip(self.problems, self.start, self.best, strict=True):
                trace = self._runs.get((key, name))
                target = profiles.convergence_target(start, best, tolerance)
                column.append(np.inf if trace is None else max(profiles.seconds_to(trace, target), START))
            columns[name] = column
        return pd.DataFrame(columns, index=self.problems)

    def integrals(self) -> pd.DataFrame:
        """Primal integrals over the horizon, divided by it: average gaps."""
        best = dict(zip(self.problems, self.best, strict=True))
        columns = {
            name: [
                profiles.primal_integral(self._runs[key, name], best[key], self.horizon) / self.horizon
                if (key, name) in self._runs
                else np.nan
                for key in self.problems
            ]
            for name in self.solvers
        }
        return pd.DataFrame(columns, index=self.problems)

    def summary(self, limit: float) -> pd.DataFrame:
        """One line per solver at a time limit: problems on which it has the best objective found by then, and the best
        known of all; mean and worst gap to the best known; shifted geometric mean of seconds to 1 % of it.
        """
        at, gaps = self.at(limit), self.gaps(limit)
        lowest = at.min(axis=1)
        first = at.le(lowest + BEST * lowest.abs(), axis=0) & np.isfinite(at)
        known = at.le(self.best + BEST * self.best.abs(), axis=0)
        near = self.seconds_to(0.01).clip(upper=limit)
        return pd.DataFrame(
            {
                "problems": at.notna().sum(),
                "best by then": first.sum(),
                "best known": known.sum(),
                "mean gap %": 100.0 * gaps.mean(),
                "worst gap %": 100.0 * gaps.max(),
                "seconds to 1 %": near.apply(profiles.shifted_geometric_mean),
            }
        ).sort_values("mean gap %")

    def curves(self) -> pd.DataFrame:
        """Mean gap over all problems at times from 10 ms to the horizon, by solver; for `figures.convergence`."""
        times = np.geomspace(10.0 * START, self.horizon, 60)
        return pd.DataFrame({t: self.gaps(t).mean() for t in times}).T

    def portfolios(self, limit: float, size: int = 2) -> pd.DataFrame:
        """The pairs (or singles) of solvers, each given an equal share of the limit, by the mean gap of the better."""
        from itertools import combinations

        lines = []
        for count in range(1, size + 1):
            shares = self.gaps(limit / count)
            for group in combinations(self.solvers, count):
                gap = shares[list(group)].min(axis=1)
                lines.append(
                    {"portfolio": " + ".join(group), "mean gap %": 100 * gap.mean(), "worst gap %": 100 * gap.max()}
                )
        return pd.DataFrame(lines).sort_values("mean gap %", ignore_index=True)

    def groups(self) -> Iterator[tuple[str, Race]]:
        """The race on the problems of one depth and kind of leaves at a time."""
        for leaves in sorted(self.rows["leaves"].unique()):
            for depth in sorted(self.rows["depth"].unique()):
                part = self.rows[(self.rows["leaves"] == leaves) & (self.rows["depth"] == depth)]
                yield f"{leaves} leaves, depth {int(depth)}", self._restricted(part)

    def by_leaves(self) -> Iterator[tuple[str, Race]]:
        """The race on the problems of one kind of leaves at a time."""
        for leaves, part in self.rows.groupby("leaves"):
            yield f"{leaves} leaves", self._restricted(part)

    def _restricted(self, part: pd.DataFrame) -> Race:
        out = object.__new__(Race)
        out.__dict__.update(self.__dict__)
        keys = {tuple(row[name] for name in PROBLEM) for row in part.to_dict("records")}
        kept = [key in keys for key in self.problems]
        out.__dict__.pop("proved", None)
        out.rows, out.problems, out.best, out.start = part, self.problems[kept], self.best[kept], self.start[kept]
        return out
