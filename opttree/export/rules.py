"""Rules: a tree as a table with one row for each leaf."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opttree.export.record import Exporter
from opttree.model.convert import as_tree
from opttree.model.files import as_saved
from opttree.model.text import leaf_text, sides
from opttree.runtime.escape import cell

if TYPE_CHECKING:
    import pandas as pd


def to_rules(model: Any, *, digits: int = 4) -> pd.DataFrame:
    """Table with a row for each leaf.

    Parameters
    ----------
    model : Tree, Model or estimator
        A tree, or what holds one; an estimator must be fitted.
    digits : int, default 4
        Significant digits of numbers; thresholds have more where these are needed.

    Returns
    -------
    pandas.DataFrame
        Columns "leaf", its number; "depth"; "rule", the conditions on its path; "prediction" in words; "share" of the
        training weight, if known; and the constant of each output, or the probability of each class of a constant leaf,
        as "value" or "value_K", "p_CLASS" ("score_CLASS" of linear leaves).

    See Also
    --------
    opttree.Tree.to_text : nested conditions

    Examples
    --------
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> opttree.export.to_rules(model).shape[0]
    4
    """
    import pandas as pd

    saved = as_saved(model)
    tree = as_tree(saved.tree)
    names = saved.names
    paths: dict[int, list[str]] = {0: []}
    for t in range(tree.n_branches):
        words = sides(tree, t, names, digits, in_words=True, whole=True)
        paths |= {int(kid): [*paths[t], word] for kid, word in zip(tree.children[t], words, strict=True)}
    rows = []
    values = tree.values if tree.classes is None or tree.linear_leaves else tree._probabilities(tree.values)
    for leaf in range(tree.n_leaves):
        node = tree.n_branches + leaf
        row: dict[str, Any] = {"leaf": node, "depth": int(tree.node_depth[node])}
        several = len(paths[node]) > 1
        conditions = [f"({word})" if several and word.endswith(" or missing") else word for word in paths[node]]
        row["rule"] = " and ".join(conditions) or "always"
        row["prediction"] = leaf_text(tree, node, names, digits)
        row["share"] = np.nan if tree.share is None else float(tree.share[node])
        for k, value in enumerate(values[leaf]):
            if tree.classes is not None:
                row[f"p_{tree.classes[k]}" if not tree.linear_leaves else f"score_{tree.classes[k]}"] = float(value)
            else:
                row["value" if tree.n_outputs == 1 else f"value_{k}"] = float(value)
        rows.append(row)
    return pd.DataFrame(rows)


def _write(model: Any, path: Path, options: Any) -> None:
    table = to_rules(model)
    table.map(cell).rename(columns=cell).to_csv(path, index=False)


EXPORTER = Exporter("rules", (".csv",), _write)
