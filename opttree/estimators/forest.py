"""`TAOForestRegressor` and `TAOForestClassifier`: averaged trees by alternating optimization."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from opttree.estimators import bridge, option_groups as groups
from opttree.estimators.base import ForestEstimator, build_solver
from opttree.estimators.losses import units_of_y
from opttree.estimators.quantiles import leaves_of, pool_of, pooled
from opttree.estimators.recipe import Estimator, Fit, Floats, Outcome, Recipe, is_printed
from opttree.estimators.steps.depth import SEARCH_SHARE, folds_of
from opttree.estimators.steps.model import as_forest
from opttree.estimators.steps.solve import Watch, keep_last, run
from opttree.estimators.steps.units import Scaling, spread, with_training
from opttree.estimators.tasks import ClassificationTree, RegressionTree, check_coverage
from opttree.methods.table import estimator
from opttree.model.forest import Forest, shares
from opttree.model.tree import Tree
from opttree.runtime.clock import now
from opttree.runtime.options import changed, option
from opttree.statement import TreeProblem

if TYPE_CHECKING:
    from solvers import TAOForest

__all__ = ["TAOForestClassifier", "TAOForestRegressor"]

ROWS_PER_PARAMETER = 2.5  # rows per parameter of a linear leaf, which sets the default depth
DEPTHS = (2, 10)
SPARSE_SIZE = 9  # features, for which the default depth is that of constant leaves on sparse tables
FEWEST_TREES, MOST_TREES = 30, 100  # where their number is left to the forest
SEARCH_TREES = 8  # trees of the small forest fitted for each depth in the depth search
DEEPEST = 14
PRIOR_ROWS = np.array([0.0, 1.0, 3.0, 10.0])  # class frequencies in every leaf, in rows among all of them
MOST_PRIOR = 0.01  # and as a share of a leaf
CLASS_ROWS = 30  # of a class in the mean, from which no kind of a stack needs to be of small pure leaves
STACKED_ROWS, STACKED_TREES = 2000, 10  # fewer rows, and as many trees, take trees of several kinds


class ForestModel(ForestEstimator):
    """Base class of estimators of several trees."""

    @property
    def n_parameters_(self) -> int:
        """Parameters of all trees, as the TAO paper counts them."""
        check_is_fitted(self, "forest_")
        return self.forest_.n_parameters

    def flops(self, X: Any) -> float:
        """Mean floating-point operations to predict a row, as the TAO paper counts them.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows.

        Returns
        -------
        float
            Operations per row.
        """
        return self.forest_.flops(self._validated(X))

    def apply(self, X: Any) -> NDArray[np.int32]:
        """Leaf node of each row in each tree: (n, T) int."""
        X = self._validated(X)
        return np.stack([tree.apply(X) for tree in self.forest_.trees], axis=1)

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """Predictions of the first tree, of the first two, and so on: each as `predict`.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows.

        Yields
        ------
        ndarray of shape (n,) or (n, K)
            Predictions, (n, K) for several outputs.
        """
        X = self._validated(X)
        for scores in self.forest_.staged(X):
            if getattr(self, "_several", None) is not None:
                yield self._likeliest(self._by_output(self.forest_.answers_of(scores)))
            elif self.forest_.classes is not None:
                yield self.forest_.classes[np.argmax(scores, axis=1)]
            else:
                yield scores[:, 0] if scores.shape[1] == 1 else scores

    @available_if(is_classifier)
    def staged_predict_proba(self, X: Any) -> Iterator[Any]:
        """Class probabilities of the first tree, of the first two, and so on: each as `predict_proba`.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows.

        Yields
        ------
        ndarray of shape (n, K) or list of ndarray
            Class probabilities, a list for several outputs.
        """
        X = self._validated(X)
        for scores in self.forest_.staged(X):
            yield self._by_output(self.forest_.answers_of(scores))

    def get_depth(self) -> int:
        """Depth of the deepest tree."""
        check_is_fitted(self, "forest_")
        return max(tree.depth for tree in self.forest_.trees)

    def get_n_leaves(self) -> int:
        """Number of leaves of all trees."""
        check_is_fitted(self, "forest_")
        return sum(tree.n_leaves for tree in self.forest_.trees)


def is_searched(options: Estimator) -> bool:
    """Whether the depth of TAO trees is chosen here; CART trees then have no depth limit."""
    return options.max_depth in (None, "oob", "cv")


def trees_of(options: Estimator) -> int:
    """Number of trees; if it is left to the forest, the least, or as many as there are where trees are added."""
    if options.n_estimators != "auto":
        return int(options.n_estimators)
    there = len(options.forest_.trees) if goes_on(options) and hasattr(options, "forest_") else 0
    return max(FEWEST_TREES, there)


def goes_on(options: Estimator) -> bool:
    """Whether a fit adds trees to those that there are."""
    return bool(options.warm_start and getattr(options, "kind_", "stacked") != "stacked")


def _check(options: Estimator) -> None:
    groups.check_penalties(options)
    if goes_on(options) and hasattr(options, "forest_") and trees_of(options) < len(options.forest_.trees):
        raise ValueError(
            f"n_estimators must be at least the {len(options.forest_.trees)} trees that there are, with "
            f"warm_start=True; got {options.n_estimators!r}"
        )
    if options.warm_start and options.joint_leaves:
        raise ValueError("warm_start adds trees to others whose leaves stay as they are; got joint_leaves=True")
    if options.warm_start and options.kind == "stacked":
        raise ValueError("warm_start adds trees of one kind; got kind='stacked'")
    _forest(options)  # checks the solver's options


def _forest(options: Estimator) -> TAOForest:
    printed = is_printed(options)
    passes = {} if printed or options.max_iter is None else {"constant_iterations": min(2, options.max_iter)}
    solver: TAOForest = build_solver(
        options,
        bridge.solvers.TAOForest,
        kind="oblique" if options.kind == "stacked" or (printed and options.kind == "auto") else options.kind,
        n_trees=trees_of(options),
        sample="bootstrap" if options.bootstrap else options.max_samples,
        **passes,
        rows_in_time=not printed,
        subsets=options.feature_subsets,
        n_jobs=options.n_jobs,
    )
    return solver


def _solve(options: Estimator, fit: Fit) -> Outcome:
    """Solve; "oob" and "cv" search for the depth first, ``warm_start`` grows only the missing trees."""
    solver: Any = _forest(options)
    problem, time_limit = fit.problem, fit.time_limit
    attributes: dict[str, Any] = {}
    more = goes_on(options)
    seed = options._seed if more else int(check_random_state(options.random_state).randint(2**31 - 1))
    levels = getattr(options, "_levels", None) if more else None
    if is_searched(options):
        if levels is None:
            began = now()
            if options.max_depth is None:
                levels = default_depth(problem.n_samples, SPARSE_SIZE if problem.is_sparse else problem.n_features)
            else:
                folds = _folds(options, fit, seed) if options.max_depth == "cv" else []
                levels, attributes["cv_results_"], small = _search(options, problem, folds, seed, time_limit)
                if small is not None:
                    return Outcome(small, attributes | {"_seed": seed, "_levels": levels})
            if time_limit is not None:
                time_limit = max(time_limit - (now() - began), 1e-3)
        solver = replace(solver, levels=levels)
        if options.kind in ("cart", "extra") and options.max_depth is not None:
            problem = problem.restated(depth=levels)
    attributes |= {"_seed": seed, "_levels": levels}
    if more:
        first = len(options.forest_.trees)
        if first == trees_of(options):
            return Outcome(options.result_, attributes)
        known: dict[str, Any] = {
            "kind": options.kind_,
            "shrinkage": options.shrinkage_,
            "leaf_lasso": options.leaf_lasso_,
        }
        solver = replace(solver, n_trees=trees_of(options) - first, first=first, **known)
    elif _is_stacked(options, problem):
        kinds = bridge.solvers.ensembles.stacked.usual_members()
        members = tuple(replace(solver, kind=usual.kind) for usual in kinds)
        if problem.is_classification and problem.n_samples < CLASS_ROWS * problem.n_outputs:
            members += (replace(solver, kind="cart-constant", sample="bootstrap"),)
        solver = bridge.solvers.StackedForest(trees_of(options), members, linear=True)
        if options.n_estimators == "auto" and not is_printed(options):
            solver = replace(solver, most_trees=MOST_TREES)
    if options.joint_leaves:
        solver = bridge.solvers.JointForest(solver)
    final = problem

    def grow(watch: Watch) -> Any:
        return run(options, solver, final, fit.start, seed, time_limit, watch)

    return Outcome(keep_last(grow), attributes)


def _is_stacked(options: Estimator, problem: TreeProblem) -> bool:
    """Whether the forest has trees of several kinds."""
    small = problem.n_samples < STACKED_ROWS and trees_of(options) >= STACKED_TREES
    usual = options.kind == "auto" and not is_printed(options) and not problem.is_sparse
    return options.kind == "stacked" or (usual and small and not options.warm_start)


def _folds(options: Estimator, fit: Fit, seed: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Training and held-out rows of the problem, which has those of positive weight; ``cv`` speaks of all."""
    used = fit.rows.weight > 0.0
    place = np.cumsum(used) - 1
    cuts = folds_of(options, fit.rows.X, fit.rows.y, seed, fit.rows.table, fit.rows.weight)
    if not all(used[part].any() for cut in cuts for part in cut):
        raise ValueError("cv must hold out, and leave, rows of positive weight in every split; got a split without any")
    return [(place[train[used[train]]], place[valid[used[valid]]]) for train, valid in cuts]


