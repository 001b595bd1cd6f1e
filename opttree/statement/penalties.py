"""Penalties of the statement: terms added to the mean loss that depend on the tree only."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.wide.sparse import is_sparse


class Penalty(Protocol):
    """A penalty: any object with a ``value(tree)``."""

    def value(self, tree: Tree) -> float:
        """The term this penalty adds to the objective."""
        ...


def _check(**strengths: float) -> None:
    for name, value in strengths.items():
        if not (isinstance(value, Real) and np.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be finite and >= 0; got {value!r}")


def unit_norm(A: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rows of ``A (B, p)`` normalised to length one; zero rows stay zero."""
    largest = np.abs(A).max(axis=1, initial=0.0, keepdims=True)
    A = A / np.where(largest > 0.0, largest, 1.0)  # avoids underflow in the squares of tiny weights
    length = np.linalg.norm(A, axis=1, keepdims=True)
    return A / np.where(length > 0.0, length, 1.0)


def split_weights(tree: Tree) -> NDArray[np.float64]:
    """(B, p) split weights as penalties use them.

    Multiplying a hyperplane by a constant does not change the routing: without gates, weights are normalised to unit
    length, so that the penalty depends on the routing only. With gates the length is the steepness, and weights are not
    normalised. Of weights that are kept sparse, those that are not zero, in one row.
    """
    A = tree.split_weights
    if is_sparse(A):
        size = np.repeat(np.sqrt(A.power(2).sum(axis=1)), np.diff(A.indptr)) if tree.gate is None else 1.0
        return np.asarray(A.data / size)[None]
    return unit_norm(A) if tree.gate is None else A


@dataclass(frozen=True)
class L1:
    """``splits * sum_t |a_t|_1 + leaves * sum_l |coefs_l|_1``; constant terms are free.

    a_t is the weight vector of split t at unit length, ``A_t / |A_t|_2``, so that the term is between 1, for a split on
    a single feature, and ``sqrt(p)``: it selects features. In a tree with gates it is ``A_t`` itself.

    Parameters
    ----------
    splits : float, default 0.0
        Strength on the weights of splits, >= 0.
    leaves : float, default 0.0
        Strength on the weights of linear leaves, >= 0.

    See Also
    --------
    L2 : squared norms
    SplitPrice : a price for each branch

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 2))
    >>> y = np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0)
    >>> from opttree import L1
    >>> problem = TreeProblem(X, y, depth=1, penalties=L1(splits=0.01))
    >>> from solvers import TAO, solve
    >>> tree = solve(problem, TAO(), random_state=0).tree
    >>> bool(abs(problem.penalty(tree) - 0.01 * np.abs(tree.A[0] / np.linalg.norm(tree.A[0])).sum()) < 1e-12)
    True
    """

    splits: float = 0.0
    leaves: float = 0.0

    def __post_init__(self) -> None:
        _check(splits=self.splits, leaves=self.leaves)

    def value(self, tree: Tree) -> float:
        """Penalty of a tree.

        Parameters
        ----------
        tree : Tree
            The tree.

        Returns
        -------
        float
            The penalty.
        """
        return float(self.splits * np.abs(split_weights(tree)).sum() + self.leaves * np.abs(tree.leaf_arrays[1]).sum())


@dataclass(frozen=True)
class L2:
    """``splits * sum_t |a_t|_2^2 + leaves * sum_l |coefs_l|_2^2``; constant terms are free.

    a_t is the weight vector of split t at unit length, as in `L1`, so that the first term only counts splits; its other
    effect is to keep the weights finite in the surrogate problems of node solvers. In a tree with gates a_t is ``A_t``
    itself.

    Parameters
    ----------
    splits : float, default 0.0
        Strength on the weights of splits, >= 0.
    leaves : float, default 0.0
        Strength on the weights of linear leaves, >= 0.

    See Also
    --------
    L1 : lasso

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import L2, TreeProblem
    >>> from solvers import CartInit, solve
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(200, 2))
    >>> ridge = TreeProblem(X, X[:, 0], depth=0, leaves="linear", penalties=L2(leaves=0.01))
    >>> tree = solve(ridge, CartInit()).tree
    >>> bool(0.9 < tree.coefs[0, 0, 0] < 1.0), bool(np.isclose(ridge.penalty(tree), 0.01 * np.square(tree.coefs).sum()))
    (True, True)
    """

    splits: float = 0.0
    leaves: float = 0.0

    def __post_init__(self) -> None:
        _check(splits=self.splits, leaves=self.leaves)

    def value(self, tree: Tree) -> float:
        """Penalty of a tree.

        Parameters
        ----------
        tree : Tree
            The tree.

        Returns
        -------
        float
            The penalty.
        """
        splits, leaves = np.square(split_weights(tree)).sum(), np.square(tree.leaf_arrays[1]).sum()
        return float(self.splits * splits + self.leaves * leaves)


