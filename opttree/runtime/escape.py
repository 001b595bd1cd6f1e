"""Texts of tables on their way to a terminal or a spreadsheet, which read some of them as commands."""

from __future__ import annotations

STARTS = ("=", "+", "-", "@", "\t", "\r")  # of cells that a spreadsheet computes


def plain(text: str) -> str:
    """Text for a terminal: characters that are not printable, such as those of escape sequences, are written out."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def cell(text: str) -> str:
    """Text for a cell of a spreadsheet: an apostrophe stands before what would be computed."""
    return f"'{text}" if text.startswith(STARTS) else text
