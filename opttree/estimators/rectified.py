"""RADDT, DTSemNet and HRT: single oblique trees by later methods, as their authors have published them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from opttree.estimators import bridge, option_groups as groups
from opttree.estimators.base import TreeEstimator, build_solver
from opttree.estimators.recipe import Estimator, Floats, Recipe, Shrink, is_printed
from opttree.estimators.steps.shrink import quick_trial
from opttree.estimators.tasks import ClassificationTree, RegressionTree
from opttree.methods.table import estimator
from opttree.model.tree import Tree
from opttree.runtime.options import changed, option
from opttree.statement import TreeProblem
from opttree.tables.weights import n_rows

__all__ = ["DTSemNetClassifier", "DTSemNetRegressor", "HRTRegressor", "RADDTClassifier", "RADDTRegressor"]


def _shrinks(options: Estimator) -> bool:
    """By default the leaves of numbers are the authors', and those of classes shrunk."""
    return is_classifier(options) and not is_printed(options)


def _terms(options: Estimator, weight: Floats, n_features: int, y_scale: Floats) -> dict[str, Any]:
    leaves = groups.mixed(0.0, 0.0, options.leaf_penalty) if options.leaves == "linear" else ()
    return {"penalties": (*leaves, *groups.mixed(1.0, getattr(options, "split_penalty", 0.0), 0.0))}


@dataclass(eq=False, repr=False)
class _Gradient(TreeEstimator):
    """Common part of RADDT and DTSemNet."""

    splits = "oblique"
    starts_compete = True

    max_depth: int | Literal["cv"] | None = groups.max_depth()
    _: KW_ONLY
    cv: Any = groups.cv()
    init: Tree | None = groups.init()
    min_samples_leaf: int = groups.min_samples_leaf()
    max_leaf_nodes: int | None = groups.max_leaf_nodes()
    leaf_shrinkage: float | Literal["cv"] | None = groups.leaf_shrinkage()
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


def _raddt_solver(options: Estimator, problem: TreeProblem, valid: TreeProblem | None) -> Any:
    return build_solver(options, bridge.solvers.RADDT, init=bridge.solvers.CartInit())


@dataclass(eq=False, repr=False, kw_only=True)
class _RADDT(_Gradient):
    """Common part of the regressor and the classifier."""

    recipe = Recipe(
        solver=_raddt_solver,
        terms=_terms,
        shrink=Shrink(_shrinks, lambda options, problem: quick_trial(problem, _raddt_solver(options, problem, None))),
    )

    n_starts: int | None = option(
        None,
        """Starts: CART's tree, or ``init``; that tree on uncorrelated combinations of the features; and else random
        ones. None: 2, and 10 for the paper's preset.""",
        least=1,
    )
    epochs: int | None = option(
        None, "Epochs of a run, each over all rows; None: 200, and 3000 for the paper's preset.", least=1
    )
    n_scales: int = option(5, "Runs of a start, with growing scales of the softmin.", least=1)
    preset: Literal["default", "paper"] = option(
        "default",
        """"paper": as many starts and epochs as the authors' program documents, the first from CART's tree as there,
        all on the features themselves, see ``decorrelate`` of `solvers.RADDT`. Leaves are fitted in the end as by
        default.""",
    )


@estimator(
    "raddt",
    solver="RADDT",
    methods={"raddt": ("RADDT, oblique splits, constant leaves, by a softmin over the leaves", {})},
)
class RADDTRegressor(RegressionTree, _RADDT):
    """Regression tree by the softmin of violations, see `solvers.RADDT`.

    Take it to compare with the RADDT paper; a start takes seconds to tens of seconds.

    Attributes
    ----------
    tree_ : opttree.Tree
        The tree, on raw features.
    result_ : solvers.Result
        Result of the run; its tree and objective are on the standardised problem.
    n_iter_ : int
        Steps taken.

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


@estimator("raddt")
@dataclass(eq=False, repr=False, kw_only=True)
class RADDTClassifier(ClassificationTree, _RADDT):
    """Classification tree by the softmin of violations, by log loss (capped at ``-log(1e-6)``), see `solvers.RADDT`.

    Take it to compare with the RADDT paper; a start takes seconds to tens of seconds.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Class labels.
    tree_, result_, n_iter_ : Tree, Result, int
        As in `RADDTRegressor`.

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


