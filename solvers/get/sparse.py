"""Zeros in split weights: what an l1 penalty is for, and gradients do not find."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from opttree.problems import TreeProblem
from opttree.tree import Tree


def without_small_weights(problem: TreeProblem, tree: Tree) -> Iterator[Tree | None]:
    """Trees of ever lower objective: at each branch, from the root, the smallest weights are set to zero.

    How many is tried in halves of the rest, until none can be spared; what they contributed on average over the node's
    rows goes to the threshold, and leaves are refitted. Weights are compared in units of their features' deviations.
    Yields None after a trial in vain.
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
            found = problem.fit_leaves(replace(best, A=A, b=b))
            value = problem.objective(found)
            if value < objective:
                best, objective, inside = found, value, found.decision_path(problem.X)
                drop = used.size - drop - 1
                yield problem.trim(best)
            else:
                drop //= 2
                yield None
