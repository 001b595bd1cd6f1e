"""Texts of tables, such as names, levels and labels, in places where others read them: a terminal, a spreadsheet, code.

A table may come from anyone. What leaves the toolkit passes through these functions, so that no text can end the place
it stands in, or be taken for a command or a formula.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from typing import Any

# a sign, also in its wide form, before a letter or a digit (a lone sign is no formula); or a tab or a new line first
FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20](?=.*\w)|[\t\r\n]", re.DOTALL)
NUMBER = re.compile(r"[+-]?[\d.,]+([eE][+-]?\d+)?")
JOINERS = "\u200c\u200d"  # within words of Persian, and in emoji


def plain(text: object) -> str:
    r"""Text for terminals and messages, in one line.

    Control characters, and others that do not print or that turn the order of what follows, are shown as ``\x1b``,
    ``\n`` or ``\u202e``.
    """
    return "".join(c if _is_seen(c) else c.encode("unicode_escape").decode() for c in str(text))


def _is_seen(char: str) -> bool:
    return char.isprintable() or char in JOINERS or unicodedata.category(char) == "Zs"


def cell(entry: Any) -> Any:
    """Entry of a table for spreadsheets: a text that begins as a formula gets an apostrophe, numbers stay."""
    if isinstance(entry, str) and FORMULA.match(entry) and not NUMBER.fullmatch(entry):
        return f"'{entry}"
    return entry


def sql_name(text: str) -> str:
    """Name of a column or a table in SQL; ValueError for a zero byte, which ends a query."""
    _check_whole(text)
    return '"' + text.replace('"', '""') + '"'


def sql_text(text: str) -> str:
    """Text as a constant of SQL; ValueError for a zero byte, which ends a query."""
    _check_whole(text)
    return "'" + text.replace("'", "''") + "'"


def _check_whole(text: str) -> None:
    if "\0" in text:
        raise ValueError(f"model must have no names and levels with a zero byte for SQL; got {text!r}")


def c_comment(text: str) -> str:
    """Text that cannot end a comment of C: without backslashes, and with no character that could be half of a mark."""
    seen = "".join(char if char.isprintable() and char not in "\\*?" else " " for char in text)
    return seen.strip() or "a column"


def c_text(text: str) -> str:
    """Text as a constant of C, in UTF-8."""
    out = ""
    for byte in text.encode():
        char = chr(byte)
        out += char if 32 <= byte < 127 and char not in '"\\?' else f"\\{byte:03o}"
    return f'"{out}"'


def dot_text(*lines: str) -> str:
    """Lines as a label of Graphviz."""
    return '"' + r"\n".join(plain(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines) + '"'


def html_text(text: str) -> str:
    """Text of a page of HTML."""
    return html.escape(plain(text))


def script_data(data: Any) -> str:
    """Data as a constant of a script in HTML, which no text in it can end."""
    return json.dumps(data).replace("<", "\\u003c")
