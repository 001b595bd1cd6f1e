"""What of the papers is reproduced where: every table and figure, its protocol, its state, its means."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from experiments import ranks, reading
from experiments.protocol import FOLDER, MEAN
from experiments.ruler import relative
from experiments.tables import number

ROLES = {"printed": ("printed", "reduced"), "default": ("default",)}  # of our methods, in the order of the columns
IN_UNITS = ("rmse", "mse")  # ends of names of metrics in units of the target
NOT_RUN = "not run"


class Item(NamedTuple):
    """A table or figure of a paper: the protocol that regenerates it, or why there is none."""

    paper: str
    name: str
    protocol: str
    reason: str


def coverage() -> list[Item]:
    """Every numbered table and figure of the five papers, as `coverage.toml` states them."""
    with (FOLDER / "coverage.toml").open("rb") as file:
        stated = tomllib.load(file)
    return [
        Item(paper, name, said if said in reading.names() else "", "" if said in reading.names() else said)
        for paper, items in stated.items()
        for name, said in items.items()
    ]


def reports(results: Path) -> dict[str, list[dict[str, Any]]]:
    """The committed reports of each protocol, those of the most runs first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(results.glob("*/about.json")):
        about = json.loads(path.read_text())
        found.setdefault(about["protocol"], []).append(about | {"folder": path.parent.name})
    return {name: sorted(those, key=lambda about: -about["runs"]) for name, those in found.items()}


def state(those: list[dict[str, Any]]) -> str:
    """In which budgets a protocol was run, and how much of each."""
    parts = []
    for about in those:
        share = "" if about["runs"] == about["wanted"] else f", {about['runs']} of {about['wanted']} runs"
        parts.append(f"{'run' if about['budget'] == 'full' else about['budget']}{share}")
    return "; ".join(parts) or NOT_RUN


def listing(results: Path) -> str:
    """The papers' tables and figures, then the other protocols, each with title, state and hours."""
    known, lines, named = reports(results), [], set()
    paper = ""
    for item in coverage():
        if item.paper != paper:
            paper = item.paper
            lines += ["", f"{paper}:"]
        if not item.protocol:
            lines.append(f"  {item.name:10s} {item.reason}")
            continue
        named.add(item.protocol)
        lines.append(f"  {item.name:10s} {_line(item.protocol, known)}")
    lines += ["", "Others:"]
    lines += [f"  {_line(name, known)}" for name in reading.names() if name not in named]
    return "\n".join(lines[1:])


def _line(name: str, known: dict[str, list[dict[str, Any]]]) -> str:
    stated = reading.read(name)
    size = len(list(stated.runs("")))
    hours = sum(about["hours"] for about in known.get(name, []))
    done = f"{state(known.get(name, []))}{f', {hours:.2f} h' if hours else ''}"
    return f"{name:22s} {stated.title} [{done}; {size} runs in full; budgets {', '.join(stated.budgets)}]"


def index(results: Path) -> str:
    """The text of `INDEX.md`."""
    known = reports(results)
    lines = [
        "# What of the papers is reproduced",
        "Written by `python -m experiments index` from the reports beside this file. Means over data sets of the first "
        "metric of each report, over as many of the protocol's sets as all its methods have: what the paper printed "
        "(over these sets, where it prints each), the paper's method as we run it, opttree's default; ± half of the "
        "95 % confidence interval over seeds, where several seeds have every set. Errors in units of the target stand "
        "set by set. In brackets, for protocols with a ruler: errors divided by those of the random forest on the "
        "same split (of R2, what is below one), geometric means; they depend less on how a table was split. "
        "*Short* names data sets where opttree's default is behind the paper, by that ruler where there is one, or "
        "the paper's method where there is no default; *reduced*: with options of a budget.",
        "## Tables and figures",
        "| paper | item | protocol | state | hours | report |",
        "|:--|:--|:--|:--|--:|:--|",
    ]
    for item in coverage():
        those = known.get(item.protocol, [])
        hours = f"{sum(about['hours'] for about in those):.2f}" if those else ""
        links = ", ".join(f"[{about['budget']}]({about['folder']}/report.md)" for about in those)
        what = state(those) if item.protocol else item.reason
        lines.append(f"| {item.paper} | {item.name} | {item.protocol} | {what} | {hours} | {links} |")
    lines += ["## Means", "| protocol | metric | depth | method | sets | printed | paper's method | default | short |"]
    lines.append("|:--|:--|--:|:--|--:|--:|--:|--:|:--|")
    for name in dict.fromkeys(item.protocol for item in coverage() if item.protocol):
        for about in known.get(name, [])[:1]:
            lines += _means(name, about["budget"], results / about["folder"] / "numbers.csv")
    joined = "\n".join(lines)
    for head in ("## ", "| paper |", "Written by", "| protocol |"):
        joined = joined.replace(f"\n{head}", f"\n\n{head}")
    return joined + "\n"


