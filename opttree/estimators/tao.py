"""`TAORegressor` and `TAOClassifier`: single trees by tree alternating optimization."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from opttree.estimators.base import TreeEstimator
from opttree.estimators.checks import check_columns
from opttree.problems import TreeProblem
from opttree.tree import Tree


class _TAOTree(TreeEstimator):
    """Options and solver that the regressor and the classifier share."""

    def _solver(self, problem: TreeProblem) -> Any:
        import solvers

        inits = {
            "random": solvers.RandomInit,
            "cart": solvers.CartInit,
            "cluster": solvers.ClusterInit,
            "hinge": solvers.HingeInit,
        }
        nodes = {"newton": solvers.NewtonNode, "liblinear": solvers.LiblinearNode, "sklearn": solvers.SklearnNode}
        if not isinstance(self.n_init, (int, np.integer)) or self.n_init < 1:
            raise ValueError(f"n_init must be an integer >= 1; got {self.n_init!r}")
        init = self.init
        if isinstance(init, str):
            if init not in ("auto", *inits):
                raise ValueError(f"init must be one of {['auto', *inits]} or an initial tree; got {init!r}")
            if init == "auto":
                init = "hinge" if problem.leaves == "linear" and problem.splits == "oblique" else "cart"
            init = inits[init]()
        node_solver = self.node_solver
        if isinstance(node_solver, str):
            if node_solver not in nodes:
                raise ValueError(f"node_solver must be one of {list(nodes)} or a node solver; got {node_solver!r}")
            node_solver = None if problem.splits == "axis" else nodes[node_solver]()
        tao = solvers.TAO(max_iter=self.max_iter, init=init, node_solver=node_solver, accept=self.accept)
        return tao if self.n_init == 1 else solvers.MultiStart(tao, int(self.n_init))


class TAORegressor(MultiOutputMixin, RegressorMixin, _TAOTree):
    """Regression tree by tree alternating optimization (TAO).

    Parameters
    ----------
    max_depth : largest depth, >= 1.
    leaves : "constant" (TAO-c) or "linear" (TAO-l).
    splits : "oblique" or "axis".
    """

    def __init__(
        self,
        max_depth: int = 6,
        *,
        leaves: str = "constant",
        splits: str = "oblique",
        loss: str = "squared",
        max_iter: int = 40,
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
    ) -> None:
        self.max_depth = max_depth
        self.leaves = leaves
        self.splits = splits
        self.loss = loss
        self.max_iter = max_iter
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

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> TAORegressor:
        check_columns(X)
        X, y = validate_data(self, X, y, dtype=np.float64, order="C", multi_output=True, y_numeric=True)
        self._fit(X, y.astype(np.float64), sample_weight)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        return self.tree_.predict(self._validated(X))


class TAOClassifier(ClassifierMixin, _TAOTree):
    """Classification tree by TAO."""

    def __init__(
        self,
        max_depth: int = 6,
        *,
        leaves: str = "constant",
        splits: str = "oblique",
        loss: str = "zero_one",
        max_iter: int = 40,
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
    ) -> None:
        self.max_depth = max_depth
        self.leaves = leaves
        self.splits = splits
        self.loss = loss
        self.max_iter = max_iter
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

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> TAOClassifier:
        check_columns(X)
        X, y = validate_data(self, X, y, dtype=np.float64, order="C")
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        self._fit(X, y, sample_weight)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        return self.tree_.predict_proba(self._validated(X))
