"""Models as files: JSON or NPZ, never pickle, so that loading a file cannot run code."""

from __future__ import annotations

import json
import math
import os
import re
import stat
import struct
import sys
import tokenize
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.model import dictionary, entries, forest
from opttree.model.convert import as_model, as_tree, exportable
from opttree.model.entries import MOST_BYTES
from opttree.model.forest import Forest
from opttree.model.late import late
from opttree.model.sums import check_sums
from opttree.model.tree import Tree
from opttree.runtime.files import whole_file
from opttree.tables.checks import check_columns, check_names
from opttree.tables.encoding import Column, Encoding, Feature, Levels, Value, is_table, narwhal, table_names
from opttree.tables.form import Form
from opttree.tables.numbers import check_numbers
from opttree.wide.sparse import as_rows, is_given_sparse, is_sparse

__all__ = ["Model", "load", "save"]

FORMAT = "opttree.Model"
VERSION = 1
PICKLES = (".pkl", ".pickle", ".joblib")
HALVES = re.compile(r"\\u[dD][89a-fA-F]")  # of letters beyond the first 65,536, as JSON writes them
ARRAYS = (*dictionary.NEEDED, *dictionary.OPTIONAL, "classes", "feature_names")  # of a tree, in an NPZ file
_DAMAGE = (  # what the readers of JSON and NPZ raise on damaged files
    OSError,
    KeyError,
    EOFError,
    ValueError,
    TypeError,
    IndexError,
    OverflowError,
    AttributeError,
    NotImplementedError,
    RuntimeError,
    struct.error,
    SyntaxError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True)
class Model:
    """A saved tree or forest with what is needed to apply it to a table: feature names, target name, method.

    `predict` takes a table (columns are found by name and may stand in any order) or an array: of the columns of the
    training table if the model has an ``encoding``, else of its features (n, p).

    Attributes
    ----------
    tree : Tree or Forest
        The model.
    feature_names : tuple of str
        Names of its features; those of the columns of a table are in ``tree.encoding``.
    target : str
        Name of what it predicts.
    method : str
        Name of the estimator that made it, or "".
    form : Form or None
        How the file of the training table was written, by which ``opttree predict`` reads others.

    Raises
    ------
    ValueError
        For names that are no texts or too few, and, without an encoding, for features of one name.

    See Also
    --------
    load : what returns it
    Tree, Forest : what it holds

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, random_state=0).fit(X, y)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.json"
    >>> opttree.save(model, path)
    >>> loaded = opttree.load(path)
    >>> type(loaded).__name__, loaded.tree.n_features
    ('Model', 10)
    """

    tree: Tree | Forest
    feature_names: tuple[str, ...]
    target: str = "target"
    method: str = ""
    form: Form | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "feature_names", entries.texts(list(self.feature_names), "feature_names"))
        entries.text(self.target, "target")
        entries.text(self.method, "method")
        self.tree.names(self.feature_names)
        if self.encoding is None and len(set(self.feature_names)) < len(self.feature_names):
            twice = next(name for name, count in Counter(self.feature_names).items() if count > 1)
            raise ValueError(f"feature_names must differ from one another; got {twice!r} twice")

    @property
    def names(self) -> list[str]:
        """Names of the features for texts and pictures."""
        return self.tree.names() if self.encoding is not None else list(self.feature_names)

    @property
    def columns(self) -> list[str]:
        """Names of the columns of its tables, from which the features are made, or of the features."""
        return list(self.feature_names) if self.encoding is None else [column.name for column in self.encoding.columns]

    @property
    def encoding(self) -> Encoding | None:
        """How the features are made of the columns of a table, or None."""
        return self.tree.encoding

    def table(self, X: Any) -> Any:
        """Features of a table or an array.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows with the columns of the training.

        Returns
        -------
        ndarray of shape (n, p)
            The features; SciPy's sparse rows, of a sparse matrix or array.

        Raises
        ------
        ValueError
            For a column that is absent, or of another kind, and numbers that are infinite or beyond 1e150.
        """
        Z = self._read(X)
        check_numbers("X", Z.data if is_sparse(Z) else Z)
        return Z

    def _read(self, X: Any) -> Any:
        if is_table(X):
            check_names(X)
        if self.encoding is not None:
            return self.encoding.transform(X)
        if is_given_sparse(X) and not is_table(X):
            return as_rows(X)
        if is_table(X):
            import pandas as pd

            columns = dict(zip(map(str, table_names(X) or []), table_names(X) or [], strict=True))
            frame = X if isinstance(X, pd.DataFrame) else narwhal(X).to_pandas()
            if not any(isinstance(name, str) for name in frame.columns) and frame.shape[1] == len(self.feature_names):
                frame = frame.set_axis(list(self.feature_names), axis=1)  # by place, as estimators read such tables
                columns = {name: name for name in self.feature_names}
            for name in self.feature_names:
                if name not in columns:
                    raise ValueError(f"X must have the columns the model was trained on; got none called {name!r}")
            X = pd.DataFrame({name: frame[columns[name]] for name in self.feature_names}, index=frame.index)
            check_columns(X)
            return np.ascontiguousarray(X.to_numpy(np.float64))
        check_columns(X)
        return np.ascontiguousarray(X, np.float64)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict each row.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows with the columns of the training.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            Values, (n, K) for several outputs, or class labels.
        """
        return self.tree.predict(self.table(X))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities of each row.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows with the columns of the training.

        Returns
        -------
        ndarray of shape (n, K)
            Probabilities.
        """
        return self.tree.predict_proba(self.table(X))

    def to_html(self, **options: Any) -> str:
        """The model as an HTML page of branches that open and close.

        Parameters
        ----------
        **options : object
            Options of `opttree.export.to_html`.

        Returns
        -------
        str
            The page.
        """
        page: str = late("html")(self, **options)
        return page

    def explain(self, row: Any) -> str:
        """How the model comes to its answer for one row, in words.

        Parameters
        ----------
        row : DataFrame or array-like of shape (p,) or (1, p)
            One row.

        Returns
        -------
        str
            What `opttree.explain.path` says of it.
        """
        words: str = late("explain")(self, row)
        return words

    def to_text(self) -> str:
        """The tree as text with its feature names; ValueError for a forest."""
        tree = as_tree(self.tree)
        return tree.to_text() if tree.encoding is not None else tree.to_text(self.feature_names)


