"""From rows to the statement: units of features and outputs, and the `TreeProblem` in them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.estimators.recipe import Estimator, Recipe, chooses_depth, has_numbers, is_ordered, standardised
from opttree.estimators.steps.rows import class_weighted, names_in
from opttree.estimators.steps.units import Scaling, moments
from opttree.statement import TreeProblem
from opttree.statement.constraints import MaxSplits
from opttree.statement.numbers import in_same_order
from opttree.tables.weights import check_weight
from opttree.wide.sparse import is_sparse

Floats = NDArray[np.float64]


def transformer_of(options: Estimator, X: Any, weight: Floats) -> Any:
    """What transforms features before they are scaled, fitted to the rows, or None."""
    recipe: Recipe = options.recipe
    return None if recipe.transform is None else recipe.transform(options, X, weight)


def state(
    options: Estimator, X: Any, y: NDArray[Any], weight: Floats, depth: int | None = None, transformer: Any = None
) -> tuple[TreeProblem, Any]:
    """The problem of rows of numbers, and its units: a `Scaling`, or what has its methods.

    ``depth`` is that of the problem; by default the one that the recipe has for the rows of positive weight.
    """
    recipe: Recipe = options.recipe
    if X.shape[0] < 2:
        raise ValueError(f"X must have at least two rows; got n_samples = {X.shape[0]}")
    check_weight(weight)
    weight = class_weighted(options, y, weight)
    raw, X = X, X if transformer is None else transformer.transform(X)
    units = np.zeros(1), np.ones(1)
    if has_numbers(options):
        units = (recipe.outputs or standardised)(options, y.reshape(y.shape[0], -1), weight)
    try:
        scaling = Scaling(*feature_units(options, X, weight), *units)
    except ValueError:
        for j, name in enumerate(() if (names := names_in(options)) is None else names):
            moments(X[:, [j]], weight, f"X column {name!r}".replace("{", "{{").replace("}", "}}"))
        raise
    Z = scaling.features(X)
    if options.splits == "axis" and not is_sparse(X):
        in_same_order(X, Z)
    terms = {} if recipe.terms is None else recipe.terms(options, weight, X.shape[1], scaling.y_scale)
    most = getattr(options, "max_leaf_nodes", None)
    usual = {
        "leaves": options.leaves,
        "loss": options.loss,
        "min_leaf": getattr(options, "min_samples_leaf", 1),
        "constraints": () if most is None else (MaxSplits(most - 1),),
    }
    problem = TreeProblem(
        Z,
        scaling.outputs(y) if has_numbers(options) else y,
        depth=depth_for(options, int(np.count_nonzero(weight))) if depth is None else depth,
        splits=options.splits,
        sample_weight=weight,
        **(usual | terms),
    )
    return (problem, scaling) if recipe.restate is None else recipe.restate(options, problem, scaling, raw, weight)


def feature_units(options: Estimator, X: Any, weight: Floats) -> tuple[Floats, Floats]:
    """Offset and unit of each feature for the solver: as they are where nothing but their order matters."""
    if options.recipe.features is not None:
        units: tuple[Floats, Floats] = options.recipe.features(options, X, weight)
        return units
    return (np.zeros(X.shape[1]), np.ones(X.shape[1])) if is_ordered(options) else moments(X, weight)


def depth_for(options: Estimator, n_samples: int) -> int:
    """The depth of the problem of so many rows; of a tree whose depth is searched, the one that was found."""
    if options.recipe.depth is not None:
        return int(options.recipe.depth(options, n_samples))
    if not chooses_depth(options):
        return int(options.max_depth)
    usual = options.recipe.usual_depth if options.max_depth == "auto" else 1
    return int(getattr(options, "best_depth_", usual))