def _search(
    options: Estimator,
    problem: TreeProblem,
    folds: list[tuple[NDArray[np.intp], NDArray[np.intp]]],
    seed: int,
    time_limit: float | None,
) -> tuple[int, dict[str, NDArray[Any]], Any]:
    """The depth whose small forest has the lowest out-of-bag or cross-validation loss, the losses, and None; the search
    stops after two depths without improvement, or after half the time limit. After Ctrl-C the last is the result with
    the largest of these forests of that depth, if there is one.
    """
    solvers = bridge.solvers
    until = np.inf if time_limit is None else now() + SEARCH_SHARE * time_limit
    small = replace(_forest(options), n_trees=SEARCH_TREES, sample="bootstrap")
    if small.kind == "auto":
        small = replace(small, kind="oblique")
    scores: list[float] = []
    kept: dict[int, Any] = {}  # the largest forest of each depth

    def solved(stated: TreeProblem, watch: Any = None) -> Any:
        left = None if np.isinf(until) else max(until - now(), 1e-3)
        return solvers.solve(stated, small, random_state=seed, time_limit=left, callback=watch)

    def grown(part: TreeProblem) -> Any:
        result = keep_last(partial(solved, part))
        if isinstance(result.tree, Forest):
            before = kept.get(part.depth, result)
            kept[part.depth] = result if len(result.tree.trees) >= len(before.tree.trees) else before
        return result

    for depth in range(1, DEEPEST + 1):
        stated = problem.restated(depth=depth)
        errors = []
        for train, valid in folds:
            part = stated.sample(train)
            result = grown(part)
            errors.append(stated.sample(valid).mean_loss_of(result.tree.outputs(stated.X[valid])))
        if options.max_depth == "oob":
            result = grown(stated)
            errors.append(result.trace.rows[-1].info.get("oob", np.inf))
        scores.append(float(np.mean(errors)))
        best = int(np.argmin(scores))
        ended = result.termination.name == "INTERRUPTED" or now() >= until
        if ended or len(scores) - 1 - best >= 2:
            break
    at_hand = None
    if result.termination.name == "INTERRUPTED" and kept:
        at_hand = replace(kept.get(best + 1, [*kept.values()][-1]), termination=result.termination)
        if len(at_hand.tree.outside[1]) != problem.n_samples:  # of a fold
            unseen = np.full((problem.n_samples, problem.n_outputs), np.nan), np.zeros(problem.n_samples, np.int64)
            at_hand = replace(at_hand, tree=replace(at_hand.tree, outside=unseen))
    return best + 1, {"depth": np.arange(1, len(scores) + 1), "loss": np.array(scores)}, at_hand


