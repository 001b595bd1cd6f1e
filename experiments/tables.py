"""Tables of a protocol's rows: ours beside the paper's, and their forms as Markdown, CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from experiments.methods import METHODS
from experiments.protocol import FOLDER, MEAN, Protocol
from experiments.reading import read
from solvers.races import statistics

ROLES = {
    "printed": "paper's method, ours",
    "reduced": "paper's method, reduced",
    "library": "library's, here",
    "default": "opttree's default",
    "variant": "variant",
}
PLACE = ["depth", "dataset"]


def measured(protocol: Protocol, rows: pd.DataFrame) -> pd.DataFrame:
    """The newest successful row of each run under the budget, of any code version, and of methods that are the best of
    others.
    """
    rows = protocol.measured(rows)
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
    the paper's, of the published method that it ``stands_for``. Means over data sets are lines of the data set "mean",
    or of the protocol's groups: ours over the data sets that every method with rows has, at the depth, with the half of
    the 95 % confidence interval over seeds as the deviation; the paper's as printed, or over the same data
    sets.
    """
    paper = published(protocol)
    rows = pd.concat([rows, derived(protocol, rows)], ignore_index=True)
    lines = []
    for metric in protocol.metrics:
        if metric in rows:
            known = rows.dropna(subset=[metric])
            table = known.groupby(["dataset", "depth", "method"], dropna=False, sort=False)[metric]
            means = table.agg(ours="mean", deviation="std", runs="count").reset_index().assign(metric=metric)
            lines.append(pd.concat([means, *_means(protocol, means, known)], ignore_index=True))
    ours = (
        pd.concat(lines, ignore_index=True) if lines else pd.DataFrame(columns=["dataset", "depth", "method", "metric"])
    )
    ours["published"] = ours["method"].map(protocol.stands_for)
    ours["role"] = ours["method"].map(lambda label: role(protocol, label))
    theirs = paper[paper["metric"].isin(protocol.metrics)].rename(
        columns={"value": "paper", "deviation": "paper_deviation", "method": "published"}
    )
    if protocol.depths:
        theirs = theirs[theirs["depth"].isna() | theirs["depth"].isin(protocol.depths)]
    single = theirs[theirs["dataset"].isin([name for name in protocol.datasets if name not in protocol.means])]
    theirs = pd.concat([single, _paper_means(protocol, theirs, ours)], ignore_index=True)
    both = ours.merge(theirs, how="outer", on=["dataset", "depth", "published", "metric"], sort=False)
    both["method"] = both["method"].fillna(both["published"])
    if protocol.summary:
        both = both[both["dataset"].isin(list(protocol.means))]
    order = {name: i for i, name in enumerate([*protocol.datasets, *protocol.means])}
    both["place"] = both["dataset"].map(order)
    metrics = {name: i for i, name in enumerate(protocol.metrics)}
    both["line"] = both["metric"].map(metrics)
    both = both.sort_values(["line", "depth", "place"], kind="stable", na_position="first")
    columns = ["metric", "depth", "dataset", "method", "published", "role", "ours", "deviation", "runs"]
    return both.reindex(columns=[*columns, "paper", "paper_deviation"]).reset_index(drop=True)


def role(protocol: Protocol, label: str) -> str:
    """What a method is: "printed", the paper's method by ours; "reduced", the same with options of a budget; "library",
    another library's; "default", ours; or "variant", which stands for a published one but is neither.
    """
    method, stands_for = protocol.methods[label], protocol.stands_for(label)
    if method.peers:
        return role(protocol, method.peers[0])
    if method.use in METHODS or "external." in method.use:
        return "library"
    swept = any(f", {option}=" in label for option in protocol.sweeps)
    if method.is_printed and (label == stands_for or swept):
        return "reduced" if method.reduced else "printed"
    return "default" if label in (stands_for, f"{stands_for}, default") and not method.is_printed else "variant"


