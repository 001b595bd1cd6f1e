"""Entries of model files. Each reader returns what stands in a place, or says in one sentence what does not."""

from __future__ import annotations

from reprlib import repr as shown  # of limited depth and length: what it shows may be damaged
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_BYTES = 1 << 30  # of a file, of what is packed in it, and of an array of texts
LABELS = {str, bool, int, float}


def entries(value: Any, name: str) -> dict[str, Any]:
    """Entries by their names."""
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be entries with names; got {shown(value)}")
    return value


def items(value: Any, name: str) -> list[Any]:
    """A list."""
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list; got {shown(value)}")
    return value


def text(value: Any, name: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text; got {shown(value)}")
    return value


def texts(value: Any, name: str) -> tuple[str, ...]:
    """A list of texts, or an array of them."""
    found = items(value.tolist() if isinstance(value, np.ndarray) else value, name)
    return tuple(text(entry, f"an entry of {name}") for entry in found)


def truth(value: Any, name: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false; got {shown(value)}")
    return value


def whole(value: Any, name: str, least: int) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}; got {shown(value)}")
    return value


def number(value: Any, name: str) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} must be a number; got {shown(value)}")
    return float(numbers([value], name)[0])


def numbers(value: Any, name: str) -> NDArray[np.float64]:
    """Finite numbers: lists in lists, or an array."""
    fits = value.dtype.kind in "iuf" if isinstance(value, np.ndarray) else isinstance(value, list)
    try:
        array = np.asarray(value, np.float64) if fits else None
    except (TypeError, ValueError, OverflowError):
        array = None
    if array is None:
        raise ValueError(f"{name} must be lists of numbers, of equal lengths; got {shown(value)}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite; got {array[~np.isfinite(array)][0]}")
    return array


def labels(value: Any) -> NDArray[Any]:
    """Class labels: a list of texts, of booleans, of whole numbers or of finite numbers, or an array."""
    array = value if isinstance(value, np.ndarray) else _array(value)
    if array.dtype.kind not in "biufU":
        raise ValueError(f"classes must be texts, booleans or numbers; got {shown(array.dtype)}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"classes must be finite; got {array[~np.isfinite(array)][0]}")
    if np.unique(array).size < array.size:
        raise ValueError(f"classes must differ from one another; got {shown(array.tolist())}")
    return array


def _array(value: Any) -> NDArray[Any]:
    """The array of a list of labels, of the type that all of them have."""
    kinds = set(map(type, items(value, "classes")))
    if len(kinds) != 1 or not kinds <= LABELS:
        raise ValueError(f"classes must be texts, booleans or numbers, all of one type; got {shown(value)}")
    if str in kinds and 4 * len(value) * max(map(len, value)) > MOST_BYTES:
        raise ValueError(
            f"classes must take at most {MOST_BYTES} bytes; the longest is of {max(map(len, value))} letters"
        )
    if int not in kinds:
        return np.array(value)
    try:
        return np.array(value, np.int64 if max(value) < 2**63 else np.uint64)
    except OverflowError as error:
        raise ValueError(f"classes must be integers of 64 bits; got {shown(value)}") from error
