"""Conversion of trees to plain lists and scalars, which `json` can write, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.model.structure import check_children, is_deeper
from opttree.tables.encoding import Encoding

FORMAT = "opttree.Tree"
VERSION = 1
SOFT_VERSION = 2  # version of trees with gates, which version 1 does not have
MOST_LEVELS = 500  # deeper trees are not written or read: texts and pictures of them would not be readable, or end
NEEDED = ("n_features", "children", "A", "b", "values", "coefs", "link")
OPTIONAL = ("lower", "upper", "classes", "share", "spread")


def check_depth(children: NDArray[np.int32]) -> None:
    """ValueError for a tree of more than `MOST_LEVELS` levels."""
    if is_deeper(children, MOST_LEVELS):
        raise ValueError(f"a tree in a file must have at most {MOST_LEVELS} levels; got more")


def to_dict(tree: Any) -> dict[str, Any]:
    """Dictionary of an `opttree.Tree`; ValueError for a tree of more than `MOST_LEVELS` levels."""
    check_depth(tree.children)
    out: dict[str, Any] = {"format": FORMAT, "version": VERSION, "n_features": tree.n_features, "link": tree.link}
    if tree.gate is not None:
        out |= {"version": SOFT_VERSION, "gate": tree.gate, "mixture": tree.mixture}
    for name in ("children", "A", "b", "values", "coefs", *OPTIONAL):
        value = getattr(tree, name)
        if value is not None:
            out[name] = value.tolist()
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
        raise ValueError(f"format must be {FORMAT!r}; got {data.get('format')!r}")
    if data.get("version") not in (VERSION, SOFT_VERSION):
        known = f"{VERSION} or {SOFT_VERSION}, which this opttree reads"
        raise ValueError(f"version must be {known}; got {data.get('version')!r}")
    missing = [k for k in NEEDED if k not in data]
    if missing:
        raise ValueError(f"a tree needs the entries {missing}; the data lack them")
    n_branches, p = len(data["b"]), int(data["n_features"])
    values = np.array(data["values"], np.float64).reshape(n_branches + 1, -1)
    coefs = np.array(data["coefs"], np.float64) if np.size(data["coefs"]) else None
    children = np.array(data["children"], np.int32).reshape(n_branches, 2)
    check_children(children)
    check_depth(children)
    return {
        "children": children,
        "A": np.array(data["A"], np.float64).reshape(n_branches, p),
        "b": np.array(data["b"], np.float64),
        "values": values,
        "coefs": None if coefs is None else coefs.reshape(n_branches + 1, values.shape[1], -1),
        "link": data["link"],
        "gate": None if data.get("gate") is None else float(data["gate"]),
        "mixture": bool(data.get("mixture", False)),
        "feature_names": None if data.get("feature_names") is None else tuple(map(str, data["feature_names"])),
        "encoding": None if data.get("encoding") is None else Encoding.from_dict(data["encoding"]),
        **{k: None if data.get(k) is None else np.array(data[k]) for k in OPTIONAL},
    }
