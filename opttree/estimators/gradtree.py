"""`GradTreeClassifier` and `GradTreeRegressor`: axis-aligned trees by straight-through gradients."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from opttree.estimators import bridge, option_groups as groups
from opttree.estimators.base import TreeEstimator, build_solver
from opttree.estimators.recipe import Estimator, Fit, Floats, Outcome, Recipe, is_printed
from opttree.estimators.steps.solve import choose_lowest, run
from opttree.estimators.steps.units import QuantileScaling, Scaling, moments
from opttree.estimators.tasks import ClassificationTree, RegressionTree
from opttree.methods.table import estimator
from opttree.model.tree import Tree
from opttree.runtime.devices import Device
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from opttree.tables.preprocessing import rebalanced

__all__ = ["GradTreeClassifier", "GradTreeRegressor"]

WHOLE = 1e-9  # how far a weight may be from a multiple of another, relative to it
MOST_ROWS = 10_000_000  # that are rebalanced, copies counted
USUAL_RATES = (0.01, 0.05, 0.05)  # learning rates by default


def _solver(options: Estimator, problem: TreeProblem, valid: TreeProblem | None) -> Any:
    printed = is_printed(options)
    from_cart = options.init == "cart" or (
        options.init is None and not printed and problem.loss_function.form == "errors"
    )
    given: dict[str, Any] = {}
    if options.learning_rates is None and not printed:
        given["learning_rates"] = USUAL_RATES
    if options.refit is None:
        given["refit"] = problem.loss_function.form == "quadratic" and not printed
    given["validation"] = options.validation_fraction if valid is None else valid
    init = bridge.solvers.CartInit() if from_cart else None
    return build_solver(options, bridge.solvers.GradTree, init=init, **given)


def _either(options: Estimator, chosen: bool | None) -> bool:
    """An option that is None where it is True for the paper's preset alone."""
    return is_printed(options) if chosen is None else chosen


def _rebalances(options: Estimator) -> bool:
    return hasattr(options, "rebalance") and _either(options, options.rebalance)


def _solve(options: Estimator, fit: Fit) -> Outcome:
    """Solve, and keep the tree with the lowest validation loss, as the paper does."""
    result, loss = choose_lowest("validation", lambda watch: _run(options, fit, watch))
    if options.improve and isinstance(result.tree, Tree) and result.tree.n_branches:
        problem, tao = fit.problem, bridge.solvers.TAO(max_iter=options.improve, accept="improve")
        limit = None if fit.time_limit is None else max(fit.time_limit - result.seconds, 1e-3)
        start = problem.trim(problem.fit_leaves(result.tree))
        better = run(options, tao, problem, start, fit.seed, limit)
        result = replace(result, tree=better.tree, objective=better.objective)
    return Outcome(result, {"validation_loss_": loss})


def _run(options: Estimator, fit: Fit, watch: Any) -> Any:
    """Run; with ``rebalance``, hold out the validation rows first and oversample the rest."""
    problem, solver = fit.problem, _solver(options, fit.problem, fit.valid)
    if _rebalances(options):
        train = problem
        if options.validation_fraction is not None and fit.valid is None:
            stratify = _either(options, options.stratify)
            train, valid = problem.split(
                options.validation_fraction, np.random.default_rng(fit.seed), stratify=stratify
            )
            solver = replace(solver, validation=valid)
        times = _times(train.sample_weight, problem.sample_weight)  # copies of rows, taken together
        problem = train.with_rows(*rebalanced(train.X.repeat(times, axis=0), train.y.repeat(times, axis=0), fit.seed))
    return run(options, solver, problem, fit.start, fit.seed, fit.time_limit, watch)


