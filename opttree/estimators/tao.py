"""`TAORegressor` and `TAOClassifier`: single trees by tree alternating optimization."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

from opttree.estimators import bridge, option_groups as groups
from opttree.estimators.base import TreeEstimator, build_solver
from opttree.estimators.losses import loss_option, output_units, quantile_option, stated_loss
from opttree.estimators.recipe import Estimator, Floats, Recipe, Shrink, is_printed
from opttree.estimators.steps.shrink import TRIAL_PASSES, by_leaves
from opttree.estimators.tasks import ClassificationTree, RegressionTree
from opttree.methods.table import estimator
from opttree.model.tree import Tree
from opttree.runtime.options import changed, option
from opttree.statement import TreeProblem

__all__ = ["TAOClassifier", "TAORegressor"]

INITS = ("auto", "random", "cart", "cluster", "hinge")
# of trees by which depths and penalties are chosen (experiments/benchmarks/trial_passes.py: six choose worse, forty
# hardly better), and strengths of shrinkage, where splits are axis-aligned
FLOOR_PASSES, AXIS_PASSES = 10, 1
NODES = ("newton", "liblinear", "sklearn")


def _solver(options: Estimator, problem: TreeProblem, valid: TreeProblem | None) -> Any:
    tao = _tao(options, problem, _initial(options, problem))
    return tao if options.n_init == 1 else bridge.solvers.MultiStart(tao, options.n_init)


def _trial(options: Estimator, problem: TreeProblem) -> tuple[Any, TreeProblem]:
    """One start of a few passes; where ``init`` is a tree of all rows, from the usual initial tree."""
    given = isinstance(options.init, Tree)
    tao = _tao(options, problem, _usual_init(options, problem) if given else _initial(options, problem))
    passes = AXIS_PASSES if problem.splits == "axis" else TRIAL_PASSES
    return replace(tao, max_iter=min(tao.max_iter, passes)), problem


def _tao(options: Estimator, problem: TreeProblem, init: Any) -> Any:
    return build_solver(options, bridge.solvers.TAO, init=init, node_solver=_node_solver(options, problem))


def _usual_init(options: Estimator, problem: TreeProblem) -> Any:
    """The initial tree of "auto"."""
    if is_printed(options):
        return bridge.solvers.RandomInit()
    hinge = problem.leaves == "linear" and problem.splits == "oblique" and not problem.is_sparse
    return bridge.solvers.HingeInit() if hinge else bridge.solvers.CartInit()


def _initial(options: Estimator, problem: TreeProblem) -> Any:
    """The initial tree that ``init`` names."""
    solvers, init = bridge.solvers, options.init
    if isinstance(init, Tree):  # passed to `solve` as the start; restarts after it are random
        return solvers.RandomInit()
    if isinstance(init, solvers.initial.Initial):
        return init
    if not isinstance(init, str) or init not in INITS:
        raise ValueError(f"init must be one of {list(INITS)}, an initial tree of `solvers` or a Tree; got {init!r}")
    if init == "auto":
        return _usual_init(options, problem)
    return {
        "random": solvers.RandomInit,
        "cart": solvers.CartInit,
        "cluster": solvers.ClusterInit,
        "hinge": solvers.HingeInit,
    }[init]()


def _node_solver(options: Estimator, problem: TreeProblem) -> Any:
    """The node solver that ``node_solver`` names; None for TAO's own."""
    solvers, chosen = bridge.solvers, options.node_solver
    if isinstance(chosen, solvers.nodes.NodeSolver) or chosen is None:
        return chosen
    if not isinstance(chosen, str) or chosen not in NODES:
        raise ValueError(f"node_solver must be one of {list(NODES)} or a node solver of `solvers`; got {chosen!r}")
    if problem.splits == "axis":
        return None
    if chosen == "newton":
        return solvers.TAO.paper().node_solver if is_printed(options) else None
    return {"liblinear": solvers.LiblinearNode, "sklearn": solvers.SklearnNode}[chosen]()


def _terms(options: Estimator, weight: Floats, n_features: int, y_scale: Floats) -> dict[str, Any]:
    penalties = () if is_printed(options) else groups.split_penalties(options, options.leaf_penalty)
    return {"loss": stated_loss(options, y_scale), "penalties": penalties}


def _check(options: Estimator) -> None:
    groups.check_penalties(options)


RECIPE = Recipe(
    depths=(2, 4, 6, 8),
    solver=_solver,
    terms=_terms,
    outputs=output_units,
    sparse_from=0,
    parts="tree",
    trial_limits={"max_iter": FLOOR_PASSES},
    shrink=Shrink(default=lambda options: not is_printed(options) and by_leaves(options), trial=_trial),
    check=_check,
)


