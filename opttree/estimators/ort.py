"""`ORTRegressor` and `OCTClassifier`: optimal trees, by local search or with a proof."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

import numpy as np

from opttree.estimators import bridge, option_groups as groups
from opttree.estimators.base import TreeEstimator, build_solver
from opttree.estimators.recipe import Estimator, Fit, Floats, Outcome, Recipe, is_ordered, is_printed
from opttree.estimators.steps.model import raw_with_training
from opttree.estimators.steps.rows import monotone_signs
from opttree.estimators.steps.solve import AUTO_SECONDS, solve_with_bound
from opttree.estimators.steps.units import Scaling, minmax, moments
from opttree.estimators.tasks import ClassificationTree, RegressionTree
from opttree.methods.table import estimator
from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.runtime.options import option
from opttree.statement import SplitPrice, TreeProblem
from opttree.statement.constraints import Monotone

__all__ = ["OCTClassifier", "ORTRegressor"]

DEEP = 4  # from this depth on, branch and bound starts from local search: a proof is far, a good tree is not
PROOF_WORK = 1e9  # rows x features x sets of rows up to which "auto" solves to a proof
LINEAR_WORK = 50.0  # cost of a linear leaf relative to a constant one
STARTS = {"constant": 20, "linear": 3}
LEAST_ROWS = {"constant": 1, "linear": 10}


def _solver(options: Estimator, problem: TreeProblem, valid: TreeProblem | None) -> Any:
    usual = {} if is_printed(options) else {"n_starts": STARTS[problem.leaves]}
    local = build_solver(
        options,
        bridge.solvers.LocalSearch,
        **(usual if options.n_init is None else {"n_starts": options.n_init}),
        init=bridge.solvers.CartInit(),
        n_thresholds="auto" if options.n_thresholds == "all" else options.n_thresholds,
    )
    mip = build_solver(options, bridge.solvers.MIP, init="auto")
    if any(isinstance(c, Monotone) for c in problem.constraints):
        if options.solver not in ("auto", "mip"):
            raise ValueError(f"monotonic_cst needs solver='auto' or 'mip'; got solver={options.solver!r}")
        return replace(mip, formulation="auto" if options.formulation == "hyperflow" else options.formulation)
    if options.solver == "local" or (is_printed(options) and options.solver == "auto"):
        return local
    if options.solver == "bnb":
        if options.n_thresholds != "all":
            raise ValueError(f"n_thresholds must be 'all' for solver='bnb'; got {options.n_thresholds!r}")
        return _branch_and_bound(options, problem, local)
    if options.solver == "auto" and options.formulation == "hyperflow" and options.n_thresholds == "all":
        bnb = replace(_branch_and_bound(options, problem, local), time_limit=AUTO_SECONDS)
        if problem.leaves == "constant" and bnb.refusal(problem) is None:
            return bnb
    if local.refusal(problem) is not None:
        return mip
    if options.solver == "auto" and not _is_provable(options, problem, mip):
        return local
    return replace(mip, init=replace(local, n_starts=1))


def _branch_and_bound(options: Estimator, problem: TreeProblem, local: Any) -> Any:
    """The solver of "bnb"."""
    init = bridge.solvers.CartInit() if problem.depth < DEEP else local
    return build_solver(options, bridge.solvers.BranchAndBound, gap=options.gap or 0.0, init=init)


def _is_provable(options: Estimator, problem: TreeProblem, mip: Any) -> bool:
    """Whether an exact solution takes a few seconds at most."""
    if options.formulation != "hyperflow" or mip.refusal(problem) is not None:
        return False
    if problem.splits == "oblique":
        candidates = problem.n_samples**2
    else:
        candidates = sum(np.unique(column).size - 1 for column in problem.X.T)
        if options.n_thresholds != "all":
            candidates = min(candidates, options.n_thresholds * problem.n_features)
    sets = (2.0 * candidates) ** (problem.depth - 1) / 2.0 ** max(problem.depth - 2, 0)
    work = sets * problem.n_samples * (candidates if problem.splits == "oblique" else problem.n_features)
    if problem.leaves == "linear":
        work *= LINEAR_WORK * candidates / problem.n_features
    return bool(work <= PROOF_WORK)


def _terms(options: Estimator, weight: Floats, n_features: int, y_scale: Floats) -> dict[str, Any]:
    usual = 1 if is_printed(options) else LEAST_ROWS[options.leaves]
    linear = options.leaves == "linear"  # of numbers alone
    return {
        "min_leaf": usual if options.min_samples_leaf is None else options.min_samples_leaf,
        "penalties": groups.mixed(options.l1_ratio, 0.0, options.leaf_penalty) if linear else (),
    }


def _features(options: Estimator, X: Floats, weight: Floats) -> tuple[Floats, Floats]:
    if is_printed(options):
        return minmax(X, weight)
    return (np.zeros(X.shape[1]), np.ones(X.shape[1])) if is_ordered(options) else moments(X, weight)


def _restate(
    options: Estimator, problem: TreeProblem, scaling: Scaling, X: Floats, weight: Floats
) -> tuple[TreeProblem, Scaling]:
    """Of no more levels than splits, with a `SplitPrice` of ``cp`` times the loss of the best constant, and
    ``monotonic_cst`` as constraints.
    """
    if options.max_splits is not None:  # no tree of so few splits is deeper
        problem = problem.restated(depth=min(problem.depth, max(options.max_splits, 1)))
    if options.cp:
        loss = problem.mean_loss(problem.best_constant())
        problem = problem.restated(penalties=(*problem.penalties, SplitPrice(float(options.cp * loss))))
    if (signs := monotone_signs(options)) is not None:
        limits = tuple(Monotone(j, 1 if sign > 0 else -1) for j, sign in enumerate(signs) if sign)
        problem = problem.restated(constraints=(*problem.constraints, *limits))
    return problem, scaling


def _model(options: Estimator, fit: Fit, outcome: Outcome) -> dict[str, Any]:
    """Linear leaves of "mip" are not clipped during the proof; bounds are added here for prediction."""
    tree = as_tree(outcome.result.tree)
    return {"tree_": raw_with_training(fit, tree if tree.lower is not None else fit.problem.bound_leaves(tree))}


RECIPE = Recipe(
    solver=_solver,
    terms=_terms,
    features=_features,
    solve=solve_with_bound,
    model=_model,
    restate=_restate,
)


@dataclass(eq=False, repr=False)
class _OptimalTree(TreeEstimator):
    """Common part of the regressor and the classifier."""

    recipe = RECIPE
    leaves = "constant"
    starts_compete = True

    max_depth: int | Literal["cv"] | None = groups.max_depth(3)
    _: KW_ONLY
    cv: Any = groups.cv()
    init: Tree | None = groups.init()
    preset: Literal["default", "paper"] = groups.preset()
    splits: Literal["axis", "oblique"] = option("axis", "Axis-aligned splits or hyperplanes.")
    solver: Literal["auto", "bnb", "local", "mip"] = option(
        "auto",
        """"bnb": `solvers.BranchAndBound` over all thresholds, from CART's tree or, at depth 4 and more, from that of
        local search, to a proof or the time limit; axis-aligned splits, constant leaves or linear ones with
        ``l1_ratio=0``, depth 1 to 6, or to 16 where a limit or a price of splits leaves no deeper trees. "local":
        `solvers.LocalSearch`, not for linear leaves of absolute loss. "mip": `solvers.MIP` from a tree of local search.
        "auto": for axis-aligned splits, all thresholds, constant leaves and such depths "bnb" within 10 seconds, after
        which the best tree is kept with its gap (so that it may depend on the machine); else "mip" if the proof takes a
        few seconds at most, and "local" if not. The paper's preset is "local", see `solvers.LocalSearch.paper`, on
        features scaled to [0, 1].""",
    )
    formulation: Literal["hyperflow", "flow", "big-m"] = option(
        "hyperflow", 'Formulation of "mip", see `opttree.problems.MIPTreeProblem`.'
    )
    cp: float = option(0.0, "Complexity price of a split, as a share of the loss of the best constant.", least=0)
    max_splits: int | None = option(None, "Largest number of splits, or None.")
    max_leaf_nodes: int | None = option(
        None, "Largest number of leaves, one more than of splits, or None. If both are set, both hold.", least=2
    )
    n_thresholds: int | Literal["all"] = option(
        "all",
        """Candidate thresholds per feature; a proof covers trees of these thresholds. Local search tries this many
        first (fewer than all by default for linear leaves of many features), then those next to the best.""",
    )
    gap: float | None = option(None, 'Relative gap that counts as proved; None: 0 for "bnb", for "mip" its own.')
    monotonic_cst: Any = option(
        None,
        """For each column 1, -1 or 0, or a dict of these by name: answers must increase with it, decrease or either, as
        in scikit-learn; of classes, their order, as `opttree.constraints.Monotone` says. By "mip" in any case, with
        axis-aligned splits and constant leaves: for small data, or few ``n_thresholds``.""",
    )
    min_samples_leaf: int | None = option(
        None,
        """Fewest training rows in a leaf; None: 1 for constant leaves, 10 for linear ones (the best of 1, 5, 10 and 20
        for depths 2 and 3, chosen by inner cross-validation on six small data sets), and 1 for the paper's preset.""",
        least=1,
    )
    n_init: int | None = option(
        None,
        """Number of searches of "local"; None: 20 for constant leaves, 3 for linear ones, and 10 for the paper's
        preset.""",
        least=1,
    )


