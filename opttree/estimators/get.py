"""`GETRegressor` and `GETClassifier`: single trees by gradient-based entire tree optimization."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from opttree.estimators import bridge, option_groups as groups
from opttree.estimators.base import TreeEstimator, build_solver
from opttree.estimators.recipe import Estimator, Fit, Floats, Outcome, Recipe, Shrink, is_printed
from opttree.estimators.steps import fit as fits
from opttree.estimators.steps.shrink import by_leaves, quick_trial
from opttree.estimators.steps.solve import choose_lowest, run_recipe, solve_once
from opttree.estimators.steps.stream import NONE, Stream, with_missing
from opttree.estimators.steps.units import minmax, moments, outputs_name
from opttree.estimators.tasks import ClassificationTree, RegressionTree
from opttree.methods.table import estimator
from opttree.model.tree import Tree
from opttree.runtime.devices import Device
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from opttree.tables.chunks import Chunks

__all__ = ["GETClassifier", "GETRegressor"]

LEAF_PENALTY = 3e-5  # of linear leaves, by default
LEAN_DEPTH = 6  # of constant leaves under squared loss: from here one start without a polish, see `_needs_one_start`


def _solver(options: Estimator, problem: TreeProblem, valid: TreeProblem | None) -> Any:
    dtype = options.dtype or ("float64" if problem.leaves == "linear" else "float32")
    one_start = _needs_one_start(options, problem)
    polished = problem.leaves == "constant" and not one_start if options.polish == "auto" else bool(options.polish)
    if is_printed(options):
        kind = bridge.solvers.GET
        usual = (kind.program if options.reading == "program" else kind.paper)(polish=polished)
        polish: Any = usual.polish
        if polish is not None:
            polish = replace(polish, dtype=dtype, device=options.device)
        return build_solver(options, kind, polish=polish, dtype=dtype, first=usual.first, anneal=usual.anneal)
    n_starts = 1 if one_start and options.n_starts is None else options.n_starts
    get = build_solver(options, bridge.solvers.GET, polish=None, dtype=dtype, n_starts=n_starts)
    return replace(get, polish=get.usual_polish(problem) if polished else None)


def _check(options: Estimator) -> None:
    groups.check_reading(options, "print")


def _needs_one_start(options: Estimator, problem: TreeProblem) -> bool:
    """Whether one start without a polish does at least as well on held-out rows (protocol ``ablation_get``)."""
    deep = problem.leaves == "constant" and problem.depth >= LEAN_DEPTH
    return deep and not is_printed(options) and problem.loss_function.form == "quadratic"


def _solve(options: Estimator, fit: Fit) -> Outcome:
    """Solve; with validation rows, on the others, and keep the step with the lowest validation loss."""
    problem = fit.problem
    if fit.valid is None and options.validation_fraction is None:
        if not (is_printed(options) and problem.penalties):
            return solve_once(options, fit)
        lowest, _loss = choose_lowest(
            lambda step: problem.mean_loss(step.tree), lambda watch: run_recipe(options, fit, watch)
        )
        return Outcome(lowest)
    train, valid = problem, fit.valid
    if valid is None:
        train, valid = problem.split(options.validation_fraction, np.random.default_rng(fit.seed))
    start = None if fit.start is None else train.trim(fit.start)
    result, loss = choose_lowest(
        lambda step: valid.mean_loss(step.tree),
        lambda watch: run_recipe(options, replace(fit, problem=train, start=start), watch),
    )
    return Outcome(replace(result, objective=train.objective(result.tree)), {"validation_loss_": loss})


def _terms(options: Estimator, weight: Floats, n_features: int, y_scale: Floats) -> dict[str, Any]:
    strength = options.leaf_penalty
    if strength is None:
        strength = 0.0 if is_printed(options) else LEAF_PENALTY
    return {"penalties": groups.split_penalties(options, strength)}


def _features(options: Estimator, X: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """The paper scales features and outputs to [0, 1]; by default they are standardised."""
    return (minmax if is_printed(options) else moments)(X, weight)


def _outputs(options: Estimator, Y: Floats, weight: Floats) -> tuple[Floats, Floats]:
    return (minmax if is_printed(options) else moments)(Y, weight, outputs_name(Y))


class GETStream(Stream):
    """GET: fit the sample, train on mini-batches, refit the leaves to all rows; see `solvers.streaming`."""

    def __init__(self, options: Estimator, X: Floats, y: NDArray[Any], missing: NDArray[Any] = NONE) -> None:
        self.options = options
        X, y, weight = with_missing(X, y, missing)
        fit = fits.fit(options, X, y, weight, stacklevel=4, streams=True)
        rng, tree = np.random.default_rng(len(X)), options.result_.tree
        self.learner = bridge.solvers.streaming.TreeStream(fit.problem, tree, rng, options.device)
        self.fit = replace(fit, problem=self.learner.problem)

    @property
    def says_nothing(self) -> bool:
        """Whether the tree is one leaf, where more are allowed."""
        tree: Tree = self.learner.tree
        return tree.depth == 0

    def finish(self, chunks: Chunks | None) -> dict[str, Any]:
        """The tree, its leaves refitted."""
        tree = self.learner.tree
        if chunks is not None:
            tree = self.learner.refit(self.part(X, y) for X, y in chunks.labelled())
        deviations = self.options.tree_.spread  # of the first rows
        return {"tree_": self.fit.scaling.unscale(tree).canonical.with_spread(deviations), "leaf_shrinkage_": 0.0}


def _shrinks(options: Estimator) -> bool:
    return options.validation_fraction is None and not is_printed(options) and by_leaves(options)


RECIPE = Recipe(
    depths=(2, 4, 6),
    solver=_solver,
    terms=_terms,
    features=_features,
    outputs=_outputs,
    solve=_solve,
    shrink=Shrink(_shrinks, lambda options, problem: quick_trial(problem, _solver(options, problem, None))),
    stream=GETStream,
    parts="smooth",
    check=_check,
)


@dataclass(eq=False, repr=False)
class _GETTree(TreeEstimator):
    """Common part of the regressor and the classifier."""

    recipe = RECIPE
    splits = "oblique"
    starts_compete = True
    takes_eval_set = True

    max_depth: int | Literal["auto", "cv"] | None = groups.auto_depth()
    _: KW_ONLY
    cv: Any = groups.cv()
    init: Tree | None = groups.init()
    l1_ratio: float = groups.l1_ratio()
    min_samples_leaf: int = groups.min_samples_leaf()
    floor: bool | None = groups.floor()
    max_leaf_nodes: int | None = groups.max_leaf_nodes()
    leaf_shrinkage: float | Literal["cv"] | None = groups.leaf_shrinkage()
    leaves: Literal["constant", "linear"] = option(
        "constant",
        """GET or GET-Linear. Linear leaves (of classes: multinomial logistic regressions) need ``2 (p + 1)`` rows;
        smaller leaves stay constant. Their predictions are clipped to the intersection of the ranges of y and of the
        fitted values on their rows.""",
    )
    n_starts: int | None = option(
        None,
        """Random starts. None: 1 in trees of constant leaves for numbers from depth 6, others by depth and leaves as in
        `solvers.GET`, 10 for the paper's preset.""",
        least=1,
    )
    preset: Literal["default", "paper"] = groups.preset(
        """"default": the best method we found. "paper": Algorithms 1 and 2 as printed, see `solvers.GET.paper`, on
        features and outputs scaled to [0, 1]; all leaves of a linear tree are then linear, without penalty, predictions
        are not clipped, the tree of the lowest training loss (eq. 3, without penalties) is kept, and a depth search
        tries all of 1 to 12.""",
    )
    reading: Literal["print", "program"] = option(
        "print", "Whether the paper's preset is as printed or as in the authors' program, see `solvers.GET.program`."
    )
    polish: Literal["auto", True, False] = option(
        "auto",
        """Subtree polish (Algorithm 2). "auto": for constant leaves only, as the paper; in the default preset, in trees
        for numbers, only below depth 6, from where it takes most of the time and does not help on rows not seen.""",
    )
    split_penalty: float = groups.split_penalty(
        0.0,
        """The l1 penalty on the weights of the splits at unit length (eq. 5, on the weights as they are; its lambda,
        for a sum over n rows, is ``lambda / n`` here), in units of the mean loss on scaled features and outputs.""",
    )
    leaf_penalty: float | None = option(
        None, "The same on the weights of linear leaves. None: 3e-5, and 0 for the paper's preset.", least=0
    )
    validation_fraction: float | None = option(
        None,
        "Share of the rows held out for validation; the tree with the lowest validation loss of all steps is kept.",
        above=0,
        below=1,
    )
    dtype: Literal["float32", "float64"] | None = option(
        None,
        """Precision of the gradients. None: "float64" for linear leaves, so that sample weights and repeated rows agree
        to the last digits, "float32" for constant ones. Trees and objectives are float64.""",
    )
    device: Device = option(
        "cpu",
        """Device of the anneals, and of the steps of `partial_fit` and `fit_chunks`. "gpu" is CuPy on a CUDA device
        (``pip install opttree[gpu]``), or PyTorch's GPU where there is no CuPy; "torch" is PyTorch's GPU, or its CPU
        where it has none; "auto" is CuPy if there is a device and the problem is large.""",
    )