def _model(options: Estimator, fit: Fit, outcome: Outcome) -> dict[str, Any]:
    """The forest on raw features, joined to the trees that there were, and what out-of-bag rows say."""
    result, X, weight, scaling = outcome.result, fit.X, fit.rows.weight, fit.scaling
    n_outputs, more = fit.problem.n_outputs, goes_on(options)
    if isinstance(result.tree, Tree):  # the time was up before the first tree
        forest = as_forest(with_training(scaling.unscale(result.tree), X, weight), n_outputs)
        unseen = np.full((len(weight), n_outputs), np.nan)
        return {"forest_": forest, "depth_": 0, "oob_loss_": np.nan, "oob_prediction_": unseen}
    if more and trees_of(options) == len(options.forest_.trees):
        return {"forest_": options.forest_}
    info, unit = result.trace.rows[-1].info, _unit(scaling)
    prior, frequencies = _prior(options, fit, result.tree)
    if prior > 0.0:
        scaling = Scaling(scaling.x_mean, scaling.x_scale, prior * frequencies, np.full(n_outputs, 1.0 - prior))
    new = scaling.unscale(result.tree).with_spread(spread(X, weight))
    if more:
        if len(new.trees) < len(options.forest_.trees):
            info = {**info, "oob": options.oob_loss_ / unit}
        new = options.forest_.joined(new)
    kind = bridge.solvers.ensembles.KINDS[int(info["kind"])]
    chosen = is_searched(options) and not kind.startswith(("cart", "extra"))
    answers, counts = new.outside
    outside = np.full((len(weight), answers.shape[1]), np.nan)
    outside[np.flatnonzero(weight)[counts > 0]] = answers[counts > 0]
    attributes = {
        "forest_": new,
        "oob_loss_": info["oob"] * unit,
        "shrinkage_": info.get("shrinkage", np.nan),
        "leaf_lasso_": info.get("lasso", np.nan),
        "kind_": kind,
        "depth_": outcome.attributes["_levels"] if chosen else max(tree.depth for tree in new.trees),
        "oob_prediction_": outside,
    }
    return attributes | (_interval(options, fit, attributes) if is_regressor(options) else {})


