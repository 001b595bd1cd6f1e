"""Sparse tables: rows that are mostly zeros, kept as SciPy's compressed rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.routing import is_sparse as is_sparse
from opttree.kernels.wide.sparse import SortedColumns

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]
STEP, FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)  # of the codes of rows
SHIFT = np.uint64(29)
MOST_COPIED = 1 << 26  # bytes of a table that may only be read


def is_given_sparse(X: Any) -> bool:
    """Whether ``X`` is a matrix or an array of SciPy's sparse formats, or a DataFrame of sparse columns alone."""
    if type(X).__module__.partition(".")[0] == "pandas":
        kinds = list(getattr(X, "dtypes", ()) if hasattr(X, "columns") else ())
        return bool(kinds) and all(type(kind).__name__ == "SparseDtype" and kind.fill_value == 0 for kind in kinds)
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


def as_table(X: Any) -> Any:
    """A table as kernels take it: `as_rows` of a sparse one; else doubles in the order of rows. What may only be read,
    as processes of a search get it, is copied where it is small: kernels would be compiled for it anew.
    """
    if is_given_sparse(X):
        return as_rows(X)
    try:
        X = np.ascontiguousarray(X, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X must hold numbers, as opttree.TableEncoder makes them of a table; got {error}") from error
    return X if X.flags.writeable or X.nbytes > MOST_COPIED else X.copy()


def as_rows(X: Any, name: str = "X") -> csr_array:
    """Compressed rows of doubles, without explicit zeros, each with its entries in the order of the columns.

    Raises
    ------
    ValueError
        With ``name``, for what is no table of two dimensions, holds no numbers, or has entries in columns that are not.
    """
    from scipy.sparse import csr_array

    if hasattr(X, "columns"):
        X = X.sparse.to_coo()
    if X.ndim != 2:
        raise ValueError(f"{name} must have two dimensions; got {X.ndim}")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold numbers; got {X.dtype}")
    if X.nnz and X.format in ("csr", "csc"):
        least, most = int(X.indices.min()), int(X.indices.max())
        end = X.shape[1 if X.format == "csr" else 0]
        if least < 0 or most >= end:
            raise ValueError(f"{name} must have indices from 0 to {end - 1}; got {least if least < 0 else most}")
    tidy = X.format == "csr" and X.has_canonical_format and X.data.all()
    rows = csr_array(X, dtype=np.float64, copy=not tidy)  # what was given, its columns' numbers too, is not changed
    if not tidy:
        rows.sum_duplicates()
        rows.eliminate_zeros()
    return _with_short_numbers(rows)


def _with_short_numbers(X: csr_array) -> csr_array:
    """The rows with column numbers of 32 bits where these suffice, as scikit-learn's trees need them."""
    from scipy.sparse import csr_array

    if X.indices.dtype == np.int32 == X.indptr.dtype or max(X.nnz, X.shape[1]) > np.iinfo(np.int32).max:
        return X
    short = csr_array((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    short.has_canonical_format = True
    return short


def sorted_columns(X: csr_array) -> SortedColumns:
    """The columns of a sparse table, the entries of each in increasing order."""
    columns = X.tocsc()
    column = np.repeat(np.arange(X.shape[1]), np.diff(columns.indptr))
    order = np.lexsort((columns.data, column))
    return SortedColumns(columns.indptr.astype(np.int64), columns.indices[order].astype(np.int32), columns.data[order])


def entries(X: csr_array, rows: NDArray[np.integer], columns: NDArray[np.integer]) -> Floats:
    """(m,) the numbers at places of a table, sparse or not."""
    found = X[rows, columns]
    return np.asarray(found.toarray() if hasattr(found, "toarray") else found, np.float64).ravel()


def ranks(X: csr_array) -> csr_array:
    """The table with the rank of each number among those of its column, counted from zero up and down."""
    from scipy.sparse import csc_array

    start, rows, values = sorted_columns(X)
    first = np.zeros(values.size, bool)
    first[start[:-1][np.diff(start) > 0]] = True
    new = np.append(True, np.diff(values) > 0.0) | first if values.size else first
    number = np.cumsum(new)  # of different values so far; the first positive one of each column is to be 1
    column = np.repeat(np.arange(X.shape[1]), np.diff(start))
    below = np.bincount(column, (values < 0.0) & new, X.shape[1]).astype(np.int64)  # different negative values
    base = np.zeros(X.shape[1], np.int64)
    base[column[first]] = number[first] - 1
    rank = number - base[column] - below[column]  # 1, 2, ... above zero; ..., -1, 0 below
    rank -= values < 0.0
    return csc_array((rank.astype(np.float64), rows, start.astype(X.indptr.dtype)), shape=X.shape).tocsr()


def largest(X: csr_array) -> Floats:
    """(p,) the largest size of a number in each column."""
    found = np.zeros(X.shape[1])
    np.maximum.at(found, X.indices, np.abs(X.data))
    return found


def moments(X: csr_array, weight: Floats) -> tuple[Floats, Floats]:
    """(p,) weighted mean and standard deviation of each column."""
    share = weight / weight.sum()
    mean = X.T @ share
    return mean, np.sqrt(np.maximum(X.power(2).T @ share - mean**2, 0.0))


def mix(codes: NDArray[np.uint64], X: csr_array) -> None:
    """Change the codes of rows by the ranks of their numbers: rows with the same numbers change alike."""
    ranked = ranks(X)
    code = ranked.data.astype(np.int64).astype(np.uint64) * FACTOR + ranked.indices.astype(np.uint64) * STEP
    for _ in range(2):
        code ^= code >> SHIFT
        code *= FACTOR
    sums = np.append(np.uint64(0), np.cumsum(code))
    codes ^= sums[ranked.indptr[1:]] - sums[ranked.indptr[:-1]]
    codes *= FACTOR
    codes ^= codes >> SHIFT


def units(X: csr_array) -> Floats:
    """(p,) units of columns that are not centred: powers of two, which change no digit, near their largest size; 1 for
    columns of zeros.
    """
    size = largest(X)
    return np.ldexp(1.0, np.where(size > 0.0, np.frexp(size)[1] - 1, 0))


def scaled(X: csr_array, unit: Floats) -> csr_array:
    """The table in these units."""
    from scipy.sparse import csr_array

    return csr_array((X.data / unit[X.indices], X.indices, X.indptr), shape=X.shape)


def values_of(X: Any, j: int) -> Floats:
    """The different numbers of column j of a table, in increasing order; of a sparse one with zero."""
    return np.unique(np.append(X[:, [j]].data, 0.0) if is_sparse(X) else X[:, j])


def varies(X: Any) -> bool:
    """Whether the rows of a table differ."""
    if not is_sparse(X):
        return bool(np.ptp(X, axis=0).max() > 0.0)
    return bool(np.any(X.max(axis=0).toarray() > X.min(axis=0).toarray()))


def rows_times(A: Any, factor: Floats) -> Any:
    """An array, or compressed rows, with each row times a factor (m,)."""
    return A.multiply(factor[:, None]).tocsr() if is_sparse(A) else A * factor[:, None]


def columns_times(A: Any, factor: Floats) -> Any:
    """An array, or compressed rows, with each column times a factor (p,)."""
    return A.multiply(factor[None]).tocsr() if is_sparse(A) else A * factor


class Stacked:
    """Weights of leaves (L, K, p) whose rows, ``rows (L K, p)``, stay sparse: those of one leaf are an array (K, p)."""

    def __init__(self, rows: Any, leaves: tuple[int, ...]) -> None:
        self.rows, self.shape = rows, (*leaves, rows.shape[1])

    def __getitem__(self, leaf: int) -> Floats:
        K = self.shape[1]
        own: Floats = self.rows[leaf * K : (leaf + 1) * K].toarray()
        return own


def packed(A: Floats) -> csr_array:
    """The compressed rows of a dense array."""
    from scipy.sparse import csr_array

    return csr_array(A)
