"""Figures of protocols' reports: ranks, swept options, our values against the published ones."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from experiments import ranks
from experiments.protocol import MEAN, Protocol
from solvers.races import figures


def critical_difference(table: pd.DataFrame, *, lower: bool, title: str = "") -> Figure:
    """Demšar's diagram: average ranks; methods that Nemenyi's test does not tell apart at 5 % are joined by a bar."""
    import scikit_posthocs

    mean, p, critical = ranks.nemenyi(table, lower=lower)
    with plt.rc_context({**figures.STYLE, "axes.spines.top": True}):  # the axis of the ranks
        axes = figures.new_axes(0.9 + 0.16 * len(mean))
        scikit_posthocs.critical_difference_diagram(
            mean,
            p,
            ax=axes,
            label_props={"fontsize": 7.5},
            marker_props={"s": 14},
            crossbar_props={"linewidth": 2.0, "color": "0.25"},
            elbow_props={"linewidth": 0.8},
            text_h_margin=0.02,
        )
        axes.set_title(f"{title}average rank, 1 is best; critical difference {critical:.2f}", fontsize=8)
        return axes.figure  # type: ignore[return-value]


def swept(option: str, table: pd.DataFrame) -> pd.DataFrame:
    """The lines of a table that have a value of ours for the swept option."""
    return table[table["ours"].notna() & table["method"].str.contains(f", {option}=", regex=False)]


def sweep(protocol: Protocol, option: str, table: pd.DataFrame, label: str) -> Figure:
    """A metric against the swept option: a line for each method and data set, or depth, of `swept` lines."""
    stem, value = zip(*(name.rsplit(f", {option}=", 1) for name in table["method"]), strict=True)
    table = table.assign(stem=stem, value=value)
    means = table[table["dataset"].isin(list(protocol.means))]
    table = table if means.empty else means
    with plt.rc_context(figures.STYLE):
        axes = figures.new_axes()
        keys = ["stem", "dataset", "depth"]
        groups = {_joined(key): part for key, part in table.groupby(keys, sort=False, dropna=False)}
        stated = [name.rsplit(f", {option}=", 1)[1] for name in protocol.methods if f", {option}=" in name]
        order = list(dict.fromkeys(stated))
        for name, style in figures.lines(list(groups)).items():
            part = groups[name].set_index("value")["ours"].reindex(order)
            axes.plot(range(len(order)), part, marker="o", markersize=3, label=figures.shown(name), **style)
        axes.set(xlabel=option, ylabel=label, xticks=range(len(order)))
        axes.set_xticklabels(order)
        figures.legend(axes)
        return axes.figure  # type: ignore[return-value]


def _joined(key: Any) -> str:
    stem, dataset, depth = key
    parts = [stem, "" if dataset == MEAN else dataset, "" if pd.isna(depth) else f"depth {depth:g}"]
    return ", ".join(part for part in parts if part)


def against_published(table: pd.DataFrame, label: str) -> Figure:
    """Our values against the paper's, a mark per data set and method; columns method, ours, paper. Those farther from
    the paper's than these are from each other stand at the edge, and are counted.
    """
    least, most = float(table["paper"].min()), float(table["paper"].max())
    reach = most - least or 1.0
    far = ~table["ours"].between(least - reach, most + reach)
    table = table.assign(ours=table["ours"].clip(least - reach, most + reach))
    with plt.rc_context(figures.STYLE):
        axes = figures.new_axes(3.0)
        marks = "os^Dv<>P"
        for i, (name, style) in enumerate(figures.lines(sorted(table["method"].unique())).items()):
            part = table[table["method"] == name]
            axes.plot(
                part["paper"],
                part["ours"],
                marks[(i + i // len(figures.COLORS)) % len(marks)],
                color=style["color"],
                markersize=3.5,
                label=name,
            )
        low = float(table[["ours", "paper"]].min().min())
        high = float(table[["ours", "paper"]].max().max())
        pad = 0.03 * (high - low) or 1.0
        axes.plot([low - pad, high + pad], [low - pad, high + pad], color="0.6", linewidth=0.8, zorder=0)
        beyond = f" ({far.sum()} beyond)" if far.any() else ""
        axes.set(xlabel=f"{label}, published", ylabel=f"{label}, here{beyond}", aspect="equal")
        figures.legend(axes)
        return axes.figure  # type: ignore[return-value]
