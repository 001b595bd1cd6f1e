"""`compile`: a model as a machine program in this process, for services that answer one row at a time."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any, Literal

import numpy as np

from opttree.export.c import to_c
from opttree.export.columns import UntoldLevelError, as_read, columns_read
from opttree.model.files import as_saved
from opttree.tables.encoding import as_number, level_text, raw_column
from opttree.tables.numbers import check_numbers

COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O2", "-std=c99", "-fPIC", "-shared")


class CompiledModel:
    """What `compile` returns. It may be called by several threads, and is neither saved nor copied.

    Parameters
    ----------
    model : Tree, Forest, Model or estimator
        The model; an estimator must be fitted.
    backend : {"c", "numba"} or None
        See `compile`.

    Attributes
    ----------
    backend : {"c", "numba"}
        What answers.
    columns : list of str
        The names of the numbers of a row, in their order: features, or the columns of a table that the model reads.

    See Also
    --------
    compile : makes it

    Examples
    --------
    >>> import opttree
    >>> model = opttree.TAOClassifier(max_depth=1, random_state=0).fit([[0.0], [1.0]] * 9, ["no", "yes"] * 9)
    >>> fast = opttree.compile(model)
    >>> str(fast.predict_one([0.9])), fast.predict_proba_one([0.9]).tolist()
    ('yes', [0.0, 1.0])
    """

    def __init__(self, model: Any, backend: Literal["c", "numba"] | None) -> None:
        saved = as_saved(model, curves=True)
        self._model = as_read(saved.tree)
        self._library = None if backend == "numba" else _library(self._model, needed=backend == "c")
        self.backend: Literal["c", "numba"] = "numba" if self._library is None else "c"
        self._table = None if self._model.encoding is None else _Columns(self._model.encoding)
        names = self._model.names() if self._table is None else self._table.names
        self.columns = [str(name) for name in names]
        self._classes = None if self._model.classes is None else np.asarray(self._model.classes)
        several = getattr(model, "_several", None)
        self._several = several and [
            (labels, (np.asarray(codes)[:, None] == np.arange(len(labels))).astype(np.float64))
            for labels, codes in several
        ]
        self._own = threading.local()
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
            Numbers in the order of the features; of a model of a table, entries in the order of ``columns`` or of all
            columns of the table, or a mapping from their names (a dict, a row of pandas). With an encoding, a column
            may be missing, unless there is a name that the table does not have.

        Returns
        -------
        float, ndarray of shape (K,) or label
            What ``predict`` answers to this row; (K,) labels for several outputs.

        Raises
        ------
        ValueError
            If the row has another length or other names, or a number that is not finite.
        """
        out = self._answer(row)
        if self._several:
            picked = [labels[(out @ shares).argmax()] for labels, shares in self._several]
            kind = None if len({labels.dtype.kind for labels, _shares in self._several}) == 1 else object
            return np.array(picked, kind)
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
        ndarray of shape (K,), or list of them
            In the order of the model's classes; a list for several outputs.

        Raises
        ------
        ValueError
            As `predict_one`, and for a model of numbers.
        """
        if self._classes is None:
            raise ValueError("predict_proba_one is for classes; got a model of numbers")
        out = self._answer(row).copy()
        return [out @ shares for _labels, shares in self._several] if self._several else out

    def _answer(self, row: Any) -> Any:
        """(K,) numbers or probabilities, in an array that the next call of this thread overwrites."""
        own = self._own
        if not hasattr(own, "x"):
            own.x, own.out = np.empty(self._model.n_features), np.empty(self._model.n_outputs)
            own.places = own.x.ctypes.data, own.out.ctypes.data
        if self._table is not None:
            self._table.read(row, self._library, own.x, own.places[0])
        else:
            if hasattr(row, "keys"):
                absent = [name for name in self.columns if name not in row]
                if absent:
                    raise ValueError(f"row must have an entry for {absent[0]!r}; got none")
                row = [row[name] for name in self.columns]
            if np.shape(row) != own.x.shape:
                raise ValueError(f"row must have {own.x.size} numbers; got shape {np.shape(row)}")
            own.x[:] = row
        check_numbers("row", own.x)
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
        self.known = {column.name for column in encoding.columns}
        kinds = [ctypes.c_char_p if read.column.kind == "category" else ctypes.c_double for read in self.read_]
        fields = [(f"f{k}", kind) for k, kind in enumerate(kinds)]
        self.structure: Any = type("Row", (ctypes.Structure,), {"_fields_": fields})

    def read(self, row: Any, library: Any, x: Any, place: int) -> None:
        """Fill the features of a row."""
        if hasattr(row, "keys"):
            given = [row.get(name) for name in self.names]
            absent = [name for name in self.names if name not in row]
            if absent and (unknown := [name for name in row.keys() if name not in self.known]):  # noqa: SIM118
                raise ValueError(f"row must name columns of the table, such as {absent[0]!r}; got {unknown[0]!r}")
        else:
            given = list(row)
            if len(given) == len(self.encoding.columns):
                given = [given[read.number] for read in self.read_]
            if len(given) != len(self.names):
                raise ValueError(f"row must have {len(self.names)} entries, see columns; got {len(given)}")
        texts = [
            level_text(value) if read.column.kind == "category" else ""
            for read, value in zip(self.read_, given, strict=True)
        ]
        if library is None or not all(map(plain, texts)):
            columns: list[Any] = [np.zeros(1)] * len(self.encoding.columns)
            for read, value in zip(self.read_, given, strict=True):
                columns[read.number] = raw_column(np.array([value, None], object)[:1], read.column)
            x[:] = self.encoding.encode(columns)[0]
            return
        entries = (
            text.encode() if read.column.kind == "category" else as_number(value, read.column)
            for read, value, text in zip(self.read_, given, texts, strict=True)
        )
        library.model_encode(ctypes.byref(self.structure(*entries)), ctypes.c_void_p(place))


def plain(text: str) -> bool:
    """Whether C can have a text: no zero byte, no half of a character."""
    return "\0" not in text and (text.isascii() or text.encode("utf-8", "ignore").decode() == text)


def _compiler() -> list[str] | None:
    """The command of a compiler of C, or None."""
    named = shlex.split(os.environ.get("CC", ""))
    commands = [named] if named else [[name] for name in COMPILERS]
    return next((command for command in commands if shutil.which(command[0])), None)


def _library(model: Any, *, needed: bool) -> Any:
    """The model as a shared library in this process, whose files are gone; None where no compiler makes one, an error
    where it is ``needed``.
    """
    compiler = _compiler()
    if compiler is None:
        if needed:
            raise ValueError(f"backend 'c' needs a compiler of C: one of {', '.join(COMPILERS)}, or CC; none was found")
        return None
    folder = Path(tempfile.mkdtemp(prefix="opttree-"))
    try:
        try:
            to_c(model, folder)
        except UntoldLevelError:
            if needed:
                raise
            return None
        command = [*compiler, *FLAGS, "-o", str(folder / "model.so"), str(folder / "model.c"), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            if needed:
                raise ValueError(f"backend 'c' needs a compiler that works; {compiler[0]} says {done.stderr[:500]!r}")
            return None
        return ctypes.CDLL(str(folder / "model.so"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def compile(model: Any, backend: Literal["c", "numba"] | None = None) -> CompiledModel:
    """Compile a fitted model for this process, so that one row takes some microseconds.

    By default it is `to_c`'s program, compiled by the machine's compiler (the environment variable CC, or "cc", "gcc",
    "clang"). Where there is none, or where levels of a column are no texts or numbers of C, the kernels answer by which
    `predict` does. Answers are those of ``predict`` but for rounding.

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
        If ``backend`` is no such name, or "c" and there is no program of C, or no compiler of this machine makes it.

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
    >>> bool(abs(fast.predict_one(X[0]) - model.predict(X[:1])[0]) < 1e-9)
    True
    """
    if backend not in ("c", "numba", None):
        raise ValueError(f"backend must be 'c', 'numba' or None; got {backend!r}")
    return CompiledModel(model, backend)