def as_saved(
    model: Any, feature_names: Sequence[str] | None = None, target: str | None = None, *, curves: bool = False
) -> Model:
    """The `Model` of a tree, a forest, a result or a fitted estimator; a `Model` as it is. ``curves``: whether its
    trees may be of features on curves.
    """
    if not curves:
        as_model(model)  # refuses them
    if isinstance(model, Model):
        return model
    inside = exportable(model)
    plain = isinstance(inside, Forest) and inside.curves is None
    if isinstance(inside, Forest) and plain and len(inside.trees) == 1 and inside.link == "identity":
        inside = as_tree(inside) if inside.classes is None or inside.is_proper else inside
    if feature_names is None and inside.encoding is None:
        feature_names = getattr(model, "feature_names_in_", None)
    method = "" if isinstance(model, (Tree, Forest)) else type(model).__name__
    target = target or getattr(model, "_target_name", None) or "target"
    return Model(inside, tuple(inside.names(feature_names)), target, method)


def save(
    model: Any,
    path: str | os.PathLike[str],
    *,
    feature_names: Sequence[str] | None = None,
    target: str | None = None,
    form: Form | None = None,
) -> None:
    """Write a `Tree`, a `Forest`, a `Model`, a result or a fitted estimator to ``path``: JSON, or NPZ if the name ends
    in ``.npz``. The encoding of a table goes with it.

    The write is atomic: a temporary file is moved into place. A classifier of several outputs is written with its joint
    classes, "a | b": the file answers the likeliest combination, `predict` the likeliest label of each output.

    Parameters
    ----------
    model : Tree, Forest, Model, Result or estimator
        What to write.
    path : str or os.PathLike[str]
        Name of the file, which ends in ``.json`` or ``.npz``.
    feature_names : sequence of str or None, default None
        The p names in place of the model's own.
    target : str or None, default None
        What the model predicts, for texts and SQL; None: the name of the ``y`` of the fit, or "target".
    form : Form or None, default None
        How the file of the training table was written.

    Raises
    ------
    ValueError
        For a model that would answer differently from its estimator, and for the name of a pickle.

    See Also
    --------
    load : reads it
    to_onnx : for other programs

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, random_state=0).fit(X, y)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.json"
    >>> opttree.save(model, path)
    >>> path.suffix, path.stat().st_size > 500
    ('.json', True)
    """
    path = Path(path)
    check_suffix(path, "path")
    model = as_saved(model, feature_names, target, curves=True)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "feature_names": list(model.feature_names),
        "target": model.target,
        "method": model.method,
    }
    form = form or model.form
    if form is not None:
        header["form"] = form.to_dict()
    data = model.tree.to_dict()
    with whole_file(path) as file:
        if path.suffix == ".npz":
            arrays: dict[str, Any] = {}
            text = json.dumps({**header, "tree": _unpacked(data, "", arrays)})
            np.savez_compressed(file, header=np.array(text), **arrays)
        else:
            file.write_text(json.dumps({**header, "tree": data}, indent=None))


