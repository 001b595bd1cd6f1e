"""`ExactInit`: trees grown by optimal subtrees."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator as Rng

from opttree.model.tree import Tree
from opttree.runtime.clock import seconds_left
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from solvers.core.base import LastCall
from solvers.core.driver import solve
from solvers.exact.branch_and_bound import BranchAndBound
from solvers.initial.base import Growth, Initial


@dataclass(frozen=True)
class ExactInit(Initial):
    """Grow an axis-aligned tree by optimal subtrees of constant leaves: at every node the best one of ``levels`` levels
    for its rows, all of whose splits are kept; then at its leaves, down to the depth limit. In the end leaves are
    refitted.

    See Also
    --------
    BranchAndBound : the whole tree at once
    CartInit : one level at a time

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import ExactInit, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=3, splits="axis")
    >>> solve(problem, ExactInit(), random_state=0).tree.is_axis_aligned
    True
    """

    levels: int = option(2, "Levels grown at a time; 1: CART over all thresholds.", least=1, most=6)
    time_limit: float | None = option(
        None, "Seconds for each subtree, > 0, or None.", above=0, finite=False, words="> 0 seconds or None"
    )

    def _stated(self, problem: TreeProblem) -> TreeProblem:
        """The problem of axis-aligned trees with constant leaves."""
        return problem.restated(splits="axis", leaves="constant")

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes the losses and penalties of `BranchAndBound`, with any splits and leaves."""
        return BranchAndBound().refusal(replace(self._stated(problem), depth=min(problem.depth, self.levels)))

    def growth(self, problem: TreeProblem, rng: Rng) -> Growth:
        """The tree, after a pause at every node; at the last call, nodes that are left become leaves."""
        stated = self._stated(problem)
        left, right, A, b = [-1], [-1], [np.zeros(problem.n_features)], [0.0]
        pending = [(0, np.arange(problem.n_samples), problem.depth)]

        def split_all() -> Growth:
            for node, rows, depth in pending:
                levels = min(self.levels, depth)
                if levels == 0 or rows.size < 2 * problem.min_leaf:
                    continue
                left_over = min(seconds_left(), np.inf if self.time_limit is None else self.time_limit)
                limit = max(left_over, 1e-3) if np.isfinite(left_over) else None
                part = stated.restrict(rows, levels)
                tree = solve(part, BranchAndBound(), time_limit=limit, random_state=rng).tree
                assert isinstance(tree, Tree)
                leaf = tree.apply(problem.X[rows])
                numbers, depths = {0: node}, tree.node_depth
                for t, kids in enumerate(tree.children.tolist()):
                    at = numbers[t]
                    A[at], b[at] = tree.A[t], float(tree.b[t])
                    left[at], right[at] = len(left), len(left) + 1
                    for kid in kids:
                        numbers[kid] = len(left)
                        left.append(-1)
                        right.append(-1)
                        A.append(np.zeros(problem.n_features))
                        b.append(0.0)
                        if kid >= tree.n_branches:
                            pending.append((numbers[kid], rows[leaf == kid], depth - int(depths[kid])))
                yield None

        with suppress(LastCall):
            yield from split_all()
        values = np.zeros((len(left), problem.n_outputs))
        tree = Tree.from_links(np.array(left), np.array(right), np.array(A), np.array(b), values, problem.classes)
        yield problem.fit_leaves(problem.enforce_min_leaf(tree))
