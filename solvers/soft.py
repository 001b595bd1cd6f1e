"""What the solvers of soft trees share: where they start and what they return."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from opttree.problems import SmoothTreeProblem
from opttree.tree import Tree

Floats = NDArray[np.floating]


def soft_start(smooth: SmoothTreeProblem, tree: Tree, steepness: float | None) -> Floats:
    """Theta of ``tree``: gates as steep as its own; where it has none, arguments deviate by ``steepness`` over rows.

    A hard tree says nothing of how steep its gates are to be, and steep ones leave rows no way to the other side.
    ``steepness=None`` takes the split weights as they are.
    """
    theta = smooth.soften(tree.as_hard)
    A, b, _values, _coefs = smooth.unpack(theta)
    if tree.gate is not None:
        factor = np.full(b.size, tree.gate / smooth.alpha)
    elif steepness is None:
        return theta
    else:
        w, X = smooth.problem.w, smooth.problem.X
        Z = np.stack([np.sum(X * a, axis=1) for a in A], axis=1)
        deviation = np.sqrt(np.maximum(w @ Z**2 - (w @ Z) ** 2, 0.0))
        factor = np.where(deviation > 0.0, steepness / (smooth.alpha * np.where(deviation > 0.0, deviation, 1.0)), 1.0)
    A *= factor[:, None]
    b *= factor
    return theta


def soft_tree(smooth: SmoothTreeProblem, theta: Floats, *, mixture: bool, clip: bool) -> Tree:
    """The complete tree of ``theta`` with its gates; with ``clip``, linear leaves are bounded by the range of y."""
    tree, Y = smooth.harden(theta), smooth.problem.Y
    if clip and smooth.linear:
        lower, upper = (np.tile(bound, (tree.n_leaves, 1)) for bound in (Y.min(axis=0), Y.max(axis=0)))
        tree = replace(tree, lower=lower, upper=upper)
    return replace(tree, gate=float(smooth.alpha), mixture=mixture)
