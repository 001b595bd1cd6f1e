"""`BoostedTreesRegressor` and `BoostedTreesClassifier`: gradient boosting with optimised trees."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from opttree.estimators import bridge, option_groups as groups
from opttree.estimators.base import build_solver
from opttree.estimators.forest import ForestModel
from opttree.estimators.losses import loss_option, output_units, quantile_option, stated_loss
from opttree.estimators.recipe import Estimator, Fit, Floats, Outcome, Recipe, TreeKind
from opttree.estimators.steps.model import as_forest
from opttree.estimators.steps.rows import monotone_signs
from opttree.estimators.steps.solve import keep_last, run
from opttree.estimators.steps.units import spread
from opttree.estimators.tasks import ClassificationTree, RegressionTree
from opttree.methods.table import estimator
from opttree.model.tree import Tree
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from opttree.statement.losses import Loss

if TYPE_CHECKING:
    from solvers import TAOForest

__all__ = ["BoostedTreesClassifier", "BoostedTreesRegressor"]

DEPTHS = {"oblique": 5, "axis": 8, "cart": 6}  # default depth of the trees
DEPTH = 4  # default depth for other solvers' trees
PASSES = 6  # TAO passes per tree
FEW_ROWS, MOST_FEATURES = 2000, 500  # below and up to which a linear model is tried as the first term
ROWS = 10.0  # shrinkage: weight of the parent's model in a leaf, in rows


def boosting_base(kind: str) -> TAOForest:
    """The solver of "oblique" trees (TAO), or of "axis" and "cart" ones (randomised, of limited depth, with our
    leaves).
    """
    base = bridge.solvers.TAOForest(
        1, kind="oblique", max_iter=PASSES, constant_iterations=1, shrinkage=ROWS, split_lasso=0.0
    )
    return base if kind == "oblique" else replace(base, kind="cart")


def kinds_of(options: Estimator) -> list[Any]:
    """The kinds of trees that are tried."""
    if getattr(options, "monotonic_cst", None) is not None:
        if options.base not in ("auto", "cart"):
            raise ValueError(f"monotonic_cst needs base='auto' or 'cart'; got base={options.base!r}")
        return ["cart"]
    if options.base != "auto":
        return [options.base]
    return [kind for kind in DEPTHS if kind != "cart" or leaves_of(options) == "linear"]  # else it is "axis"


def tree_kinds(options: Estimator, signs: tuple[int, ...] | None = None, valid: Any = None) -> list[TreeKind]:
    """The kinds of trees that are tried, with their options."""
    found = []
    for kind in kinds_of(options):
        depth = options.max_depth or (DEPTHS[kind] if isinstance(kind, str) else DEPTH)
        leaves = "constant" if kind == "cart" else leaves_of(options)
        from_bins = kind == "cart" or (kind == "axis" and leaves == "constant")
        found.append(TreeKind(kind, depth, leaves, _boosting(options, kind, valid, signs), from_bins))
    return found


def goes_on(options: Estimator) -> bool:
    """Whether trees are added to those of an earlier fit."""
    return bool(options.warm_start and getattr(getattr(options, "forest_", None), "starts", None))


def _begun(options: Estimator, fit: Fit) -> tuple[tuple[Tree, ...], ...]:
    """The trees of each ensemble that there is, in the units of the problem."""
    forest, problem = options.forest_, fit.problem
    labels = [[] if known is None else np.asarray(known).tolist() for known in (forest.classes, problem.classes)]
    there = forest.trees[0].n_features, forest.n_outputs
    if there != (problem.n_features, problem.n_outputs) or labels[0] != labels[1]:
        raise ValueError(
            f"warm_start needs the columns, outputs and classes of the first fit; got {problem.n_features} columns and "
            f"{problem.n_outputs} outputs for {there[0]} and {there[1]}, or other classes"
        )
    trees = iter([fit.scaling.scale(tree) for tree in forest.trees])
    return tuple(tuple(islice(trees, count)) for count, _start in forest.starts)


def leaves_of(options: Estimator) -> Any:
    """The kind of the problem's leaves."""
    return "constant" if isinstance(stated_loss(options, np.ones(1)), Loss) else options.leaves


def _check(options: Estimator) -> None:
    counts = [count for count, _start in options.forest_.starts or ()] if goes_on(options) else [0]
    if counts and options.n_estimators < max(counts):
        raise ValueError(
            f"n_estimators must be at least the {max(counts)} trees that there are, with warm_start=True; got "
            f"{options.n_estimators!r}"
        )
    for kind in kinds_of(options):
        _boosting(options, kind, None)  # checks the solver's options


def _boosting(options: Estimator, kind: Any, valid: TreeProblem | None, signs: tuple[int, ...] | None = None) -> Any:
    base = boosting_base(kind) if isinstance(kind, str) else kind
    return build_solver(
        options,
        bridge.solvers.Boosting,
        base=base if signs is None else replace(base, monotone=signs),
        n_trees=options.n_estimators,
        validation=options.validation_fraction if valid is None else valid,
        patience=options.n_iter_no_change,
    )


