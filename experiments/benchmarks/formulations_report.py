"""Tables and pictures of `experiments.benchmarks.formulations`, from the files that its parts wrote with --csv.

The folder holds ``roots.csv``, ``solved.csv``, ``limits.csv`` and ``squares.csv``; ``formulations.md``,
``solved.png`` and ``roots.png`` are written there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from experiments.benchmarks.common import script

FOLDER = "experiments/results/formulations"


def table(frame: pd.DataFrame) -> str:
    """A Markdown table."""
    shown = frame.map(
        lambda v: "" if isinstance(v, float) and np.isnan(v) else f"{v:.4g}" if isinstance(v, float) else str(v)
    )
    lines = [f"| {' | '.join(map(str, shown.columns))} |", "|---" * shown.shape[1] + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in shown.to_numpy())])


def counts(frame: pd.DataFrame) -> pd.DataFrame:
    """For each method and seed: what it proved, of those that it takes, and the median seconds of the proofs."""
    rows = []
    for solver, part in frame.groupby("solver", sort=False):
        row: dict[str, Any] = {"method": solver}
        for seed, own in part.groupby("seed"):
            proved = own[own["proved"]]
            row |= {
                f"proved, seed {seed}": f"{len(proved)} of {len(own)}",
                f"s, seed {seed}": float(proved["s"].median()),
            }
        rows.append(row)
    return pd.DataFrame(rows)


def picture_of_solved(frame: pd.DataFrame, file: Path) -> None:
    """How many cases each method has proved after some seconds, and how many have at most some gap at the end."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5.0), sharey=True, layout="constrained")
    cases = frame.groupby(["data", "depth", "seed"]).ngroups
    best = frame.groupby(["data", "depth"])["objective"].transform("min")
    frame = frame.assign(gap=np.where(frame["proved"], 0.0, 1.0 - frame["at least"] / np.maximum(best, 1e-12)))
    for number, (solver, part) in enumerate(frame.groupby("solver", sort=False)):
        seconds = np.sort(part.loc[part["proved"], "s"].to_numpy())
        dashed = "--" if "subtree rows" in str(solver) else "-"
        colour = plt.get_cmap("tab20")(number % 20)
        style: dict[str, Any] = {"label": solver, "color": colour, "linestyle": dashed, "where": "post"}
        left.step(
            np.append(seconds, frame["s"].max()), np.append(np.arange(1, len(seconds) + 1), len(seconds)), **style
        )
        gaps = np.sort(part["gap"].to_numpy())
        right.step(100.0 * np.append(gaps, 1.0), np.append(np.arange(1, len(gaps) + 1), len(gaps)), **style)
    left.set(xscale="log", xlabel="seconds", ylabel=f"cases, of {cases}", title="proved")
    right.set(xlabel="gap at the end, %", title="left open by at most this")
    figure.legend(*left.get_legend_handles_labels(), fontsize=8, ncols=4, loc="outside lower center")
    figure.savefig(file, dpi=130)
    plt.close(figure)


def picture_of_roots(frame: pd.DataFrame, file: Path) -> None:
    """The values of the linear programs at depth 2 in shares of the optimum."""
    shown = frame[(frame["depth"] == 2) & (frame["optimum"] > 0)]
    kinds = ["big-m", "flow", "paths, no cover", "paths, cover"]
    figure, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
    for number, kind in enumerate(kinds):
        places = np.arange(len(shown)) + 0.2 * (number - 1.5)
        axes.bar(places, 100.0 * shown[kind] / shown["optimum"], width=0.19, label=kind)
    axes.set_xticks(np.arange(len(shown)), shown["data"], rotation=30, ha="right")
    axes.set(ylabel="value of the linear\nprogram, % of the optimum", title="depth 2")
    axes.legend(ncols=4, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.35))
    figure.savefig(file, dpi=130)
    plt.close(figure)


@script
def main(folder: Annotated[str, "where the files are"] = FOLDER) -> None:
    home = Path(folder)
    roots, solved, limits, squares = (
        pd.read_csv(home / f"{name}.csv") for name in ("roots", "solved", "limits", "squares")
    )
    values = [c for c in ("big-m", "flow", "paths, no cover", "paths, cover") if c in roots]
    roots[values] = roots[values].mask(roots[values].abs() <= 1e-9, 0.0)
    picture_of_solved(solved, home / "solved.png")
    picture_of_roots(roots, home / "roots.png")
    parity = squares[squares["solver"].notna()] if "solver" in squares else squares[:0]
    plain = squares[squares["optimum"].notna()].dropna(axis=1, how="all")
    words = (home / "words.md").read_text(encoding="utf-8") if (home / "words.md").is_file() else ""
    sections = [
        "# Programs and decompositions on one statement",
        words,
        "## Values of linear programs, in errors",
        "![](roots.png)",
        table(roots),
        "Squared loss (y standardised, 0/1 columns, depth 2):",
        table(plain),
        "## What is proved in a time",
        "![](solved.png)",
        table(counts(solved)),
        "## Under side constraints",
        table(counts(limits)),
        table(limits.drop(columns=["seed", "ended"])),
        "## Parity under squared loss, one second",
        table(parity.dropna(axis=1, how="all").drop(columns=["ended"], errors="ignore")),
    ]
    (home / "formulations.md").write_text("\n\n".join(part for part in sections if part) + "\n", encoding="utf-8")
