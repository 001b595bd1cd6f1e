"""What the rows and traces of a solve protocol say of proofs: who has proved what, when, and how far others are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from experiments import profiles
from experiments.race import BEST, PROBLEM, PROOF, Race

DIGITS = 6  # of percentages


class Proofs:
    """The proofs and bounds in the rows and traces of a `Race`.

    ``reference``: the proved optimum of each problem, or the lowest objective where nobody has proved one; ``bound``:
    the highest bound of a solver that is over all thresholds, or of a proof that nothing refutes. A proof is refuted by
    a tree that is better.
    """

    def __init__(self, race: Race) -> None:
        self.race = race
        rows = race.rows.copy()
        rows["bound"] = rows.get("bound", np.nan)  # not there where no solver has given one
        rows["termination"] = rows.get("termination", "")
        rows["problem"] = [tuple(row[name] for name in PROBLEM) for row in rows.to_dict("records")]
        best = rows.groupby("problem")["objective"].min()
        rows["best"] = rows["problem"].map(best)
        said = rows["termination"] == PROOF
        rows["refuted"] = said & (rows["objective"] > rows["best"] + BEST * rows["best"].abs())
        rows["proved"] = said & ~rows["refuted"]
        self.rows = rows
        self.reference = best
        valid = rows[rows["bound"].notna() & ~rows["refuted"]]
        self.bound = valid.groupby("problem")["bound"].max().reindex(best.index).fillna(0.0)
        self.proved = rows.groupby("problem")["proved"].any()

    @property
    def bounding(self) -> list[str]:
        """The solvers that give bounds."""
        given = set(self.rows.loc[self.rows["bound"].notna(), "method"])
        return [name for name in self.race.solvers if name in given]

    def seconds(self) -> pd.DataFrame:
        """Problems x solvers that give bounds: seconds to the proof; infinite where there is none, or a wrong one."""
        cost = self.rows["fit_seconds"].where(self.rows["proved"], np.inf).clip(lower=1e-3)
        table = self.rows.assign(cost=cost).pivot(index="problem", columns="method", values="cost")
        return table[self.bounding].fillna(np.inf)

    def gaps(self, limit: float) -> pd.DataFrame:
        """Problems x solvers that give bounds: each one's own relative gap at ``limit`` seconds; 1 without a bound."""
        columns: dict[str, dict[object, float]] = {}
        for (problem, method), trace in self.race.traces():
            if method not in self.bounding:
                continue
            inside = trace[trace["seconds"] <= limit]
            best, bound = inside["best"].min(), inside["bound"].max()
            known = len(inside) and np.isfinite(bound)
            gap = max(best - bound, 0.0) / max(abs(best), 1e-12) if known else 1.0
            columns.setdefault(method, {})[problem] = gap
        return pd.DataFrame(columns).reindex(columns=self.bounding)

    def summary(self) -> pd.DataFrame:
        """One line per solver that gives bounds: problems, proofs, refuted proofs, seconds and gaps."""
        cost = self.seconds()
        lines = {}
        for name in self.bounding:
            own = self.rows[self.rows["method"] == name]
            seconds = cost[name].reindex(list(own["problem"])).clip(upper=self.race.horizon)
            line: dict[str, float] = {
                "problems": len(own),
                "proved": int(own["proved"].sum()),
                "refuted proofs": int(own["refuted"].sum()),
                "seconds to proof": profiles.shifted_geometric_mean(seconds, 0.1),
            }
            for limit in self.race.limits:
                gaps = self.gaps(limit)
                line[f"mean gap % at {limit:g} s"] = 100.0 * float(gaps[name].mean())
            lines[name] = line
        return pd.DataFrame(lines).T.rename_axis("solver").reset_index()

    def table(self) -> pd.DataFrame:
        """One line per problem: the reference, whether it is proved, and seconds or the gap of every solver."""
        gaps = self.gaps(self.race.horizon)
        lines = []
        for problem in self.reference.index:
            line: dict[str, Any] = {
                "dataset": problem[0],
                "depth": int(problem[1]),
                "best": f"{self.reference[problem]:.6g}",
            }
            for name in self.bounding:
                text = ""
                own = self.rows[(self.rows["problem"] == problem) & (self.rows["method"] == name)]
                if len(own):
                    row = own.iloc[0]
                    gap = 100.0 * gaps[name].get(problem, 1.0)
                    text = f"{row['fit_seconds']:.3g} s" if row["proved"] else f"gap {gap:.3g} %"
                    text = "refuted" if row["refuted"] else text
                    text += f", {row['nodes']:.3g} nodes" if np.isfinite(row.get("nodes", np.nan)) else ""
                line[name] = text
            lines.append(line)
        return pd.DataFrame(lines)

    def distances(self) -> pd.DataFrame:
        """One line per solver and depth: how far its trees are above the proved optimum, or the bound, in training; and
        how its test score compares with that of the best tree.
        """
        rows = self.rows.assign(
            reference=self.rows["problem"].map(self.reference),
            bound_of=self.rows["problem"].map(self.bound),
            known=self.rows["problem"].map(self.proved),
        )
        score = "test_r2" if "test_r2" in rows else "test_accuracy"
        if {"test_r2", "test_accuracy"} <= set(rows):
            rows["score"] = rows["test_r2"].fillna(rows["test_accuracy"])
        else:
            rows["score"] = rows[score]
        first = rows.sort_values("objective").groupby("problem")["score"].first()
        rows["ahead"] = 100.0 * (rows["score"] - rows["problem"].map(first))
        above = (rows["objective"] - rows["reference"]) / rows["objective"].abs().clip(lower=1e-12)
        rows["above"] = (100.0 * above.clip(lower=0.0)).round(DIGITS)
        at_most = (rows["objective"] - rows["bound_of"]) / rows["objective"].abs().clip(lower=1e-12)
        rows["at_most"] = (100.0 * at_most.clip(lower=0.0)).round(DIGITS)
        lines = []
        for depth in sorted(rows["depth"].unique()):
            for name in self.race.solvers:
                own = rows[(rows["depth"] == depth) & (rows["method"] == name)]
                exact = own[own["known"]]
                if own.empty:
                    continue
                lines.append(
                    {
                        "depth": int(depth),
                        "solver": name,
                        "problems": len(own),
                        "with a proved optimum": len(exact),
                        "optimal": int((exact["above"] <= 100.0 * BEST).sum()),
                        "mean % above it": exact["above"].mean(),
                        "worst % above it": exact["above"].max(),
                        "at most % above, all problems": own["at_most"].mean(),
                        "test score less the best tree's, points": own["ahead"].mean(),
                    }
                )
        return pd.DataFrame(lines)
