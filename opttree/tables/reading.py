"""Tables in files, as people have them: separators, encodings, numbers, dates and blanks of many kinds."""

from __future__ import annotations

import bz2
import codecs
import contextlib
import csv
import gzip
import io
import lzma
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from opttree.runtime.words import shown
from opttree.tables.form import Form, Written
from opttree.tables.words import (
    DATE_ORDERS,
    MANY,
    MARKS,
    Found,
    as_clock,
    as_dates,
    as_numbers,
    as_plain_numbers,
    is_number,
    marks_in,
)

__all__ = ["read_table"]

HEAD = 1 << 20  # bytes from which the form of a file is guessed
LINES = 200
SEPARATORS = ("\t", ";", "|", ",")
NAMES = {"\t": "tab", " ": "blanks", ";": "';'", "|": "'|'", ",": "','"}
OPEN: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
ENCODINGS = [
    "cp1251", "koi8_r", "cp949", "euc_kr", "cp932", "shift_jis", "euc_jp", "gb18030", "big5", "cp1250", "cp1253",
    "cp1255", "cp1256", "cp1252",
]  # fmt: skip
REGULAR = 0.9  # share of the lines that have as many values as most
COMMA_NUMBER = re.compile(r"-?\d{1,3}(\.\d{3})*,\d+|-?\d+,\d+")
QUOTED = re.compile(r"(?<![^\t;|,\r\n]) *'(?:[^'\r\n]|'')*' *(?![^\t;|,\r\n])")
HALF_QUOTED = re.compile(r"(?<![^\t;|,\r\n]) *'|' *(?![^\t;|,\r\n])")
WHOLE = re.compile(r"[+-]?\d{1,15}")
POINT_NUMBER = re.compile(r"-?\d*\.(\d{1,2}|\d{4,})")
BLANKS = ["", "NA", "N/A", "#N/A", "#NA", "<NA>", "NULL", "null", "NaN", "nan", "n/a", "-NaN", "-nan", "#N/A N/A"]
MOST_LISTED = 5  # texts that a note quotes
MOST_TITLES = 20  # lines before the names of the columns
Rows = list[tuple[int, list[str]]]
Dates = Literal["auto", "day-first", "month-first", "none"]


@dataclass(frozen=True)
class Reading:
    """A table that was read, how its file is written, and what a reader should know of the file and of its columns."""

    frame: pd.DataFrame
    form: Form
    notes: tuple[str, ...] = ()
    of_columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def read_table(
    path: str | Path,
    *,
    sep: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    encoding: str | None = None,
    na: Sequence[str] = (),
    drop: Sequence[str] = (),
    header: bool | None = None,
    dates: Dates = "auto",
) -> pd.DataFrame:
    r"""CSV or Parquet file as a DataFrame, with the types that its texts suggest.

    What is None is guessed from the file. Texts become numbers where all of a column are written as numbers: with
    thousands, a decimal comma, a currency, a percent sign or one unit; and dates where all are dates of one format.
    Blanks, quotation marks and apostrophes around texts are stripped; "?", "-", "n/a" and other usual marks are missing
    values in such columns. A nameless first column that counts or names the rows, and nameless empty ones, are left
    out. `opttree.describe_table` and the command ``opttree look`` say what was made of each column.

    Parameters
    ----------
    path : path-like
        Name of the file, ``.parquet`` or ``.pq``, or else text, which may be compressed (``.gz``, ``.bz2``, ``.xz``).
    sep : str or None, default None
        What stands between columns.
    decimal, thousands : str or None, default None
        What stands before decimals, and between thousands.
    encoding : str or None, default None
        Encoding of the text, such as "latin-1".
    na : sequence of str, default ()
        Further texts that mark missing values, in all columns.
    drop : sequence of str, default ()
        Columns to leave out.
    header : bool or None, default None
        Whether the first line has names; without it, columns are called x0, x1, ...
    dates : {"auto", "day-first", "month-first", "none"}, default "auto"
        How dates such as 01/02/2024 are meant; "none": no text becomes a date.

    Returns
    -------
    pandas.DataFrame
        The table.

    Raises
    ------
    ValueError
        If the file cannot be read, or holds no rows; the sentence names the cause, and the option that helps.

    See Also
    --------
    opttree.describe_table : what its columns hold
    opttree.datasets.read_csv : plain CSV

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import opttree
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "table.csv"
    >>> _ = file.write_text("price;since\n1.200,50;03.04.2024\n?;28.04.2024\n")
    >>> table = opttree.read_table(file)
    >>> table["price"].tolist(), str(table["since"][0])
    ([1200.5, nan], '2024-04-03 00:00:00')
    """
    return read(
        path,
        sep=sep,
        decimal=decimal,
        thousands=thousands,
        encoding=encoding,
        na=na,
        drop=drop,
        header=header,
        dates=dates,
    ).frame