def _prior(options: Estimator, fit: Fit, forest: Forest) -> tuple[float, Floats]:
    """The share of the class frequencies in every leaf that has the lowest log loss out of bag; these frequencies.

    Where few rows have a class, no leaf that a row falls into may hold one: its probability would be zero.
    """
    problem = fit.problem
    if not problem.is_classification or is_printed(options) or options.warm_start or forest.outside is None:
        return 0.0, np.empty(0)
    outside, counts = forest.outside
    seen = counts > 0
    codes, weight = problem.Y[seen, 0].astype(np.intp), problem.w[seen]
    frequencies = np.bincount(problem.Y[:, 0].astype(np.intp), problem.w, problem.n_outputs).astype(np.float64)

    def loss(prior: float) -> float:
        found = shares((1.0 - prior) * outside[seen] + prior * frequencies)
        return float(-weight @ np.log(found[np.arange(codes.size), codes]))

    tried = np.minimum(PRIOR_ROWS / problem.n_samples, MOST_PRIOR)
    return float(min(tried, key=loss)), frequencies


CALM = 10.0  # mean variances, to which that of a row is added: errors have other causes than the trees' variance


def _interval(options: Estimator, fit: Fit, attributes: dict[str, Any]) -> dict[str, Any]:
    """What `TAOForestRegressor.predict_interval` and `predict_quantile` need: out-of-bag errors, scaled to those
    expected of the whole forest; for the first relative to the trees' variance.
    """
    X, y = fit.rows.X, fit.rows.y
    seen = ~np.isnan(attributes["oob_prediction_"][:, 0])
    answers = np.stack([tree.outputs(X[seen]) for tree in attributes["forest_"].trees])
    errors = y.reshape(len(y), -1) - attributes["oob_prediction_"]
    signed, errors = errors, abs(errors[seen])
    variance = answers.var(axis=0)
    mean = CALM * variance.mean(axis=0) + 1e-300 if seen.any() else variance
    mean_error = max(float(np.mean(np.sum(errors**2, axis=1))), 1e-300) if seen.any() else 1.0
    shrink = np.sqrt(attributes["oob_loss_"] / mean_error) if seen.any() else 1.0
    found = {"_mean_variance": mean, "_outside_errors": shrink * errors / np.sqrt(variance + mean)}
    trees = attributes["forest_"].trees
    return found | {"_pool": pool_of(trees, X, shrink * signed, fit.rows.weight) if options.keep_errors else None}