@estimator(
    "get",
    solver="GET",
    chooses_depth=True,
    has_device=True,
    methods={
        "get": ("GET, whole-tree gradients, constant leaves", {}),
        "get-linear": ("GET, whole-tree gradients, linear leaves", {"leaves": "linear"}),
    },
)
class GETRegressor(RegressionTree, _GETTree):
    """Regression tree by gradient-based entire tree optimization (GET and GET-Linear).

    Take it for a low training error of an oblique tree with constant leaves, or to learn from chunks of a table
    larger than memory. All splits and leaves move together along the gradient of a smooth tree whose gates become
    steeper; the best hard tree of several starts is polished.

    Attributes
    ----------
    tree_ : opttree.Tree
        The tree, on raw features.
    result_ : solvers.Result
        Result of the run; its tree and objective are on the scaled problem.
    n_iter_ : int
        Steps taken.
    validation_loss_ : float
        Mean loss of ``result_.tree`` on the held-out rows, with ``validation_fraction``.

    See Also
    --------
    GETClassifier : the same for classes
    TAORegressor : alternating optimization
    solvers.GET : the solver, and ``GET.paper()``, the method as printed

    References
    ----------
    "Can a single tree outperform an entire forest?", under review (2024).

    Examples
    --------
    >>> from opttree import GETRegressor, datasets
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> model = GETRegressor(max_depth=2, random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.3, model.get_n_leaves()
    (True, 4)
    """

    loss = "squared"


@estimator("get")
@dataclass(eq=False, repr=False, kw_only=True)
class GETClassifier(ClassificationTree, _GETTree):
    """Classification tree by gradient-based entire tree optimization of the log loss (capped at ``-log(1e-6)``).

    Take it for a low training loss of an oblique tree with constant leaves; see `GETRegressor` for how.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Class labels.
    tree_, result_, n_iter_, validation_loss_ : Tree, Result, int, float
        As in `GETRegressor`.

    See Also
    --------
    GETRegressor : the same for numbers
    solvers.GET : the solver

    References
    ----------
    "Can a single tree outperform an entire forest?", under review (2024).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from opttree import GETClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GETClassifier(max_depth=2, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    loss = "log"
