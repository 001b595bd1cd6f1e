"""Numbers that models and statements take: finite, and not so large that sums of squares overflow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST = 1e150  # largest size of a number in X and y: its square, and sums of such squares over rows, are finite


def are_small(values: NDArray[np.float64]) -> bool:
    """Whether all numbers of the array are finite and far smaller than `LARGEST`: in one pass, without an array of its
    size.
    """
    flat = np.ascontiguousarray(values).ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.einsum("i,i->", flat, flat) <= LARGEST**2)


def check_numbers(name: str, values: NDArray[np.float64]) -> None:
    """ValueError, with ``name``, unless all numbers of the array are finite and at most `LARGEST` in size."""
    if are_small(values):
        return
    flat = np.ascontiguousarray(values).ravel()
    if not np.isfinite(flat).all():
        raise ValueError(f"{name} must be finite; got {flat[~np.isfinite(flat)][0]}")
    if (largest := float(np.abs(flat).max())) > LARGEST:
        raise ValueError(f"{name} must hold numbers of at most {LARGEST:g} in size; got {largest:g}")


def unmasked(name: str, values: Any) -> Any:
    """An argument; ValueError for a masked array some of whose entries are masked."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name} must have no missing values; got {int(np.ma.count_masked(values))} masked")
    return values


def numbers_of(name: str, values: Any) -> NDArray[np.float64]:
    """An argument as numbers; ValueError for others, dates, imaginary parts and masked entries among them."""
    kind = getattr(getattr(unmasked(name, values), "dtype", None), "kind", "")
    if kind in ("c", "m", "M"):
        raise ValueError(f"{name} must hold real numbers; got {'complex ones' if kind == 'c' else 'dates or times'}")
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise not_numbers(name, values, error) from error


def not_numbers(name: str, values: Any, error: Exception) -> ValueError:
    """What to raise for an argument that holds other things than numbers: it names the first such column of a table."""
    table = np.asarray(values, object)
    names = list(getattr(values, "columns", range(table.shape[1]))) if table.ndim == 2 else []
    for label, column in zip(names, table.T, strict=False):
        try:
            column.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as found:
            return ValueError(f"{name} must hold numbers; got {found} in column {label!r}")
    return ValueError(f"{name} must hold numbers; got {error}")
