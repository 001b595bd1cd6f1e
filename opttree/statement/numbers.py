"""Columns of numbers: constant ones, their order, and thresholds between their values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.passes.sorting import stable_order
from opttree.kernels.passes.thresholds import RELATIVE_GAP, between as between

SMALLEST = 1e-150  # least size of the largest number of a column, unless all are zero: its inverse is finite
LARGEST_SINGLE = 1e17  # the same for single precision, in sums over a block of rows
RESOLUTION = 1e-12  # least range of a column relative to its largest number: thresholds between values are exact
NUMBERS = 2**18  # of a table, that are looked at together, at least a column: many short columns take few calls
ROUNDING = 16.0 * np.finfo(np.float64).eps  # a relative range that is rounding error, as in a total of shares


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


def barely_varies(values: NDArray[np.float64]) -> bool:
    """Whether a column varies so little that scaling it would lose its differences, or not at all."""
    largest = float(np.abs(values).max())
    return largest < SMALLEST or float(np.ptp(values)) <= RESOLUTION * largest


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
    width = max(NUMBERS // max(len(X), 1), 1)
    for first in range(0, X.shape[1], width):
        here = slice(first, first + width)
        rows = stable_order(np.ascontiguousarray(X[:, here].T)).T
        new = np.diff(np.take_along_axis(X[:, here], rows, 0), axis=0) > 0.0
        merged = new & (np.diff(np.take_along_axis(Z[:, here], rows, 0), axis=0) <= 0.0)
        for j in np.flatnonzero(merged.any(axis=0)).tolist():
            _raise_merged(Z[:, first + j], rows[:, j], new[:, j])


def _raise_merged(z: NDArray[np.float64], rows: NDArray[np.intp], new: NDArray[np.bool_]) -> None:
    """`in_same_order` for one column; ``rows`` in its order, and whether the value of the next row is another."""
    group = np.concatenate([[0], np.cumsum(new)])
    number = z[rows][np.flatnonzero(np.concatenate([[True], new]))].view(np.int64)
    number = np.where(number < 0, np.iinfo(np.int64).min - number, number)  # doubles in order as whole numbers
    place = np.arange(number.size)
    number = np.maximum.accumulate(number - place) + place
    number = np.where(number < 0, np.iinfo(np.int64).min - number, number)
    z[rows] = number.view(np.float64)[group]


def orders_of(X: NDArray[np.float64]) -> NDArray[np.int32]:
    """(p, n) rows in increasing order of each feature."""
    order, width = np.empty(X.shape[::-1], np.int32), max(NUMBERS // max(len(X), 1), 1)
    for first in range(0, len(order), width):
        order[first : first + width] = stable_order(np.ascontiguousarray(X[:, first : first + width].T))
    return order


def ranks_of(values: NDArray[Any], order: NDArray[np.integer] | None = None) -> NDArray[np.int32]:
    """(p, n) the number of each value among the different values of its row; ``order``: positions that sort the rows of
    ``values (p, n)``.
    """
    order = np.argsort(values, axis=1) if order is None else order
    value = np.take_along_axis(values, order, 1)
    rank, ranks = np.zeros(order.shape, np.int32), np.empty(order.shape, np.int32)
    np.cumsum(value[:, 1:] > value[:, :-1], axis=1, out=rank[:, 1:])
    np.put_along_axis(ranks, order, rank, 1)
    return ranks


def unit_range(X: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Least value and range of each feature; range 1 for constant ones."""
    low, scale = X.min(axis=0), np.ptp(X, axis=0)
    return low, np.where(scale > 0.0, scale, 1.0)
