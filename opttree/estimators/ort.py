"""`ORTRegressor` and `OCTClassifier`: optimal trees, by local search or with a proof."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree import bridge
from opttree.estimators.base import ClassificationTree, Floats, RegressionTree, TreeEstimator
from opttree.problems import L1, L2, SplitPrice, TreeProblem
from opttree.tree import Tree

PROOF_WORK = 1e9  # rows x features x sets of rows, up to which "auto" proves
LINEAR_WORK = 50.0  # of a linear leaf, in that of a constant one
STARTS = {"constant": 20, "linear": 3}
LEAST_ROWS = {"constant": 1, "linear": 10}


class _OptimalTree(TreeEstimator):
    """What both share."""

    split_penalty = 0.0
    starts_compete = True

    def _check_options(self) -> None:
        super()._check_options()
        if self.solver not in ("local", "mip", "auto"):
            raise ValueError(f"solver must be 'local', 'mip' or 'auto'; got {self.solver!r}")
        bridge.solvers().MIP(formulation=self.formulation, gap=self.gap)  # checks them
        if self.n_thresholds != "all" and (
            not isinstance(self.n_thresholds, (int, np.integer)) or isinstance(self.n_thresholds, bool)
        ):
            raise ValueError(f"n_thresholds must be 'all' or an integer >= 1; got {self.n_thresholds!r}")
        if not (isinstance(self.cp, (int, float, np.number)) and np.isfinite(self.cp) and self.cp >= 0):
            raise ValueError(f"cp must be a finite number >= 0; got {self.cp!r}")
        if self.n_init is not None and (not isinstance(self.n_init, (int, np.integer)) or self.n_init < 1):
            raise ValueError(f"n_init must be an integer >= 1 or None; got {self.n_init!r}")
        if self.init is not None and not isinstance(self.init, Tree):
            raise ValueError(f"init must be a Tree on raw features or None; got {self.init!r}")

    @property
    def _min_leaf(self) -> int:
        return LEAST_ROWS[self.leaves] if self.min_samples_leaf is None else self.min_samples_leaf

    def state(
        self, X: Floats, y: NDArray[Any], sample_weight: Floats | None = None
    ) -> tuple[TreeProblem, tuple[Floats, ...]]:
        """The `TreeProblem` that `fit` solves, as in the other estimators, with the price of a split: ``cp`` times the
        loss of the best constant.
        """
        problem, scaling = super().state(X, y, sample_weight)
        if self.cp:
            constant = Tree.constant(np.zeros(problem.n_outputs), problem.n_features, problem.classes)
            loss = problem.mean_loss(problem.fit_leaves(constant, leaves="constant"))
            problem = replace(problem, penalties=(*problem.penalties, SplitPrice(float(self.cp * loss))))
        return problem, scaling

    def _solver(self, problem: TreeProblem) -> Any:
        solvers = bridge.solvers()
        leaves = problem.leaves
        local = solvers.LocalSearch(
            n_starts=STARTS[leaves] if self.n_init is None else int(self.n_init),
            n_thresholds="auto" if self.n_thresholds == "all" else self.n_thresholds,
            max_splits=self.max_splits,
        )
        mip = solvers.MIP(
            formulation=self.formulation, n_thresholds=self.n_thresholds, max_splits=self.max_splits, gap=self.gap
        )
        if self.solver == "local":
            return local
        if local.supports(problem) is not None:
            return mip
        if self.solver == "auto" and not self._is_provable(problem, mip):
            return local
        return replace(mip, init=replace(local, n_starts=1))

    def _is_provable(self, problem: TreeProblem, mip: Any) -> bool:
        """Whether an exact solution is a matter of seconds."""
        if self.formulation != "hyperflow" or mip.supports(problem) is not None:
            return False
        if problem.splits == "oblique":
            candidates = problem.n_samples**2
        else:
            candidates = sum(np.unique(column).size - 1 for column in problem.X.T)
            if self.n_thresholds != "all":
                candidates = min(candidates, self.n_thresholds * problem.n_features)
        sets = (2.0 * candidates) ** (problem.depth - 1) / 2.0 ** max(problem.depth - 2, 0)
        work = sets * problem.n_samples * (candidates if problem.splits == "oblique" else problem.n_features)
        if problem.leaves == "linear":
            work *= LINEAR_WORK * candidates / problem.n_features
        return bool(work <= PROOF_WORK)

    def _solve(
        self, problem: TreeProblem, start: Tree | None, seed: int | None, time_limit: float | None, watch: Any = None
    ) -> Any:
        result = super()._solve(problem, start, seed, time_limit, watch)
        self.bound_, self.gap_ = result.bound, result.gap
        self.is_optimal_ = result.termination.name == "OPTIMAL"
        return result

    def _final(self, problem: TreeProblem, tree: Tree) -> Tree:
        """Linear leaves of "mip" are exact and have no bounds: for prediction they get them."""
        return tree if tree.lower is not None else problem.bound_leaves(tree)


class ORTRegressor(RegressionTree, _OptimalTree):
    """Optimal regression tree (ORT, ORT-L; with oblique splits ORT-H, ORT-LH).

    Parameters
    ----------
    max_depth : int or "cv", default 3
        Largest depth of the tree, >= 1; "cv" as in `TAORegressor`.
    splits : {"axis", "oblique"}, default "axis"
    leaves : {"constant", "linear"}, default "constant"
    loss : {"squared", "absolute"}, default "squared"
    leaf_penalty : float, default 1e-3
        Penalty on the weights of linear leaves, in units of the mean loss on standardised features and outputs.
    l1_ratio : float, default 1
        1: lasso (ORT-L); 0: ridge; between: a mixture of both.
    solver : {"auto", "local", "mip"}, default "auto"
        "local": `solvers.LocalSearch`, not for linear leaves of absolute loss. "mip": `solvers.MIP` from a tree of
        local search, with a proof. "auto": "mip" where a proof takes some seconds at most, "local" elsewhere.
    formulation : {"hyperflow", "flow", "big-m"}, default "hyperflow"
        Of "mip", see `opttree.problems.MIPTreeProblem`.
    cp : float, default 0
        Complexity price of a split, as a share of the loss of the best constant.
    max_splits : int or None
        Most splits of the tree.
    n_thresholds : "all" or int, default "all"
        Candidate thresholds per feature; a proof is over trees of these. Local search tries so many first (by default,
        for linear leaves of many features, fewer than all), and then those next to the best.
    gap : float or None, default None
        Relative gap that counts as proved; None as in `solvers.MIP`.
    min_samples_leaf : int or None, default None
        Fewest training rows in a leaf; None is 1 for constant leaves and 10 for linear ones (the better of 1, 5, 10 and
        20 over depths 2 and 3 on inner folds of the training parts of six small data sets).
    n_init : int or None, default None
        Searches of "local"; None is 20 for constant leaves, 3 for linear ones.
    init : `Tree` on raw features, default None
        A tree to start from.
    cv, time_limit, random_state, n_jobs, verbose, on_interrupt : as in `TAORegressor`.

    Attributes
    ----------
    tree_ : `opttree.Tree` on raw features; linear leaves are bounded by what y and their fitted values have in common.
    bound_, gap_ : proved lower bound of ``result_.objective`` and relative gap, None without a proof.
    is_optimal_ : whether the tree is proved optimal among those of the candidate splits.
    result_ : `solvers.Result` of the run; its tree and objective are on the standardised problem.
    n_iter_ : steps taken.

    References
    ----------
    Bertsimas and Dunn, "Optimal classification trees", Machine Learning 106 (2017); "Machine Learning Under a Modern
    Optimization Lens" (2019).
    """

    def __init__(
        self,
        max_depth: int | str = 3,
        *,
        splits: str = "axis",
        leaves: str = "constant",
        loss: str = "squared",
        solver: str = "auto",
        formulation: str = "hyperflow",
        cp: float = 0.0,
        max_splits: int | None = None,
        n_thresholds: int | str = "all",
        leaf_penalty: float = 1e-3,
        l1_ratio: float = 1.0,
        gap: float | None = None,
        min_samples_leaf: int | None = None,
        n_init: int | None = None,
        init: Any = None,
        cv: Any = 4,
        time_limit: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        on_interrupt: str = "raise",
    ) -> None:
        self.max_depth = max_depth
        self.splits = splits
        self.leaves = leaves
        self.loss = loss
        self.solver = solver
        self.formulation = formulation
        self.cp = cp
        self.max_splits = max_splits
        self.n_thresholds = n_thresholds
        self.leaf_penalty = leaf_penalty
        self.l1_ratio = l1_ratio
        self.gap = gap
        self.min_samples_leaf = min_samples_leaf
        self.n_init = n_init
        self.init = init
        self.cv = cv
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.on_interrupt = on_interrupt

    def _penalties(self, weight: Floats, n_features: int) -> tuple[L1 | L2, ...]:
        return super()._penalties(weight, n_features) if self.leaves == "linear" else ()


class OCTClassifier(ClassificationTree, _OptimalTree):
    """Optimal classification tree (OCT; with oblique splits OCT-H), leaves of class frequencies.

    Parameters
    ----------
    max_depth : int or "cv", default 3
        Largest depth of the tree, >= 1; "cv" as in `TAORegressor`.
    splits : {"axis", "oblique"}, default "axis"
    loss : {"zero_one", "log"}, default "zero_one"
    solver, formulation, cp, max_splits, n_thresholds, gap, min_samples_leaf, n_init, init : as in `ORTRegressor`.
    cv, time_limit, random_state, n_jobs, verbose, on_interrupt : as in `TAORegressor`.

    Attributes
    ----------
    tree_, bound_, gap_, is_optimal_, result_, n_iter_ : as in `ORTRegressor`.
    classes_ : (K,) labels.

    References
    ----------
    As in `ORTRegressor`.
    """

    leaves = "constant"
    leaf_penalty = l1_ratio = 0.0

    def __init__(
        self,
        max_depth: int | str = 3,
        *,
        splits: str = "axis",
        loss: str = "zero_one",
        solver: str = "auto",
        formulation: str = "hyperflow",
        cp: float = 0.0,
        max_splits: int | None = None,
        n_thresholds: int | str = "all",
        gap: float | None = None,
        min_samples_leaf: int | None = None,
        n_init: int | None = None,
        init: Any = None,
        cv: Any = 4,
        time_limit: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        on_interrupt: str = "raise",
    ) -> None:
        self.max_depth = max_depth
        self.splits = splits
        self.loss = loss
        self.solver = solver
        self.formulation = formulation
        self.cp = cp
        self.max_splits = max_splits
        self.n_thresholds = n_thresholds
        self.gap = gap
        self.min_samples_leaf = min_samples_leaf
        self.n_init = n_init
        self.init = init
        self.cv = cv
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.on_interrupt = on_interrupt