def check_suffix(path: Path, name: str) -> None:
    """ValueError for the name of a pickle: models are written as text or arrays, whatever their file is called."""
    if path.suffix.lower() in PICKLES:
        raise ValueError(
            f"{name} must end in .json or .npz: models are never pickles, which can run code; got {path.name!r}"
        )


def _unpacked(data: dict[str, Any], place: str, arrays: dict[str, Any]) -> dict[str, Any]:
    """The entries of a model without the lists of its trees' numbers, which go into ``arrays`` by their place."""
    if "layers" in data:
        layers = [
            [_unpacked(tree, f"{place}{k}/{t}/", arrays) for t, tree in enumerate(layer)]
            for k, layer in enumerate(data["layers"])
        ]
        return {**data, "layers": layers}
    lists = {name: value for name, value in data.items() if isinstance(value, list)}
    for name, value in lists.items():
        arrays[f"{place}{name}"] = entries.labels(value) if name == "classes" else np.asarray(value)
    return {name: value for name, value in data.items() if name not in lists}


def _packed(data: dict[str, Any], place: str, arrays: Mapping[str, Mapping[str, Any]]) -> None:
    """Put the arrays, by their places and names, back into the entries of a model."""
    if "layers" in data:
        for k, layer in enumerate(data["layers"]):
            for t, tree in enumerate(layer):
                _packed(tree, f"{place}{k}/{t}/", arrays)
        return
    data.update({name: value for name, value in arrays.get(place, {}).items() if name in ARRAYS})


def _read_arrays(path: str | os.PathLike[str]) -> dict[str, dict[str, NDArray[Any]]]:
    """The arrays of an NPZ file by the places of their trees, "" for a single one and for the header, and their names.

    `numpy.load` of NumPy 1 looks for each array in a list of all.
    """
    arrays: dict[str, dict[str, NDArray[Any]]] = {}
    with zipfile.ZipFile(path) as members:
        _check_members(members)
        for member in members.infolist():
            place, slash, name = member.filename.removesuffix(".npy").rpartition("/")
            with members.open(member) as array:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    found = np.lib.format.read_array(array, allow_pickle=False)
                _check_letters(member.filename, found)
                arrays.setdefault(place + slash, {})[name] = found
    return arrays


def _check_letters(name: str, array: NDArray[Any]) -> None:
    """ValueError for texts with numbers that are no letters of Unicode: Python makes strings of them all the same."""
    if array.dtype.kind == "U":
        letters = np.ascontiguousarray(array).view(array.dtype.byteorder.replace("|", "=") + "u4")
        if np.any((letters > sys.maxunicode) | ((letters >= 0xD800) & (letters < 0xE000))):
            raise ValueError(f"{name} must hold letters of Unicode")


def _shortened(error: Exception) -> str:
    """The words of an error in one line of at most 200 characters; they may quote the file."""
    words = " ".join(str(error).split())
    return words if len(words) <= 200 else f"{words[:197]}..."


def _check_size(size: int) -> None:
    """ValueError for more bytes than a model may have."""
    if size > MOST_BYTES:
        raise ValueError(f"models are of at most {MOST_BYTES} bytes, and this is of {size}")


def _check_members(members: zipfile.ZipFile) -> None:
    """ValueError, before memory is taken, for an NPZ file whose arrays are larger than they may be, or are not what
    their headers say.
    """
    _check_size(sum(member.file_size for member in members.infolist()))
    for member in members.infolist():
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{member.filename} must be stored or deflated; its method is {member.compress_type}")
        with members.open(member) as array:
            version = np.lib.format.read_magic(array)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of headers by Python 2, which ours are not
                shape, _order, dtype = read(array)
            if dtype.kind not in "fiubUS" or dtype.itemsize == 0:
                raise ValueError(f"{member.filename} must hold numbers or text; it holds {dtype}")
            count = math.prod(shape)
            size = count * dtype.itemsize
            if size != member.file_size - array.tell():
                raise ValueError(f"{member.filename} says that it holds {size} bytes, and holds {member.file_size}")
            _check_size(8 * count)  # as numbers in double precision


