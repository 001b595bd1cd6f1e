"""`SDTRRegressor` and `SDTRClassifier`: soft decision trees, one, an average of them, or layers."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from opttree.estimators import bridge
from opttree.estimators.base import Floats
from opttree.estimators.kinds import ForestEstimator, Preset, SingleTree, as_forest
from opttree.estimators.running import solve_and_keep
from opttree.estimators.scaling import Scaling, spread
from opttree.estimators.streaming import StreamingSDTR
from opttree.estimators.tasks import ClassificationTree, RegressionTree
from opttree.explain.importance import average_entropy, feature_importance
from opttree.model.convert import Model
from opttree.model.tree import Tree
from opttree.runtime.devices import Device
from opttree.runtime.options import changed, option
from opttree.statement import TreeProblem
from opttree.tables.preprocessing import NormalQuantiles

__all__ = ["SDTRClassifier", "SDTRRegressor"]

ANSWERS = {"mixture": Tree.outputs, "leaf": Tree.likeliest}


@dataclass(eq=False, repr=False)
class _SDTR(ForestEstimator, Preset, SingleTree):
    """Common part of the regressor and the classifier."""

    splits = "oblique"
    leaves = "constant"
    loss = "squared"
    takes_eval_set = True

    max_depth: int | Literal["cv"] = changed(
        7, 'Levels of splits (the paper\'s depth less one); "cv" as in `TAORegressor`.'
    )
    _: KW_ONLY
    n_trees: int = option(1, "Trees per layer.")
    n_layers: int = option(1, "Number of layers; each takes the outputs of the layers before as additional features.")
    tree_output_dim: int | None = option(
        None,
        "Numbers per leaf: the first are the predictions, all are inputs of later layers; None: one per output.",
    )
    aggregation: str | None = option(
        None,
        """Loss of the average or of each tree, see `solvers.SDTR`; None: as there, and "mixture" for several
        trees of the paper's preset.""",
    )
    path_penalty: float | None = option(None, "The paper's lambda_1; None: .3, and .01 for its preset.", least=0)
    l1: float | None = option(None, "The paper's lambda_2; None: .005, and .01 for its preset.", least=0)
    beta: float = option(1.5, "Initial inverse temperature of all gates.")
    learning_rate: float | None = option(
        None, "Learning rate of QHAdam; None: .003, and .001 for the paper's preset.", above=0
    )
    reweight: bool = option(True, "Whether the leaves' learning rate is multiplied by their number (section III-C).")
    batch_size: int = option(1024, "Largest number of rows in a batch.")
    max_batches: int = option(50_000, "Largest number of batches.")
    patience: int = option(1000, "A run stops after this many batches without a lower validation loss.")
    validation_fraction: float | None = option(
        0.1,
        "Share of the rows held out for early stopping; None: the training rows are used.",
        above=0,
        below=1,
    )
    prediction: Literal["mixture", "leaf"] = option(
        "mixture",
        "Whether trees predict the probability-weighted mean of all leaves, or the most probable leaf.",
    )
    quantile_transform: bool = option(
        True, "Whether features are transformed to normal quantiles first, as in the paper, or standardised."
    )
    init: Tree | None = changed(
        None, "A tree on the input features of ``tree_``; it replaces the random initial values of the first tree."
    )
    device: Device = option(
        "cpu",
        """Device of the descent, see `GETRegressor`. A GPU pays off for many trees; batches of a single tree are too
        small.""",
    )

    def state(self, X: Floats, y: NDArray[Any], sample_weight: Floats | None = None) -> tuple[TreeProblem, Scaling]:
        """The `TreeProblem` that `fit` solves, on normal quantiles or standardised features."""
        return self._stated(self._transformer(X, sample_weight), X, y, sample_weight)

    def _state_of_fit(self, X: Floats, y: NDArray[Any], weight: Floats) -> tuple[TreeProblem, Scaling]:
        self.transformer_ = self._transformer(X, weight)
        return self._stated(self.transformer_, X, y, weight)

    def _transformer(self, X: Floats, sample_weight: Floats | None) -> NormalQuantiles | None:
        """The quantile transform, fitted to the rows of positive weight."""
        some = X if sample_weight is None or not sample_weight.any() else X[sample_weight != 0.0]
        return NormalQuantiles(random_state=0).fit(some) if self.quantile_transform else None

    def _stated(
        self, transformer: NormalQuantiles | None, X: Floats, y: NDArray[Any], sample_weight: Floats | None
    ) -> tuple[TreeProblem, Scaling]:
        return super().state(X if transformer is None else transformer.transform(X), y, sample_weight)

    def _feature_units(self, X: Floats, weight: Floats) -> tuple[Floats, Floats]:
        if self.quantile_transform:
            return np.zeros(X.shape[1]), np.ones(X.shape[1])
        return super()._feature_units(X, weight)

    def _transformed(self, X: Floats) -> Floats:
        return X if self.transformer_ is None else self.transformer_.transform(X)

    def _solver(self, problem: TreeProblem) -> Any:
        given = {}
        if self._as_printed and self.aggregation is None and (self.n_trees * self.n_layers > 1 or self.tree_output_dim):
            given["aggregation"] = "mixture"
        return self._made(
            bridge.solvers.SDTR,
            **given,
            validation=self.validation_fraction if self._validation_rows is None else self._validation_rows,
        )

    def _solve(
        self, problem: TreeProblem, start: Tree | None, seed: int | None, time_limit: float | None, watch: Any = None
    ) -> Any:
        """Solve, and keep the model with the lowest validation loss."""
        result, self.validation_loss_ = solve_and_keep(
            "validation",
            lambda judge: super(_SDTR, self)._solve(problem, start, seed, time_limit, judge),
            watch,
        )
        return result

    def _keep(self, problem: TreeProblem, scaling: Scaling, X: Floats, weight: Floats) -> None:
        X = self._transformed(X)
        self._keep_model(self.result_.tree, problem, scaling, spread(X, weight))
        if isinstance(self.result_.tree, Tree):
            tree = self.tree_.with_share(self.tree_.node_share(X, weight))
            self.forest_ = as_forest(tree, problem.n_outputs)

    def _keep_model(self, model: Model, problem: TreeProblem, scaling: Scaling, deviations: Floats) -> None:
        """Transform a model of the scaled problem to features with the standard deviations ``deviations (p,)``."""
        self.forest_ = as_forest(scaling.unscale(model), problem.n_outputs).with_spread(deviations)
        self.average_entropy_ = average_entropy(model)

    def _describe(self, X: Floats, weight: Floats) -> None:
        encoder = getattr(self, "encoder_", None)
        if self.transformer_ is None or encoder is None:
            super()._describe(X, weight)
        else:
            self.feature_importances_ = self._importances(X, weight)

    def _importances(self, X: Floats, weight: Floats) -> Floats:
        return self._of_columns(feature_importance(self.forest_))

    @property
    def _merit(self) -> float:
        return self.validation_loss_

    def _validated(self, X: Any) -> Floats:
        return self._transformed(super()._validated(X))

    def _answers(self, X: Any) -> Floats:
        """Predictions (n, K): numbers, or class probabilities."""
        X = self._validated(X)
        return self.forest_.outputs(X, ANSWERS[self.prediction])