def _unit(scaling: Scaling) -> float:
    return float(np.mean(scaling.y_scale**2))


def _terms(options: Estimator, weight: Floats, n_features: int, y_scale: Floats) -> dict[str, Any]:
    return {"penalties": () if is_printed(options) else groups.split_penalties(options)}


RECIPE = Recipe(
    solver=lambda options, problem, valid: _forest(options),
    parts="forest",
    sparse_from=groups.SPARSE_FROM,
    terms=_terms,
    outputs=units_of_y,
    solve=_solve,
    model=_model,
    check=_check,
    depth=lambda options, n_samples: n_samples if is_searched(options) else int(options.max_depth),
)


@dataclass(eq=False, repr=False)
class _TAOForest(ForestModel):
    """Common part of the regressor and the classifier.

    The problem of `state` is that of each tree, on all rows; if ``max_depth`` is None, "oob" or "cv", it allows any
    depth, and the solver limits its trees.
    """

    recipe = RECIPE
    splits = "oblique"

    n_estimators: int | Literal["auto"] = option(
        "auto",
        """Number of trees. "auto": 30; stacked trees, see ``kind``, are up to 100 where the rows that each tree leaves
        out say that more of them lower the error by more than a hundredth.""",
        least=1,
        words="an integer >= 1 or 'auto'",
    )
    _: KW_ONLY
    cv: Any = groups.cv()
    preset: Literal["default", "paper"] = groups.preset()
    min_samples_leaf: int = groups.min_samples_leaf()
    max_depth: int | Literal["oob", "cv"] | None = option(
        None,
        """Largest depth of all trees. None: the depth, from 2 to 10, at which leaves of TAO trees keep 2.5 rows per
        parameter of a linear model; trees of kind "cart" are fully grown. "oob" and "cv": the same, but the depth of
        TAO trees is the one in 1..14 with the lowest out-of-bag or held-out loss (see ``cv``) of forests of eight
        trees; the losses are in ``cv_results_``.""",
        least=1,
        words="an integer >= 1, None, 'oob' or 'cv'",
    )
    leaves: Literal["linear", "constant"] = option(
        "linear",
        """Leaf models, each a ridge regression shrunk towards its parent's model, see ``shrinkage``. Sparse tables of
        four million numbers (rows times columns) or more have constant leaves; smaller ones are made dense.""",
    )
    kind: Literal["auto", "oblique", "axis", "cart", "extra", "stacked"] = option(
        "auto",
        """"oblique" and "axis": TAO trees. "cart" and "extra": randomised trees on features in bins, and
        scikit-learn's extremely randomised trees, with our leaf models, for data where near neighbours predict
        better than trends. "stacked": oblique, axis-aligned and extremely randomised trees, of classes of fewer
        than 30 rows in the mean also randomised trees of constant leaves, and, beside linear
        leaves, a ridge regression (trees of one leaf), in the shares that predict best on held-out rows, see
        `solvers.StackedForest`. "auto": "stacked" for fewer than 2000 rows and ten trees or more, unless
        ``warm_start``; otherwise oblique trees, or "cart", with linear or constant leaves and half or all of the
        features at each split, if its out-of-bag error is clearly lower, see `solvers.TAOForest`.""",
    )
    max_samples: float = option(0.9, "Share of the rows in each tree's sample.", above=0, most=1)
    bootstrap: bool = option(False, "Whether each tree gets a bootstrap sample instead.")
    max_iter: int | None = option(None, "Passes over each tree; None: 12, and 40 for the paper's preset.", least=0)
    split_penalty: float = groups.split_penalty(
        1e-6,
        """Penalty on the weights of splits as in `TAORegressor`, beside ``split_lasso``; by default ``1e-6 |A|_2^2``.
        Not for the paper's preset.""",
    )
    split_lasso: float | None = option(
        None,
        """The l1 penalty in the logistic regression of each split, see `solvers.TAOForest`. None: .001 for at most 64
        features, and .01 for the
        paper's preset.""",
        least=0,
    )
    start_threshold: Literal["median", "gaussian"] = option(
        "median", "Thresholds of the random hyperplanes from which oblique trees start, see `solvers.TAOForest`."
    )
    leaf_lasso: float | Literal["oob"] | None = option(
        None,
        """The l1 penalty on the weights of each linear leaf, see `solvers.TAOForest`. None: "oob", the largest that
        does not raise the out-of-bag error by more than half a percent, and .01 for the paper's preset.""",
        least=0,
    )
    l1_ratio: float = groups.l1_ratio(0.0)
    shrinkage: float | Literal["oob"] | None = option(
        None,
        """Weight of the parent's model in a leaf, in rows; "oob": chosen by the out-of-bag error. None: "oob", and 0
        for the paper's preset.""",
        above=0,
    )
    max_features: float | None = option(
        None,
        """Number or share of random features for each tree or node (section 5.5 of the paper); None: all, and half at
        each split of "cart", of which ``kind="auto"`` also tries all.""",
    )
    feature_subsets: Literal["global", "local"] = option("global", "Whether features are drawn per tree or per node.")
    common_start: bool = option(False, "Whether all trees start from the same random hyperplanes (section 5.5).")
    warm_start: bool = option(
        False,
        "Whether `fit` keeps the existing trees, with their depth, kind and shrinkage, and adds the missing ones.",
    )
    n_jobs: int | None = changed(
        None,
        """Trees grown at the same time, in threads that share the data; under
        ``joblib.parallel_config(backend="dask")`` on a Dask cluster. It does not change the forest.""",
    )
    joint_leaves: bool = option(
        False,
        """Whether the leaves of all trees are moved together once the trees are grown, as far as rows held out say that
        it pays, see `solvers.JointForest`. It takes about twice the time, and errors fell on most sets (see the page
        on forests). Out-of-bag errors, intervals and quantiles are those of the forest before.""",
    )


