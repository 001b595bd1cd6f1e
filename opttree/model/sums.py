"""Whether the sums that a model's answers are made of are finite, which a file may say otherwise."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from opttree.model.convert import Model
from opttree.model.forest import Forest
from opttree.model.tree import Tree
from opttree.tables.encoding import Encoding, Feature, Levels, Value

REACH = 1e6  # times its spread in training: a feature of numbers is at most as large


def check_sums(model: Model) -> None:
    """ValueError for numbers so large that sums of them overflow, on the way to a leaf, in it or over the trees, where
    no feature is larger than `REACH` times its spread in training, or than the numbers of its encoding.
    """
    trees = model.trees if isinstance(model, Forest) else (model,)
    with np.errstate(over="ignore", invalid="ignore"):
        encoded = None if model.encoding is None else _largest_numbers(model.encoding)
        sums = [_largest_sums(tree, encoded) for tree in trees]
    if not (all(math.isfinite(split) for split, _leaf in sums) and math.isfinite(sum(leaf for _split, leaf in sums))):
        raise ValueError("a model must hold numbers whose sums are finite; got too large ones")


def _largest_sums(tree: Tree, encoded: NDArray[np.float64] | None) -> tuple[float, float]:
    """Bounds on what a split of the tree compares, and on the sum of its outputs."""
    size = REACH * (np.ones(tree.n_features) if tree.spread is None else np.abs(tree.spread))
    if encoded is not None:
        size[: encoded.size] = np.maximum(size[: encoded.size], encoded)
    split = (tree.gate or 1.0) * (np.abs(tree.A) @ size + np.abs(tree.b)).max(initial=0.0)
    leaf = max(tree.values.max(), -tree.values.min())
    if tree.coefs is not None and tree.linear_leaves:
        leaf += (np.abs(tree.coefs) @ size).max()
    return float(split), float(leaf * tree.n_outputs)


def _largest_numbers(encoding: Encoding) -> NDArray[np.float64]:
    """(p,) the largest number in size that stands in the encoding for each feature."""
    return np.array([max(map(abs, _numbers(feature))) for feature in encoding.features], np.float64)


def _numbers(feature: Feature) -> tuple[float, ...]:
    """The numbers that an encoding has for a feature."""
    if isinstance(feature, Value):
        return feature.fill, feature.low or 0.0, feature.high or 0.0
    return (*feature.numbers.values(), feature.other, feature.missing) if isinstance(feature, Levels) else (1.0,)
