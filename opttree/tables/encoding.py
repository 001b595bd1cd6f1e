"""`Encoding`: how the columns of a table become the numbers that trees split on."""

from __future__ import annotations

import datetime
import math
import numbers as kinds_of_numbers
import re
import zoneinfo
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from opttree.runtime.words import shown, threshold as as_threshold
from opttree.tables.checks import as_given, warn
from opttree.tables.numbers import LARGEST

__all__ = ["Encoding", "Levels", "Missing", "Unread", "Value"]

Floats = NDArray[np.float64]
Kind = Literal["number", "boolean", "date", "category", "code"]
KINDS = ("number", "boolean", "date", "category", "code")
WHOLE = re.compile(r"-?\d+\.0")  # a whole number that a program has written with a point
DAY, DECIMALS = 86_400.0, 5  # seconds; decimals of seconds that days after 1970 have for certain
EPOCH = datetime.datetime(1970, 1, 1)
MOST_NAMED = 8  # levels of a category that a text lists
MOST_NEW, FEWEST_NEW = 0.3, 20  # share of rows with levels that a model does not know, and rows, that give a warning


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, and what it holds. A "code" is a category whose levels are numbers; dates with a
    time zone are as clocks of that ``zone`` show them, whatever the zone of new ones.
    """

    name: str
    kind: Kind
    zone: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise ValueError(f"the name of a column must be text; got {shown(self.name)}")
        if self.zone != "" and (not isinstance(self.zone, str) or _zone(self.zone) is None):
            raise ValueError(f"zone must be the name of a time zone; got {shown(self.zone)}")
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise ValueError(f"kind must be one of {list(KINDS)}; got {shown(self.kind)}")

    @property
    def is_category(self) -> bool:
        """Whether it has levels, of text or of numbers."""
        return self.kind in ("category", "code")


@dataclass(frozen=True)
class Value:
    """A number, or a date in days since 1970.

    With ``low`` and ``high``, numbers are clipped to this range. Where ``fill`` lies outside of it, a threshold sends
    missing ones to one side; where it lies inside, outlying numbers are clipped and missing ones are like another.

    Parameters
    ----------
    column : int
        Number of the column.
    fill : float
        The number where the column is missing.
    low, high : float or None, default None
        Range of the numbers.

    See Also
    --------
    Encoding : what holds it
    Levels, Missing : the other kinds

    Examples
    --------
    >>> import pandas as pd
    >>> from opttree import TAOClassifier
    >>> table = pd.DataFrame({"colour": ["red", "blue"] * 30, "size": [1.0, None, 3.0] * 20})
    >>> model = TAOClassifier(max_depth=2, splits="axis", random_state=0).fit(table, ["yes", "no", "no"] * 20)
    >>> encoding = model.tree_.encoding
    >>> from opttree.encoding import Value
    >>> any(isinstance(feature, Value) for feature in encoding.features)
    True
    """

    column: int
    fill: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Missing:
    """1 where the column is missing, 0 elsewhere.

    Parameters
    ----------
    column : int
        Number of the column.

    See Also
    --------
    Encoding : what holds it
    Levels, Value : the other kinds

    Examples
    --------
    >>> import pandas as pd
    >>> from opttree import TAORegressor
    >>> from opttree.encoding import Missing
    >>> table = pd.DataFrame({"size": [1.0, None, 3.0] * 20})
    >>> model = TAORegressor(max_depth=1, random_state=0).fit(table, [0.0, 5.0, 1.0] * 20)
    >>> any(isinstance(feature, Missing) for feature in model.tree_.encoding.features)
    True
    """

    column: int


@dataclass(frozen=True)
class Levels:
    """A number for each category.

    Parameters
    ----------
    column : int
        Number of the column.
    numbers : mapping of str to float
        The number of each known category.
    other : float
        The number of categories that are not known.
    missing : float
        The number where the column is missing.
    of : str, default "indicator"
        What the numbers are. "indicator": 1 for the levels in ``numbers``, 0 for the others. Else the mean of the
        target in each category, or the share of a class, which ``of`` names.
    rare : float, default 0.0
        Share of the training rows whose categories were too rare to be known.

    See Also
    --------
    Encoding : what holds it
    Value, Missing : the other kinds

    Examples
    --------
    >>> import pandas as pd
    >>> from opttree import TAOClassifier
    >>> table = pd.DataFrame({"colour": ["red", "blue"] * 30, "size": [1.0, None, 3.0] * 20})
    >>> model = TAOClassifier(max_depth=2, splits="axis", random_state=0).fit(table, ["yes", "no"] * 30)
    >>> encoding = model.tree_.encoding
    >>> from opttree.encoding import Levels
    >>> any(isinstance(feature, Levels) for feature in encoding.features)
    True
    """

    column: int
    numbers: Mapping[str, float] = field(hash=False)
    other: float
    missing: float
    of: str = "indicator"
    rare: float = 0.0

    def number_of(self, level: str) -> float:
        """Number of a category.

        Parameters
        ----------
        level : str
            The category, as text.

        Returns
        -------
        float
            Its number.
        """
        return self.missing if level == "" else self.numbers.get(level, self.other)

    @cached_property
    def known(self) -> dict[str, float]:
        """The number of every text that other programs may write for a level: 1 is 1.0 in some, and 0 may be -0.0."""
        numbers = dict(self.numbers)
        for level, value in self.numbers.items():
            if re.fullmatch(r"-?\d+", level):
                numbers.setdefault(f"{level}.0", value)
                if level == "0":
                    numbers.setdefault("-0", value)
                    numbers.setdefault("-0.0", value)
        return numbers


@dataclass(frozen=True)
class Unread:
    """A feature that no split and no leaf of a model reads; it is 0, and nothing of its column is kept.

    Parameters
    ----------
    column : int
        Number of the column.

    See Also
    --------
    Encoding.only : what makes it
    Levels, Missing, Value : the other kinds

    Examples
    --------
    >>> import pandas as pd
    >>> from opttree import TAORegressor
    >>> from opttree.encoding import Unread
    >>> table = pd.DataFrame({"size": [1.0, 2.0, 3.0] * 20, "kind": ["a", "b"] * 30})
    >>> model = TAORegressor(max_depth=1, splits="axis", random_state=0).fit(table, [0.0, 5.0, 5.0] * 20)
    >>> any(isinstance(feature, Unread) for feature in model.tree_.encoding.features)
    True
    """

    column: int


Feature = Value | Missing | Levels | Unread
FEATURES: dict[str, type] = {"value": Value, "missing": Missing, "levels": Levels, "unread": Unread}


@dataclass(frozen=True)
class Encoding:
    """Columns of a table, and the features made of them, each from one column. Immutable, and free of code: it is
    written into model files.

    Parameters
    ----------
    columns : tuple of Column
        The columns, in the order of the training table.
    features : tuple of Value, Missing, Levels or Unread
        The features.

    Raises
    ------
    ValueError
        For columns of one name, a feature that does not fit its column, and numbers that are not finite.

    See Also
    --------
    opttree.TableEncoder : learns it from a table
    Levels, Value, Missing, Unread : what a feature is made of

    Examples
    --------
    >>> import pandas as pd
    >>> from opttree import TAOClassifier
    >>> table = pd.DataFrame({"colour": ["red", "blue"] * 30, "size": [1.0, None, 3.0] * 20})
    >>> model = TAOClassifier(max_depth=2, splits="axis", random_state=0).fit(table, ["yes", "no"] * 30)
    >>> encoding = model.tree_.encoding
    >>> [column.name for column in encoding.columns]
    ['colour', 'size']
    """

    columns: tuple[Column, ...]
    features: tuple[Feature, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "features", tuple(self.features))
        names = [column.name for column in self.columns]
        if len(set(names)) < len(names):
            raise ValueError("the columns of an encoding must have different names")
        for feature in self.features:
            if type(feature.column) is not int or not 0 <= feature.column < len(self.columns):
                raise ValueError(f"column must be one of 0..{len(self.columns) - 1}; got {shown(feature.column)}")
            _check_feature(feature, self.columns[feature.column])

    @property
    def n_features(self) -> int:
        """Number of features, p."""
        return len(self.features)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the features, each another but for unread ones."""
        taken = {column.name for column in self.columns}
        names = []
        for feature in self.features:
            name = self._name(feature)
            if name != self.columns[feature.column].name:
                while name in taken:  # a column may be called "age=missing"
                    name += "'"
                taken.add(name)
            names.append(name)
        return tuple(names)

    @cached_property
    def read(self) -> frozenset[int]:
        """Numbers of the columns that a feature is made of."""
        return frozenset(feature.column for feature in self.features if not isinstance(feature, Unread))

    def only(self, used: NDArray[np.bool_]) -> Encoding:
        """The encoding with those features alone that a model uses: of the others nothing is kept.

        Parameters
        ----------
        used : ndarray of bool of shape (p,)
            Whether a feature is used.

        Returns
        -------
        Encoding
            The encoding, of as many features.
        """
        features = [f if u else Unread(f.column) for f, u in zip(self.features, used, strict=True)]
        return Encoding(self.columns, tuple(features))

    @cached_property
    def sources(self) -> NDArray[np.intp]:
        """(p,) number of the column of each feature."""
        return np.array([feature.column for feature in self.features], np.intp)

    def _name(self, feature: Feature) -> str:
        column = self.columns[feature.column]
        if isinstance(feature, Unread):
            return column.name
        if isinstance(feature, Missing):
            return f"{column.name}=missing"
        if isinstance(feature, Levels):
            if feature.of != "indicator":
                return f"mean({column.name})" if feature.of == "mean" else f"share({column.name}, {feature.of})"
            return f"{column.name}={'other' if feature.other else '|'.join(feature.numbers)}"
        return f"{column.name} (days)" if column.kind == "date" else column.name

    # ---- tables -----------------------------------------------------------------------------------------------------

    def transform(self, X: Any) -> Floats:
        """Features of a table, whose columns are found by name, or of an array, whose columns are found by place.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows of the table. Columns that no feature is made of may be absent from a table.

        Returns
        -------
        ndarray of shape (n, q)
            The features.

        Raises
        ------
        ValueError
            For a column that is absent, or holds text where numbers are needed, or infinity.
        """
        raw = raw_columns(X, self.columns, self.read)
        self._warn_of_new_levels(raw)
        return self.encode(raw)

    def _warn_of_new_levels(self, raw: Sequence[Any]) -> None:
        """A `TableWarning` for each column of which many more rows than in training have levels that are not known."""
        for c in self.read:
            if not self.columns[c].is_category or len(raw[c]) < FEWEST_NEW:
                continue
            of_column = [feature for feature in self.features if feature.column == c]
            levels = {level for feature in of_column if isinstance(feature, Levels) for level in feature.numbers}
            if not levels or any(isinstance(feature, Unread) for feature in of_column):  # not all that it knew
                continue
            rare = max(feature.rare for feature in of_column if isinstance(feature, Levels))
            new = sum(level != "" and level not in levels for level in raw[c])
            if new > (rare + MOST_NEW) * len(raw[c]):
                first = next(level for level in raw[c] if level != "" and level not in levels)
                known = f"{new} of {len(raw[c])} rows have levels that the model does not know"
                warn(f"column {self.columns[c].name!r}: {known}, such as {shown(first)}")

    def encode(self, raw: Sequence[Any]) -> Floats:
        """Features of columns.

        Parameters
        ----------
        raw : sequence
            The columns as `raw_columns` gives them.

        Returns
        -------
        ndarray of shape (n, q)
            The features.
        """
        n = len(raw[0]) if raw else 0
        Z = np.empty((n, self.n_features))
        codes: dict[int, tuple[list[str], NDArray[np.intp]]] = {}
        for j, feature in enumerate(self.features):
            column = raw[feature.column]
            if isinstance(feature, Levels):
                if feature.column not in codes:
                    codes[feature.column] = coded(column)
                levels, code = codes[feature.column]
                known = [feature.number_of(level) for level in levels]
                Z[:, j] = np.array(known, np.float64)[code] if n else 0.0
            elif isinstance(feature, Missing):
                is_text = self.columns[feature.column].is_category
                Z[:, j] = np.array([v == "" for v in column], np.float64) if is_text else np.isnan(column)
            elif isinstance(feature, Unread):
                Z[:, j] = 0.0
            else:
                numbers = column if feature.low is None else np.clip(column, feature.low, feature.high)
                Z[:, j] = np.where(np.isnan(column), feature.fill, numbers)
        return Z

    # ---- words ------------------------------------------------------------------------------------------------------

    def sides(
        self,
        j: int,
        weight: float,
        threshold: float,
        digits: int = 4,
        *,
        whole: bool = False,
        within: tuple[float, float] = (-math.inf, math.inf),
    ) -> tuple[str, str]:
        """The condition ``weight * feature j <= threshold`` and its opposite, in words.

        Parameters
        ----------
        j : int
            Number of the feature.
        weight : float
            Weight of the feature.
        threshold : float
            Threshold of the split.
        digits : int, default 4
            Significant digits of numbers; thresholds have more where these are needed.
        whole : bool, default False
            Whether to name all levels, however many there are.
        within : tuple[float, float]
            The numbers of the feature of rows that come to the split: more than the first, at most the second. Levels
            of others are not named.

        Returns
        -------
        tuple[str, str]
            The condition and its opposite.
        """
        feature, column = self.features[j], self.columns[self.features[j].column]
        name = column.name
        if isinstance(feature, Missing):
            words = f"{name} present", f"{name} missing"
            return words if threshold >= 0.0 else words[::-1]
        if isinstance(feature, Unread):
            return f"{name} is any", f"{name} is none"
        if isinstance(feature, Levels):
            return self._of_levels(feature, name, weight, threshold, math.inf if whole else MOST_NAMED, within)
        at = threshold / weight
        shown = _date(at) if column.kind == "date" else as_threshold(at, digits)
        if column.kind == "boolean" and feature.low is None and 0.0 <= at < 1.0:
            below, above = f"not {name}", name
        elif feature.low is None or feature.high is None or feature.low <= feature.fill <= feature.high:
            below, above = f"{name} <= {shown}", f"{name} > {shown}"
            if weight < 0.0:
                below, above = f"{name} < {shown}", f"{name} >= {shown}"
        elif feature.fill < feature.low:
            missing = at < feature.low
            below = f"{name} missing" if missing else f"{name} <= {shown} or missing"
            above = f"{name} present" if missing else f"{name} > {shown}"
        else:
            missing = at >= feature.high
            below = f"{name} present" if missing else f"{name} <= {shown}"
            above = f"{name} missing" if missing else f"{name} > {shown} or missing"
        return (below, above) if weight > 0.0 else (above, below)

    @staticmethod
    def _of_levels(
        feature: Levels, name: str, weight: float, threshold: float, most: float, within: tuple[float, float]
    ) -> tuple[str, str]:
        groups: tuple[list[str], list[str]] = ([], [])
        for level, value in feature.numbers.items():
            groups[not weight * value <= threshold].append(level)
        if feature.of == "indicator":
            inside = list(feature.numbers)
            words = "other" if feature.other else inside[0] if len(inside) == 1 else "{" + ", ".join(inside) + "}"
            verb = "is" if feature.other or len(inside) == 1 else "in"
            no, yes = (
                f"{name} {verb} not {words}" if verb == "is" else f"{name} not in {words}",
                f"{name} {verb} {words}",
            )
            return (yes, no) if groups[0] else (no, yes)
        low, high = within
        beside: tuple[list[str], list[str]] = ([], [])  # what is no level of its own
        if feature.missing != feature.other and low < feature.missing <= high:
            beside[not weight * feature.missing <= threshold].append("missing")
        if low < feature.other <= high:
            beside[not weight * feature.other <= threshold].append("other")
        for group, others in zip(groups, beside, strict=True):
            arriving = [level for level in group if low < feature.numbers[level] <= high]
            if arriving or others:  # of a split that parts nothing, all are named
                group[:] = arriving
        left, right = (f"{name} in {{{_listed(*both, most)}}}" for both in zip(groups, beside, strict=True))
        return left, right

    def value_text(self, column: int, raw: Any, digits: int = 4) -> str:
        """Entry of a column in words.

        Parameters
        ----------
        column : int
            Number of the column.
        raw : float or str
            The entry as `raw_columns` gives it.
        digits : int, default 4
            Significant digits of numbers.

        Returns
        -------
        str
            The entry in words.
        """
        kind = self.columns[column].kind
        if self.columns[column].is_category:
            return raw or "missing"
        if np.isnan(raw):
            return "missing"
        if kind == "boolean" and raw in (0.0, 1.0):
            return str(bool(raw))
        return _date(raw) if kind == "date" else as_threshold(raw, digits)

    @staticmethod
    def date_text(days: float) -> str:
        """Date as text.

        Parameters
        ----------
        days : float
            Days since 1970.

        Returns
        -------
        str
            The date.
        """
        return _date(days)

    @staticmethod
    def of_numbers(names: Sequence[str]) -> Encoding:
        """Encoding of columns of numbers without missing values, as they are.

        Parameters
        ----------
        names : sequence of str
            Names of the columns.

        Returns
        -------
        Encoding
            The encoding.
        """
        return Encoding(
            tuple(Column(name, "number") for name in names), tuple(Value(j, 0.0) for j in range(len(names)))
        )

    # ---- in and out -------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, texts and numbers that `json` can write."""
        kinds = {kind: name for name, kind in FEATURES.items()}
        features = [{"kind": kinds[type(feature)], **asdict(feature)} for feature in self.features]
        columns = [[c.name, c.kind, c.zone] if c.zone else [c.name, c.kind] for c in self.columns]
        return {"columns": columns, "features": features}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Encoding:
        """Encoding from its dictionary.

        Parameters
        ----------
        data : mapping
            What `to_dict` returned.

        Returns
        -------
        Encoding
            The encoding.

        Raises
        ------
        ValueError
            For damaged content.
        """
        try:
            columns = tuple(Column(name, kind, *zone) for name, kind, *zone in data["columns"])
            features = [
                FEATURES[entry["kind"]](**{key: value for key, value in entry.items() if key != "kind"})
                for entry in data["features"]
            ]
            return Encoding(columns, tuple(features))
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"an encoding needs columns and features; got something else ({error})") from error


