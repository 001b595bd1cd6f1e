"""Numbers and dates as people write them in tables: thousands, currencies, units, local dates, marks of missing values.

All functions take the different texts of a column.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import warnings
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

MARKS = frozenset(
    {
        "?", "-", "--", "---", ".", "..", "...", "*", "/", "\\n", "na", "n/a", "n.a.", "n.a", "#n/a", "#na", "nan",
        "<na>", "null", "(null)", "none", "(none)", "nil", "nd", "n.d.", "missing", "(missing)", "unknown", "unk",
        "undefined",
        "not available", "not applicable", "k.a.", "k. a.", "keine angabe", "tbd", "blank", "(blank)", "#value!",
        "#div/0!", "#ref!", "#null!", "#num!", "#name?", "\u2013", "\u2014",
    }
)  # fmt: skip
SINGLE_MARK = 0.8  # share of numbers in a column from which its only other text is taken for a mark
MONEY = r"[$\u20ac\u00a3\u00a5\u20b9]|USD|EUR|GBP|CHF|Rs\.?|kr\.?|R\$"
BODY = r"[\d.,'\u2019\u00a0\u202f ]*\d[\d.,]*(?:[eE][+-]?\d+)?"
LETTER = "A-Za-z\u00b0\u00b5\u03bc\u00c0-\u024f\u0400-\u04ff"
UNIT = rf"%|{MONEY}|[{LETTER}]+(?:[ /][{LETTER}]+)?[\u00b2\u00b323]?\.?"
NUMBER = re.compile(
    rf"(?P<open>\()?(?P<sign>[+\-\u2212])?\s*(?P<money>{MONEY})?\s*(?P<inner>[+\-\u2212])?(?P<body>{BODY})"
    rf"\s*(?P<unit>{UNIT})?(?P<close>\))?(?P<after>-)?"
)
GROUPED = re.compile(r"\d{1,3}(?:['\u2019\u00a0\u202f ]\d{3})+(?:[.,]\d*)?")  # 1 234,5
PLAIN = re.compile(r"(?!0\d\d+$)\d+\.?\d*|\.\d+")  # not 007, which is a code
POINT = re.compile(r"[1-9]\d{0,2}(,\d{3})+(\.\d*)?")  # 1,234.5
COMMA = re.compile(r"[1-9]\d{0,2}(\.\d{3})+(,\d*)?|\d+,\d*|,\d+")  # 1.234,5 and 12,5
WHOLE = re.compile(r"(?!0\d\d+$)\d+")
CLOCK = re.compile(r"(\d{1,3}):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?")
ZONE = re.compile(  # after a time; of hours alone after its seconds or minutes
    r"(?<=\d)\s*(?:Z|UTC|GMT|([+-])(0\d|1[0-4]):?([0-5]\d))$|(?<=:[0-5]\d)([+-])(0\d|1[0-4])$"
)
MANY = 2000  # texts that are looked at one by one
DAY_FIRST = ("%d{s}%m{s}%Y", "%d{s}%m{s}%y")
MONTH_FIRST = ("%m{s}%d{s}%Y", "%m{s}%d{s}%y")
YEAR_FIRST = ("%Y{s}%m{s}%d",)
NAMED = (
    "%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%d/%b/%Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y",
    "%d. %B %Y", "%d. %b %Y", "%A, %B %d, %Y", "%a, %d %b %Y", "%a %b %d %Y", "%b-%Y", "%b %Y", "%B %Y", "%b-%y",
    "%Y-%b-%d", "%a %b %d %H:%M:%S %Y", "%d/%b/%Y:%H:%M:%S", "%Y%m%dT%H%M%S",
)  # fmt: skip
TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", " %I:%M%p", ", %H:%M", ", %I:%M %p")
DATE_ORDERS = ("auto", "day-first", "month-first", "none")
OPTIONAL = " (time)"  # in place of a time: on some rows
FEW = 50  # texts on which a format is tried first


@dataclass(frozen=True)
class Found:
    """What the texts of a column were read as.

    values : the value of each text, NaN or NaT for marks.
    how : in words, such as "numbers with a decimal comma".
    marks : the texts that were taken for missing.
    form : of numbers the decimal sign, of dates the format of `strptime`, or "ISO8601".
    """

    values: dict[str, Any]
    how: str
    marks: tuple[str, ...] = ()
    form: str = ""


def marks_in(texts: Sequence[str]) -> list[str]:
    """The texts that usually mark missing values."""
    return [text for text in texts if text.strip().lower() in MARKS]


def as_numbers(
    texts: Sequence[str],
    counts: Sequence[int],
    decimal: str | None = None,
    thousands: str | None = None,
    blanks: Collection[str] | None = None,
) -> Found | None:
    """The numbers that all texts, but for marks of missing values, are written of; None if they are not.

    ``decimal`` and ``thousands`` say how they are written; where they are None, the texts decide. With ``blanks``,
    these texts and the usual marks alone are missing values; else the only text of a column of numbers is one, too.
    """
    first = [text for text in texts[:FEW] if NUMBER.fullmatch(text.strip()) is None]
    if len(first) > 1 + len(marks_in(first)) + len(blanks or ()):
        return None
    marks = {*marks_in(texts), *({*texts} & {*(blanks or ())})}
    rows = dict(zip(texts, counts, strict=True))
    parts = {text: NUMBER.fullmatch(text.strip()) for text in texts if text not in marks}
    others = [text for text, match in parts.items() if match is None]
    if blanks is None and len(others) == 1 and not re.search(r"\d", others[0]):
        numeric = sum(rows[text] for text, match in parts.items() if match is not None)
        if numeric >= max(SINGLE_MARK * (numeric + rows[others[0]]), 10):
            marks.add(others.pop())
    if others:
        return None
    matches = {text: match for text, match in parts.items() if match is not None}
    if blanks is not None and not matches:
        return Found(dict.fromkeys(marks, np.nan), "numbers", tuple(sorted(marks)))
    units = Counter((match["unit"] or match["money"] or "").strip() for match in matches.values())
    plain = units.pop("", 0)
    unit = next(iter(units), "")
    is_money = re.fullmatch(MONEY, unit) is not None
    if not matches or len(units) > 1 or (unit and plain and not is_money) or re.fullmatch("[A-Zk]", unit):
        return None  # of several units, or of a letter that may be a factor, or part of a code
    if unit and not is_money and any(match["body"].endswith(".") for match in matches.values()):
        return None  # as in 3. March
    if any(
        re.search(r"['\u2019\u00a0\u202f ]", match["body"]) and not GROUPED.fullmatch(match["body"])
        for match in matches.values()
    ):
        return None
    bodies = {text: _joined(match["body"]) for text, match in matches.items()}
    if decimal is None:
        decimal = decimal_of(list(bodies.values()))
    if decimal is None:
        return None
    group = thousands if thousands is not None else "," if decimal == "." else "."
    right = (PLAIN, POINT) if decimal == "." else (WHOLE, COMMA)
    values: dict[str, Any] = dict.fromkeys(marks, np.nan)
    for text, match in matches.items():
        body, _e, power = bodies[text].partition("e")
        if thousands is None and not any(form.fullmatch(body) for form in right):
            return None
        try:
            value = float(body.replace(group, "").replace(decimal, ".") + (f"e{power}" if power else ""))
        except ValueError:
            return None
        minus = [match["sign"], match["inner"], match["after"]]
        negative = any(sign in ("-", "\u2212") for sign in minus) or bool(match["open"] and match["close"])
        values[text] = -value if negative else value
    words = _words(matches, bodies, decimal, set(units))
    return Found(values, words, tuple(sorted(marks)), decimal)


def as_plain_numbers(texts: Sequence[str], decimal: str | None, thousands: str | None) -> Found | None:
    """`as_numbers` of many texts: what holds for some of them is tried on all; None where it does not hold."""
    some = as_numbers(texts[:MANY], [1] * MANY, decimal, thousands)
    if some is None or some.marks:
        return None
    comma = decimal == "," or (decimal is None and "comma" in some.how)
    group = thousands if thousands is not None else "." if comma else ","
    table = str.maketrans({group: None, ",": "."} if comma else {group: None})
    try:
        values = dict(zip(texts, [float(text.translate(table)) for text in texts], strict=True))
    except ValueError:
        return None
    plain = np.isfinite(list(values.values())).all() and not any("_" in text for text in texts)
    return Found(values, some.how, (), "," if comma else ".") if plain else None


def as_clock(texts: Sequence[str], blanks: Collection[str] = ()) -> Found | None:
    """Times of the day, or lengths of time, such as 14:30, in hours; None if one of the texts is no such time."""
    marks = [*marks_in(texts), *({*texts} & {*blanks})]
    values: dict[str, Any] = dict.fromkeys(marks, np.nan)
    for text in texts:
        if text in values:
            continue
        match = CLOCK.fullmatch(text)
        if match is None:
            return None
        values[text] = int(match[1]) + int(match[2]) / 60.0 + float(match[3] or 0.0) / 3600.0
    return Found(values, "times such as 14:30, in hours", tuple(marks)) if blanks or len(values) > len(marks) else None


def is_number(text: str) -> bool:
    """Whether a text is a number, without a unit."""
    body = text.strip().lstrip("+-").partition("e")[0]
    return any(form.fullmatch(body) for form in (PLAIN, POINT, COMMA))


def decimal_of(bodies: Sequence[str]) -> str | None:
    """The decimal sign of numbers, "." where both would do; None where neither does."""
    mantissas = [body.partition("e")[0] for body in bodies]
    for decimal, forms in ((".", (PLAIN, POINT)), (",", (WHOLE, COMMA))):
        if all(any(form.fullmatch(body) for form in forms) for body in mantissas):
            return decimal
    return None


def _joined(body: str) -> str:
    """A number without the blanks and apostrophes between its thousands."""
    return re.sub(r"['\u2019\u00a0\u202f ]", "", body).replace("E", "e").replace("e+", "e")


def _words(matches: Any, bodies: dict[str, str], decimal: str, units: set[str]) -> str:
    parts = []
    if decimal == "," and any("," in body for body in bodies.values()):
        parts.append("a decimal comma")
    group = "," if decimal == "." else "."
    if any(group in body for body in bodies.values()):
        parts.append(f"{group!r} between thousands")
    money = {match["money"] for match in matches.values()} - {None}
    for sign in sorted(units | money):
        parts.append(f"{sign!r}")
    return "numbers" + (f" with {' and '.join(parts)}" if parts else "")


def as_dates(
    texts: Sequence[str], order: str = "auto", form: str | None = None, blanks: Collection[str] = ()
) -> Found | None:
    """The dates that all texts, but for marks of missing values, are written of; None if they are not.

    ``order`` is "day-first", "month-first" or "auto"; ``form`` a format that is known. Times with zones
    become those of UTC, and say so where all have one.
    """
    marks = [*marks_in(texts), *({*texts} & {*blanks})]
    written = [text for text in texts if text not in set(marks)]
    if form is not None and not written:
        return Found(dict.fromkeys(marks, pd.NaT), "dates", tuple(marks), form)
    first = [_clock(text) for text in written[:FEW]]
    if not first or not all(re.search(r"\d", text) and 6 <= len(text) <= 40 for text in first):
        return None
    likely = [one for one in ([form] if form else _forms(first[0], order)) if _fits(first[0], one)]
    likely = [one for one in likely if _parsed(first, one) is not None]
    there = [_clock(text) for text in written] if likely else []
    ahead = pd.to_timedelta([_ahead(text) for text in written], unit="min") if likely else None
    results = [(one, parsed - ahead) for one in likely if (parsed := _parsed(there, one)) is not None]
    if not results:
        return None
    chosen, parsed = results[0]
    how = "dates" if chosen == "ISO8601" else f"dates like {there[0]!r} ({chosen})"
    if order == "auto" and form is None:
        days = [one for one in results if one[0].startswith("%d")]
        months = [one for one in results if one[0].startswith("%m")]
        if days and months:
            in_order = [
                one[0][1].is_monotonic_increasing or one[0][1].is_monotonic_decreasing for one in (days, months)
            ]
            chosen, parsed = days[0] if in_order == [True, False] else months[0]
            other = "day-first" if chosen.startswith("%m") else "month-first"
            how = f"dates like {there[0]!r}, {chosen}; they could be {other} as well (--dates {other})"
    if all(_zone(text) for text in written):
        parsed = pd.DatetimeIndex(parsed).tz_localize("UTC")
    values: dict[str, Any] = dict.fromkeys(marks, pd.NaT)
    values.update(zip(written, parsed, strict=True))
    return Found(values, how, tuple(marks), chosen)


def _clock(text: str) -> str:
    """A date's text without blanks around it and without its zone."""
    return ZONE.sub("", text.strip()) if ":" in text else text.strip()


