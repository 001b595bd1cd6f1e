"""`SDTRRegressor` and `SDTRClassifier`: soft decision trees, one, an average of them, or layers."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.utils import check_random_state

from opttree.estimators import bridge, option_groups as groups
from opttree.estimators.base import ForestEstimator, build_solver
from opttree.estimators.recipe import Estimator, Fit, Floats, Outcome, Recipe, Rows, is_printed, searches_depth
from opttree.estimators.steps import fit as fits
from opttree.estimators.steps.model import as_forest
from opttree.estimators.steps.solve import solve_lowest
from opttree.estimators.steps.state import state, transformer_of
from opttree.estimators.steps.stream import NONE, Stream, with_missing
from opttree.estimators.steps.units import Scaling, moments, spread
from opttree.estimators.tasks import ClassificationTree, RegressionTree
from opttree.explain.importance import average_entropy, feature_importance
from opttree.methods.table import estimator
from opttree.model.convert import Model, as_tree
from opttree.model.tree import Tree
from opttree.runtime.devices import Device
from opttree.runtime.interrupts import noted_interrupts
from opttree.runtime.options import option
from opttree.runtime.threads import count, limited
from opttree.statement import TreeProblem
from opttree.tables.checks import validated
from opttree.tables.chunks import Chunks
from opttree.tables.curves import Curves
from opttree.tables.preprocessing import NormalQuantiles

__all__ = ["SDTRClassifier", "SDTRRegressor"]

ANSWERS = {"mixture": Tree.outputs, "leaf": Tree.likeliest}


def _solver(options: Estimator, problem: TreeProblem, valid: TreeProblem | None) -> Any:
    several = options.n_trees * options.n_layers > 1 or options.tree_output_dim
    given = {"aggregation": "mixture"} if is_printed(options) and options.aggregation is None and several else {}
    validation = options.validation_fraction if valid is None else valid
    return build_solver(options, bridge.solvers.SDTR, **given, validation=validation)


def _transform(options: Estimator, X: Floats, weight: Floats) -> NormalQuantiles | Curves | None:
    """The quantile transform, fitted to the rows of positive weight: scikit-learn's, as in the paper, or curves."""
    some = X[weight != 0.0] if weight.any() else X
    if not options.quantile_transform:
        return None
    return NormalQuantiles(random_state=0).fit(some) if is_printed(options) else Curves.normal(some)


def _features(options: Estimator, X: Floats, weight: Floats) -> tuple[Floats, Floats]:
    return (np.zeros(X.shape[1]), np.ones(X.shape[1])) if options.quantile_transform else moments(X, weight)


def _model(options: Estimator, fit: Fit, outcome: Outcome) -> dict[str, Any]:
    X, model = fit.X, outcome.result.tree
    attributes = raw_forest(model, fit.problem, fit.scaling, spread(X, fit.rows.weight))
    if isinstance(model, Tree):
        tree = as_tree(attributes["forest_"])
        attributes["forest_"] = as_forest(tree.with_share(tree.node_share(X, fit.rows.weight)), fit.problem.n_outputs)
    return attributes


def raw_forest(model: Model, problem: TreeProblem, scaling: Scaling, deviations: Floats) -> dict[str, Any]:
    """A model of the scaled problem on features with the standard deviations ``deviations (p,)``, and its entropy."""
    forest = as_forest(scaling.unscale(model), problem.n_outputs).with_spread(deviations)
    return {"forest_": forest, "average_entropy_": average_entropy(model)}


class SDTRStream(Stream):
    """SDTR: fit the sample, whose held-out rows judge what comes later, then train on mini-batches."""

    def __init__(self, options: Estimator, X: Floats, y: NDArray[Any], missing: NDArray[Any] = NONE) -> None:
        self.options = options
        fits.check(options)
        options.encoder_ = None
        if searches_depth(options):
            raise ValueError(f"max_depth must be an integer to train in chunks; got {options.max_depth!r}")
        numbers = is_regressor(options)
        y = np.asarray(y, np.float64 if numbers else None)
        X, y = validated(options, X, y, dtype=np.float64, order="C", multi_output=numbers)
        X, y, weight = with_missing(X, y, missing)
        transformer = transformer_of(options, X, weight)
        problem, scaling = state(options, X, y, weight, transformer=transformer)
        rng = np.random.default_rng(check_random_state(options.random_state).randint(2**31 - 1))
        make = bridge.solvers.streaming.ForestStream
        with noted_interrupts() as interrupted, limited(count(options.n_jobs)):
            self.learner = make(_solver(options, problem, None), problem, rng, options.time_limit)
            self.cut_short = interrupted()
        self.fit = Fit(Rows(X, y, weight), self.learner.whole.problem, scaling, transformer=transformer)
        attributes = {"transformer_": transformer, "result_": None}
        self.first = attributes if numbers else attributes | {"classes_": problem.classes, "_several": None}

    @property
    def says_nothing(self) -> bool:
        """Whether the first rows have one outcome, or are all alike."""
        return any(not np.ptp(array, axis=0).any() for array in (self.fit.problem.X, self.fit.problem.Y))

    def begun(self) -> dict[str, Any]:
        """All that there is after the first rows."""
        return self.first | self.finish(None)

    def finish(self, chunks: Chunks | None) -> dict[str, Any]:
        """The forest, and its validation loss."""
        problem, scaling = self.fit.problem, self.fit.scaling  # units: standard deviations in the first rows
        forest = raw_forest(self.learner.model, problem, scaling, problem.X.std(axis=0) * scaling.x_scale)
        return {"validation_loss_": self.learner.loss, "result_": None, **forest}