def read(
    path: str | Path,
    *,
    sep: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    encoding: str | None = None,
    na: Sequence[str] = (),
    drop: Sequence[str] = (),
    header: bool | None = None,
    dates: str = "auto",
    text: Collection[str] = (),
    like: Form | None = None,
    known: Mapping[str, str] | None = None,
) -> Reading:
    """`read_table`, with what there is to say of it.

    Parameters
    ----------
    text : collection of str, default ()
        Columns that stay texts.
    like : Form or None, default None
        How the table of the training was written: this one is read in the same way, and keeps all of its rows.
    known : mapping of str to str or None, default None
        With ``like``: the columns of the training, and whether they held a "number", a "date" or something else.

    Returns
    -------
    Reading
        The table.
    """
    path = Path(path)
    notes: list[str] = []
    _check(sep, decimal, thousands, encoding, dates)
    if path.suffix.lower() in (".parquet", ".pq"):
        try:
            frame, form = pd.read_parquet(path), Form()
        except (ImportError, OSError, ValueError) as error:
            raise ValueError(f"{str(path)!r} must be a readable Parquet file; {_first_line(error)}") from error
    else:
        if like is not None:
            decimal, thousands = decimal or like.decimal or None, thousands or like.thousands or None
            na = (*na, *like.marks)
        given = _Given(path, sep, decimal, thousands, encoding, tuple(na), header, frozenset(text), like, known or {})
        frame, form, notes = _text_table(given)
    of_columns: dict[str, list[str]] = {}
    frame = _named(frame, notes, of_columns)
    for name in drop:
        if name not in frame.columns:
            raise ValueError(f"drop must name columns of {path}: {', '.join(frame.columns)}; got {name!r}")
    if drop:
        frame = frame.drop(columns=list(drop))
        notes.append(f"left out as asked: {', '.join(map(repr, drop))}")
    if not frame.shape[1] or frame.empty:
        raise ValueError(f"{str(path)!r} must hold at least one row; got none")
    written = {} if like is None else dict(like.columns)
    for name, kind in (known or {}).items():
        if kind == "number" and name not in written:
            written[name] = Written("number", form.decimal)
    found: dict[str, Written] = {}
    for name in frame.columns:
        if name in text or not _is_text(frame[name]):
            continue
        frame[name], said, made = _typed(frame[name], form, decimal, thousands, dates, written.get(name))
        of_columns.setdefault(name, []).extend(said)
        if made is not None:
            found[name] = made
    form = replace(form, marks=tuple(na), columns=found)
    return Reading(frame, form, tuple(notes), {name: tuple(said) for name, said in of_columns.items() if said})


@dataclass(frozen=True)
class _Given:
    """What is known of a text file, see `read`."""

    path: Path
    sep: str | None
    decimal: str | None
    thousands: str | None
    encoding: str | None
    na: tuple[str, ...]
    header: bool | None
    text: frozenset[str]
    like: Form | None
    known: Mapping[str, str]


def _check(sep: Any, decimal: Any, thousands: Any, encoding: Any, dates: Any) -> None:
    if sep is not None and (not isinstance(sep, str) or len(sep) != 1):
        raise ValueError(f"sep must be one character; got {sep!r}")
    if decimal is not None and decimal not in (".", ","):
        raise ValueError(f"decimal must be '.' or ','; got {decimal!r}")
    if thousands is not None and (not isinstance(thousands, str) or len(thousands) != 1 or thousands == decimal):
        raise ValueError(f"thousands must be one character, another than decimal; got {thousands!r}")
    if dates not in DATE_ORDERS:
        raise ValueError(f"dates must be one of {', '.join(DATE_ORDERS)}; got {dates!r}")
    if encoding is not None:
        try:
            codecs.lookup(encoding)
        except (LookupError, TypeError) as error:
            raise ValueError(f"encoding must be one that Python knows, such as latin-1; got {encoding!r}") from error


