"""The libraries: exact searches for trees over all thresholds or over binary features, and scikit-learn's CART."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from opttree.runtime.options import option
from solvers.external.base import External, Found, Stated

CRITERIA = {"squared": "squared_error", "absolute": "absolute_error", "zero_one": "gini", "log": "log_loss"}


@dataclass(frozen=True)
class CART(External):
    """scikit-learn's CART: greedy, under its own criterion for the loss (Gini's for 0/1 loss); nothing is proved.

    See Also
    --------
    opttree.race : runs them beside ours

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import external, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2, splits="axis")
    >>> cart = solve(problem, external.CART(), random_state=0)
    >>> cart.objective < 1.0
    True
    """

    library = "sklearn"
    losses = ("squared", "absolute", "zero_one", "log")
    weighted = True

    def search(self, problem: Stated, X: NDArray[Any], seconds: float, seed: int) -> Found:
        """Run the library."""
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

        if problem.depth == 0:
            return None, False, math.nan
        kind: Any = DecisionTreeClassifier if problem.loss in ("zero_one", "log") else DecisionTreeRegressor
        model = kind(
            criterion=CRITERIA[problem.loss],
            max_depth=problem.depth,
            min_samples_leaf=problem.min_leaf,
            random_state=seed,
        )
        y = problem.labels if kind is DecisionTreeClassifier else problem.y
        return _of_arrays(model.fit(X, y, problem.w).tree_, binary=False), False, math.nan


@dataclass(frozen=True)
class ConTree(External):
    """pycontree, the authors' ConTree (Brita, van der Linden and Demirovic, AAAI 2025).

    See Also
    --------
    opttree.race : runs them beside ours

    Examples
    --------
    >>> from opttree import TreeProblem
    >>> from solvers import external
    >>> external.ConTree().refusal(TreeProblem([[0.0], [1.0]], [0, 1], depth=1)) is None  # splits are oblique
    False
    """

    library = "pycontree"
    smallest_leaf = False

    def search(self, problem: Stated, X: NDArray[Any], seconds: float, seed: int) -> Found:
        """Run the library, over all thresholds."""
        from pycontree import ConTree

        model = ConTree(max_depth=problem.depth, time_limit=seconds).fit(X, problem.labels)

        def nested(node: Any) -> Any:
            if node.is_leaf_node():
                return None
            children = nested(node.get_left()), nested(node.get_right())
            # it sends x < t to the left
            return node.get_split_feature(), np.nextafter(node.get_split_threshold(), -math.inf), *children

        return nested(model.tree_), bool(model._config.is_within_time_limit()), math.nan


def _of_arrays(tree: Any, *, binary: bool) -> Any:
    """The nested splits of a tree of pytrees, which sends 0 of a binary feature to the left."""

    def nested(t: int) -> Any:
        if tree.children_left[t] < 0:
            return None
        left, right = nested(int(tree.children_left[t])), nested(int(tree.children_right[t]))
        return int(tree.feature[t]), float(tree.threshold[t]), *((right, left) if binary else (left, right))

    return nested(0)


@dataclass(frozen=True)
class PyTrees(External):
    """pytrees-rs, in Rust: ConTree over all thresholds; DL8.5 (Aglin, Nijssen and Schaus, AAAI 2020) or LGDT, greedy
    with one level of lookahead, on a binary feature for each threshold.

    See Also
    --------
    opttree.race : runs them beside ours

    Examples
    --------
    >>> from opttree import TreeProblem
    >>> from solvers import external
    >>> external.PyTrees().refusal(TreeProblem([[0.0], [1.0]], [0, 1], depth=1)) is None  # splits are oblique
    False
    """

    library = "pytrees"
    algorithm: Literal["contree", "dl85", "lgdt"] = option("contree", "The search.")

    @property
    def binary(self) -> bool:  # type: ignore[override]
        """Whether it takes binary features."""
        return self.algorithm != "contree"

    def search(self, problem: Stated, X: NDArray[Any], seconds: float, seed: int) -> Found:
        """Run the library."""
        import pytrees

        y, common = problem.labels.astype(int), {"max_depth": problem.depth, "min_sup": problem.min_leaf}
        if self.algorithm == "lgdt":
            return _of_arrays(pytrees.LGDTClassifier(**common).fit(X, y).tree_, binary=True), False, math.nan
        if self.algorithm == "dl85":
            model = pytrees.DL85Classifier(max_time=seconds, **common).fit(X, y)
            nodes = float(model.statistics_["cache_size"])
        else:
            model = pytrees.ConTreeClassifier(max_time=seconds, **common).fit(X, y)
            nodes = float(sum(model.statistics_[f"{kind}_solver_calls"] for kind in ("general", "specialized")))
        return _of_arrays(model.tree_, binary=self.binary), model.status_ == "optimal", nodes


@dataclass(frozen=True)
class STreeD(External):
    """pystreed (van der Linden, de Weerdt and Demirovic, NeurIPS 2023), on a binary feature for each threshold.

    Without its lower bound for regression. On all rows of airfoil, the tree that it calls optimal at depth 3 is not
    (version 1.4.0).

    See Also
    --------
    opttree.race : runs them beside ours

    Examples
    --------
    >>> from opttree import TreeProblem
    >>> from solvers import external
    >>> external.STreeD().refusal(TreeProblem([[0.0], [1.0]], [0, 1], depth=1)) is None  # splits are oblique
    False
    """

    library = "pystreed"
    losses = ("zero_one", "squared")
    binary = True

    def search(self, problem: Stated, X: NDArray[Any], seconds: float, seed: int) -> Found:
        """Run the library."""
        import pystreed

        common = {"max_depth": problem.depth, "min_leaf_node_size": problem.min_leaf, "time_limit": seconds}
        if problem.loss == "zero_one":
            model = pystreed.STreeDClassifier("accuracy", **common)
            model.fit(X, problem.labels)
        else:
            model = pystreed.STreeDRegressor(
                "cost-complex-regression", cost_complexity=0.0, use_task_lower_bound=False, **common
            )
            model.fit(X, problem.y)
        if not model.is_fitted():
            return None, False, math.nan

        def nested(node: Any) -> Any:
            if node.is_leaf_node():
                return None
            return node.feature, 0.0, nested(node.right_child), nested(node.left_child)

        return nested(model.get_tree()), bool(model.fit_result.is_optimal()), math.nan


@dataclass(frozen=True)
class GOSDT(External):
    """gosdt (Lin, Zhong, Hu, Rudin and Seltzer, "Generalized and scalable optimal sparse decision trees", ICML 2020),
    on a binary feature for each threshold. It computes in single precision.

    See Also
    --------
    opttree.race : runs them beside ours

    Examples
    --------
    >>> from opttree import TreeProblem
    >>> from solvers import external
    >>> external.GOSDT().refusal(TreeProblem([[0.0], [1.0]], [0, 1], depth=1)) is None  # splits are oblique
    False
    """

    library = "gosdt"
    binary = True
    priced = True
    smallest_leaf = False

    def search(self, problem: Stated, X: NDArray[Any], seconds: float, seed: int) -> Found:
        """Run the library; a single leaf where it has no tree."""
        import gosdt
        import pandas as pd

        model = gosdt.GOSDTClassifier(
            regularization=problem.split_price,
            allow_small_reg=True,
            depth_budget=problem.depth,
            time_limit=max(math.ceil(seconds), 1),
        ).fit(pd.DataFrame(X), pd.Series(problem.labels.astype(int)))
        result = model.result_
        trees = json.loads(result.model) if result.model else []
        proved = result.status.name == "CONVERGED"
        return _of_choices(trees[0]) if trees else None, proved and bool(trees), float(result.n_iterations)


def _of_choices(node: Any) -> Any:
    """The nested tuples of a tree of dictionaries."""
    if "feature" not in node:
        return None
    return int(node["feature"]), 0.0, _of_choices(node["true"]), _of_choices(node["false"])


@dataclass(frozen=True)
class OSRT(External):
    """osrt (Zhang, Xin, Seltzer and Rudin, "Optimal sparse regression trees", AAAI 2023), on a binary feature for each
    threshold. Its regularisation has other units, so its proofs are not counted.

    See Also
    --------
    opttree.race : runs them beside ours

    Examples
    --------
    >>> from opttree import TreeProblem
    >>> from solvers import external
    >>> external.OSRT().refusal(TreeProblem([[0.0], [1.0]], [0, 1], depth=1)) is None  # splits are oblique
    False
    """

    library = "osrt"
    losses = ("squared",)
    binary = True
    priced = True
    smallest_leaf = False

    def search(self, problem: Stated, X: NDArray[Any], seconds: float, seed: int) -> Found:
        """Run the library; a single leaf where it has no tree."""
        import osrt
        import pandas as pd

        spread = float(np.ptp(problem.y)) ** 2 or 1.0
        options = {
            "regularization": max(problem.split_price / spread, 1e-9),
            "allow_small_reg": True,
            "depth_budget": problem.depth + 1,
            "time_limit": max(math.ceil(seconds), 1),
            "verbose": False,
        }
        model = osrt.OSRT(options).fit(
            pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])]), pd.Series(problem.y)
        )

        return _of_choices(json.loads(model.json())), False, float(model.iterations)