@dataclass(eq=False, repr=False)
class SDTRRegressor(RegressionTree, StreamingSDTR, _SDTR):
    """Soft decision tree regressor (SDTR): a single tree, averaged trees (``n_trees``) or layers (``n_layers``).

    Take it for soft trees that learn in batches, also from chunks of a table larger than memory. Each branch has
    a temperature of its own; QHAdam trains until held-out rows gain no more.

    Attributes
    ----------
    forest_ : `opttree.Forest` of all trees, which are mixtures. With ``quantile_transform`` its input is
        ``transformer_.transform(X)``, otherwise raw features.
    tree_ : the tree, if there is only one (else AttributeError).
    transformer_ : the fitted quantile transform, or None.
    average_entropy_ : the paper's eq. (12), on the scaled features, see `opttree.interpret.average_entropy`.
    feature_importances_ : (p,), from the weights near the root, see `opttree.interpret.feature_importance`.
    validation_loss_ : squared error on the held-out rows, summed over the standardised outputs, by which theta was
        chosen; infinite if nothing was chosen, as for constant y.
    result_ : `solvers.Result` of the run; its model and objective are on the scaled problem.
    n_iter_ : steps taken.

    See Also
    --------
    SDTRClassifier : the same for classes
    ORRTRegressor : soft trees with linear leaves
    interpret.feature_importance : the paper's importances
    solvers.SDTR : the solver

    References
    ----------
    Luo, Cheng, Yu and Yi, "SDTR: soft decision tree regressor for tabular data", IEEE Access 9 (2021).

    Examples
    --------
    >>> from opttree import SDTRRegressor, datasets
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> model = SDTRRegressor(max_depth=3, n_trees=8, random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.3
    True
    """

    def predict(self, X: Any) -> Floats:
        """Predictions (n,), or (n, K) with several outputs."""
        scores = self._answers(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores


@dataclass(eq=False, repr=False, kw_only=True)
class SDTRClassifier(ClassificationTree, StreamingSDTR, _SDTR):
    """`SDTRRegressor` for classes: leaves hold class scores, trained by log loss as in the paper's section V-E; trees
    and layers answer with the mean of the class probabilities.

    Take it for soft classification trees that learn in batches; see `SDTRRegressor` for how.

    Attributes
    ----------
    classes_ : (K,) class labels.
    validation_loss_ : log loss on the held-out rows, by which theta was chosen.
    forest_, tree_, transformer_, average_entropy_, feature_importances_, result_, n_iter_ : as in `SDTRRegressor`.

    See Also
    --------
    SDTRRegressor : the same for numbers
    solvers.SDTR : the solver

    References
    ----------
    Luo, Cheng, Yu and Yi, "SDTR: soft decision tree regressor for tabular data", IEEE Access 9 (2021).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from opttree import SDTRClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SDTRClassifier(max_depth=3, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    loss = "log"

    def _labels(self, X: Any) -> NDArray[Any]:
        shares = self._answers(X)
        return self._model.classes[np.argmax(shares, axis=1)]  # type: ignore[index]

    def _shares(self, X: Any) -> Floats:
        return self._answers(X)