@estimator(
    "ort",
    methods={
        "ort": (
            "ORT or OCT, axis-aligned splits, constant leaves, proved optimal, or with its gap after 10 s",
            {},
        ),
        "ort-l": (
            "ORT-L, axis-aligned splits, linear leaves, by local search; regression only",
            {"leaves": "linear", "solver": "local"},
        ),
    },
    solver="MIP",
)
@dataclass(eq=False, repr=False, kw_only=True)
class ORTRegressor(RegressionTree, _OptimalTree):
    """Optimal regression tree (ORT, ORT-L; with oblique splits ORT-H, ORT-LH).

    Take it for a small axis-aligned tree that is proved to be the best of its depth, or says how far from it it can be
    (``result_.gap``): branch and bound over all thresholds, or a mixed-integer program under ``monotonic_cst``. Where
    leaves are linear or splits oblique, a proof is tried only if it is quick; else local search finds a tree, and
    there is no gap.

    Attributes
    ----------
    tree_ : opttree.Tree
        The tree, on raw features; linear leaves are clipped to the intersection of the ranges of y and of the fitted
        values.
    bound_, gap_ : float or None
        Proved lower bound on ``result_.objective`` and relative gap; None of "local".
    is_optimal_ : bool
        Whether the tree is proved optimal, for "mip" among trees of the candidate splits.
    result_ : solvers.Result
        Result of the run; its tree and objective are on the standardised problem.
    n_iter_ : int
        Steps taken.

    See Also
    --------
    OCTClassifier : the same for classes
    solvers.BranchAndBound, solvers.MIP, solvers.LocalSearch : the solvers
    solvers.certify : how far any tree is from optimal

    References
    ----------
    Bertsimas and Dunn, "Optimal classification trees", Machine Learning 106 (2017); "Machine Learning Under a Modern
    Optimization Lens" (2019).

    Examples
    --------
    >>> from opttree import ORTRegressor, datasets
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> model = ORTRegressor(max_depth=2, random_state=0).fit(X, y)
    >>> model.result_.termination.name, round(model.result_.gap, 6)
    ('OPTIMAL', 0.0)
    """

    leaves: Literal["constant", "linear"] = option("constant", "Constants or linear functions.")
    loss: Literal["squared", "absolute"] = option("squared", "Summed over the outputs.")
    leaf_penalty: float = option(
        1e-3,
        "Penalty on the weights of linear leaves, in units of the mean loss on standardised features and outputs.",
        least=0,
    )
    l1_ratio: float = option(1.0, "1: lasso (ORT-L); 0: ridge; between: a mixture of both.", least=0, most=1)