def derived(protocol: Protocol, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of metrics that compare methods: by how much R2 and seconds are better than those of ``improvement`` (SRT,
    Table 3), and t and p of paired tests over data sets (GET, Figures 2 and 3).
    """
    found = []
    if protocol.improvement and "test_r2" in rows:
        keys = ["dataset", "depth", "method"]
        means = rows.groupby(keys, dropna=False)[["test_r2", "fit_seconds"]].mean().reset_index()
        base = means[means["method"] == protocol.improvement].drop(columns="method")
        both = means[means["method"] != protocol.improvement].merge(
            base, on=["dataset", "depth"], suffixes=("", "_base")
        )
        both["test_r2_improvement"] = both["test_r2"] / both["test_r2_base"] - 1.0
        both["seconds_reduction"] = 1.0 - both["fit_seconds"] / both["fit_seconds_base"]
        found += both[[*keys, "test_r2_improvement", "seconds_reduction"]].to_dict("records")
    if "paired_t_p" in protocol.metrics and protocol.metrics[0] in rows:
        wide = complete(rows.pivot_table(index="dataset", columns="method", values=protocol.metrics[0], aggfunc="mean"))
        if len(wide) > 1 and protocol.baseline in wide:
            for method, row in statistics.paired(wide, protocol.baseline).iterrows():
                own: dict[Any, Any] = {"paired_t": row["t"], "paired_t_p": row["p (t)"]}
                found.append({"dataset": MEAN, "depth": np.nan, "method": method, **own})
    return pd.DataFrame(found)


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


def _means(protocol: Protocol, means: pd.DataFrame, rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Means over the data sets of each group that all methods of a depth have; methods without a depth belong to every
    depth.
    """
    out = []
    metric = means["metric"].iloc[0]
    means, rows = at_every_depth(means), at_every_depth(rows)
    for name, sets in protocol.means.items():
        for depth in means["depth"].unique():
            part = means[_same(means["depth"], depth) & means["dataset"].isin(sets)]
            wide = complete(part.pivot(index="dataset", columns="method", values="ours"))
            if len(wide) < 2:
                continue
            line = wide.mean().rename("ours").reset_index()
            own = rows[_same(rows["depth"], depth) & rows["dataset"].isin(wide.index)]
            halves = {method: half_interval(each, metric, len(wide)) for method, each in own.groupby("method")}
            line["deviation"] = line["method"].map(halves)
            out.append(line.assign(dataset=name, depth=depth, runs=len(wide), metric=metric))
    return out


def half_interval(rows: pd.DataFrame, metric: str, n_sets: int) -> float:
    """Half of the 95 % confidence interval of a mean over data sets, by its values for each seed.

    Splits of a seed share rows, and are averaged first.
    """
    table = rows.pivot_table(index="seed", columns="dataset", values=metric, aggfunc="mean").dropna()
    values = table.mean(axis=1)
    if table.shape[1] != n_sets or len(values) < 2:
        return np.nan
    return float(stats.t.ppf(0.975, len(values) - 1) * values.std() / np.sqrt(len(values)))


def _paper_means(protocol: Protocol, theirs: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """The paper's means over the data sets of our means, a line for each metric, method, depth and group.

    The mean that it prints, if that is over these sets; else of its numbers for them, if it prints all of these.
    """
    out: list[Any] = []
    whole = full_means(protocol)
    ours = ours[ours["dataset"].isin(protocol.datasets)]
    measured = {str(metric): at_every_depth(part) for metric, part in ours.groupby("metric")}
    for (metric, method), part in theirs.groupby(["metric", "published"], sort=False):
        known = measured.get(str(metric), ours.iloc[:0])
        for depth in part["depth"].unique():
            here = part[_same(part["depth"], depth)]
            others = here[~here["dataset"].isin([*protocol.datasets, *protocol.means])]
            for name, members in protocol.means.items():
                mine = known[_same(known["depth"], depth) & known["dataset"].isin(members)]
                sets = complete(mine.pivot(index="dataset", columns="method", values="ours")).index
                printed, common = here[here["dataset"] == name], here[here["dataset"].isin(sets)]
                alike = len(members) == len(whole[name]) and (mine.empty or len(sets) == len(members))
                alike &= name != MEAN or others.empty  # it prints sets that are not ours
                if len(printed) and alike:
                    out.append(printed.iloc[0].to_dict())
                elif len(common) == len(sets) > 1:
                    line = {"dataset": name, "depth": depth, "published": method, "metric": metric}
                    out.append({**line, "paper": common["paper"].mean()})
    return pd.DataFrame(out, columns=theirs.columns)


def full_means(protocol: Protocol) -> dict[str, Sequence[str]]:
    """The data sets of each mean under the full budget."""
    if protocol.budget == "full":
        return protocol.means
    whole = read(protocol.name).means
    return {name: whole.get(name, sets) for name, sets in protocol.means.items()}


def _same(column: pd.Series, value: float) -> pd.Series:
    return column.isna() if pd.isna(value) else column == value


def beside(protocol: Protocol, lines: pd.DataFrame, metric: str, *, ours_alone: bool | None = None) -> pd.DataFrame:
    """A table to read: a row per data set (and depth), as text; for each published method a column of the paper's
    numbers, then one for each of ours that stands for it, named by what it is.

    Methods without a depth stand at every depth. Without any number of a paper, or with ``ours_alone``, columns are
    the methods alone.
    """
    part = at_every_depth(lines[lines["metric"] == metric])
    depths = part["depth"].dropna().unique()
    part = part.assign(depth=part["depth"].fillna(0))
    part = part.drop_duplicates([*PLACE, "method"])  # a paper's number at a depth wins over one without
    order = {name: i for i, name in enumerate([*protocol.datasets, *protocol.means])}
    keys = sorted(
        {(d, s) for d, s in zip(part["depth"], part["dataset"], strict=True)}, key=lambda k: (k[0], order[k[1]])
    )
    ours_alone = bool(part["paper"].isna().all()) if ours_alone is None else ours_alone
    methods = [*protocol.methods, *part["method"][~part["method"].isin(list(protocol.methods))].unique()]
    named = dict.fromkeys(map(protocol.stands_for, methods))
    columns: dict[str, list[str]] = {}
    for published in named:
        mine = [label for label in methods if protocol.stands_for(label) == published]
        if not ours_alone:
            own = part[part["published"] == published].drop_duplicates(PLACE)
            columns[f"{published}, paper (printed)"] = _cells(own, keys, metric, "paper", "paper_deviation")
        for label in mine:
            head = label if ours_alone else heading(protocol, label)
            columns[head] = _cells(part[part["method"] == label], keys, metric, "ours", "deviation")
    columns = {head: texts for head, texts in columns.items() if any(texts)}
    counts = {name: part["runs"][part["dataset"] == name].dropna().unique() for name in protocol.means}
    of = {name: f"{name} of {int(some[0])}" if len(some) == 1 else name for name, some in counts.items()}
    table = pd.DataFrame(columns, index=range(len(keys)))
    table.insert(0, "data set", [of.get(s, s) for _d, s in keys])
    if len(depths) > 1:
        table.insert(0, "depth", [f"{d:g}" for d, _s in keys])
    return table


def heading(protocol: Protocol, label: str) -> str:
    """The head of a method's column: the published label with what ours is, or its own label where that differs."""
    if label not in protocol.methods:
        return label
    published, what = protocol.stands_for(label), ROLES[role(protocol, label)]
    return f"{published if label in (published, f'{published}, default') else label}, {what}"


def _cells(lines: pd.DataFrame, keys: list[tuple[float, str]], metric: str, value: str, spread: str) -> list[str]:
    found = {(row.depth, row.dataset): row for row in lines.itertuples()}
    rows = [found.get(key) for key in keys]
    return [_cell(metric, getattr(row, value), getattr(row, spread)) if row else "" for row in rows]


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
