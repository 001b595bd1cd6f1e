"""Reports as one HTML page that can be sorted and filtered without a network: sections of text, figures, tables."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd

from solvers.races.plans import Plan


@dataclass
class Section:
    """A heading with lines of text, figures (stems of files) and a table whose cells are text."""

    title: str
    text: list[str] = field(default_factory=list)
    table: pd.DataFrame | None = None
    figures: list[tuple[str, str]] = field(default_factory=list)
    name: str = ""  # of the table's files


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


def numeric(table: pd.DataFrame) -> list[bool]:
    """Whether a column's cells begin with numbers."""
    number = r"^([<]?\s*-?[\d ]+(\.\d+)?(e[-+]?\d+)?( ± .*)?|inf|nan|)$"
    return [bool(table[c].astype(str).str.match(number).all()) for c in table]


def page(plan: Plan, sections: list[Section], folder: Path) -> str:
    """The page of a plan's sections, whose figures are in ``folder``."""
    shown: list[dict[str, Any]] = []
    for section in sections:
        pictures = [
            {"caption": caption, "data": base64.b64encode((folder / f"{stem}.png").read_bytes()).decode()}
            for stem, caption in section.figures
        ]
        entry: dict[str, Any] = {
            "title": section.title,
            "text": section.text,
            "figures": pictures,
            "table": section.table,
        }
        if section.table is not None:
            text = section.table.astype(str)
            entry |= {
                "columns": list(text),
                "numeric": numeric(section.table),
                "rows": text.itertuples(index=False, name=None),
            }
        shown.append(entry)
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(Path(__file__).with_suffix(".html").read_text())
    return template.render(title=plan.title, subtitle=plan.subtitle, sections=shown)
