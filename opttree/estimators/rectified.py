"""RADDT, DTSemNet and HRT: single oblique trees by later methods, as their authors have published them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.utils import column_or_1d

from opttree.estimators import bridge
from opttree.estimators.base import Floats, Penalties
from opttree.estimators.kinds import MinLeaf, SingleTree, mixed
from opttree.estimators.scaling import Scaling
from opttree.estimators.shrinking import ShrunkLeaves, quick_trial
from opttree.estimators.tasks import ClassificationTree, RegressionTree
from opttree.model.tree import Tree
from opttree.runtime.options import changed, option
from opttree.statement import TreeProblem
from opttree.tables.weights import n_rows

__all__ = ["DTSemNetClassifier", "DTSemNetRegressor", "HRTRegressor", "RADDTClassifier", "RADDTRegressor"]


@dataclass(eq=False, repr=False)
class _Gradient(MinLeaf, ShrunkLeaves):
    """Common part of RADDT and DTSemNet."""

    splits = "oblique"
    starts_compete = True

    leaves: Literal["constant", "linear"] = option(
        "constant",
        """Constants or linear functions (of classes: multinomial logistic regressions), which need ``2 (p + 1)`` rows;
        smaller leaves stay constant. In regression they are clipped to the intersection of the ranges of y and of the
        fitted values on their rows.""",
    )
    leaf_penalty: float = option(
        1e-5, "Ridge penalty on the weights of linear leaves as they are fitted in the end.", least=0
    )
    dtype: Literal["float32", "float64"] = option("float32", "Precision of the gradients.")

    @property
    def _shrinkage(self) -> float | str:
        """By default the leaves of numbers are the authors', and those of classes shrunk."""
        if self.leaf_shrinkage is not None or is_classifier(self):
            return super()._shrinkage
        return 0.0

    def _trial(self, problem: TreeProblem) -> tuple[Any, TreeProblem]:
        return quick_trial(problem, self._solver(problem))

    def _penalties(self, weight: Floats, n_features: int) -> Penalties:
        return mixed(0.0, 0.0, self.leaf_penalty) if self.leaves == "linear" else ()


@dataclass(eq=False, repr=False, kw_only=True)
class _RADDT(_Gradient):
    """Common part of the regressor and the classifier."""

    n_starts: int | None = option(
        None, "Starts: CART's tree, or ``init``, and else random ones; None: 2, and 10 for the paper's preset.", least=1
    )
    epochs: int | None = option(
        None, "Epochs of a run, each over all rows; None: 200, and 3000 for the paper's preset.", least=1
    )
    n_scales: int = option(5, "Runs of a start, with growing scales of the softmin.", least=1)
    preset: Literal["default", "paper"] = option(
        "default",
        """"paper": as many starts and epochs as the authors' program documents, the first from CART's tree as there.
        Leaves are fitted in the end as by default.""",
    )

    @property
    def _shrinkage(self) -> float | str:
        return 0.0 if self.leaf_shrinkage is None and self.preset == "paper" else super()._shrinkage

    def _solver(self, problem: TreeProblem) -> Any:
        raddt = bridge.solvers.RADDT
        usual = raddt.paper() if self.preset == "paper" else raddt()
        given = {"n_starts": self.n_starts or usual.n_starts, "epochs": self.epochs or usual.epochs}
        return self._made(raddt, init=bridge.solvers.CartInit(), **given)


class RADDTRegressor(RegressionTree, _RADDT):
    """Regression tree by the softmin of violations, see `solvers.RADDT`.

    Take it to compare with the RADDT paper; a start takes seconds to tens of seconds.

    Attributes
    ----------
    tree_ : `opttree.Tree` on raw features.
    result_ : `solvers.Result` of the run; its tree and objective are on the standardised problem.
    n_iter_ : steps taken.

    See Also
    --------
    RADDTClassifier : the same for classes
    GETRegressor : whole trees by sigmoids
    solvers.RADDT : the solver

    References
    ----------
    "Differentiable decision tree via ReLU+Argmin reformulation", NeurIPS 2025.

    Examples
    --------
    >>> from opttree import RADDTRegressor, datasets
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> model = RADDTRegressor(max_depth=2, random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.2
    True
    """

    loss = "squared"


