"""Kinds of estimators: of one tree or a forest, of a depth to be searched, with smallest leaves and penalties."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from opttree.estimators.base import Floats, Penalties, TreeEstimator
from opttree.estimators.scaling import Scaling, raw_tree, with_training
from opttree.estimators.selection import choose_depth
from opttree.model.convert import Model, as_tree
from opttree.model.forest import Forest
from opttree.model.tree import Tree
from opttree.runtime.options import option
from opttree.statement import L1, L2, TreeProblem


@dataclass(eq=False, repr=False, kw_only=True)
class CrossValidated(TreeEstimator):
    """Estimators whose depth may be chosen by cross-validation."""

    cv: Any = option(
        4,
        """For ``max_depth="cv"``: number of folds, share of the rows that is held out once, or a splitter or splits as
        in scikit-learn.""",
        test=lambda cv: is_cv(cv),
        words="an integer >= 2, a fraction between 0 and 1, or splits",
    )


@dataclass(eq=False, repr=False)
class SingleTree(CrossValidated):
    """Estimators of one tree, of given or cross-validated depth, with an optional start tree."""

    starts_compete = False  # whether the solver treats a start tree as one candidate among others

    max_depth: int | Literal["cv"] = option(
        6,
        """Largest depth of the tree. "cv": the depth up to 12 with the best mean score on held-out rows (the search
        stops after 4 depths without improvement); each depth is warm-started from the one before, or at least no worse
        on its training rows. See ``best_depth_`` and ``cv_results_``.""",
        least=1,
    )
    _: KW_ONLY
    init: Tree | None = option(None, "A tree on raw features to start from, such as another model's ``tree_``.")

    def _choose_depth(self, X: Floats, y: NDArray[Any], weight: Floats, seed: int | None) -> None:
        if self.max_depth == "cv":  # on the table, so that each fold learns an encoding of its own
            choose_depth(self, vars(self).get("_table", X), y, weight, seed)

    def _depth_for(self, n_samples: int) -> int:
        return int(getattr(self, "best_depth_", 1) if self.max_depth == "cv" else self.max_depth)

    def _least_depth(self, y: NDArray[Any]) -> int:
        """The first depth of a depth search."""
        return 1

    def _start(self, problem: TreeProblem, scaling: Scaling) -> Tree | None:
        """``init``, scaled, if it is a tree; None if a depth search is on and it is deeper than the present depth."""
        if not isinstance(self.init, Tree) or (self.max_depth == "cv" and self.init.depth > problem.depth):
            return None
        if self.init.n_features != problem.n_features:
            raise ValueError(
                f"init must be a tree of {problem.n_features} features, those of X; got {self.init.n_features}"
            )
        return scaling.scale(self.init)

    def _keep(self, problem: TreeProblem, scaling: Scaling, X: Floats, weight: Floats) -> None:
        rows = X if weight.all() else X[weight > 0.0]
        tree = raw_tree(scaling, self._final(problem, as_tree(self.result_.tree)), problem, rows)
        self.tree_ = with_training(tree, X, weight)

    def _final(self, problem: TreeProblem, tree: Tree) -> Tree:
        """The tree used for prediction, made from the solver's."""
        return tree


@dataclass(eq=False, repr=False, kw_only=True)
class ForestEstimator(TreeEstimator):
    """Estimators that hold a ``forest_``; ``tree_`` is its tree if there is only one."""

    if TYPE_CHECKING:
        forest_: Forest = field(init=False)

    @property
    def _model(self) -> Forest:
        return self.forest_

    @property  # type: ignore[misc]
    def tree_(self) -> Tree:  # type: ignore[override]
        """The only tree of the forest; AttributeError if there are several."""
        check_is_fitted(self, "forest_")
        if len(self.forest_.trees) > 1:
            raise AttributeError(
                f"tree_ is for a single tree; this is a forest of {len(self.forest_.trees)}: see forest_"
            )
        return as_tree(self.forest_)


@dataclass(eq=False, repr=False, kw_only=True)
class MinLeaf(TreeEstimator):
    """Estimators with a minimum number of rows per leaf."""

    min_samples_leaf: int = option(1, "Fewest training rows in a leaf.", least=1)

    @property
    def _min_leaf(self) -> int:
        return self.min_samples_leaf


@dataclass(eq=False, repr=False, kw_only=True)
class Preset(TreeEstimator):
    """Estimators of a paper's method, ours by default."""

    preset: Literal["default", "paper"] = option(
        "default",
        """"default": the best method we found. "paper": the method as printed, see ``paper`` of its solver; options
        that are None then have the paper's values.""",
    )


@dataclass(eq=False, repr=False, kw_only=True)
class SplitPenalty(TreeEstimator):
    """Estimators with penalties on the weights of oblique splits and, in some of them, of linear leaves."""

    split_penalty: float = option(
        1e-4,
        """Penalty on the weights of the splits, in units of the mean loss on scaled features and outputs. With
        ``l1_ratio=1`` the objective is ``mean loss + split_penalty * sum_t |a_t|_1 + leaf_penalty * |coefs|_1``, where
        a_t are the weights of split t scaled to unit length (axis-aligned splits are not penalised). The alpha or
        lambda of a paper, for a sum over n rows, is ``alpha / n`` here, so that its meaning depends neither on the
        number of rows nor on the scale of the sample weights.""",
        least=0,
    )
    l1_ratio: float = option(
        1.0, "1: l1 penalties (lasso); 0: ``penalty * |.|_2^2`` (ridge); between: a mixture of both.", least=0, most=1
    )

    printed_alpha = False  # whether the paper's method has an l1 penalty of its own in the problem of each node

    def _check_options(self) -> None:
        super()._check_options()
        if not (self._as_printed and self.printed_alpha):
            return
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name in ("split_penalty", "leaf_penalty", "l1_ratio") and value != f.default:
                raise ValueError(
                    f"{f.name} must be left at its default for preset='paper', whose penalty is its own; got {value!r}"
                )

    @property
    def _leaf_strength(self) -> float:
        """Strength of the penalty on linear leaves."""
        return 0.0

    def _penalties(self, weight: Floats, n_features: int) -> Penalties:
        me: Any = self
        if self._as_printed and self.printed_alpha:
            return ()
        return mixed(self.l1_ratio, self.split_penalty if me.splits == "oblique" else 0.0, self._leaf_strength)


def mixed(ratio: float, splits: float, leaves: float) -> Penalties:
    """l1 and l2 penalties mixed in the ratio ``ratio`` to ``1 - ratio``; penalties of strength zero are left out."""
    l1 = L1(splits=splits * ratio, leaves=leaves * ratio)
    l2 = L2(splits=splits * (1 - ratio), leaves=leaves * (1 - ratio))
    return tuple(q for q in (l1, l2) if q.splits > 0 or q.leaves > 0)


def as_forest(model: Model, n_outputs: int) -> Forest:
    """The model as a forest; a tree becomes a forest of one."""
    return model if isinstance(model, Forest) else Forest(((model,),), n_outputs)


def is_cv(cv: Any) -> bool:
    """Whether ``cv`` is a number of folds, a share of the rows, or a splitter or splits."""
    fraction = isinstance(cv, (float, np.floating)) and 0.0 < cv < 1.0
    folds = isinstance(cv, (int, np.integer)) and cv >= 2
    return bool(fraction or folds or hasattr(cv, "split") or np.iterable(cv))
