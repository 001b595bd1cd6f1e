"""Tables larger than memory, read in chunks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.tables.sources import files_of

__all__ = ["Chunks", "predict_chunks"]

Floats = NDArray[np.float64]
ROWS = 65_536


@dataclass(frozen=True)
class Chunks:
    """Rows of a table in chunks ``(X (m, p) float64, y (m,) or (m, K))``; can be iterated over repeatedly.

    Parameters
    ----------
    source : path-like, list of paths, tuple of arrays, array, Dask DataFrame or callable
        A Parquet file, a folder of them, a pattern such as ``"parts/*.parquet"`` or a list of these (needs pyarrow); a
        pair ``(X, y)`` of arrays, possibly memory-mapped, or X alone; a Dask DataFrame; or a function without arguments
        that returns an iterator of pairs.
    target : str or list of str or None, default None
        Name or names of the target columns of a file or DataFrame; None: there is no y.
    rows : int, default 65536
        Largest number of rows in a chunk; larger Dask partitions and larger chunks of a function are divided.

    Raises
    ------
    ValueError
        For an unknown kind of source, or a target that it does not contain.

    See Also
    --------
    predict_chunks : predicts them
    opttree.GETRegressor.fit_chunks : learns from them

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TAORegressor, chunks, datasets
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> [len(part) for part, _ in chunks.Chunks((X, y), rows=200)]
    [200, 200, 42]
    """

    source: Any
    target: str | list[str] | None = None
    rows: int = ROWS

    def __post_init__(self) -> None:
        if not isinstance(self.rows, (int, np.integer)) or self.rows < 1:
            raise ValueError(f"rows must be an integer >= 1; got {self.rows!r}")
        if _are_files(self.source):
            _files(self.source)
        elif not (
            callable(self.source) or isinstance(self.source, (np.ndarray, tuple)) or hasattr(self.source, "to_delayed")
        ):
            raise ValueError(
                "source must be a path, arrays (X, y), a Dask DataFrame or a function that returns an iterator; "
                f"got {type(self.source).__name__}"
            )

    def __iter__(self) -> Iterator[tuple[Floats, NDArray[Any] | None]]:
        for X, y in self.tables():
            yield _numbers(X), y

    def tables(self) -> Iterator[tuple[Any, NDArray[Any] | None]]:
        """The chunks as they are read: those of files and of Dask are DataFrames, whose columns are in one order.

        Yields
        ------
        tuple
            The features, a DataFrame or an array (m, p), and the targets (m,) or (m, K), or None.

        Raises
        ------
        ValueError
            For parts that differ in their columns or outputs, or have other numbers of rows and targets.
        """
        first: tuple[Any, ...] | None = None
        for X, y in self._parts():
            shape, of_y = X.shape if hasattr(X, "shape") else np.shape(X), np.shape(y)
            if not shape or not shape[0]:
                continue
            if len(shape) != 2:
                raise ValueError(f"X must have two dimensions in each part; got {len(shape)}")
            if y is not None and (not of_y or of_y[0] != shape[0]):
                raise ValueError(f"y must have an entry for each row; got {of_y[0] if of_y else 1} for {shape[0]} rows")
            outputs = of_y[1:] if of_y[1:] != (1,) else ()
            names = list(X.columns) if hasattr(X, "iloc") else None
            first = first or (shape[1], outputs, names)
            if names is not None and first[2] is not None and names != first[2]:
                known, wanted = list(map(str, names)), list(map(str, first[2]))
                if sorted(known) != sorted(wanted) or len(set(known)) < len(known):
                    told = [name for name in wanted if name not in known] or [n for n in known if n not in wanted]
                    lacks = f"some without {told[0]!r}" if told else "one name several times"
                    raise ValueError(f"all parts must have the same columns; got {lacks}")
                X = X.iloc[:, [known.index(name) for name in wanted]]
            if shape[1] != first[0]:
                raise ValueError(f"all parts must have the same columns, {first[0]}; got {shape[1]}")
            if y is not None and outputs != first[1]:
                raise ValueError(f"y must have {(*first[1], 1)[0]} outputs in each part; got {(*outputs, 1)[0]}")
            for start in range(0, shape[0], self.rows):
                some = slice(start, start + self.rows)
                yield (X[some] if names is None else X.iloc[some]), None if y is None else np.asarray(y[some])

    def names(self) -> list[str] | None:
        """The names of the features of a file or a Dask DataFrame; None: there are none, or some are no text.

        Returns
        -------
        list of str or None
            The names.
        """
        if isinstance(self.source, (np.ndarray, tuple)) or callable(self.source):
            return None
        first = next(self.tables(), (None, None))[0]
        names = [] if first is None else list(first.columns)
        return names if names and all(isinstance(name, str) for name in names) else None

    def _parts(self) -> Iterator[tuple[Any, Any]]:
        source = self.source
        if _are_files(source):
            yield from self._parquet()
        elif callable(source):
            yield from map(_pair, _given(source()))
        elif isinstance(source, tuple):
            yield source
        elif isinstance(source, np.ndarray):
            yield source, None
        else:
            for part in source.to_delayed():
                yield self._divide(part.compute())

    def _parquet(self) -> Iterator[tuple[Any, Any]]:
        from pyarrow.parquet import ParquetFile  # pyarrow.dataset would read far ahead

        for file in _files(self.source):
            with ParquetFile(file, pre_buffer=False) as table:
                for group in range(table.num_row_groups):
                    for batch in table.iter_batches(self.rows, row_groups=[group], use_threads=False):
                        yield self._divide(batch.to_pandas())

    def _divide(self, frame: Any) -> tuple[Any, Any]:
        """Features and target of a DataFrame."""
        names = [] if self.target is None else [self.target] if isinstance(self.target, str) else list(self.target)
        missing = [name for name in names if name not in frame.columns]
        if missing:
            raise ValueError(f"target must name columns of the table; got {missing[0]!r}")
        y = None if self.target is None else frame[self.target].to_numpy()
        return frame.drop(columns=names), y

    def labelled(self) -> Iterator[tuple[Floats, NDArray[Any]]]:
        """The chunks of a table with y; ValueError if there is no y."""
        for X, y in self:
            if y is None:
                raise ValueError("source must have a target to fit to; got none")
            yield X, y

    def sample(self, count: int, rng: np.random.Generator) -> tuple[Floats, NDArray[Any], int]:
        """Draw random rows in one pass.

        Each row gets a random number; the rows with the largest are kept.

        Parameters
        ----------
        count : int
            Number of rows; all are taken if there are fewer.
        rng : numpy.random.Generator
            Random numbers.

        Returns
        -------
        X : ndarray of shape (count, p)
            The rows.
        y : ndarray of shape (count,) or (count, K)
            Their targets.
        n_rows : int
            Number of rows that there are.
        """
        kept_X, kept_y, kept_key = np.zeros((0, 0)), np.zeros(0), np.zeros(0)
        n = 0
        for X, y in self.labelled():
            n += len(X)
            key = rng.random(len(X))
            X, y, key = (
                (X, y, key)
                if not len(kept_key)
                else (np.concatenate([kept_X, X]), np.concatenate([kept_y, y]), np.concatenate([kept_key, key]))
            )
            if len(key) > count:
                best = np.sort(np.argpartition(key, len(key) - count)[len(key) - count :])
                X, y, key = X[best], y[best], key[best]
            kept_X, kept_y, kept_key = X, y, key
        if not n:
            raise ValueError("source must hold at least one row; got none")
        return kept_X, kept_y, n


def _are_files(source: Any) -> bool:
    return isinstance(source, (str, Path)) or (
        isinstance(source, list) and bool(source) and all(isinstance(one, (str, Path)) for one in source)
    )


def _given(parts: Any) -> Iterable[Any]:
    if not isinstance(parts, Iterable):
        raise ValueError(f"X must be a function that gives pairs of features and targets; it gave {parts!r}")
    return parts


def _pair(part: Any) -> tuple[Any, Any]:
    """Features and targets of a part."""
    if not isinstance(part, (tuple, list)) or len(part) != 2:
        what = f"{len(part)} things" if isinstance(part, (tuple, list)) else type(part).__name__
        raise ValueError(f"X must be a function that gives pairs of features and targets; a part was {what}")
    return part[0], part[1]


def _files(source: Any) -> list[str]:
    """The Parquet files of paths, folders and patterns; ValueError where there are none."""
    return [file for one in (source if isinstance(source, list) else [source]) for file in files_of(one)]


def _numbers(X: Any) -> Floats:
    """A table as an array of numbers; blanks are NaN."""
    numbers: Floats = X.to_numpy(np.float64, na_value=np.nan) if hasattr(X, "iloc") else np.asarray(X, np.float64)
    return np.ascontiguousarray(numbers)


def predict_chunks(
    model: Any, source: Any, *, target: str | list[str] | None = None, rows: int = ROWS, method: str = "predict"
) -> Iterator[NDArray[Any]]:
    """Predictions of any fitted estimator for each chunk of rows in turn. Columns of files and of Dask DataFrames are
    those of the names that the model knows, in any order; of a model without names they are in the model's order.

    Parameters
    ----------
    model : estimator
        A fitted estimator.
    source : object
        Rows, see `Chunks`; or `opttree.Rows`, whose parts are then the chunks.
    target : str or list of str or None, default None
        Columns of the table to leave out.
    rows : int, default 65536
        Largest number of rows in a chunk.
    method : {"predict", "predict_proba", "apply"}, default "predict"
        Name of the method of the estimator.

    Yields
    ------
    ndarray
        Predictions of one chunk.

    See Also
    --------
    Chunks : what is read

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TAORegressor, chunks, datasets
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> model = TAORegressor(max_depth=2, random_state=0).fit(X, y)
    >>> parts = list(chunks.predict_chunks(model, X, rows=200))
    >>> bool(np.array_equal(np.concatenate(parts), model.predict(X)))
    True
    """
    answer: Callable[[Any], NDArray[Any]] = getattr(model, method)
    names = getattr(model, "feature_names_in_", getattr(model, "feature_names", None))
    in_parts = hasattr(type(source), "part")  # of `opttree.Rows`, which imports this module
    tables = (
        ((source.part(number).X, None) for number in range(len(source)))
        if in_parts
        else Chunks(source, target, rows).tables()
    )
    for X, _y in tables:
        if not len(X):
            continue
        if not hasattr(X, "iloc") or names is None:
            yield answer(_numbers(X))
        else:  # by the names of the columns; a table that lacks one is refused by the model
            known = [name for name in names if name in X.columns]
            yield answer(X[known] if len(known) == len(names) else X)
