"""`SRTRegressor`, `SRTClassifier`, `ORRTRegressor`, `ORRTClassifier`: soft trees with single-leaf or mixed answers."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from opttree.estimators import bridge, option_groups as groups
from opttree.estimators.base import TreeEstimator, build_solver
from opttree.estimators.recipe import Estimator, Floats, Recipe, has_numbers, is_printed
from opttree.estimators.steps.solve import solve_lowest
from opttree.estimators.steps.state import depth_for
from opttree.estimators.steps.units import minmax, moments
from opttree.estimators.tasks import ClassificationTree, RegressionTree
from opttree.methods.table import estimator
from opttree.model.tree import Tree
from opttree.runtime.devices import Device
from opttree.runtime.options import changed, option
from opttree.statement import L2, FeatureL1, L2Constants, TreeProblem
from opttree.tables.weights import n_rows

__all__ = ["ORRTClassifier", "ORRTRegressor", "SRTClassifier", "SRTRegressor"]

SPLIT_RIDGE, LEAF_RIDGE = 0.01, 0.03  # factors of p / n, see ``l2``
BY_FEATURE = 0.08  # factor of 1 / sqrt(n), see ``feature_l1``
INITS = ("hinge", "cluster", "cart", "random")
JOINT_ITERATIONS = 50  # after the decomposition, by default


def _ridge(options: Estimator) -> Any:
    """``l2``, a string, a number or a tuple, where "auto" is the paper's under its preset."""
    given = options.l2 if isinstance(options.l2, str) or not np.iterable(options.l2) else tuple(options.l2)
    printed = is_printed(options) and given == "auto"
    by_letter = getattr(options, "reading", "") == "letter"
    return given if not printed else "paper" if by_letter else options.printed_l2


def _strengths(options: Estimator, n: float, p: int) -> tuple[float, float]:
    """Strengths of the l2 penalties on splits and leaves, for n rows and p features."""
    ridge = _ridge(options)
    if ridge == "auto":
        return default_ridge(n, p)
    if isinstance(ridge, str):
        depth = depth_for(options, 0)
        if ridge == "paper":
            printed: tuple[float, float] = bridge.solvers.soft.printed_ridge(p, depth)
            return printed
        return 1.0 / (n * p * (2**depth - 1)), 1.0 / (n * p * 2**depth)
    splits, leaves = ridge if np.iterable(ridge) else (ridge, ridge)
    return float(splits), float(leaves)


def _terms(options: Estimator, weight: Floats, n_features: int, y_scale: Floats) -> dict[str, Any]:
    splits, leaves = _strengths(options, n_rows(weight), n_features)
    return {"penalties": (L2(splits=splits, leaves=leaves if options.leaves == "linear" else 0.0),)}


def _srt_terms(options: Estimator, weight: Floats, n_features: int, y_scale: Floats) -> dict[str, Any]:
    terms = _terms(options, weight, n_features, y_scale)
    splits, leaves = _strengths(options, n_rows(weight), n_features)
    held = is_printed(options) if options.l2_constants == "auto" else options.l2_constants
    if not held or splits == leaves == 0.0:
        return terms
    if _ridge(options) == "paper":
        splits /= n_features**2  # the gates of eq. (1) divide weights by p, and not the constant
    constants = L2Constants(splits, leaves if has_numbers(options) else 0.0)
    return {"penalties": (*terms["penalties"], constants)}


def _features(options: Estimator, X: Floats, weight: Floats) -> tuple[Floats, Floats]:
    printed = is_printed(options) or (isinstance(options.l2, str) and options.l2 != "auto")
    return (minmax if printed else moments)(X, weight)


