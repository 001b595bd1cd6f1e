"""Figures of splits: the plane that they divide, and how they move in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from opttree.explain.importance import importances
from opttree.model.convert import encoding_of, scores_of
from opttree.plotting.tree_picture import literal
from opttree.plotting.trees import tree_of
from opttree.tables.encoding import is_table
from opttree.tables.numbers import check_numbers


def plot_partition(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    features: tuple[int | str, int | str] | None = None,
    feature_names: Sequence[str] | None = None,
    resolution: int = 300,
    ax: Axes | None = None,
) -> Axes:
    """Draw how a tree divides the plane of two features, the others held at their medians.

    Colours are predictions (class indices for classification) and lines are the boundaries between leaves; the rows of
    X are drawn on top, coloured by ``y`` if given.

    Parameters
    ----------
    model : Tree, Model or estimator
        A tree, or what holds one; an estimator must be fitted.
    X : DataFrame or array-like of shape (n, p)
        Rows; of a model with the encoding of a table, the table.
    y : array-like of shape (n,) or None, default None
        Targets that colour the rows.
    features : tuple[int or str, int or str] or None, default None
        Numbers or names of the two features; of a model with the encoding of a table, those of its encoding. None: the
        two of the largest `importances` on these rows.
    feature_names : sequence of str or None, default None
        The p names in place of the model's own.
    resolution : int, default 300
        Pixels on a side.
    ax : matplotlib.axes.Axes or None, default None
        Axes to draw on; by default new ones.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    See Also
    --------
    plot_tree : of more features

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> two = opttree.TAORegressor(max_depth=2, random_state=0).fit(X[:, [2, 8]], y)
    >>> ax = opttree.plotting.plot_partition(two, X[:, [2, 8]], y)
    >>> ax.get_xlabel()
    'x0'
    >>> plt.close("all")
    """
    tree, names = tree_of(model, feature_names)
    encoding, scores, is_class = encoding_of(model, tree), scores_of(model), tree.classes is not None
    X = encoding.transform(X) if encoding is not None and is_table(X) else np.asarray(X, np.float64)
    if tree.n_features < 2:
        raise ValueError(f"plot_partition needs a tree of two features or more; this one has {tree.n_features}")
    if features is None:
        shares = importances(tree, X if scores is None else scores.transform(X))
        i, j = np.sort(np.argsort(-shares, kind="stable")[:2]).tolist()
        features = (i, j)
    for f in features:
        if isinstance(f, str) and f not in names:
            raise ValueError(f"features must be names of the model's features, {', '.join(names)}; got {f!r}")
    if len(features) != 2:
        raise ValueError(f"features must be two columns; got {features!r}")
    i, j = (names.index(f) if isinstance(f, str) else f for f in features)
    if i == j or not all(0 <= f < tree.n_features for f in (i, j)):
        raise ValueError(f"features must be two different columns of 0..{tree.n_features - 1}; got {features}")
    if tree.classes is None and tree.n_outputs > 1:
        raise ValueError(f"plot_partition needs a tree with one output or classes; this one has {tree.n_outputs}")
    if X.ndim != 2 or X.shape[1] != tree.n_features or not len(X):
        raise ValueError(f"X must have rows of {tree.n_features} columns; got shape {X.shape}")
    check_numbers("X", X)
    if resolution < 2:
        raise ValueError(f"resolution must be >= 2; got {resolution!r}")
    if y is not None:
        y = np.asarray(y)
        if y.shape != (len(X),):
            raise ValueError(f"y must have an entry for each row, {len(X)}; got shape {y.shape}")
        if is_class and not (known := np.isin(y, tree.classes)).all():  # type: ignore[arg-type]
            raise ValueError(f"y must hold labels of the training; got {y[~known].tolist()[0]!r}")
    if ax is None:
        _, ax = plt.subplots(figsize=(5.6, 4.4), layout="constrained")
    sides = []
    for f in (i, j):
        low, high = X[:, f].min(), X[:, f].max()
        pad = 0.04 * (high - low) or 1.0
        sides.append(np.linspace(low - pad, high + pad, resolution))
    grid_i, grid_j = np.meshgrid(*sides)
    points = np.tile(np.median(X, axis=0), (grid_i.size, 1))
    points[:, i], points[:, j] = grid_i.ravel(), grid_j.ravel()
    points = points if scores is None else scores.transform(points)
    value = np.argmax(tree.outputs(points), axis=1) if is_class else tree.predict(points)
    value = value.reshape(grid_i.shape).astype(float)
    leaf = tree.apply(points).reshape(grid_i.shape)
    spread: dict[str, Any] = {}
    K = tree.n_outputs if is_class else 0
    if is_class:
        spread = {"vmin": 0, "vmax": 1 if K <= 2 else 9 if K <= 10 else 19 if K <= 20 else K - 1}
    if y is not None and not is_class:
        spread = {"vmin": min(value.min(), np.min(y)), "vmax": max(value.max(), np.max(y))}
    cmap = (
        "viridis" if not is_class else "coolwarm" if K <= 2 else "tab10" if K <= 10 else "tab20" if K <= 20 else "turbo"
    )
    mesh = ax.pcolormesh(grid_i, grid_j, value, cmap=cmap, alpha=0.55, shading="nearest", rasterized=True, **spread)
    across, down = leaf[:, 1:] != leaf[:, :-1], leaf[1:] != leaf[:-1]
    edge = np.zeros(leaf.shape)
    edge[:, 1:] = across
    edge[1:] = np.maximum(edge[1:], down)
    if edge.any():
        ax.contour(grid_i, grid_j, edge, levels=[0.5], colors="black", linewidths=0.5)
    if y is not None:
        color = np.searchsorted(tree.classes, y) if is_class else y  # type: ignore[arg-type]
        ax.scatter(X[:, i], X[:, j], c=color, cmap=cmap, s=16, edgecolors="#222222", linewidths=0.5, **spread)
    if is_class:
        handles = [
            plt.Line2D([], [], marker="s", linestyle="", color=tuple(color), label=str(c))
            for c, color in zip(tree.classes, mesh.to_rgba(np.arange(tree.n_outputs)), strict=True)  # type: ignore[arg-type]
        ]
        literal(
            ax.legend(
                handles=handles,
                frameon=False,
                fontsize=8,
                loc="upper left",
                bbox_to_anchor=(1.0, 1.0),
                ncols=-(-K // 20),
            )
        )
    else:
        ax.figure.colorbar(mesh, ax=ax, label="prediction")
    ax.set_xlabel(names[i], parse_math=False)
    ax.set_ylabel(names[j], parse_math=False)
    return ax


def plot_split_evolution(
    steps: Sequence[Any], *, levels: int = 2, feature_names: Sequence[str] | None = None
) -> NDArray[Any]:
    """Draw the features and thresholds of the branches near the root over the epochs of `solvers.GradTree`.

    One axes per node position in the first ``levels`` levels: thresholds over epochs, one colour per feature, with gaps
    where the tree had a leaf.

    Parameters
    ----------
    steps : sequence of Step
        The solver's steps, as ``solve(..., callback=lambda step, trace: steps.append(step))`` collects them. Those of
        the start with the lowest validation loss are drawn.
    levels : int, default 2
        Levels of branches to draw, >= 1.
    feature_names : sequence of str or None, default None
        The p names; by default x0, x1, ...

    Returns
    -------
    ndarray of matplotlib.axes.Axes
        The axes, root first, each level from left to right.

    See Also
    --------
    plot_trace : the objective

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> from solvers import GradTree, solve
    >>> steps = []
    >>> problem = opttree.TreeProblem.standardized(X, y, depth=1, splits="axis")
    >>> _ = solve(problem, GradTree(epochs=30), callback=lambda step, trace: steps.append(step), random_state=0)
    >>> opttree.plotting.plot_split_evolution(steps).shape
    (3,)
    >>> plt.close("all")
    """
    if levels < 1:
        raise ValueError(f"levels must be >= 1; got {levels}")
    judged = [step for step in steps if "epoch" in step.info]
    if not judged:
        raise ValueError("steps must hold steps of GradTree's starts; got none")
    best = min(judged, key=lambda step: step.info["validation"]).phase
    trees = [(step.info["epoch"], step.tree.canonical) for step in judged if step.phase == best]
    names = trees[0][1].names(feature_names)
    levels = min(levels, max(2, *(1 + int(tree.node_depth[: tree.n_branches].max(initial=0)) for _, tree in trees)))
    epochs = np.array([epoch for epoch, _tree in trees])
    n_places = 2**levels - 1
    feature, threshold = np.full((n_places, len(trees)), -1), np.full((n_places, len(trees)), np.nan)
    for k, (_epoch, tree) in enumerate(trees):
        node = {0: 0}
        for at in range(n_places):
            t = node.get(at)
            if t is None or t >= tree.n_branches:
                continue
            f = int(tree.feature[t])
            feature[at, k], threshold[at, k] = f, tree.b[t] / tree.A[t, f]
            node |= {2 * at + 1: int(tree.children[t, 0]), 2 * at + 2: int(tree.children[t, 1])}
    figure, axes = plt.subplots(
        n_places, 1, figsize=(6.4, 1.3 * n_places + 0.6), sharex=True, squeeze=False, layout="constrained"
    )
    colors = {int(f): f"C{i % 10}" for i, f in enumerate(np.unique(feature[feature >= 0]))}
    ends = np.append(epochs, epochs[-1] + max(1.0, 0.02 * epochs[-1]))
    for at, ax in enumerate(axes[:, 0]):
        for k in range(len(trees)):
            if (f := int(feature[at, k])) >= 0:
                ax.plot(ends[k : k + 2], [threshold[at, k]] * 2, color=colors[f], linewidth=2.0)
        ax.set_ylabel(f"level {int(np.log2(at + 1))}\nthreshold", fontsize=8)
        ax.tick_params(labelsize=8)
        ax.grid(alpha=0.25)
    axes[-1, 0].set_xlabel("epoch")
    handles = [plt.Line2D([], [], color=color, linewidth=2.0, label=names[f]) for f, color in colors.items()]
    literal(figure.legend(handles=handles, frameon=False, fontsize=8, loc="outside right upper"))
    return axes[:, 0]
