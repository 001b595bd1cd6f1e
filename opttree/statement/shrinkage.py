"""Hierarchical shrinkage: leaves pulled towards the models of the nodes above them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.model.tree import Tree, replace
from opttree.statement import TreeProblem
from opttree.statement.copies import SOME, all_differ, are_by_themselves, are_common
from opttree.statement.numbers import NUMBERS, ranks_of
from opttree.wide.sparse import FACTOR, SHIFT, STEP, is_sparse, mix

Floats = NDArray[np.float64]
ROOT_RIDGE = 1e-6  # of the root's linear model, as a share of its weight
LEAST_STRENGTH = 1e-9  # as a share of the weight: positive ones below would leave singular equations
MOST_NUMBERS = 2**26  # in the products of features of all nodes


def refusal(problem: TreeProblem) -> str | None:
    """Why leaves of this problem cannot be shrunk, or None."""
    if problem.loss_function.lacks("averages"):
        return f"leaves that are not means, such as medians, are not shrunk; got loss={problem.loss!r}, use 'squared'"
    products = 2 ** min(problem.depth, 40) * (problem.n_features + 1) ** 2
    if problem.leaves == "linear" and not problem.is_classification and products > MOST_NUMBERS:
        return f"linear leaves of {problem.n_features} features at depth {problem.depth} take too much memory"
    return None


def codes_of(problem: TreeProblem) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """(n,) pseudo-random numbers of the rows, equal for equal features, and for equal features and outputs; only the
    order of the values in a column counts. Of very many rows, columns count up to where all rows differ. Computed once
    for a problem.
    """
    known: dict[str, Any] = problem.__dict__
    if "_codes" not in known:
        codes = np.zeros(problem.n_samples, np.uint64)
        if any(_mixed(codes, problem.X)):
            both = codes
        else:
            both = codes.copy()
            any(_mixed(both, problem.Y))
        known["_codes"] = codes, both
    found: tuple[NDArray[np.uint64], NDArray[np.uint64]] = known["_codes"]
    return found


def _mixed(codes: NDArray[np.uint64], table: Any) -> Iterator[bool]:
    """Change the codes of rows by the ranks of their values in one column of a table after another; say after each
    whether all of very many rows are known to differ by now.
    """
    if is_sparse(table):
        mix(codes, table)
        return
    width, done = max(NUMBERS // max(len(table), 1), 1), 0
    for first in range(0, table.shape[1], width):
        for rank in ranks_of(np.ascontiguousarray(table[:, first : first + width].T)).astype(np.uint64) + STEP:
            codes ^= rank
            codes *= FACTOR
            codes ^= codes >> SHIFT
            done += 1
            looks = codes.size > 2 * SOME and done.bit_count() == 1  # after 1, 2, 4, 8, ... columns
            yield looks and all_differ(codes)


def observations(problem: TreeProblem) -> NDArray[np.int64]:
    """Numbers of the rows that are observations of their own, in an order that the order of the rows does not change.

    Rows that are equal in X and y are copies, of which the first counts, but for those that are a good part of the
    table, see `are_common`, and where `are_by_themselves`.
    """
    of_features, codes = codes_of(problem)
    order = np.argsort(codes, kind="stable")
    first = np.append(True, np.diff(codes[order]) > 0)
    if first.all():
        return order
    return order[first | (are_common(codes) | are_by_themselves(problem.X, problem.Y, of_features, codes))[order]]


def shrinker(
    problem: TreeProblem, tree: Tree, ridge: float | None = None, count: int | None = None
) -> NodeMoments | Softened:
    """What shrinks the leaves of a tree of the problem, by its method ``shrunk(strength)``; ``ridge`` is the root's,
    ``count`` the number of `observations` where it is known.
    """
    if tree.classes is not None and tree.linear_leaves:
        return Softened(tree)
    return NodeMoments(problem, tree, ROOT_RIDGE if ridge is None else ridge, count)


def softer(shares: Floats, temperature: float) -> Floats:
    """Probabilities (n, K) to the power of ``1 / temperature``, normalised."""
    powers = np.maximum(shares, 0.0) ** (1.0 / temperature)
    return powers / np.maximum(powers.sum(axis=1, keepdims=True), 1e-300)


def tempered(tree: Tree, temperature: float) -> Tree:
    """The tree of constant leaves with softer probabilities; the likeliest class stays the likeliest."""
    return replace(tree, values=softer(np.asarray(tree.values), temperature))


class Softened:
    """A tree whose linear leaves hold scores of classes, which are divided by one plus the strength (a temperature)."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    def shrunk(self, strength: float) -> Tree:
        """The tree with softer probabilities."""
        values, coefs = (part / (1.0 + strength) for part in self.tree.leaf_arrays[:2])
        return replace(self.tree, values=values, coefs=coefs)