def _terms(options: Estimator, weight: Floats, n_features: int, y_scale: Floats) -> dict[str, Any]:
    if not _rebalances(options):
        return {}
    used = weight[weight > 0.0]
    if np.ptp(used) == 0.0:
        return {}
    named = "rebalance, which is True for preset='paper' unless it is given, needs"
    given = options.class_weight
    if given is not None and not (isinstance(given, dict) and len(set(given.values())) == 1):
        raise ValueError(f"{named} classes of one weight; got class_weight={given!r}")
    ratio = used / _unit(used)
    if np.abs(ratio - np.rint(ratio)).max() > WHOLE * ratio.max():
        raise ValueError(
            f"{named} weights of rows that say how often each is there; got {used.min():g} to {used.max():g}"
        )
    if ratio.sum() > MOST_ROWS:
        raise ValueError(f"{named} weights of at most {MOST_ROWS:,} rows in all, each counted; got {ratio.sum():,.0f}")
    return {}


def _unit(weight: Floats) -> float:
    """The weight of one row: of whole numbers the largest that divides all, otherwise the smallest weight."""
    whole = np.rint(weight)
    if weight.max() < MOST_ROWS and (np.abs(weight - whole) <= WHOLE * weight).all() and whole.min() >= 1.0:
        return float(np.gcd.reduce(whole.astype(np.int64)))
    return float(weight.min())


def _times(weight: Any, of: Any) -> NDArray[np.int64]:
    """How often each row is there, by weights which are multiples of the unit ``of`` these."""
    return np.rint(np.asarray(weight) / _unit(np.asarray(of))).astype(np.int64)


def _restate(
    options: Estimator, problem: TreeProblem, scaling: Scaling, X: Floats, weight: Floats
) -> tuple[TreeProblem, Any]:
    """On normal quantiles, if features are transformed to them."""
    if not _either(options, options.quantile_transform):
        return problem, scaling
    quantiles = QuantileScaling(X[weight > 0.0], scaling)
    return problem.with_rows(quantiles.features(X[weight > 0.0]), problem.y, problem.sample_weight), quantiles


RECIPE = Recipe(
    depths=(4, 8),
    usual_depth=8,
    solver=_solver,
    terms=_terms,
    features=lambda options, X, weight: moments(X, weight),
    solve=_solve,
    merit="validation_loss_",
    restate=_restate,
)


@dataclass(eq=False, repr=False)
class _GradTree(TreeEstimator):
    """Common part of the regressor and the classifier."""

    recipe = RECIPE
    splits = "axis"
    leaves = "constant"
    takes_eval_set = True

    max_depth: int | Literal["auto", "cv"] | None = groups.auto_depth()
    _: KW_ONLY
    cv: Any = groups.cv()
    preset: Literal["default", "paper"] = groups.preset()
    min_samples_leaf: int = groups.min_samples_leaf()
    floor: bool | None = groups.floor()
    max_leaf_nodes: int | None = groups.max_leaf_nodes()
    learning_rates: tuple[float, float, float] | None = option(
        None,
        """Learning rates of feature logits, thresholds and leaves. None: .01, .05 and .05, and for the paper's preset,
        where they are not searched, .05, .01 and .005.""",
        above=0,
    )
    epochs: int | None = option(
        None, "Largest number of epochs per start; None: 1000, and 10,000 for the paper's preset.", least=1
    )
    batch_size: int | None = option(
        None, "Rows per batch, at most half of all rows; None: 512, and 128 for the paper's preset.", least=1
    )
    patience: int = option(200, "A start stops after this many epochs without a lower validation loss.")
    average: int = option(5, "The weights of the last so many epochs are averaged before validation.")
    n_starts: int = option(3, "Random starts.")
    validation_fraction: float | None = option(
        0.2,
        """Share of the rows held out for early stopping and to choose among starts; None: the training rows are
        used.""",
        above=0,
        below=1,
    )
    index: str = option("entmax", "How the gradient treats the choice of a feature, see `opttree.DenseTreeProblem`.")
    temperatures: tuple[float, float] = option(
        (1.0, 1.0), "Divisors of the feature logits in the first and the last epoch."
    )
    refit: bool | None = option(
        None,
        """Whether leaves are refitted on all rows, or kept as the gradient left them. None: for numbers they are, but
        for the paper's preset, and for classes not.""",
    )
    init: Tree | Literal["cart", "random"] | None = groups.init(
        None,
        """What the first start begins from: a tree on raw features, of axis-aligned splits and constant leaves; "cart":
        scikit-learn's tree on the rows that are not held out; "random": random numbers, as the other starts. None:
        "cart" for classes, and "random" for numbers and for the paper's preset.""",
    )
    quantile_transform: bool | None = option(
        None,
        """Whether features are transformed to normal quantiles first, or standardised; None: False, and True for the
        paper's preset. Either way ``tree_`` splits raw features.""",
    )
    stratify: bool | None = option(
        None,
        """Whether the rows held out have the same shares of the classes as all; None: False, and True for the paper's
        preset, which does not say so.""",
    )
    improve: int = option(
        0, "Passes of TAO over the chosen tree, on all rows, of which only those are kept that lower the objective."
    )
    device: Device = option("cpu", "Device of the descents, see `solvers.GradTree` and `GETRegressor`.")