# ---- files ------------------------------------------------------------------------------------------------------


def _text_table(given: _Given) -> tuple[pd.DataFrame, Form, list[str]]:
    """The table of a text file, whose columns are numbers, booleans or texts, and the form of the file."""
    notes: list[str] = []
    path, like = given.path, given.like
    opened = OPEN.get(path.suffix.lower(), open)
    try:
        with opened(path, "rb") as file:
            head = file.read(HEAD)
            whole = len(head) < HEAD
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise ValueError(f"{str(path)!r} must be a readable CSV file with a header; {_first_line(error)}") from error
    encoding = given.encoding or _encoding(head, whole)
    if given.encoding is None and encoding not in ("utf-8", "utf-8-sig", "ascii"):
        notes.append(f"encoding {encoding}, by its bytes (--encoding names another)")
    try:
        errors = "strict" if given.encoding else "replace"
        lines = codecs.getincrementaldecoder(encoding)(errors).decode(head, final=whole)
    except (UnicodeError, ValueError) as error:
        raise ValueError(f"{str(path)!r} is not of encoding {encoding}; --encoding names another") from error
    if "\x00" in lines:
        raise ValueError(f"{str(path)!r} must be a text file with a table; it holds zero bytes")
    skipped, named, lines = _without_comments(lines, notes)
    if not lines.strip():
        raise ValueError(f"{str(path)!r} must be a readable CSV file with a header; it is empty")
    quote = _quote(lines if whole else lines[: lines.rfind("\n")])
    if quote != '"':
        notes.append("texts between apostrophes, which are no part of them")
    sep, numbered, header = _parted(given, lines, named, quote, notes)
    rows = [row for _line, row in numbered]
    width = _width(numbered[1:] or numbered)
    cells = [cell.strip() for row in rows[int(header) :] for cell in row]
    decimal = given.decimal
    if decimal is None and sep != "," and _is_comma_decimal(cells):
        decimal = ","
        notes.append("decimal comma (--decimal . if it is not)")
    names = [cell.strip() for cell in rows[0]] if header else [f"x{k}" for k in range(width)]
    if header and width == len(names) + 1:
        longer = [row for row in rows[1:] if len(row) == width]
        if all(row[-1].strip() == "" for row in longer):  # a separator at the end of lines
            names = [*names, ""]
        elif len({row[0] for row in longer}) == len(longer) > 1:  # names of rows, as R writes them
            names = ["", *names]
    if (widest := max(len(row) for row in rows)) > len(names):
        raise ValueError(
            f"{str(path)!r} must have no more values in a row than names in its header; got {widest} values for "
            f"{len(names)} names, with {NAMES.get(sep, repr(sep))} between columns (--sep names another)"
        )
    as_texts = decimal == "," or given.thousands is not None
    codes = {k for k in range(len(names)) if _is_code([row[k].strip() for row in rows[int(header) :] if k < len(row)])}
    texts = {k for k, name in enumerate(names) if name in given.text or (like is not None and name in like.columns)}
    for k in codes - texts if given.decimal is None else ():
        notes.append(f"column {names[k] or k + 1}: numbers with leading zeros are codes, and stay text")
    start = numbered[int(header)][0] if len(numbered) > int(header) else numbered[-1][0] + 1
    source: Any = path
    if whole:
        source = io.BytesIO(head.rstrip(b"\r\n") if encoding.startswith(("utf-8", "cp", "latin", "ascii")) else head)
    options: dict[str, Any] = {
        "sep": r"\s+" if sep == " " else sep, "quotechar": quote, "header": None, "skiprows": skipped + start,
        "names": range(len(names)),
        "dtype": str if as_texts else dict.fromkeys(texts | codes, str), "index_col": False, "keep_default_na": False,
        "na_values": [*BLANKS, *given.na], "skipinitialspace": True, "low_memory": False, "on_bad_lines": "error",
        "compression": None if whole else "infer", "skip_blank_lines": like is None,
    }  # fmt: skip
    try:
        try:
            frame = pd.read_csv(source, encoding=encoding, **options)
        except UnicodeError:
            if given.encoding:
                raise
            if not whole:  # what follows the head is of another encoding
                with opened(path, "rb") as file:
                    encoding = _encoding(file.read(), True)
            notes.append(f"some bytes are not of encoding {encoding}, and were replaced (--encoding names another)")
            source = path if not whole else io.BytesIO(head)
            frame = pd.read_csv(source, encoding=encoding, encoding_errors="replace", **options)
    except UnicodeError as error:
        raise ValueError(f"{str(path)!r} is not of encoding {encoding}; --encoding names another") from error
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"{str(path)!r} must hold at least one row; got none") from error
    except (pd.errors.ParserError, ValueError, OSError) as error:
        raise ValueError(_of_rows(path, error, len(names), sep)) from error
    if like is None:
        frame = _without_empty_rows(frame, names, notes)
    frame.columns = pd.Index(names)
    if not header and frame.shape[1] > 1 and like is None and frame.iloc[:, -1].isna().all():
        frame = frame.iloc[:, :-1]
    return frame, Form(sep, encoding, decimal or ".", given.thousands or "", header), notes


