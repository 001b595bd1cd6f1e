"""Common functions of the solvers of complete and soft trees: depths, starting points and resulting trees."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.routing import project
from opttree.model.tree import Tree
from opttree.problems import SmoothTreeProblem
from opttree.statement import TreeProblem

Floats = NDArray[np.floating]
TINY = 1e-12
SPARE_LEVELS = 4  # levels of a complete tree beyond those of one row in each leaf
DIFFERENCE = 0.01  # perturbation of copied leaves, relative to the standard deviation of y


def soft_start(smooth: SmoothTreeProblem, tree: Tree, steepness: float | None, rng: np.random.Generator) -> Floats:
    """Theta of ``tree``, with the steepness of its gates. For a hard tree, each gate is scaled so that its argument has
    the standard deviation ``steepness`` over the rows that pass the node; None: split weights are used as they are.

    A hard tree does not determine the steepness of gates, and with steep gates the gradient hardly moves rows to the
    other side. Missing levels get random hyperplanes, and their copied leaves small random differences, since between
    equal leaves the gradient of the split is zero.
    """
    theta = smooth.soften(tree.as_hard, rng)
    A, b, values, _coefs = smooth.unpack(theta)
    if tree.n_leaves < b.size + 1:
        values += DIFFERENCE * smooth.problem.Y.std() * rng.normal(size=values.shape)
    if tree.gate is not None:
        theta[: A.size + b.size] *= tree.gate / smooth.alpha
    elif steepness is not None:
        X, w = smooth.problem.X, smooth.problem.w
        node = np.zeros(len(X), np.intp)
        for t in range(b.size):
            rows = np.flatnonzero(node == t)
            products = project(X, rows, A[t].astype(np.float64))
            node[rows] = np.where(products <= b[t], 2 * t + 1, 2 * t + 2)
            z = b[t] - products
            share = w[rows] / max(w[rows].sum(), TINY)
            deviation = np.sqrt(np.sum(share * (z - np.sum(share * z)) ** 2))
            if deviation > TINY:
                factor = steepness / (smooth.alpha * deviation)
                A[t] *= factor
                b[t] *= factor
    return theta


def soft_tree(smooth: SmoothTreeProblem, theta: Floats, *, mixture: bool, clip: bool) -> Tree:
    """The complete tree of ``theta`` with its gates; with ``clip``, linear leaves of regression trees are clipped to
    the range of y.
    """
    tree, Y = smooth.harden(theta), smooth.problem.Y
    if clip and smooth.linear and not smooth.problem.is_classification:
        lower, upper = (np.tile(bound, (tree.n_leaves, 1)) for bound in (Y.min(axis=0), Y.max(axis=0)))
        tree = replace(tree, lower=lower, upper=upper)
    return replace(tree, gate=float(smooth.alpha), mixture=mixture)


def with_depth_cap(problem: TreeProblem, start: Tree | None) -> TreeProblem:
    """Limit the depth to log2(n) + 4, or to that of ``start``: the work of a solver of complete trees doubles with each
    level. Every tree of the result is feasible for the original.
    """
    most = max(math.ceil(math.log2(problem.n_samples)) + SPARE_LEVELS, 0 if start is None else start.depth)
    return problem if problem.depth <= most else problem.restated(depth=most)


def one_leaf(problem: TreeProblem, gate: float) -> Tree:
    """The best constant tree."""
    return replace(problem.best_constant(), gate=gate)


def constant_tree(problem: TreeProblem, gate: float) -> Tree | None:
    """`one_leaf` if there is nothing to split, else None."""
    splits = problem.depth > 0 and np.ptp(problem.Y, axis=0).max() > 0.0
    return None if splits else one_leaf(problem, gate)
