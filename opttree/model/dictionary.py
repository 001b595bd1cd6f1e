"""Conversion of trees to plain lists and scalars, which `json` can write, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.model import entries
from opttree.model.structure import check_children, is_deeper
from opttree.tables.encoding import Encoding
from opttree.wide.sparse import is_sparse

Floats = NDArray[np.float64]
FORMAT = "opttree.Tree"
VERSION = 1
SOFT_VERSION = 2  # version of trees with gates, which version 1 does not have
PACKED_VERSION = 3  # of trees whose weights of splits are compressed rows
MOST_LEVELS = 500  # deeper trees are not written or read: texts and pictures of them would not be readable, or end
NEEDED = ("n_features", "children", "A", "b", "values", "coefs", "link")
OPTIONAL = ("lower", "upper", "share", "spread")


def check_depth(children: NDArray[np.int32]) -> None:
    """ValueError for a tree of more than `MOST_LEVELS` levels."""
    if is_deeper(children, MOST_LEVELS):
        raise ValueError(f"a tree in a file must have at most {MOST_LEVELS} levels; got more")


def to_dict(tree: Any) -> dict[str, Any]:
    """Dictionary of an `opttree.Tree`; ValueError for a tree of more than `MOST_LEVELS` levels, and for class labels
    that a file cannot hold.
    """
    check_depth(tree.children)
    out: dict[str, Any] = {"format": FORMAT, "version": VERSION, "n_features": tree.n_features, "link": tree.link}
    if tree.gate is not None:
        out |= {"version": SOFT_VERSION, "gate": tree.gate, "mixture": tree.mixture}
    for name, weights in (("A", tree.split_weights), ("coefs", tree.leaf_weights)):
        if is_sparse(weights):
            packed = {"start": weights.indptr, "columns": weights.indices, "numbers": weights.data}
            out |= {"version": PACKED_VERSION, name: {part: array.tolist() for part, array in packed.items()}}
        else:
            out[name] = weights.tolist()
    for name in ("children", "b", "values", *OPTIONAL):
        value = getattr(tree, name)
        if value is not None:
            out[name] = value.tolist()
    if tree.classes is not None:
        out["classes"] = entries.labels(tree.classes.tolist()).tolist()
    if tree.feature_names is not None:
        out["feature_names"] = list(tree.feature_names)
    if tree.encoding is not None:
        out["encoding"] = tree.encoding.to_dict()
    return out


def from_dict(data: Mapping[str, Any]) -> dict[str, Any]:
    """Constructor arguments of an `opttree.Tree` from its dictionary.

    Raises
    ------
    ValueError
        For another format or version, or entries that are missing or of another shape.
    """
    if data.get("format") != FORMAT:
        raise ValueError(f"format must be {FORMAT!r}; got {entries.shown(data.get('format'))}")
    if data.get("version") not in (VERSION, SOFT_VERSION, PACKED_VERSION):
        known = f"{VERSION}, {SOFT_VERSION} or {PACKED_VERSION}, which this opttree reads"
        raise ValueError(f"version must be {known}; got {entries.shown(data.get('version'))}")
    missing = [k for k in NEEDED if k not in data]
    if missing:
        raise ValueError(f"a tree needs the entries {missing}; the data lack them")
    there = {name: value for name, value in data.items() if value is not None}
    p = entries.whole(data["n_features"], "n_features", 0)
    b = entries.numbers(data["b"], "b")
    n_branches = len(b)
    values = _shaped(entries.numbers(data["values"], "values"), "values", (n_branches + 1, -1))
    nodes = _shaped(entries.numbers(data["children"], "children"), "children", (n_branches, 2))
    if np.any((nodes < 1) | (nodes > 2 * n_branches) | (nodes % 1 != 0)):
        raise ValueError(f"children must be numbers of nodes, 1 to {2 * n_branches}; got others")
    children = nodes.astype(np.int32)
    check_children(children)
    check_depth(children)
    return {
        "children": children,
        "A": _weights(data["A"], "A", (n_branches, p), (n_branches, p)),
        "b": b,
        "values": values,
        "coefs": _weights(data["coefs"], "coefs", (values.size, p), (*values.shape, -1)),
        "link": entries.text(data["link"], "link"),
        "gate": entries.number(there["gate"], "gate") if "gate" in there else None,
        "mixture": entries.truth(data.get("mixture", False), "mixture"),
        "classes": entries.labels(there["classes"]) if "classes" in there else None,
        "feature_names": entries.texts(there["feature_names"], "feature_names") if "feature_names" in there else None,
        "encoding": Encoding.from_dict(there["encoding"]) if "encoding" in there else None,
        **{name: entries.numbers(there[name], name) for name in OPTIONAL if name in there},
    }


def _weights(data: Any, of: str, shape: tuple[int, int], dense: tuple[int, ...]) -> Any:
    """The weights of splits or leaves: an array, ``dense``, or compressed rows, ``shape``, where they are kept so."""
    if not isinstance(data, Mapping):
        numbers = entries.numbers(data, of)
        return _shaped(numbers, of, dense) if numbers.size or -1 not in dense else None
    from scipy.sparse import csr_array

    if missing := [name for name in ("start", "columns", "numbers") if name not in data]:
        raise ValueError(f"{of} needs the entries {missing}; the data lack them")
    start, columns, numbers = (entries.numbers(data[name], f"{of} {name}") for name in ("start", "columns", "numbers"))
    if shape[1] > np.iinfo(np.int32).max:
        raise ValueError(f"n_features must be at most {np.iinfo(np.int32).max}; got {shape[1]}")
    whole = all(np.all(part % 1 == 0) and np.all(part >= 0) for part in (start, columns))
    ordered = start.size == shape[0] + 1 and start[0] == 0 and np.all(np.diff(start) >= 0)
    if not (whole and ordered and start[-1] == columns.size == numbers.size and np.all(columns < shape[1])):
        raise ValueError(f"{of} must hold compressed rows, {shape[0]} of {shape[1]} features; got others")
    return csr_array((numbers, columns.astype(np.int32), start.astype(np.int32)), shape=shape)


def _shaped(array: Floats, name: str, shape: tuple[int, ...]) -> Floats:
    """The numbers in a shape, of which -1 is what is left; ValueError if there are too few or too many of them."""
    known = math.prod(size for size in shape if size >= 0)
    fits = array.size == known or (-1 in shape and array.size > 0 and array.size % known == 0)
    if not fits:
        raise ValueError(f"{name} must have shape {shape}; got {array.shape}")
    return array.reshape(shape)