def _parted(given: _Given, lines: str, named: str, quote: str, notes: list[str]) -> tuple[str, Rows, bool]:
    """The separator, the rows from that with the names, and whether there are names."""
    if given.like is not None:
        usual = given.sep or given.like.separator
        for sep in dict.fromkeys([*filter(None, [usual]), *SEPARATORS]):
            rows = _rows(lines, sep, quote)
            for k, (_line, row) in enumerate(rows[:MOST_TITLES]):
                if {cell.strip() for cell in row} & set(given.known):
                    return sep, rows[k:], True
        sep = usual or _separator(lines, quote)
        if not given.like.header and given.header is not True:
            return sep, _rows(lines, sep, quote), False
        return sep, _rows(lines, sep, quote), True  # whose names will be missed
    sep = given.sep or named or _separator(lines, quote)
    if sep != "," and given.sep is None:
        notes.append(f"separator {NAMES.get(sep, repr(sep))}")
    rows = _rows(lines, sep, quote)
    if given.header is not False:
        rows = _without_titles(rows, notes)
    header = given.header
    if header is None:
        header = _has_header([row for _line, row in rows])
        if not header:
            words = "the first line holds numbers; columns are called x0, x1, ... (--header: it has names)"
            notes.append(f"no header: {words}")
    return sep, rows, header


def _is_code(cells: Sequence[str]) -> bool:
    """Whether the values of a column are numbers of which some begin with a zero, such as postal codes. Two digits are
    numbers, as those of months are, but where "1" and "01" are two values.
    """
    there = {cell for cell in cells if cell}
    zeros = [cell for cell in there if len(cell) > 1 and cell[0] == "0"]
    return all(cell.isdigit() for cell in there) and any(len(cell) > 2 or cell[1:] in there for cell in zeros)


def _without_empty_rows(frame: pd.DataFrame, names: Sequence[str], notes: list[str]) -> pd.DataFrame:
    """The table without rows that are empty, or repeat the names of the columns."""
    empty = frame.isna().all(axis=1)
    if empty.any() and frame.shape[1] > 1:
        notes.append(f"left out: {int(empty.sum())} empty rows")
        frame = frame[~empty]
    texts = [k for k, column in enumerate(frame.columns) if _is_text(frame[column])]
    if len(texts) > 1:
        repeated = np.ones(len(frame), bool)
        for k in texts:
            repeated &= (frame.iloc[:, k] == names[k]).to_numpy(bool, na_value=False)
            if not repeated.any():
                break
        if repeated.any():
            notes.append(f"left out: {int(repeated.sum())} rows that repeat the names of the columns")
            frame = frame[~repeated]
    return frame.reset_index(drop=True)


