"""What the solvers of soft trees share: where they start and what they return."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from opttree.problems import SmoothTreeProblem, TreeProblem
from opttree.tree import Tree

Floats = NDArray[np.floating]
TINY = 1e-12
DIFFERENCE = 0.01  # of copied leaves, relative to the deviation of y


def soft_start(smooth: SmoothTreeProblem, tree: Tree, steepness: float | None, rng: np.random.Generator) -> Floats:
    """Theta of ``tree``: gates as steep as its own. Where it has none, the argument of each gate is to deviate by
    ``steepness`` over the rows that pass the node; None takes the split weights as they are.

    A hard tree says nothing of how steep its gates are to be, and steep ones leave rows no way to the other side.
    Levels that it lacks get random hyperplanes, and leaves that were copied for them small differences: between equal
    leaves no gradient tells one side from the other.
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
            z = b[t] - np.sum(X[rows] * A[t], axis=1)
            node[rows] = np.where(z >= 0.0, 2 * t + 1, 2 * t + 2)
            share = w[rows] / max(w[rows].sum(), TINY)
            deviation = np.sqrt(np.sum(share * (z - np.sum(share * z)) ** 2))
            if deviation > TINY:
                factor = steepness / (smooth.alpha * deviation)
                A[t] *= factor
                b[t] *= factor
    return theta


def soft_tree(smooth: SmoothTreeProblem, theta: Floats, *, mixture: bool, clip: bool) -> Tree:
    """The complete tree of ``theta`` with its gates; with ``clip``, linear leaves are bounded by the range of y."""
    tree, Y = smooth.harden(theta), smooth.problem.Y
    if clip and smooth.linear:
        lower, upper = (np.tile(bound, (tree.n_leaves, 1)) for bound in (Y.min(axis=0), Y.max(axis=0)))
        tree = replace(tree, lower=lower, upper=upper)
    return replace(tree, gate=float(smooth.alpha), mixture=mixture)


def one_leaf(problem: TreeProblem, gate: float) -> Tree:
    """The best constant tree."""
    return replace(problem.best_constant(), gate=gate)


def constant_tree(problem: TreeProblem, gate: float) -> Tree | None:
    """`one_leaf` where there is nothing to split, None elsewhere."""
    splits = problem.depth > 0 and np.ptp(problem.Y, axis=0).max() > 0.0
    return None if splits else one_leaf(problem, gate)
