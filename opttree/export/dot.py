"""Graphviz: a tree as a graph in the DOT language."""

from __future__ import annotations

from typing import Any

from opttree.export.record import Exporter, text_file
from opttree.model.convert import as_tree
from opttree.model.files import as_saved
from opttree.model.text import leaf_text, sides
from opttree.runtime.escape import dot_text

MOST_TERMS = 3


def to_dot(model: Any, *, digits: int = 4, most_terms: int | None = MOST_TERMS) -> str:
    r"""The tree in the DOT language of Graphviz: branches as boxes with their conditions, "yes" to the left.

    Parameters
    ----------
    model : Tree, Model or estimator
        A tree, or what holds one; an estimator must be fitted.
    digits : int, default 4
        Significant digits of numbers; thresholds have more where these are needed.
    most_terms : int or None, default 3
        Most terms of a split or an equation that are shown; None: all.

    Returns
    -------
    str
        The text in DOT.

    See Also
    --------
    to_html : a page that opens and closes branches

    Examples
    --------
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> small = opttree.TAORegressor(max_depth=1, splits="axis", random_state=0).fit(X, y)
    >>> print(opttree.export.to_dot(small))
    digraph tree {
        node [shape=box, style=rounded, fontname="sans-serif"];
        0 [label="x8 <= -0.00376118\n100 % of the weight"];
        1 [label="115.1\n49.3 % of the weight"];
        2 [label="188.3\n50.7 % of the weight"];
        0 -> 1 [label="yes"];
        0 -> 2 [label="no"];
    }
    <BLANKLINE>
    """
    saved = as_saved(model)
    tree = as_tree(saved.tree)
    names = saved.names
    lines = ["digraph tree {", '    node [shape=box, style=rounded, fontname="sans-serif"];']
    for node in range(tree.n_nodes):
        shares = []
        if node < tree.n_branches:
            text = sides(tree, node, names, digits, most_terms, in_words=True)[0]
        else:
            text = leaf_text(tree, node, names, digits, most_terms)
        if tree.share is not None:
            shares.append(f"{100 * tree.share[node]:.3g} % of the weight")
        lines.append(f"    {node} [label={dot_text(text, *shares)}];")
    for branch, kids in enumerate(tree.children.tolist()):
        for word, kid in zip(("yes", "no"), kids, strict=True):
            lines.append(f'    {branch} -> {kid} [label="{word}"];')
    return "\n".join([*lines, "}", ""])


EXPORTER = Exporter("dot", (".dot", ".gv"), text_file(lambda model, options: to_dot(model)))
