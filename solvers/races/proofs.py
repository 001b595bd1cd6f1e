"""What the rows and traces of a plan say of proofs: who has proved what, when, and how far others are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from solvers.races import profiles
from solvers.races.compare import BEST, PROOF, ROUNDING, START, Comparison, covers, par, speedups, upper_median

DIGITS = 6  # of percentages
SCORE = "test score less the best tree's, points"  # a column of distances


class Proofs:
    """The proofs and bounds in the rows and traces of a `Comparison`.

    ``reference``: the lowest objective of each problem; ``bound``: the highest bound over all its trees that nothing
    refutes; ``proved``: whether somebody proved the optimum. A bound is refuted by any tree of the race that is below
    it, by more than rounding; bounds of solvers that look at some trees only, see `Solver.covers`, are theirs alone.
    """

    def __init__(self, race: Comparison) -> None:
        self.race = race
        rows = race.rows.copy()
        rows["bound"] = pd.to_numeric(rows.get("bound", pd.Series(np.nan, rows.index)), errors="coerce")
        rows["termination"] = rows.get("termination", "")
        rows["covers_all"] = [covers(row) for row in rows.to_dict("records")]
        known = dict(zip(race.problems, race.best, strict=True))
        rows["best"] = rows["problem"].map(known)
        single = rows[~rows.get("several_trees", pd.Series(False, rows.index)).fillna(False).astype(bool)]
        lowest = rows["problem"].map(single.groupby("problem")["objective"].min()).fillna(np.inf)  # of single trees
        said = rows["termination"].isin([PROOF, "INFEASIBLE"])
        size = lowest.abs().replace(np.inf, 0.0)
        above = rows["bound"] > lowest + ROUNDING * size
        rows["refuted"] = above & (rows["covers_all"] | said)
        rows["proved"] = said & ~rows["refuted"]
        self.rows = rows
        self.reference = race.best
        valid = rows[rows["bound"].notna() & ~rows["refuted"] & rows["covers_all"]]
        highest = valid.groupby("problem")["bound"].max().to_dict()
        self.bound = pd.Series([highest.get(key, -np.inf) for key in race.problems], index=race.problems)
        some = set(rows["problem"][rows["proved"]])
        self.proved = pd.Series([key in some for key in race.problems], index=race.problems)

    @property
    def bounding(self) -> list[str]:
        """The solvers that give bounds."""
        given = set(self.rows.loc[self.rows["bound"].notna(), "method"])
        return [name for name in self.race.solvers if name in given]

    def refutations(self) -> pd.DataFrame:
        """One line per bound that fell: whose it is, with which seed, and the tree of the race that is below it."""
        lines = []
        for row in self.rows[self.rows["refuted"]].to_dict("records"):
            there = self.rows[self.rows["problem"] == row["problem"]]
            several = there.get("several_trees", pd.Series(False, there.index)).fillna(False).astype(bool)
            better = there.loc[there["objective"].where(~several, np.inf).idxmin()]
            lines.append(
                {
                    "dataset": row["dataset"],
                    "depth": int(row["depth"]),
                    "solver": row["method"],
                    "seed": int(row["seed"]),
                    "said": row["termination"],
                    "bound": row["bound"],
                    "a tree of": better["method"],
                    "has": better["objective"],
                }
            )
        columns = ["dataset", "depth", "solver", "seed", "said", "bound", "a tree of", "has"]
        return pd.DataFrame(lines, columns=columns)

    def _each(self, values: pd.Series, over: Any) -> pd.DataFrame:
        """``values`` of the rows, by problem and solver that gives bounds; ``over`` the seeds."""
        rows = self.rows.assign(value=values)
        numbers = {key: float(over(np.sort(part["value"]))) for key, part in rows.groupby(["problem", "method"])}
        table = {name: [numbers.get((key, name), np.nan) for key in self.race.problems] for name in self.bounding}
        return pd.DataFrame(table, index=self.race.problems)

    def seconds(self) -> pd.DataFrame:
        """Problems x solvers that give bounds: seconds to the proof, median over the seeds; infinite where half of them
        have none, or a wrong one, and where the solver did not run.
        """
        cost = self.rows["fit_seconds"].where(self.rows["proved"], np.inf).clip(lower=START)
        return self._each(cost, upper_median).fillna(np.inf)

    def all_seeds(self) -> pd.DataFrame:
        """Problems x solvers that give bounds: the share of the seeds with a proof; NaN where it did not run."""
        return self._each(self.rows["proved"].astype(float), np.mean)

    def _traced(self, read: Any, over: Any = np.median) -> pd.DataFrame:
        """``read(problem, trace)`` of the solvers that give bounds, over the seeds."""
        numbers: dict[tuple[Any, str], list[float]] = {}
        for (problem, name, _seed), trace in self.race.traces():
            if name in self.bounding:
                numbers.setdefault((problem, name), []).append(read(problem, trace))
        table = {
            name: [float(over(numbers[key, name])) if (key, name) in numbers else np.nan for key in self.race.problems]
            for name in self.bounding
        }
        return pd.DataFrame(table, index=self.race.problems)

    def gaps(self, limit: float | None = None) -> pd.DataFrame:
        """Problems x solvers that give bounds: each one's own relative gap at ``limit`` seconds, by default at the end,
        median over the seeds; 1 without a bound.
        """
        until = self.race.horizon if limit is None else limit
        return self._traced(lambda _problem, trace: profiles.own_gap(trace, until))

    def dual_integrals(self) -> pd.DataFrame:
        """The integral over the horizon of the gap between the reference and the bound so far, divided by it."""
        known, end = dict(zip(self.race.problems, self.race.best, strict=True)), self.race.horizon
        return self._traced(lambda key, trace: profiles.dual_integral(trace, known[key], end) / end, np.mean)

    def primal_dual_integrals(self) -> pd.DataFrame:
        """The integral over the horizon of the gap between a solver's own incumbent and its bound, divided by it."""
        end = self.race.horizon
        return self._traced(lambda _key, trace: profiles.primal_dual_integral(trace, end) / end, np.mean)

    def time_profile(self) -> pd.DataFrame:
        """The share of all problems that each solver has proved within so many seconds."""
        return profiles.data_profile(self.seconds())

    def performance_profile(self) -> pd.DataFrame:
        """The share of all problems that each solver has proved within a factor of the fastest."""
        return profiles.performance_profile(self.seconds())

    def gap_profile(self, limit: float | None = None) -> pd.DataFrame:
        """The share of all problems on which each solver's own gap at ``limit`` seconds is at most so large."""
        return profiles.data_profile(self.gaps(limit).fillna(np.inf).clip(lower=0.0))

    def par(self, factor: float = 10.0) -> pd.Series:
        """PAR-``factor`` of the seconds to proof: a problem without one counts ``factor`` times the horizon."""
        return par(self.seconds(), self.race.horizon, factor)

    def speedups(self, baseline: str) -> pd.DataFrame:
        """As `Comparison.speedups`, of the seconds to proof."""
        return speedups(self.seconds(), baseline)

    def summary(self) -> pd.DataFrame:
        """One line per solver that gives bounds: runs that ran, were refused, failed, were out of time, were not run;
        problems proved with every seed and with some; bounds refuted; PAR-2 and PAR-10 over all problems; and on the
        problems that every solver ran, seconds to proof and gaps.
        """
        share, cost, counts = self.all_seeds(), self.seconds(), self.race.counts()
        common = cost[cost.index.isin(self.race.common)].clip(upper=self.race.horizon)
        cpu = self.race.on_common(self.race.cpu_seconds())
        lines = {}
        for name in self.bounding:
            runs = self.rows[self.rows["method"] == name]
            out = int(((runs["termination"] == "TIME_LIMIT") & ~runs["proved"]).sum())
            line: dict[str, float] = {
                "problems": int(runs["problem"].nunique()),
                "proved, every seed": int((share[name] >= 1.0).sum()),
                "proved, some seed": int((share[name] > 0.0).sum()),
                "runs out of time": out + counts["out of time"][name],
                "refused": counts["refused"][name],
                "failed": counts["failed"][name],
                "not run": counts["not run"][name],
                "refuted bounds": int(runs["refuted"].sum()),
                "PAR-2": float(self.par(2.0)[name]),
                "PAR-10": float(self.par(10.0)[name]),
                "seconds to proof, common": profiles.shifted_geometric_mean(common[name], 0.1)
                if len(common)
                else np.nan,
                "CPU seconds, common": float(cpu[name].mean()) if len(cpu) else np.nan,
            }
            for limit in self.race.limits:
                gaps = self.race.on_common(self.gaps(limit))
                line[f"mean gap % at {limit:g} s, common"] = 100.0 * float(gaps[name].mean())
            lines[name] = line
        return pd.DataFrame(lines).T.rename_axis("solver").reset_index()

    def table(self) -> pd.DataFrame:
        """One line per problem: the reference, whether it is proved, and seconds or the gap of every solver, or why it
        has none: refused, failed, out of time, not run.
        """
        gaps, seconds, share = self.gaps(self.race.horizon), self.seconds(), self.all_seeds()
        missing = self.race.missing()
        lines = []
        for problem in self.race.problems:
            line: dict[str, Any] = {
                "dataset": problem[0],
                "depth": int(problem[1]),
                "reference": f"{self.reference[problem]:.6g}",
                "is": "proved" if self.race.proved[problem] else "best known",
            }
            for name in self.bounding:
                runs = self.rows[(self.rows["problem"] == problem) & (self.rows["method"] == name)]
                if runs.empty:
                    line[name] = missing.get((problem, name), "not run")
                    continue
                text = f"gap {100.0 * gaps.loc[problem, name]:.3g} %"
                if np.isfinite(seconds.loc[problem, name]):
                    text = f"{seconds.loc[problem, name]:.3g} s"
                if 0.0 < share.loc[problem, name] < 1.0:
                    text += f" ({round(share.loc[problem, name] * len(runs))} of {len(runs)} seeds proved)"
                if runs["refuted"].any():
                    text = "refuted"
                nodes = runs["nodes"].median() if "nodes" in runs else np.nan
                line[name] = text + (f", {nodes:.3g} nodes" if np.isfinite(nodes) else "")
            lines.append(line)
        return pd.DataFrame(lines)

    def distances(self) -> pd.DataFrame:
        """One line per solver and depth: how far its trees are above the proved optimum, or the bound, in training; and
        how its test score compares with that of the best tree. Means are over the problems that every solver of the
        depth ran.
        """
        known = dict(zip(self.race.problems, self.race.proved, strict=True))
        rows = self.rows.assign(
            reference=self.rows["best"],
            bound_of=self.rows["problem"].map(dict(zip(self.race.problems, self.bound, strict=True))),
            known=self.rows["problem"].map(known),
        )
        rows["score"] = np.nan  # where nothing is held out
        for score in ("test_r2", "test_accuracy"):
            rows["score"] = rows["score"].fillna(rows[score]) if score in rows else rows["score"]
        first = rows.sort_values("objective").groupby("problem")["score"].first()
        rows["ahead"] = 100.0 * (rows["score"] - rows["problem"].map(first))
        above = (rows["objective"] - rows["reference"]) / rows["objective"].abs().clip(lower=1e-12)
        rows["above"] = (100.0 * above.clip(lower=0.0)).round(DIGITS)
        at_most = (rows["objective"] - rows["bound_of"]) / rows["objective"].abs().clip(lower=1e-12)
        rows["at_most"] = (100.0 * at_most.clip(lower=0.0, upper=1.0)).round(DIGITS)
        lines = []
        for depth in sorted(rows["depth"].unique()):
            there = rows[rows["depth"] == depth]
            ran = there.groupby("problem")["method"].nunique()
            common = set(ran.index[ran == there["method"].nunique()])
            for name in self.race.solvers:
                runs = there[there["method"] == name]
                exact = runs[runs["known"]]
                if runs.empty:
                    continue
                shared = runs[runs["problem"].isin(common)]
                lines.append(
                    {
                        "depth": int(depth),
                        "solver": name,
                        "problems": runs["problem"].nunique(),
                        "with a proved optimum": exact["problem"].nunique(),
                        "runs at the optimum": int((exact["above"] <= 100.0 * BEST).sum()),
                        "problems that all ran": len(common),
                        "mean % above it": shared.loc[shared["known"], "above"].mean(),
                        "worst % above it": shared.loc[shared["known"], "above"].max(),
                        "at most % above": shared["at_most"].mean(),
                        SCORE: shared["ahead"].mean(),
                    }
                )
        table = pd.DataFrame(lines)
        return table if rows["score"].notna().any() else table.drop(columns=SCORE)
