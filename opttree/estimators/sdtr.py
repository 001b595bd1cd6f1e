"""`SDTRRegressor`: soft decision tree regressors, one tree, an average of trees, or layers of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from opttree import bridge
from opttree.estimators.base import Floats, RegressionTree, solve_and_keep, spread, with_training
from opttree.estimators.streaming import StreamingSDTR
from opttree.forest import Forest
from opttree.interpret import average_entropy, feature_importance
from opttree.preprocessing import NormalQuantiles
from opttree.problems import TreeProblem
from opttree.tree import Tree

OPTIONS = (  # of `solvers.SDTR`
    "n_trees",
    "n_layers",
    "tree_output_dim",
    "aggregation",
    "path_penalty",
    "l1",
    "beta",
    "learning_rate",
    "reweight",
    "batch_size",
    "max_batches",
    "patience",
    "device",
)
ANSWERS = {"mixture": Tree.outputs, "leaf": Tree.likeliest}


class SDTRRegressor(RegressionTree, StreamingSDTR):
    """Soft decision tree regressor (SDTR): single, averaged ("shallow": ``n_trees``), in layers ("deep": ``n_layers``).

    Parameters
    ----------
    max_depth : int or "cv", default 7
        Levels of splits, >= 1 (the paper's depth less one); "cv" as in `TAORegressor`.
    n_trees : int, default 1
        Trees of a layer.
    n_layers : int, default 1
        Layers: the trees of each read the outputs of those before as further features.
    tree_output_dim : int or None, default None
        Numbers per leaf, of which the first ones predict and all go to later layers; None: one for each output.
    aggregation, path_penalty, l1, beta, learning_rate, reweight, batch_size, max_batches, patience :
        See `solvers.SDTR`; ``path_penalty`` and ``l1`` are the paper's lambda_1 and lambda_2.
    validation_fraction : float or None, default 0.1
        Share of the rows that is held out to stop early; None: the training rows judge.
    prediction : {"mixture", "leaf"}, default "mixture"
        Whether trees answer with all leaves weighted by their probabilities, or with the most probable one.
    quantile_transform : bool, default True
        Whether features are transformed to normal quantiles first, as in the paper, or standardised.
    init : `Tree`, default None
        A tree on the features as ``tree_`` reads them, in place of the first tree's random numbers.
    device : {"cpu", "gpu", "auto"}, default "cpu"
        Where batches are evaluated; see `GETRegressor`. It is for many trees: batches of one are too small to gain.
    cv, time_limit, random_state, n_jobs, verbose, on_interrupt : as in `TAORegressor`.

    Attributes
    ----------
    forest_ : `opttree.Forest` of all trees, mixtures all. It reads ``transformer_.transform(X)`` with
        ``quantile_transform``, raw features otherwise.
    tree_ : its tree, where it is one (AttributeError otherwise).
    transformer_ : the fitted quantile transform, or None.
    average_entropy_ : the paper's eq. (12) on the training scale, see `opttree.interpret.average_entropy`.
    feature_importances_ : (p,), from the weights near the root, see `opttree.interpret.feature_importance`.
    validation_loss_ : squared error of the standardised outputs, summed over them, on the held-out rows by which theta
        was chosen; infinite where there was no choice, as for constant y.
    result_ : `solvers.Result` of the run; its model and objective are on the scaled problem.
    n_iter_ : steps taken.

    References
    ----------
    Luo, Cheng, Yu and Yi, "SDTR: soft decision tree regressor for tabular data", IEEE Access 9 (2021).
    """

    splits = "oblique"
    leaves = "constant"
    loss = "squared"
    split_penalty = leaf_penalty = l1_ratio = 0.0
    min_samples_leaf = 1

    def __init__(
        self,
        max_depth: int | str = 7,
        *,
        n_trees: int = 1,
        n_layers: int = 1,
        tree_output_dim: int | None = None,
        aggregation: str | None = None,
        path_penalty: float = 0.3,
        l1: float = 0.005,
        beta: float = 1.5,
        learning_rate: float = 0.003,
        reweight: bool = True,
        batch_size: int = 1024,
        max_batches: int = 50_000,
        patience: int = 1000,
        validation_fraction: float | None = 0.1,
        prediction: str = "mixture",
        quantile_transform: bool = True,
        init: Tree | None = None,
        cv: Any = 4,
        device: str = "cpu",
        time_limit: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        on_interrupt: str = "raise",
    ) -> None:
        self.max_depth = max_depth
        self.n_trees = n_trees
        self.n_layers = n_layers
        self.tree_output_dim = tree_output_dim
        self.aggregation = aggregation
        self.path_penalty = path_penalty
        self.l1 = l1
        self.beta = beta
        self.learning_rate = learning_rate
        self.reweight = reweight
        self.batch_size = batch_size
        self.max_batches = max_batches
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.prediction = prediction
        self.quantile_transform = quantile_transform
        self.init = init
        self.cv = cv
        self.device = device
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.on_interrupt = on_interrupt

    @property
    def tree_(self) -> Tree:  # type: ignore[override]
        """The tree, where there is one."""
        check_is_fitted(self, "forest_")
        if len(self.forest_.trees) > 1:
            raise AttributeError(
                f"tree_ is for a single tree; this is a forest of {len(self.forest_.trees)}: see forest_"
            )
        return self.forest_.trees[0]

    def _check_options(self) -> None:
        super()._check_options()
        if self.init is not None and not isinstance(self.init, Tree):
            raise ValueError(f"init must be a Tree or None; got {self.init!r}")
        fraction = self.validation_fraction
        if fraction is not None and not (isinstance(fraction, (float, np.floating)) and 0.0 < fraction < 1.0):
            raise ValueError(f"validation_fraction must be between 0 and 1, or None; got {fraction!r}")
        self._sdtr()  # checks the options that it takes
        if self.prediction not in ANSWERS:
            raise ValueError(f"prediction must be one of {list(ANSWERS)}; got {self.prediction!r}")

    def state(
        self, X: Floats, y: NDArray[Any], sample_weight: Floats | None = None
    ) -> tuple[TreeProblem, tuple[Floats, ...]]:
        """The `TreeProblem` that `fit` solves, on normal quantiles or standardised features: `TreeEstimator.state`."""
        return self._stated(self._transformer(X, sample_weight), X, y, sample_weight)

    def _state_of_fit(self, X: Floats, y: NDArray[Any], weight: Floats) -> tuple[TreeProblem, tuple[Floats, ...]]:
        self.transformer_ = self._transformer(X, weight)
        return self._stated(self.transformer_, X, y, weight)

    def _transformer(self, X: Floats, sample_weight: Floats | None) -> NormalQuantiles | None:
        """The quantile transform of the rows of positive weight."""
        some = X if sample_weight is None or not sample_weight.any() else X[sample_weight != 0.0]
        return NormalQuantiles(random_state=0).fit(some) if self.quantile_transform else None

    def _stated(
        self, transformer: NormalQuantiles | None, X: Floats, y: NDArray[Any], sample_weight: Floats | None
    ) -> tuple[TreeProblem, tuple[Floats, ...]]:
        return super().state(X if transformer is None else transformer.transform(X), y, sample_weight)

    def _feature_units(self, X: Floats, weight: Floats) -> tuple[Floats, Floats]:
        if self.quantile_transform:
            return np.zeros(X.shape[1]), np.ones(X.shape[1])
        return super()._feature_units(X, weight)

    def _transformed(self, X: Floats) -> Floats:
        return X if self.transformer_ is None else self.transformer_.transform(X)

    def _solver(self, problem: TreeProblem) -> Any:
        return self._sdtr()

    def _sdtr(self) -> Any:
        options = {name: getattr(self, name) for name in OPTIONS}
        return bridge.solvers().SDTR(validation=self.validation_fraction, **options)

    def _solve(
        self, problem: TreeProblem, start: Tree | None, seed: int | None, time_limit: float | None, watch: Any = None
    ) -> Any:
        """Solve, and keep the model of the lowest loss on the held-out rows."""
        result, self.validation_loss_ = solve_and_keep(
            "validation",
            lambda judge: super(SDTRRegressor, self)._solve(problem, start, seed, time_limit, judge),
            watch,
        )
        return result

    def _keep(self, problem: TreeProblem, scaling: tuple[Floats, ...], X: Floats, weight: Floats) -> None:
        self._keep_model(self.result_.tree, problem, scaling)
        X = self._transformed(X)
        if isinstance(self.result_.tree, Tree):
            self.forest_ = Forest(((with_training(self.tree_, X, weight),),), problem.n_outputs)
        else:
            self.forest_ = self.forest_.with_spread(spread(X, weight))
        self.feature_importances_ = feature_importance(self.forest_)  # in units of the features

    def _keep_model(self, model: Tree | Forest, problem: TreeProblem, scaling: tuple[Floats, ...]) -> None:
        self.average_entropy_, self.feature_importances_ = average_entropy(model), feature_importance(model)
        unscaled = model.unscale(*scaling)
        self.forest_ = Forest(((unscaled,),), problem.n_outputs) if isinstance(unscaled, Tree) else unscaled

    @property
    def _merit(self) -> float:
        return self.validation_loss_

    def _validated(self, X: Any) -> Floats:
        return self._transformed(super()._validated(X))

    def predict(self, X: Any) -> Floats:
        """Predictions (n,), or (n, K) with several outputs."""
        X = self._validated(X)
        scores = self.forest_.outputs(X, ANSWERS[self.prediction])
        return scores[:, 0] if scores.shape[1] == 1 else scores
