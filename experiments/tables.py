"""Tables of a protocol's rows: ours beside the paper's, and their forms as Markdown, CSV and LaTeX."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.protocol import FOLDER, Protocol

MEAN = "mean"
PLACE = ["depth", "dataset"]


def measured(protocol: Protocol, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that the protocol reports: of its runs under its budget, those that ended well, the newest of each
    whatever the version of its code. Methods that are the best of others are added.
    """
    wanted = {one.run_id for one in protocol.runs("")}
    rows = rows[(rows["status"] == "ok") & rows["run_id"].isin(wanted)]
    rows = rows.sort_values("finished").drop_duplicates("run_id", keep="last")
    best = []
    for label, method in protocol.methods.items():
        theirs = rows[rows["method"].isin(method.peers)]
        if len(theirs):
            chosen = _best_start(theirs) if isinstance(method.best_of, str) else _best_peer(theirs, len(method.peers))
            best.append(chosen.assign(method=label))
    return pd.concat([rows, *best], ignore_index=True)


def _best_start(starts: pd.DataFrame) -> pd.DataFrame:
    """Of the seeds of a method, the one that is best in training, per split."""
    score = "train_f1" if "train_f1" in starts else "train_r2"
    return starts.loc[starts.groupby(["dataset", "depth", "split"], dropna=False)[score].idxmax()]


def _best_peer(rows: pd.DataFrame, count: int) -> pd.DataFrame:
    """Of ``count`` methods, the one with the lowest validation loss, per seed and split for which all have one."""
    if "validation_loss" not in rows:
        return rows.head(0)
    where = ["dataset", "depth", "seed", "split"]
    rows = rows[rows.groupby(where, dropna=False)["validation_loss"].transform("count") == count]
    return rows.loc[rows.groupby(where, dropna=False)["validation_loss"].idxmin()]


def published(protocol: Protocol) -> pd.DataFrame:
    """The paper's numbers: columns dataset, depth, method, metric, value, deviation; empty where it has none."""
    path = FOLDER / "published" / f"{protocol.published}.csv"
    if not protocol.published or not path.exists():
        return pd.DataFrame(columns=["dataset", "depth", "method", "metric", "value", "deviation"])
    return pd.read_csv(path)


def long(protocol: Protocol, rows: pd.DataFrame) -> pd.DataFrame:
    """One line per data set, depth, method and metric: ours (mean over seeds and splits, its deviation, how many) and
    the paper's. Means over data sets are lines of the data set "mean": ours over the data sets that every method with
    rows has, at the depth; the paper's as printed, or over the same data sets.
    """
    paper = published(protocol)
    lines = []
    for metric in protocol.metrics:
        if metric in rows:
            table = rows.dropna(subset=[metric]).groupby(["dataset", "depth", "method"], dropna=False, sort=False)[
                metric
            ]
            means = table.agg(ours="mean", deviation="std", runs="count").reset_index().assign(metric=metric)
            lines.append(pd.concat([means, _means(means)], ignore_index=True))
    ours = (
        pd.concat(lines, ignore_index=True) if lines else pd.DataFrame(columns=["dataset", "depth", "method", "metric"])
    )
    theirs = paper[paper["metric"].isin(protocol.metrics)].rename(
        columns={"value": "paper", "deviation": "paper_deviation"}
    )
    theirs = theirs[theirs["dataset"].isin([*protocol.datasets, MEAN])]
    if protocol.depths:
        theirs = theirs[theirs["depth"].isna() | theirs["depth"].isin(protocol.depths)]
    theirs = pd.concat([theirs, _paper_means(theirs, ours)], ignore_index=True)
    both = ours.merge(theirs, how="outer", on=["dataset", "depth", "method", "metric"], sort=False)
    if protocol.summary:
        both = both[both["dataset"] == MEAN]
    order = {name: i for i, name in enumerate([*protocol.datasets, MEAN])}
    both["place"] = both["dataset"].map(order)
    metrics = {name: i for i, name in enumerate(protocol.metrics)}
    both["line"] = both["metric"].map(metrics)
    both = both.sort_values(["line", "depth", "place"], kind="stable", na_position="first")
    columns = ["metric", "depth", "dataset", "method", "ours", "deviation", "runs", "paper", "paper_deviation"]
    return both.reindex(columns=columns).reset_index(drop=True)


