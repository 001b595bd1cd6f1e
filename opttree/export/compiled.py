"""`compile`: a model as a machine program in this process, for services that answer one row at a time."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from opttree.export.c import to_c
from opttree.export.columns import as_read, columns_read
from opttree.model.files import as_saved
from opttree.runtime.words import shown
from opttree.statement.numbers import are_small
from opttree.tables.encoding import as_number, level_text, raw_column

COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O2", "-std=c99", "-fPIC", "-shared")


class CompiledModel:
    """What `compile` returns. It may be called by several threads, and is neither saved nor copied.

    Attributes
    ----------
    backend : {"c", "numba"}
        What answers.
    columns : list of str
        The names of the numbers of a row, in their order: features, or the columns of a table that the model reads.

    See Also
    --------
    compile : makes it
    """

    def __init__(self, model: Any, backend: Literal["c", "numba"] | None) -> None:
        saved = as_saved(model)
        self._model = as_read(saved.tree)
        compiler = None if backend == "numba" else _compiler()
        if backend == "c" and compiler is None:
            raise ValueError(f"backend 'c' needs a compiler of C: one of {', '.join(COMPILERS)}, or CC; none was found")
        self.backend: Literal["c", "numba"] = "numba" if compiler is None else "c"
        self._table = None if self._model.encoding is None else _Columns(self._model.encoding)
        names = self._model.names() if self._table is None else self._table.names
        self.columns = [str(name) for name in names]
        self._classes = None if self._model.classes is None else np.asarray(self._model.classes)
        self._own = threading.local()
        self._library = None if compiler is None else _library(self._model, compiler)
        if self._library is not None:
            self._outputs = self._library.model_predict
            self._outputs.argtypes, self._outputs.restype = (ctypes.c_void_p, ctypes.c_void_p), None

    def __repr__(self) -> str:
        return f"CompiledModel({len(self.columns)} columns, {self.backend})"

    def predict_one(self, row: Any) -> Any:
        """The answer to one row.

        Parameters
        ----------
        row : array-like of shape (p,), or mapping
            Numbers in the order of the features; of a model with the encoding of a table, a mapping from the names of
            its columns to entries, missing where there is none, or their values in the order of ``columns``.

        Returns
        -------
        float, ndarray of shape (K,) or label
            What ``predict`` answers to this row.

        Raises
        ------
        ValueError
            If the row has another length, or a number that is not finite.
        """
        out = self._answer(row)
        if self._classes is not None:
            return self._classes[out.argmax()]
        return float(out[0]) if out.size == 1 else out.copy()

    def predict_proba_one(self, row: Any) -> Any:
        """The probabilities of the classes for one row.

        Parameters
        ----------
        row : array-like of shape (p,), or mapping
            See `predict_one`.

        Returns
        -------
        ndarray of shape (K,)
            In the order of the model's classes.

        Raises
        ------
        ValueError
            As `predict_one`, and for a model of numbers.
        """
        if self._classes is None:
            raise ValueError("predict_proba_one is for classes; got a model of numbers")
        return self._answer(row).copy()

    def _answer(self, row: Any) -> Any:
        """(K,) numbers or probabilities, in an array that the next call of this thread overwrites."""
        own = self._own
        if not hasattr(own, "x"):
            own.x, own.out = np.empty(self._model.n_features), np.empty(self._model.n_outputs)
            own.places = own.x.ctypes.data, own.out.ctypes.data
        if self._table is not None:
            self._table.read(row, self._library, own.x, own.places[0])
        elif np.shape(row) != own.x.shape:
            raise ValueError(f"row must have {own.x.size} numbers; got shape {np.shape(row)}")
        else:
            own.x[:] = row
        if not are_small(own.x):
            raise ValueError(f"row must hold finite numbers; got {shown(own.x[~np.isfinite(own.x)][:1].tolist())}")
        if self._library is None:
            X = own.x[None]
            found = self._model.predict_proba(X) if self._classes is not None else self._model.predict(X)
            own.out[:] = np.ravel(found)
        else:
            self._outputs(*own.places)
        return own.out


class _Columns:
    """The columns of a table that a model reads, and how a row of them becomes features."""

    def __init__(self, encoding: Any) -> None:
        self.encoding, self.read_ = encoding, columns_read(encoding)
        self.names = [read.column.name for read in self.read_]
        kinds = [ctypes.c_char_p if read.column.kind == "category" else ctypes.c_double for read in self.read_]
        fields = [(f"f{k}", kind) for k, kind in enumerate(kinds)]
        self.structure: Any = type("Row", (ctypes.Structure,), {"_fields_": fields})

    def read(self, row: Any, library: Any, x: Any, place: int) -> None:
        """Fill the features of a row."""
        if isinstance(row, Mapping):
            given = [row.get(name) for name in self.names]
        else:
            given = list(row)
            if len(given) != len(self.names):
                raise ValueError(f"row must have {len(self.names)} entries, see columns; got {len(given)}")
        if library is None:
            columns: list[Any] = [np.zeros(1)] * len(self.encoding.columns)
            for read, value in zip(self.read_, given, strict=True):
                columns[read.number] = raw_column(np.array([value, None], object)[:1], read.column)
            x[:] = self.encoding.encode(columns)[0]
            return
        entries = (
            level_text(value).encode() if read.column.kind == "category" else as_number(value, read.column)
            for read, value in zip(self.read_, given, strict=True)
        )
        library.model_encode(ctypes.byref(self.structure(*entries)), ctypes.c_void_p(place))


def _compiler() -> str | None:
    """The path of a compiler of C, or None."""
    named = os.environ.get("CC")
    return next((path for name in ([named] if named else COMPILERS) if (path := shutil.which(name))), None)


def _library(model: Any, compiler: str) -> Any:
    """The model as a shared library in this process, whose files are gone."""
    folder = Path(tempfile.mkdtemp(prefix="opttree-"))
    try:
        to_c(model, folder)
        command = [compiler, *FLAGS, "-o", str(folder / "model.so"), str(folder / "model.c"), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{compiler} does not compile the model: {done.stderr.strip()[:500]}")
        return ctypes.CDLL(str(folder / "model.so"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compile(model: Any, backend: Literal["c", "numba"] | None = None) -> CompiledModel:
    """Compile a fitted model for this process, so that one row takes some microseconds.

    By default it is `to_c`'s program, compiled by the machine's compiler (the environment variable CC, or "cc", "gcc",
    "clang"), and where there is none, the kernels by which `predict` answers. Answers are those of ``predict`` but for
    rounding.

    Parameters
    ----------
    model : Tree, Forest, Model or estimator
        The model; an estimator must be fitted.
    backend : {"c", "numba"} or None, default None
        What answers; None: "c" where there is a compiler.

    Returns
    -------
    CompiledModel
        With `CompiledModel.predict_one`.

    Raises
    ------
    ValueError
        If ``backend`` is no such name, or "c" and there is no compiler.

    See Also
    --------
    opttree.export.to_c : the program as files
    opttree.to_onnx : for ONNX runtimes

    Examples
    --------
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> fast = opttree.compile(model)
    >>> abs(fast.predict_one(X[0]) - model.predict(X[:1])[0]) < 1e-9
    True
    """
    if backend not in ("c", "numba", None):
        raise ValueError(f"backend must be 'c', 'numba' or None; got {backend!r}")
    return CompiledModel(model, backend)
