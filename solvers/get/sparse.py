"""Sparsification of split weights: an l1 penalty favours zeros, which gradient descent does not reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from opttree.model.tree import Tree
from opttree.statement import TreeProblem


def without_small_weights(problem: TreeProblem, tree: Tree) -> Iterator[Tree | None]:
    """Trees of decreasing objective: at each branch, from the root on, the smallest weights are set to zero.

    Their number is found by trying half of the remaining weights at a time, until none can be removed. Their mean
    contribution over the node's rows is added to the threshold, and leaves are refitted. Weights are compared after
    scaling by the standard deviations of their features. Yields None after an unsuccessful trial.
    """
    best, objective = tree, problem.objective(tree)
    deviation = problem.X.std(axis=0)
    inside = best.decision_path(problem.X)
    for t in range(tree.n_branches):
        drop = np.count_nonzero(best.A[t]) - 1
        while drop > 0:
            used = np.flatnonzero(best.A[t])
            zeroed = used[np.argsort(np.abs(best.A[t, used]) * deviation[used], kind="stable")][:drop]
            rows = inside[:, t].nonzero()[0]
            if not rows.size:
                break
            A, b = best.A.copy(), best.b.copy()
            b[t] -= float(np.mean(problem.X[np.ix_(rows, zeroed)] @ A[t, zeroed]))
            A[t, zeroed] = 0.0
            sparser = problem.fit_leaves(replace(best, A=A, b=b))
            value = problem.objective(sparser)
            if value < objective:
                best, objective, inside = sparser, value, sparser.decision_path(problem.X)
                drop = used.size - drop - 1
                yield problem.trim(best)
            else:
                drop //= 2
                yield None
