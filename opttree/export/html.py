"""HTML: a tree as one file for a browser, to open and close branches, to search, and to follow a row."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

import numpy as np

from opttree.export.columns import as_read, columns_read, texts_of
from opttree.export.record import Exporter, text_file
from opttree.model.convert import as_tree
from opttree.model.files import Model, as_saved
from opttree.model.text import gate_text, leaf_text, sides
from opttree.model.tree import Tree
from opttree.plotting.tree_picture import color_of, leaves_below, mean_answers, percent, rows_text, short_answer
from opttree.runtime.escape import html_text, plain, script_data
from opttree.tables.encoding import Levels, Missing

MOST_INPUTS = 60  # of a row that is typed in; wider trees have no form
MOST_TERMS = 2  # in a box; the whole equation is in the note of the node
OPEN_LEVELS = 3


def to_html(model: Any, *, title: str | None = None, open_levels: int = OPEN_LEVELS, digits: int = 4) -> str:
    """The tree as a page of HTML: one file without a network. A click opens and closes a branch, and a note beside the
    pointer tells the rows of a node, its whole equation and its answer. A search marks nodes, and the way of a row that
    is typed in is drawn. On narrow screens the tree is a list.

    Parameters
    ----------
    model : Tree, Model or estimator
        A tree, or what holds one; an estimator must be fitted.
    title : str or None, default None
        Title of the page; by default the target and the method.
    open_levels : int, default 3
        Levels of branches that are open at first.
    digits : int, default 4
        Significant digits of numbers; thresholds have more where these are needed.

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
    form = form_of(saved, tree)
    rows = getattr(model, "_n_equal", None)  # of the training, where all count alike
    data = {"nodes": nodes_of(saved, tree, digits, form, rows), "open": int(open_levels), "notes": notes, **form}
    page = resources.files("opttree.export").joinpath("tree.html").read_text(encoding="utf-8")
    parts = {"TITLE": html_text(title), "DATA": script_data(data)}
    return re.sub("TITLE|DATA", lambda match: parts[match[0]], page)


def nodes_of(
    saved: Model, tree: Tree, digits: int, form: dict[str, Any], rows: int | None = None
) -> list[dict[str, Any]]:
    """What the page shows of each node."""
    names = saved.names
    below, mean = leaves_below(tree), mean_answers(tree)
    place = {j: k for k, j in enumerate(form.get("order", ()))}
    nodes = []
    for node in range(tree.n_nodes):
        color = np.clip(255 * np.array(_rgb(color_of(tree, node))), 0, 255).astype(int)
        entry: dict[str, Any] = {"color": "#" + "".join(f"{part:02x}" for part in color), "leaves": int(below[node])}
        if tree.share is not None:
            entry["share"] = rows_text(float(tree.share[node]), rows)
        if node < tree.n_branches:
            entry["kids"] = [int(kid) for kid in tree.children[node]]
            entry["text"] = sides(tree, node, names, 3, MOST_TERMS, in_words=True)[0]
            entry["whole"] = sides(tree, node, names, digits, in_words=True)[0]
            if place:
                weights = [[place[j], float(tree.A[node, j])] for j in np.flatnonzero(tree.A[node]).tolist()]
                entry["split"] = {"weights": weights, "threshold": float(tree.b[node])}
        else:
            entry["text"] = short_answer(tree, node) or leaf_text(tree, node, names, 3, MOST_TERMS)
            sure = "" if tree.classes is None or tree.linear_leaves else percent(float(mean[node].max()))
            entry["short"] = " · ".join(part for part in (sure, entry.get("share", "")) if part)
            entry["whole"] = leaf_text(tree, node, names, digits)
        if tree.classes is not None and not tree.linear_leaves:
            shares = mean[node] / max(float(mean[node].sum()), 1e-300)
            entry["answer"] = ", ".join(f"{c}: {p:.3g}" for c, p in zip(tree.classes, shares, strict=True))
        nodes.append({key: plain(value) if isinstance(value, str) else value for key, value in entry.items()})
    return nodes


def form_of(saved: Model, tree: Tree) -> dict[str, Any]:
    """The columns of a row that is typed in, and how they become the features of the splits. Nothing for mixtures,
    whose rows take all ways, and where splits need more than `MOST_INPUTS` columns.
    """
    used = np.flatnonzero(np.any(tree.A != 0.0, axis=0)).tolist()
    inputs: list[dict[str, Any]] = []
    features: list[dict[str, Any]] = []
    if tree.mixture or not used:
        return {}
    if tree.encoding is None:
        inputs = [{"name": plain(str(saved.names[j])), "kind": "number"} for j in used]
        features = [{"kind": "value", "input": k} for k in range(len(used))]
    else:
        encoding = as_read(tree).encoding
        assert encoding is not None
        for read in columns_read(encoding):
            kept = [(j, one) for j, one in read.features if j in used]
            if not kept:
                continue
            levels = texts_of(read)
            date = read.column.kind == "date"
            column = {"name": plain(read.column.name), "kind": "date" if date else "number", "optional": True}
            inputs.append(column | ({"levels": levels} if levels else {}))
            features += [{"feature": j, "input": len(inputs) - 1, **_made(one)} for j, one in kept]
        used = [one.pop("feature") for one in features]
    if len(inputs) > MOST_INPUTS:
        return {}
    return {"inputs": inputs, "features": features, "order": used}


def _made(one: Any) -> dict[str, Any]:
    """How a column becomes a feature."""
    if isinstance(one, Levels):
        return {"kind": "levels", "known": dict(one.known), "other": one.other, "missing": one.missing}
    if isinstance(one, Missing):
        return {"kind": "missing"}
    return {"kind": "value", "fill": one.fill, "low": one.low, "high": one.high}


def _rgb(color: Any) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(color)


EXPORTER = Exporter("html", (".html",), text_file(lambda model, options: to_html(model)))
