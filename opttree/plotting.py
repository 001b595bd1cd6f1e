"""Figures with matplotlib: trees and their weights, traces, the partition of two features, splits in training."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from opttree.models import as_tree
from opttree.text import gate_text, leaf_text, number, terms
from opttree.tree import Tree

BRANCH_STYLE = {"boxstyle": "round,pad=0.35", "facecolor": "#eef3f8", "edgecolor": "#4c6a87", "linewidth": 0.9}
LEAF_STYLE = {"boxstyle": "round,pad=0.35", "facecolor": "#f2f7ec", "edgecolor": "#5d7f45", "linewidth": 0.9}
MOST_TERMS = 3
INCHES_PER_CHARACTER = 0.0085  # times the font size


def _tree_of(model: Any, feature_names: Sequence[str] | None) -> tuple[Tree, list[str]]:
    tree = as_tree(model, raw=False)
    if feature_names is None:
        feature_names = getattr(model, "feature_names", None) or getattr(model, "feature_names_in_", None)
    return tree, tree.names(feature_names)


def plot_tree(
    model: Any,
    *,
    feature_names: Sequence[str] | None = None,
    max_depth: int | None = None,
    ax: Axes | None = None,
    fontsize: float = 8.0,
) -> Axes:
    """Draw a tree: a branch shows its largest weights, threshold and share of the samples, a leaf its value or the
    largest terms of its equation. Weights are ranked by weight times standard deviation of the feature, if the tree
    stores it (`Tree.spread`; fitted trees do).

    Parameters
    ----------
    model : a `Tree`, a saved `Model` or a fitted estimator.
    max_depth : largest depth drawn; subtrees below are shown as "... (k leaves)".
    ax : axes to draw on; by default a new figure wide enough for the leaves.
    """
    tree, names = _tree_of(model, feature_names)
    if max_depth is not None and max_depth < 0:
        raise ValueError(f"max_depth must be >= 0; got {max_depth}")
    below = np.ones(tree.n_nodes, int)  # leaves below each node
    for t in range(tree.n_branches - 1, -1, -1):
        below[t] = below[tree.children[t]].sum()

    def is_end(node: int) -> bool:
        return node >= tree.n_branches or (max_depth is not None and tree.node_depth[node] >= max_depth)

    position: dict[int, tuple[float, float]] = {}

    def place(node: int, left: float) -> float:
        """Lay out the subtree from x = ``left`` on; returns the left edge of the next one."""
        depth = -float(tree.node_depth[node])
        if is_end(node):
            position[node] = (left, depth)
            return left + 1.0
        kids = [int(c) for c in tree.children[node]]
        end = left
        for kid in kids:
            end = place(kid, end)
        position[node] = (0.5 * (position[kids[0]][0] + position[kids[1]][0]), depth)
        return end

    def text_of(node: int) -> str:
        if not is_end(node):
            text = f"{terms(tree.A[node], names, 3, MOST_TERMS, tree.spread)} <= {number(tree.b[node], 3)}"
        elif node < tree.n_branches:
            text = f"... ({below[node]} leaves)"
        else:
            text = leaf_text(tree, node, names, 3, MOST_TERMS)
        share = "" if tree.share is None else f"\n{100 * tree.share[node]:.3g} % of samples"
        return re.sub(r" (?=[+-] |<= )|(?<=;) ", "\n", text) + share  # one term per line

    width = place(0, 0.0)
    height = -min(y for _, y in position.values())
    texts = {node: text_of(node) for node in position}
    ax = _roomy_axes(list(texts.values()), fontsize, width, height) if ax is None else ax
    for node, (x, y) in position.items():
        if not is_end(node):
            for side, kid in zip(("yes", "no"), tree.children[node], strict=True):
                kx, ky = position[int(kid)]
                ax.plot([x, kx], [y, ky], color="#9aa7b4", linewidth=1.0, zorder=1)
                ax.text(
                    0.6 * x + 0.4 * kx, 0.6 * y + 0.4 * ky, side, fontsize=0.85 * fontsize, color="#66727d",
                    ha="center", va="center", zorder=2, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
                )  # fmt: skip
        style = LEAF_STYLE if is_end(node) else BRANCH_STYLE
        ax.text(
            x, y, texts[node], fontsize=fontsize, ha="center", va="center", zorder=3, bbox=style,
            parse_math=False,
        )  # fmt: skip
    if tree.mixture:
        ax.text(0.0, 0.0, gate_text(tree, 3), fontsize=0.85 * fontsize, color="#66727d", transform=ax.transAxes)
    ax.set_xlim(-0.6, width - 0.4)
    ax.set_ylim(-height - 0.5, 0.5)
    ax.axis("off")
    return ax


def _roomy_axes(texts: Sequence[str], fontsize: float, width: float, height: float) -> Axes:
    """Axes of a new figure with room for the texts of a tree, ``width`` leaves wide and ``height`` levels high."""
    longest = max(len(line) for text in texts for line in text.splitlines())
    tallest = max(text.count("\n") + 1 for text in texts)
    leaf_width = INCHES_PER_CHARACTER * fontsize * (longest + 4)
    level_height = 0.019 * fontsize * (tallest + 2) + 0.25
    figure = plt.figure(figsize=(max(4.0, leaf_width * width), max(2.0, level_height * (height + 1))))
    return figure.add_axes((0.0, 0.0, 1.0, 1.0))


def plot_trace(results: Any, *, ax: Axes | None = None, log: bool = False) -> Axes:
    """Draw the best objective (solid) and the bound (dashed) against seconds, for several results on one axis.

    Parameters
    ----------
    results : a `Result`, a sequence of them, or a mapping from label to `Result`.
    log : logarithmic time axis.
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
    return plot_rows({label: result.trace for label, result in results.items()}, end, bounds, ax=ax, log=log)


