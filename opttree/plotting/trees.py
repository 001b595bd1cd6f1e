"""Figures of a tree or a model: its nodes, its importances, the weights of its splits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from opttree.model.convert import as_tree, names_of, scores_of, split_names
from opttree.model.tree import Tree
from opttree.plotting.tree_picture import Told, draw_tree
from opttree.runtime.words import short

MOST = 60  # characters of a name


def tree_of(model: Any, feature_names: Sequence[str] | None) -> tuple[Tree, list[str]]:
    """The tree of a model, and the names of its features."""
    tree = as_tree(model, raw=False)
    return tree, names_of(model, tree, feature_names)


def plot_tree(
    model: Any,
    *,
    feature_names: Sequence[str] | None = None,
    max_depth: int | None = None,
    ax: Axes | None = None,
    fontsize: float = 8.0,
) -> Axes:
    """Draw a tree: a branch shows its condition and its share of the weight, a leaf its value or the largest terms of
    its equation, coloured by the answer: by class, the paler the less sure, or from low (blue) to high (red) numbers.
    Linear leaves of classes, and those of numbers that share one range, have no colour. A fitted estimator whose rows
    had no weights shows the number of rows. Where leaves are constants, a bar in each box shows the probabilities of at
    most ten classes as the tree estimates them (leaves may be shrunk), or where the mean answer lies between the lowest
    and the highest leaf.

    Text is readable on a page up to a depth of 3 or 4. Of deeper trees draw the upper levels (``max_depth=3``), or take
    `opttree.export.to_html`. Files in PDF embed fonts as matplotlib's ``pdf.fonttype`` says.

    A sum of features shows its largest terms as weight times standard deviation of the feature, the largest scaled to
    1, if the tree stores deviations (`Tree.spread`; fitted trees do). Boxes say as much as there is room for, level by
    level: in deep trees only a name or a number, then a dot; `Tree.to_html` shows all of it.

    Parameters
    ----------
    model : Tree, Model or estimator
        A tree, or what holds one; an estimator must be fitted.
    feature_names : sequence of str or None, default None
        Names in place of the model's own; splits of tables are then not put into words.
    max_depth : int or None, default None
        Largest depth drawn; subtrees below are shown as "... (k leaves)".
    ax : matplotlib.axes.Axes or None, default None
        Axes to draw on; by default a new figure with room for the texts, of at most 24 by 14 inches.
    fontsize : float, default 8.0
        Largest size of the texts, in points; they become smaller where they would overlap.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

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
    tree, names = tree_of(model, feature_names)
    if max_depth is not None and max_depth < 0:
        raise ValueError(f"max_depth must be >= 0; got {max_depth}")
    target = getattr(model, "_target_name", None) or getattr(model, "target", None)
    target = target if isinstance(target, str) and target != "target" else None
    told = Told(target, getattr(model, "_n_equal", None))
    in_words = feature_names is None and scores_of(model) is None
    return draw_tree(
        tree, [short(name, MOST) for name in split_names(model, names)], in_words, max_depth, ax, fontsize, told
    )


def plot_importances(
    model: Any, *, most: int = 20, feature_names: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the importances of a fitted estimator, ``feature_importances_``, as bars, the largest first.

    Parameters
    ----------
    model : estimator or array-like of shape (p,)
        A fitted estimator, of opttree or another library, or the importances themselves.
    most : int, default 20
        Bars, at most; the others are added up in one more.
    feature_names : sequence of str or None, default None
        The p names in place of the model's own.
    ax : matplotlib.axes.Axes or None, default None
        Axes to draw on; by default new ones.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

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
    shares = getattr(model, "feature_importances_", model)
    values = np.asarray(shares, np.float64) if np.iterable(shares) else np.zeros((0, 0))
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
    labels, sizes = [short(names[j], MOST) for j in shown], list(values[shown])
    if rest.size:
        labels.append(f"{rest.size} others")
        sizes.append(float(values[rest].sum()))
    if ax is None:
        _, ax = plt.subplots(figsize=(6.0, 0.28 * len(labels) + 0.9), layout="constrained")
    ax.barh(np.arange(len(labels)), sizes, color=["#4c6a87"] * len(shown) + ["#b9c3cd"] * bool(rest.size))
    ax.set_yticks(np.arange(len(labels)), labels, parse_math=False)
    ax.invert_yaxis()
    recipe = getattr(model, "recipe", None)
    kind = (
        "" if recipe is None else ": share of the explained variance" if recipe.importances is None else ": by weights"
    )
    ax.set_xlabel(f"importance{kind}")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_node_weights(
    model: Any, *, levels: int = 3, feature_names: Sequence[str] | None = None, most_names: int = 12
) -> NDArray[Any]:
    """Draw the split weights of the branches of the first ``levels`` levels as bars, one row per level (SDTR figure 5).

    Weights are multiplied by the standard deviations of their features, which makes them comparable, if the tree stores
    these (`Tree.spread`).

    Parameters
    ----------
    model : Tree, Model or estimator
        A tree, or what holds one; an estimator must be fitted.
    levels : int, default 3
        Levels of branches to draw, >= 1.
    feature_names : sequence of str or None, default None
        The p names in place of the model's own.
    most_names : int, default 12
        With more features than this, axes show feature numbers instead of names.

    Returns
    -------
    ndarray of matplotlib.axes.Axes
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
    tree, names = tree_of(model, feature_names)
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
            ax.set_xticks(np.arange(tree.n_features), list(map(short, names)), rotation=90, parse_math=False)
        else:
            ax.set_xlabel("feature", fontsize=8)
        axes.append(ax)
    return np.array(axes)