def _check_feature(feature: Feature, column: Column) -> None:
    """ValueError for a feature that does not fit its column, or that holds what is no finite number."""
    if isinstance(feature, Value):
        if column.is_category:
            raise ValueError(f"column {column.name!r} has levels; got a feature of numbers")
        _check_finite("fill", feature.fill)
        if (feature.low is None) != (feature.high is None):
            raise ValueError("low and high must be given together; got one of them")
        if feature.low is not None and feature.high is not None:
            _check_finite("low", feature.low)
            _check_finite("high", feature.high)
            if feature.low > feature.high:
                raise ValueError(f"low must be at most high; got {feature.low} and {feature.high}")
    elif isinstance(feature, Levels):
        if not column.is_category:
            raise ValueError(f"column {column.name!r} holds {column.kind}s; got a feature of levels")
        if not isinstance(feature.numbers, Mapping) or not isinstance(feature.of, str):
            raise ValueError("levels need numbers for texts, and what they are of; got something else")
        for level, value in feature.numbers.items():
            if not isinstance(level, str) or level == "":
                raise ValueError(f"levels must be texts that are not empty; got {shown(level)}")
            _check_finite(f"the number of level {shown(level)}", value)
        _check_finite("other", feature.other)
        _check_finite("missing", feature.missing)
        _check_finite("rare", feature.rare)
    elif not isinstance(feature, (Missing, Unread)):
        raise ValueError(f"a feature must be one of {', '.join(FEATURES)}; got {shown(feature)}")


