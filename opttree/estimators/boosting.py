"""`BoostedTreesRegressor` and `BoostedTreesClassifier`: gradient boosting with optimised trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_regressor

from opttree import bridge
from opttree.estimators.base import ClassificationTree, Floats, RegressionTree, keep_last, spread
from opttree.estimators.forest import ForestModel
from opttree.forest import Forest
from opttree.problems import TreeProblem
from opttree.tree import Tree

DEPTHS = {"oblique": 5, "axis": 8}  # of the trees, by default
DEPTH = 4  # of the trees of other solvers
PASSES = 6  # of TAO per tree
ROWS = 10.0  # what the model of a leaf's parent is worth to it


def boosting_base(kind: str) -> Any:
    """The solver of "oblique" trees (TAO's) or "axis" ones (scikit-learn's, to a depth, with leaves of ours)."""
    members = {"oblique": "oblique", "axis": "cart"}
    return bridge.solvers().TAOForest(1, kind=members[kind], max_iter=PASSES, constant_iterations=1, shrinkage=ROWS)


class _BoostedTrees(ForestModel):
    """What the regressor and the classifier share."""

    splits = "oblique"
    leaf_penalty = 0.0
    init = None
    cv = 4

    def __init__(
        self,
        base: Any = "auto",
        *,
        n_estimators: int = 300,
        learning_rate: float = 0.1,
        max_depth: int | None = None,
        leaves: str = "linear",
        loss: str = "squared",
        subsample: float = 0.7,
        validation_fraction: float | None = 0.1,
        n_iter_no_change: int = 20,
        split_penalty: float = 1e-6,
        l1_ratio: float = 0.0,
        min_samples_leaf: int = 1,
        time_limit: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        on_interrupt: str = "raise",
    ) -> None:
        self.base = base
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.leaves = leaves
        self.loss = loss
        self.subsample = subsample
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.split_penalty = split_penalty
        self.l1_ratio = l1_ratio
        self.min_samples_leaf = min_samples_leaf
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.on_interrupt = on_interrupt

    def _check_options(self) -> None:
        depth = self.max_depth
        if depth is not None and not (isinstance(depth, (int, np.integer)) and depth >= 1):
            raise ValueError(f"max_depth must be an integer >= 1 or None; got {depth!r}")
        if not (isinstance(self.n_estimators, (int, np.integer)) and self.n_estimators >= 1):
            raise ValueError(f"n_estimators must be an integer >= 1; got {self.n_estimators!r}")
        if not (isinstance(self.n_iter_no_change, (int, np.integer)) and self.n_iter_no_change >= 1):
            raise ValueError(f"n_iter_no_change must be an integer >= 1; got {self.n_iter_no_change!r}")
        try:
            self.max_depth = depth or 1  # the rest is as for trees
            super()._check_options()
        finally:
            self.max_depth = depth
        solvers = bridge.solvers()
        if not (isinstance(self.base, solvers.Solver) or self.base in ("auto", *DEPTHS)):
            raise ValueError(f"base must be a solver or one of {['auto', *DEPTHS]}; got {self.base!r}")
        if not is_regressor(self) and self.loss != "log":
            raise ValueError(f"loss must be 'log', boosting needs a slope; got {self.loss!r}")
        for kind in self._kinds:
            self._boosting(kind)  # checks the options that it takes

    @property
    def _kinds(self) -> list[Any]:
        return list(DEPTHS) if self.base == "auto" else [self.base]

    def _depth_for(self, n_samples: int) -> int:
        return int(self.max_depth or DEPTH)

    def _boosting(self, kind: Any) -> Any:
        solvers = bridge.solvers()
        return solvers.Boosting(
            boosting_base(kind) if isinstance(kind, str) else kind,
            n_trees=self.n_estimators,
            learning_rate=self.learning_rate,
            subsample=self.subsample,
            validation=self.validation_fraction,
            patience=self.n_iter_no_change,
        )

    def _solve(
        self, problem: TreeProblem, start: Tree | None, seed: int | None, time_limit: float | None, watch: Any = None
    ) -> Any:
        """Solve with every kind of trees that ``base`` allows, and keep the one of the lowest held-out loss."""
        if seed is None:
            seed = int(np.random.default_rng().integers(2**31 - 1))
        results = {}
        for kind in self._kinds:
            depth = self.max_depth or (DEPTHS[kind] if isinstance(kind, str) else DEPTH)
            stated = problem.restated(depth=depth)
            share = None if time_limit is None else time_limit / len(self._kinds)
            results[kind] = keep_last(
                lambda callback, kind=kind, stated=stated, share=share: self._run(
                    self._boosting(kind), stated, start, seed, share, callback
                ),
                watch,
            )
            if results[kind].termination.name == "INTERRUPTED":
                break

        def loss(kind: Any) -> float:
            result = results[kind]
            held = result.trace.rows[-1].info.get("validation", np.inf)
            return held if self.validation_fraction is not None else result.objective

        self.base_ = min(results, key=loss)
        self.validation_loss_ = loss(self.base_)
        return results[self.base_]

    def _keep(self, problem: TreeProblem, scaling: tuple[Floats, ...], X: Floats, weight: Floats) -> None:
        model = self.result_.tree
        forest = model if isinstance(model, Forest) else Forest(((model,),), problem.n_outputs)
        self.forest_ = forest.unscale(*scaling).with_spread(spread(X, weight))
        self.n_estimators_ = len(self.forest_.trees)


class BoostedTreesRegressor(RegressionTree, _BoostedTrees):
    """Gradient boosting with shallow trees that are optimised as a whole, by default with linear leaves.

    Parameters
    ----------
    base : "auto", "oblique", "axis" or a solver, default "auto"
        Trees: oblique ones by passes of TAO over the whole tree; scikit-learn's randomised ones with leaves of ours;
        "auto" tries both, in twice the time, and keeps the one of the lower held-out loss. Or any solver of `solvers`,
        such as ``TAO(max_iter=10)``: every tree is then a problem of its own, which takes longer.
    n_estimators : int, default 300
        Most trees.
    learning_rate : share of each tree that is added, default 0.1.
    max_depth : int or None, default None
        Depth of the trees; None: 5 for oblique ones, 8 for axis-aligned ones, 4 for those of a solver.
    leaves : {"linear", "constant"}, default "linear"
    loss : {"squared", "absolute"}, default "squared"
    subsample : share of the rows that each tree gets, default 0.7.
    validation_fraction : share of the rows held out to choose the number of trees (0.1), or None.
    n_iter_no_change : trees without a lower held-out loss after which to stop.
    split_penalty, l1_ratio, min_samples_leaf, time_limit, random_state, n_jobs, verbose, on_interrupt :
        As in `TAORegressor`.

    Attributes
    ----------
    forest_ : `opttree.Forest`, whose mean is the boosted sum: its trees are scaled accordingly.
    n_estimators_ : trees that it has.
    base_ : what ``base="auto"`` chose.
    validation_loss_ : mean loss on the held-out rows, of standardised outputs.
    result_ : `solvers.Result` of the run.
    """


class BoostedTreesClassifier(ClassificationTree, _BoostedTrees):
    """Boosted classification trees under log loss: one multi-output tree per step for all classes' scores.

    Parameters and attributes are those of `BoostedTreesRegressor`, and:

    Parameters
    ----------
    loss : "log".

    Attributes
    ----------
    classes_ : (K,) class labels.
    """

    def __init__(
        self,
        base: Any = "auto",
        *,
        n_estimators: int = 300,
        learning_rate: float = 0.1,
        max_depth: int | None = None,
        leaves: str = "linear",
        loss: str = "log",
        subsample: float = 0.7,
        validation_fraction: float | None = 0.1,
        n_iter_no_change: int = 20,
        split_penalty: float = 1e-6,
        l1_ratio: float = 0.0,
        min_samples_leaf: int = 1,
        time_limit: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        on_interrupt: str = "raise",
    ) -> None:
        super().__init__(
            base,
            n_estimators=n_estimators,
            learning_rate=learning_rate,
            max_depth=max_depth,
            leaves=leaves,
            loss=loss,
            subsample=subsample,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            split_penalty=split_penalty,
            l1_ratio=l1_ratio,
            min_samples_leaf=min_samples_leaf,
            time_limit=time_limit,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            on_interrupt=on_interrupt,
        )