@dataclass(eq=False, repr=False)
class _SoftTree(TreeEstimator):
    """Common part of the estimators."""

    splits = "oblique"
    loss = "squared"
    printed_l2: ClassVar[Any] = "paper, sum"  # in place of "auto" under the paper's preset

    max_depth: int | Literal["auto", "cv"] | None = groups.auto_depth()
    _: KW_ONLY
    cv: Any = groups.cv()
    preset: Literal["default", "paper"] = groups.preset()
    leaves: Literal["linear", "constant"] = option("linear", "Kind of leaf models; linear in the paper.")
    floor: bool | None = groups.floor()
    l2: Any = option(
        "auto",
        """"auto", "paper", a float or a pair of floats. l2 penalty: the objective is ``mean loss + l2_splits |A|^2 +
        l2_leaves |coefs|^2`` on scaled features and standardised outputs; constant terms are free but where SRT has
        ``l2_constants``. "auto": features are standardised, and the pair is ``(.01 p / n, .03 p / n)`` for p features,
        with n the sum of the weights (which count as repeated rows) or the number of rows, whichever is larger; the
        factors were chosen by inner cross-validation on ten of the paper's data sets. "paper": features are scaled to
        [0, 1], and the lambdas are, to the letter of eq. (7), ``2 / (p |branches|)`` and ``2 / (p |leaves|)``, which
        underfit; "paper, sum": the same lambdas beside the sum over the rows, and for gates without the factor 1/p,
        which comes nearer to the paper's numbers, see `solvers.NODEC.paper`. Under ``preset="paper"`` features are
        scaled to [0, 1] in any case, and "auto" is "paper, sum" for SRT ("paper" by its letter, see ``reading``), and
        none for ORRT.""",
        test=lambda l2: is_l2(l2),
        words="'auto', 'paper', 'paper, sum', a number >= 0 or a pair of them",
    )
    device: Device = option("cpu", "Device that evaluates the objective, see `GETRegressor`.")

    def predict_soft(self, X: Any) -> Floats:
        """Mean of all leaves' predictions, weighted by probability.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            Predictions.
        """
        X = self._validated(X)
        return self.tree_.as_mixture.predict(X)

    def leaf_proba(self, X: Any) -> Floats:
        """Probability of each leaf, in the order of ``tree_``.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of shape (n, leaves)
            Probabilities; each row sums to 1.
        """
        X = self._validated(X)
        return self.tree_.leaf_proba(X)


def _check(options: Estimator) -> None:
    groups.check_reading(options, "closest")


def _srt_solver(options: Estimator, problem: TreeProblem, valid: TreeProblem | None) -> Any:
    solvers, init = bridge.solvers, options.init
    if isinstance(init, Tree):  # given as start; the restarts after it are random
        init = "auto"
    if isinstance(init, str) and init == "auto":
        init = solvers.NODEC.paper().init if is_printed(options) else "hinge"
    if isinstance(init, str) and init in INITS:
        init = {
            "hinge": solvers.HingeInit(n_random=6, n_moves=12),
            "cluster": solvers.ClusterInit(n_init=1, n_repeats=3),
            "cart": solvers.CartInit(),
            "random": solvers.RandomInit(),
        }[init]
    if not isinstance(init, solvers.Solver):
        raise ValueError(
            f"init must be one of {['auto', *INITS]}, an initial tree of `solvers` or a Tree; got {init!r}"
        )
    given: dict[str, Any] = {"init": init, "steepness": options.steepness}
    if options.steepness == "auto":
        given["steepness"] = 1.0
    if is_printed(options):
        usual = solvers.NODEC.paper(reading=options.reading)
        for name in ("branch_iterations", "branch_objective"):
            given[name] = getattr(usual if getattr(options, name) is None else options, name)
        given["steepness"] = usual.steepness if options.steepness == "auto" else options.steepness
    if options.joint_iterations is None:
        given["joint_iterations"] = 0 if is_printed(options) else JOINT_ITERATIONS
    nodec = build_solver(options, solvers.NODEC, **given)
    return nodec if options.n_init == 1 else solvers.MultiStart(nodec, options.n_init)


SRT = Recipe(
    depths=(1, 2, 3),
    usual_depth=3,
    solver=_srt_solver,
    terms=_srt_terms,
    features=_features,
    solve=solve_lowest("smooth", "smooth_objective_"),  # as the paper does, not the lowest hard one
    merit="smooth_objective_",
    parts="soft",
    check=_check,
)


