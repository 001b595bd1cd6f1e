"""HTML: a tree as one file for a browser, to open and close branches and to look at single nodes."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

import numpy as np

from opttree.export.record import Exporter, text_file
from opttree.model.convert import as_tree
from opttree.model.files import Model, as_saved
from opttree.model.text import gate_text, leaf_text, sides
from opttree.model.tree import Tree
from opttree.plotting.tree_picture import color_of, leaves_below, mean_answers, short_answer
from opttree.runtime.escape import html_text, plain, script_data

MOST_TERMS = 2  # in a box; the whole equation is in the note of the node
OPEN_LEVELS = 3


def to_html(model: Any, *, title: str | None = None, open_levels: int = OPEN_LEVELS, digits: int = 4) -> str:
    """The tree as a page of HTML: one file without a network, in which a click opens and closes a branch, and a note
    beside the pointer tells the rows of a node, its whole equation and its answer.

    Parameters
    ----------
    model : Tree, Model or estimator
        A tree, or what holds one; an estimator must be fitted.
    title : str or None, default None
        Title of the page; by default the target and the method.
    open_levels : int, default 3
        Levels of branches that are open at first.
    digits : int, default 4
        Significant digits of numbers.

    Returns
    -------
    str
        The page.

    See Also
    --------
    opttree.plotting.plot_tree : a picture
    to_dot : for Graphviz

    Examples
    --------
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> page = opttree.export.to_html(model, title="Diabetes")
    >>> "<title>Diabetes</title>" in page, "https://" in page        # whole in itself
    (True, False)
    """
    if not (isinstance(open_levels, (int, np.integer)) and open_levels >= 0):
        raise ValueError(f"open_levels must be an integer >= 0; got {open_levels!r}")
    saved = as_saved(model)
    tree = as_tree(saved.tree)
    title = title or " ".join(part for part in (saved.method or "Tree", f"for {saved.target}") if part)
    notes = [gate_text(tree, digits)] if tree.mixture else []
    data = {"nodes": nodes_of(saved, tree, digits), "open": int(open_levels), "notes": notes}
    page = resources.files("opttree.export").joinpath("tree.html").read_text(encoding="utf-8")
    parts = {"TITLE": html_text(title), "DATA": script_data(data)}
    return re.sub("TITLE|DATA", lambda match: parts[match[0]], page)


def nodes_of(saved: Model, tree: Tree, digits: int) -> list[dict[str, Any]]:
    """What the page shows of each node."""
    names = saved.names
    below, mean = leaves_below(tree), mean_answers(tree)
    nodes = []
    for node in range(tree.n_nodes):
        color = np.clip(255 * np.array(_rgb(color_of(tree, node))), 0, 255).astype(int)
        entry: dict[str, Any] = {"color": "#" + "".join(f"{part:02x}" for part in color), "leaves": int(below[node])}
        if tree.share is not None:
            entry["share"] = f"{100.0 * tree.share[node]:.3g} % of the training rows"
        if node < tree.n_branches:
            entry["kids"] = [int(kid) for kid in tree.children[node]]
            entry["text"] = sides(tree, node, names, 3, MOST_TERMS, in_words=True)[0]
            entry["whole"] = sides(tree, node, names, digits, in_words=True)[0]
        else:
            entry["text"] = short_answer(tree, node) or leaf_text(tree, node, names, 3, MOST_TERMS)
            entry["whole"] = leaf_text(tree, node, names, digits)
        if tree.classes is not None:
            shares = mean[node] / max(float(mean[node].sum()), 1e-300)
            entry["answer"] = ", ".join(f"{c}: {p:.3g}" for c, p in zip(tree.classes, shares, strict=True))
        nodes.append({key: plain(value) if isinstance(value, str) else value for key, value in entry.items()})
    return nodes


def _rgb(color: Any) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(color)


EXPORTER = Exporter("html", (".html",), text_file(lambda model, options: to_html(model)))