def _of_rows(path: Path, error: Exception, width: int, sep: str) -> str:
    """What is wrong with the lines of a file, by the words of pandas."""
    words = _first_line(error)
    counts = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", words)
    if counts:
        return (
            f"{str(path)!r} must have no more values in a row than names in its header; line {counts[2]} has "
            f"{counts[3]} for {width} names, with {NAMES.get(sep, repr(sep))} between columns (--sep names another)"
        )
    return f"{str(path)!r} must be a readable CSV file with a header; {words}"


def _encoding(head: bytes, whole: bool) -> str:
    """The encoding of a text, by its first bytes."""
    for mark, name in BOMS:
        if head.startswith(mark):
            return name
    sample = head[: 1 << 16]
    zeros = sample[0::2].count(0), sample[1::2].count(0)
    if max(zeros) > 0.2 * len(sample) / 2 and max(zeros) > 8 * min(zeros):
        return "utf-16-le" if zeros[1] > zeros[0] else "utf-16-be"
    try:
        codecs.getincrementaldecoder("utf-8")("strict").decode(head, final=whole)
    except UnicodeDecodeError:
        pass
    else:
        return "utf-8"
    text = head.decode("utf-8", "replace")
    foreign = sum(ord(char) > 127 for char in text)
    if text.count("\ufffd") < 0.1 * foreign:
        return "utf-8"  # but for some bytes
    high = np.frombuffer(head, np.uint8) > 127
    if np.count_nonzero(high[1:] & high[:-1]) < 0.3 * np.count_nonzero(high):  # letters with accents, among others
        return "cp1252" if "\ufffd" not in head.decode("cp1252", "replace") else "latin-1"
    from charset_normalizer import from_bytes

    best = from_bytes(head[: 1 << 18], cp_isolation=ENCODINGS).best()
    return "latin-1" if best is None else best.encoding


def _without_comments(lines: str, notes: list[str]) -> tuple[int, str, str]:
    """How many lines with comments stand before the table, the separator that the first one names, and the rest."""
    skipped, named, rest = 0, "", lines
    while rest:
        line, after = _first(rest)
        if skipped == 0 and (excel := re.fullmatch(r"sep=(.)", line.strip(), re.IGNORECASE)):
            named = excel[1]
        elif not (line.startswith("#") and after.strip()):
            break
        rest, skipped = after, skipped + 1
    if skipped > bool(named):
        notes.append(f"left out: {skipped - bool(named)} lines before the table that start with '#'")
    return skipped, named, rest


