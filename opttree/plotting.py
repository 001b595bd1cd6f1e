"""Figures with matplotlib: the tree, traces of solvers, and the partition of two features."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from opttree.text import gate_text, leaf_text, number, terms
from opttree.tree import Tree

BRANCH_STYLE = {"boxstyle": "round,pad=0.35", "facecolor": "#eef3f8", "edgecolor": "#4c6a87", "linewidth": 0.9}
LEAF_STYLE = {"boxstyle": "round,pad=0.35", "facecolor": "#f2f7ec", "edgecolor": "#5d7f45", "linewidth": 0.9}
MOST_TERMS = 3
INCHES_PER_CHARACTER = 0.0085  # times the font size


def _tree_of(model: Any, feature_names: Sequence[str] | None) -> tuple[Tree, list[str]]:
    tree = model if isinstance(model, Tree) else getattr(model, "tree", None) or getattr(model, "tree_", None)
    if tree is None:
        raise ValueError(f"model must be a Tree, a Model or a fitted estimator; got {type(model).__name__}")
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
    largest terms of its equation.

    Parameters
    ----------
    model : a `Tree`, a saved `Model` or a fitted estimator.
    max_depth : draw no deeper; what is cut off is shown as "... (k leaves)".
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
        """Lay out the subtree from x = ``left`` on; returns where the next one may begin."""
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
            text = f"{terms(tree.A[node], names, 3, MOST_TERMS)} <= {number(tree.b[node], 3)}"
        elif node < tree.n_branches:
            text = f"... ({below[node]} leaves)"
        else:
            text = leaf_text(tree, node, names, 3, MOST_TERMS)
        share = "" if tree.share is None else f"\n{100 * tree.share[node]:.3g} % of samples"
        return re.sub(r" (?=[+-] |<= )|(?<=;) ", "\n", text) + share  # a term per line

    width = place(0, 0.0)
    height = -min(y for _, y in position.values())
    texts = {node: text_of(node) for node in position}
    if ax is None:
        longest = max(len(line) for text in texts.values() for line in text.splitlines())
        tallest = max(text.count("\n") + 1 for text in texts.values())
        leaf_width = INCHES_PER_CHARACTER * fontsize * (longest + 4)
        level_height = 0.019 * fontsize * (tallest + 2) + 0.25
        figure = plt.figure(figsize=(max(4.0, leaf_width * width), max(2.0, level_height * (height + 1))))
        ax = figure.add_axes((0.0, 0.0, 1.0, 1.0))
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


def plot_trace(results: Any, *, ax: Axes | None = None, log: bool = False) -> Axes:
    """Draw the best objective (solid) and the bound (dashed) against seconds, for several results on one axis.

    Parameters
    ----------
    results : a `Result`, or a mapping from label to `Result`.
    log : logarithmic time axis.
    """
    if not isinstance(results, Mapping):
        results = {results.solver.split("(")[0]: results}
    if not results:
        raise ValueError("results must hold at least one result; got none")
    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, 4.0))
    end = max(result.seconds for result in results.values())
    for k, (label, result) in enumerate(results.items()):
        frame = result.trace.to_frame()
        color = f"C{k % 10}"
        seconds = np.append(frame["seconds"], end)
        best = np.append(frame["best"], frame["best"].iloc[-1])
        ax.step(seconds, best, where="post", color=color, label=label)
        ax.plot(frame["seconds"], frame["objective"], ".", color=color, markersize=3.5, alpha=0.6)
        if result.bound is not None:
            bound = np.append(frame["bound"].astype(float), result.bound)
            ax.step(seconds, bound, where="post", color=color, linestyle="--", label=f"{label}, bound")
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

    Colours are predictions (class indices for classification), lines the boundaries between leaves; the rows of X are
    drawn on top, coloured by ``y`` where it is given.
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
