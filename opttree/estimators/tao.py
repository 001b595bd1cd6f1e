"""`TAORegressor` and `TAOClassifier`: single trees by tree alternating optimization."""

from __future__ import annotations

from typing import Any

import numpy as np

from opttree import bridge
from opttree.estimators.base import ClassificationTree, RegressionTree, TreeEstimator
from opttree.problems import TreeProblem
from opttree.tree import Tree


class _TAOTree(TreeEstimator):
    """The solver that the regressor and the classifier share."""

    def _solver(self, problem: TreeProblem) -> Any:
        solvers = bridge.solvers()
        inits = {
            "random": solvers.RandomInit,
            "cart": solvers.CartInit,
            "cluster": solvers.ClusterInit,
            "hinge": solvers.HingeInit,
        }
        nodes = {"liblinear": solvers.LiblinearNode, "sklearn": solvers.SklearnNode}
        if not isinstance(self.n_init, (int, np.integer)) or self.n_init < 1:
            raise ValueError(f"n_init must be an integer >= 1; got {self.n_init!r}")
        if not isinstance(self.max_iter, (int, np.integer)) or self.max_iter < 0:
            raise ValueError(f"max_iter must be an integer >= 0; got {self.max_iter!r}")
        init = self.init
        if not isinstance(init, (str, Tree)) and not hasattr(init, "build"):
            raise ValueError(f"init must be a name, an initial tree of `solvers` or a Tree; got {init!r}")
        if isinstance(init, str):
            if init not in ("auto", *inits):
                raise ValueError(f"init must be one of {['auto', *inits]} or an initial tree; got {init!r}")
            if init == "auto":
                init = "hinge" if problem.leaves == "linear" and problem.splits == "oblique" else "cart"
            init = inits[init]()
        elif isinstance(init, Tree):  # passed to `solve` as the start; restarts after it are random
            init = solvers.RandomInit()
        node_solver = self.node_solver
        if node_solver is not None and not isinstance(node_solver, str) and not hasattr(node_solver, "solve_level"):
            raise ValueError(f"node_solver must be a name or a node solver of `solvers`; got {node_solver!r}")
        if isinstance(node_solver, str):
            if node_solver not in ("newton", *nodes):
                raise ValueError(
                    f"node_solver must be one of {['newton', *nodes]} or a node solver; got {node_solver!r}"
                )
            by_default = problem.splits == "axis" or node_solver == "newton"
            node_solver = None if by_default else nodes[node_solver]()
        tao = solvers.TAO(max_iter=self.max_iter, init=init, node_solver=node_solver, accept=self.accept)
        return tao if self.n_init == 1 else solvers.MultiStart(tao, int(self.n_init))