@dataclass(eq=False, repr=False, kw_only=True)
class _SRT(_SoftTree):
    """Common part of the regressor and the classifier."""

    recipe = SRT

    init: Any = groups.init(
        "auto",
        """"auto", "hinge", "cluster", "cart", "random", an initial tree of `solvers`, or a `Tree`: the initial tree.
        "auto": "hinge", and for the paper's preset its own clusters; hinging hyperplanes take less time and led to
        equal or better trees.""",
    )
    reading: Literal["closest", "letter"] = option(
        "closest",
        """How the paper's preset reads what print leaves open: "closest" to the printed numbers, or by the "letter",
        see `solvers.NODEC.paper`; with the letter, "auto" of ``l2`` is that of eq. (7), "paper".""",
    )
    l2_constants: bool | Literal["auto"] = option(
        "auto",
        """Whether ``l2`` penalises constant terms, too, see `opttree.L2Constants`: thresholds as the weights of splits,
        constants of leaves, in regression, as their coefficients. "auto": as eq. (7) says for the paper's preset, and
        not otherwise.""",
    )
    steepness: float | Literal["auto"] | None = option(
        "auto",
        """Initial standard deviation of each gate's argument over the rows that pass the node: the smaller, the flatter
        are the first gates; None: the split weights of ``init`` are used as they are. "auto": 1; .5 for the paper's
        preset, and None by its letter.""",
        above=0,
    )
    branch_solver: Literal["L-BFGS", "SLSQP"] | None = option(
        None,
        'Minimiser of the steps on splits, see `solvers.NODEC`; None: "L-BFGS", and "SLSQP" for the paper\'s preset.',
    )
    branch_iterations: int | None = option(
        None,
        "Largest number of iterations in such a step; None: 10; 5 for the paper's preset, 100 by its letter.",
        least=1,
    )
    branch_objective: Literal["mean", "sum"] | None = option(
        None,
        """Whether such a step minimises the mean over the rows or their sum, see `solvers.NODEC`; None: "mean"; "sum"
        for the paper's preset, but not by its letter.""",
    )
    reassignment: Literal["careful", "printed"] | None = option(
        None, 'Which nodes reassign rows, see `solvers.NODEC`; None: "careful", and "printed" for the paper\'s.'
    )
    n_init: int = option(1, "Restarts; the lowest smooth objective wins.", least=1)
    max_iter: int | None = option(None, "Macro iterations, the paper's M_it; None: 10, and 9 for the preset.", least=1)
    k0: int | None = option(
        None,
        """None: the early-stopped version of the paper's experiments. An integer: from inner iteration k0 on, steps are
        exact and the conditions for convergence are enforced; see `solvers.NODEC`.""",
    )
    branch_tolerance: float | None = option(
        None, "Change of the objective at which SLSQP ends, see `solvers.NODEC`; None: 1e-6.", above=0
    )
    joint_iterations: int | None = option(
        None, "Final iterations of L-BFGS on all variables; None: 50, and none for the paper's preset.", least=0
    )
    clip: bool | None = option(
        None,
        """Bound the leaves' predictions by the range of y in training; regression only. None: True, and False for the
        paper's preset.""",
    )
    min_samples_leaf: int = groups.min_samples_leaf(
        1, "Fewest training rows in a leaf; smaller leaves are cut off at the end."
    )
    device: Device = changed("cpu", "Device for objectives of 2000 rows or more, see `GETRegressor`.")


@estimator(
    "srt",
    solver="NODEC",
    chooses_depth=True,
    has_device=True,
    methods={"srt": ("SRT, soft tree by node-based decomposition, linear leaves", {})},
)
class SRTRegressor(RegressionTree, _SRT):
    """Soft regression tree with single-leaf predictions, trained by node-based decomposition (NODEC-DR).

    Take it for answers of one linear leaf, from splits that were trained softly. The splits of a subtree and the
    leaves below it are optimised in turn, node by node; a row gets the answer of one leaf, by the likelier side at
    each branch.

    Attributes
    ----------
    tree_ : opttree.Tree
        The tree, on raw features, with its gates.
    smooth_objective_ : float
        Smooth objective of the tree on the scaled problem.
    result_ : solvers.Result
        Result of the run; its tree and (hard) objective are on the scaled problem.
    n_iter_ : int
        Steps taken.

    See Also
    --------
    SRTClassifier : the same for classes
    ORRTRegressor : answers with the mixture of all leaves
    solvers.NODEC : the solver

    References
    ----------
    Consolo, Amaldi and Manno, "Soft regression trees: a model variant and a decomposition training algorithm" (2024).

    Examples
    --------
    >>> from opttree import SRTRegressor, datasets
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> model = SRTRegressor(max_depth=2, random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.3, model.tree_.leaf_proba(X).shape
    (True, (442, 4))
    """


