"""What all tree estimators share: scaling in, unscaling out, prediction, text and persistence."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin, is_regressor
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from opttree import bridge, devices
from opttree.checks import check_columns
from opttree.estimators.depth import choose_depth
from opttree.interrupts import InterruptedFitWarning, noted_interrupts
from opttree.problems import L1, L2, TreeProblem
from opttree.tree import Tree

Floats = NDArray[np.float64]
ON_INTERRUPT = ("raise", "keep")


class TreeEstimator(BaseEstimator):
    """Base of the estimators: subclasses give ``_solver()`` and hold ``max_depth``, ``leaves``, ``splits``, ``loss``,
    penalties, ``min_samples_leaf``, ``time_limit``, ``random_state``, ``n_jobs``, ``verbose`` and ``on_interrupt``.
    """

    starts_compete = False  # whether the solver takes a start as one candidate among its own

    def _solver(self, problem: TreeProblem) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define _solver")

    def _check_options(self) -> None:
        """Options whose names differ from the statement's; the statement checks the rest."""
        if self.max_depth != "cv" and (not isinstance(self.max_depth, (int, np.integer)) or self.max_depth < 1):
            raise ValueError(f"max_depth must be an integer >= 1 or 'cv'; got {self.max_depth!r}")
        fraction = isinstance(self.cv, (float, np.floating)) and 0.0 < self.cv < 1.0
        folds = isinstance(self.cv, (int, np.integer)) and self.cv >= 2
        if not (fraction or folds or hasattr(self.cv, "split") or np.iterable(self.cv)):
            raise ValueError(f"cv must be an integer >= 2, a fraction between 0 and 1, or splits; got {self.cv!r}")
        losses = ["squared", "absolute"] if is_regressor(self) else ["zero_one", "log"]
        if self.loss not in losses:
            raise ValueError(f"loss must be one of {losses}; got {self.loss!r}")
        if not isinstance(self._min_leaf, (int, np.integer)) or self._min_leaf < 1:
            raise ValueError(f"min_samples_leaf must be an integer >= 1; got {self.min_samples_leaf!r}")
        for name, value in (("split_penalty", self.split_penalty), ("leaf_penalty", self._leaf_strength)):
            if not (isinstance(value, (int, float, np.number)) and np.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be a finite number >= 0; got {value!r}")
        if not (isinstance(self.l1_ratio, (int, float, np.number)) and 0 <= self.l1_ratio <= 1):
            raise ValueError(f"l1_ratio must be between 0 and 1; got {self.l1_ratio!r}")
        if self.time_limit is not None and not (
            isinstance(self.time_limit, (int, float, np.number)) and self.time_limit > 0
        ):
            raise ValueError(f"time_limit must be > 0 seconds or None; got {self.time_limit!r}")
        if self.on_interrupt not in ON_INTERRUPT:
            raise ValueError(f"on_interrupt must be one of {list(ON_INTERRUPT)}; got {self.on_interrupt!r}")
        devices.require(getattr(self, "device", "cpu"))
        if self.n_jobs is not None and (not isinstance(self.n_jobs, (int, np.integer)) or self.n_jobs == 0):
            raise ValueError(f"n_jobs must be None or an integer other than 0; got {self.n_jobs!r}")

    def _fit(self, X: NDArray[np.float64], y: NDArray[Any], sample_weight: ArrayLike | None) -> None:
        """Fit; after Ctrl-C warn that the model is the best so far, and raise unless it is to be kept."""
        with noted_interrupts() as interrupted:
            self._fit_noted(X, y, sample_weight)
        if interrupted():
            self._conclude_interrupted()

    def _conclude_interrupted(self) -> None:
        """Warn, and raise KeyboardInterrupt unless it is to be kept; for methods that `fit` and its like call."""
        try:
            warnings.warn(
                f"{type(self).__name__} was interrupted: its model is the best so far, not the finished one",
                InterruptedFitWarning,
                stacklevel=4,
            )
        finally:  # also where warnings are errors, which a search would take for a failed fit
            if self.on_interrupt == "raise":
                raise KeyboardInterrupt

    def _fit_noted(self, X: NDArray[np.float64], y: NDArray[Any], sample_weight: ArrayLike | None) -> None:
        """State the problem, solve it, and put the tree back on raw features."""
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, allow_all_zero_weights=True)
        began = time.perf_counter()
        for stale in ("best_depth_", "cv_results_", "validation_loss_"):
            if hasattr(self, stale):
                delattr(self, stale)
        self._check_options()
        seed = as_seed(self.random_state)
        self._choose_depth(X, y, weight, seed)
        problem, scaling = self._state_of_fit(X, y, weight)
        left = None if self.time_limit is None else max(self.time_limit - (time.perf_counter() - began), 1e-3)
        self.result_ = self._solve(problem, self._start(problem, scaling), seed, left)
        self.n_iter_ = self.result_.n_steps
        self._keep(problem, scaling, X, weight)

    def _choose_depth(self, X: Floats, y: NDArray[Any], weight: Floats, seed: int | None) -> None:
        if self.max_depth == "cv":
            choose_depth(self, X, y, weight, seed)

    @property
    def _model(self) -> Any:
        """What predicts."""
        return self.tree_

    def _keep(self, problem: TreeProblem, scaling: tuple[Floats, ...], X: Floats, weight: Floats) -> None:
        """Put the result's tree back on raw features, to predict with."""
        tree = self._final(problem, self.result_.tree).unscale(*scaling).canonical
        self.tree_ = with_training(tree, X, weight)

    def _final(self, problem: TreeProblem, tree: Tree) -> Tree:
        """The tree to predict with, given the solver's."""
        return tree

    def _state_of_fit(self, X: Floats, y: NDArray[Any], weight: Floats) -> tuple[TreeProblem, tuple[Floats, ...]]:
        """`state`, where `fit` calls it: what is fitted for it on the way may be kept."""
        return self.state(X, y, weight)

    def state(
        self, X: NDArray[np.float64], y: NDArray[Any], sample_weight: NDArray[np.float64] | None = None
    ) -> tuple[TreeProblem, tuple[NDArray[np.float64], ...]]:
        """The `TreeProblem` that `fit` solves, on standardised features (and outputs in regression).

        The estimator stays as it is.

        Returns
        -------
        problem, (x_mean, x_scale, y_mean, y_scale)
            ``tree.unscale(x_mean, ...)`` puts a tree of the problem back on raw data.
        """
        self._check_options()
        if X.shape[0] < 2:
            raise ValueError(f"X must have at least two rows; got n_samples = {X.shape[0]}")
        weight = np.ones(X.shape[0]) if sample_weight is None else sample_weight
        if not (weight.min() >= 0.0 and weight.any()):
            raise ValueError(f"sample_weight must be >= 0 and not all zero; got {weight.min():g}")
        x_mean, x_scale = self._feature_units(X, weight)
        scaled = X - x_mean
        scaled /= x_scale
        y_mean, y_scale = np.zeros(1), np.ones(1)
        if is_regressor(self):
            table = y.reshape(y.shape[0], -1)
            y_mean, y_scale = self._output_units(table, weight)
            y = ((table - y_mean) / y_scale).reshape(y.shape)
        problem = TreeProblem(
            scaled,
            y,
            depth=self._depth_for(int(np.count_nonzero(weight))),
            splits=self.splits,
            leaves=self.leaves,
            loss=self.loss,
            sample_weight=weight,
            penalties=self._penalties(weight, X.shape[1]),
            min_leaf=int(self._min_leaf),
        )
        return problem, (x_mean, x_scale, y_mean, y_scale)

    @property
    def _leaf_strength(self) -> float:
        """Strength of the penalty on leaves."""
        return self.leaf_penalty

    @property
    def _merit(self) -> float:
        """What fits of one problem are compared by."""
        return float(self.result_.objective)

    @property
    def _min_leaf(self) -> int:
        """Fewest rows in a leaf."""
        return self.min_samples_leaf

    def _depth_for(self, n_samples: int) -> int:
        """Depth of the problem: the one chosen by cross-validation where ``max_depth`` leaves it to that."""
        return int(getattr(self, "best_depth_", 1) if self.max_depth == "cv" else self.max_depth)

    def _feature_units(self, X: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """Offset and unit of each feature for the solver."""
        return moments(X, weight)

    def _output_units(self, Y: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """Offset and unit of each output for the solver."""
        return moments(Y, weight)

    def _penalties(self, weight: Floats, n_features: int) -> tuple[L1 | L2, ...]:
        """Penalties of the statement; axis-aligned splits, which have one weight, have none."""
        ratio, splits = self.l1_ratio, self.split_penalty if self.splits == "oblique" else 0.0
        leaves = self._leaf_strength
        l1 = L1(splits=splits * ratio, leaves=leaves * ratio)
        l2 = L2(splits=splits * (1 - ratio), leaves=leaves * (1 - ratio))
        return tuple(q for q in (l1, l2) if q.splits > 0 or q.leaves > 0)

    def _start(self, problem: TreeProblem, scaling: tuple[NDArray[np.float64], ...]) -> Tree | None:
        """The tree given as ``init`` on the scaled problem, where it is one and has a depth that a search allows."""
        if not isinstance(self.init, Tree) or (self.max_depth == "cv" and self.init.depth > problem.depth):
            return None
        if self.init.n_features != problem.n_features:
            raise ValueError(
                f"init must be a tree of {problem.n_features} features, those of X; got {self.init.n_features}"
            )
        return self.init.scale(*scaling)

    def _solve(
        self, problem: TreeProblem, start: Tree | None, seed: int | None, time_limit: float | None, watch: Any = None
    ) -> Any:
        """Solve the problem; ``watch(step, trace)`` sees every step."""
        return self._run(self._solver(problem), problem, start, seed, time_limit, watch)

    def _run(
        self,
        solver: Any,
        problem: TreeProblem,
        start: Tree | None,
        seed: int | None,
        time_limit: float | None,
        watch: Any,
    ) -> Any:
        with threads(self.n_jobs), progress(self.verbose, f"{type(self).__name__}", watch) as callback:
            return bridge.solvers().solve(
                problem, solver, start=start, time_limit=time_limit, random_state=seed, callback=callback
            )

    def _validated(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self, "result_")
        check_columns(X)
        return validate_data(self, X, reset=False, dtype=np.float64, order="C")

    def apply(self, X: Any) -> NDArray[np.int32]:
        """Leaf node of each row, as numbered in ``tree_``: (n,) int."""
        X = self._validated(X)
        return self.tree_.apply(X)

    def decision_path(self, X: Any) -> Any:
        """Sparse indicator (n, nodes) of the nodes each row passes."""
        X = self._validated(X)
        return self.tree_.decision_path(X)

    def to_text(self) -> str:
        """The tree as text, with the feature names seen in `fit`."""
        check_is_fitted(self, "result_")
        return self.tree_.to_text(getattr(self, "feature_names_in_", None))

    def get_depth(self) -> int:
        """Depth of the fitted tree."""
        check_is_fitted(self, "result_")
        return self.tree_.depth

    def get_n_leaves(self) -> int:
        """Number of leaves of the fitted tree."""
        check_is_fitted(self, "result_")
        return self.tree_.n_leaves


def solve_and_keep(name: str, solve: Callable[[Any], Any], watch: Any = None) -> tuple[Any, float]:
    """The result of ``solve(callback)`` with the tree of the step whose ``info[name]`` is lowest, and that number.

    For methods that choose by another number than the objective; steps without it are passed over. ``watch`` is called
    at every step too.
    """
    best: list[Any] = [np.inf, None, None]

    def judge(step: Any, trace: Any) -> None:
        number = step.info.get(name, np.inf)
        if number < best[0]:
            best[:] = number, step.tree, trace.rows[-1].objective
        if watch is not None:
            watch(step, trace)

    result = solve(judge)
    number, tree, objective = best
    return (result if tree is None else replace(result, tree=tree, objective=objective)), number


def keep_last(solve: Callable[..., Any], watch: Any = None) -> Any:
    """The result of ``solve(callback=...)`` with the last step's model: a forest of more trees, not of lower loss."""
    last: list[Any] = [None]

    def keep(step: Any, trace: Any) -> None:
        last[0] = step, trace.rows[-1].objective
        if watch is not None:
            watch(step, trace)

    result = solve(callback=keep)
    step, objective = last[0]
    return replace(result, tree=step.tree, objective=objective)


class RegressionTree(MultiOutputMixin, RegressorMixin):
    """`fit` and `predict` of regression trees, beside a `TreeEstimator`."""

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train on ``X (n, p)``, ``y (n,)`` or ``(n, K)``, with weights ``(n,)`` >= 0.

        Raises
        ------
        ValueError
            For bad input or options, in one sentence, before any work starts.
        """
        check_columns(X)
        X, y = validate_data(self, X, y, dtype=np.float64, order="C", multi_output=True, y_numeric=True)
        self._fit(X, y.astype(np.float64), sample_weight)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predictions (n,), or (n, K) with several outputs."""
        X = self._validated(X)
        return self._model.predict(X)


class ClassificationTree(ClassifierMixin):
    """`fit`, `predict` and `predict_proba` of classification trees, beside a `TreeEstimator`."""

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train on ``X (n, p)`` and labels ``y (n,)``, with weights ``(n,)`` >= 0.

        Raises
        ------
        ValueError
            For bad input or options, in one sentence, before any work starts.
        """
        check_columns(X)
        X, y = validate_data(self, X, y, dtype=np.float64, order="C")
        check_classification_targets(y)
        try:
            self._fit(X, y, sample_weight)
        except KeyboardInterrupt:
            with suppress(AttributeError):  # where there is a best so far, it can be used
                self.classes_ = self._model.classes
            raise
        self.classes_ = self._model.classes
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Class labels (n,)."""
        X = self._validated(X)
        return self._model.predict(X)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities (n, K), in the order of ``classes_``."""
        X = self._validated(X)
        return self._model.predict_proba(X)


def as_seed(random_state: Any) -> int | None:
    """An int for what scikit-learn takes as random state; drawn from it, so that the next fit gets another."""
    if random_state is None:
        return None
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def with_training(tree: Tree, X: Floats, weight: Floats) -> Tree:
    """``tree`` with what it should know of its training rows: shares of the weight at its nodes, features' spread."""
    return tree.with_share(tree.node_share(X, weight)).with_spread(spread(X, weight))


def spread(X: Floats, weight: Floats) -> Floats:
    """(p,) standard deviation of each column; 0 for constant ones."""
    scale = moments(X, weight)[1]
    return np.where(np.ptp(X[weight > 0.0], axis=0) > 0.0, scale, 0.0)


def moments(X: NDArray[np.float64], weight: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weighted mean and standard deviation of each column; deviation 1 for constant columns.

    One column at a time, so that no temporary of the size of ``X`` exists.
    """
    share = weight / weight.sum()
    mean, scale = np.empty(X.shape[1]), np.ones(X.shape[1])
    for j in range(X.shape[1]):
        mean[j] = np.sum(share * X[:, j])
        largest = np.abs(X[:, j]).max()
        deviation = np.sqrt(np.sum(share * ((X[:, j] - mean[j]) / largest) ** 2)) if largest > 0.0 else 0.0
        if deviation > 1e-12:
            scale[j] = largest * deviation
    return mean, scale


def minmax(X: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Least value and range of each column over the rows of positive weight; range 1 for constant columns."""
    used = X[weight > 0.0]
    low, scale = used.min(axis=0), np.ptp(used, axis=0)
    return low, np.where(scale > 0.0, scale, 1.0)


@contextmanager
def threads(n_jobs: int | None) -> Iterator[None]:
    """Run the kernels on ``n_jobs`` threads: as many as Numba is set to for None, all for -1, all but k - 1 for -k."""
    import numba

    before = numba.get_num_threads()
    most = int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    wanted = before if n_jobs is None else n_jobs if n_jobs > 0 else most + 1 + n_jobs
    numba.set_num_threads(max(1, min(wanted, most)))
    try:
        yield
    finally:
        numba.set_num_threads(before)


@contextmanager
def progress(verbose: int, title: str, watch: Any = None) -> Iterator[Any]:
    """A callback that moves a tqdm bar by one step and shows the best objective; where ``verbose`` is 0, ``watch``.

    ``watch(step, trace)`` is called in either case.
    """
    if not verbose:
        yield watch
        return
    from tqdm.auto import tqdm

    with tqdm(desc=title, unit="step") as bar:

        def show(step: Any, trace: Any) -> None:
            bar.set_postfix_str(f"{trace.rows[-1].phase}, best objective {trace.rows[-1].best:.6g}", refresh=False)
            bar.update()
            if watch is not None:
                watch(step, trace)

        yield show
