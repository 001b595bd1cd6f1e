"""`SRTRegressor` and `ORRTRegressor`: soft regression trees with single-leaf and with mixed predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from opttree import bridge
from opttree.estimators.base import Floats, RegressionTree, TreeEstimator, minmax, moments, solve_and_keep
from opttree.problems import L1, L2, TreeProblem
from opttree.tree import Tree

SPLIT_RIDGE, LEAF_RIDGE = 0.01, 0.03  # times p / n, see `SRTRegressor`


class _SoftTree(TreeEstimator):
    """What both share."""

    splits = "oblique"
    loss = "squared"
    split_penalty = leaf_penalty = l1_ratio = 0.0  # `l2` takes their place

    def _check_options(self) -> None:
        super()._check_options()
        self._strengths(2, 1)
        for name in ("n_init", "max_iter"):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{name} must be an integer >= 1; got {value!r}")

    def _strengths(self, n: float, p: int) -> tuple[float, float]:
        """Strengths of the l2 penalties on splits and leaves, for n rows and p features."""
        if isinstance(self.l2, str):
            if self.l2 == "auto":
                return SPLIT_RIDGE * p / n, LEAF_RIDGE * p / n
            if self.l2 == "paper":  # lambda / 2 |.|^2, lambda = 2 / (p nodes), on split weights p times ours
                n_leaves = 2 ** self._depth_for(0)
                return p / (n_leaves - 1), 1.0 / (p * n_leaves)
        else:
            pair = self.l2 if isinstance(self.l2, (tuple, list, np.ndarray)) else (self.l2, self.l2)
            numbers = [isinstance(v, (int, float, np.number)) and np.isfinite(v) and v >= 0 for v in pair]
            if len(pair) == 2 and all(numbers):
                return float(pair[0]), float(pair[1])
        raise ValueError(f"l2 must be 'auto', 'paper', a number >= 0 or a pair of them; got {self.l2!r}")

    def _penalties(self, weight: Floats, n_features: int) -> tuple[L1 | L2, ...]:
        n = max(float(weight.sum()), float(np.count_nonzero(weight)))
        splits, leaves = self._strengths(n, n_features)
        return (L2(splits=splits, leaves=leaves if self.leaves == "linear" else 0.0),)

    def _feature_units(self, X: Floats, weight: Floats) -> tuple[Floats, Floats]:
        return (minmax if self.l2 == "paper" else moments)(X, weight)

    def predict_soft(self, X: Any) -> Floats:
        """Means of all leaves' predictions by their probabilities: (n,), or (n, K) with several outputs."""
        X = self._validated(X)
        return self.tree_.as_mixture.predict(X)

    def leaf_proba(self, X: Any) -> Floats:
        """Probability of each leaf: (n, leaves), in the order of ``tree_``."""
        X = self._validated(X)
        return self.tree_.leaf_proba(X)


