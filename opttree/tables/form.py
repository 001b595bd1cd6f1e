"""`Form`: how a table is written in a file, which models keep to read others alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

KINDS = ("number", "clock", "date")


class Written(NamedTuple):
    """How the texts of a column are written that became numbers or dates.

    kind : "number", "clock" (hours of times such as 14:30) or "date".
    form : of numbers the decimal sign, of dates the format of `strptime`, or "ISO8601".
    blanks : texts that were missing values.
    """

    kind: str
    form: str = ""
    blanks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Form:
    """How a table is written in a file.

    separator, encoding, decimal, thousands : texts; "" where nothing stands between thousands, or it is not known.
    header : whether there is a line with names.
    marks : texts for missing values in all columns, besides the usual ones.
    columns : of columns that were texts and became numbers or dates, how they are written.
    """

    separator: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    thousands: str = ""
    header: bool = True
    marks: tuple[str, ...] = ()
    columns: Mapping[str, Written] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "marks", tuple(self.marks))
        texts = [self.separator, self.encoding, self.decimal, self.thousands, *self.marks]
        for name, written in self.columns.items():
            texts += [name, written.kind, written.form, *written.blanks]
        if not all(isinstance(text, str) for text in texts) or not isinstance(self.header, bool):
            raise ValueError("the form of a table must be of texts; got something else")
        if any(written.kind not in KINDS for written in self.columns.values()):
            raise ValueError(f"columns of a form must be of {', '.join(KINDS)}; got others")

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and texts that `json` can write."""
        columns = {name: [kind, form, list(blanks)] for name, (kind, form, blanks) in self.columns.items()}
        return {**vars(self), "marks": list(self.marks), "columns": columns}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Form:
        """Form from its dictionary; ValueError for damaged content."""
        try:
            columns = {
                name: Written(kind, form, tuple(blanks)) for name, (kind, form, blanks) in data["columns"].items()
            }
            return Form(**{**data, "columns": columns})
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"the form of a table needs texts; got something else ({error})") from error
