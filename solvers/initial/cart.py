"""CART, through scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.random import Generator as Rng

from opttree.problems import TreeProblem
from opttree.tree import Tree
from solvers.initial.base import Growth, Initial

CRITERIA = {"squared": "squared_error", "absolute": "absolute_error", "zero_one": "gini", "log": "entropy"}


@dataclass(frozen=True)
class CartInit(Initial):
    """scikit-learn's greedy axis-aligned tree to the problem's depth, criterion by its loss; leaves refitted.

    Parameters
    ----------
    min_rows : fewest rows in a leaf, on top of the problem's ``min_leaf``.
    ccp_alpha : price of cost-complexity pruning, in the units of scikit-learn's criterion.
    splitter : "best", or "random" for the best of one random threshold per feature.
    """

    min_rows: int = 1
    ccp_alpha: float = 0.0
    splitter: str = "best"

    def growth(self, problem: TreeProblem, rng: Rng) -> Growth:
        """The fitted tree as a `Tree`."""
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

        if problem.depth == 0:
            yield problem.fit_leaves(Tree.constant([0.0] * problem.n_outputs, problem.n_features, problem.classes))
            return
        kind = DecisionTreeClassifier if problem.is_classification else DecisionTreeRegressor
        model = kind(
            criterion=CRITERIA[problem.loss],
            max_depth=problem.depth,
            min_samples_leaf=max(self.min_rows, problem.min_leaf),
            ccp_alpha=self.ccp_alpha,
            splitter=self.splitter,
            random_state=int(rng.integers(2**31 - 1)),
        )
        model.fit(problem.X, problem.y, sample_weight=problem.sample_weight)
        yield problem.fit_leaves(problem.enforce_min_leaf(Tree.from_sklearn(model)))
