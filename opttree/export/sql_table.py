"""How SQL writes constants, and the columns of a table as features, in words that SQLite and DuckDB have alike.

``typeof`` tells what an entry is: its type in SQLite, that of its column in DuckDB.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from opttree.export.columns import Read, codes_of
from opttree.runtime.escape import sql_text
from opttree.tables import numbers
from opttree.tables.encoding import Levels, Missing, Value, level_text

REALS = ("real", "double", "float")
TEXTS = ("text", "varchar")
NUMBERS = (
    *REALS, "integer", "bigint", "smallint", "tinyint", "hugeint", "ubigint", "uinteger", "usmallint", "utinyint",
    "uhugeint", "boolean",
)  # fmt: skip
MOST = repr(sys.float_info.max)  # larger is what is infinite, or NaN, for DuckDB larger than all numbers
LARGEST = repr(numbers.LARGEST)  # `predict` takes no larger features
DAYS_BEFORE = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)  # each month
TWO = "[0-9][0-9]"  # digits
A_DATE = f"'{TWO}{TWO}-{TWO}-{TWO}*'"
ZONES = (
    ("Z", 1),
    (f"[+-]{TWO}:{TWO}", 6),
    (f"[+-]{TWO}{TWO}", 5),
    (f"[+-]{TWO}", 3),
)  # behind a time, and their lengths
LEAPS = 477  # leap days before 1970


def own(letter: str, place: int) -> str:
    """A name of a column that the query makes."""
    return f"opttree_{letter}{place}"


def constant(value: float) -> str:
    """A constant of double precision: with an exponent, since others may be decimals."""
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def label(value: Any) -> str:
    """A label as a constant."""
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return constant(float(value))
    return sql_text(str(value))


def joined(parts: Sequence[str], sign: str) -> str:
    """Parts with a sign between them, in brackets by halves, so that it is not too deep for a parser."""
    if len(parts) <= 8:
        return f"({f' {sign} '.join(parts)})"
    half = len(parts) // 2
    return f"({joined(parts[:half], sign)} {sign} {joined(parts[half:], sign)})"


def is_finite(x: str, most: str = LARGEST) -> str:
    """Whether a number is neither missing nor NaN, and of a size that `predict` takes."""
    return f"{x} BETWEEN -{most} AND {most}"


def _is_nan(x: str) -> str:
    return f"{x} > {MOST} AND -{x} > {MOST}"  # false in SQLite, which has none


def _is_of(entry: str, types: Sequence[str]) -> str:
    decimal = f" OR lower(typeof({entry})) LIKE 'decimal%'" if "real" in types else ""
    return f"(lower(typeof({entry})) IN ({', '.join(map(sql_text, types))}){decimal})"


def as_number(entry: str, otherwise: str = "") -> str:
    """An entry of a table as a number, NULL where it is none."""
    return f"CASE WHEN {_is_of(entry, NUMBERS)} THEN CAST({entry} AS DOUBLE) {otherwise}END"


def typed(read: Read, entry: str) -> list[tuple[str, str]]:
    """What is read of the entries of a column, each as an expression and its name: of a category the level, else the
    number, NULL where it is none, and whether the entry is empty.
    """
    if read.column.is_category:
        return [(_level(read, entry), own("level", read.number))]
    days = f"WHEN CAST({entry} AS VARCHAR) GLOB {A_DATE} THEN {_days(f'CAST({entry} AS VARCHAR)')} "
    value = as_number(entry, days if read.column.kind == "date" else "")
    empty = f"CASE WHEN {entry} IS NULL OR CAST({entry} AS VARCHAR) = '' THEN 1 ELSE 0 END"
    return [(value, own("value", read.number)), (empty, own("empty", read.number))]


def is_taken(read: Read) -> str:
    """Whether `predict` takes an entry of a column of numbers: one that is missing or finite, and within the limits of
    its feature if it is a large one.
    """
    value = own("value", read.number)
    limited = all(not isinstance(feature, Value) or feature.low is not None for _j, feature in read.features)
    finite = is_finite(value, MOST if limited else LARGEST)
    return f"({own('empty', read.number)} = 1 OR {_is_nan(value)} OR {finite})"


def feature_of(read: Read, feature: Any) -> str:
    """A feature of what is `typed`."""
    level, value = own("level", read.number), own("value", read.number)
    missing = f"{level} = ''" if read.column.is_category else f"{own('empty', read.number)} = 1 OR {_is_nan(value)}"
    if isinstance(feature, Missing):
        return f"CASE WHEN {missing} THEN 1e0 ELSE 0e0 END"
    if isinstance(feature, Levels):
        return f"CASE WHEN {missing} THEN {constant(feature.missing)} {_cases(level, feature)} END"
    known = ""
    if feature.low is not None:
        low, high = constant(feature.low), constant(feature.high)
        known = f"WHEN {value} < {low} THEN {low} WHEN {value} > {high} THEN {high} "
    return f"CASE WHEN {missing} THEN {constant(feature.fill)} {known}ELSE {value} END"


def _cases(level: str, feature: Levels) -> str:
    """Cases of the known levels; levels of the same number share a case."""
    groups: dict[float, list[str]] = {}
    for text, value in feature.known.items():
        if value != feature.other:
            groups.setdefault(value, []).append(text)
    cases = [f"WHEN {level} IN ({', '.join(map(sql_text, group))}) THEN {constant(v)}" for v, group in groups.items()]
    return " ".join([*cases, f"ELSE {constant(feature.other)}"])


def _level(read: Read, entry: str) -> str:
    """The level of an entry: '' where it is missing, NULL for numbers that are no level.

    Numbers with a point are compared as numbers, since databases write them in ways of their own, and other entries as
    texts. SQLite has 0 and 1 for booleans.
    """
    real = f"CAST({entry} AS DOUBLE)"
    levels = {level for _j, f in read.features if isinstance(f, Levels) for level in f.numbers}
    codes = {level: code for level, code in codes_of(read).items() if level_text(code) == level}
    booleans = ""
    if levels and levels <= {"True", "False"}:
        codes = {"True": 1.0, "False": 0.0}
        texts = (("True", "'1', 'true'"), ("False", "'0', 'false'"))
        cases = " ".join(f"WHEN CAST({entry} AS VARCHAR) IN ({own}) THEN '{level}'" for level, own in texts)
        booleans = f"WHEN NOT {_is_of(entry, TEXTS)} THEN CASE {cases} END "
    known = " ".join(f"WHEN {real} = {constant(code)} THEN {sql_text(level)}" for level, code in codes.items())
    return (
        f"CASE WHEN {entry} IS NULL THEN '' "
        f"WHEN {_is_of(entry, REALS)} THEN CASE WHEN {_is_nan(real)} THEN '' {known} END "
        f"{booleans}ELSE CAST({entry} AS VARCHAR) END"
    )


def _days(text: str) -> str:
    """Days since 1970 of a date, or a date and a time, as text; NULL for days and times that there are not.

    A time has hours, minutes and seconds, or the first of these. Its zone, if any, is not read: it has to be that
    of the training.
    """

    def part(of: str, first: int, width: int = 2) -> str:
        return f"CAST(substr({of}, {first}, {width}) AS DOUBLE)"

    year, month, day, past = part(text, 1, 4), f"substr({text}, 6, 2)", part(text, 9), f"({part(text, 1, 4)} - 1e0)"
    leaps = " ".join(f"{sign} ({past} - {past} % {n}e0) / {n}e0" for sign, n in (("+", 4), ("-", 100), ("+", 400)))
    is_leap = f"({year} % 4e0 = 0e0 AND ({year} % 100e0 <> 0e0 OR {year} % 400e0 = 0e0))"
    before = " ".join(f"WHEN '{k:02d}' THEN {days}e0" for k, days in enumerate(DAYS_BEFORE, 1))
    leap_day = f"CASE WHEN {month} > '02' AND {is_leap} THEN 1e0 ELSE 0e0 END"
    days = f"365e0 * ({year} - 1970e0) {leaps} - {LEAPS}e0 + CASE {month} {before} END + {leap_day} + {day} - 1e0"
    february = f"CASE WHEN {is_leap} THEN 29e0 ELSE 28e0 END"
    most = f"CASE WHEN {month} IN ('04', '06', '09', '11') THEN 30e0 WHEN {month} = '02' THEN {february} ELSE 31e0 END"
    rest = f"substr({text}, 11)"
    zone = " ".join(f"WHEN {rest} GLOB '*{form}' THEN {width}" for form, width in ZONES)
    time = f"substr({rest}, 2, length({rest}) - 1 - CASE {zone} ELSE 0 END)"
    hour, minute, second = (f"{part(time, first)} * {unit}e0" for first, unit in ((1, 3600), (4, 60), (7, 1)))
    hms, split = f"{hour} + {minute} + {second}", f"CAST('0' || substr({time}, 9) AS DOUBLE)"
    in_a_day = f"{part(time, 1)} < 24e0"
    in_an_hour = f"{in_a_day} AND {part(time, 4)} < 60e0"
    in_a_minute = f"{in_an_hour} AND {part(time, 7)} < 60e0"
    fraction = f"length({time}) > 9 AND trim(substr({time}, 9), '0123456789') = '.'"
    clock = " ".join(
        f"WHEN {form} THEN CASE WHEN {there} THEN {value} END"
        for form, there, value in (
            (f"{time} GLOB '{TWO}'", in_a_day, hour),
            (f"{time} GLOB '{TWO}:{TWO}'", in_an_hour, f"{hour} + {minute}"),
            (f"{time} GLOB '{TWO}:{TWO}:{TWO}'", in_a_minute, hms),
            (f"substr({time}, 1, 8) GLOB '{TWO}:{TWO}:{TWO}' AND {fraction}", in_a_minute, f"{hms} + {split}"),
        )
    )
    seconds = f"CASE WHEN {rest} = '' THEN 0e0 WHEN {rest} GLOB '[ Tt]*' THEN CASE {clock} END END"
    return (
        f"CASE WHEN {year} > 0e0 AND {day} BETWEEN 1e0 AND {most} THEN (({days}) * 86400e0 + {seconds}) / 86400e0 END"
    )