def _solve(options: Estimator, fit: Fit) -> Outcome:
    """Solve with each kind of tree that ``base`` allows; keep the model with the lowest held-out loss."""
    problem, seed, more = fit.problem, options._seed if goes_on(options) else fit.seed, goes_on(options)
    signs = monotone_signs(options)
    if signs is not None and problem.n_outputs > (2 if problem.is_classification else 1):
        what = "classes" if problem.is_classification else "outputs"
        raise ValueError(f"monotonic_cst is for one number or two classes; y has {problem.n_outputs} {what}")
    kinds = tree_kinds(options, signs, fit.valid)
    if more:
        kinds = [kind for kind in kinds if kind.name == options.base_] or kinds[:1]
        kinds = [kind._replace(solver=replace(kind.solver, begun=_begun(options, fit))) for kind in kinds]
    held_out = options.validation_fraction is not None or fit.valid is not None
    linear = (
        signs is None
        and not problem.is_sparse
        and kinds[0].name != "cart"
        and problem.leaves == "linear"
        and problem.loss == "squared"
    )
    small = problem.n_samples < FEW_ROWS and problem.n_features <= MOST_FEATURES
    starts: list[Any] = [None, "cv"] if held_out and linear and small else [None]
    if more:
        starts = ["cv"] if options.begins_linear_ else [None]
    share = None if fit.time_limit is None else fit.time_limit / (len(kinds) + len(starts) - 1)
    results: dict[tuple[Any, Any], Any] = {}
    if options.base == "auto" and not small:
        kinds = kinds[::-1]  # those of TAO take longest, and give up where they are behind

    def loss(key: tuple[Any, Any]) -> float:
        result = results[key]
        return float(result.trace.rows[-1].info.get("validation", np.inf)) if held_out else float(result.objective)

    for number, kind in enumerate(kinds):
        stated = problem.restated(depth=kind.depth, leaves="constant" if kind.name == "cart" else problem.leaves)
        better = [min(results, key=loss)[1]] if number else starts  # the start that was better for the first kind
        for ridge in better if stated.leaves == "linear" else [None]:
            solver = replace(kind.solver, ridge=ridge)
            if held_out and results and not small:
                solver = replace(solver, rival=_first_losses(results.values()))
            results[kind.name, ridge] = keep_last(partial(run, options, solver, stated, fit.start, seed, share))
            if results[kind.name, ridge].termination.name == "INTERRUPTED":
                break
        else:
            continue
        break
    best = min(results, key=loss)
    found = {"base_": best[0], "begins_linear_": best[1] is not None, "validation_loss_": loss(best), "_seed": seed}
    return Outcome(results[best], found)


def _first_losses(results: Iterable[Any]) -> tuple[float, ...] | None:
    """The lowest held-out losses of any run's first trees; None if a run ended before it had trees."""
    infos = [result.trace.rows[-1].info for result in results]
    early = [[value for key, value in info.items() if key.startswith("after ")] for info in infos]
    lowest = [min(values) for values in zip(*filter(None, early), strict=True)]
    return tuple(lowest) if lowest and np.isfinite(lowest).all() else None


def _model(options: Estimator, fit: Fit, outcome: Outcome) -> dict[str, Any]:
    forest = as_forest(fit.scaling.unscale(outcome.result.tree), fit.problem.n_outputs)
    return {"forest_": forest.with_spread(spread(fit.X, fit.rows.weight)), "n_estimators_": len(forest.trees)}


def _terms(options: Estimator, weight: Floats, n_features: int, y_scale: Floats) -> dict[str, Any]:
    loss, penalties = stated_loss(options, y_scale), groups.split_penalties(options)
    return {"leaves": leaves_of(options), "loss": loss, "penalties": penalties}


RECIPE = Recipe(
    solver=lambda options, problem, valid: _boosting(options, kinds_of(options)[0], valid),
    sparse_from=groups.SPARSE_FROM,
    parts="boosted",
    kinds=tree_kinds,
    terms=_terms,
    outputs=output_units,
    solve=_solve,
    model=_model,
    check=_check,
    depth=lambda options, n_samples: int(options.max_depth or DEPTH),
)