class SRTRegressor(RegressionTree, _SoftTree):
    """Soft regression tree with single-leaf predictions, trained by node-based decomposition (NODEC-DR).

    Parameters
    ----------
    max_depth : int or "cv", default 3
        Depth of the complete tree, >= 1; "cv" as in `TAORegressor`.
    cv : for ``max_depth="cv"``, as in `TAORegressor`.
    leaves : {"linear", "constant"}, default "linear"
        The paper's are linear.
    l2 : "auto", "paper", float or pair of floats, default "auto"
        l2 penalty: the objective is ``mean loss + l2_splits |A|^2 + l2_leaves |coefs|^2`` on scaled features and
        standardised outputs; constant terms are free. "auto": features are standardised, and the pair is
        ``(.01 p / n, .03 p / n)`` for p features and n, the sum of the weights (they count as repeated rows) or the
        number of rows, whichever is larger: one setting, chosen on inner folds of training parts of ten of the paper's
        data sets. "paper": features are scaled to [0, 1], and the
        lambdas are the printed ``2 / (p |branches|)`` and ``2 / (p |leaves|)``, which underfit.
    init : {"hinge", "cluster", "cart", "random"}, an initial tree of `solvers`, or a `Tree`, default "hinge"
        Start. "cluster" is the paper's; hinging hyperplanes take less time and led to the same or better trees.
    steepness : float or None, default 1
        Deviation of the gates' arguments at the start, over the rows that pass a node; None: the split weights of
        ``init`` are taken as they are.
    n_init : int, default 1
        Restarts; the lowest smooth objective wins.
    max_iter : int, default 10
        Macro iterations, the paper's M_it.
    k0 : int or None, default None
        None: the early-stopped version of the paper's experiments. An integer: from inner iteration k0 on, steps are
        exact and the conditions for convergence are enforced; see `solvers.NODEC`.
    joint_iterations : int, default 50
        Iterations of L-BFGS on all variables at the end; 0 for the paper's method alone.
    clip : bool, default True
        Bound the leaves' predictions by the range of y in training.
    min_samples_leaf : int, default 1
        Fewest training rows in a leaf; smaller leaves are cut off at the end.
    device : {"cpu", "gpu", "auto"}, default "cpu"
        Where the objectives are evaluated that have 2000 rows or more; see `GETRegressor`.
    time_limit, random_state, n_jobs, verbose, on_interrupt : as in `TAORegressor`.

    Attributes
    ----------
    tree_ : `opttree.Tree` on raw features, with its gates.
    smooth_objective_ : smooth objective of the tree on the scaled problem.
    result_ : `solvers.Result` of the run; its tree and (hard) objective are on the scaled problem.
    n_iter_ : steps taken.

    References
    ----------
    Consolo, Amaldi and Manno, "Soft regression trees: a model variant and a decomposition training algorithm" (2024).
    """

    def __init__(
        self,
        max_depth: int | str = 3,
        *,
        l2: Any = "auto",
        init: Any = "hinge",
        steepness: float | None = 1.0,
        n_init: int = 1,
        max_iter: int = 10,
        k0: int | None = None,
        joint_iterations: int = 50,
        clip: bool = True,
        leaves: str = "linear",
        cv: Any = 4,
        min_samples_leaf: int = 1,
        device: str = "cpu",
        time_limit: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        on_interrupt: str = "raise",
    ) -> None:
        self.max_depth = max_depth
        self.l2 = l2
        self.init = init
        self.steepness = steepness
        self.n_init = n_init
        self.max_iter = max_iter
        self.k0 = k0
        self.joint_iterations = joint_iterations
        self.clip = clip
        self.leaves = leaves
        self.cv = cv
        self.min_samples_leaf = min_samples_leaf
        self.device = device
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.on_interrupt = on_interrupt

    def _solver(self, problem: TreeProblem) -> Any:
        solvers = bridge.solvers()
        inits = {
            "hinge": solvers.HingeInit(n_random=6, n_moves=12),
            "cluster": solvers.ClusterInit(n_init=1, n_repeats=3),
            "cart": solvers.CartInit(),
            "random": solvers.RandomInit(),
        }
        if isinstance(self.init, str) and self.init not in inits:
            raise ValueError(f"init must be one of {list(inits)}, an initial tree or a Tree; got {self.init!r}")
        if not isinstance(self.init, (str, Tree)) and not isinstance(self.init, bridge.solvers().Solver):
            raise ValueError(f"init must be a name, an initial tree of `solvers` or a Tree; got {self.init!r}")
        if not isinstance(self.joint_iterations, (int, np.integer)) or self.joint_iterations < 0:
            raise ValueError(f"joint_iterations must be an integer >= 0; got {self.joint_iterations!r}")
        if self.k0 is not None and (not isinstance(self.k0, (int, np.integer)) or self.k0 < 0):
            raise ValueError(f"k0 must be an integer >= 0 or None; got {self.k0!r}")
        init = "hinge" if isinstance(self.init, Tree) else self.init  # a Tree is the start itself
        init = inits[init] if isinstance(init, str) else init
        nodec = solvers.NODEC(
            init=init,
            steepness=self.steepness,
            max_iter=int(self.max_iter),
            k0=self.k0,
            clip=bool(self.clip),
            joint_iterations=int(self.joint_iterations),
            device=self.device,
        )
        return nodec if self.n_init == 1 else solvers.MultiStart(nodec, int(self.n_init))

    def _solve(
        self, problem: TreeProblem, start: Tree | None, seed: int | None, time_limit: float | None, watch: Any = None
    ) -> Any:
        """Solve, and keep the tree of the lowest smooth objective, as the paper does, not of the lowest hard one."""
        result, self.smooth_objective_ = solve_and_keep(
            "smooth", lambda judge: super(SRTRegressor, self)._solve(problem, start, seed, time_limit, judge), watch
        )
        return result

    @property
    def _merit(self) -> float:
        return self.smooth_objective_


class ORRTRegressor(RegressionTree, _SoftTree):
    """Soft regression tree that answers with the mixture of all leaves, trained as one smooth problem (ORRT).

    Parameters
    ----------
    max_depth, cv, leaves, l2, time_limit, random_state, n_jobs, verbose, on_interrupt : as in `SRTRegressor`.
    method : {"L-BFGS-B", "SLSQP"}, default "L-BFGS-B"
        SciPy's minimiser; the paper uses SLSQP.
    init : `Tree` on raw features, default None
        A tree to start from; None: random numbers.
    n_init : int, default 1
        Starts; the best training objective wins.
    max_iter : int, default 500
        Iterations of each.
    device : {"cpu", "gpu", "auto"}, default "cpu"
        Where the objective is evaluated; see `GETRegressor`.

    Attributes
    ----------
    tree_, result_, n_iter_ : as in `SRTRegressor`; ``tree_`` is a mixture (one leaf for constant y).

    References
    ----------
    Blanquero, Carrizosa, Molero-Rio and Romero Morales, "On sparse optimal regression trees", EJOR 299 (2022).
    """

    min_samples_leaf = 1

    def __init__(
        self,
        max_depth: int | str = 3,
        *,
        l2: Any = "auto",
        method: str = "L-BFGS-B",
        init: Tree | None = None,
        n_init: int = 1,
        max_iter: int = 500,
        leaves: str = "linear",
        cv: Any = 4,
        device: str = "cpu",
        time_limit: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        on_interrupt: str = "raise",
    ) -> None:
        self.max_depth = max_depth
        self.l2 = l2
        self.method = method
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.leaves = leaves
        self.cv = cv
        self.device = device
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.on_interrupt = on_interrupt

    def _check_options(self) -> None:
        super()._check_options()
        if self.init is not None and not isinstance(self.init, Tree):
            raise ValueError(f"init must be a Tree on raw features or None; got {self.init!r}")

    def _solver(self, problem: TreeProblem) -> Any:
        orrt = bridge.solvers().ORRT
        return orrt(method=self.method, n_starts=int(self.n_init), max_iter=int(self.max_iter), device=self.device)