def _check_finite(name: str, value: Any) -> None:
    is_number = isinstance(value, kinds_of_numbers.Real) and not isinstance(value, (bool, np.bool_))
    if not is_number or not np.isfinite(float(value)):
        raise ValueError(f"{name} must be finite; got {shown(value)}")
    if abs(float(value)) > LARGEST:
        raise ValueError(f"{name} must be at most {LARGEST:g} in size; got {shown(value)}")


def check_encoding(encoding: Encoding | None, n_features: int) -> None:
    """ValueError if an encoding makes another number of features than a model has."""
    if encoding is not None and encoding.n_features != n_features:
        raise ValueError(f"encoding must make the model's {n_features} features; it makes {encoding.n_features}")


def _listed(levels: Sequence[str], beside: Sequence[str], most: float) -> str:
    """Some levels in a row and how many more there are, and what else is among them."""
    if len(levels) + len(beside) <= most:
        return ", ".join([*levels, *beside])
    named = max(int(most) - 1 - len(beside), 1)
    more = [f"{len(levels) - named} more"] if len(levels) > named else []
    return ", ".join([*levels[:named], *more, *beside])


def _date(days: float) -> str:
    """The day or, within a day, the time, so many days after 1970 began."""
    try:
        moment = EPOCH + datetime.timedelta(seconds=round(days * DAY, DECIMALS))
    except OverflowError:
        return f"day {days:.6g}"
    if moment.time() == datetime.time():
        return moment.strftime("%Y-%m-%d")
    if moment.microsecond:
        return moment.strftime("%Y-%m-%d %H:%M:%S.%f").rstrip("0")
    return moment.strftime("%Y-%m-%d %H:%M:%S" if moment.second else "%Y-%m-%d %H:%M")


