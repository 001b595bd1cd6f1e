"""The trees that exact solvers over candidate splits begin with."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.random import Generator as Rng
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.problems import MIPTreeProblem
from opttree.statement import TreeProblem
from opttree.statement.constraints import Monotone
from solvers.core.base import Step
from solvers.core.incumbent import Incumbent
from solvers.initial.cart import CartInit

MOST_NUMBERS = 1e7  # rows x features x levels


def ordered_tree(problem: TreeProblem) -> Tree | None:
    """CART's tree with ordered answers, by scikit-learn; None where `Monotone` asks for none, and for what scikit-learn
    does not fit, or not within half a second.
    """
    signs = np.zeros(problem.n_features, int)
    for c in problem.constraints:
        if isinstance(c, Monotone):
            signs[c.feature] += c.sign
    classes = len(problem.classes) if problem.classes is not None else 0
    outputs = 1 if classes else problem.n_outputs
    if not signs.any() or abs(signs).max() > 1 or classes > 2 or outputs > 1 or problem.splits != "axis":
        return None
    if not 0 < problem.X.size * problem.depth <= MOST_NUMBERS or abs(problem.X).max() > np.finfo(np.float32).max:
        return None
    kind = DecisionTreeClassifier if classes else DecisionTreeRegressor
    tree = kind(max_depth=problem.depth, min_samples_leaf=problem.min_leaf, monotonic_cst=signs, random_state=0)
    return Tree.from_sklearn(tree.fit(problem.X, problem.y, sample_weight=problem.w))


def first_trees(
    run: Incumbent, stated: MIPTreeProblem, start: Tree | None, rng: Rng
) -> Generator[Step | None, Any, list[Tree]]:
    """Take the best constant, CART's trees and the start, moved to the candidate splits; returns these trees."""
    problem, given = run.problem, []
    constant = problem.best_constant()
    yield from run.take(constant, "constant")
    if start is not None:
        given.append((as_tree(start), "start"))
    if problem.depth:
        given.append((CartInit().build(problem.restated(constraints=()), rng), "CART"))
        if (ordered := ordered_tree(problem)) is not None:
            given.append((ordered, "CART"))
    found = [constant]
    for tree, phase in given:
        if (snapped := stated.snap(tree)) is not None:
            found.append(snapped)
            yield from run.take(snapped, phase)
    return found
