"""How the columns of a table become the features of a tree."""

from opttree.tables.encoding import (
    Column as Column,
    Encoding as Encoding,
    Levels as Levels,
    Missing as Missing,
    Unread as Unread,
    Value as Value,
)

__all__ = ["Encoding", "Levels", "Missing", "Unread", "Value"]
