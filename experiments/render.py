"""How a report is written: as Markdown, and as one HTML page that can be sorted and filtered without a network."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from experiments.protocol import FOLDER, Protocol


@dataclass
class Section:
    """A heading with lines of text, figures (stems of files) and a table whose cells are text."""

    title: str
    text: list[str] = field(default_factory=list)
    table: pd.DataFrame | None = None
    figures: list[tuple[str, str]] = field(default_factory=list)
    name: str = ""  # of the table's files


def _head(protocol: Protocol) -> str:
    budget = "" if protocol.budget == "full" else f" Budget: {protocol.budget}."
    source = f"{protocol.source}. " if protocol.source else ""
    return f"{source}{' '.join(protocol.note.split())}{budget}"


def markdown(protocol: Protocol, sections: list[Section]) -> str:
    parts = [f"# {protocol.title}", _head(protocol)]
    for section in sections:
        parts += [f"## {section.title}", *section.text]
        parts += [f"![{caption}]({stem}.png)" for stem, caption in section.figures]
        if section.table is not None:
            cells = section.table.map(lambda cell: str(cell).replace("|", r"\|"))
            parts.append(cells.to_markdown(index=False, disable_numparse=True, colalign=_alignment(section.table)))
    return "\n\n".join(parts) + "\n"


def _alignment(table: pd.DataFrame) -> list[str]:
    return ["right" if numeric else "left" for numeric in _numeric(table)]


def _numeric(table: pd.DataFrame) -> list[bool]:
    """Whether a column's cells begin with numbers."""
    number = r"^([<]?\s*-?[\d ]+(\.\d+)?(e[-+]?\d+)?( ± .*)?|inf|nan|)$"
    return [bool(table[c].astype(str).str.match(number).all()) for c in table]


def page(protocol: Protocol, sections: list[Section], folder: Path) -> str:
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
                "numeric": _numeric(section.table),
                "rows": text.itertuples(index=False, name=None),
            }
        shown.append(entry)
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((FOLDER / "page.html").read_text())
    return template.render(title=protocol.title, subtitle=_head(protocol), sections=shown)
