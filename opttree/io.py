"""Models as files: JSON or NPZ, never pickle, so that loading a file cannot run code."""

from __future__ import annotations

import json
import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from opttree.checks import check_columns
from opttree.files import whole_file
from opttree.models import as_tree
from opttree.tree import Tree

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "opttree.Model"
VERSION = 1
MOST_BYTES = 1 << 30  # of a file, and of what is packed in it
_DAMAGE = (  # what the readers of JSON and NPZ raise on damaged files
    OSError,
    KeyError,
    EOFError,
    ValueError,
    TypeError,
    AttributeError,
    NotImplementedError,
    RuntimeError,
    SyntaxError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True)
class Model:
    """A saved tree with what is needed to apply it to a table: feature names, target name, method.

    `predict` takes a DataFrame (columns are found by name and may stand in any order) or an array (n, p).

    Attributes
    ----------
    levels : for each indicator feature, by name: the categorical column and the level it stands for.
    fill : replacement of missing numbers in a DataFrame, for each feature that may have them; None: they are refused.
    """

    tree: Tree
    feature_names: tuple[str, ...]
    target: str = "target"
    method: str = ""
    fill: Mapping[str, float] | None = None
    levels: Mapping[str, tuple[str, str]] | None = None

    def table(self, X: pd.DataFrame | NDArray[Any]) -> NDArray[np.float64]:
        """The features of X as an array (n, p); ValueError for a missing, categorical or incomplete column."""
        if not isinstance(X, np.ndarray):
            import pandas as pd

            X = X.rename(columns=str)
            X = pd.DataFrame({name: self._column(X, name) for name in self.feature_names}, index=X.index)
            if self.fill:
                X = X.fillna(dict(self.fill))
            check_columns(X)
            return np.ascontiguousarray(X.to_numpy(np.float64))
        check_columns(X)
        return np.ascontiguousarray(X, np.float64)

    def _column(self, X: pd.DataFrame, name: str) -> Any:
        """The column called ``name``, or the indicator of the level that this feature stands for."""
        column, level = (self.levels or {}).get(name, (name, None))
        if column not in X.columns:
            raise ValueError(f"X must have the columns the model was trained on; got none called {column!r}")
        if level is None:
            return X[column]
        return _is_level(X[column], level).astype(np.float64)

    def predict(self, X: pd.DataFrame | NDArray[Any]) -> NDArray[Any]:
        """Predictions (n,) or (n, K), or class labels."""
        return self.tree.predict(self.table(X))

    def predict_proba(self, X: pd.DataFrame | NDArray[Any]) -> NDArray[np.float64]:
        """Class probabilities (n, K)."""
        return self.tree.predict_proba(self.table(X))

    def to_text(self) -> str:
        """The tree as text with its feature names."""
        return self.tree.to_text(self.feature_names)


def _is_level(column: Any, level: str) -> Any:
    """Which entries of a column equal the level; the column may have been read as numbers."""
    if column.dtype.kind in "iuf":
        try:
            return column == float(level)
        except ValueError:
            return column.isna() & False
    return column.notna() & (column.astype(str) == level)


def save(
    model: Any,
    path: str | os.PathLike[str],
    *,
    feature_names: Sequence[str] | None = None,
    target: str = "target",
) -> None:
    """Write a `Tree`, a `Model`, a result or a fitted estimator of one tree to ``path``: JSON, or NPZ if the name ends
    in ``.npz``.

    The write is atomic: a temporary file is moved into place.
    """
    if not isinstance(model, Model):
        tree = as_tree(model)
        if feature_names is None:
            feature_names = getattr(model, "feature_names_in_", None)
        method = "" if isinstance(model, Tree) else type(model).__name__
        model = Model(tree, tuple(tree.names(feature_names)), target, method)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "feature_names": list(model.feature_names),
        "target": model.target,
        "method": model.method,
    }
    if model.fill is not None:
        header["fill"] = {name: float(value) for name, value in model.fill.items()}
    if model.levels is not None:
        header["levels"] = {name: [column, level] for name, (column, level) in model.levels.items()}
    data = model.tree.to_dict()
    path = Path(path)
    with whole_file(path) as file:
        if path.suffix == ".npz":
            arrays = {k: np.asarray(v) for k, v in data.items() if isinstance(v, list)}
            scalars = {k: v for k, v in data.items() if not isinstance(v, list)}
            text = json.dumps({**header, "tree": scalars})
            np.savez_compressed(file, header=np.array(text), **arrays)  # type: ignore[arg-type]
        else:
            file.write_text(json.dumps({**header, "tree": data}, indent=None))


def _shortened(error: Exception) -> str:
    """The words of an error in one line of at most 200 characters; they may quote the file."""
    words = " ".join(str(error).split())
    return words if len(words) <= 200 else f"{words[:197]}..."


def _check_size(size: int) -> None:
    if size > MOST_BYTES:
        raise ValueError(f"models are of at most {MOST_BYTES} bytes, and this is of {size}")


def _check_members(file: IO[bytes]) -> None:
    """ValueError, before memory is taken, for an NPZ file whose arrays are larger than they may be, or are not what
    their headers say.
    """
    with zipfile.ZipFile(file) as members:
        _check_size(sum(member.file_size for member in members.infolist()))
        for member in members.infolist():
            with members.open(member) as array:
                version = np.lib.format.read_magic(array)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _order, dtype = read(array)
                if dtype.kind not in "fiubUS" or dtype.itemsize == 0:
                    raise ValueError(f"{member.filename} must hold numbers or text; it holds {dtype}")
                count = math.prod(shape)
                size = count * dtype.itemsize
                if size != member.file_size - array.tell():
                    raise ValueError(f"{member.filename} says that it holds {size} bytes, and holds {member.file_size}")
                _check_size(8 * count)  # as numbers in double precision
    file.seek(0)


def load(path: str | os.PathLike[str]) -> Model:
    """Read what `save` wrote.

    Raises
    ------
    ValueError
        For a file that is missing, truncated, not a model, too large, or of another version; the message says which.
    """
    try:
        _check_size(os.path.getsize(path))
        if Path(path).suffix == ".npz":
            with open(path, "rb") as file:
                _check_members(file)
                with np.load(file, allow_pickle=False) as parts:
                    data = json.loads(str(parts["header"]))
                    data["tree"].update({k: parts[k] for k in parts.files if k != "header"})
        else:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
    except _DAMAGE as error:
        damaged = f"it is damaged or not a model ({_shortened(error)})"
        reason = "no such file" if isinstance(error, FileNotFoundError) else damaged
        raise ValueError(f"{str(path)!r} must be a model written by opttree; {reason}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"{str(path)!r} must be a model written by opttree; its format is not {FORMAT!r}")
    if data.get("version") != VERSION:
        raise ValueError(
            f"{str(path)!r} must have model version {VERSION}, the one this opttree reads; "
            f"got {repr(data.get('version'))[:50]}"
        )
    try:
        tree = Tree.from_dict(data["tree"])
        names = tuple(str(name) for name in data["feature_names"])
        tree.names(names)
        fill = None if data.get("fill") is None else {str(k): float(v) for k, v in data["fill"].items()}
        levels = {name: (str(column), str(level)) for name, (column, level) in (data.get("levels") or {}).items()}
        return Model(tree, names, str(data["target"]), str(data["method"]), fill, levels or None)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"{str(path)!r} must be a model written by opttree; its content is damaged: {_shortened(error)}"
        ) from error
