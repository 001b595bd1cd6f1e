"""Figures with matplotlib: trees and their weights, traces, the partition of two features, splits in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.plotting.tree_picture import draw_tree
from opttree.tables.encoding import is_table

__all__ = [
    "plot_importances",
    "plot_node_weights",
    "plot_partition",
    "plot_rows",
    "plot_split_evolution",
    "plot_trace",
    "plot_tree",
]

FACTOR_OF_LOG = 3.0  # between the largest and the least objective of a trace on a linear axis
GAP_FLOOR = 1e-6  # relative gaps below are drawn as this one


def _tree_of(model: Any, feature_names: Sequence[str] | None) -> tuple[Tree, list[str]]:
    tree = as_tree(model, raw=False)
    if feature_names is None:
        if tree.encoding is not None:
            return tree, tree.names()
        feature_names = getattr(model, "feature_names", None)
        feature_names = getattr(model, "feature_names_in_", None) if feature_names is None else feature_names
    return tree, tree.names(feature_names)


def plot_tree(
    model: Any,
    *,
    feature_names: Sequence[str] | None = None,
    max_depth: int | None = None,
    ax: Axes | None = None,
    fontsize: float = 8.0,
) -> Axes:
    """Draw a tree: a branch shows its condition and share of the samples, a leaf its value or the largest terms of its
    equation, coloured by the answer: by class, the paler the less sure, or from low (blue) to high (red) numbers.

    A sum of features shows its largest terms as weight times standard deviation of the feature, the largest scaled to
    1, if the tree stores deviations (`Tree.spread`; fitted trees do). Boxes say as much as there is room for, level by
    level: in deep trees only a name or a number, then a dot; `Tree.to_html` shows all of it.

    Parameters
    ----------
    model : a `Tree`, a saved `Model` or a fitted estimator.
    feature_names : names in place of the model's own; splits of tables are then not put into words.
    max_depth : largest depth drawn; subtrees below are shown as "... (k leaves)".
    ax : axes to draw on; by default a new figure with room for the texts, of at most 24 by 14 inches.
    fontsize : largest size of the texts, in points; they become smaller where they would overlap.

    See Also
    --------
    opttree.export.to_html : a page that opens and closes branches

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> ax = opttree.plotting.plot_tree(model)
    >>> len(ax.texts) >= 7
    True
    >>> plt.close("all")
    """
    tree, names = _tree_of(model, feature_names)
    if max_depth is not None and max_depth < 0:
        raise ValueError(f"max_depth must be >= 0; got {max_depth}")
    return draw_tree(tree, names, feature_names is None, max_depth, ax, fontsize)


def plot_importances(
    model: Any, *, most: int = 20, feature_names: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the importances of a fitted estimator, ``feature_importances_``, as bars, the largest first.

    Parameters
    ----------
    model : a fitted estimator, of opttree or another library, or the importances themselves (p,).
    most : bars, at most; the others are added up in one more.
    feature_names : (p,) names in place of the model's own.
    ax : axes to draw on; by default new ones.

    See Also
    --------
    opttree.interpret.importances : the numbers

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> ax = opttree.plotting.plot_importances(model)
    >>> len(ax.patches) > 0
    True
    >>> plt.close("all")
    """
    found = getattr(model, "feature_importances_", model)
    values = np.asarray(found, np.float64) if np.iterable(found) else np.zeros((0, 0))
    if values.ndim != 1 or not values.size:
        raise ValueError(f"model must be fitted and have feature_importances_, or be a list of them; got {model!r}")
    if most < 1:
        raise ValueError(f"most must be >= 1; got {most}")
    given = feature_names if feature_names is not None else getattr(model, "feature_names_in_", None)
    names = [f"x{j}" for j in range(values.size)] if given is None else [str(name) for name in given]
    if len(names) != values.size:
        raise ValueError(f"feature_names must have {values.size} entries; got {len(names)}")
    order = np.argsort(-values, kind="stable")
    shown, rest = order[:most], order[most:]
    labels, sizes = [names[j] for j in shown], list(values[shown])
    if rest.size:
        labels.append(f"{rest.size} others")
        sizes.append(float(values[rest].sum()))
    if ax is None:
        _, ax = plt.subplots(figsize=(6.0, 0.28 * len(labels) + 0.9), layout="constrained")
    ax.barh(np.arange(len(labels)), sizes, color=["#4c6a87"] * len(shown) + ["#b9c3cd"] * bool(rest.size))
    ax.set_yticks(np.arange(len(labels)), labels)
    ax.invert_yaxis()
    ax.set_xlabel("importance")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_trace(
    results: Any,
    *,
    ax: Axes | None = None,
    log: bool = False,
    scale: Literal["auto", "linear", "log", "gap"] = "auto",
) -> Axes:
    """Draw the best objective (solid, a point for each improvement) and the bound (dashed) against seconds, for several
    results on one axis.

    Parameters
    ----------
    results : a `Result`, a sequence of them, or a mapping from label to `Result`.
    ax : axes to draw on; by default new ones.
    log : logarithmic time axis.
    scale : of the objective. "linear"; "log"; "gap": ``(objective - best) / |best|`` on a logarithmic axis, with the
        best objective of all results, or the best bound where that is a proof, as ``best``; "auto": "log" where
        objectives are positive and differ by more than a factor of 3, else "linear".

    See Also
    --------
    solvers.Trace : what it draws

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> ax = opttree.plotting.plot_trace(model.result_)
    >>> ax.get_xlabel()
    'seconds'
    >>> plt.close("all")
    """
    if not isinstance(results, Mapping):
        several = list(results) if isinstance(results, Sequence) else [results]
        names = [str(getattr(result, "solver", "")).split("(")[0] for result in several]
        results = {
            name if names.count(name) == 1 else f"{name} {k + 1}": result
            for k, (name, result) in enumerate(zip(names, several, strict=True))
        }
    for result in results.values():
        if not hasattr(result, "trace"):
            raise ValueError(f"results must hold what solve returns, Result; got {result!r}")
    if not results:
        raise ValueError("results must hold at least one result; got none")
    bounds = {label: result.bound for label, result in results.items()}
    end = max(result.seconds for result in results.values())
    return plot_rows(
        {label: result.trace for label, result in results.items()}, end, bounds, ax=ax, log=log, scale=scale
    )