def load(path: str | os.PathLike[str]) -> Model:
    """Read what `save` wrote.

    Parameters
    ----------
    path : str or os.PathLike[str]
        Name of a ``.json`` or ``.npz`` file.

    Returns
    -------
    Tree or Forest
        The model.

    Raises
    ------
    ValueError
        For a file that is missing, truncated, not a model, too large, or of another version; the message says which.

    See Also
    --------
    save : writes it
    Model : what it returns

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, random_state=0).fit(X, y)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.json"
    >>> opttree.save(model, path)
    >>> loaded = opttree.load(path)
    >>> bool((loaded.predict(X) == model.predict(X)).all())
    True
    """
    try:
        data = _read(path)
    except _DAMAGE as error:
        damaged = f"it is damaged or not a model ({_shortened(error)})"
        reason = "no such file" if isinstance(error, FileNotFoundError) else damaged
        raise ValueError(f"{str(path)!r} must be a model written by opttree; {reason}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"{str(path)!r} must be a model written by opttree; its format is not {FORMAT!r}")
    if data.get("version") != VERSION:
        raise ValueError(
            f"{str(path)!r} must have model version {VERSION}, the one this opttree reads; "
            f"got {entries.shown(data.get('version'))}"
        )
    try:
        return _model(data)
    except _DAMAGE as error:
        raise ValueError(
            f"{str(path)!r} must be a model written by opttree; its content is damaged: {_shortened(error)}"
        ) from error


def _read(path: str | os.PathLike[str]) -> Any:
    """The content of a file, which is read only if it is an ordinary one: a device has no end, and a pipe may wait."""
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("a folder, a device or a pipe")
    _check_size(found.st_size)
    if Path(path).suffix != ".npz":
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
        _check_size(len(content))
        text = content.decode("utf-8")
        data = json.loads(text)
        if HALVES.search(text):
            json.dumps(data, ensure_ascii=False).encode("utf-8")  # UnicodeEncodeError for a half without its other
        return data
    arrays = _read_arrays(path)
    data = json.loads(str(arrays[""].pop("header")))
    _packed(data["tree"], "", arrays)
    return data


def _model(data: dict[str, Any]) -> Model:
    """The model of what a file holds."""
    content = entries.entries(data["tree"], "the tree")
    tree = Forest.from_dict(content) if content.get("format") == forest.FORMAT else Tree.from_dict(content)
    names = entries.texts(data["feature_names"], "feature_names")
    if data.get("fill") or data.get("levels"):  # as versions before encodings wrote them
        fill, levels = (entries.entries(data.get(name) or {}, name) for name in ("fill", "levels"))
        tree = tree.with_names(None, _encoding_of(names, fill, levels))
    form = None if data.get("form") is None else Form.from_dict(entries.entries(data["form"], "form"))
    model = Model(tree, names, entries.text(data["target"], "target"), entries.text(data["method"], "method"), form)
    check_sums(tree)
    return model


def _encoding_of(names: Sequence[str], fill: Mapping[str, Any], levels: Mapping[str, Any]) -> Encoding:
    """The encoding that older model files state as replacements of missing numbers, and levels of indicators, each the
    name of a column and one of its categories.
    """
    columns: dict[str, Column] = {}
    features: list[Feature] = []
    for name in names:
        pair = entries.texts(levels.get(name, [name]), "an entry of levels")
        if name in levels and len(pair) != 2:
            raise ValueError(f"levels must hold pairs of a column and a category; got {entries.shown(pair)}")
        columns.setdefault(pair[0], Column(pair[0], "category" if name in levels else "number"))
    places = {column: place for place, column in enumerate(columns)}
    for name in names:
        if name in levels:
            column, level = levels[name]
            features.append(Levels(places[column], {level: 1.0}, 0.0, 0.0))
        else:
            features.append(Value(places[name], entries.number(fill.get(name, 0.0), "an entry of fill")))
    return Encoding(tuple(columns.values()), tuple(features))
