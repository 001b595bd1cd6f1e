"""`GradTreeClassifier` and `GradTreeRegressor`: axis-aligned trees by straight-through gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_sample_weight

from opttree import bridge
from opttree.estimators.base import ClassificationTree, RegressionTree, TreeEstimator, solve_and_keep
from opttree.preprocessing import rebalanced
from opttree.problems import TreeProblem
from opttree.tree import Tree

# of `solvers.GradTree`
OPTIONS = ("epochs", "batch_size", "patience", "average", "n_starts", "index", "refit", "device")


class _GradTree(TreeEstimator):
    """What both share."""

    splits = "axis"
    leaves = "constant"
    split_penalty = leaf_penalty = l1_ratio = 0.0

    def _check_options(self) -> None:
        super()._check_options()
        if not (
            self.init is None or isinstance(self.init, Tree) or (isinstance(self.init, str) and self.init == "cart")
        ):
            raise ValueError(f"init must be a Tree on raw features, 'cart' or None; got {self.init!r}")
        fraction = self.validation_fraction
        if fraction is not None and not (isinstance(fraction, (float, np.floating)) and 0.0 < fraction < 1.0):
            raise ValueError(f"validation_fraction must be between 0 and 1, or None; got {fraction!r}")

    def _solver(self, problem: TreeProblem) -> Any:
        return bridge.solvers().GradTree(
            learning_rates=self.learning_rates,
            validation=self.validation_fraction,
            gamma=getattr(self, "gamma", 0.0),
            epsilon=getattr(self, "epsilon", 0.0),
            temperatures=self.temperatures,
            init=bridge.solvers().CartInit() if isinstance(self.init, str) else None,
            **{name: getattr(self, name) for name in OPTIONS},
        )

    def _solve(
        self, problem: TreeProblem, start: Tree | None, seed: int | None, time_limit: float | None, watch: Any = None
    ) -> Any:
        """Solve, and keep the tree of the lowest loss on the held-out rows, as the paper does."""
        solver = self._solver(problem)
        if getattr(self, "rebalance", False):
            problem, solver = self._rebalanced(problem, solver, seed)
        result, self.validation_loss_ = solve_and_keep(
            "validation", lambda judge: self._run(solver, problem, start, seed, time_limit, judge), watch
        )
        return result

    def _rebalanced(self, problem: TreeProblem, solver: Any, seed: int | None) -> tuple[TreeProblem, Any]:
        """The statement on rebalanced rows, and the solver with rows held out before that."""
        train = problem
        if self.validation_fraction is not None:
            train, judge = problem.split(self.validation_fraction, np.random.default_rng(seed))
            solver = replace(solver, validation=judge)
        return train.with_rows(*rebalanced(train.X, train.y, seed)), solver

    @property
    def _merit(self) -> float:
        return self.validation_loss_


class GradTreeClassifier(ClassificationTree, _GradTree):
    """Axis-aligned classification tree by gradient descent on all its splits at once (GradTree).

    Parameters
    ----------
    max_depth : int or "cv", default 8
        Largest depth, >= 1; "cv" as in `TAOClassifier`.
    learning_rates : three floats, default (0.01, 0.05, 0.05)
        Of the logits of features, of thresholds and of leaves.
    gamma : float, default 0
        Focal factor of the cross-entropy (the paper's is 3 where it has one).
    epsilon : float, default 0
        Of PolyLoss (the paper's are 2 and 5 where it has one).
    epochs, batch_size, patience, average, n_starts : int
        See `solvers.GradTree`.
    validation_fraction : float or None, default 0.2
        Share of the rows that is held out to stop early and to choose among starts; None: the training rows judge.
    index, temperatures : see `solvers.GradTree`.
    refit : bool, default False
        Whether leaves are fitted again on all rows, or stay as the gradient has left them.
    rebalance : bool, default False
        Whether SMOTE fills up small classes as in the paper, see `opttree.preprocessing.rebalanced`: in the rows that
        the gradient sees, not in the held-out ones. ``refit``, ``min_samples_leaf`` and ``result_`` are then of these
        rows, all of one weight.
    class_weight : dict, "balanced" or None, default None
        Weights of the classes, as in scikit-learn.
    init : "cart" or `Tree` on raw features, default None
        A tree to start from, of axis-aligned splits and constant leaves; "cart": scikit-learn's on the rows that are
        not held out. It takes the place of the first start's random numbers.
    device : {"cpu", "gpu", "auto"}, default "cpu"
        Where the starts descend, see `solvers.GradTree`; "gpu" needs CuPy and a CUDA device.
    cv, min_samples_leaf, time_limit, random_state, n_jobs, verbose, on_interrupt : as in `TAOClassifier`.

    Attributes
    ----------
    classes_ : (K,) class labels.
    tree_, n_iter_ : as `TAOClassifier`; without the branches that no training row reaches.
    result_ : `solvers.Result` of the run; its objective is the error rate on all training rows.
    validation_loss_ : loss on the held-out rows by which the tree was chosen; infinite where there was no choice, as
        with one class.

    Features are standardised; where they have long tails, scikit-learn's ``QuantileTransformer`` (as in the paper)
    before this estimator helps the gradient.

    References
    ----------
    Marton, Luedtke, Bartelt and Stuckenschmidt, "GradTree: learning axis-aligned decision trees with gradient
    descent", AAAI 2024.
    """

    loss = "zero_one"

    def __init__(
        self,
        max_depth: int | str = 8,
        *,
        learning_rates: Any = (0.01, 0.05, 0.05),
        gamma: float = 0.0,
        epsilon: float = 0.0,
        epochs: int = 1000,
        batch_size: int = 512,
        patience: int = 200,
        average: int = 5,
        n_starts: int = 3,
        validation_fraction: float | None = 0.2,
        index: str = "entmax",
        temperatures: Any = (1.0, 1.0),
        refit: bool = False,
        rebalance: bool = False,
        class_weight: Any = None,
        min_samples_leaf: int = 1,
        init: Tree | str | None = None,
        cv: Any = 4,
        device: str = "cpu",
        time_limit: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        on_interrupt: str = "raise",
    ) -> None:
        self.max_depth = max_depth
        self.learning_rates = learning_rates
        self.gamma = gamma
        self.epsilon = epsilon
        self.epochs = epochs
        self.batch_size = batch_size
        self.patience = patience
        self.average = average
        self.n_starts = n_starts
        self.validation_fraction = validation_fraction
        self.index = index
        self.temperatures = temperatures
        self.refit = refit
        self.rebalance = rebalance
        self.class_weight = class_weight
        self.min_samples_leaf = min_samples_leaf
        self.init = init
        self.cv = cv
        self.device = device
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.on_interrupt = on_interrupt

    def state(
        self, X: NDArray[np.float64], y: NDArray[Any], sample_weight: NDArray[np.float64] | None = None
    ) -> tuple[TreeProblem, tuple[NDArray[np.float64], ...]]:
        """The `TreeProblem` that `fit` solves, see `TreeEstimator.state`; rows weigh as their classes do."""
        if self.class_weight is not None:
            of_rows = compute_sample_weight(self.class_weight, y)
            sample_weight = of_rows if sample_weight is None else of_rows * sample_weight
        if self.rebalance and sample_weight is not None and np.ptp(used := sample_weight[sample_weight > 0.0]) > 0.0:
            raise ValueError(f"rebalance needs rows and classes of one weight; got {used.min():g} to {used.max():g}")
        return super().state(X, y, sample_weight)


class GradTreeRegressor(RegressionTree, _GradTree):
    """Axis-aligned regression tree by gradient descent on all its splits at once; squared loss.

    Parameters are those of `GradTreeClassifier` without ``gamma``, ``epsilon`` and ``class_weight``.

    Attributes
    ----------
    tree_, result_, n_iter_, validation_loss_ : as `GradTreeClassifier`; the objective is the mean squared error of
        standardised outputs on all training rows.
    """

    loss = "squared"

    def __init__(
        self,
        max_depth: int | str = 8,
        *,
        learning_rates: Any = (0.01, 0.05, 0.05),
        epochs: int = 1000,
        batch_size: int = 512,
        patience: int = 200,
        average: int = 5,
        n_starts: int = 3,
        validation_fraction: float | None = 0.2,
        index: str = "entmax",
        temperatures: Any = (1.0, 1.0),
        refit: bool = True,
        min_samples_leaf: int = 1,
        init: Tree | str | None = None,
        cv: Any = 4,
        device: str = "cpu",
        time_limit: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        on_interrupt: str = "raise",
    ) -> None:
        self.max_depth = max_depth
        self.learning_rates = learning_rates
        self.epochs = epochs
        self.batch_size = batch_size
        self.patience = patience
        self.average = average
        self.n_starts = n_starts
        self.validation_fraction = validation_fraction
        self.index = index
        self.temperatures = temperatures
        self.refit = refit
        self.min_samples_leaf = min_samples_leaf
        self.init = init
        self.cv = cv
        self.device = device
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.on_interrupt = on_interrupt
