"""How large a fitted model is: trees, branches, leaves, parameters; ours and other libraries'."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from opttree import Forest, Tree
from solvers.races import execute


def sizes(model: Any) -> dict[str, float]:
    """Trees, mean depth, branches, leaves, both, and parameters of a model made of trees; nothing where they are not
    known. See `solvers.races.execute.sizes` for ours, and for what counts as a parameter.
    """
    for ours in (getattr(model, "tree_", model), getattr(model, "forest_", model)):
        if isinstance(ours, (Tree, Forest)):
            return execute.sizes(ours)
    inner = [t.tree_ for t in np.ravel(getattr(model, "estimators_", [model])) if hasattr(t, "tree_")]
    if not inner or any(isinstance(tree, Tree) for tree in inner):
        return _boosted(model)
    leaves = sum(tree.n_leaves for tree in inner)
    branches = sum(tree.node_count for tree in inner) - leaves
    outputs = inner[0].value.shape[1] * inner[0].value.shape[2]
    return {
        "n_trees": len(inner),
        "tree_depth": float(np.mean([tree.max_depth for tree in inner])),
        "n_branches": branches,
        "n_leaves": leaves,
        "n_nodes": branches + leaves,
        "n_parameters": 2 * branches + leaves * outputs,
    }


def flops(model: Any, X: np.ndarray) -> dict[str, float]:
    """Mean operations to predict a row of ``X``, as the TAO paper's tables count them: see `opttree.Tree.flops`; of
    scikit-learn's trees, one comparison for each split on the way. Nothing where they are not known.
    """
    own = getattr(model, "forest_", None) or getattr(model, "tree_", None)
    if isinstance(own, (Tree, Forest)):
        counted = own.n_features == X.shape[1] and (isinstance(own, Tree) or len(own.layers) == 1)
        return {"n_flops": own.flops(X)} if counted else {}
    inner = [t.tree_ for t in np.ravel(getattr(model, "estimators_", [model])) if hasattr(t, "tree_")]
    if not inner:
        return {}
    rows = X.astype(np.float32)
    return {"n_flops": float(sum((np.diff(tree.decision_path(rows).indptr) - 1).mean() for tree in inner))}


def _boosted(model: Any) -> dict[str, float]:
    """Sizes of other libraries' boosted trees, of additive models the parameters; nothing where they are not known."""
    for reads, count in (
        ("get_booster", _xgboost),
        ("booster_", _lightgbm),
        ("get_tree_leaf_counts", _catboost),
        ("_predictors", _histograms),
    ):
        if hasattr(model, reads):
            trees = np.array(list(count(model)), dtype=float).reshape(-1, 3)
            branches, leaves, numbers = trees.sum(axis=0)
            return {"n_trees": len(trees), "n_branches": branches, "n_leaves": leaves, "n_parameters": numbers}
    if hasattr(model, "term_scores_"):  # interpret's explainable boosting machine
        return {"n_parameters": float(sum(np.size(scores) for scores in model.term_scores_))}
    return {}


Counts = Iterator[tuple[float, float, float]]  # branches, leaves and parameters of each tree


def _xgboost(model: Any) -> Counts:
    grown = json.loads(bytes(model.get_booster().save_raw("json")))["learner"]["gradient_booster"]["model"]["trees"]
    for tree in grown:
        leaves = tree["left_children"].count(-1)
        yield leaves - 1, leaves, 2 * (leaves - 1) + leaves


def _lightgbm(model: Any) -> Counts:
    for tree in model.booster_.dump_model()["tree_info"]:
        pending, leaves, numbers = [tree["tree_structure"]], 0, 0
        while pending:
            node = pending.pop()
            if "split_index" in node:
                pending += node["left_child"], node["right_child"]
            else:
                leaves += 1
                numbers += 1 + len(node.get("leaf_coeff", ()))
        yield leaves - 1, leaves, 2 * (leaves - 1) + numbers


def _catboost(model: Any) -> Counts:
    outputs = len(model.get_leaf_values()) / model.get_tree_leaf_counts().sum()
    for leaves in model.get_tree_leaf_counts():
        depth = np.log2(leaves)  # a split is shared by all branches of a depth
        yield leaves - 1, leaves, 2 * depth + leaves * outputs


def _histograms(model: Any) -> Counts:
    for tree in (tree for iteration in model._predictors for tree in iteration):
        leaves = int(tree.nodes["is_leaf"].sum())
        yield leaves - 1, leaves, 2 * (leaves - 1) + leaves
