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
    figure.draw_without_rendering()  # lays the figure out
    figure.set_layout_engine("none")  # once is enough
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


def new_axes(height: float = 2.5) -> Axes:
    """Axes of a figure as wide as a column."""
    _figure, axes = plt.subplots(figsize=(COLUMN, height), layout="constrained")
    return axes


def legend(axes: Axes) -> None:
    """The legend, below the axes."""
    axes.figure.legend(loc="outside lower center", ncols=3, frameon=False, handlelength=2.6, columnspacing=1.0)


def profile(
    table: pd.DataFrame, names: Sequence[str], label: str, *, end: float, start: float = 1.0, title: str = ""
) -> Figure:
    """Step functions of a performance or data profile, on a logarithmic axis from ``start`` to ``end``."""
    with plt.rc_context(STYLE):
        axes = new_axes(3.0)
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
        legend(axes)
        return axes.figure  # type: ignore[return-value]


def distances(table: pd.DataFrame, names: Sequence[str]) -> Figure:
    """Mean distance in % from the proved optimum against the depth, one line per solver that is above it."""
    with plt.rc_context(STYLE):
        axes = new_axes(3.0)
        for name, style in lines(names).items():
            part = table[table["solver"] == name].dropna(subset="mean % above it")
            if len(part) and part["mean % above it"].max() > 0.0:
                axes.plot(
                    part["depth"], part["mean % above it"], marker="o", markersize=3.0, label=shown(name), **style
                )
        axes.set(xlabel="depth", ylabel="mean % above the optimum", xticks=sorted(table["depth"].unique()))
        axes.set_ylim(bottom=0.0)
        legend(axes)
        return axes.figure  # type: ignore[return-value]


def bars(values: pd.Series, label: str) -> Figure:
    """A horizontal bar for each entry, the smallest on top."""
    with plt.rc_context(STYLE):
        axes = new_axes(0.8 + 0.2 * len(values))
        ordered = values.sort_values(ascending=False)
        axes.barh([shown(name) for name in ordered.index], ordered, color=COLORS[0], height=0.6)
        axes.set(xlabel=label)
        return axes.figure  # type: ignore[return-value]


def convergence(gaps: pd.DataFrame, names: Sequence[str], *, title: str = "") -> Figure:
    """Mean primal gap over problems against seconds, one column per solver."""
    with plt.rc_context(STYLE):
        axes = new_axes(3.0)
        for name, style in lines(names).items():
            if name in gaps:
                axes.step(gaps.index, 100.0 * gaps[name], where="post", label=shown(name), **style)
        axes.set(xscale="log", xlabel="seconds", ylabel="mean gap to the best known (%)")
        axes.set_xlim(gaps.index[0], gaps.index[-1])
        axes.set_ylim(bottom=-0.02 * max(axes.get_ylim()[1], 1e-9))  # so that a curve at 0 is seen
        axes.set_title(title, fontsize=8)
        legend(axes)
        return axes.figure  # type: ignore[return-value]