@dataclass(eq=False, repr=False)
class _BoostedTrees(ForestModel):
    """Common part of the regressor and the classifier."""

    recipe = RECIPE
    splits = "oblique"
    takes_eval_set = True

    base: Any = option(
        "auto",
        """"auto", "oblique", "axis", "cart" or a solver: how trees are grown. "oblique": passes of TAO over the
        whole tree. "axis": randomised trees on features in bins, with our leaves; "cart": the same with constant
        leaves in any case. "auto" tries all three, one after another, and keeps the one with the lowest held-out
        loss; trees of TAO for 2,000 rows and more end after 3, 5, 10 or 20 where they are behind. A solver of
        `solvers`, such as ``TAO(max_iter=10)``, solves a separate problem for every tree, which takes longer.""",
        test=lambda base: (
            base in ("auto", *DEPTHS) if isinstance(base, str) else isinstance(base, bridge.solvers.Solver)
        ),
        words="a solver or one of ['auto', 'oblique', 'axis', 'cart']",
    )
    _: KW_ONLY
    n_estimators: int = option(
        300,
        """Largest number of trees of an ensemble; below 1000 rows four ensembles, each with other rows held out, are
        averaged, unless ``eval_set`` or no rows stop them.""",
        least=1,
    )
    learning_rate: float = option(0.1, "Factor by which each tree's output is multiplied.")
    max_depth: int | None = option(
        None,
        'Depth of the trees; None: 5 for oblique ones, 8 for "axis", 6 for "cart", 4 for those of a solver.',
        least=1,
    )
    leaves: Literal["linear", "constant"] = option(
        "linear",
        """Linear functions or constants in the leaves; see ``base``. Losses other than "squared", "absolute" and "log"
        have constants in any case, and so have sparse tables of four million numbers (rows times columns) or more;
        smaller ones are made dense.""",
    )
    subsample: float = option(0.7, "Share of the rows in each tree's sample.")
    validation_fraction: float | None = option(
        0.1, "Share of the rows held out to choose the number of trees, or None.", above=0, below=1
    )
    n_iter_no_change: int = option(20, "Stop after this many trees without a lower held-out loss.", least=1)
    split_penalty: float = groups.split_penalty(1e-6)
    l1_ratio: float = groups.l1_ratio(0.0)
    min_samples_leaf: int = groups.min_samples_leaf()
    monotonic_cst: Any = option(
        None,
        """For each column 1, -1 or 0, or a dict of these by name: predictions, of two classes the probability of the
        second, must increase with it, decrease or either, as in scikit-learn. With ``base`` "auto" or "cart".""",
    )
    warm_start: bool = option(
        False,
        """Whether `fit` keeps the trees that there are, with their kind, and goes on from the best number of them up to
        ``n_estimators``: on the same rows as if that many had been asked for at first, but for rounding.""",
    )


@estimator(
    "boosted",
    solver="Boosting",
    is_forest=True,
    has_depth=False,
    methods={
        "boosted": ("gradient boosting with trees of TAO, or CART's with leaves of ours, of a depth of their own", {}),
    },
)
@dataclass(eq=False, repr=False, kw_only=True)
class BoostedTreesRegressor(RegressionTree, _BoostedTrees):
    """Gradient boosting with shallow trees that are optimised as a whole, by default with linear leaves.

    Take it where accuracy counts most, beside the forest, which needs no early stopping. Each tree is fitted to what
    the sum of those before it leaves, and the sum stops growing when rows held out, or ``eval_set``, gain no more.

    Attributes
    ----------
    forest_ : opttree.Forest
        The model; its trees are scaled so that their mean is the boosted sum.
    n_estimators_ : int
        Number of trees.
    base_ : str
        The kind that ``base="auto"`` chose.
    begins_linear_ : bool
        Whether the first term is a linear model, which is tried for squared loss below 2,000 rows and up to
        500 features.
    validation_loss_ : float
        Mean loss of the standardised outputs on the held-out rows.
    result_ : solvers.Result
        Result of the run.

    See Also
    --------
    BoostedTreesClassifier : the same for classes
    TAOForestRegressor : averaged trees
    solvers.Boosting : the solver

    References
    ----------
    Friedman, "Greedy function approximation: a gradient boosting machine", Annals of Statistics 29 (2001).

    Examples
    --------
    >>> from opttree import BoostedTreesRegressor, datasets
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> model = BoostedTreesRegressor(n_estimators=40, random_state=0)
    >>> model = model.fit(X[:250], y[:250], eval_set=(X[250:330], y[250:330]))
    >>> model.score(X[330:], y[330:]) > 0.3
    True
    """

    loss: Any = loss_option()
    quantile: float = quantile_option()


@estimator("boosted")
@dataclass(eq=False, repr=False, kw_only=True)
class BoostedTreesClassifier(ClassificationTree, _BoostedTrees):
    """Boosted classification trees under log loss: one multi-output tree per step for all classes' scores.

    Take it where accuracy counts most.

    Attributes are those of `BoostedTreesRegressor`, and:

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Class labels.

    See Also
    --------
    BoostedTreesRegressor : the same for numbers
    TAOForestClassifier : averaged trees

    References
    ----------
    Friedman, "Greedy function approximation: a gradient boosting machine", Annals of Statistics 29 (2001).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from opttree import BoostedTreesClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BoostedTreesClassifier(n_estimators=10, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    loss: Literal["log"] = option(
        "log", "Boosting needs a differentiable loss.", words="'log', boosting needs a gradient"
    )
