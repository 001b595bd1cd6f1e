"""Checks of input tables. Each error names the column, the rule and the remedy in one sentence."""

from __future__ import annotations

import sys
import warnings
from contextlib import suppress
from typing import Any

import numpy as np

from opttree.runtime.words import shown


class TableWarning(UserWarning):
    """Something about a table that a user should know: a column that is left out, or that may be meant otherwise.

    See Also
    --------
    opttree.describe_table : says it, and more, before a fit

    Examples
    --------
    >>> import warnings
    >>> import opttree
    >>> warnings.simplefilter("ignore", opttree.TableWarning)
    """


def warn(message: str) -> None:
    """A `TableWarning` at the first caller that is neither of opttree nor of scikit-learn."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("opttree", "sklearn"):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, TableWarning, stacklevel=level + 1)


def check_columns(X: Any) -> None:
    """Reject categorical, missing and infinite values, naming the column; scikit-learn checks the rest.

    Raises
    ------
    ValueError
        For a column of text, categories or dates, for NaN, and for infinity.
    """
    if hasattr(X, "columns"):
        import pandas as pd

        if not isinstance(X, pd.DataFrame):
            return
        if _is_clean(X):
            return
        for j, name in enumerate(X.columns):
            column = X.iloc[:, j]
            numeric = pd.api.types.is_numeric_dtype(column.dtype)
            if not numeric and not (column.dtype == object and not column.map(_is_text).any()):
                raise ValueError(_categorical(repr(name), _offending(column)))
            missing = int(column.isna().sum())
            if missing:
                raise ValueError(_missing(repr(name), missing))
            if numeric and not np.isfinite(column.to_numpy(np.float64)).all():
                raise ValueError(_infinite(repr(name)))
        return
    array = np.asarray(X) if isinstance(X, (np.ndarray, list, tuple)) else np.empty(0)
    if array.ndim != 2:
        return
    if array.dtype.kind in "OUS":
        for j in range(array.shape[1]):
            text = next((v for v in array[:, j] if isinstance(v, (str, bytes)) and not _is_number(v)), None)
            if text is not None:
                raise ValueError(_categorical(str(j), str(text)))
    elif array.dtype.kind == "f" and not _finite_sum(array):
        for j in map(int, np.flatnonzero(~np.isfinite(array).all(axis=0))):
            missing = int(np.isnan(array[:, j]).sum())
            raise ValueError(_missing(str(j), missing) if missing else _infinite(str(j)))


def as_given(X: Any) -> Any:
    """A table or an array as it is; masked entries become NaN, sparse columns of pandas dense, and lists of rows with
    text an array of objects.

    Raises
    ------
    ValueError
        For a table that is not in memory, a structured array, complex or too long numbers, and lists that are no rows
        of one length.
    """
    if type(X).__name__ == "LazyFrame" or (hasattr(X, "collect") and not hasattr(X, "shape")):
        raise ValueError(f"X must be a table in memory; got {type(X).__name__}: call .collect() first")
    if (fields := getattr(getattr(X, "dtype", None), "names", None)) is not None:
        raise ValueError(f"X must be a table or an array of numbers; got a structured array of {', '.join(fields)}")
    schema = getattr(X, "schema", None)
    for name, kind in schema.items() if schema is not None and hasattr(schema, "items") else ():
        if "Int128" in str(kind):
            raise ValueError(f"X column {name!r} must hold numbers of at most 64 bits; got {kind}")
    if isinstance(X, (list, tuple)):
        X = _rows_of_list(X)
    if isinstance(X, np.ma.MaskedArray):
        masked: Any = X
        return (
            masked.astype(np.float64).filled(np.nan) if X.dtype.kind in "biuf" else masked.astype(object).filled(None)
        )
    if hasattr(X, "columns") and any(type(kind).__name__ == "SparseDtype" for kind in getattr(X, "dtypes", ())):
        X = X.astype({n: k.subtype for n, k in X.dtypes.items() if type(k).__name__ == "SparseDtype"})
    kinds: Any = getattr(X, "dtypes", None)
    for name, kind in kinds.items() if hasattr(kinds, "items") else ():
        if getattr(kind, "kind", "") == "c":
            raise ValueError(f"X column {name!r} must hold real numbers; got complex ones")
    return X


def _rows_of_list(X: Any) -> Any:
    """A list of rows; with text, of which NumPy would make texts of all, and all as long as the longest, of objects."""
    texts = (str, bytes)
    if any(isinstance(row, texts) for row in X):
        raise ValueError("X must have rows and columns; got a list of texts")
    if not X or not all(isinstance(row, (list, tuple)) for row in X):
        with suppress(ValueError):
            return np.asarray(X, object) if np.asarray(X).dtype.kind in "US" else X
        return X
    lengths = {len(row) for row in X}
    if len(lengths) > 1:
        raise ValueError(f"X must have rows of one length; got rows of {min(lengths)} and of {max(lengths)} entries")
    return np.array(X, object) if any(isinstance(entry, texts) for row in X for entry in row) else X


def check_target(y: Any, numeric: bool) -> None:
    """Reject targets that are blank, dates, of mixed types or, for ``numeric``, no numbers, naming y.

    Raises
    ------
    ValueError
        In one sentence.
    """
    if y is None:
        return  # scikit-learn says that it is required
    if isinstance(y, np.ma.MaskedArray) and np.ma.is_masked(y):
        raise ValueError(f"y must have no missing values; got {int(np.ma.count_masked(y))} masked")
    array = np.asarray(y)
    if array.dtype.kind in "US" and not isinstance(y, np.ndarray):
        array = np.asarray(y, object)  # texts of NumPy lose zero bytes at their ends
    if array.dtype.kind in "mM":
        raise ValueError("y must hold numbers or labels; got dates or times: convert them to numbers first")
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: y must hold real numbers or labels")
    if array.dtype.kind == "f" and array.size and np.isnan(array).any():
        raise ValueError(f"y must have no missing values; got {int(np.isnan(array).sum())} NaN")
    if array.dtype.kind not in "OUST":
        return
    entries = array.ravel().tolist()
    blank = [k for k, value in enumerate(entries) if _is_blank(value)]
    if blank:
        raise ValueError(f"y must have no missing values; got {len(blank)}, the first in row {_row(array, blank[0])}")
    kinds = set(map(type, entries))
    if numeric or kinds != {str}:
        for k, value in enumerate(entries):
            if hasattr(value, "isoformat") or type(value).__name__ in ("timedelta", "Timedelta", "Period", "Interval"):
                raise ValueError(f"y must hold numbers or labels; got {shown(value)} in row {_row(array, k)}")
            if numeric and isinstance(value, (str, bytes)) and not _is_number(value):
                raise ValueError(f"y must hold numbers; got {shown(value)} in row {_row(array, k)}")
            if numeric and isinstance(value, int) and abs(value) > sys.float_info.max:
                raise ValueError(f"y must hold numbers of double precision; got {shown(value)} in row {_row(array, k)}")
            if isinstance(value, bytes) or (not isinstance(value, str) and not hasattr(value, "__float__")):
                raise ValueError(f"y must hold numbers or labels; got {shown(value)} in row {_row(array, k)}")
    if numeric:
        return
    zero = next((k for k, value in enumerate(entries) if isinstance(value, str) and "\0" in value), None)
    if zero is not None:
        raise ValueError(
            f"y must have labels without zero bytes; got {shown(entries[zero])} in row {_row(array, zero)}"
        )
    texts = {issubclass(kind, (str, bytes)) for kind in kinds}
    if array.ndim == 1 and len(texts) > 1:
        odd = next(
            value for value in entries if isinstance(value, (str, bytes)) != isinstance(entries[0], (str, bytes))
        )
        raise ValueError(f"y must have labels of one type; got {shown(entries[0])} and {shown(odd)}")


def plain_target(y: Any) -> Any:
    """A target without blanks whose columns of pandas' own whole numbers and booleans are NumPy's: scikit-learn makes
    doubles of them, in which labels beyond 2^53 are one.
    """
    if hasattr(y, "columns") and hasattr(y, "items") and type(y).__module__.startswith("pandas"):
        columns = [np.asarray(plain_target(column)) for _name, column in y.items()]
        kinds = {column.dtype.kind for column in columns}
        return np.column_stack(columns) if kinds in ({"b"}, {"i"}, {"u"}) else y
    kind = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
    return y.to_numpy(dtype=kind) if kind is not None and np.dtype(kind).kind in "biu" else y


def _is_blank(value: Any) -> bool:
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def _row(array: Any, k: int) -> int:
    """The row of entry k, counted from 0."""
    return k // int(np.prod(array.shape[1:], dtype=np.intp)) if array.ndim > 1 else k


def check_names(X: Any) -> None:
    """ValueError if two columns of a table have the same name."""
    names = [str(name) for name in getattr(X, "column_names", None) or X.columns]
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise ValueError(f"X must have columns of different names; got {twice!r} twice")


def _is_clean(X: Any) -> bool:
    """Whether all columns are of NumPy's numbers, and finite; fast also for a million columns."""
    if not all(isinstance(kind, np.dtype) and kind.kind in "biuf" for kind in set(X.dtypes)):
        return False
    return _finite_sum(X.to_numpy(np.float64))