def plot_rows(
    traces: Mapping[str, Any],
    end: float = 0.0,
    bounds: Mapping[str, float | None] | None = None,
    *,
    ax: Axes | None = None,
    log: bool = False,
) -> Axes:
    """`plot_trace` of traces alone, up to ``end`` seconds; ``bounds`` are the final ones, by default those of the
    traces.
    """
    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, 4.0))
    for k, (label, trace) in enumerate(traces.items()):
        frame = trace.to_frame()
        end = max(end, float(frame["seconds"].max()))
        last = frame["bound"].iloc[-1] if bounds is None else bounds[label]
        color = f"C{k % 10}"
        seconds = np.append(frame["seconds"], end)
        best = np.append(frame["best"], frame["best"].iloc[-1])
        ax.step(seconds, best, where="post", color=color, label=label or "best")
        ax.plot(frame["seconds"], frame["objective"], ".", color=color, markersize=3.5, alpha=0.6)
        if last is not None:
            bound = np.append(frame["bound"].astype(float), last)
            label = f"{label}, bound" if label else "bound"
            ax.step(seconds, bound, where="post", color=color, linestyle="--", label=label)
    if log:
        ax.set_xscale("log")
    ax.set_xlabel("seconds")
    ax.set_ylabel("objective (training)")
    ax.grid(alpha=0.25)
    ax.legend(frameon=False)
    return ax


def plot_partition(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    features: tuple[int, int] = (0, 1),
    feature_names: Sequence[str] | None = None,
    resolution: int = 300,
    ax: Axes | None = None,
) -> Axes:
    """Draw how a tree divides the plane of two features, the others held at their medians in ``X (n, p)``.

    Colours are predictions (class indices for classification) and lines are the boundaries between leaves; the rows of
    X are drawn on top, coloured by ``y`` if given.
    """
    tree, names = _tree_of(model, feature_names)
    X = np.asarray(X, np.float64)
    i, j = features
    if i == j or not all(0 <= f < tree.n_features for f in features):
        raise ValueError(f"features must be two different columns of 0..{tree.n_features - 1}; got {features}")
    if tree.classes is None and tree.n_outputs > 1:
        raise ValueError(f"plot_partition needs a tree with one output or classes; this one has {tree.n_outputs}")
    if ax is None:
        _, ax = plt.subplots(figsize=(5.6, 4.4))
    sides = []
    for f in features:
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
        ax.scatter(X[:, i], X[:, j], c=color, cmap=cmap, s=9, edgecolors="white", linewidths=0.3, **spread)
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
    most_names : with more features than this, axes show feature numbers instead of names.

    Returns
    -------
    The axes of the branches drawn, in the order of their numbers.
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

    Returns
    -------
    The axes, root first, each level from left to right.
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