@estimator("ort", names=("ort",))
@dataclass(eq=False, repr=False, kw_only=True)
class OCTClassifier(ClassificationTree, _OptimalTree):
    """Optimal classification tree (OCT; with oblique splits OCT-H), leaves of class frequencies.

    Take it for a small axis-aligned tree that is proved to make the fewest errors of its depth, or says how far from it
    it can be (``result_.gap``); see `ORTRegressor` for how, and where there is no gap.

    Attributes
    ----------
    tree_, bound_, gap_, is_optimal_, result_, n_iter_ : Tree, float, float, bool, Result, int
        As in `ORTRegressor`.
    classes_ : ndarray of shape (K,)
        Class labels.

    See Also
    --------
    ORTRegressor : the same for numbers
    solvers.BranchAndBound, solvers.MIP : the solvers

    References
    ----------
    Bertsimas and Dunn, "Optimal classification trees", Machine Learning 106 (2017); "Machine Learning Under a Modern
    Optimization Lens" (2019).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from opttree import OCTClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = OCTClassifier(max_depth=2, random_state=0).fit(X, y)
    >>> model.result_.termination.name, model.score(X, y) > 0.95
    ('OPTIMAL', True)
    """

    loss: Literal["zero_one", "log"] = option("zero_one", "Misclassification rate, or capped cross-entropy.")
