"""From the outcome to the fitted attributes: the model on raw features, its names and importances."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.estimators.recipe import Estimator, Fit, Outcome
from opttree.estimators.steps.shrink import shrunk_tree
from opttree.estimators.steps.units import raw_tree, with_training
from opttree.explain.importance import importances
from opttree.model.convert import Model, as_tree
from opttree.model.forest import Forest
from opttree.model.structure import with_encoding
from opttree.model.tree import Tree

Floats = NDArray[np.float64]


def single_tree(options: Estimator, fit: Fit, outcome: Outcome) -> dict[str, Any]:
    """``tree_``: the solver's tree, shrunk, on raw features, with what it knows of its training rows."""
    tree = shrunk_tree(fit.problem, as_tree(outcome.result.tree), outcome.attributes)
    return {"tree_": raw_with_training(fit, tree)}


def raw_with_training(fit: Fit, tree: Tree) -> Tree:
    """A tree of the problem on raw features, with shares of the training rows and deviations of the features."""
    X, weight = fit.X, fit.rows.weight
    raw = raw_tree(fit.scaling, tree, fit.problem, X if weight.all() else X[weight > 0.0])
    return with_training(raw, X, weight)


def as_forest(model: Model, n_outputs: int) -> Forest:
    """The model as a forest; a tree becomes a forest of one."""
    return model if isinstance(model, Forest) else Forest(((model,),), n_outputs)


def described(options: Estimator, fit: Fit, fitted: dict[str, Any]) -> dict[str, Any]:
    """The fitted attributes with the names of the model's features, their encoding, and the columns' importances."""
    name = "forest_" if "forest_" in fitted else "tree_"
    model, encoder = fitted[name], options.encoder_
    if encoder is not None:
        if fit.transformer is None:
            model = with_encoding(model, encoder.encoding_)
    elif hasattr(options, "feature_names_in_") and model.n_features == options.n_features_in_:
        model = model.with_names(options.feature_names_in_)
    by_weights = options.recipe.importances
    shares = importances(model, fit.rows.X, fit.rows.weight) if by_weights is None else by_weights(options, model)
    return fitted | {name: model, "feature_importances_": of_columns(options, shares)}


def of_columns(options: Estimator, shares: Floats) -> Floats:
    """Importances of the features, added up for each column of the table."""
    if options.encoder_ is None:
        return shares
    columns: Floats = np.zeros(len(options.encoder_.encoding_.columns))
    np.add.at(columns, options.encoder_.encoding_.sources, shares)
    return columns
