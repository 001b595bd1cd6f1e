"""Tree structure as arrays: children (B, 2); branches 0..B-1, leaves B..2B; children are numbered after parents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Nodes = NDArray[np.integer]


def check_children(children: Nodes) -> None:
    """ValueError if the children (B, 2) do not form a tree."""
    kids, n_branches = children.ravel(), len(children)
    parents = np.repeat(np.arange(n_branches), 2)
    each_once = np.array_equal(np.sort(kids), np.arange(1, 2 * n_branches + 1))
    if not each_once or np.any((kids < n_branches) & (kids <= parents)):
        raise ValueError(
            "children must name every node but the root exactly once, branches after their parents; "
            f"got {children[:8].tolist()}{', ...' if n_branches > 8 else ''}"
        )


def is_deeper(children: Nodes, most: int) -> bool:
    """Whether the tree is deeper than ``most`` levels of branches; looks at no more of them than there are."""
    level: Nodes = np.zeros(min(1, len(children)), np.intp)
    for _ in range(most):
        if not level.size:
            return False
        below = children[level].ravel()
        level = below[below < len(children)]
    return bool(level.size)


def links(children: Nodes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Left and right child of every node, -1 at leaves: each (2 B + 1,)."""
    sides = np.full((2, 2 * len(children) + 1), -1)
    sides[:, : len(children)] = children.T
    return sides[0], sides[1]


def breadth_first(root: int, left: Nodes, right: Nodes) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.int32]]:
    """Old node numbers of branches and leaves in breadth-first order, and the children (B, 2) in the new numbering."""
    branches, leaves = [], []
    level: Nodes = np.array([root], np.intp)
    while level.size:
        inner = left[level] >= 0
        branches.append(level[inner])
        leaves.append(level[~inner])
        level = np.stack([left[branches[-1]], right[branches[-1]]], axis=1).ravel()
    old, ends = np.concatenate(branches).astype(np.intp), np.concatenate(leaves).astype(np.intp)
    new = np.empty(len(left), np.int32)
    new[old] = np.arange(old.size)
    new[ends] = old.size + np.arange(ends.size)
    return old, ends, np.stack([new[left[old]], new[right[old]]], axis=1)


def kept(children: Nodes, leaf_mask: NDArray[np.bool_]) -> tuple[int, Any, Any]:
    """Root, left and right links, in the old numbering, of the tree restricted to the leaves in ``leaf_mask (B + 1,)``:
    a branch with one remaining child is replaced by it. ValueError if no leaf is kept.
    """
    if not leaf_mask.any():
        raise ValueError("leaf_mask must keep at least one leaf; got none")
    B = len(children)
    # stands_for[node]: the node that takes its place, -1 if nothing below it is kept
    stands_for = np.where(np.concatenate([np.ones(B, bool), leaf_mask]), np.arange(2 * B + 1), -1)
    for t in range(B - 1, -1, -1):
        left, right = stands_for[children[t]]
        if left < 0 or right < 0:
            stands_for[t] = max(left, right)
    left, right = (np.where(side >= 0, stands_for[side], -1) for side in links(children))
    return int(stands_for[0]), left, right


def grafted(children: Sequence[Nodes], nodes: Sequence[int]) -> tuple[Nodes, Nodes, NDArray[np.int32]]:
    """The first tree, with some of its ``nodes`` replaced by the other trees.

    Returns
    -------
    branches, leaves : ndarray of int
        Indices of the new tree's branches and leaves in the concatenated arrays of all trees.
    children : ndarray of shape (B, 2)
        Children of the new tree.
    """
    offsets = np.cumsum([0] + [2 * len(kids) + 1 for kids in children])
    # all nodes of all trees in one numbering; a replaced node maps to the root of its replacement
    each = [links(kids) for kids in children]
    left, right = (
        np.concatenate([np.where(kids[k] >= 0, kids[k] + o, -1) for kids, o in zip(each, offsets, strict=False)])
        for k in (0, 1)
    )
    for node, start in zip(nodes, offsets[1:], strict=False):
        for side in (left, right):
            side[: offsets[1]][side[: offsets[1]] == node] = start
    root = int(offsets[1 + list(nodes).index(0)]) if 0 in nodes else 0
    branches, leaves, new = breadth_first(root, left, right)
    branch_row, leaf_row = np.zeros(offsets[-1], int), np.zeros(offsets[-1], int)
    counts = [0, 0]
    for kids, offset in zip(children, offsets[:-1], strict=True):
        B = len(kids)
        branch_row[offset : offset + B] = counts[0] + np.arange(B)
        leaf_row[offset + B : offset + 2 * B + 1] = counts[1] + np.arange(B + 1)
        counts = [counts[0] + B, counts[1] + B + 1]
    return branch_row[branches], leaf_row[leaves], new


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view; `writable` finds the array behind it."""
    view = array.view()
    view.setflags(write=False)
    return view


def writable(array: NDArray[Any]) -> NDArray[Any]:
    """The writable array behind a read-only field: numba compiles anew for read-only arrays."""
    return array.base if isinstance(array.base, np.ndarray) else array


def used_features(model: Any) -> NDArray[np.bool_]:
    """(p,) which features occur in a split or a linear leaf."""
    p = model.n_features
    used = np.zeros(p, bool)
    for tree in getattr(model, "trees", (model,)):
        used |= (tree.A[:, :p] != 0.0).any(axis=0)
        if tree.linear_leaves:
            used |= (tree.leaf_arrays[1][:, :, :p] != 0.0).any(axis=(0, 1))
    return used


def with_encoding(model: Any, encoding: Any) -> Any:
    """A tree or a forest with the part of an encoding that it reads."""
    return model.with_names(None, encoding.only(used_features(model)))
