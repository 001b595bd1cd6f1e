"""Interpretation of trees by the weights of their splits (SDTR paper, sections III-B and V-D)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opttree.forest import Forest
from opttree.tree import Tree

EPSILON = 1e-3  # as in the paper, eq. (10)


def weight_shares(tree: Tree, epsilon: float = EPSILON) -> NDArray[np.float64]:
    """SDTR eq. (10): the weights of every branch as shares (B, p), ``(|w| + epsilon) / sum(|w| + epsilon)``.

    Weights are multiplied by the standard deviations of their features if the tree stores them (`Tree.spread`; fitted
    trees do); otherwise features are comparable only if they have the same scale. In a tree without gates the length of
    a weight vector has no meaning, so its largest entry is set to 1 before ``epsilon`` is added.
    """
    if not epsilon > 0.0:
        raise ValueError(f"epsilon must be > 0; got {epsilon}")
    weights = np.abs(tree.A if tree.spread is None else tree.A * tree.spread)
    if tree.gate is None and tree.n_branches:
        weights = weights / np.maximum(weights.max(axis=1, keepdims=True), np.finfo(float).tiny)
    weights = weights + epsilon
    return weights / weights.sum(axis=1, keepdims=True)


def average_entropy(model: Tree | Forest, epsilon: float = EPSILON) -> float:
    """SDTR eq. (12): ``sum_t 2^-d_t H(shares of the weights of branch t)``, in nats, with d_t the depth of branch t
    (root: 0).

    Every full level adds its mean entropy, at most log p; small values mean few features per branch. For a forest, the
    mean over the trees of its first layer, whose inputs are the features.
    """
    if isinstance(model, Forest):
        return float(np.mean([average_entropy(tree, epsilon) for tree in model.layers[0]]))
    shares = weight_shares(model, epsilon)
    entropy = -np.sum(shares * np.log(shares), axis=1)
    return float(np.sum(0.5 ** model.node_depth[: model.n_branches] * entropy))


def feature_importance(model: Tree | Forest, epsilon: float = EPSILON) -> NDArray[np.float64]:
    """Importance of each feature from the weights near the root: (p,), sums to 1.

    The shares of `weight_shares`, branches weighted by 2^-d_t as in eqs. (7) and (12): the paper regards branches near
    the root as more important, since the path penalty keeps the tree balanced. For a forest, the mean over the trees of
    its first layer. Zeros for a tree without branches.
    """
    if isinstance(model, Forest):
        return np.mean([feature_importance(tree, epsilon) for tree in model.layers[0]], axis=0)
    if model.n_branches == 0:
        return np.zeros(model.n_features)
    weight = 0.5 ** model.node_depth[: model.n_branches]
    return weight @ weight_shares(model, epsilon) / weight.sum()
