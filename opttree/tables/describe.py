"""`describe_table`: what the columns of a table hold, and what in them may be meant otherwise."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from opttree.runtime.escape import plain
from opttree.runtime.words import number, shown
from opttree.tables.checks import check_names, warn
from opttree.tables.encoder import MAX_LEVELS, MIN_LEVEL_ROWS, chosen
from opttree.tables.encoding import is_missing, is_table, kind_of, level_text, level_texts, narwhal, table_names
from opttree.tables.words import as_dates, as_numbers, marks_in

__all__ = ["TableReport", "describe_table"]

WORDS = {"category": "text", "number": "numbers", "boolean": "yes or no", "date": "dates", "code": "codes"}
MOST_EXACT = 2**53  # whole numbers beyond it are not told apart in double precision
SENTINELS = (-1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0)
ALONE, ALONE_OF_LABELS = 0.97, 0.9  # R2, or share of what the commonest label leaves, of a column that predicts alone
EXAMPLES = 200  # rows from which examples of values are taken
LOOKED_AT = 2000  # rows by which a column is judged to predict the target
LARGEST = 1e30  # number that a tree of scikit-learn takes
SAMPLE = 50_000  # rows in which marks are looked for
MOST_LOOKED_AT = 200  # columns
KEY = re.compile(
    r"(^|[_\W])(id|ids|key|uuid|guid|rownum)$|^(id|key|index|row|uuid|guid)$|[_\W](no|nr)$|[a-z](Id|ID)$|^unnamed",
    re.IGNORECASE,
)
OF_TIME = re.compile(r"year|month|week|day|hour|minute|second|time|date|^t$|jahr|monat|tag|stunde", re.IGNORECASE)
COUNTS = "counts the rows: a key says nothing of new ones (leave it out)"
EACH = "has a number for each row: a key says nothing of new ones (leave it out)"


@dataclass(frozen=True)
class ColumnReport:
    """A column of a table.

    Attributes
    ----------
    name, kind : str
        Its name, and what it is taken for: "number", "boolean", "date" or "category".
    n_missing, n_levels : int
        Blanks, and different values.
    example : str
        Some of its values.
    notes : tuple of str
        What may be meant otherwise.
    """

    name: str
    kind: str
    n_missing: int
    n_levels: int
    example: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableReport:
    """What `describe_table` found; `str` of it is the report in words.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    columns : tuple of ColumnReport
        The columns.
    target : str or None
        The column to predict.
    notes : tuple of str
        What is to be said of the whole table, or of its file.

    See Also
    --------
    describe_table : makes it

    Examples
    --------
    >>> import pandas as pd
    >>> import opttree
    >>> report = opttree.describe_table(pd.DataFrame({"size": ["1 kg", "2 kg"] * 5}))
    >>> report.columns[0].notes
    ("numbers with 'kg' within text: opttree.read_table reads them",)
    """

    n_rows: int
    columns: tuple[ColumnReport, ...]
    target: str | None = None
    notes: tuple[str, ...] = field(default=())

    def to_text(self) -> str:
        """The report in words: a line for each column, and one for each thing to look at."""
        kinds = Counter(column.kind for column in self.columns)
        held = ", ".join(f"{count} of {WORDS[kind]}" for kind, count in kinds.items())
        lines = [f"table: {self.n_rows} rows, {len(self.columns)} columns: {held}"]
        lines += [f"  {note}" for note in self.notes]
        width = min(max((len(plain(column.name)) for column in self.columns), default=0), 28)
        for column in self.columns:
            name = plain(column.name)
            name = name if len(name) <= width else name[: width - 3] + "..."
            missing = f", {column.n_missing} blank" if column.n_missing else ""
            role = " (target)" if column.name == self.target else ""
            held = f"{WORDS[column.kind]}, {column.n_levels} different{missing}{role}"
            lines.append(f"  {name:{width}s}  {held}: {plain(column.example)}")
            lines += [f"  {'':{width}s}    {plain(note)}" for note in column.notes]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.to_text()

    def to_frame(self) -> pd.DataFrame:
        """The columns as a DataFrame, notes joined by "; "."""
        rows = [
            {
                "column": column.name,
                "kind": column.kind,
                "missing": column.n_missing,
                "different": column.n_levels,
                "example": column.example,
                "notes": "; ".join(column.notes),
            }
            for column in self.columns
        ]
        return pd.DataFrame(rows)


def describe_table(X: Any, target: Any = None, *, notes: Mapping[str, Sequence[str]] | None = None) -> TableReport:
    """What the columns of a table are taken for, and what in them may be meant otherwise.

    It says: columns that count or name the rows, such as keys; columns that predict the target alone; numbers and dates
    within text, and texts among numbers; texts that usually mark blanks; levels that differ in case or blanks only;
    texts of many levels; whole numbers that double precision cannot tell apart; columns of one value.

    Parameters
    ----------
    X : DataFrame
        Table of pandas, polars or Arrow.
    target : str or array-like of shape (n,), optional
        The column to predict, by its name, or its values.
    notes : mapping of str to sequence of str, optional
        What is known of columns, such as how a file was read.

    Returns
    -------
    TableReport
        The report.

    Raises
    ------
    ValueError
        If X is no table, or ``target`` is not one of its columns.

    See Also
    --------
    read_table : reads a file
    TableWarning : the same checks, by estimators

    Examples
    --------
    >>> import pandas as pd
    >>> import opttree
    >>> table = pd.DataFrame({"id": range(60), "x": [1.5, 2.0, 7.0] * 20, "y": [0.1, 0.2] * 30})
    >>> print(opttree.describe_table(table, "y"))
    table: 60 rows, 3 columns: 3 of numbers
      id  numbers, 60 different: 0, 1, 2, ...
            counts the rows: a key says nothing of new ones (leave it out)
      x   numbers, 3 different: 1.5, 2, 7
      y   numbers, 2 different (target): 0.1, 0.2
    """
    if not is_table(X):
        raise ValueError(f"X must be a table with names of columns; got {type(X).__name__}")
    check_names(X)
    frame = narwhal(X)
    owns = table_names(X) or []
    names = [str(name) for name in owns]
    if not len(frame):
        raise ValueError("X must hold at least one row; got none")
    y, of = target, None
    if isinstance(target, (str, int, np.integer)):
        if str(target) not in names:
            raise ValueError(f"target must be a column of X: {', '.join(names)}; got {target!r}")
        of = str(target)
        y = np.array([None, *_entries(frame.get_column(owns[names.index(of)]).head(SAMPLE))], object)[1:]
    elif target is not None:
        y = np.asarray(target, object)
        if y.shape != (len(frame),):
            raise ValueError(f"target must have one value for each of the {len(frame)} rows; got shape {y.shape}")
    alone = {} if y is None else _alone(frame, dict(zip(names, owns, strict=True)), of, y)
    columns = []
    for name, own in zip(names, owns, strict=True):
        values = frame.get_column(own)
        found = column_notes(values, name, judged=True, is_target=name == of)
        said = [*((notes or {}).get(name, ())), *found, *alone.get(name, ())]
        texts = dict.fromkeys(_text(v) for v in _entries(values.head(EXAMPLES)) if level_text(v) != "")
        n_missing, different = _counts(values)
        example = ", ".join(list(texts)[:3]) + (", ..." if different > min(len(texts), 3) else "")
        columns.append(
            ColumnReport(name, _kind(values, name), n_missing, different, example, tuple(dict.fromkeys(said)))
        )
    return TableReport(len(frame), tuple(columns), of)


def _entries(values: Any) -> list[Any]:
    """The entries of a column of narwhals."""
    return list(values.to_list())


def _counts(values: Any) -> tuple[int, int]:
    """How many entries are missing, and how many different ones there are besides."""
    import narwhals as nw

    kind = values.dtype
    if kind.is_numeric() or isinstance(kind, (nw.Boolean, nw.Date, nw.Datetime, nw.String)):
        there = values.drop_nulls()
        if kind.is_float():
            there = there.filter(~there.is_nan())
        elif isinstance(kind, nw.String):
            there = there.filter(there != "")
        return len(values) - len(there), len(there.unique())
    there = [v for v in _entries(values) if not is_missing(v)]
    try:
        return len(values) - len(there), len(set(there))
    except TypeError:  # lists and the like
        return len(values) - len(there), len(set(map(repr, there)))


def _kind(values: Any, name: str) -> str:
    try:
        return kind_of(values, name)
    except ValueError:
        return "category"


def _text(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return str(value)
    if isinstance(value, (float, np.floating)) or (
        isinstance(value, (int, np.integer)) and abs(int(value)) < MOST_EXACT
    ):
        return number(float(value))
    text = str(value).removesuffix(" 00:00:00")
    return text if len(text) <= 24 else f"{text[:21]}..."


# ---- checks of a column -----------------------------------------------------------------------------------------


def warn_of_table(X: Any, categories: Any = ()) -> None:
    """A `TableWarning` for each column of a table, or array of whole numbers, that may be meant otherwise, but for
    those that are known to be categories.
    """
    if is_table(X):
        check_names(X)
        frame = narwhal(X)
        names = table_names(X) or []
        known = set() if isinstance(categories, str) else chosen(categories, [str(name) for name in names])
        for k in _suspects(X):
            name = names[k]
            if k in known:
                continue
            for note in column_notes(frame.get_column(name), str(name)):
                warn(f"column {str(name)!r}: {note}")
    elif isinstance(X, (np.ndarray, list, tuple)):
        with contextlib.suppress(ValueError, TypeError):
            array = np.asarray(X)
            if array.ndim == 2 and array.dtype.kind in "iuO":
                for j in range(array.shape[1]):
                    column = array[:, j]
                    if array.dtype.kind != "O" or all(_is_real(v) for v in column):
                        numbers = np.array([_double(v) for v in column]) if array.dtype.kind == "O" else column
                        if _beyond(numbers.astype(np.float64)):
                            warn(f"column {j}: {FAR}")


def _suspects(X: Any) -> Iterable[int]:
    """Numbers of the columns that are worth a look; of a large table of numbers, this is quickly found out."""
    kinds: Any = getattr(X, "dtypes", None)
    plain_kinds = hasattr(kinds, "tolist") and all(isinstance(k, np.dtype) and k.kind in "iuf" for k in kinds.tolist())
    if not plain_kinds or len(X) < 2:
        return range(X.shape[1])
    array = X.to_numpy()
    with np.errstate(invalid="ignore", over="ignore"):
        far = np.fmax(np.abs(np.fmax.reduce(array)), np.abs(np.fmin.reduce(array))) >= MOST_EXACT
        return np.flatnonzero(far | (array[1] - array[0] == 1)).tolist()


FAR = (
    "has whole numbers beyond 2**53, some of which are one number in double precision: leave it out, or name it in "
    "categorical_features"
)


def _beyond(numbers: Any) -> bool:
    """Whether whole numbers are not all told apart in double precision; not of numbers that are large throughout."""
    there = numbers[np.isfinite(numbers)]
    return MOST_EXACT <= np.abs(there).max(initial=0.0) < 1e20 and bool(np.all(np.mod(there, 1.0) == 0.0))


def column_notes(values: Any, name: str, *, judged: bool = False, is_target: bool = False) -> list[str]:
    """What may be meant otherwise in a column of narwhals; with ``judged`` also what a fit takes care of itself."""
    notes: list[str] = []
    kind = _kind(values, name)
    if kind == "number" and not is_target:
        numbers = _numbers(values)
        whole = values.dtype.is_integer() and len(numbers) > 2 and not np.isnan(numbers).any()
        if whole and np.all(np.diff(numbers) == 1.0):
            if KEY.search(name) or (numbers[0] in (0.0, 1.0) and not OF_TIME.search(name)):
                notes.append(COUNTS)
        elif whole and judged and KEY.search(name) and len(np.unique(numbers)) == len(numbers) > MIN_LEVEL_ROWS:
            notes.append(EACH)
        if _beyond(numbers):
            notes.append(FAR)
        if judged:
            notes += _of_numbers(numbers)
    if kind == "category":
        notes += _of_texts(_entries(values), judged)
    different = _counts(values)[1] if judged else 2
    if different <= 1:
        notes.append("all entries are blank" if different == 0 else "one value alone: says nothing")
    return notes


def _numbers(values: Any) -> Any:
    """A column of numbers in double precision, NaN where it is missing or too large."""
    if values.dtype.is_numeric() and not values.is_null().any():
        return values.to_numpy().astype(np.float64)
    return np.array([_double(v) for v in values.to_list()], np.float64)


def _double(value: Any) -> float:
    try:
        return float("nan") if level_text(value) == "" else float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def _of_numbers(numbers: Any) -> list[str]:
    """Numbers that may stand for blanks: one that is far from the others, and common."""
    there = numbers[:SAMPLE]
    there = there[np.isfinite(there)]
    if len(there) < 20:
        return []
    numbers, counts = np.unique(there, return_counts=True)
    for sentinel in SENTINELS:
        rest = numbers[numbers != sentinel]
        if len(rest) > 5 and len(rest) < len(numbers) and counts[numbers == sentinel][0] >= 0.01 * len(there):
            gap = min(abs(rest - sentinel))
            outside = sentinel < rest[0] or sentinel > rest[-1]
            if outside and gap > (rest[-1] - rest[0]) / len(rest) * 3.0 and abs(sentinel) > 1:
                return [
                    f"{sentinel:g} in {int(counts[numbers == sentinel][0])} rows may mark blanks (--na {sentinel:g})"
                ]
    return []


def _of_texts(entries: Sequence[Any], judged: bool) -> list[str]:
    try:
        counts = {level: count for level, count in Counter(entries).items() if not is_missing(level)}
    except TypeError:  # lists and the like
        return []
    levels, n_texts = list(counts), sum(counts.values())
    if not all(isinstance(level, str) for level in levels):
        return []
    notes = []
    found = as_numbers([text.strip() for text in levels], list(counts.values()))
    if found is not None and len(found.marks) < len(levels):
        notes.append(f"{found.how} within text: opttree.read_table reads them")
    elif (dates := as_dates(levels)) is not None:
        notes.append(f"{dates.how.partition(',')[0]} within text: opttree.read_table reads them")
    blanks = [text for text in levels if text != text.strip()]
    if blanks:
        notes.append(f"levels with blanks around them, such as {shown(blanks[0])}: others without are other levels")
    elif judged:
        alike = Counter(" ".join(text.lower().split()) for text in levels)
        twice = next((text for text in levels if alike[" ".join(text.lower().split())] > 1), None)
        if twice is not None:
            notes.append(f"levels that differ in case or blanks only, such as {shown(twice)}")
    if judged and found is None:
        marks = marks_in(levels)
        if marks and not all(mark in ("-", "/") for mark in marks):
            notes.append(f"{shown(marks[0])} in {sum(counts[m] for m in marks)} rows may mark blanks (--na {marks[0]})")
        if len(levels) > MAX_LEVELS:
            rare = sum(count for count in counts.values() if count < MIN_LEVEL_ROWS)
            if rare == n_texts:
                notes.append("names or keys: no level has rows enough to learn from, a fit leaves it out")
            elif rare:
                notes.append(
                    f"{rare} of {n_texts} rows have levels of fewer than {MIN_LEVEL_ROWS} rows, which go together"
                )
    return notes


def _alone(frame: Any, owns: Mapping[str, Any], target: str | None, y: Any) -> dict[str, list[str]]:
    """Columns that predict the target alone, by a tree on the other of two folds."""
    from sklearn.model_selection import cross_val_predict
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    rows = np.flatnonzero([level_text(v) != "" for v in y])
    rows = np.random.default_rng(0).permutation(rows)[:LOOKED_AT]
    truth = _codes([y[i] for i in rows])
    is_number = all(_is_real(y[i]) for i in rows) and len(np.unique(truth)) > MAX_LEVELS
    if len(rows) < 20 or not np.isfinite(truth).all():
        return {}
    truth = truth if is_number else np.unique(truth, return_inverse=True)[1]
    least = float(np.var(truth)) if is_number else 1.0 - np.bincount(truth).max() / len(truth)
    if least <= 0.0:
        return {}
    found: dict[str, list[str]] = {}
    sample = frame[rows]
    for name in [one for one in owns if one != target][:MOST_LOOKED_AT]:
        column = np.clip(_codes(_entries(sample.get_column(owns[name]))), -LARGEST, LARGEST)
        kind = DecisionTreeRegressor if is_number else DecisionTreeClassifier
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            guess = cross_val_predict(kind(min_samples_leaf=2, random_state=0), column[:, None], truth, cv=2)
        left = float(np.mean((truth - guess) ** 2)) if is_number else float(np.mean(truth != guess))
        if 1.0 - left / least >= (ALONE if is_number else ALONE_OF_LABELS):
            found[name] = ["predicts the target alone: is it known before the target is?"]
    return found


def _is_real(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _codes(entries: Sequence[Any]) -> np.ndarray:
    """A column as numbers, levels by their order."""
    if all(_is_real(v) or level_text(v) == "" for v in entries):
        return np.array([_double(v) for v in entries])
    return np.unique(level_texts(entries), return_inverse=True)[1].astype(np.float64)