@estimator("srt")
@dataclass(eq=False, repr=False, kw_only=True)
class SRTClassifier(ClassificationTree, _SRT):
    """`SRTRegressor` for classes, which the paper does not treat: the expected log loss of the leaves' class
    probabilities; linear leaves are multinomial logistic regressions.

    Take it for answers of one leaf, from splits that were trained softly; see `SRTRegressor` for how.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Class labels.
    tree_, smooth_objective_, result_, n_iter_ : Tree, float, Result, int
        As in `SRTRegressor`.

    See Also
    --------
    SRTRegressor : the same for numbers
    solvers.NODEC : the solver

    References
    ----------
    Consolo, Amaldi and Manno, "Soft regression trees: a model variant and a decomposition training algorithm"
    (2024).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from opttree import SRTClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SRTClassifier(max_depth=2, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    loss = "log"


def _orrt_terms(options: Estimator, weight: Floats, n_features: int, y_scale: Floats) -> dict[str, Any]:
    terms, strength = _terms(options, weight, n_features, y_scale), options.feature_l1
    if strength is None:
        strength = 0.0 if is_printed(options) or not has_numbers(options) else BY_FEATURE / np.sqrt(n_rows(weight))
    return {"penalties": (*terms["penalties"], *([FeatureL1(float(strength))] if strength else []))}


def _orrt_solver(options: Estimator, problem: TreeProblem, valid: TreeProblem | None) -> Any:
    return build_solver(options, bridge.solvers.ORRT, n_starts=options.n_init)


@dataclass(eq=False, repr=False, kw_only=True)
class _ORRT(_SoftTree):
    """Common part of the regressor and the classifier."""

    recipe = Recipe(
        solver=_orrt_solver, terms=_orrt_terms, features=_features, depths=(1, 2, 3), usual_depth=3, parts="soft"
    )
    printed_l2 = (0.0, 0.0)

    method: Literal["L-BFGS-B", "SLSQP"] | None = option(
        None, 'SciPy\'s minimiser; None: "L-BFGS-B", and "SLSQP" for the paper\'s preset.'
    )
    n_init: int = option(1, "Starts; the best training objective wins.", least=1)
    max_iter: int | None = option(None, "Iterations per start; None: 500, and 100 for the paper's preset.", least=1)
    init: Tree | None = groups.init(None, "A tree on raw features to start from; None: a random start.")
    feature_l1: float | None = option(
        None,
        """Strength of a penalty by which features leave the whole tree, see `opttree.FeatureL1`; on scaled features and
        standardised outputs. The constants of leaves then stay within the range of y. None: for numbers
        ``.08 / sqrt(n)``, n as for ``l2``; the factor was chosen on rows within the training part of eight data sets.
        For classes, where it gained nothing on three, and for the paper's preset it is 0. More helps where many
        features say nothing.""",
        least=0,
    )


@estimator(
    "orrt",
    solver="ORRT",
    chooses_depth=True,
    has_device=True,
    methods={"orrt": ("ORRT, soft tree that answers with the mixture of its linear leaves", {})},
)
class ORRTRegressor(RegressionTree, _ORRT):
    """Soft regression tree that predicts with the mixture of all leaves, trained as one smooth problem (ORRT).

    Take it for a small model whose answers change smoothly with the features: on our leaderboard it is the most
    accurate soft tree. All weights are trained at once, by L-BFGS.

    Attributes
    ----------
    tree_, result_, n_iter_ : Tree, Result, int
        As in `SRTRegressor`; ``tree_`` is a mixture (one leaf for constant y).

    See Also
    --------
    ORRTClassifier : the same for classes
    SRTRegressor : answers with one leaf
    solvers.ORRT : the solver

    References
    ----------
    Blanquero, Carrizosa, Molero-Rio and Romero Morales, "On sparse optimal regression trees", EJOR 299 (2022).

    Examples
    --------
    >>> from opttree import ORRTRegressor, datasets
    >>> X, y = datasets.load("friedman1", as_arrays=True)
    >>> model = ORRTRegressor(max_depth=2, random_state=0).fit(X[:600], y[:600])
    >>> model.score(X[600:], y[600:]) > 0.8, model.tree_.mixture
    (True, True)
    """


@estimator("orrt")
@dataclass(eq=False, repr=False, kw_only=True)
class ORRTClassifier(ClassificationTree, _ORRT):
    """`ORRTRegressor` for classes: the log loss of the mixture of the leaves' class probabilities (capped at
    ``-log(1e-6)``); linear leaves are multinomial logistic regressions.

    Take it for a small model whose probabilities change smoothly with the features; see `ORRTRegressor` for how.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Class labels.
    tree_, result_, n_iter_ : Tree, Result, int
        As in `ORRTRegressor`.

    See Also
    --------
    ORRTRegressor : the same for numbers
    solvers.ORRT : the solver

    References
    ----------
    Blanquero, Carrizosa, Molero-Rio and Romero Morales, "On sparse optimal regression trees", EJOR 299 (2022).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from opttree import ORRTClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ORRTClassifier(max_depth=2, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    loss = "log"


def default_ridge(n: float, p: int) -> tuple[float, float]:
    """Strengths of the l2 penalties on splits and leaves by default, for n rows and p features."""
    return SPLIT_RIDGE * p / n, LEAF_RIDGE * p / n


def is_l2(l2: Any) -> bool:
    """Whether ``l2`` is a valid value of the option ``l2``."""
    if isinstance(l2, str):
        return l2 in ("auto", "paper", "paper, sum")
    pair = l2 if isinstance(l2, (tuple, list, np.ndarray)) else (l2, l2)
    numbers = [isinstance(v, (int, float, np.number)) and np.isfinite(v) and v >= 0 for v in pair]
    return len(pair) == 2 and all(numbers)