@estimator(
    "tao-forest",
    solver="TAOForest",
    is_forest=True,
    has_depth=False,
    methods={
        "forest": ("averaged trees of a depth of their own: TAO's, or CART's with leaves of ours, see kind_", {}),
    },
)
@dataclass(eq=False, repr=False, kw_only=True)
class TAOForestRegressor(RegressionTree, _TAOForest):
    """Regression forest of oblique trees with linear leaves, each by tree alternating optimization on a random sample.

    Take it where accuracy counts most and the model need not be read: on our leaderboard of numbers it is first by its
    mean, where fits took up to ten seconds.

    The defaults are meant to need no tuning, and they are not all TAO: with ``kind="auto"`` some of the trees are
    extremely randomised ones, or a ridge regression, on small data, and all are randomised CART trees with our leaf
    models on larger data where the out-of-bag error is lower; see ``kind_``. The paper's method is ``preset="paper"``,
    with one of its depths, 5 to 8.

    Attributes
    ----------
    forest_ : opttree.Forest
        The model on raw features; ``tree_`` if it is a single tree.
    oob_prediction_ : ndarray of shape (n, K)
        Out-of-bag predictions of the training rows, of several kinds of trees by smaller forests of other rows; NaN
        for rows that every tree has seen. There are none after a fit to a table in parts.
    oob_loss_ : float
        Expected squared error per new row, estimated out of bag, summed over the outputs in units of their mean
        variance.
    kind_ : str
        Kind of the trees: "oblique", "axis", "cart", "extra" or "stacked"; "cart-constant" if "auto" has chosen
        randomised trees with constant leaves, "cart-all" or "cart-constant-all" if their splits look at all features.
    depth_ : int
        Depth of the TAO trees if it was chosen; else the depth of the deepest tree.
    shrinkage_, leaf_lasso_ : float
        The shrinkage and the lasso of the leaves; NaN for stacked trees, of which every kind has another.
    n_parameters_ : int
        Parameters of all trees.
    result_ : solvers.Result
        Result of the run, on the standardised problem.

    See Also
    --------
    TAOForestClassifier : the same for classes
    BoostedTreesRegressor : trees added up
    solvers.TAOForest, solvers.StackedForest : the solvers

    References
    ----------
    Zharmagambetov and Carreira-Perpinan, "Smaller, more accurate regression forests using tree alternating
    optimization", ICML 2020.

    Examples
    --------
    >>> from opttree import TAOForestRegressor, datasets
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> model = TAOForestRegressor(random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.4, model.kind_, len(model.forest_.trees)
    (True, 'stacked', 30)
    """

    loss = "squared"

    y_unit: float | None = groups.y_unit()
    keep_errors: bool = option(
        False,
        "Whether the out-of-bag error of each training row, and its leaves, are kept for `predict_quantile`.",
    )

    def predict_quantile(self, X: Any, quantiles: Any = (0.1, 0.5, 0.9)) -> Floats:
        """Quantiles of the outcome: those of out-of-bag errors of the training rows that share leaves with a row, over
        all trees, added to the prediction. A quantile regression forest, for linear leaves, too.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows.
        quantiles : array-like of shape (Q,)
            Probabilities between 0 and 1.

        Returns
        -------
        ndarray of shape (n, Q) or (n, K, Q)
            The quantiles, (n, K, Q) with several outputs.

        Raises
        ------
        ValueError
            If a probability is not between 0 and 1, or errors were not kept: see ``keep_errors``.

        References
        ----------
        Meinshausen, "Quantile regression forests", Journal of Machine Learning Research 7 (2006).

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> forest = opttree.TAOForestRegressor(keep_errors=True, random_state=0).fit(X[:350], y[:350])
        >>> low, high = forest.predict_quantile(X[350:], (0.1, 0.9)).T
        >>> bool(0.65 < ((low <= y[350:]) & (y[350:] <= high)).mean() < 0.95)
        True
        """
        asked = np.atleast_1d(np.asarray(quantiles, np.float64))
        if asked.ndim != 1 or not ((asked > 0.0) & (asked < 1.0)).all():
            raise ValueError(f"quantiles must be probabilities between 0 and 1; got {quantiles!r}")
        X = self._validated(X)
        pool = getattr(self, "_pool", None)
        if pool is None or not len(pool.errors):
            rule = "predict_quantile needs a fit in memory with keep_errors=True, and trees that leave rows out"
            raise ValueError(f"{rule}; got keep_errors={self.keep_errors}, max_samples={self.max_samples!r}")
        answers = self.forest_.outputs(X)
        found = np.sort(answers[:, :, None] + pooled(pool, leaves_of(self.forest_.trees, X), asked), axis=2)
        back = np.argsort(np.argsort(asked))
        found = found[:, :, back]
        return found[:, 0] if found.shape[1] == 1 else found

    def predict_interval(self, X: Any, coverage: float = 0.9, calibration: tuple[Any, Any] | None = None) -> Floats:
        """Prediction interval.

        The prediction plus and minus a multiple of ``sqrt(v + mean v)``, where v is the variance of the trees'
        predictions of a row. The multiple is the one that covers this share of the training rows, by their out-of-bag
        errors scaled to those expected of the whole forest.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows.
        coverage : float, default 0.9
            Probability that an outcome is in the interval.
        calibration : tuple of (X, y) or None, default None
            Rows that were not in training, for an interval of one width as of `TAORegressor.predict_interval`.

        Returns
        -------
        ndarray of shape (n, 2) or (n, K, 2)
            Lower and upper end, (n, K, 2) with several outputs.

        Raises
        ------
        ValueError
            If ``coverage`` is not between 0 and 1, or no rows were left out in training.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> forest = opttree.TAOForestRegressor(random_state=0).fit(X[:350], y[:350])
        >>> low, high = forest.predict_interval(X[350:], coverage=0.8).T
        >>> bool(0.6 < ((low <= y[350:]) & (y[350:] <= high)).mean() < 1.0)
        True
        """
        check_coverage(coverage)
        if calibration is not None:
            return super().predict_interval(X, coverage, calibration)
        X = self._validated(X)
        if not getattr(self, "_outside_errors", np.zeros(0)).size:
            raise ValueError(
                "predict_interval needs a forest fitted in memory, not stopped before its first trees, some of which "
                "leave a row out, or rows for calibration: "
                f"max_samples below 1 or bootstrap=True; got max_samples={self.max_samples!r}"
            )
        answers = np.stack([tree.outputs(X) for tree in self.forest_.trees])
        half = np.quantile(self._outside_errors, coverage, axis=0) * np.sqrt(answers.var(axis=0) + self._mean_variance)
        bounds = np.stack([answers.mean(axis=0) - half, answers.mean(axis=0) + half], axis=-1)
        return bounds[:, 0] if bounds.shape[1] == 1 else bounds


