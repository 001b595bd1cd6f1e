"""Linear models as trees of one leaf, which forests and boosting have among their members."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray
from sklearn.model_selection import KFold

from opttree.model.tree import Tree
from opttree.statement import L2, TreeProblem
from opttree.statement.copies import different_rows, with_copies

Floats = NDArray[np.float64]
RIDGES = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)  # strengths that are tried, in units of the mean loss
FOLDS = 5
MARGIN = 0.1  # of the range of the outputs on the rows, by which others may lie beyond it


def ridge_leaf(problem: TreeProblem, Y: Floats, ridge: float) -> Tree:
    """The tree of one leaf with a ridge regression of ``Y (n, K)`` on the features of a problem.

    Of classes, its answers are within 0 and 1.
    """
    stated = TreeProblem(
        problem.X, Y, 0, leaves="linear", sample_weight=problem.sample_weight, penalties=(L2(leaves=ridge),)
    )
    tree = stated.fit_leaves(Tree.constant(np.zeros(Y.shape[1]), problem.n_features), min_rows=1)
    if not problem.is_classification:
        return tree
    return replace(tree, lower=np.zeros_like(tree.values), upper=np.ones_like(tree.values))


def linear_term(problem: TreeProblem, ridge: float) -> Tree:
    """The ridge regression of the outputs; its answers are at most a tenth of their range on the rows beyond it."""
    tree = replace(ridge_leaf(problem, problem.Y, ridge), lower=None, upper=None)
    answers = tree.outputs(problem.X)
    low, high = answers.min(axis=0), answers.max(axis=0)
    margin = MARGIN * (high - low)
    return replace(tree, lower=(low - margin)[None], upper=(high + margin)[None])


def best_ridge(problem: TreeProblem, rng: Rng) -> Generator[None, Any, float]:
    """The strength with the lowest squared error on rows held out, five-fold; yields between regressions."""
    if problem.n_samples < 2:
        return RIDGES[-1]
    first, copy = different_rows(problem.X, problem.Y)
    folds = KFold(min(FOLDS, first.size), shuffle=True, random_state=int(rng.integers(2**31 - 1)))
    errors = np.zeros(len(RIDGES))
    for train, held in with_copies(folds.split(first), copy):
        part, rest = problem.sample(train), problem.sample(held)
        for k, ridge in enumerate(RIDGES):
            yield
            answers = linear_term(part, ridge).outputs(rest.X)
            errors[k] += np.sum(problem.w[held, None] * (rest.Y - answers) ** 2)
    return RIDGES[int(np.argmin(errors))]