class TAORegressor(RegressionTree, _TAOTree):
    """Regression tree by tree alternating optimization (TAO-c and TAO-l).

    Parameters
    ----------
    max_depth : int or "cv", default 6
        Largest depth of the tree, >= 1. "cv": the depth in 1..12 with the best mean score on held-out rows (up to 4
        levels past the best are tried), each depth's fit being no worse on its training rows than the one before. The
        depth is then in ``best_depth_``, the scores in ``cv_results_``.
    cv : int, float, splitter or iterable of splits, default 4
        For ``max_depth="cv"``: number of folds, share of the rows that is held out once, or as scikit-learn.
    leaves : {"constant", "linear"}, default "constant"
        TAO-c or TAO-l. Linear leaves need ``2 (p + 1)`` rows, smaller ones stay constant; they are clipped to the
        range that y and the fitted values have in common among their rows.
    splits : {"oblique", "axis"}, default "oblique"
        Hyperplanes, or single features with exact threshold search.
    loss : {"squared", "absolute"}, default "squared"
        Summed over the outputs. Absolute loss fits medians, linear leaves by reweighted least squares.
    max_iter : int, default 40
        Most passes over the tree (the paper's 40).
    split_penalty, leaf_penalty : float
        Penalty on the weights of the splits and of linear leaves, in units of the mean loss on standardised features
        and outputs: the objective is ``mean loss + split_penalty * sum_t |a_t|_1 + leaf_penalty * |coefs|_1``, a_t the
        weights of split t at unit length (axis-aligned splits have no penalty). The alpha of
        the paper's eq. (1), a sum over n rows, is ``alpha / n`` here (0.01 / n there). So stated, neither the number
        of rows nor the scale of the sample weights changes its meaning.
    l1_ratio : float, default 1
        1: the l1 penalty (lasso, the paper's); 0: ``penalty * |.|_2^2`` (ridge); between: a mixture of both.
    min_samples_leaf : int, default 1
        Fewest training rows in a leaf.
    accept : {"always", "improve"}, default "always"
        Take every new hyperplane (the paper's choice), or only those that do not raise the objective.
    init : {"auto", "random", "cart", "cluster", "hinge"}, an initial tree of `solvers`, or a `Tree`, default "auto"
        "auto" is "hinge" for linear leaves with oblique splits and "cart" otherwise. A `Tree` on raw features (another
        model's ``tree_``, say) is the start itself.
    n_init : int, default 1
        Restarts; the best training objective wins. With "cart" and "hinge" they differ in ties and random trials only.
    node_solver : {"newton", "liblinear", "sklearn"} or a node solver of `solvers`, default "newton"
        Solver of the oblique splits' logistic regressions.
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
    result_ : `solvers.Result` of the run; its tree and objective are on the standardised problem.
    n_iter_ : steps taken.

    References
    ----------
    Zharmagambetov and Carreira-Perpinan, "Smaller, more accurate regression forests using tree alternating
    optimization", ICML 2020.
    """

    def __init__(
        self,
        max_depth: int | str = 6,
        *,
        leaves: str = "constant",
        splits: str = "oblique",
        loss: str = "squared",
        max_iter: int = 40,
        cv: Any = 4,
        split_penalty: float = 1e-4,
        leaf_penalty: float = 1e-5,
        l1_ratio: float = 1.0,
        min_samples_leaf: int = 1,
        accept: str = "always",
        init: Any = "auto",
        n_init: int = 1,
        node_solver: Any = "newton",
        time_limit: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        on_interrupt: str = "raise",
    ) -> None:
        self.max_depth = max_depth
        self.leaves = leaves
        self.splits = splits
        self.loss = loss
        self.max_iter = max_iter
        self.cv = cv
        self.split_penalty = split_penalty
        self.leaf_penalty = leaf_penalty
        self.l1_ratio = l1_ratio
        self.min_samples_leaf = min_samples_leaf
        self.accept = accept
        self.init = init
        self.n_init = n_init
        self.node_solver = node_solver
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.on_interrupt = on_interrupt


class TAOClassifier(ClassificationTree, _TAOTree):
    """Classification tree by tree alternating optimization.

    Parameters are those of `TAORegressor`, but for:

    Parameters
    ----------
    leaves : {"constant", "linear"}, default "constant"
        Class frequencies, or multinomial logistic regressions.
    loss : {"zero_one", "log"}, default "zero_one"
        Misclassification rate, or cross-entropy (capped at ``-log(1e-6)`` per row). The objective is this mean loss
        plus the penalties; y is not scaled.

    Attributes
    ----------
    classes_ : (K,) class labels.
    tree_, result_, n_iter_ : as `TAORegressor`.
    """

    def __init__(
        self,
        max_depth: int | str = 6,
        *,
        leaves: str = "constant",
        splits: str = "oblique",
        loss: str = "zero_one",
        max_iter: int = 40,
        cv: Any = 4,
        split_penalty: float = 1e-4,
        leaf_penalty: float = 1e-4,
        l1_ratio: float = 1.0,
        min_samples_leaf: int = 1,
        accept: str = "always",
        init: Any = "auto",
        n_init: int = 1,
        node_solver: Any = "newton",
        time_limit: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        on_interrupt: str = "raise",
    ) -> None:
        self.max_depth = max_depth
        self.leaves = leaves
        self.splits = splits
        self.loss = loss
        self.max_iter = max_iter
        self.cv = cv
        self.split_penalty = split_penalty
        self.leaf_penalty = leaf_penalty
        self.l1_ratio = l1_ratio
        self.min_samples_leaf = min_samples_leaf
        self.accept = accept
        self.init = init
        self.n_init = n_init
        self.node_solver = node_solver
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.on_interrupt = on_interrupt
