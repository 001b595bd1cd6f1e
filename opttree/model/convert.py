"""Conversion to a `Tree` or `Forest`, from results, saved models, estimators and scikit-learn's trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from opttree.model.forest import Forest
from opttree.model.structure import with_encoding
from opttree.model.tree import Tree
from opttree.tables.curves import Curves
from opttree.tables.encoding import Encoding

Model = Tree | Forest  # the models that solvers may yield


def as_model(model: Any, name: str = "model", *, raw: bool = True) -> Model:
    """The tree or forest in ``model``.

    Parameters
    ----------
    model : Tree, Forest, Result, Model, estimator or scikit-learn tree
        What holds the model: an estimator is fitted, and so is a scikit-learn tree. The model of an estimator is on raw
        features and outputs, not on the scaled ones of the problem from `state`; for that problem use its ``result_``.
    name : str, default "model"
        Name of the argument, for the error message.
    raw : bool, default True
        Whether to refuse a model of transformed features.

    Returns
    -------
    Tree or Forest
        The model.

    Raises
    ------
    ValueError
        For anything else, such as an estimator that is not fitted or whose tree uses transformed features.
    """
    found = _found(model, name)
    if raw and (getattr(model, "transformer_", None) is not None or getattr(found, "curves", None) is not None):
        raise ValueError(
            f"{name} must hold a tree of raw features; got one of their quantiles or normal scores: fit with "
            "quantile_transform=False"
        )
    return found


def _found(model: Any, name: str) -> Model:
    """The tree or forest in ``model``."""
    if isinstance(model, (Tree, Forest)):
        return model
    if isinstance(model, type):
        raise ValueError(f"{name} must be a tree, or something fitted that holds one; got the class {model.__name__}")
    inside = getattr(model, "tree", None)
    if isinstance(inside, (Tree, Forest)):
        return inside
    if inside is None and hasattr(model, "termination"):
        raise ValueError(f"{name} must hold a tree; got the result of a run without one: {model.message}")
    forest = getattr(model, "forest_", None)
    if isinstance(forest, Forest) and len(forest.trees) > 1:
        return forest
    inside = getattr(model, "tree_", None)
    if isinstance(inside, Tree):
        return inside
    if hasattr(inside, "children_left"):
        return Tree.from_sklearn(model)
    raise ValueError(
        f"{name} must be a Tree, a Forest, a Result, a scikit-learn tree, a Model or a fitted estimator of one; "
        f"got {type(model).__name__}"
    )


def scores_of(model: Any) -> Any:
    """What makes of features, by ``transform``, the scores that the trees of a model split, or None."""
    scores = getattr(model, "transformer_", None)
    return getattr(as_model(model, raw=False), "curves", None) if scores is None else scores


def encoding_of(model: Any, tree: Tree) -> Encoding | None:
    """How the features of a model's tree are made of the columns of a table, or None."""
    encoder = getattr(model, "encoder_", None)
    return tree.encoding if encoder is None else encoder.encoding_


def names_of(model: Any, tree: Tree, feature_names: Sequence[str] | None = None) -> list[str]:
    """Names of the features of a model and its tree: those given, or the model's own, or ``x0..``."""
    if feature_names is None and (encoding := encoding_of(model, tree)) is not None:
        feature_names = encoding.names
    if feature_names is None:
        feature_names = getattr(model, "feature_names", None)
    if feature_names is None:
        feature_names = getattr(model, "feature_names_in_", None)
    return tree.names(feature_names)


def split_names(model: Any, names: Sequence[str]) -> list[str]:
    """Names of what the trees of a model split, made of those of its features."""
    return list(names) if scores_of(model) is None else [f"score({name})" for name in names]


def exportable(model: Any, name: str = "model") -> Model:
    """`as_model`, but refuse a model that would predict differently from its estimator."""
    if getattr(model, "prediction", "mixture") != "mixture":
        raise ValueError(f"{name} must answer with the mixture of its leaves; got prediction={model.prediction!r}")
    transformer = getattr(model, "transformer_", None)
    if transformer is None:
        return as_model(model, name, raw=False)
    if not isinstance(transformer, Curves):
        raise ValueError(
            f"{name} must hold a tree of raw features, or of normal scores on curves; got one of scikit-learn's "
            'quantiles, as preset="paper" has them: fit with quantile_transform=False, or pickle the estimator'
        )
    forest: Forest = replace(model.forest_, curves=transformer)
    encoder = getattr(model, "encoder_", None)
    return forest if encoder is None else with_encoding(forest, encoder.encoding_)


def as_tree(model: Any, name: str = "model", *, raw: bool = True) -> Tree:
    """The tree in ``model``, see `as_model`; ValueError for a forest of several."""
    inside = as_model(model, name, raw=raw)
    if isinstance(inside, Forest):
        if len(inside.trees) > 1:
            raise ValueError(f"{name} must be a single tree; got a forest of {len(inside.trees)}")
        return inside.trees[0].with_names(inside.feature_names or inside.trees[0].feature_names, inside.encoding)
    return inside


def check_plain(tree: Tree, name: str) -> None:
    """ValueError unless a tree is hard, axis-aligned and constant in its leaves."""
    reason = None
    if tree.mixture:
        reason = "a soft tree"
    elif not tree.is_axis_aligned:
        reason = "oblique splits"
    elif tree.linear_leaves:
        reason = "linear leaves"
    if reason is not None:
        raise ValueError(f"{name} takes axis-aligned trees with constant leaves; got {reason}")


def check_proper(forest: Forest, name: str) -> None:
    """ValueError for classification trees whose answers sum to one only after their mean is normalised."""
    if forest.classes is not None and forest.link == "identity" and not forest.is_proper:
        raise ValueError(f"{name} takes forests whose trees answer with probabilities; got class scores")
