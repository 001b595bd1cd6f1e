"""What sets one estimator apart: its `Recipe`. The steps of a fit are the same for all, see `opttree.estimators.steps`.

The record of a fit is passed from step to step, each of which returns another: `Rows` of a table, a `Fit` of rows,
units and statement, an `Outcome` of what a solver found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_clusterer, is_regressor

from opttree.estimators.steps.units import Scaling, moments, outputs_name
from opttree.model.convert import Model
from opttree.model.tree import Tree
from opttree.statement import TreeProblem

if TYPE_CHECKING:
    from solvers import Result, Solver

Floats = NDArray[np.float64]
Estimator = Any  # a `TreeEstimator`, whose options the functions of a recipe read
Units = tuple[Floats, Floats]  # offsets and units of columns


@dataclass(frozen=True)
class Rows:
    """The training rows as numbers.

    X, y, weight : features (n, p), an array or sparse rows, targets (n,) or (n, K), and weights (n,).
    table : the table that ``X`` encodes, or None.
    several : labels and codes of several outputs of a classifier, which ``y`` joins, or None.
    seconds : that it took to read the table.
    """

    X: Any
    y: NDArray[Any]
    weight: Floats
    table: Any = None
    several: Any = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Fit:
    """All that a solver, and what follows it, work on.

    rows, problem, scaling : the training rows, their statement, and the units that lead from one to the other.
    valid : the problem on the rows of ``eval_set``, or None.
    start : the tree to start from, in the units of the problem, or None.
    seed, time_limit : of the run; seconds.
    search : what a search for the depth chose, by names of attributes.
    transformer : what has transformed the features before they were scaled, or None.
    """

    rows: Rows
    problem: TreeProblem
    scaling: Any
    valid: TreeProblem | None = None
    start: Tree | None = None
    seed: int = 0
    time_limit: float | None = None
    search: Mapping[str, Any] = field(default_factory=dict)
    transformer: Any = None

    @property
    def X(self) -> Any:  # noqa: N802
        """(n, p) the features of all rows, transformed but not scaled."""
        X: Any = self.rows.X
        if self.transformer is None:
            return X
        stated, units = self.problem.X, self.scaling
        if (
            stated.shape == X.shape
            and isinstance(units, Scaling)
            and not units.x_mean.any()
            and np.all(units.x_scale == 1.0)
        ):
            return stated  # transformed, and in no other unit
        return self.transformer.transform(X)


@dataclass(frozen=True)
class Outcome:
    """The result of the solver, and further fitted attributes of the estimator, by their names."""

    result: Result
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Shrink:
    """How the strength of `leaf_shrinkage` is chosen.

    default : whether it is chosen on held-out rows where the option is None.
    trial : the solver, and the statement, of the trees on which strengths are compared.
    """

    default: Callable[[Estimator], bool]
    trial: Callable[[Estimator, TreeProblem], tuple[Solver, TreeProblem]]


class TreeKind(NamedTuple):
    """A kind of trees of a boosted sum: its name, or the solver of the trees; their depth and leaves; the solver of the
    sum; and whether the trees split single features and have constant leaves, for which histograms of bins suffice.
    """

    name: Any
    depth: int
    leaves: Any
    solver: Any
    from_bins: bool


@dataclass(frozen=True)
class Recipe:
    """Functions of an estimator's options, and of the record of a fit, that a fit calls.

    solver : the solver of a problem; the third argument is the problem of validation rows, or None.
    terms : options of the `TreeProblem` that are not those of the same names, from the weights, the number of features
        and the units of the outputs.
    features, outputs : offsets and units of the columns of ``X`` or ``Y``, from them and the weights; the third
        argument is what messages call a column.
    solve : from the problem to the outcome; None: one run of the solver, see `steps.solve.solve_once`.
    model : from the outcome to the fitted attributes; None: ``tree_``.
    shrink : how leaves are shrunk, or None.
    merit : the attribute by which two fits to the same rows are compared, lower is better; "" is the objective.
    check : what else the options must satisfy.
    depth : the depth of the problem for so many rows; None: ``max_depth``, or what a search for it chose.
    least_depth : the first depth of such a search, from the targets; None: 1.
    restate : the problem and its units, changed; also from the raw features and weights.
    transform : what transforms features before they are scaled, fitted to rows, or None.
    importances : of each feature of the encoded table; None: by explained variance.
    depths, usual_depth : depths that ``max_depth="auto"`` chooses from, and the one where it cannot.
    trial_limits : options of which fits to folds, by which a size is chosen, take at most so much.
    sparse_from : numbers of a sparse table from which on it stays sparse; smaller ones are made dense. None: none does.
    stream : how it learns from chunks of rows, a `steps.stream.Stream`, or None.
    parts : what is fitted by sums over the parts of `opttree.Rows`.
    kinds : the kinds of trees that a boosted sum may have.
    """

    solver: Callable[[Estimator, TreeProblem, TreeProblem | None], Solver]
    terms: Callable[[Estimator, Floats, int, Floats], dict[str, Any]] | None = None
    features: Callable[[Estimator, Floats, Floats], Units] | None = None
    outputs: Callable[[Estimator, Floats, Floats], Units] | None = None
    solve: Callable[[Estimator, Fit], Outcome] | None = None
    model: Callable[[Estimator, Fit, Outcome], dict[str, Any]] | None = None
    shrink: Shrink | None = None
    merit: str = ""
    check: Callable[[Estimator], None] | None = None
    depth: Callable[[Estimator, int], int] | None = None
    least_depth: Callable[[NDArray[Any]], int] | None = None
    restate: Callable[[Estimator, TreeProblem, Any, Floats, Floats], tuple[TreeProblem, Any]] | None = None
    transform: Callable[[Estimator, Floats, Floats], Any] | None = None
    importances: Callable[[Estimator, Model], Floats] | None = None
    depths: tuple[int, ...] = ()
    usual_depth: int = 6
    trial_limits: Mapping[str, int] = field(default_factory=dict)
    sparse_from: int | None = None
    stream: Any = None
    parts: Literal["", "tree", "smooth", "soft", "forest", "boosted"] = ""
    kinds: Callable[[Estimator], list[TreeKind]] | None = None


def has_numbers(options: Estimator) -> bool:
    """Whether outcomes are numbers, not labels: of regressors, of clusterings, whose outcomes are the features, and of
    classifiers by costs.
    """
    return is_regressor(options) or is_clusterer(options) or has_costs(options)


def has_costs(options: Estimator) -> bool:
    """Whether outcomes are costs of actions or labels, (n, K)."""
    return bool(getattr(options, "loss", None) == "cost")


def is_printed(options: Estimator) -> bool:
    """Whether the method is to be its paper's."""
    return getattr(options, "preset", "default") == "paper"


def searches_depth(options: Estimator) -> bool:
    """Whether the depth of the tree is chosen on held-out rows."""
    return options.recipe.depth is None and options.max_depth in (None, "cv")


def chooses_depth(options: Estimator) -> bool:
    """Whether the depth is not given, but found: searched, or chosen with the floor."""
    return searches_depth(options) or (options.recipe.depth is None and options.max_depth == "auto")


def is_ordered(options: Estimator) -> bool:
    """Whether the tree depends on the order of features alone: axis-aligned splits over constant leaves."""
    return bool(options.splits == "axis" and options.leaves == "constant")


def standardised(options: Estimator, Y: Floats, weight: Floats) -> Units:
    """Mean and deviation of each output."""
    return moments(Y, weight, outputs_name(Y))
