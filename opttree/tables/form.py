"""`Form`: how a table is written in a file, which models keep to read others alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Form:
    """How a table is written in a file.

    separator, encoding, decimal, thousands : texts; "" where nothing stands between thousands, or it is not known.
    header : whether the first line has names.
    marks : texts for missing values, besides the usual ones.
    dates : formats of the columns that hold dates.
    """

    separator: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    thousands: str = ""
    header: bool = True
    marks: tuple[str, ...] = ()
    dates: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "marks", tuple(self.marks))
        texts = (
            self.separator,
            self.encoding,
            self.decimal,
            self.thousands,
            *self.marks,
            *self.dates,
            *self.dates.values(),
        )
        if not all(isinstance(text, str) for text in texts) or not isinstance(self.header, bool):
            raise ValueError("the form of a table must be of texts; got something else")

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and texts that `json` can write."""
        return {**asdict(self), "marks": list(self.marks), "dates": dict(self.dates)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Form:
        """Form from its dictionary; ValueError for damaged content."""
        try:
            return Form(**data)
        except (TypeError, AttributeError) as error:
            raise ValueError(f"the form of a table needs texts; got something else ({error})") from error
