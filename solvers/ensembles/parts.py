"""Forests over a table in parts: trees of a sample go on over all rows, each over its own bag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opttree.kernels import records
from opttree.kernels.passes import alternation
from opttree.model.structure import writable
from opttree.model.tree import Tree, replace as with_fields
from opttree.runtime.clock import seconds_left
from opttree.statement import TreeProblem
from solvers.core.parts import Asked, Bag, Reader, in_step
from solvers.ensembles.growth_options import GrowthOptions
from solvers.tao.parts import PassesOverParts

__all__ = ["ForestOverParts"]

Floats = NDArray[np.float64]
MOST_BYTES = 2**26  # of the Gram matrices of a tree's leaves; beyond, leaves are constant


@dataclass(frozen=True)
class ForestOverParts:
    """The trees of a forest over rows that no one process holds, all of them in the same rounds.

    TAO's trees go on by `PassesOverParts`, each on its own bag of rows. Then the leaves of all trees are fitted to the
    moments of all rows, with the shrinkage of the forest that there is, and out-of-bag errors take one round.

    Attributes
    ----------
    rows, reader : opttree.Rows, callable
        As of `PassesOverParts`; classes are read as indicators.
    problem : TreeProblem
        The statement of a tree, of squared loss.
    growth : GrowthOptions
        How the trees of the sample were grown.
    kind : str
        Their kind.
    shrinkage, lasso : float
        Of their leaves.
    edges : tuple of ndarray
        As of `PassesOverParts`.
    seed : int
        Of the bags.
    count : int
        Rows of positive weight.
    sample : ndarray of int
        Numbers of the rows by which the trees were grown, of which none is out of the bag.

    See Also
    --------
    TAOForest : on rows in memory
    """

    rows: Any
    reader: Reader
    problem: TreeProblem
    growth: GrowthOptions
    kind: str
    shrinkage: float
    lasso: float
    edges: tuple[Floats, ...] = ()
    seed: int = 0
    count: int = 1
    sample: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def bag(self, number: int) -> Bag:
        """The rows of a tree.

        Parameters
        ----------
        number : int
            Number of the tree.

        Returns
        -------
        Bag
            Its bag.
        """
        return Bag(self.seed, number, None if self.growth.sample == "bootstrap" else float(self.growth.sample))

    def fitted(self, trees: Sequence[Tree], passes: int) -> tuple[list[Tree], float]:
        """The trees after some passes, their leaves fitted to all rows of their bags, and the out-of-bag error that is
        expected of the forest on a new row, summed over outputs; NaN where no row is out of two bags.

        Parameters
        ----------
        trees : sequence of Tree
            Trees in the units of the statement.
        passes : int
            Passes of TAO's trees; others keep their splits.

        Returns
        -------
        tuple of (list of Tree, float)
            Trees and error.
        """
        trees, classes = list(trees), trees[0].classes
        if passes and self.kind in ("oblique", "axis") and seconds_left() > 0.0:
            trees = self._passes(trees, passes)
        self.rows.watch = None  # Ctrl-C does not end the rounds by which these trees are told
        runs = [self._leaves(with_fields(tree, classes=classes), number) for number, tree in enumerate(trees)]
        trees = self._in_groups(trees, runs)
        return trees, in_step(self.rows, self.reader, [self._error(trees)])[0]

    def _passes(self, trees: list[Tree], passes: int) -> list[Tree]:
        stated = self.problem.restated(splits="axis" if self.kind == "axis" else "oblique")
        lasso = 0.0 if self.kind == "axis" else self.growth.l1_of_splits(stated.n_features)
        solver = PassesOverParts(self.rows, self.reader, stated, self.edges, split_lasso=lasso)
        solvers = [replace(solver, bag=self.bag(number)) for number in range(len(trees))]
        begun = [own.begin(tree) for own, tree in zip(solvers, trees, strict=True)]
        found: list[tuple[Tree, float]] = []
        try:
            found = self._in_groups(trees, begun)
            for _ in range(passes):
                if seconds_left() <= 0.0:
                    break
                runs = [own.one_pass(tree) for own, (tree, _objective) in zip(solvers, found, strict=True)]
                new = self._in_groups(trees, runs)
                found = [a if a[1] < b[1] else b for a, b in zip(new, found, strict=True)]
        except KeyboardInterrupt:  # the trees that there are get their leaves
            pass
        return [tree for tree, _objective in found] or trees

    def _in_groups(self, trees: Sequence[Tree], runs: Sequence[Asked]) -> list[Any]:
        """What the runs of the trees return, of so many trees at a time that answers do not grow too large."""
        q = int(alternation.padded(self.problem.n_features)) if self.problem.leaves == "linear" else 1
        most = max(int(MOST_BYTES // (max(tree.n_leaves for tree in trees) * q * q * 8)), 1)
        found: list[Any] = []
        for first in range(0, len(runs), most):
            found += in_step(self.rows, self.reader, runs[first : first + most])
        return found

    def _leaves(self, tree: Tree, number: int) -> Asked:
        """The tree with leaves shrunk towards their parents' models, as of a forest in memory."""
        p = self.problem.n_features
        q = int(alternation.padded(p))
        linear = self.problem.leaves == "linear" and not self.kind.startswith("cart-constant")
        linear = linear and tree.n_leaves * q * q * 8 <= MOST_BYTES
        moments = yield _moments, _Told(tree, self.bag(number), linear, self.count)
        lasso = 0.0 if np.isnan(self.lasso) else 2.0 * self.lasso
        return with_leaves(tree, moments, p, self.growth, float(self.shrinkage), lasso)

    def _error(self, trees: Sequence[Tree]) -> Asked:
        told = tuple((tree, self.bag(number)) for number, tree in enumerate(trees))
        pairs, alone, mass = yield _outside, (told, self.sample)
        if mass <= 0.0:
            return float("nan")
        return max((pairs + (alone - pairs) / len(trees)) / mass, 0.0)