def _levels_for_classes(y: NDArray[Any]) -> int:
    """Levels of the smallest tree with a leaf for each class."""
    return max(int(np.ceil(np.log2(np.unique(y).size))), 1)


def _dtsemnet_solver(options: Estimator, problem: TreeProblem, valid: TreeProblem | None) -> Any:
    return build_solver(options, bridge.solvers.DTSemNet)


@dataclass(eq=False, repr=False, kw_only=True)
class _DTSemNet(_Gradient):
    """Common part of the regressor and the classifier."""

    recipe = Recipe(
        solver=_dtsemnet_solver,
        terms=_terms,
        shrink=Shrink(
            _shrinks, lambda options, problem: quick_trial(problem, _dtsemnet_solver(options, problem, None))
        ),
    )

    n_starts: int = option(3, "Random starts; ``init`` replaces the first.", least=1)
    epochs: int = option(60, "Epochs of a start.", least=1)
    batch_size: int = option(128, "Rows of a batch.", least=1)
    learning_rate: float = option(0.1, "Learning rate of the first epoch.", above=0)
    decay: float = option(0.97, "Factor of the learning rate from one epoch to the next.", above=0, most=1)
    split_penalty: float = option(0.0, "The l1 penalty on the weights of the splits, see `solvers.DTSemNet`.", least=0)


@estimator(
    "dtsemnet",
    solver="DTSemNet",
    methods={
        "dtsemnet": (
            "DTSemNet, oblique splits, by gradients of a network that is the tree; linear leaves in regression",
            {},
        )
    },
)
@dataclass(eq=False, repr=False, kw_only=True)
class DTSemNetRegressor(RegressionTree, _DTSemNet):
    """Regression tree as a network whose largest output is the row's leaf, see `solvers.DTSemNet`.

    Take it to compare with the DTSemNet paper. The tree is written as a network, trained in batches by its gradients,
    and read back exactly.

    Attributes
    ----------
    tree_, result_, n_iter_ : Tree, Result, int
        As in `RADDTRegressor`.

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


@estimator("dtsemnet")
@dataclass(eq=False, repr=False, kw_only=True)
class DTSemNetClassifier(ClassificationTree, _DTSemNet):
    """Classification tree as a network whose largest output is the row's leaf, see `solvers.DTSemNet`.

    Take it to compare with the DTSemNet paper; see `DTSemNetRegressor` for how.

    Its log loss is that of the class shares in the leaves, capped at ``-log(1e-6)``.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Class labels.
    tree_, result_, n_iter_ : Tree, Result, int
        As in `RADDTRegressor`.

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

    recipe = replace(_DTSemNet.recipe, least_depth=_levels_for_classes)
    loss = "log"


def _hrt_solver(options: Estimator, problem: TreeProblem, valid: TreeProblem | None) -> Any:
    return build_solver(options, bridge.solvers.HRT, min_rows=options.min_samples_leaf)


def _hrt_terms(options: Estimator, weight: Floats, n_features: int, y_scale: Floats) -> dict[str, Any]:
    return {"penalties": groups.mixed(0.0, 0.0, options.ridge / n_rows(weight))}


@estimator(
    "hrt",
    solver="HRT",
    methods={"hrt": ("HRT, hinge regression tree, linear leaves, top-down by Newton steps; regression only", {})},
)
@dataclass(eq=False, repr=False)
class HRTRegressor(RegressionTree, TreeEstimator):
    """Hinge regression tree, see `solvers.HRT`: linear leaves, top-down, each split by Newton steps; one output.

    Take it to compare with the HRT paper; no split is revised once it is made.

    Attributes
    ----------
    tree_, result_, n_iter_ : Tree, Result, int
        As in `RADDTRegressor`.

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

    recipe = Recipe(solver=_hrt_solver, terms=_hrt_terms)
    splits, leaves, loss = "oblique", "linear", "squared"

    max_depth: int | Literal["cv"] | None = groups.max_depth()
    _: KW_ONLY
    cv: Any = groups.cv()
    init: Tree | None = groups.init(None, "A tree on raw features that is the result if none is better.")
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