def _offending(column: Any) -> object:
    """The first value that is not a number, or the first one there is."""
    there = list(column.dropna())
    return next((v for v in there if not isinstance(v, (str, bytes)) or not _is_number(v)), (there or [None])[0])


def _finite_sum(array: np.ndarray) -> bool:
    """Whether the sum is finite: a fast test without a temporary array. A sum that overflows proves nothing."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(array.sum()))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(text: str | bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _categorical(column: str, example: object) -> str:
    return (
        f"X column {column} must be numeric; got {shown(example)}: encode categories first, "
        "e.g. with sklearn.preprocessing.OneHotEncoder"
    )


def _missing(column: str, count: int) -> str:
    return (
        f"X column {column} must have no missing values; got {count} NaN: fill them first, "
        "e.g. with sklearn.impute.SimpleImputer"
    )


def _infinite(column: str) -> str:
    return f"X column {column} must be finite; got infinity (inf): clip or remove such rows first"


def validated(estimator: Any, *table: Any, **options: Any) -> Any:
    """`sklearn.utils.validation.validate_data`, whose sum of entries near the largest double may warn."""
    from sklearn.utils.validation import validate_data  # a tree that predicts needs none of scikit-learn

    with np.errstate(invalid="ignore"):
        return validate_data(estimator, *table, **options)