@dataclass(eq=False, repr=False, kw_only=True)
class RADDTClassifier(ClassificationTree, _RADDT):
    """Classification tree by the softmin of violations, by log loss (capped at ``-log(1e-6)``), see `solvers.RADDT`.

    Take it to compare with the RADDT paper; a start takes seconds to tens of seconds.

    Attributes
    ----------
    classes_ : (K,) class labels.
    tree_, result_, n_iter_ : as `RADDTRegressor`.

    See Also
    --------
    RADDTRegressor : the same for numbers
    solvers.RADDT : the solver

    References
    ----------
    "Differentiable decision tree via ReLU+Argmin reformulation", NeurIPS 2025.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from opttree import RADDTClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RADDTClassifier(max_depth=2, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    loss = "log"


@dataclass(eq=False, repr=False, kw_only=True)
class _DTSemNet(_Gradient):
    """Common part of the regressor and the classifier."""

    n_starts: int = option(3, "Random starts; ``init`` replaces the first.", least=1)
    epochs: int = option(60, "Epochs of a start.", least=1)
    batch_size: int = option(128, "Rows of a batch.", least=1)
    learning_rate: float = option(0.1, "Learning rate of the first epoch.", above=0)
    decay: float = option(0.97, "Factor of the learning rate from one epoch to the next.", above=0, most=1)
    split_penalty: float = option(0.0, "l1 penalty on the weights of the splits, see `solvers.DTSemNet`.", least=0)

    def _penalties(self, weight: Floats, n_features: int) -> Penalties:
        return (*super()._penalties(weight, n_features), *mixed(1.0, self.split_penalty, 0.0))

    def _solver(self, problem: TreeProblem) -> Any:
        return self._made(bridge.solvers.DTSemNet)


@dataclass(eq=False, repr=False, kw_only=True)
class DTSemNetRegressor(RegressionTree, _DTSemNet):
    """Regression tree as a network whose largest output is the row's leaf, see `solvers.DTSemNet`.

    Take it to compare with the DTSemNet paper. The tree is written as a network, trained in batches by its gradients,
    and read back exactly.

    Attributes
    ----------
    tree_, result_, n_iter_ : as `RADDTRegressor`.

    See Also
    --------
    DTSemNetClassifier : the same for classes
    solvers.DTSemNet : the solver

    References
    ----------
    "Vanilla gradient descent for oblique decision trees", ECAI 2024.

    Examples
    --------
    >>> from opttree import DTSemNetRegressor, datasets
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> model = DTSemNetRegressor(max_depth=2, random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.2
    True
    """

    loss = "squared"
    leaves: Literal["constant", "linear"] = changed("linear")


@dataclass(eq=False, repr=False, kw_only=True)
class DTSemNetClassifier(ClassificationTree, _DTSemNet):
    """Classification tree as a network whose largest output is the row's leaf, see `solvers.DTSemNet`.

    Take it to compare with the DTSemNet paper; see `DTSemNetRegressor` for how.

    Its log loss is that of the class shares in the leaves, capped at ``-log(1e-6)``.

    Attributes
    ----------
    classes_ : (K,) class labels.
    tree_, result_, n_iter_ : as `RADDTRegressor`.

    See Also
    --------
    DTSemNetRegressor : the same for numbers
    solvers.DTSemNet : the solver

    References
    ----------
    "Vanilla gradient descent for oblique decision trees", ECAI 2024.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from opttree import DTSemNetClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DTSemNetClassifier(max_depth=2, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    loss = "log"

    def _least_depth(self, y: NDArray[Any]) -> int:
        return max(int(np.ceil(np.log2(np.unique(y).size))), 1)


@dataclass(eq=False, repr=False, kw_only=True)
class HRTRegressor(RegressionTree, SingleTree):
    """Hinge regression tree, see `solvers.HRT`: linear leaves, top-down, each split by Newton steps; one output.

    Take it to compare with the HRT paper; no split is revised once it is made.

    Attributes
    ----------
    tree_, result_, n_iter_ : as `RADDTRegressor`.

    See Also
    --------
    TAORegressor : with ``leaves="linear"``, the tree as a whole
    solvers.HRT : the solver

    References
    ----------
    "Hinge regression tree: a Newton method for oblique regression tree splitting", ICLR 2026, arXiv 2602.05371.

    Examples
    --------
    >>> from opttree import HRTRegressor, datasets
    >>> X, y = datasets.load("friedman1", as_arrays=True)
    >>> model = HRTRegressor(max_depth=2, random_state=0).fit(X[:600], y[:600])
    >>> model.score(X[600:], y[600:]) > 0.7
    True
    """

    splits, leaves, loss = "oblique", "linear", "squared"

    init: Tree | None = changed(None, "A tree on raw features that is the result if none is better.")
    step: float | Literal["auto"] = option("auto", "Share of a Newton step that is taken, see `solvers.HRT`.")
    max_iter: int = option(100, "Largest number of steps at a node.", least=1)
    ridge: float = option(
        1e-2,
        "Added to the diagonal of the normal equations, of the nodes and of the leaves, see `solvers.HRT`.",
        least=0,
    )
    min_samples_leaf: int = option(5, "Fewest training rows in a leaf, which also has more than p.", least=1)
    tolerance: float = option(
        0.0, "Nodes of at most this root mean square error, of standardised outputs, become leaves.", least=0
    )
    clip: bool = option(False, "Clip leaves to the ranges of y and of the fitted values on their rows.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags

    def _train(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> tuple[TreeProblem, Scaling]:
        return super()._train(X, column_or_1d(y, warn=True), sample_weight)

    @property
    def _min_leaf(self) -> int:
        return self.min_samples_leaf

    def _penalties(self, weight: Floats, n_features: int) -> Penalties:
        return mixed(0.0, 0.0, self.ridge / n_rows(weight))

    def _solver(self, problem: TreeProblem) -> Any:
        return self._made(bridge.solvers.HRT, min_rows=self.min_samples_leaf)