def plot_rows(
    traces: Mapping[str, Any],
    end: float = 0.0,
    bounds: Mapping[str, float | None] | None = None,
    *,
    ax: Axes | None = None,
    log: bool = False,
    scale: Literal["auto", "linear", "log", "gap"] = "auto",
) -> Axes:
    """`plot_trace` of traces alone, up to ``end`` seconds; ``bounds`` are the final ones, by default those of the
    traces.

    Parameters
    ----------
    traces : mapping from label to `solvers.Trace`.
    end : seconds up to which lines go on; 0: up to the last step.
    bounds : final bound of each label, or None.
    ax : axes to draw on; by default new ones.
    log : logarithmic time axis.
    scale : see `plot_trace`.

    See Also
    --------
    plot_trace : of a result, or of several

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> ax = opttree.plotting.plot_rows({"TAO": model.result_.trace})
    >>> ax.get_xlabel()
    'seconds'
    >>> plt.close("all")
    """
    if scale not in ("auto", "linear", "log", "gap"):
        raise ValueError(f"scale must be 'auto', 'linear', 'log' or 'gap'; got {scale!r}")
    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, 4.0))
    frames = {label: trace.to_frame() for label, trace in traces.items()}
    best = np.concatenate([frame["best"].to_numpy(float) for frame in frames.values()])
    best = best[np.isfinite(best)]
    if scale == "auto":
        scale = "log" if best.size and best.min() > 0.0 and best.max() > FACTOR_OF_LOG * best.min() else "linear"
    reference = float(best.min()) if best.size else 0.0

    def drawn(values: Any) -> NDArray[Any]:
        numbers = np.asarray(values, np.float64)
        if scale != "gap":
            return numbers
        return np.maximum((numbers - reference) / max(abs(reference), 1e-300), GAP_FLOOR)

    for k, (label, frame) in enumerate(frames.items()):
        end = max(end, float(frame["seconds"].max()))
        last = frame["bound"].iloc[-1] if bounds is None else bounds[label]
        color = f"C{k % 10}"
        own = frame["best"].to_numpy(float)
        ax.step(
            np.append(frame["seconds"], end), drawn(np.append(own, own[-1])), where="post", color=color,
            label=label or "best",
        )  # fmt: skip
        better = np.append(True, np.diff(own) < 0.0) & np.isfinite(own)
        ax.plot(frame["seconds"][better], drawn(own[better]), "o", color=color, markersize=3.5)
        if last is not None and scale != "gap":
            bound = np.append(frame["bound"].astype(float), last)
            label = f"{label}, bound" if label else "bound"
            seconds = np.append(frame["seconds"], end)
            ax.step(seconds, bound, where="post", color=color, linestyle="--", label=label)
    if log:
        ax.set_xscale("log")
    if scale in ("log", "gap"):
        ax.set_yscale("log")
    ax.set_xlabel("seconds")
    ax.set_ylabel("gap to the best objective (training)" if scale == "gap" else "objective (training)")
    ax.grid(alpha=0.25)
    ax.legend(frameon=False)
    return ax