def coded(texts: Sequence[str]) -> tuple[list[str], NDArray[np.intp]]:
    """The different texts, and the number of each entry's."""
    levels = list(dict.fromkeys(texts))
    numbers = dict(zip(levels, range(len(levels)), strict=True))
    return levels, np.fromiter(map(numbers.__getitem__, texts), np.intp, len(texts))


class _Texts(dict[str, str]):
    """`level_text` of texts, each computed once."""

    def __missing__(self, text: str) -> str:
        self[text] = found = level_text(text)
        return found


def level_texts(values: Sequence[Any]) -> list[str]:
    """`level_text` of each value; of equal texts one object."""
    known = _Texts()
    return [known[v] if type(v) is str else level_text(v) for v in values]


def level_text(value: Any) -> str:
    """A category as text; "" for a missing one. Whole numbers are written alike, whether read as 3, 3.0 or "3.0"."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        if value.endswith(".0") and WHOLE.fullmatch(value):
            value = value[:-2]
        return "0" if value == "-0" else value
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return ""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


# ---- the columns of tables --------------------------------------------------------------------------------------


def is_table(X: Any) -> bool:
    """Whether X is a DataFrame or a Table, of any library."""
    return hasattr(X, "columns") and hasattr(X, "shape") and not isinstance(X, np.ndarray)


def table_names(X: Any) -> list[Any] | None:
    """The names of the columns of a table, or None for an array."""
    if not is_table(X):
        return None
    names = getattr(X, "column_names", None)  # pyarrow's columns are the data
    return list(X.columns if names is None else names)


def raw_columns(X: Any, columns: Sequence[Column], read: Collection[int] | None = None) -> list[Any]:
    """The columns of a table as they are encoded: float64 with NaN (n,), or lists of texts with "" for missing ones.

    With ``read``, the numbers of columns, the others are taken for missing, and may be absent from a table.

    Raises
    ------
    ValueError
        For a column that is absent, text where numbers are needed, or infinity.
    """
    names = table_names(X)
    wanted = range(len(columns)) if read is None else read
    if names is None:
        array = X if isinstance(X, np.ndarray) else np.asarray(X, object)
        if array.ndim != 2 or array.shape[1] != len(columns):
            raise ValueError(f"X must have shape (n, {len(columns)}); got {array.shape}")
        n, of = len(array), {j: array[:, j] for j in wanted}
    else:
        frame = narwhal(X)
        places = {str(name): name for name in names}
        absent = [columns[j].name for j in wanted if columns[j].name not in places]
        if absent:
            raise ValueError(f"X must have the columns the model was trained on; got none called {absent[0]!r}")
        n, of = frame.shape[0], {j: frame.get_column(places[columns[j].name]) for j in wanted}
    return [
        raw_column(of[j], column) if j in of else [""] * n if column.is_category else np.full(n, np.nan)
        for j, column in enumerate(columns)
    ]


def rows_of(X: Any, rows: NDArray[np.intp]) -> Any:
    """Some rows of an array or a table."""
    return narwhal(X)[rows].to_native() if is_table(X) else X[rows]


def narwhal(X: Any) -> Any:
    """A table of any library, by narwhals; sparse columns of pandas become dense."""
    import narwhals as nw

    return nw.from_native(as_given(X), eager_only=True)


def kind_of(values: Any, name: str) -> Kind:
    """What a column of narwhals, or of an array (n,), holds.

    Raises
    ------
    ValueError
        For what is no number, text, boolean or date, such as lists.
    """
    import narwhals as nw

    if isinstance(values, np.ndarray):
        if values.dtype.kind in "iuf":
            return "number"
        return "boolean" if values.dtype.kind == "b" else _kind_of_objects(values.tolist(), name)
    kind = _known(values).dtype
    if kind.is_numeric() or isinstance(kind, nw.Duration):
        return "number"
    if isinstance(kind, nw.Boolean):
        return "boolean"
    if isinstance(kind, (nw.Date, nw.Datetime)):
        return "date"
    if isinstance(kind, (nw.String, nw.Categorical, nw.Enum)):
        return "category"
    return _kind_of_objects(values.to_list(), name)


def _kind_of_objects(values: Sequence[Any], name: str) -> Kind:
    there = [v for v in values if not is_missing(v)]
    if there and all(isinstance(v, (bool, np.bool_)) for v in there):
        return "boolean"
    if there and all(isinstance(v, datetime.date) for v in there):
        return "date"
    if all(_is_number(v) for v in there):
        return "number"
    for value in there:
        if not isinstance(value, (str, bytes, bool, np.bool_, datetime.date)) and not _is_number(value):
            rule = f"X column {name!r} must hold numbers, text, booleans or dates"
            hint = ": convert it with .dt.to_timestamp()" if type(value).__name__ == "Period" else ""
            raise ValueError(f"{rule}; got {shown(value)} of type {type(value).__name__}{hint}")
    return "category"


def zone_of(values: Any) -> str:
    """The time zone of a column's dates, "" without one; UTC of a column of objects, and where no system knows it."""
    import narwhals as nw

    zone: str | None
    if (known := _pandas_zone(values)) is not None:
        zone = str(known)
    elif isinstance(values, np.ndarray) or not isinstance(values.dtype, nw.Datetime):
        entries = values.tolist() if isinstance(values, np.ndarray) else values.to_list()
        return "UTC" if any(getattr(value, "tzinfo", None) is not None for value in entries) else ""
    else:
        zone = values.dtype.time_zone
    return "" if zone is None else zone if _zone(zone) is not None else "UTC"


