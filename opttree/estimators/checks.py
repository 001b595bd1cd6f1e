"""Input checks at the door of the estimators: one sentence that names the column, the rule and the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def check_columns(X: Any) -> None:
    """Refuse categorical and missing values by column name (or number); scikit-learn's own checks do the rest.

    Raises
    ------
    ValueError
        For a column of text, categories or dates, for NaN, and for infinity.
    """
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        for name, dtype in zip(X.columns, X.dtypes, strict=True):
            column = X[name]
            if dtype.kind not in "biufO" or (dtype.kind == "O" and column.map(lambda v: isinstance(v, str)).any()):
                example = next((v for v in column if v == v), None)
                raise ValueError(_categorical(repr(name), example))
            missing = int(column.isna().sum())
            if missing:
                raise ValueError(_missing(repr(name), missing))
            if dtype.kind == "f" and not np.isfinite(column.to_numpy()).all():
                raise ValueError(_infinite(repr(name)))
        return
    array = X if isinstance(X, np.ndarray) else None
    if array is None or array.ndim != 2:
        return
    if array.dtype.kind in "OUS":
        for j in range(array.shape[1]):
            text = next((v for v in array[:, j] if isinstance(v, (str, bytes)) and not _is_number(v)), None)
            if text is not None:
                raise ValueError(_categorical(str(j), str(text)))
    elif array.dtype.kind == "f" and not np.isfinite(array.sum()):
        for j in np.flatnonzero(~np.isfinite(array).all(axis=0)):
            missing = int(np.isnan(array[:, j]).sum())
            raise ValueError(_missing(str(j), missing) if missing else _infinite(str(j)))


def _is_number(text: str | bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _categorical(column: str, example: object) -> str:
    return (
        f"X column {column} must be numeric; got {example!r}: encode categories first, "
        "e.g. with sklearn.preprocessing.OneHotEncoder"
    )


def _missing(column: str, count: int) -> str:
    return (
        f"X column {column} must have no missing values; got {count} NaN: fill them first, "
        "e.g. with sklearn.impute.SimpleImputer"
    )


def _infinite(column: str) -> str:
    return f"X column {column} must be finite; got infinity (inf): clip or remove such rows first"


def moments(X: NDArray[np.float64], weight: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weighted mean and standard deviation of each column; deviation 1 for constant columns.

    One column at a time, so that no temporary of the size of ``X`` exists.
    """
    share = weight / weight.sum()
    mean, scale = np.empty(X.shape[1]), np.ones(X.shape[1])
    for j in range(X.shape[1]):
        mean[j] = np.sum(share * X[:, j])
        deviation = np.sqrt(np.sum(share * (X[:, j] - mean[j]) ** 2))
        if deviation > 1e-12 * max(abs(mean[j]), np.abs(X[:, j]).max()):
            scale[j] = deviation
    return mean, scale
