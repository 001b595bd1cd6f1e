"""Penalties of the statement: terms added to the mean loss, each a function of the tree alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

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


@dataclass(frozen=True)
class L1:
    """``splits * sum_t |A_t|_1 + leaves * sum_l |coefs_l|_1``; constant terms are free."""

    splits: float = 0.0
    leaves: float = 0.0

    def __post_init__(self) -> None:
        _check(splits=self.splits, leaves=self.leaves)

    def value(self, tree: Tree) -> float:
        """The penalty of ``tree``."""
        return float(self.splits * np.abs(tree.A).sum() + self.leaves * np.abs(tree.leaf_arrays[1]).sum())


@dataclass(frozen=True)
class L2:
    """``splits * sum_t |A_t|_2^2 + leaves * sum_l |coefs_l|_2^2``; constant terms are free."""

    splits: float = 0.0
    leaves: float = 0.0

    def __post_init__(self) -> None:
        _check(splits=self.splits, leaves=self.leaves)

    def value(self, tree: Tree) -> float:
        """The penalty of ``tree``."""
        return float(self.splits * np.square(tree.A).sum() + self.leaves * np.square(tree.leaf_arrays[1]).sum())


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
