"""The path of a row through a tree, in words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.model.files import Model, as_saved
from opttree.model.forest import Forest
from opttree.model.text import chooses, leaf_text, sides
from opttree.model.tree import Tree
from opttree.runtime.escape import plain
from opttree.runtime.words import number, threshold
from opttree.tables.encoding import is_table, raw_columns
from opttree.wide.sparse import is_given_sparse

MOST_TERMS = 3


def path(model: Any, row: Any, *, most_terms: int = MOST_TERMS, digits: int = 4) -> str:
    """How a model comes to its answer for one row: the answer, and a line for each split on the way to the leaf.

    A split on one column says what it means for it, and its value in this row. A hyperplane shows the side that the row
    takes, by how much, and the largest terms, weight times feature, of the row. A linear leaf shows its largest terms;
    a soft tree its likeliest leaves. Of a forest the answer, and how many of its trees give it.

    Parameters
    ----------
    model : Tree, Forest, Model or estimator
        The model; an estimator must be fitted.
    row : DataFrame or array-like of shape (p,) or (1, p)
        One row.
    most_terms : int, default 3
        Most terms of a hyperplane or an equation.
    digits : int, default 4
        Significant digits of numbers; thresholds have more where these are needed.

    Returns
    -------
    str
        A line for the answer, and one for each split.

    Raises
    ------
    ValueError
        For more rows than one.

    See Also
    --------
    shap_values : contributions
    counterfactual : what would change the answer

    Examples
    --------
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> print(opttree.explain.path(model, X[:1]))
    target = 230
      x8 > -0.00105384  (x8 = 0.0199075)
      x2 > 0.0180448  (x2 = 0.0616962)
      leaf 6: 230
    """
    saved = as_saved(model)
    x = one_row(saved, row)
    answer = saved.tree.predict(x[None])[0]
    shown = _answer(answer, digits)
    inside = saved.tree
    share = ""
    if inside.classes is not None:
        chance = float(inside.predict_proba(x[None])[0, list(inside.classes).index(answer)])
        sure = not isinstance(inside, Forest) and chooses(inside)
        share = "" if sure else f" (p = {number(chance, 3)})"
    if isinstance(inside, Forest):
        if len(inside.trees) == 1 and inside.link == "identity":
            inside = inside.trees[0].with_names(inside.feature_names, inside.encoding)
        else:
            return f"{saved.target} = {shown}{share}, {_of_trees(inside, x, answer, digits)}"
    names = saved.names
    if inside.mixture:
        return f"{saved.target} = {shown}{share}: {_of_leaves(inside, x, names, most_terms, digits)}"
    raw = None if inside.encoding is None else raw_columns(as_rows(row), inside.encoding.columns, inside.encoding.read)
    lines = [f"{saved.target} = {shown}{share}"]
    node = 0
    while node < inside.n_branches:
        gap = float(inside.b[node] - inside.A[node] @ x)
        side = 0 if gap >= 0.0 else 1
        words = sides(inside, node, names, digits, most_terms, in_words=True)[side]
        j = int(inside.feature[node])
        if j >= 0:
            lines.append(f"  {words}  ({_entry(inside, names, j, x, raw, digits)})")
        else:
            way = "below" if side == 0 else "above"
            lines.append(f"  {words}: {way} by {number(abs(gap), 3)}; {_largest(inside, node, x, names, most_terms)}")
        node = int(inside.children[node, side])
    lines.append(f"  leaf {node}: {leaf_text(inside, node, names, digits, most_terms)}")
    return "\n".join(map(plain, lines))


def one_row(saved: Model, row: Any) -> NDArray[np.float64]:
    """The features (p,) of one row."""
    X = saved.table(as_rows(row))
    if len(X) != 1:
        raise ValueError(f"row must be one row; got {len(X)}")
    return X[0]


def as_rows(row: Any) -> Any:
    """A table as it is; an array (p,) as one row."""
    if is_given_sparse(row) and not is_table(row):
        row = row.toarray()
    if is_table(row):
        return row
    row = np.asarray(row)
    return row[None] if row.ndim == 1 else row


def _answer(answer: Any, digits: int) -> str:
    if isinstance(answer, np.ndarray):
        return "[" + ", ".join(number(float(v), digits) for v in answer) + "]"
    return number(float(answer), digits) if isinstance(answer, (float, np.floating)) else str(answer)


def _entry(tree: Tree, names: list[str], j: int, x: NDArray[np.float64], raw: Any, digits: int) -> str:
    """The name and the value of the column of feature j."""
    if tree.encoding is None:
        return f"{names[j]} = {threshold(x[j], digits)}"
    column = int(tree.encoding.sources[j])
    return f"{tree.encoding.columns[column].name} = {tree.encoding.value_text(column, raw[column][0], digits)}"


def _largest(tree: Tree, node: int, x: NDArray[np.float64], names: list[str], most: int) -> str:
    """The largest terms of a hyperplane for the row."""
    parts = tree.A[node] * x
    order = [int(j) for j in np.argsort(-np.abs(parts), kind="stable") if parts[j] != 0.0][:most]
    listed = ", ".join(f"{number(parts[j], 3)} ({names[j]})" for j in order)
    return f"largest terms {listed}" if listed else "all terms are 0"


def _of_trees(forest: Forest, x: NDArray[np.float64], answer: Any, digits: int) -> str:
    """What the trees of a forest say."""
    count = len(forest.trees)
    if len(forest.layers) > 1:
        return f"the mean of {count} trees in {len(forest.layers)} layers"
    if forest.classes is not None and forest.link == "identity":
        agree = sum(tree.predict(x[None])[0] == answer for tree in forest.trees)
        return f"as {agree} of {count} trees say"
    outputs = np.array([tree.outputs(x[None])[0] for tree in forest.trees])
    if forest.classes is not None or forest.n_outputs > 1:
        return f"the mean of {count} trees"
    low, high = np.quantile(outputs[:, 0], [0.1, 0.9])
    return f"the mean of {count} trees, of which four in five say {number(low, digits)} to {number(high, digits)}"


def _of_leaves(tree: Tree, x: NDArray[np.float64], names: list[str], most: int, digits: int) -> str:
    """The likeliest leaves of a soft tree."""
    share = tree.leaf_proba(x[None])[0]
    order = np.argsort(-share, kind="stable")[:most]
    parts = [
        f"\n  {100 * share[k]:.3g} % leaf {tree.n_branches + k}: "
        f"{leaf_text(tree, tree.n_branches + int(k), names, digits, most)}"
        for k in order
    ]
    return f"the mean of {tree.n_leaves} leaves by their probability{''.join(parts)}"
