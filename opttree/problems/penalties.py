"""Penalties of the statement: terms added to the mean loss, each a function of the tree alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from opttree.tree import Tree


class Penalty(Protocol):
    """Anything with a value on a tree."""

    def value(self, tree: Tree) -> float:
        """The term this penalty adds to the objective."""
        ...


def _check(**strengths: float) -> None:
    for name, value in strengths.items():
        if not (np.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be finite and >= 0; got {value}")


def unit_norm(A: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rows of ``A (B, p)`` at length one; rows of zeros as they are."""
    largest = np.abs(A).max(axis=1, initial=0.0, keepdims=True)
    A = A / np.where(largest > 0.0, largest, 1.0)  # squares of tiny weights would vanish
    length = np.linalg.norm(A, axis=1, keepdims=True)
    return A / np.where(length > 0.0, length, 1.0)


def split_weights(tree: Tree) -> NDArray[np.float64]:
    """(B, p) the split weights that penalties see.

    A hyperplane times a constant routes alike: those of a tree without gates are taken at unit length, so that a
    penalty says something of the tree. With gates the length is their steepness, and weights count as they are.
    """
    return unit_norm(tree.A) if tree.gate is None else tree.A


@dataclass(frozen=True)
class L1:
    """``splits * sum_t |a_t|_1 + leaves * sum_l |coefs_l|_1``; constant terms are free.

    a_t is the weight vector of split t at unit length, ``A_t / |A_t|_2``, so that the term is least, 1, for a split on
    a single feature and at most ``sqrt(p)``: it selects features. In a tree with gates it is ``A_t`` itself.
    """

    splits: float = 0.0
    leaves: float = 0.0

    def __post_init__(self) -> None:
        _check(splits=self.splits, leaves=self.leaves)

    def value(self, tree: Tree) -> float:
        """The penalty of ``tree``."""
        return float(self.splits * np.abs(split_weights(tree)).sum() + self.leaves * np.abs(tree.leaf_arrays[1]).sum())


@dataclass(frozen=True)
class L2:
    """``splits * sum_t |a_t|_2^2 + leaves * sum_l |coefs_l|_2^2``; constant terms are free.

    a_t is the weight vector of split t at unit length, as in `L1`, so that the first term counts splits: what it does
    beside that is to keep the weights of node solvers' surrogates finite. In a tree with gates a_t is ``A_t`` itself.
    """

    splits: float = 0.0
    leaves: float = 0.0

    def __post_init__(self) -> None:
        _check(splits=self.splits, leaves=self.leaves)

    def value(self, tree: Tree) -> float:
        """The penalty of ``tree``."""
        splits, leaves = np.square(split_weights(tree)).sum(), np.square(tree.leaf_arrays[1]).sum()
        return float(self.splits * splits + self.leaves * leaves)


@dataclass(frozen=True)
class SplitPrice:
    """``price`` for every branch node: the complexity price of CART and of Bertsimas and Dunn."""

    price: float

    def __post_init__(self) -> None:
        _check(price=self.price)

    def value(self, tree: Tree) -> float:
        """The price of ``tree``'s splits."""
        return self.price * tree.n_branches


@dataclass(frozen=True)
class Scaled:
    """Another penalty times ``factor``."""

    penalty: Penalty
    factor: float

    def value(self, tree: Tree) -> float:
        """``factor`` times the value of ``penalty``."""
        return self.factor * self.penalty.value(tree)


def scaled(penalty: Penalty, factor: float) -> Penalty:
    """``penalty`` times ``factor``: of the same kind where it is one of ours, so that solvers still know it."""
    if isinstance(penalty, (L1, L2)):
        return type(penalty)(penalty.splits * factor, penalty.leaves * factor)
    if isinstance(penalty, SplitPrice):
        return SplitPrice(penalty.price * factor)
    return Scaled(penalty, factor)