@dataclass(frozen=True)
class L2Constants:
    """``splits * sum_t b_t^2 + leaves * sum_l |values_l|_2^2``: what `L2` leaves free, the constant terms.

    b_t is the threshold of split t, for weights at unit length or, in a tree with gates, as they are; values_l are the
    constants of leaf l. Both depend on where zero is: on scaled features and outputs, see `TreeProblem.standardized`.
    The smooth formulation and `solvers.NODEC` minimise it (SRT, eq. 7); other solvers only count it or refuse it, as
    all do that prove bounds.

    Parameters
    ----------
    splits : float, default 0.0
        Strength on the thresholds of splits, >= 0.
    leaves : float, default 0.0
        Strength on the constants of leaves, >= 0; regression only.

    See Also
    --------
    L2 : weights and coefficients
    SRTRegressor : ``l2_constants``

    References
    ----------
    Consolo, Amaldi and Manno, "Soft regression trees: a model variant and a decomposition training algorithm" (2024),
    eq. (7).

    Examples
    --------
    >>> from opttree import L2Constants, TreeProblem, datasets
    >>> from solvers import NODEC, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> free = TreeProblem.standardized(X, y, depth=1, leaves="linear")
    >>> held = free.restated(penalties=L2Constants(splits=1.0, leaves=1.0))
    >>> trees = [solve(problem, NODEC(), random_state=0).tree for problem in (free, held)]
    >>> held.penalty(trees[1]) < held.penalty(trees[0])
    True
    """

    splits: float = 0.0
    leaves: float = 0.0

    def __post_init__(self) -> None:
        _check(splits=self.splits, leaves=self.leaves)

    def value(self, tree: Tree) -> float:
        """Penalty of a tree.

        Parameters
        ----------
        tree : Tree
            The tree.

        Returns
        -------
        float
            The penalty.
        """
        b, A = tree.b, tree.split_weights
        if tree.gate is None:
            length = np.sqrt((A.power(2) if is_sparse(A) else np.square(A)).sum(axis=1))
            b = b / np.where(length > 0.0, length, 1.0)
        return float(self.splits * np.square(b).sum() + self.leaves * np.square(tree.leaf_arrays[0]).sum())


@dataclass(frozen=True)
class SplitPrice:
    """``price`` for every branch node: the complexity price of CART and of Bertsimas and Dunn.

    Parameters
    ----------
    price : float
        Price of a split, >= 0, in units of the mean loss.

    See Also
    --------
    constraints.MaxSplits : a largest number instead of a price

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(200, 2))
    >>> y = np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0)
    >>> from opttree import SplitPrice
    >>> from solvers import BranchAndBound, solve
    >>> dear = TreeProblem(X, y, depth=2, splits="axis", penalties=SplitPrice(0.2))
    >>> free = dear.restated(penalties=())
    >>> [solve(problem, BranchAndBound()).tree.n_branches for problem in (free, dear)]
    [3, 2]
    """

    price: float

    def __post_init__(self) -> None:
        _check(price=self.price)

    def value(self, tree: Tree) -> float:
        """Price of the splits of a tree.

        Parameters
        ----------
        tree : Tree
            The tree.

        Returns
        -------
        float
            The price.
        """
        return self.price * tree.n_branches


@dataclass(frozen=True)
class FeatureL1:
    """``strength * sum_j |w_j|_2``, where w_j are all weights that feature j has in the tree, in splits and linear
    leaves: a feature leaves the whole tree, or stays. Constant terms are free.

    The sum of the norms is an l1 norm over the features (the group lasso). Weights of splits are as in `L1`: at unit
    length, or of trees with gates as they are. The tree of Blanquero et al. (2022) has the largest weight of a feature
    in place of the norm. `solvers.ORRT` minimises it, to weights that are exactly zero, with constants of leaves within
    the range of y; other solvers only count it.

    Parameters
    ----------
    strength : float
        Strength, >= 0.

    See Also
    --------
    L1 : each weight for itself
    ORRTRegressor : ``feature_l1``

    References
    ----------
    Blanquero, Carrizosa, Molero-Rio and Romero Morales, "On sparse optimal regression trees", EJOR 299 (2022).

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from opttree import FeatureL1, TreeProblem
    >>> from solvers import ORRT, solve
    >>> X, y = make_friedman1(300, 15, random_state=0)
    >>> problem = TreeProblem.standardized(X, y, depth=2, penalties=FeatureL1(0.03))
    >>> tree = solve(problem, ORRT(), random_state=0).tree
    >>> bool(tree.A.any(axis=0).sum() < 15)
    True
    """

    strength: float

    def __post_init__(self) -> None:
        _check(strength=self.strength)

    def value(self, tree: Tree) -> float:
        """Penalty of a tree.

        Parameters
        ----------
        tree : Tree
            The tree.

        Returns
        -------
        float
            The penalty.
        """
        squares = np.sum(np.square(split_weights(tree)), axis=0)
        if tree.linear_leaves:
            squares = squares + np.sum(np.square(tree.leaf_arrays[1]), axis=(0, 1))
        return float(self.strength * np.sqrt(squares).sum())


@dataclass(frozen=True)
class Scaled:
    """Another penalty times ``factor``."""

    penalty: Penalty
    factor: float

    def value(self, tree: Tree) -> float:
        """``factor`` times the value of ``penalty``."""
        return self.factor * self.penalty.value(tree)


def scaled(penalty: Penalty, factor: float) -> Penalty:
    """``penalty`` times ``factor``, of the same class if it is one of ours, so that solvers still recognise it."""
    if isinstance(penalty, (L1, L2, L2Constants)):
        return type(penalty)(penalty.splits * factor, penalty.leaves * factor)
    if isinstance(penalty, SplitPrice):
        return SplitPrice(penalty.price * factor)
    if isinstance(penalty, FeatureL1):
        return FeatureL1(penalty.strength * factor)
    return Scaled(penalty, factor)
