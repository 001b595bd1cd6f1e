"""`GETRegressor` and `GETClassifier`: single trees by gradient-based entire tree optimization."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from opttree.estimators import bridge
from opttree.estimators.base import Floats
from opttree.estimators.kinds import MinLeaf, Preset, SplitPenalty
from opttree.estimators.running import solve_and_keep
from opttree.estimators.scaling import FEATURES, minmax, moments, outputs_name
from opttree.estimators.shrinking import ShrunkLeaves, quick_trial
from opttree.estimators.streaming import StreamingGET
from opttree.estimators.tasks import ClassificationTree, RegressionTree
from opttree.model.tree import Tree
from opttree.runtime.devices import Device
from opttree.runtime.options import changed, option
from opttree.statement import TreeProblem

__all__ = ["GETClassifier", "GETRegressor"]

LEAF_PENALTY = 3e-5  # of linear leaves, by default
LEAN_DEPTH = 6  # of constant leaves under squared loss: from here one start without a polish, see `_GETTree._is_lean`


@dataclass(eq=False, repr=False, kw_only=True)
class _GETTree(StreamingGET, Preset, SplitPenalty, MinLeaf, ShrunkLeaves):
    """Common part of the regressor and the classifier."""

    splits = "oblique"
    starts_compete = True
    takes_eval_set = True

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
    preset: Literal["default", "paper"] = changed(
        "default",
        """"default": the best method we found. "paper": Algorithms 1 and 2 as printed, see `solvers.GET.paper`, on
        features and outputs scaled to [0, 1]; all leaves of a linear tree are then linear, without penalty, predictions
        are not clipped, the tree of the lowest training loss (eq. 3, without penalties) is kept, and a depth search
        tries all of 1 to 12.""",
    )
    polish: Literal["auto", True, False] = option(
        "auto",
        """Subtree polish (Algorithm 2). "auto": for constant leaves only, as the paper; in the default preset, in trees
        for numbers, only below depth 6, from where it takes most of the time and does not help on rows not seen.""",
    )
    split_penalty: float = changed(
        0.0,
        """l1 penalty on the weights of the splits at unit length (eq. 5, on the weights as they are; its lambda, for a
        sum over n rows, is ``lambda / n`` here), in units of the mean loss on scaled features and outputs.""",
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

    @property
    def _shrinkage(self) -> float | str:
        if self.leaf_shrinkage is None and (self._as_printed or self._stops_early):
            return 0.0
        return super()._shrinkage

    @property
    def _stops_early(self) -> bool:
        """Whether validation rows choose the tree."""
        return self.validation_fraction is not None or self._validation_rows is not None

    def _trial(self, problem: TreeProblem) -> tuple[Any, TreeProblem]:
        return quick_trial(problem, self._solver(problem))

    @property
    def _leaf_strength(self) -> float:
        if self.leaf_penalty is None:
            return 0.0 if self._as_printed else LEAF_PENALTY
        return self.leaf_penalty

    def _feature_units(self, X: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """The paper scales features and outputs to [0, 1]; by default they are standardised."""
        return self._units(X, weight, FEATURES)

    def _output_units(self, Y: Floats, weight: Floats) -> tuple[Floats, Floats]:
        return self._units(Y, weight, outputs_name(Y))

    def _units(self, table: Floats, weight: Floats, name: str) -> tuple[Floats, Floats]:
        return (minmax if self._as_printed else moments)(table, weight, name)

    def _is_lean(self, problem: TreeProblem) -> bool:
        """Whether one start without a polish does at least as well on held-out rows (protocol ``ablation_get``)."""
        deep = problem.leaves == "constant" and problem.depth >= LEAN_DEPTH
        return deep and not self._as_printed and problem.loss_function.form == "quadratic"

    def _solver(self, problem: TreeProblem) -> Any:
        dtype = self.dtype or ("float64" if problem.leaves == "linear" else "float32")
        lean = self._is_lean(problem)
        polished = bool(self.polish) if self.polish != "auto" else problem.leaves == "constant" and not lean
        if self._as_printed:
            return bridge.solvers.GET.paper(self.n_starts or 10, polish=polished, dtype=dtype, device=self.device)
        n_starts = 1 if lean and self.n_starts is None else self.n_starts
        get = self._made(bridge.solvers.GET, polish=None, dtype=dtype, n_starts=n_starts)
        return replace(get, polish=get.usual_polish(problem) if polished else None)

    def _solve(
        self, problem: TreeProblem, start: Tree | None, seed: int | None, time_limit: float | None, watch: Any = None
    ) -> Any:
        """Solve; with ``validation_fraction``, on the training rows, and keep the step with the lowest validation
        loss.
        """
        if self._validation_rows is not None:
            train, valid = problem, self._validation_rows
        elif self.validation_fraction is None and self._as_printed and problem.penalties:
            result, _loss = solve_and_keep(
                lambda step: problem.mean_loss(step.tree),
                lambda judge: super(_GETTree, self)._solve(problem, start, seed, time_limit, judge),
                watch,
            )
            return result
        elif self.validation_fraction is None:
            return super()._solve(problem, start, seed, time_limit, watch)
        else:
            train, valid = problem.split(self.validation_fraction, np.random.default_rng(seed))
        if start is not None:
            start = train.trim(start)
        best: list[Any] = [np.inf, None]

        def judge(step: Any, _trace: Any) -> None:
            loss = valid.mean_loss(step.tree)
            if loss < best[0]:
                best[:] = loss, step.tree

        result = super()._solve(train, start, seed, time_limit, judge)
        self.validation_loss_ = best[0]
        return replace(result, tree=best[1], objective=train.objective(best[1]))


class GETRegressor(RegressionTree, _GETTree):
    """Regression tree by gradient-based entire tree optimization (GET and GET-Linear).

    Take it for a low training error of an oblique tree with constant leaves, or to learn from chunks of a table
    larger than memory. All splits and leaves move together along the gradient of a smooth tree whose gates become
    steeper; the best hard tree of several starts is polished.

    Attributes
    ----------
    tree_ : `opttree.Tree` on raw features.
    result_ : `solvers.Result` of the run; its tree and objective are on the scaled problem.
    n_iter_ : steps taken.
    validation_loss_ : mean loss of ``result_.tree`` on the held-out rows, with ``validation_fraction``.

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


@dataclass(eq=False, repr=False, kw_only=True)
class GETClassifier(ClassificationTree, _GETTree):
    """Classification tree by gradient-based entire tree optimization of the log loss (capped at ``-log(1e-6)``).

    Take it for a low training loss of an oblique tree with constant leaves; see `GETRegressor` for how.

    Attributes
    ----------
    classes_ : (K,) class labels.
    tree_, result_, n_iter_, validation_loss_ : as `GETRegressor`.

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
