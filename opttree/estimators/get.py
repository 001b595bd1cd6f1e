"""`GETRegressor` and `GETClassifier`: single trees by gradient-based entire tree optimization."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from opttree import bridge
from opttree.estimators.base import ClassificationTree, Floats, RegressionTree, TreeEstimator, minmax, moments
from opttree.estimators.streaming import StreamingGET
from opttree.problems import TreeProblem
from opttree.tree import Tree

PRESETS = ("default", "paper")
DTYPES = ("float32", "float64")
LEAF_PENALTY = 3e-5  # of linear leaves, by default


class _GETTree(StreamingGET, TreeEstimator):
    """What the regressor and the classifier share."""

    splits = "oblique"
    starts_compete = True

    def __init__(
        self,
        max_depth: int | str = 6,
        *,
        cv: Any = 4,
        leaves: str = "constant",
        n_starts: int | None = None,
        preset: str = "default",
        polish: Any = "auto",
        split_penalty: float = 0.0,
        leaf_penalty: float | None = None,
        l1_ratio: float = 1.0,
        min_samples_leaf: int = 1,
        validation_fraction: float | None = None,
        init: Tree | None = None,
        dtype: str | None = None,
        device: str = "cpu",
        time_limit: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        on_interrupt: str = "raise",
    ) -> None:
        self.max_depth = max_depth
        self.cv = cv
        self.leaves = leaves
        self.n_starts = n_starts
        self.preset = preset
        self.polish = polish
        self.split_penalty = split_penalty
        self.leaf_penalty = leaf_penalty
        self.l1_ratio = l1_ratio
        self.min_samples_leaf = min_samples_leaf
        self.validation_fraction = validation_fraction
        self.init = init
        self.dtype = dtype
        self.device = device
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.on_interrupt = on_interrupt

    def _check_options(self) -> None:
        if self.preset not in PRESETS:
            raise ValueError(f"preset must be one of {list(PRESETS)}; got {self.preset!r}")
        super()._check_options()
        if self.dtype not in (None, *DTYPES):
            raise ValueError(f"dtype must be one of {list(DTYPES)} or None; got {self.dtype!r}")
        if self.n_starts is not None and (not isinstance(self.n_starts, (int, np.integer)) or self.n_starts < 1):
            raise ValueError(f"n_starts must be an integer >= 1 or None; got {self.n_starts!r}")
        if self.polish not in ("auto", True, False):
            raise ValueError(f"polish must be 'auto', True or False; got {self.polish!r}")
        if self.init is not None and not isinstance(self.init, Tree):
            raise ValueError(f"init must be a Tree on raw features or None; got {self.init!r}")
        fraction = self.validation_fraction
        if fraction is not None and not (isinstance(fraction, (float, np.floating)) and 0.0 < fraction < 1.0):
            raise ValueError(f"validation_fraction must be between 0 and 1, or None; got {fraction!r}")

    @property
    def _leaf_strength(self) -> float:
        if self.leaf_penalty is None:
            return LEAF_PENALTY if self.preset == "default" else 0.0
        return self.leaf_penalty

    def _feature_units(self, X: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """The paper scales features and outputs to [0, 1]; by default they are standardised."""
        return (moments if self.preset == "default" else minmax)(X, weight)

    def _output_units(self, Y: Floats, weight: Floats) -> tuple[Floats, Floats]:
        return self._feature_units(Y, weight)

    def _solver(self, problem: TreeProblem) -> Any:
        solvers = bridge.solvers()
        dtype = self.dtype or ("float64" if problem.leaves == "linear" else "float32")
        polished = bool(self.polish) if self.polish != "auto" else problem.leaves == "constant"
        if self.preset == "paper":
            return solvers.GET.paper(self.n_starts or 10, polish=polished, dtype=dtype, device=self.device)
        get = solvers.GET(n_starts=self.n_starts, dtype=dtype, device=self.device)
        return replace(get, polish=get.usual_polish(problem) if polished else None)

    def _solve(
        self, problem: TreeProblem, start: Tree | None, seed: int | None, time_limit: float | None, watch: Any = None
    ) -> Any:
        """Solve; with ``validation_fraction``, on part of the rows, and keep the step that is best on the others."""
        if self.validation_fraction is None:
            return super()._solve(problem, start, seed, time_limit, watch)
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

    Parameters
    ----------
    max_depth : int or "cv", default 6
        Largest depth of the tree, >= 1. "cv": the depth in 1..12 with the best mean score on held-out rows (up to 4
        levels past the best are tried), each depth's fit starting from the one before. The depth
        is then in ``best_depth_``, the scores in ``cv_results_``.
    cv : int, float, splitter or iterable of splits, default 4
        For ``max_depth="cv"``: number of folds, share of the rows that is held out once, or as scikit-learn.
    leaves : {"constant", "linear"}, default "constant"
        GET or GET-Linear. Linear leaves need ``2 (p + 1)`` rows, smaller ones stay constant; they are clipped to the
        range that y and the fitted values have in common among their rows.
    n_starts : int, default None
        Random starts; None: chosen by depth and leaves (see `solvers.GET`), 10 for the paper's preset.
    preset : {"default", "paper"}, default "default"
        The best method we found, or Algorithms 1 and 2 as printed, on features and outputs scaled to [0, 1]: then all
        leaves of a linear tree are linear, without penalty, and answers are not bounded.
    polish : {"auto", True, False}, default "auto"
        Subtree polish (Algorithm 2); "auto": for constant leaves only, as the paper.
    split_penalty : float, default 0
        l1 penalty on the weights of the splits at unit length (eq. 5, on the weights as they are; its lambda, for a sum
        over n rows, is ``lambda / n`` here), in units of the mean loss on scaled features and outputs.
    leaf_penalty : float or None, default None
        The same on the weights of linear leaves. None: 3e-5, and 0 for the paper's preset.
    l1_ratio : float, default 1
        1: the l1 penalty; 0: ``penalty * |.|_2^2``; between: a mixture of both.
    min_samples_leaf : int, default 1
        Fewest training rows in a leaf.
    validation_fraction : float, default None
        Share of the rows that is held out; of all trees that the solver passes through, the best on them is kept.
    init : `Tree` on raw features, default None
        A tree to start from, another model's ``tree_`` say.
    dtype : {"float32", "float64"}, default None
        Precision of the gradients; None: "float64" for linear leaves, which then depend on sample weights as on
        repeated rows to the last digits, "float32" for constant ones. Trees and objectives are float64.
    device : {"cpu", "gpu", "auto"}, default "cpu"
        Where the trees are annealed; "gpu" needs CuPy and a CUDA device (``pip install opttree[gpu]``), "auto" takes it
        where there is one and the problem is large. Rows that come later, by `partial_fit`, stay on the CPU.
    time_limit : float, default None
        Seconds; the best tree so far is kept.
    random_state : int, RandomState or None
        One seed gives one tree, whatever ``n_jobs``.
    n_jobs : int, default None
        Threads; None: as many as Numba is set to, which is all unless `numba.set_num_threads` was called; -1: all.
        Beside other busy processes 1 is fastest: threads wait for each other by spinning.
    verbose : int, default 0
        1 shows a progress bar.
    on_interrupt : {"raise", "keep"}, default "raise"
        After Ctrl-C the estimator holds the best tree so far, an `opttree.InterruptedFitWarning` says so, and the
        KeyboardInterrupt is raised, so that a search around the fit ends too; "keep": it is not raised.
        Before there is a tree, and while ``max_depth="cv"`` still searches, it is raised in any case.

    Attributes
    ----------
    tree_ : `opttree.Tree` on raw features.
    result_ : `solvers.Result` of the run; its tree and objective are on the scaled problem.
    n_iter_ : steps taken.
    validation_loss_ : mean loss of the kept tree on the held-out rows, with ``validation_fraction``.

    References
    ----------
    "Can a single tree outperform an entire forest?", under review (2024).
    """

    loss = "squared"


class GETClassifier(ClassificationTree, _GETTree):
    """Classification tree by gradient-based entire tree optimization of the log loss (capped at ``-log(1e-6)``).

    Parameters are those of `GETRegressor`; linear leaves are multinomial logistic regressions.

    Attributes
    ----------
    classes_ : (K,) class labels.
    tree_, result_, n_iter_, validation_loss_ : as `GETRegressor`.
    """

    loss = "log"