@estimator("tao-forest")
@dataclass(eq=False, repr=False, kw_only=True)
class TAOForestClassifier(ClassificationTree, _TAOForest):
    """Classification forest of oblique trees, each by tree alternating optimization under Brier's score.

    Take it where accuracy counts most and the model need not be read.

    Regression trees predict class indicators (`solvers.TAOForest`); their predictions are averaged and scaled to sum to
    one. Where the log loss out of bag is lower so, every leaf has the frequencies of the classes with a weight of one,
    three or ten rows among all rows, .01 at most: no probability of a rare class is zero then. The printed forest and
    one with ``warm_start`` have none of this.

    Attributes are those of `TAOForestRegressor`, and:

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Class labels.
    oob_loss_ : float
        Expected Brier score of new rows, summed over the classes.

    See Also
    --------
    TAOForestRegressor : the same for numbers
    BoostedTreesClassifier : trees added up

    References
    ----------
    Zharmagambetov and Carreira-Perpinan, "Smaller, more accurate regression forests using tree alternating
    optimization", ICML 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from opttree import TAOForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = TAOForestClassifier(random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    loss = "log"


def default_depth(n_samples: int, n_features: int) -> int:
    """The depth at which a complete tree has `ROWS_PER_PARAMETER` rows for each parameter of its linear leaves."""
    rows = n_samples / (ROWS_PER_PARAMETER * (n_features + 1))
    return int(np.clip(np.log2(max(rows, 1.0)), *DEPTHS))