def plot_partition(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    features: tuple[int | str, int | str] = (0, 1),
    feature_names: Sequence[str] | None = None,
    resolution: int = 300,
    ax: Axes | None = None,
) -> Axes:
    """Draw how a tree divides the plane of two features, the others held at their medians in ``X (n, p)``.

    Colours are predictions (class indices for classification) and lines are the boundaries between leaves; the rows of
    X are drawn on top, coloured by ``y`` if given. ``features`` are numbers or names; of a model with the encoding of a
    table, X is the table, and features are those of its encoding.

    Parameters
    ----------
    model : a tree, a saved model, or a fitted estimator of one tree.
    X : (n, p) rows; of a model with the encoding of a table, the table.
    y : (n,) targets that colour the rows, or None.
    features : numbers or names of the two features.
    feature_names : (p,) names in place of the model's own.
    resolution : pixels on a side.
    ax : axes to draw on; by default new ones.

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
    tree, names = _tree_of(model, feature_names)
    X = tree.encoding.transform(X) if tree.encoding is not None and is_table(X) else np.asarray(X, np.float64)
    for f in features:
        if isinstance(f, str) and f not in names:
            raise ValueError(f"features must be names of the model's features, {', '.join(names)}; got {f!r}")
    i, j = (names.index(f) if isinstance(f, str) else f for f in features)
    if i == j or not all(0 <= f < tree.n_features for f in (i, j)):
        raise ValueError(f"features must be two different columns of 0..{tree.n_features - 1}; got {features}")
    if tree.classes is None and tree.n_outputs > 1:
        raise ValueError(f"plot_partition needs a tree with one output or classes; this one has {tree.n_outputs}")
    if ax is None:
        _, ax = plt.subplots(figsize=(5.6, 4.4))
    sides = []
    for f in (i, j):
        low, high = X[:, f].min(), X[:, f].max()
        pad = 0.04 * (high - low) or 1.0
        sides.append(np.linspace(low - pad, high + pad, resolution))
    grid_i, grid_j = np.meshgrid(*sides)
    points = np.tile(np.median(X, axis=0), (grid_i.size, 1))
    points[:, i], points[:, j] = grid_i.ravel(), grid_j.ravel()
    is_class = tree.classes is not None
    value = np.argmax(tree.outputs(points), axis=1) if is_class else tree.predict(points)
    value = value.reshape(grid_i.shape).astype(float)
    leaf = tree.apply(points).reshape(grid_i.shape)
    spread: dict[str, Any] = {}
    if is_class:
        spread = {"vmin": 0, "vmax": max(tree.n_outputs - 1, 1)}
    if y is not None and not is_class:
        spread = {"vmin": min(value.min(), np.min(y)), "vmax": max(value.max(), np.max(y))}
    cmap = "viridis" if not is_class else "tab10" if tree.n_outputs > 2 else "coolwarm"
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
        ax.legend(handles=handles, frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    else:
        ax.figure.colorbar(mesh, ax=ax, label="prediction")
    ax.set_xlabel(names[i])
    ax.set_ylabel(names[j])
    return ax


def plot_node_weights(
    model: Any, *, levels: int = 3, feature_names: Sequence[str] | None = None, most_names: int = 12
) -> NDArray[Any]:
    """Draw the split weights of the branches of the first ``levels`` levels as bars, one row per level (SDTR figure 5).

    Weights are multiplied by the standard deviations of their features, which makes them comparable, if the tree stores
    these (`Tree.spread`).

    Parameters
    ----------
    model : a `Tree`, a saved `Model` or a fitted estimator of one tree.
    levels : >= 1.
    feature_names : (p,) names in place of the model's own.
    most_names : with more features than this, axes show feature numbers instead of names.

    Returns
    -------
    The axes of the branches drawn, in the order of their numbers.

    See Also
    --------
    opttree.interpret.weight_shares : the numbers

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> opttree.plotting.plot_node_weights(model).shape
    (3,)
    >>> plt.close("all")
    """
    tree, names = _tree_of(model, feature_names)
    if levels < 1:
        raise ValueError(f"levels must be >= 1; got {levels}")
    drawn = [t for t in range(tree.n_branches) if tree.node_depth[t] < levels]
    if not drawn:
        raise ValueError("model must have a branch; got a single leaf")
    place = {0: 0}  # position from the left, within its level
    for t in range(tree.n_branches):
        place |= {int(kid): 2 * place[t] + side for side, kid in enumerate(tree.children[t])}
    rows = int(max(tree.node_depth[t] for t in drawn)) + 1
    width = 2 ** (rows - 1)
    figure = plt.figure(figsize=(max(5.0, 2.4 * width), 2.3 * rows), layout="constrained")
    grid = figure.add_gridspec(rows, width)
    weights = tree.A if tree.spread is None else tree.A * tree.spread
    most = 1.08 * max(np.abs(weights[drawn]).max(), 1e-12)
    axes = []
    for t in drawn:
        depth = int(tree.node_depth[t])
        span = width >> depth
        ax = figure.add_subplot(grid[depth, place[t] * span : (place[t] + 1) * span])
        ax.bar(np.arange(tree.n_features), weights[t], color=np.where(weights[t] >= 0.0, "#4c6a87", "#b5654a"))
        ax.axhline(0.0, color="#66727d", linewidth=0.8)
        ax.set_ylim(-most, most)
        ax.set_title(f"branch {t}", fontsize=9)
        ax.tick_params(labelsize=7)
        if tree.n_features <= most_names:
            ax.set_xticks(np.arange(tree.n_features), names, rotation=90)
        else:
            ax.set_xlabel("feature", fontsize=8)
        axes.append(ax)
    return np.array(axes)


def plot_split_evolution(
    steps: Sequence[Any], *, levels: int = 2, feature_names: Sequence[str] | None = None
) -> NDArray[Any]:
    """Draw the features and thresholds of the branches near the root over the epochs of `solvers.GradTree`.

    One axes per node position in the first ``levels`` levels: thresholds over epochs, one colour per feature, with gaps
    where the tree had a leaf.

    Parameters
    ----------
    steps : the solver's steps, as ``solve(..., callback=lambda step, trace: steps.append(step))`` collects them. Those
        of the start with the lowest validation loss are drawn.
    levels : >= 1.
    feature_names : (p,) names; by default x0, x1, ...

    Returns
    -------
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
    figure.legend(handles=handles, frameon=False, fontsize=8, loc="outside right upper")
    return axes[:, 0]
