"""Leaves that are optimal for the rows they hold: what an exact formulation's costs stand for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from opttree.problems.penalties import L1
from opttree.problems.tree_problem import TreeProblem
from opttree.tree import Tree

Floats = NDArray[np.float64]


def fit_exact_leaves(problem: TreeProblem, tree: Tree) -> Tree:
    """The tree with the best leaves for its splits, linear ones in all leaves and without bounds."""
    if problem.leaves == "constant":
        return problem.fit_leaves(tree)
    fitted = replace(problem.fit_leaves(tree, min_rows=1), lower=None, upper=None)
    if problem.loss == "squared":
        return fitted
    leaf = tree.apply(problem.X) - tree.n_branches
    values, coefs = fitted.values.copy(), fitted.leaf_arrays[1].copy()
    for number in np.unique(leaf):
        values[number], coefs[number], _cost = linear_absolute_leaf(problem, np.flatnonzero(leaf == number))
    return replace(fitted, values=values, coefs=coefs)


def linear_absolute_leaf(problem: TreeProblem, rows: NDArray[np.integer]) -> tuple[Floats, Floats, float]:
    """Linear leaf of least absolute deviations (plus l1) on ``rows``, by linear programming: values, coefs, cost."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix, eye, hstack

    X, w, m, p = problem.X[rows], problem.w[rows], len(rows), problem.n_features
    l1 = problem.strength(L1, "leaves")
    side = hstack([csr_matrix(np.column_stack([X, -X, np.ones(m)])), eye(m), -eye(m)])  # y = fit + above - below
    costs = np.concatenate([np.full(2 * p, l1), [0.0], w, w])
    bounds = [(0.0, None)] * (2 * p) + [(None, None)] + [(0.0, None)] * (2 * m)
    values, coefs, total = np.empty(problem.n_outputs), np.empty((problem.n_outputs, p)), 0.0
    for k in range(problem.n_outputs):
        found = linprog(costs / w.sum(), A_eq=side, b_eq=problem.Y[rows, k], bounds=bounds, method="highs-ds")
        coefs[k], values[k] = found.x[:p] - found.x[p : 2 * p], found.x[2 * p]
        total += found.fun * w.sum()
    return values, coefs, float(total)


def linear_absolute_cost(problem: TreeProblem, rows: NDArray[np.integer]) -> float:
    """Cost of `linear_absolute_leaf`."""
    return linear_absolute_leaf(problem, rows)[2]
