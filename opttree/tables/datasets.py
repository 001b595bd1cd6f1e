"""`load(name)`: real and generated data sets by name.

Looked up in this order: CSV files (``name.csv`` or ``name.csv.gz``, features first, target columns last) in the folder
that the environment variable OPTTREE_DATA names; scikit-learn's bundled sets and generators; OpenML, through
`sklearn.datasets.fetch_openml` and its cache.
"""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["Dataset", "guess_task", "load", "names", "read_csv"]

TASKS = {"regression": "regression", "binary": "classification", "multiclass": "classification"}
GENERATED_ROWS = 2000


@dataclass(frozen=True)
class Dataset:
    """A data set.

    Attributes
    ----------
    X : pandas.DataFrame
        Table of the features.
    y : pandas.Series or pandas.DataFrame
        The target, a table for several outputs.
    task : {"regression", "classification"}
        What is predicted.
    name : str
        Name of the data set.
    source : str
        Where it comes from.

    See Also
    --------
    load : what returns it

    Examples
    --------
    >>> from opttree import datasets
    >>> X, y = datasets.load("diabetes").as_arrays()
    >>> X.shape, y.shape
    ((442, 10), (442,))
    """

    X: pd.DataFrame
    y: pd.Series | pd.DataFrame
    task: str
    name: str
    source: str

    def encoded(self) -> pd.DataFrame:
        """``X`` as numbers: categorical columns one-hot, named "column_level" (a missing category is all zeros);
        missing numbers stay missing.
        """
        numeric = self.X.select_dtypes(["number", "bool"])
        X = pd.get_dummies(self.X, columns=[c for c in self.X if c not in numeric.columns], dtype=float)
        X = X.rename(columns=str).astype(np.float64)
        if not X.columns.is_unique:
            twice = X.columns[X.columns.duplicated()][0]
            raise ValueError(f"columns must have different names once levels are added to them; got {twice!r} twice")
        return X

    def levels(self) -> dict[str, tuple[str, str]]:
        """For each one-hot column of `encoded`: the name of the categorical column, and the level."""
        numeric = self.X.select_dtypes(["number", "bool"]).columns
        text = [c for c in self.X if c not in numeric]
        return {f"{c}_{level}": (str(c), str(level)) for c in text for level in self.X[c].dropna().unique()}

    def as_arrays(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Float64 ``(X, y)``: columns as in `encoded`, missing numbers replaced by the column's median; class labels
        as codes 0..K-1 in sorted order.

        Examples
        --------
        >>> from opttree import datasets
        >>> X, y = datasets.load("diabetes").as_arrays()
        >>> X.dtype.name, X.shape, y.shape
        ('float64', (442, 10), (442,))
        """
        X = self.encoded()
        y = np.asarray(self.y)
        if self.task == "classification":
            y = np.unique(y, return_inverse=True)[1]
        return np.ascontiguousarray(X.fillna(X.median())), y.astype(np.float64)


def _bundled(loader: str, task: str) -> Callable[[], Dataset]:
    def build() -> Dataset:
        from sklearn import datasets

        bunch = getattr(datasets, loader)(as_frame=True)
        y = bunch.target
        if hasattr(bunch, "target_names") and task == "classification":
            y = pd.Series(np.asarray(bunch.target_names)[y], name="target")
        return Dataset(bunch.data, y, task, loader.removeprefix("load_"), f"sklearn.datasets.{loader}")

    return build


def _generated(number: int) -> Callable[[], Dataset]:
    def build() -> Dataset:
        from sklearn import datasets

        maker = f"make_friedman{number}"
        X, y = getattr(datasets, maker)(n_samples=GENERATED_ROWS, noise=1.0 if number == 1 else 0.1, random_state=0)
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
        source = f"sklearn.datasets.{maker}, {GENERATED_ROWS} rows, random_state 0"
        return Dataset(frame, pd.Series(y, name="target"), "regression", f"friedman{number}", source)

    return build


_BUILT_IN: dict[str, Callable[[], Dataset]] = {
    "diabetes": _bundled("load_diabetes", "regression"),
    "linnerud": _bundled("load_linnerud", "regression"),
    "iris": _bundled("load_iris", "classification"),
    "wine": _bundled("load_wine", "classification"),
    "breast_cancer": _bundled("load_breast_cancer", "classification"),
    "digits": _bundled("load_digits", "classification"),
    "friedman1": _generated(1),
    "friedman2": _generated(2),
    "friedman3": _generated(3),
}


def _folder() -> Path | None:
    folder = os.environ.get("OPTTREE_DATA")
    if not folder:
        return None
    if not Path(folder).is_dir():
        raise ValueError(f"OPTTREE_DATA must name a folder; got {folder!r}")
    return Path(folder)


def _files() -> dict[str, Path]:
    folder = _folder()
    files = sorted([*folder.glob("*.csv"), *folder.glob("*.csv.gz")]) if folder else []
    return {path.name.split(".csv")[0]: path for path in files if path.name != "MANIFEST.csv"}


def names() -> list[str]:
    """Names that `load` knows without a network: the files in OPTTREE_DATA and the built-in sets, sorted.

    See Also
    --------
    load : loads one

    Examples
    --------
    >>> from opttree import datasets
    >>> "diabetes" in datasets.names() and "friedman1" in datasets.names()
    True
    """
    return sorted({*_files(), *_BUILT_IN})


def _images(name: str, path: Path) -> Dataset:
    """Grey images and their labels: training images, then test images, a column for each pixel, from 0 to 1."""
    with np.load(path) as data:
        pixels = np.concatenate([data["train_images"], data["test_images"]])
        labels = np.concatenate([data["train_labels"], data["test_labels"]])
    table = pixels.reshape(len(pixels), -1).astype(np.float32) / np.float32(255.0)
    frame = pd.DataFrame(table, columns=[f"pixel{j}" for j in range(table.shape[1])])
    return Dataset(frame, pd.Series(labels, name="label"), "classification", name, str(path.name))


@overload
def load(name: str, as_arrays: Literal[False] = False) -> Dataset: ...
@overload
def load(name: str, as_arrays: Literal[True]) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def load(name: str, as_arrays: bool = False) -> Dataset | tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Data set by its name.

    Parameters
    ----------
    name : str
        One of `names`, of a file of images in OPTTREE_DATA (such as "mnist", of ``mnist.npz``), or of a data set on
        OpenML.
    as_arrays : bool, default False
        Whether to return features and targets as float64 (`Dataset.as_arrays`) instead of a `Dataset`.

    Returns
    -------
    Dataset or tuple[ndarray of shape (n, p), ndarray of shape (n,)]
        The data set.

    Raises
    ------
    ValueError
        For an unknown name; the message lists near matches.

    See Also
    --------
    names : what there is
    read_csv, opttree.read_table : files of your own

    Examples
    --------
    >>> from opttree import datasets
    >>> data = datasets.load("diabetes")
    >>> data.X.shape, data.task
    ((442, 10), 'regression')
    >>> X, y = datasets.load("friedman1", as_arrays=True)
    >>> X.shape
    (2000, 10)
    """
    files = _files()
    if name in files:
        data = _read(name, files[name])
    elif name in _BUILT_IN:
        data = _BUILT_IN[name]()
    elif (folder := _folder()) is not None and (images := folder / f"{name}.npz").is_file():
        data = _images(name, images)
    else:
        data = _from_openml(name)
    return data.as_arrays() if as_arrays else data


def read_csv(path: str | Path) -> pd.DataFrame:
    r"""CSV file (also gzip) as a DataFrame.

    Parameters
    ----------
    path : path-like
        Name of the file.

    Returns
    -------
    pandas.DataFrame
        The table.

    Raises
    ------
    ValueError
        If it cannot be read.

    See Also
    --------
    opttree.read_table : files as people have them, and Parquet

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from opttree import datasets
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "table.csv"
    >>> _ = file.write_text("colour,size\nred,1\nblue,\n")
    >>> datasets.read_csv(file).shape
    (2, 2)
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows with more values than the header has names
            frame = pd.read_csv(path, index_col=False)
    except pd.errors.ParserWarning as warning:
        raise ValueError(f"{str(path)!r} must have no more values in a row than names in its header") from warning
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{str(path)!r} must be a readable CSV file with a header; {_first_line(error)}") from error
    if frame.empty:
        raise ValueError(f"{str(path)!r} must hold at least one row; got none")
    return frame


def guess_task(y: pd.Series) -> str:
    """Task that a target suggests.

    Parameters
    ----------
    y : pandas.Series of length n
        The target.

    Returns
    -------
    {"regression", "classification"}
        "regression" for numbers; "classification" for text, booleans, categories, 0 and 1, and other two integers.

    See Also
    --------
    load : data sets know their task

    Examples
    --------
    >>> from opttree import datasets
    >>> import pandas as pd
    >>> datasets.guess_task(pd.Series(["yes", "no"])), datasets.guess_task(pd.Series([1.5, 2.5, 3.25]))
    ('classification', 'regression')
    """
    if not pd.api.types.is_numeric_dtype(y) or y.dtype == bool:
        return "classification"
    two = y.nunique() == 2 and (y.dtype.kind in "iu" or set(y.unique()) == {0.0, 1.0})
    return "classification" if two else "regression"


def _read(name: str, path: Path) -> Dataset:
    frame = read_csv(path)
    targets = [c for c in frame.columns if c == "target" or c.startswith("target_")] or [frame.columns[-1]]
    y = frame[targets[0]] if len(targets) == 1 else frame[targets]
    manifest = path.parent / "MANIFEST.csv"
    task = guess_task(frame[targets[0]])
    if manifest.exists():
        table = pd.read_csv(manifest).set_index("name")
        if name in table.index:
            task = TASKS.get(str(table.loc[name, "task"]), task)
    return Dataset(frame.drop(columns=targets), y, task, name, path.name)


def _from_openml(name: str) -> Dataset:
    from sklearn.datasets import fetch_openml

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a failed first attempt; the error below reports it
            bunch: Any = fetch_openml(name, as_frame=True, parser="auto", n_retries=1, delay=0.01)
    except (OSError, ValueError) as error:
        near = difflib.get_close_matches(name, names(), n=5, cutoff=0.5)
        hint = f"near matches: {', '.join(near)}" if near else f"known names: {', '.join(names())}"
        raise ValueError(
            f"name must be a data set in OPTTREE_DATA, of scikit-learn or on OpenML; got {name!r} "
            f"({hint}; OpenML: {_first_line(error)})"
        ) from error
    y = bunch.target
    task = guess_task(y if isinstance(y, pd.Series) else y.iloc[:, 0])
    return Dataset(bunch.data, y, task, name, f"OpenML {bunch.details.get('id', '')}".strip())


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