def _means(name: str, budget: str, path: Path) -> list[str]:
    """Lines of the table of means, one for each published method, depth and group that has any of ours."""
    if not path.exists():
        return []
    numbers = pd.read_csv(path)
    if numbers.empty or "role" not in numbers:
        return []
    metric = numbers["metric"].iloc[0]
    part = numbers[(numbers["metric"] == metric) & numbers["published"].notna()]
    found = []
    stated = reading.read(name, budget)
    groups = stated.means
    ruled = relative(part, stated.ruler) if stated.ruler else None
    if metric.endswith(IN_UNITS):  # each data set has its own unit, so that a mean over them says nothing
        groups = {name: [name] for name in reading.read(name, budget).datasets}
    for (depth, published), own in part.groupby(["depth", "published"], dropna=False, sort=False):
        for group, sets in groups.items():
            here = own[own["dataset"] == group]
            printed = here["paper"].dropna()
            ours = {role: here[here["role"].isin(roles) & here["ours"].notna()] for role, roles in ROLES.items()}
            if all(rows.empty for rows in ours.values()):
                continue
            cells = ["" if printed.empty else number(metric, printed.iloc[0])]
            cells += [_ours(rows, metric) for rows in ours.values()]
            mine = None if ruled is None else ruled[_alike(ruled, depth, published) & ruled["dataset"].isin(sets)]
            cells = cells if mine is None else [f"{cell}{one}" for cell, one in zip(cells, _ruled(mine), strict=True)]
            label = published if group == MEAN else f"{published}, {group}"
            at = "" if np.isnan(depth) else f"{depth:g}"
            over = (
                "" if group in sets else f"{here['runs'].max():.0f} of {len(reading.read(name).means.get(group, sets))}"
            )
            behind = own[own["dataset"].isin(sets)] if mine is None or mine["paper"].isna().all() else mine
            short = _short(behind, metric, lower=behind is mine or ranks.lower_is_better(metric))
            found.append(f"| {name} | {metric} | {at} | {label} | {over} | {' | '.join(cells)} | {short} |")
    return found


def _ours(rows: pd.DataFrame, metric: str) -> str:
    """The mean of a method, with its interval, and whether a budget has reduced it."""
    if rows.empty:
        return ""
    row = rows.iloc[0]
    half = "" if np.isnan(row["deviation"]) else f" ± {number(metric, row['deviation'])}"
    return f"{number(metric, row['ours'])}{half}{' (reduced)' if row['role'] == 'reduced' else ''}"


def _alike(lines: pd.DataFrame, depth: float, published: str) -> pd.Series:
    """Which lines are of a published method at a depth."""
    at = lines["depth"].isna() if np.isnan(depth) else lines["depth"] == depth
    return at & (lines["published"] == published)


def _ruled(lines: pd.DataFrame) -> list[str]:
    """The cells' relative errors: printed, by the paper's method, by default; geometric means over the sets that all
    have.
    """
    by = {"printed": lines.drop_duplicates("dataset").set_index("dataset")["paper"]}
    for role, roles in ROLES.items():
        rows = lines[lines["role"].isin(roles)].drop_duplicates("dataset")
        by[f"{role}, ours"] = rows.set_index("dataset")["ours"]
    table = pd.DataFrame({name: column for name, column in by.items() if column.notna().any()}).dropna()
    return [
        f" [{np.exp(np.log(table[name].clip(lower=1e-12)).mean()):.3f}]" if name in table and len(table) else ""
        for name in by
    ]


def _short(rows: pd.DataFrame, metric: str, *, lower: bool) -> str:
    """Data sets where our default, or the paper's method where there is no default, is behind the printed number."""
    rows = rows[rows["ours"].notna() & rows["paper"].notna()]
    for roles in reversed(ROLES.values()):
        own = rows[rows["role"].isin(roles)]
        if len(own):
            behind = own["ours"] > own["paper"] if lower else own["ours"] < own["paper"]
            return ", ".join(own["dataset"][behind])
    return ""
