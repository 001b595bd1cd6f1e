"""Trees with fewer splits: the weakest pair of leaves is joined until so many are left."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy as np

from opttree.model.tree import Tree


def with_splits(problem: Any, tree: Tree, most: int) -> Tree:
    """A tree with at most ``most`` splits: two leaves at a time become one, those by which the objective rises least.

    Parameters
    ----------
    problem : TreeProblem
        The statement, whose penalties count.
    tree : Tree
        The tree, with hard routing.
    most : int
        Largest number of splits, >= 0.

    Returns
    -------
    Tree
        The tree as it is, or one of fewer leaves, fitted again.
    """
    if tree.n_branches <= most:
        return tree
    live = problem.live(tree)
    if live.n_branches <= most:
        return live
    children, first = live.children, live.n_branches
    leaf = problem.leaves_of(live)
    rows = {t: np.flatnonzero(leaf == t) for t in range(first, live.n_nodes)}
    parent = np.full(live.n_nodes, -1)
    parent[children.ravel()] = np.repeat(np.arange(first), 2)
    stands_for = {t: t for t in rows}  # the leaf that stays for a node that has become, or is, a leaf
    pairs: list[tuple[float, int]] = []

    def consider(t: int) -> None:
        """Note what the split ``t`` takes off the objective, if both its children are leaves."""
        left, right = map(int, children[t])
        if left in stands_for and right in stands_for:
            rows[t] = np.sort(np.concatenate([rows[left], rows[right]]))
            part = problem.restrict(rows[t], 1)
            stump = part.fit_leaves(Tree.complete(live.A[[t]], live.b[[t]], problem.n_outputs, problem.classes))
            gain = part.objective(part.one_leaf()) - part.objective(stump)
            heappush(pairs, (float(np.sum(problem.w[rows[t]])) * gain, t))

    for t in range(first):
        consider(t)
    for _ in range(first - most):
        t = heappop(pairs)[1]
        stands_for[t] = stands_for.pop(int(children[t, 0]))
        del stands_for[int(children[t, 1])]
        if t:
            consider(int(parent[t]))
    stays = np.zeros(live.n_leaves, bool)
    stays[np.array(list(stands_for.values())) - first] = True
    pruned: Tree = problem.fit_leaves(live.keep(stays))
    return pruned