@dataclass(eq=False, repr=False)
class _TAOTree(TreeEstimator):
    """Common part of the regressor and the classifier."""

    recipe = RECIPE

    max_depth: int | Literal["auto", "cv"] | None = groups.auto_depth()
    _: KW_ONLY
    cv: Any = groups.cv()
    preset: Literal["default", "paper"] = groups.preset()
    split_penalty: float = groups.split_penalty()
    l1_ratio: float = groups.l1_ratio()
    min_samples_leaf: int = groups.min_samples_leaf()
    floor: bool | None = groups.floor()
    max_leaf_nodes: int | None = groups.max_leaf_nodes()
    leaf_shrinkage: float | Literal["cv"] | None = groups.leaf_shrinkage()
    leaves: Literal["constant", "linear"] = option(
        "constant",
        """TAO-c or TAO-l. Linear leaves (of classes: multinomial logistic regressions) need ``2 (p + 1)`` rows; smaller
        leaves stay constant. Their predictions are clipped to the intersection of the ranges of y and of the fitted
        values on their rows.""",
    )
    splits: Literal["oblique", "axis"] = option(
        "oblique", "Hyperplanes, or axis-aligned splits with exact threshold search."
    )
    max_iter: int = option(40, "Largest number of passes over the tree; 40 in the paper.")
    leaf_penalty: float = option(
        1e-5,
        "Penalty on the weights of linear leaves, see ``split_penalty``; neither is for the paper's preset.",
        least=0,
    )
    accept: Literal["always", "improve"] = option(
        "always", "Take every new hyperplane (the paper's choice), or only those that do not raise the objective."
    )
    init: Any = groups.init(
        "auto",
        """"auto", "random", "cart", "cluster", "hinge", an initial tree of `solvers`, or a `Tree`. "auto" is "hinge"
        for linear leaves with oblique splits of a dense table and "cart" otherwise, and "random" for the paper's
        preset. A `Tree` on raw features, such as another model's ``tree_``, is itself the start.""",
    )
    n_init: int = option(
        1,
        """Restarts; the tree with the lowest training objective is kept. With "cart" and "hinge" they differ only in
        ties and random trials.""",
        least=1,
    )
    node_solver: Any = option(
        "newton",
        """"newton" (which takes two steps in a pass, or five for the paper's preset), "liblinear", "sklearn" or a node
        solver of `solvers`: it solves the logistic regressions of oblique splits.""",
    )


@estimator(
    "tao",
    solver="TAO",
    chooses_depth=True,
    methods={
        "tao-c": ("TAO, oblique splits, constant leaves", {}),
        "tao-l": ("TAO, oblique splits, linear leaves", {"leaves": "linear"}),
        "tao-axis": ("TAO, axis-aligned splits, constant leaves", {"splits": "axis"}),
    },
)
@dataclass(eq=False, repr=False, kw_only=True)
class TAORegressor(RegressionTree, _TAOTree):
    """Regression tree by tree alternating optimization (TAO-c and TAO-l).

    Take it for a single tree that is accurate for its size: ``leaves="linear"`` gives few leaves, each a formula, and
    ``splits="axis"`` conditions on one feature each. From a start tree, each branch in turn is refitted as a weighted
    classifier of the rows that are better off on its left or right, and each leaf to its rows, until nothing improves.

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
    TAOClassifier : the same for classes
    TAOForestRegressor : the sum of such trees
    GETRegressor : whole trees by gradients
    solvers.TAO : the solver

    References
    ----------
    Zharmagambetov and Carreira-Perpinan, "Smaller, more accurate regression forests using tree alternating
    optimization", ICML 2020.

    Examples
    --------
    >>> from opttree import TAORegressor, datasets
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> model = TAORegressor(max_depth=3, leaves="linear", random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.3
    True
    >>> print(TAORegressor(max_depth=1, splits="axis", random_state=0).fit(X, y).to_text())
    if x8 <= -0.00376118:
        115.1
    else:  # x8 > -0.00376118
        188.3
    """

    loss: Any = loss_option()
    quantile: float = quantile_option()
    y_unit: float | None = groups.y_unit()


@estimator("tao")
@dataclass(eq=False, repr=False, kw_only=True)
class TAOClassifier(ClassificationTree, _TAOTree):
    """Classification tree by tree alternating optimization.

    Take it for a single tree that is accurate for its size; see `TAORegressor` for what its options make of it. Each
    branch in turn is refitted as a weighted classifier of the rows that are better off on its left or right.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Class labels.
    tree_, result_, n_iter_ : Tree, Result, int
        As in `TAORegressor`.

    See Also
    --------
    TAORegressor : the same for numbers
    TAOForestClassifier : the sum of such trees
    OCTClassifier : optimal trees

    References
    ----------
    Zharmagambetov and Carreira-Perpinan, "Smaller, more accurate regression forests using tree alternating
    optimization", ICML 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from opttree import TAOClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = TAOClassifier(max_depth=2, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95, model.predict_proba(X).shape
    (True, (150, 3))
    """

    loss: Literal["zero_one", "log"] = option(
        "zero_one",
        """Misclassification rate, or cross-entropy (capped at ``-log(1e-6)`` per row). The objective is this mean loss
        plus the penalties; y is not scaled.""",
    )
    leaf_penalty: float = changed(1e-4)