def with_leaves(tree: Tree, moments: Moments, p: int, growth: GrowthOptions, shrinkage: float, lasso: float) -> Tree:
    """The splits of a tree over leaves shrunk towards their parents' models, from the moments of the rows at the
    leaves; those of branches are overwritten.

    Parameters
    ----------
    tree : Tree
        The tree, on p features.
    moments : Moments
        Of each node.
    p : int
        Number of features.
    growth : GrowthOptions
        Whether answers are clipped, and the lasso relaxed.
    shrinkage : float
        Weight of the parent's model, in units of the moments' weights.
    lasso : float
        The l1 penalty on linear leaves, relative to the weight of their rows.

    Returns
    -------
    Tree
        The tree.
    """
    children, first = writable(tree.children), tree.n_branches
    for t in range(first - 1, -1, -1):
        one, two = children[t]
        moments.rows[t] = moments.rows[one] + moments.rows[two]
        moments.G[t], moments.c[t] = moments.G[one] + moments.G[two], moments.c[one] + moments.c[two]
        moments.low[t] = np.minimum(moments.low[one], moments.low[two])
        moments.high[t] = np.maximum(moments.high[one], moments.high[two])
    for t in range(first):
        for kid in children[t]:
            if moments.rows[kid] < 2 * (p + 1):
                moments.low[kid], moments.high[kid] = moments.low[t], moments.high[t]
    models = np.zeros((tree.n_leaves, moments.c.shape[1], p + 1), np.float32)
    towards = alternation.Shrinkage(shrinkage, 0.0, lasso, growth.relaxed)
    alternation.leaf_models(children, alternation.Moments(*moments), towards, models)
    values, coefs = models[:, :, -1].astype(np.float64), models[:, :, :-1].astype(np.float64)
    low, high = moments.low[first:].astype(np.float64), moments.high[first:].astype(np.float64)
    splits, classes = (tree.children, tree.A, tree.b), tree.classes
    if not coefs.any():
        return Tree(*splits, np.clip(values, low, high) if growth.clip else values, classes=classes)
    if not growth.clip:
        return Tree(*splits, values, coefs, classes=classes)
    return Tree(*splits, values, coefs, lower=low, upper=high, classes=classes)


class _Told(NamedTuple):
    tree: Tree
    bag: Bag
    linear: bool
    n_rows: int


class Moments(NamedTuple):
    """As `opttree.kernels.passes.alternation.Moments`."""

    rows: NDArray[np.int64]
    G: Floats
    c: Floats
    low: NDArray[np.float32]
    high: NDArray[np.float32]

    def plus(self, other: Moments) -> Moments:
        """The moments of the rows of both."""
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return Moments(self.rows + other.rows, self.G + other.G, self.c + other.c, low, high)


def _moments(rows: records.Rows, first: int, told: _Told) -> Moments:
    tree, bag, linear, n_rows = told
    counted = bag.weights(first, len(rows.weight)) * (1.0 if bag.share is None else bag.share)
    w = (rows.weight * counted * n_rows).astype(np.float32)
    X, Y = rows.X.astype(np.float32), rows.Y.astype(np.float32)
    leaf = tree.apply(rows.X).astype(np.int64) - tree.n_branches
    sample = alternation.Sample(X, Y, np.zeros((0, 0, 0), np.float32), w)
    return Moments(*alternation.node_moments(sample, leaf, writable(tree.children), linear, 0))


def _outside(rows: records.Rows, first: int, asked: tuple[Sequence[tuple[Tree, Bag]], NDArray[np.int64]]) -> Floats:
    """Of rows out of two bags or more: the weighted means over pairs of trees of products of their errors, those of
    squares, and the weights.
    """
    told, sample = asked
    n = len(rows.weight)
    known = np.zeros(n, bool)
    known[sample[np.searchsorted(sample, first) : np.searchsorted(sample, first + n)] - first] = True
    errors, squares, counts = np.zeros(rows.Y.shape), np.zeros(n), np.zeros(n)
    for tree, bag in told:
        out = np.flatnonzero((bag.weights(first, n) == 0.0) & ~known)
        own = tree.outputs(rows.X[out]) - rows.Y[out]
        errors[out] += own
        squares[out] += np.square(own).sum(axis=1)
        counts[out] += 1
    twice = counts > 1
    w, c, squares = rows.weight[twice], counts[twice], squares[twice]
    products = np.square(errors[twice]).sum(axis=1) - squares
    return np.array([np.sum(w * products / (c * (c - 1.0))), np.sum(w * squares / c), w.sum()])