class NodeMoments:
    """Weighted products of features and outputs of the rows at each node of a tree, from which leaves are shrunk.

    The rows are those of ``problem``; its weights are scaled to add to the number of `observations`. Kept for several
    strengths.
    """

    def __init__(self, problem: TreeProblem, tree: Tree, ridge: float = ROOT_RIDGE, count: int | None = None) -> None:
        self.problem, self.tree, self.ridge = problem, tree, ridge
        leaf = problem.leaves_of(tree)
        # leaves of classes with equations hold scores; where a tree of theirs has constant leaves, these are shares
        linear = problem.leaves == "linear" and not problem.is_classification
        used = problem.n_features + 1 if linear else 1
        weight = problem.w * (len(observations(problem)) if count is None else count)
        Y = np.eye(problem.n_outputs)[problem.Y[:, 0].astype(np.intp)] if problem.is_classification else problem.Y
        self.G = np.zeros((tree.n_nodes, used, used))
        self.c = np.zeros((tree.n_nodes, used, Y.shape[1]))
        order = np.argsort(leaf, kind="stable")
        ends = np.searchsorted(leaf[order], np.arange(tree.n_branches, tree.n_nodes + 1))
        for number in range(tree.n_leaves):
            rows = order[ends[number] : ends[number + 1]]
            Z = np.ones((rows.size, used))
            if linear:
                Z[:, :-1] = problem.X[rows].toarray() if problem.is_sparse else problem.X[rows]
            weighted = Z * weight[rows, None]
            self.G[tree.n_branches + number] = weighted.T @ Z
            self.c[tree.n_branches + number] = weighted.T @ Y[rows]
        self._add_up()

    @classmethod
    def of_leaves(cls, problem: TreeProblem, tree: Tree, G: Floats, c: Floats) -> NodeMoments:
        """The products of a tree from those of the rows at its leaves, (L, 1, 1) and (L, 1, K): for constant leaves,
        weights and weighted outcomes or weights of classes.
        """
        found = cls.__new__(cls)
        found.problem, found.tree, found.ridge = problem, tree, ROOT_RIDGE
        found.G = np.concatenate([np.zeros((tree.n_branches, *G.shape[1:])), G])
        found.c = np.concatenate([np.zeros((tree.n_branches, *c.shape[1:])), c])
        found._add_up()
        return found

    def _add_up(self) -> None:
        """The products of branches from those of their children."""
        tree = self.tree
        for t in range(tree.n_branches - 1, -1, -1):
            self.G[t] = self.G[tree.children[t]].sum(axis=0)
            self.c[t] = self.c[tree.children[t]].sum(axis=0)

    def shrunk(self, strength: float) -> Tree:
        """The tree whose leaf models have the weight of their own rows against ``strength`` rows of the parent's.

        The model of a node minimises the squared error on its rows plus ``strength`` times the squared difference from
        its parent's, itself shrunk: for constant leaves ``v + (m - v) n / (n + strength)`` with the parent's value v
        and the node's own mean (or class frequencies) m over weight n. The root has its own mean, or a linear model
        with a ridge. Strength 0 is the tree as it is.
        """
        tree, used = self.tree, self.G.shape[1]
        if strength == 0.0:
            return tree
        own_share = max(strength, LEAST_STRENGTH * float(self.G[0, -1, -1])) * np.eye(used)
        models = np.zeros_like(self.c)
        root = self.ridge * self.G[0, -1, -1] * np.diag([1.0] * (used - 1) + [0.0])
        models[0] = np.linalg.solve(self.G[0] + root, self.c[0])
        for t in range(tree.n_branches):
            kids = tree.children[t]
            residual = self.c[kids] - self.G[kids] @ models[t]
            own = self.G[kids] + own_share
            models[kids] = models[t] + (residual / own if used == 1 else np.linalg.solve(own, residual))
        leaves = models[tree.n_branches :].transpose(0, 2, 1)
        coefs = leaves[:, :, :-1] if used > 1 else None
        shrunk = replace(tree, values=leaves[:, :, -1], coefs=coefs, lower=None, upper=None, link="identity")
        return self.problem.bound_leaves(shrunk)