RECIPE = Recipe(
    solver=_solver,
    features=_features,
    solve=solve_lowest("validation", "validation_loss_"),
    model=_model,
    merit="validation_loss_",
    transform=_transform,
    importances=lambda options, model: feature_importance(model),
    stream=SDTRStream,
)


@dataclass(eq=False, repr=False)
class _SDTR(ForestEstimator):
    """Common part of the regressor and the classifier."""

    recipe = RECIPE
    splits = "oblique"
    leaves = "constant"
    loss = "squared"
    takes_eval_set = True

    max_depth: int | Literal["cv"] | None = groups.max_depth(
        7, 'Levels of splits (the paper\'s depth less one); "cv" as in `TAORegressor`.'
    )
    _: KW_ONLY
    cv: Any = groups.cv()
    preset: Literal["default", "paper"] = groups.preset()
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
        True,
        """Whether features become normal scores first, or are standardised. The paper's preset takes scikit-learn's
        normal quantiles, which cannot be exported; by default features are on `opttree.preprocessing.Curves`.""",
    )
    init: Tree | None = groups.init(
        None, "A tree on the input features of ``tree_``; it replaces the random initial values of the first tree."
    )
    device: Device = option(
        "cpu",
        """Device of the descent, see `GETRegressor`. A GPU pays off for many trees; batches of a single tree are too
        small.""",
    )

    def _answers(self, X: Any) -> Floats:
        """Predictions (n, K): numbers, or class probabilities."""
        X = self._validated(X)
        return self.forest_.outputs(X, ANSWERS[self.prediction])


@estimator(
    "sdtr",
    solver="SDTR",
    has_device=True,
    methods={  # `opttree show` writes splits of raw features
        "sdtr": (
            "SDTR, soft tree that answers with the mixture of its constant leaves",
            {"quantile_transform": False},
        ),
    },
)
@dataclass(eq=False, repr=False)
class SDTRRegressor(RegressionTree, _SDTR):
    """Soft decision tree regressor (SDTR): a single tree, averaged trees (``n_trees``) or layers (``n_layers``).

    Take it for soft trees that learn in batches, also from chunks of a table larger than memory. Each branch has
    a temperature of its own; QHAdam trains until held-out rows gain no more.

    Attributes
    ----------
    forest_ : opttree.Forest
        All trees, which are mixtures. With ``quantile_transform`` its input is
        ``transformer_.transform(X)``, otherwise raw features.
    tree_ : opttree.Tree
        The tree, if there is only one (else AttributeError).
    transformer_ : preprocessing.Curves, preprocessing.NormalQuantiles or None
        What makes normal scores of the features.
    average_entropy_ : float
        The paper's eq. (12), on the scaled features, see `opttree.interpret.average_entropy`.
    feature_importances_ : ndarray of shape (p,)
        Importances from the weights near the root, see `opttree.interpret.feature_importance`.
    validation_loss_ : float
        Squared error on the held-out rows, summed over the standardised outputs, by which theta was chosen; infinite if
        nothing was chosen, as for constant y.
    result_ : solvers.Result
        Result of the run; its model and objective are on the scaled problem.
    n_iter_ : int
        Steps taken.

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


@estimator("sdtr")
@dataclass(eq=False, repr=False, kw_only=True)
class SDTRClassifier(ClassificationTree, _SDTR):
    """`SDTRRegressor` for classes: leaves hold class scores, trained by log loss as in the paper's section V-E; trees
    and layers answer with the mean of the class probabilities.

    Take it for soft classification trees that learn in batches; see `SDTRRegressor` for how.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Class labels.
    validation_loss_ : float
        Log loss on the held-out rows, by which theta was chosen.
    forest_, tree_, transformer_, average_entropy_, feature_importances_, result_, n_iter_ : object
        As in `SDTRRegressor`.

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
