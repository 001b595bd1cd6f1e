"""Interpretation of trees by the weights of their splits (SDTR paper, sections III-B and V-D)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from opttree.model.forest import Forest
from opttree.model.tree import Tree
from opttree.wide import sparse

__all__ = ["average_entropy", "feature_importance", "importances", "weight_shares"]

EPSILON = 1e-3  # as in the paper, eq. (10)


def weight_shares(tree: Tree, epsilon: float = EPSILON) -> NDArray[np.float64]:
    """SDTR eq. (10): the weights of every branch as shares (B, p), ``(|w| + epsilon) / sum(|w| + epsilon)``.

    Weights are multiplied by the standard deviations of their features if the tree stores them (`Tree.spread`; fitted
    trees do); otherwise features are comparable only if they have the same scale. In a tree without gates the length of
    a weight vector has no meaning, so its largest entry is set to 1 before ``epsilon`` is added. In soft trees of SDTR
    the weights are those of the gates, w times beta: the paper does not say whether beta is in them, and shares depend
    on it by ``epsilon`` alone.

    Parameters
    ----------
    tree : Tree
        The tree.
    epsilon : float, default 1e-3
        Added to every weight before shares are taken, > 0.

    Returns
    -------
    ndarray of shape (B, p)
        Shares of the features in each branch.

    See Also
    --------
    average_entropy : how many features share a split
    feature_importance : over the whole tree

    Examples
    --------
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.SDTRRegressor(max_depth=3, quantile_transform=False, random_state=0).fit(X, y)
    >>> opttree.interpret.weight_shares(model.tree_).shape
    (7, 10)
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

    Parameters
    ----------
    model : Tree or Forest
        The model.
    epsilon : float, default 1e-3
        Added to every weight before shares are taken, > 0.

    Returns
    -------
    float
        Entropy in nats.

    See Also
    --------
    weight_shares : what it is the entropy of

    Examples
    --------
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.SDTRRegressor(max_depth=3, quantile_transform=False, random_state=0).fit(X, y)
    >>> bool(opttree.interpret.average_entropy(model.tree_) > 0)
    True
    """
    if isinstance(model, Forest):
        return float(np.mean([average_entropy(tree, epsilon) for tree in model.layers[0]]))
    shares = weight_shares(model, epsilon)
    entropy = -np.sum(shares * np.log(shares), axis=1)
    return float(np.sum(0.5 ** model.node_depth[: model.n_branches] * entropy))


def feature_importance(model: Tree | Forest, epsilon: float = EPSILON) -> NDArray[np.float64]:
    """Importance of each feature from the weights near the root: (p,), sums to 1.

    The shares of `weight_shares`, branches weighted by 2^-d_t as in eqs. (7) and (12): the paper regards branches near
    the root as more important, since the path penalty keeps the tree balanced. The importance by gains of its eq. (6),
    which it finds hard to compute for soft trees, is `importances`. For a forest, the mean over the trees of its first
    layer. Zeros for a tree without branches.

    Parameters
    ----------
    model : Tree or Forest
        The model.
    epsilon : float, default 1e-3
        Added to every weight before shares are taken, > 0.

    Returns
    -------
    ndarray of shape (p,)
        Shares of the features, of sum 1.

    See Also
    --------
    importances : by explained variance, of any tree
    weight_shares : of one node

    Examples
    --------
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.SDTRRegressor(max_depth=3, quantile_transform=False, random_state=0).fit(X, y)
    >>> opttree.interpret.feature_importance(model.tree_).shape
    (10,)
    """
    if isinstance(model, Forest):
        return np.mean([feature_importance(tree, epsilon) for tree in model.layers[0]], axis=0)
    if model.n_branches == 0:
        return np.zeros(model.n_features)
    weight = 0.5 ** model.node_depth[: model.n_branches]
    return weight @ weight_shares(model, epsilon) / weight.sum()


MOST_ROWS = 10_000  # rows from which importances are found
LARGE = 1e100  # answers, whose squares are taken of their shares of the largest


def importances(model: Tree | Forest, X: NDArray[np.float64], weight: NDArray[np.float64] | None = None) -> NDArray:
    """Importance of each feature by the variance of the predictions that its splits and terms explain: (p,), sum 1.

    The variance of a tree's predictions over the rows (of class probabilities, summed over the classes) is the sum of
    what every split takes away, ``share_l |m_l - m|^2 + share_r |m_r - m|^2`` with the mean predictions m of a node and
    its children, and of what is left within linear leaves. An axis-aligned split's part goes to its feature; an oblique
    split's, or a linear leaf's, to its features in proportion to weight times standard deviation. In an axis-aligned
    tree whose leaves predict means this is the decrease of the squared error, or of the Gini impurity, as
    scikit-learn's. In soft trees nodes count every row by its probability. A forest's is the mean of its trees', of
    those of the first layer; trees of boosting count by the variance of their outputs. Zeros for a model of one value.

    Parameters
    ----------
    model : Tree or Forest
        The model.
    X, weight : ndarray of shape (n, p)
        Rows, such as those of the training; at most 10,000, at even distances, are used.

    Returns
    -------
    ndarray of shape (p,)
        Shares of the features, of sum 1.

    See Also
    --------
    feature_importance : the SDTR paper's
    opttree.plotting.plot_importances : a picture

    Examples
    --------
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> shares = opttree.interpret.importances(model.tree_, X)
    >>> shares.shape, round(float(shares.sum()), 6)
    ((10,), 1.0)
    """
    n = X.shape[0]
    weight = np.ones(n) if weight is None else np.asarray(weight, np.float64)
    if n > MOST_ROWS:
        some = np.linspace(0, n - 1, MOST_ROWS).astype(np.intp)
        X, weight = X[some], weight[some]
    if not weight.sum() > 0.0:
        weight = np.ones(X.shape[0])
    weight = weight / weight.sum()
    trees = model.layers[0] if isinstance(model, Forest) else (model,)
    if sparse.is_given_sparse(X):
        spread = sparse.moments(X, weight)[1]
    else:
        spread = np.sqrt(np.maximum(weight @ X**2 - (weight @ X) ** 2, 0.0))
    boosted = isinstance(model, Forest) and model.starts is not None
    leaf = [tree.apply(X) for tree in trees]
    if trees[0].classes is None:
        answers = (tree.outputs(X, own) for tree, own in zip(trees, leaf, strict=True))
        unit = max(float(np.abs(answer).max(initial=0.0)) for answer in answers)
        if unit > LARGE:  # whose squares overflow
            still = np.zeros(trees[0].n_features)
            trees = tuple(tree.unscale(still, still + 1.0, 0.0, 1.0 / unit) for tree in trees)
    parts = [
        (_variance(tree.outputs(X, own), weight) if boosted else 1.0) * _explained(tree, X, own, weight, spread)
        for tree, own in zip(trees, leaf, strict=True)
    ]
    total = np.sum(parts, axis=0)
    return total / total.sum() if total.sum() > 0.0 else total


def _variance(outputs: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    """The variance of outputs (n, K), summed over K, under weights of sum one."""
    return float(weight @ np.square(outputs - weight @ outputs).sum(axis=1))


def _explained(
    tree: Tree,
    X: NDArray[np.float64],
    leaf: NDArray[np.int32],
    weight: NDArray[np.float64],
    spread: NDArray[np.float64],
) -> NDArray:
    """The variance (p,) that each feature explains in one tree, which sums to one unless the tree is constant; ``leaf
    (n,)`` are the nodes of the rows' leaves.
    """
    first = tree.n_branches
    answers = tree.as_hard.outputs(X, leaf)
    answers = answers if tree.classes is None else tree._probabilities(answers)
    mass, sums, squares = (np.zeros((tree.n_nodes, size)) for size in (1, answers.shape[1], 1))
    if tree.mixture:
        reach = tree.leaf_proba(X) * weight[:, None]
        values = tree._probabilities(tree.values)
        if tree.linear_leaves:
            answers = tree.outputs(X)
            mass[first:, 0], sums[first:] = reach.sum(axis=0), reach.T @ answers
            squares[first:, 0] = reach.T @ np.square(answers).sum(axis=1)
        else:
            mass[first:, 0] = reach.sum(axis=0)
            sums[first:] = mass[first:] * values
            squares[first:, 0] = mass[first:, 0] * np.square(values).sum(axis=1)
    else:
        mass[:, 0] = np.bincount(leaf, weight, tree.n_nodes)
        for k, column in enumerate(answers.T):
            sums[:, k] = np.bincount(leaf, weight * column, tree.n_nodes)
        squares[:, 0] = np.bincount(leaf, weight * np.square(answers).sum(axis=1), tree.n_nodes)
    levels: list[NDArray[np.integer]] = [np.zeros(min(first, 1), np.int32)]
    while levels[-1].size:
        below = tree.children[levels[-1]].ravel()
        levels.append(below[below < first])
    for branches in levels[::-1]:
        for part in (mass, sums, squares):
            part[branches] = part[tree.children[branches]].sum(axis=1)
    # the squared deviation from the mean prediction within each node
    inside = squares[:, 0] - np.square(sums).sum(axis=1) / np.maximum(mass[:, 0], 1e-300)
    gain = inside.copy()
    gain[:first] -= inside[tree.children].sum(axis=1)
    gain = np.maximum(gain, 0.0)
    if not tree.linear_leaves:
        gain[first:] = 0.0
    rows = sparse.columns_times(abs(tree.split_weights), spread)
    if sparse.is_sparse(rows) and not tree.linear_leaves:
        sums = rows.sum(axis=1)
        found = rows.T @ (gain[:first] / np.maximum(sums, 1e-300))
        return found / found.sum() if found.sum() > 0.0 else found
    rows = rows.toarray() if sparse.is_sparse(rows) else rows
    if tree.linear_leaves:
        rows = np.concatenate([rows, np.abs(tree.leaf_arrays[1]).sum(axis=1) * spread])
    else:
        gain = gain[:first]
    rows = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1e-300)
    found = gain @ rows
    return found / found.sum() if found.sum() > 0.0 else found