@estimator("gradtree")
@dataclass(eq=False, repr=False, kw_only=True)
class GradTreeClassifier(ClassificationTree, _GradTree):
    """Axis-aligned classification tree by gradient descent on all its splits at once (GradTree).

    Take it where a hard axis-aligned tree is to be trained by gradients, in batches; CART is better on the mean of
    the paper's sets. A hard tree is held in a dense form, and gradients pass straight through the choice of a feature
    and the rounding of a split.

    Features are standardised; if they have long tails, scikit-learn's ``QuantileTransformer`` (used in the paper)
    before this estimator helps the gradient.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Class labels.
    tree_, n_iter_ : Tree, int
        As in `TAOClassifier`; branches that no training row reaches are removed.
    result_ : solvers.Result
        Result of the run; its objective is the error rate on all training rows.
    validation_loss_ : float
        Loss on the held-out rows by which the tree was chosen; infinite if nothing was chosen, as with one class.

    See Also
    --------
    GradTreeRegressor : the same for numbers
    preprocessing.gradtree_pipeline : with the preprocessing of the paper

    References
    ----------
    Marton, Luedtke, Bartelt and Stuckenschmidt, "GradTree: learning axis-aligned decision trees with gradient
    descent", AAAI 2024.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from opttree import GradTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GradTreeClassifier(max_depth=3, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    loss = "zero_one"

    gamma: float = option(0.0, "Focal factor of the cross-entropy; the paper uses 3 where it uses one.")
    epsilon: float = option(0.0, "Coefficient of PolyLoss; the paper uses 2 and 5 where it uses one.")
    rebalance: bool | None = option(
        None,
        """Whether SMOTE oversamples small classes; None: False, and True for the paper's preset. See
        `opttree.preprocessing.rebalanced`: in the training rows, not in the held-out ones. ``refit``,
        ``min_samples_leaf`` and ``result_`` then refer to the oversampled rows, all of equal weight.""",
    )


@estimator(
    "gradtree",
    solver="GradTree",
    chooses_depth=True,
    has_device=True,
    methods={
        "gradtree": ("GradTree, axis-aligned splits, constant leaves, by straight-through gradients", {}),
    },
)
@dataclass(eq=False, repr=False, kw_only=True)
class GradTreeRegressor(RegressionTree, _GradTree):
    """Axis-aligned regression tree by gradient descent on all its splits at once; squared loss.

    Take it to compare with the GradTree paper. A hard tree is held in a dense form, and gradients pass straight through
    the choice of a feature and the rounding of a split.

    Attributes
    ----------
    tree_, result_, n_iter_, validation_loss_ : Tree, Result, int, float
        As `GradTreeClassifier`; the objective is the mean squared error of standardised outputs on all training rows.

    See Also
    --------
    GradTreeClassifier : the same for classes
    preprocessing.gradtree_pipeline : with the preprocessing of the paper
    solvers.GradTree : the solver

    References
    ----------
    Marton, Luedtke, Bartelt and Stuckenschmidt, "GradTree: learning axis-aligned decision trees with gradient
    descent", AAAI 2024.

    Examples
    --------
    >>> from opttree import GradTreeRegressor, datasets
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> model = GradTreeRegressor(max_depth=3, random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.2, model.tree_.is_axis_aligned
    (True, True)
    """

    loss = "squared"