def at_every_depth(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of methods without a depth at each depth that others have; as they are, where there is none."""
    depths = sorted(frame["depth"].dropna().unique())
    if not depths:
        return frame
    fixed = frame[frame["depth"].isna()]
    return pd.concat([frame[frame["depth"].notna()], *(fixed.assign(depth=depth) for depth in depths)])


def complete(values: pd.DataFrame) -> pd.DataFrame:
    """Data sets x methods without gaps: the data sets that every method has."""
    return values.dropna(axis=0, how="any")


def _means(means: pd.DataFrame) -> pd.DataFrame:
    """Means over the data sets that all methods of a depth have; methods without a depth belong to every depth."""
    out = []
    means = at_every_depth(means)
    for depth in means["depth"].unique():
        part = means[_same(means["depth"], depth)]
        wide = complete(part.pivot(index="dataset", columns="method", values="ours"))
        if len(wide) > 1:
            line = wide.mean().rename("ours").reset_index()
            out.append(line.assign(dataset=MEAN, depth=depth, runs=len(wide), metric=means["metric"].iloc[0]))
    return pd.concat(out, ignore_index=True) if out else means.head(0)


def _paper_means(theirs: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """The paper's means over the data sets of our means, for methods whose means it does not print."""
    out = []
    for (metric, method), part in theirs.groupby(["metric", "method"], sort=False):
        for depth in part["depth"].unique():
            here = part[_same(part["depth"], depth)]
            if (here["dataset"] == MEAN).any():
                continue
            mine = ours[(ours["metric"] == metric) & _same(ours["depth"], depth) & (ours["dataset"] != MEAN)]
            sets = complete(mine.pivot(index="dataset", columns="method", values="ours")).index
            common = here[here["dataset"].isin(sets)]
            if len(common) == len(sets) > 1:
                line = {"dataset": MEAN, "depth": depth, "method": method, "metric": metric}
                out.append({**line, "paper": common["paper"].mean()})
    return pd.DataFrame(out, columns=theirs.columns)


def _same(column: pd.Series, value: float) -> pd.Series:
    return column.isna() if pd.isna(value) else column == value


def beside(protocol: Protocol, lines: pd.DataFrame, metric: str, *, ours_alone: bool | None = None) -> pd.DataFrame:
    """A table to read: a row per data set (and depth), two columns per method: ours and the paper's, as text.

    Methods without a depth stand at every depth. Without any number of a paper, or with ``ours_alone``, columns are
    the methods alone.
    """
    part = at_every_depth(lines[lines["metric"] == metric])
    depths = part["depth"].dropna().unique()
    part = part.assign(depth=part["depth"].fillna(0))
    part = part.drop_duplicates([*PLACE, "method"])  # a paper's number at a depth wins over one without
    order = {name: i for i, name in enumerate([*protocol.datasets, MEAN])}
    keys = sorted(
        {(d, s) for d, s in zip(part["depth"], part["dataset"], strict=True)}, key=lambda k: (k[0], order[k[1]])
    )
    cells = {(row.depth, row.dataset, row.method): row for row in part.itertuples()}
    methods = [*protocol.methods, *part["method"][~part["method"].isin(list(protocol.methods))].unique()]
    ours_alone = bool(part["paper"].isna().all()) if ours_alone is None else ours_alone
    columns = {}
    for method in methods:
        found = [cells.get((*key, method)) for key in keys]
        for source, value, spread in (("ours", "ours", "deviation"), ("paper", "paper", "paper_deviation")):
            texts = [_cell(metric, getattr(row, value), getattr(row, spread)) if row else "" for row in found]
            if any(texts):
                columns[method if ours_alone else f"{method}, {source}"] = texts
    counts = part["runs"][part["dataset"] == MEAN].dropna().unique()
    mean = f"{MEAN} of {int(counts[0])}" if len(counts) == 1 else MEAN
    table = pd.DataFrame(columns, index=range(len(keys)))
    table.insert(0, "data set", [mean if s == MEAN else s for _d, s in keys])
    if len(depths) > 1:
        table.insert(0, "depth", [f"{d:g}" for d, _s in keys])
    return table


def _cell(metric: str, value: float, deviation: float) -> str:
    if pd.isna(value):
        return ""
    text = number(metric, value)
    return text if pd.isna(deviation) else f"{text} ± {number(metric, deviation)}"


def number(metric: str, value: float) -> str:
    """A number of a metric with the digits that it is read with."""
    if not np.isfinite(value):
        return str(value)
    if metric.endswith(("r2", "f1", "accuracy")):
        return f"{value:.3f}" if abs(value) < 1e3 else f"{value:.2g}"
    if metric.startswith("n_"):
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}".replace(",", " ")


def pretty(table: pd.DataFrame) -> pd.DataFrame:
    """A table of numbers as text: three significant digits, p-values under .001 as such."""

    def text(value: object) -> str:
        if isinstance(value, (bool, str)) or value is None:
            return "" if value is None else str(value)
        if isinstance(value, (int, np.integer)):
            return str(value)
        number = float(value)  # type: ignore[arg-type]
        return "" if math.isnan(number) else f"{number:.3g}" if abs(number) < 1e5 else f"{number:.3e}"

    return table.map(text)


def save(table: pd.DataFrame, stem: Path, caption: str) -> list[Path]:
    """``stem.csv`` and ``stem.tex`` of a table whose cells are text."""
    csv, tex = stem.with_suffix(".csv"), stem.with_suffix(".tex")
    table.to_csv(csv, index=False)
    escaped = table.map(_tex).rename(columns=_tex)
    escaped.to_latex(
        tex, index=False, caption=_tex(caption), position="t", column_format="l" + "r" * (table.shape[1] - 1)
    )
    return [csv, tex]


TEX = {
    **{sign: f"\\{sign}" for sign in "_%&#{}$"},
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"$<$",
    ">": r"$>$",
    "±": r"$\pm$",
    "≤": r"$\leq$",
}


def _tex(text: object) -> str:
    return "".join(TEX.get(sign, sign) for sign in str(text))