def _pandas_zone(values: Any) -> datetime.tzinfo | None:
    """The time zone of a column of pandas, which is not an array; None of others."""
    native = None if isinstance(values, np.ndarray) else values.to_native()
    return getattr(getattr(native, "dtype", None), "tz", None)


def _known(values: Any) -> Any:
    """A column of narwhals; as one of UTC where narwhals does not read the name of the zone, as of America/New_York."""
    import narwhals as nw

    if isinstance(values.dtype, nw.Unknown) and _pandas_zone(values) is not None:
        return nw.from_native(values.to_native().dt.tz_convert("UTC"), series_only=True)
    return values


@cache
def _zone(name: str) -> datetime.tzinfo | None:
    """The time zone of this name, or None."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None


def is_missing(value: Any) -> bool:
    """Whether an entry of a column is missing: None, NaN, NaT, NA or an empty text."""
    if isinstance(value, (str, bytes)):
        return not value
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (_is_number(value) and value != value)


def _is_number(value: Any) -> bool:
    return hasattr(value, "__float__") and not isinstance(value, str) and np.ndim(value) == 0


def raw_column(values: Any, column: Column) -> Any:
    """One column, an array or a column of narwhals, as `raw_columns` says."""
    import narwhals as nw

    if column.is_category:
        return level_texts(values.tolist() if isinstance(values, np.ndarray) else values.to_list())
    if not isinstance(values, np.ndarray):
        values = _known(values)
        kind = values.dtype
        if isinstance(kind, (nw.Date, nw.Datetime)):
            if column.kind != "date":
                raise ValueError(f"X column {column.name!r} must hold {column.kind}s, as in training; got dates")
            if isinstance(kind, nw.Datetime) and kind.time_zone is not None:
                values = values.dt.convert_time_zone(column.zone) if column.zone else values
                values = values.dt.replace_time_zone(None)
            micro = values.cast(nw.Datetime("us")).dt.timestamp("us").cast(nw.Float64).to_numpy()
            return np.where(values.is_null().to_numpy(), np.nan, micro) / (1e6 * DAY)
        if isinstance(kind, nw.Duration):
            seconds = values.dt.total_microseconds().cast(nw.Float64).to_numpy()
            return np.where(values.is_null().to_numpy(), np.nan, seconds) / (1e6 * DAY)
        if kind.is_numeric() or isinstance(kind, nw.Boolean):
            if values.is_null().any():
                numbers = np.array([np.nan if is_missing(v) else float(v) for v in values.to_list()])
            else:
                numbers = values.to_numpy().astype(np.float64)
            return _finite(_no_dates(numbers, column), column)
        values = np.array([None, *values.to_list()], object)[1:]
    elif values.dtype.kind in "biuf":
        return _finite(_no_dates(values.astype(np.float64), column), column)
    return _finite(np.array([as_number(v, column) for v in values.tolist()], np.float64), column)


def _no_dates(numbers: Floats, column: Column) -> Floats:
    """The numbers of a column; ValueError where it holds dates, unless all are missing."""
    if column.kind == "date" and not np.isnan(numbers).all():
        first = float(numbers[~np.isnan(numbers)][0])
        raise ValueError(f"X column {column.name!r} must hold dates, as in training; got the number {first:g}")
    return numbers


def as_number(value: Any, column: Column) -> float:
    if is_missing(value):
        return np.nan
    if column.kind == "date":
        moment = value
        if isinstance(value, str):
            try:
                moment = datetime.datetime.fromisoformat(value)
            except ValueError:
                moment = None
        if isinstance(moment, datetime.date):
            if not isinstance(moment, datetime.datetime):
                moment = datetime.datetime(moment.year, moment.month, moment.day)
            if moment.tzinfo is not None and column.zone:
                moment = moment.astimezone(_zone(column.zone))
            return (moment.replace(tzinfo=None) - EPOCH).total_seconds() / DAY
    elif isinstance(value, datetime.timedelta):
        return value.total_seconds() / DAY
    else:
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    raise ValueError(f"X column {column.name!r} must hold {column.kind}s, as in training; got {shown(value)}")


def _finite(numbers: Floats, column: Column) -> Floats:
    if np.isinf(numbers).any():
        raise ValueError(f"X column {column.name!r} must be finite; got infinity (inf): clip or remove such rows first")
    return np.ascontiguousarray(numbers, np.float64)
