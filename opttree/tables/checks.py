"""Checks of input tables. Each error names the column, the rule and the remedy in one sentence."""

from __future__ import annotations

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
