"""What trees say of their features by the weights of their splits (SDTR paper, sections III-B and V-D)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opttree.forest import Forest
from opttree.tree import Tree

EPSILON = 1e-3  # the paper's, in eq. (10)


def weight_shares(tree: Tree, epsilon: float = EPSILON) -> NDArray[np.float64]:
    """SDTR eq. (10): the weights of every branch as shares (B, p), ``(|w| + epsilon) / sum(|w| + epsilon)``.

    Weights are taken times the deviations of their features where the tree knows them (`Tree.spread`, as fitted trees
    do); otherwise features compare only where they have one scale. In a tree without gates the length of a weight
    vector says nothing: its largest entry is set to 1 before ``epsilon`` is added.
    """
    if not epsilon > 0.0:
        raise ValueError(f"epsilon must be > 0; got {epsilon}")
    weights = np.abs(tree.A if tree.spread is None else tree.A * tree.spread)
    if tree.gate is None and tree.n_branches:
        weights = weights / np.maximum(weights.max(axis=1, keepdims=True), np.finfo(float).tiny)
    weights = weights + epsilon
    return weights / weights.sum(axis=1, keepdims=True)


def average_entropy(model: Tree | Forest, epsilon: float = EPSILON) -> float:
    """SDTR eq. (12): ``sum_t 2^-d_t H(shares of the weights of branch t)``, in nats; d_t is 0 at the root.

    Every full level adds its mean entropy, at most log p; small numbers mean few features per branch. Of a forest, the
    mean over the trees of its first layer, which read the features.
    """
    if isinstance(model, Forest):
        return float(np.mean([average_entropy(tree, epsilon) for tree in model.layers[0]]))
    shares = weight_shares(model, epsilon)
    entropy = -np.sum(shares * np.log(shares), axis=1)
    return float(np.sum(0.5 ** model.node_depth[: model.n_branches] * entropy))


def feature_importance(model: Tree | Forest, epsilon: float = EPSILON) -> NDArray[np.float64]:
    """Importance of each feature from the weights near the root: (p,), sums to 1.

    The shares of `weight_shares`, branches weighted by 2^-d_t as in eqs. (7) and (12): the paper takes the branches
    near the root for the important ones, the path penalty keeping the tree balanced. Of a forest, the mean over the
    trees of its first layer. Zeros where there is no branch.
    """
    if isinstance(model, Forest):
        return np.mean([feature_importance(tree, epsilon) for tree in model.layers[0]], axis=0)
    if model.n_branches == 0:
        return np.zeros(model.n_features)
    weight = 0.5 ** model.node_depth[: model.n_branches]
    return weight @ weight_shares(model, epsilon) / weight.sum()
