"""Exactly optimal leaves for given rows, which define the costs in an exact formulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.runtime.clock import seconds_left
from opttree.statement.numbers import unit_range
from opttree.statement.penalties import L1
from opttree.statement.problem import TreeProblem

Floats = NDArray[np.float64]
PROGRAM = 4e-8  # seconds that a linear program of so many rows takes, over their square


def centred(table: Floats, w: Floats) -> Floats:
    """Columns minus their weighted means; the weights ``w`` sum to one."""
    return table - np.sum(w[:, None] * table, axis=0)


def fit_exact_leaves(problem: TreeProblem, tree: Tree) -> Tree:
    """The tree with optimal leaves for its splits; linear leaves are fitted in every leaf and not clipped.

    Where a time limit is too short for linear programs of that many rows, leaves of least absolute deviations are the
    kernels', which may be a little worse.
    """
    if problem.leaves == "constant":
        return problem.fit_leaves(tree)
    leaf = problem.leaves_of(tree) - tree.n_branches
    values = np.zeros((tree.n_leaves, problem.n_outputs))
    coefs = np.zeros((*values.shape, problem.n_features))
    if problem.loss_function.form == "quadratic":
        # centred, since normal equations of features far from zero are inexact
        at_zero = problem.with_rows(centred(problem.X, problem.w), problem.y, problem.sample_weight, constraints=())
        values, coefs, _low, _high = at_zero.fit_leaf_arrays(leaf, values, coefs, min_rows=1)
        values = values - coefs @ np.sum(problem.w[:, None] * problem.X, axis=0)
    elif PROGRAM * float(np.square(np.bincount(leaf)).sum()) * problem.n_outputs > seconds_left():
        values, coefs, _low, _high = problem.fit_leaf_arrays(leaf, values, coefs, min_rows=1)
    else:
        for number in np.unique(leaf):
            values[number], coefs[number], _cost = linear_absolute_leaf(problem, np.flatnonzero(leaf == number))
    return replace(tree, values=values, coefs=coefs, lower=None, upper=None, gate=None, mixture=False)


def leaves_in_range(problem: TreeProblem, tree: Tree) -> tuple[Floats, Floats]:
    """Constant terms (L, K) and weights (L, K, p) of the leaves for features scaled to [0, 1] and outputs in units of
    their range; "flow" and "big-m" bound these. Constant leaves have no weights.
    """
    low, scale = unit_range(problem.X)
    y_low, y_scale = output_range(problem)
    coefs = tree.leaf_arrays[1]
    offset = coefs @ low if coefs.shape[2] else 0.0
    return (tree.values + offset - y_low) / y_scale, coefs * (scale / y_scale if coefs.shape[2] else 1.0)


def output_range(problem: TreeProblem) -> tuple[Floats, float]:
    """Least value of each output, and the largest range of any output (1 if all are constant)."""
    return problem.Y.min(axis=0), float(np.ptp(problem.Y, axis=0).max()) or 1.0


def linear_absolute_leaf(problem: TreeProblem, rows: NDArray[np.integer]) -> tuple[Floats, Floats, float]:
    """Linear leaf of least absolute deviations (plus l1) on ``rows``, by linear programming: values, coefs, cost.

    Features and outputs are in units of their largest deviation from a row's: HiGHS's tolerances are absolute.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix, eye, hstack

    X, w, m, p = problem.X[rows], problem.w[rows], len(rows), problem.n_features
    l1, first, from_first = problem.strength(L1, "leaves"), X[0], X - X[0]
    unit = np.abs(from_first).max(axis=0)
    unit[unit == 0.0] = 1.0
    X = from_first / unit
    side = hstack([csr_matrix(np.column_stack([X, -X, np.ones(m)])), eye(m), -eye(m)])  # y = fit + above - below
    prices = np.tile(l1 / unit, 2)
    bounds = [(0.0, None)] * (2 * p) + [(None, None)] + [(0.0, None)] * (2 * m)
    values, coefs, total = np.empty(problem.n_outputs), np.empty((problem.n_outputs, p)), 0.0
    for k in range(problem.n_outputs):
        y = problem.Y[rows, k] - problem.Y[rows[0], k]
        span = float(np.abs(y).max()) or 1.0
        costs = np.concatenate([prices, [0.0], w, w]) / w.sum()
        for method in ("highs-ds", "highs-ipm"):
            solution = linprog(costs, A_eq=side, b_eq=y / span, bounds=bounds, method=method)
            if solution.x is not None:
                break
        else:
            raise ValueError(f"X must let the linear program of a leaf be solved; got {solution.message}")
        coefs[k] = span * (solution.x[:p] - solution.x[p : 2 * p]) / unit
        values[k] = problem.Y[rows[0], k] + span * solution.x[2 * p] - coefs[k] @ first
        total += span * solution.fun * w.sum()
    return values, coefs, float(total)


def linear_absolute_cost(problem: TreeProblem, rows: NDArray[np.integer]) -> float:
    """Cost of `linear_absolute_leaf`."""
    return linear_absolute_leaf(problem, rows)[2]
