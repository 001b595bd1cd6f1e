"""The columns of a table that a model reads, as programs of other languages have them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from opttree.model.forest import Forest
from opttree.model.structure import with_encoding
from opttree.model.tree import Tree
from opttree.tables.encoding import Column, Encoding, Levels, Missing, Unread, Value


def as_read(model: Tree | Forest) -> Tree | Forest:
    """The model with the part of its encoding that it reads: files of older versions hold more."""
    read: Tree | Forest = model if model.encoding is None else with_encoding(model, model.encoding)
    return read


class Read(NamedTuple):
    """A column that a model reads.

    number : int
        Its place in the table.
    column : Column
        Its name and kind.
    features : list of (int, Value, Missing or Levels)
        The features made of it, with their places.
    """

    number: int
    column: Column
    features: list[tuple[int, Value | Missing | Levels]]


def columns_read(encoding: Encoding) -> list[Read]:
    """The columns that features are made of, in the order of the table."""
    return [
        Read(
            number,
            encoding.columns[number],
            [(j, f) for j, f in enumerate(encoding.features) if f.column == number and not isinstance(f, Unread)],
        )
        for number in sorted(encoding.read)
    ]


def texts_of(read: Read) -> list[str]:
    """All texts that stand for a known level of a category."""
    return sorted({text for _j, f in read.features if isinstance(f, Levels) for text in f.known})


def codes_of(read: Read) -> dict[str, float]:
    """The levels that are numbers, each with its number."""
    levels = {level for _j, f in read.features if isinstance(f, Levels) for level in f.numbers}
    return {level: code for level in sorted(levels) for code in _number(level)}


class UntoldLevelError(ValueError):
    """A level that programs of other languages cannot tell from others."""


def told(read: Read) -> tuple[list[str], list[float]]:
    """The levels of a category, in order, and their codes, of columns of codes; `UntoldLevelError` for whole numbers
    that double precision does not have, and for texts that UTF-8 does not.
    """
    name = f"model's column {read.column.name!r}"
    if read.column.kind != "code":
        texts = texts_of(read)
        for text in texts:
            if text.encode("utf-8", "ignore").decode() != text:
                raise UntoldLevelError(f"{name} must have levels that UTF-8 can write; got {text!r}")
        return texts, []
    codes = codes_of(read)
    for level, code in codes.items():
        if level.lstrip("+-").isdigit() and Decimal(level) != Decimal(code):
            raise UntoldLevelError(
                f"{name} must have whole numbers that double precision has as levels, since this program reads such; "
                f"got {level}: make the column text"
            )
    return list(codes), list(codes.values())


def _number(level: str) -> Iterator[float]:
    try:
        code = float(level)
    except ValueError:
        return
    if np.isfinite(code):
        yield code


def numbers_of(feature: Value | Missing | Levels, levels: Sequence[str]) -> list[float]:
    """The numbers of a feature for some known levels, for all others, and where the column is missing."""
    if isinstance(feature, Levels):
        return [*(feature.known.get(level, feature.other) for level in levels), feature.other, feature.missing]
    return [*[0.0] * len(levels), 0.0, 1.0]
