"""Numbers that a statement takes: finite, and not so large that sums of squares overflow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.passes.thresholds import RELATIVE_GAP, between as between

LARGEST = 1e150  # largest size of a number in X and y: its square, and sums of such squares over rows, are finite
SMALLEST = 1e-150  # least size of the largest number of a column, unless all are zero: its inverse is finite
LARGEST_SINGLE = 1e17  # the same for single precision, in sums over a block of rows
RESOLUTION = 1e-12  # least range of a column relative to its largest number: thresholds between values are exact
ROUNDING = 16.0 * np.finfo(np.float64).eps  # a relative range that is rounding error, as in a total of shares


def check_numbers(name: str, values: NDArray[np.float64]) -> None:
    """ValueError, with ``name``, unless all numbers of the array are finite and at most `LARGEST` in size."""
    flat = np.ascontiguousarray(values).ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        squares = float(np.einsum("i,i->", flat, flat))  # one pass, and no array of the size of ``values``
    if squares <= LARGEST**2:
        return
    if not np.isfinite(flat).all():
        raise ValueError(f"{name} must be finite; got {flat[~np.isfinite(flat)][0]}")
    if (largest := float(np.abs(flat).max())) > LARGEST:
        raise ValueError(f"{name} must hold numbers of at most {LARGEST:g} in size; got {largest:g}")


def is_constant(name: str, values: NDArray[np.float64]) -> bool:
    """Whether a column is constant, but for rounding.

    Raises
    ------
    ValueError
        With ``name``, where it is not, but varies so little that scaling it would lose its differences.
    """
    largest, extent = float(np.abs(values).max()), float(np.ptp(values))
    if extent <= ROUNDING * largest:
        return True
    if largest < SMALLEST:
        raise ValueError(
            f"{name} must hold numbers above {SMALLEST:g} in size, or zeros alone; got at most {largest:g}"
        )
    if extent <= RESOLUTION * largest:
        raise ValueError(
            f"{name} must vary by more than {RESOLUTION:g} of its size; got numbers within {extent:g} of "
            f"{values[0]:g}: subtract an offset, or drop it"
        )
    return False


def apart(x: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether neighbours among increasing values (..., m) along a hyperplane differ by more than the rounding of
    ``a . x``, which must not change a side: (..., m - 1).
    """
    low, high = x[..., :-1], x[..., 1:]
    return high - low > RELATIVE_GAP * np.maximum(np.abs(low), np.abs(high))


def in_same_order(X: NDArray[np.float64], Z: NDArray[np.float64]) -> None:
    """Change ``Z``, columns that grow with those of ``X`` but for rounding, in place, so that values that differ in
    ``X`` differ in ``Z``, too: what rounding has made equal goes up by the last digit.
    """
    for x, z in zip(X.T, Z.T, strict=True):
        rows = np.argsort(x, kind="stable")
        new = np.diff(x[rows]) > 0.0
        if np.any(np.diff(z[rows])[new] <= 0.0):
            group = np.concatenate([[0], np.cumsum(new)])
            number = z[rows][np.flatnonzero(np.concatenate([[True], new]))].view(np.int64)
            number = np.where(number < 0, np.iinfo(np.int64).min - number, number)  # doubles in order as whole numbers
            place = np.arange(number.size)
            number = np.maximum.accumulate(number - place) + place
            number = np.where(number < 0, np.iinfo(np.int64).min - number, number)
            z[rows] = number.view(np.float64)[group]


def unit_range(X: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Least value and range of each feature; range 1 for constant ones."""
    low, scale = X.min(axis=0), np.ptp(X, axis=0)
    return low, np.where(scale > 0.0, scale, 1.0)