def _zone(text: str) -> re.Match[str] | None:
    """The zone of a date's text, if it has one."""
    return ZONE.search(text.strip()) if ":" in text else None


def _ahead(text: str) -> int:
    """Minutes by which the zone of a date's text is ahead of UTC; 0 without one."""
    zone = _zone(text)
    if zone is None or not (sign := zone[1] or zone[4]):
        return 0
    return int(sign + "1") * (60 * int(zone[2] or zone[5]) + int(zone[3] or 0))


def _forms(text: str, order: str) -> list[str]:
    """Formats that a text may be of; those of dates with times on some rows come last."""
    if re.match(r"\d{4}-\d\d($|-\d\d)", text):
        return ["ISO8601", "%Y-%m"]
    dates = list(NAMED) if re.search(r"[A-Za-z]{3}", text.replace("AM", "").replace("PM", "")) else []
    separator = re.match(r"\d{1,4}([./-]) ?\d{1,2}\1 ?\d{1,4}", text)
    if separator:
        orders = {"day-first": DAY_FIRST, "month-first": MONTH_FIRST}.get(order, (*MONTH_FIRST, *DAY_FIRST))
        if separator[1] == "." and order == "auto":
            orders = DAY_FIRST
        dates += [one.replace("{s}", separator[1]) for one in (*YEAR_FIRST, *orders)]
    elif re.match(r"\d{1,4}/\d{1,4}$", text):
        dates += ["%m/%Y", "%Y/%m"]
    return [f"{date}{time}" for date in dates for time in (("",) if "%H" in date else (*TIMES, OPTIONAL))]


def _fits(text: str, form: str) -> bool:
    """Whether one text is of a format, where this is quickly found out."""
    if form == "ISO8601" or form.endswith(OPTIONAL):
        return True
    with contextlib.suppress(ValueError):
        datetime.datetime.strptime(text, form)
        return True
    return False


def _parsed(texts: Sequence[str], form: str) -> Any:
    """The dates; None if one text is of another format. With two digits of a year, none is after the next year."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if form.endswith(OPTIONAL):
                date = form.removesuffix(OPTIONAL)
                dates = pd.Series(pd.NaT, range(len(texts)))
                for time in TIMES:
                    more = pd.Series(pd.to_datetime(list(texts), format=date + time, errors="coerce"))
                    dates = more if dates.isna().all() else dates.fillna(more)
            else:
                dates = pd.Series(pd.to_datetime(list(texts), format=form, errors="coerce"))
        except (ValueError, TypeError, OverflowError):
            return None
    if dates.isna().any():
        return None
    if "%y" in form:
        late = dates.dt.year > pd.Timestamp.now().year + 1
        dates = dates.where(~late, dates - pd.DateOffset(years=100))
    return dates
