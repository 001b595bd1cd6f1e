"""Where the parts of `opttree.Rows` are, and how one of them is read."""

from __future__ import annotations

import glob
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count as numbers
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Read(NamedTuple):
    """A part that has been read: features ``(m, p)``, an array or a DataFrame; targets; weights, or None for ones."""

    X: Any
    y: NDArray[Any]
    weight: Floats | None


@dataclass(frozen=True)
class Arrays:
    """A slice of arrays; those on disk are opened again wherever it is read."""

    X: Any
    y: Any
    weight: Any
    first: int
    last: int

    @property
    def rows(self) -> int:
        """Their number."""
        return self.last - self.first

    def read(self, columns: Columns) -> Read:
        """The rows."""
        some = slice(self.first, self.last)
        X, y = (opened(array)[some] for array in (self.X, self.y))
        weight = None if self.weight is None else np.asarray(opened(self.weight)[some], np.float64)
        return Read(columns.aligned(X) if hasattr(X, "shape") else np.asarray(X), np.asarray(y), weight)


class Mapped(NamedTuple):
    """An array on disk, by its place."""

    file: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    order: str


@dataclass(frozen=True)
class Parquet:
    """Some of the rows of a row group of a Parquet file."""

    file: str
    group: int
    first: int
    rows: int

    def read(self, columns: Columns) -> Read:
        """The rows."""
        from pyarrow.parquet import ParquetFile

        with ParquetFile(self.file, pre_buffer=False) as file:
            table = file.read_row_group(self.group, use_threads=False)
        return columns.divide(table.slice(self.first, self.rows).to_pandas())


@dataclass(frozen=True)
class Delayed:
    """A partition of a Dask collection."""

    part: Any

    def read(self, columns: Columns) -> Read:
        """The rows."""
        return self.divided(self.part.compute(scheduler="sync"), columns)

    @staticmethod
    def divided(part: Any, columns: Columns) -> Read:
        """Features, targets and weights of what has been computed."""
        if isinstance(part, tuple):
            X, y, *rest = part
            return Read(X, np.asarray(y), np.asarray(rest[0], np.float64) if rest else None)
        return columns.divide(part)


@dataclass(frozen=True)
class Stored:
    """Arrays that a part has been made into, in a folder."""

    folder: str
    number: int
    rows: int

    def read(self, columns: Columns) -> Read:
        """The rows."""
        return Read(*(np.load(file_of(self.folder, self.number, name)) for name in Read._fields))


class Columns(NamedTuple):
    """Which columns of a table are targets and weights, and the order of all in the first part."""

    target: tuple[str, ...]
    one: bool
    weight: str | None
    order: tuple[Any, ...] = ()

    def aligned(self, X: Any) -> Any:
        """A table with its columns in the order of the first part's; ValueError for one that this has not."""
        names, known = list(names_of(X)), set(self.order)
        if known and (more := [name for name in names if name not in known]):
            raise ValueError(f"parts must have the same columns; got {more[0]!r}, which the first part has not")
        different = set(names)
        wanted = [name for name in self.order if name in different]
        if names == wanted or not len(wanted) == len(names) == len(different):
            return X
        return X.select(wanted) if hasattr(X, "column_names") else X[wanted]

    def divide(self, frame: Any) -> Read:
        """Features, targets and weights of a DataFrame."""
        wanted = [*self.target, *([] if self.weight is None else [self.weight])]
        for name in wanted:
            if name not in frame.columns:
                raise ValueError(f"target and weight must name columns of the table; got {name!r}")
        y = frame[self.target[0] if self.one else list(self.target)].to_numpy()
        weight = None if self.weight is None else frame[self.weight].to_numpy(np.float64)
        return Read(self.aligned(frame.drop(columns=wanted)), y, weight)


def names_of(table: Any) -> tuple[Any, ...]:
    """The names of the columns of a table of pandas, Polars, Arrow or Dask; none of an array."""
    return tuple(getattr(table, "column_names", getattr(table, "columns", ())))


def opened(array: Any) -> Any:
    """The array, or the one on disk."""
    if not isinstance(array, Mapped):
        return array
    return np.memmap(array.file, array.dtype, "r", array.offset, array.shape, array.order)  # type: ignore[call-overload]


def placed(array: Any) -> Any:
    """An array, or the place of one on disk, which is small to send."""
    if isinstance(array, np.memmap) and array.filename is not None and array.base is not None:
        whole = not isinstance(array.base, np.memmap)
        if whole and (array.flags.c_contiguous or array.flags.f_contiguous):
            order = "C" if array.flags.c_contiguous else "F"
            return Mapped(str(array.filename), array.dtype.str, array.shape, int(array.offset), order)
    return array


def checked(part: Read) -> Read:
    """The part, if its columns are as long as each other."""
    X = part.X
    if not hasattr(X, "iloc") and hasattr(X, "to_pandas"):
        X = X.to_pandas()
    if getattr(X, "ndim", 0) != 2 or (not hasattr(X, "iloc") and not isinstance(X, np.ndarray)):
        raise ValueError(f"X must be a dense table of two dimensions in each part; got {type(X).__name__}")
    lengths = [len(X), len(part.y), *([] if part.weight is None else [len(part.weight)])]
    if len(set(lengths)) > 1:
        raise ValueError(f"X, y and weights must have as many rows in each part; got {lengths}")
    return part._replace(X=X)


def file_of(folder: str, number: int, name: str) -> str:
    """The file of an array of a part."""
    return str(Path(folder) / f"{number}.{name}.npy")


def files_of(path: str | Path) -> list[str]:
    """Parquet files by a path, a folder or a pattern, in the order of their names."""
    place = Path(path)
    if place.is_dir():
        found = sorted(str(file) for file in place.rglob("*.parquet"))
    else:
        found = [str(place)] if place.exists() else sorted(glob.glob(str(path)))
    if not found:
        found_none = "holds none" if place.is_dir() else "does not exist"
        raise ValueError(f"source must be Parquet files or a folder of them; {str(path)!r} {found_none}")
    return found


def along_rows(array: Any) -> list[Any]:
    """The parts of a Dask array along its rows."""
    parts = np.asarray(array.to_delayed(), dtype=object)
    if parts.ndim > 1 and math.prod(parts.shape[1:]) > 1:
        raise ValueError(f"Dask arrays must be cut along rows alone; got parts {parts.shape}")
    return list(parts.ravel())


def triples(source: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Features, targets and weights, or None, of a tuple of arrays or a list of tuples."""
    pairs = source if isinstance(source, list) else [source]
    for number, pair in zip(numbers(), pairs, strict=False):
        if not isinstance(pair, tuple) or len(pair) not in (2, 3):
            raise ValueError(f"parts must be pairs (X, y) or triples (X, y, weight); got another at {number}")
        yield pair[0], pair[1], pair[2] if len(pair) == 3 else None


def n_rows_of(array: Any) -> int:
    """Rows of an array; ValueError for what is none."""
    shape = getattr(array, "shape", None) or (len(array) if isinstance(array, (list, tuple)) else None,)
    if shape[0] is None:
        raise ValueError(f"X, y and weights must be arrays or DataFrames; got {type(array).__name__}")
    return int(shape[0])