def _without_titles(rows: Rows, notes: list[str]) -> Rows:
    """The rows from the first one that fills the columns."""
    width = _width(rows)
    filled = [sum(cell.strip() != "" for cell in row) for _line, row in rows[:MOST_TITLES]]
    first = next((k for k, count in enumerate(filled) if count >= 0.8 * width), 0)
    if first == 0 or width < 2 or any(count > max(width // 4, 1) for count in filled[:first]):
        return rows
    notes.append(f"left out: {first} lines before the names of the columns")
    return rows[first:]


def _width(rows: Rows) -> int:
    """The number of values that most rows have."""
    return Counter(len(row) for _line, row in rows).most_common(1)[0][0]


def _first(lines: str) -> tuple[str, str]:
    """The first line, and what follows."""
    match = re.search(r"\r\n|\n|\r", lines)
    return (lines, "") if match is None else (lines[: match.start()], lines[match.end() :])


def _quote(lines: str) -> str:
    """What stands around texts: apostrophes where there are no quotation marks, and every entry that begins or ends
    with an apostrophe does both.
    """
    if '"' in lines or "'" not in lines:
        return '"'
    rest, found = QUOTED.subn("", lines)
    return "'" if found and not HALF_QUOTED.search(rest) else '"'


def _rows(lines: str, sep: str, quote: str) -> Rows:
    """The first rows that are not blank, each with the number of rows before it, of which quotes may hold several
    lines.
    """
    rows: Rows = []
    reader = csv.reader(io.StringIO(lines, newline=""), delimiter=sep, quotechar=quote, skipinitialspace=True)
    with contextlib.suppress(csv.Error):
        for before, row in enumerate(reader):
            if row:
                rows.append((before, row))
            if len(rows) > LINES:
                break
    if len(lines) >= HEAD // 4 and len(rows) <= LINES:
        rows = rows[:-1]  # the last line may have been cut off
    return rows or [(0, [""])]


def _separator(lines: str, quote: str) -> str:
    """What stands between columns: by which most rows have as many values as the line with the names, or as most."""
    found = []
    for preference, sep in enumerate(SEPARATORS):
        rows = _rows(lines, sep, quote)
        width = _width(rows)
        if width < 2:
            continue
        alike = sum(len(row) in (width, width - 1) for _line, row in rows) / len(rows)
        headed = any(len(row) in (width, width - 1) and len(row) > 1 for _line, row in rows[:1])
        found.append((alike >= REGULAR, headed, round(alike, 1), width if headed else 0, -preference, sep))
    if found and max(found)[0]:
        return max(found)[-1]
    blanks = _rows(lines, " ", quote)
    widths = Counter(len(row) for _line, row in blanks).most_common(1)[0]
    if not found and widths[0] > 1 and widths[1] >= REGULAR * len(blanks):
        return " "
    return max(found)[-1] if found else ","


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first line has names: no value of it is a number in a column of numbers, or there are no numbers."""
    if len(rows) < 2:
        return True
    first = [cell.strip() for cell in rows[0]]
    numeric = [
        k
        for k in range(len(first))
        if all(_is_number(row[k]) for row in rows[1:] if k < len(row) and row[k].strip().lower() not in {"", *MARKS})
        and any(k < len(row) and _is_number(row[k]) for row in rows[1:])
    ]
    numbers = [k for k in numeric if _is_number(first[k])]
    if not numbers:
        return True
    years = all(re.fullmatch(r"(19|20)\d\d", first[k]) for k in numbers)
    names = any(first[k] and not _is_number(first[k]) and first[k].lower() not in MARKS for k in numeric)
    return years or names


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?", text.strip()) is not None


def _is_comma_decimal(cells: Sequence[str]) -> bool:
    """Whether numbers are written with a decimal comma: some are, and none with a point that is not of thousands."""
    commas = sum(COMMA_NUMBER.fullmatch(cell) is not None for cell in cells)
    points = sum(POINT_NUMBER.fullmatch(cell) is not None for cell in cells)
    return commas > 0 and points <= 0.02 * commas


# ---- columns ----------------------------------------------------------------------------------------------------


def _named(frame: pd.DataFrame, notes: list[str], of_columns: dict[str, list[str]]) -> pd.DataFrame:
    """The table with different names, without columns of no name that are empty, or that count or name the rows."""
    names: list[str] = []
    kept: list[int] = []
    given = [str(name).strip() for name in frame.columns]
    nameless = [name == "" or re.fullmatch(r"Unnamed: \d+(\.\d+)?", name) is not None for name in given]
    leading = next((k for k, one in enumerate(nameless) if not one), 0)
    index = list(range(leading)) if leading > 1 and not frame.iloc[:, :leading].duplicated().any() else []
    for k, name in enumerate(given):
        column = frame.iloc[:, k]
        if nameless[k] and column.isna().all():
            notes.append(f"left out: column {k + 1}, which has no name and is empty")
            continue
        if nameless[k] and (k in index or _counts_rows(column) or (k == 0 and column.is_unique)):
            what = "counts" if _counts_rows(column) else "names"
            notes.append(f"left out: column {k + 1}, which has no name and {what} the rows")
            continue
        name = name or f"x{k}"
        usual, twice = name, 0
        while name in names:
            twice += 1
            name = f"{usual}.{twice}"
        if twice:
            of_columns.setdefault(name, []).append(f"the name {usual!r} occurs twice: this one is called {name!r}")
        names.append(name)
        kept.append(k)
    frame = frame.iloc[:, kept].copy()
    frame.columns = pd.Index(names)
    return frame


def _counts_rows(column: pd.Series) -> bool:
    """Whether a column counts up or down by one, or starts again at 0 or 1 as parts of a table do."""
    if column.dtype.kind not in "iuf" or len(column) < 2:
        return False
    numbers = column.to_numpy(np.float64)
    steps = np.diff(numbers)
    again = (steps == 1.0) | ((steps < 0.0) & np.isin(numbers[1:], (0.0, 1.0)))
    return bool(np.all(again) and np.any(steps == 1.0)) or bool(np.all(steps == -1.0))


def _is_text(column: pd.Series) -> bool:
    return bool(pd.api.types.is_object_dtype(column.dtype) or isinstance(column.dtype, pd.StringDtype))


def _typed(
    column: pd.Series, form: Form, decimal: str | None, thousands: str | None, dates: str, known: Written | None
) -> tuple[pd.Series, list[str], Written | None]:
    """A column of texts as numbers or dates if all are, what there is to say, and how they are written.

    With ``known`` they are read as those of the training were, or stay texts.
    """
    there = column.dropna()
    if not all(isinstance(value, str) for value in there) or (known is None and not len(there)):
        return column, [], None
    stripped = column.map(lambda text: text.strip(), na_action="ignore")
    counts = stripped[stripped != ""].value_counts(sort=False)
    texts = [str(text) for text in counts.index]
    numbers = [int(count) for count in counts]
    found, kind = _found(texts, numbers, decimal or ("," if form.decimal == "," else None), thousands, dates, known)
    if found is None and known is None and decimal is None and form.decimal == ",":
        found, kind = _found(texts, numbers, None, thousands, "none", None)
    if found is None:
        return stripped.where(stripped != "", None), _said_of_texts(texts, numbers), None
    values = {**found.values, "": np.nan}
    typed = pd.Series(
        [values[text] if isinstance(text, str) else np.nan for text in stripped], column.index, name=column.name
    )
    typed = pd.to_datetime(typed) if kind == "date" else typed.astype(np.float64)
    if kind == "number" and all(WHOLE.fullmatch(text) for text in texts) and len(there) == len(column):
        typed = typed.astype(np.int64)  # as in files with decimal points
    said = [] if found.how == "numbers" else [f"read as {found.how}"]
    if found.marks:
        rows = sum(count for text, count in zip(texts, numbers, strict=True) if text in found.marks)
        said.append(f"missing where it says {_quoted(found.marks)} ({rows} rows)")
    return typed, said, Written(kind, found.form, found.marks)


def _found(
    texts: Sequence[str], counts: Sequence[int], decimal: str | None, thousands: str | None, dates: str,
    known: Written | None,
) -> tuple[Found | None, str]:  # fmt: skip
    """What texts are written of, and its kind."""
    if known is not None:
        if known.kind == "number":
            return as_numbers(texts, counts, known.form or decimal, thousands, known.blanks), "number"
        if known.kind == "clock":
            return as_clock(texts, known.blanks), "clock"
        return as_dates(texts, dates, known.form, known.blanks), "date"
    found = as_plain_numbers(texts, decimal, thousands) if len(texts) > MANY else None
    found = found or as_numbers(texts, counts, decimal, thousands)
    if found is not None:
        return found, "number"
    found = as_clock(texts)
    if found is not None:
        return found, "clock"
    return (None if dates == "none" else as_dates(texts, dates)), "date"


def _said_of_texts(texts: Sequence[str], counts: Sequence[int]) -> list[str]:
    """What a reader should know of a column that stays text: that most of it are numbers or dates, or marks in it."""
    said = []
    rows = dict(zip(texts, counts, strict=True))
    total = sum(counts)
    marks = marks_in(texts)
    numeric = [text for text in texts if is_number(text)]
    n_numeric = sum(rows[text] for text in numeric)
    others = sorted((text for text in texts if text not in set(numeric) | set(marks)), key=lambda text: -rows[text])
    if others and 2 * n_numeric > total:
        n_others = sum(rows[text] for text in others)
        said.append(
            f"text, though {n_numeric} of {total} entries are numbers: {_quoted(others)} ({n_others} rows) are not"
        )
    return said


def _quoted(texts: Sequence[str]) -> str:
    listed = ", ".join(shown(text) for text in texts[:MOST_LISTED])
    return listed + (f" and {len(texts) - MOST_LISTED} more" if len(texts) > MOST_LISTED else "")


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
