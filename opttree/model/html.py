"""Pieces of HTML for notebooks and reports: pictures as SVG, tables, columns."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping
from io import StringIO
from typing import Any


def picture(draw: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """The figure of the axes that ``draw(*arguments, **options)`` returns, as SVG."""
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    with mpl.rc_context({"svg.fonttype": "none"}):
        figure = draw(*arguments, **options).figure
        text = StringIO()
        figure.savefig(text, format="svg", bbox_inches="tight")
        plt.close(figure)
    whole = text.getvalue()
    return f'<div style="overflow-x: auto">{whole[whole.index("<svg") :]}</div>'


def table(entries: Mapping[str, Any]) -> str:
    """A table of names and values."""
    rows = "".join(f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in entries.items())
    return f"<table>{rows}</table>"


def columns(parts: Iterable[str]) -> str:
    """Parts beside one another."""
    inner = "".join(f"<div>{part}</div>" for part in parts)
    return f'<div style="display: flex; flex-wrap: wrap; gap: 1em; align-items: flex-start">{inner}</div>'


def _text(value: Any) -> str:
    shown = f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)
    return html.escape(shown)
