"""Figures of reports, at the width of a journal's column, as PNG and PDF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments import statistics
from experiments.protocol import MEAN, Protocol

COLUMN = 3.5  # inches
STYLE: Any = {
    "font.size": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 6.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.2,
    "figure.dpi": 200,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
}
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#8C510A")  # Okabe and Ito's
DASHES = ("-", "--", "-.", ":")


def save(figure: Figure, stem: Path) -> list[Path]:
    """``stem.png`` and ``stem.pdf``."""
    paths = [stem.with_suffix(f".{kind}") for kind in ("png", "pdf")]
    for path in paths:
        figure.savefig(path, bbox_inches="tight", metadata={"CreationDate": None} if path.suffix == ".pdf" else None)
    plt.close(figure)
    return paths


def shown(name: object) -> str:
    """A name as a label: dollars are no mathematics, and what begins with "_" is in the legend, too."""
    text = str(name).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def lines(names: Sequence[str]) -> Mapping[str, dict[str, Any]]:
    """A colour and a dash for each name, the same in every figure of a report."""
    return {
        name: {"color": COLORS[i % len(COLORS)], "linestyle": DASHES[(i + i // len(COLORS)) % len(DASHES)]}
        for i, name in enumerate(names)
    }


def _axes(height: float = 2.5) -> Axes:
    _figure, axes = plt.subplots(figsize=(COLUMN, height), layout="constrained")
    return axes


def _legend(axes: Axes) -> None:
    axes.figure.legend(loc="outside lower center", ncols=3, frameon=False, handlelength=2.6, columnspacing=1.0)


def profile(
    table: pd.DataFrame, names: Sequence[str], label: str, *, end: float, start: float = 1.0, title: str = ""
) -> Figure:
    """Step functions of a performance or data profile, on a logarithmic axis from ``start`` to ``end``."""
    with plt.rc_context(STYLE):
        axes = _axes(3.0)
        for name, style in lines(names).items():
            if name in table:
                known = table[name]
                first = float(known[known.index <= start].iloc[-1]) if (known.index <= start).any() else 0.0
                inside = known[(known.index > start) & (known.index <= end)]
                x = np.concatenate([[start], inside.index, [end]])
                y = np.concatenate([[first], inside, [inside.iloc[-1] if len(inside) else first]])
                axes.step(x, y, where="post", label=shown(name), **style)
        axes.set(xscale="log", xlim=(start, end), ylim=(-0.02, 1.02), xlabel=label, ylabel="share of problems solved")
        axes.set_title(title, fontsize=8)
        _legend(axes)
        return axes.figure  # type: ignore[return-value]


def distances(table: pd.DataFrame, names: Sequence[str]) -> Figure:
    """Mean distance in % from the proved optimum against the depth, one line per solver that is above it."""
    with plt.rc_context(STYLE):
        axes = _axes(3.0)
        for name, style in lines(names).items():
            part = table[table["solver"] == name].dropna(subset="mean % above it")
            if len(part) and part["mean % above it"].max() > 0.0:
                axes.plot(
                    part["depth"], part["mean % above it"], marker="o", markersize=3.0, label=shown(name), **style
                )
        axes.set(xlabel="depth", ylabel="mean % above the optimum", xticks=sorted(table["depth"].unique()))
        axes.set_ylim(bottom=0.0)
        _legend(axes)
        return axes.figure  # type: ignore[return-value]


def bars(values: pd.Series, label: str) -> Figure:
    """A horizontal bar for each entry, the smallest on top."""
    with plt.rc_context(STYLE):
        axes = _axes(0.8 + 0.2 * len(values))
        ordered = values.sort_values(ascending=False)
        axes.barh([shown(name) for name in ordered.index], ordered, color=COLORS[0], height=0.6)
        axes.set(xlabel=label)
        return axes.figure  # type: ignore[return-value]


def convergence(gaps: pd.DataFrame, names: Sequence[str], *, title: str = "") -> Figure:
    """Mean primal gap over problems against seconds, one column per solver."""
    with plt.rc_context(STYLE):
        axes = _axes(3.0)
        for name, style in lines(names).items():
            if name in gaps:
                axes.step(gaps.index, 100.0 * gaps[name], where="post", label=shown(name), **style)
        axes.set(xscale="log", xlabel="seconds", ylabel="mean gap to the best known (%)")
        axes.set_xlim(gaps.index[0], gaps.index[-1])
        axes.set_ylim(bottom=0.0)
        axes.set_title(title, fontsize=8)
        _legend(axes)
        return axes.figure  # type: ignore[return-value]


def critical_difference(table: pd.DataFrame, *, lower: bool, title: str = "") -> Figure:
    """Demšar's diagram: average ranks; methods that Nemenyi's test does not tell apart at 5 % are joined by a bar."""
    import scikit_posthocs

    ranks, p, critical = statistics.nemenyi(table, lower=lower)
    with plt.rc_context({**STYLE, "axes.spines.top": True}):  # the axis of the ranks
        axes = _axes(0.9 + 0.16 * len(ranks))
        scikit_posthocs.critical_difference_diagram(
            ranks,
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
    with plt.rc_context(STYLE):
        axes = _axes()
        keys = ["stem", "dataset", "depth"]
        groups = {_joined(key): part for key, part in table.groupby(keys, sort=False, dropna=False)}
        stated = [name.rsplit(f", {option}=", 1)[1] for name in protocol.methods if f", {option}=" in name]
        order = list(dict.fromkeys(stated))
        for name, style in lines(list(groups)).items():
            part = groups[name].set_index("value")["ours"].reindex(order)
            axes.plot(range(len(order)), part, marker="o", markersize=3, label=shown(name), **style)
        axes.set(xlabel=option, ylabel=label, xticks=range(len(order)))
        axes.set_xticklabels(order)
        _legend(axes)
        return axes.figure  # type: ignore[return-value]


def _joined(key: Any) -> str:
    stem, dataset, depth = key
    parts = [stem, "" if dataset == MEAN else dataset, "" if pd.isna(depth) else f"depth {depth:g}"]
    return ", ".join(part for part in parts if part)


def against_published(table: pd.DataFrame, label: str) -> Figure:
    """Our values against the paper's, a mark per data set and method; columns method, ours, paper."""
    with plt.rc_context(STYLE):
        axes = _axes(3.0)
        marks = "os^Dv<>P"
        for i, (name, style) in enumerate(lines(sorted(table["method"].unique())).items()):
            part = table[table["method"] == name]
            axes.plot(
                part["paper"],
                part["ours"],
                marks[(i + i // len(COLORS)) % len(marks)],
                color=style["color"],
                markersize=3.5,
                label=name,
            )
        low = float(table[["ours", "paper"]].min().min())
        high = float(table[["ours", "paper"]].max().max())
        pad = 0.03 * (high - low) or 1.0
        axes.plot([low - pad, high + pad], [low - pad, high + pad], color="0.6", linewidth=0.8, zorder=0)
        axes.set(xlabel=f"{label}, published", ylabel=f"{label}, here", aspect="equal")
        _legend(axes)
        return axes.figure  # type: ignore[return-value]
