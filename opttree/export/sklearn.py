"""scikit-learn: axis-aligned trees and forests as its own trees and random forests."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.export.columns import as_read
from opttree.model.convert import check_plain, check_proper
from opttree.model.files import as_saved
from opttree.model.forest import Forest
from opttree.model.tree import Tree
from opttree.tables.encoder import TableEncoder


def to_sklearn(model: Any) -> Any:
    """Model of scikit-learn that predicts as the model.

    scikit-learn routes rows in float32: one within the rounding of a threshold may take its other side. Its trees take
    NaN, and send it to the right, where a model without the encoding of a table refuses it. They count the rows of a
    fitted estimator if these had no weights, else a million rows by their shares.

    Parameters
    ----------
    model : Tree, Forest, Model or estimator
        The model; an estimator must be fitted.

    Returns
    -------
    DecisionTreeRegressor, DecisionTreeClassifier, RandomForestRegressor, RandomForestClassifier or Pipeline
        A fitted tree, or a random forest of trees; with the encoding of a table, a pipeline of an
        `opttree.TableEncoder`, which needs those columns alone that the model reads, and the tree. It has the names
        of the features, if the model has them.

    Raises
    ------
    ValueError
        For oblique splits, linear leaves, soft trees, layers, and class scores (as of `TAOForestClassifier`), which
        scikit-learn's trees do not have.

    See Also
    --------
    to_treelite : forests for treelite

    Examples
    --------
    >>> import numpy as np
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> bool(np.allclose(opttree.export.to_sklearn(model).predict(X), model.predict(X)))
    True
    """
    saved = as_saved(model)
    inside = as_read(saved.tree)
    fitted = _forest(inside) if isinstance(inside, Forest) else _tree(inside, getattr(model, "_n_equal", None))
    if inside.encoding is None:
        if inside.feature_names is not None:
            fitted.feature_names_in_ = np.array(inside.feature_names, object)
        return fitted
    from sklearn.pipeline import make_pipeline

    read = [inside.encoding.columns[j].name for j in sorted(inside.encoding.read)]
    reader = Reader()
    reader.encoding_, reader.left_out_ = inside.encoding, {}
    reader.n_features_in_, reader.feature_names_in_ = len(read), np.array(read, object)
    return make_pipeline(reader, fitted)


class Reader(TableEncoder):
    """`opttree.TableEncoder` as a model has it inside: columns that it does not read may be absent from tables."""

    def transform(self, X: Any) -> Any:
        """Encode rows of a table, or of an array of all columns that the training table had."""
        return self.encoding_.transform(X)


def _values(tree: Tree) -> NDArray[np.float64]:
    """Values of all nodes (2 B + 1, K): of branches, means of their leaves by their share of the rows."""
    leaf = tree.values if tree.classes is None else tree._probabilities(tree.values)
    values = np.zeros((tree.n_nodes, tree.n_outputs))
    values[tree.n_branches :] = leaf
    mass = _mass(tree)
    for t in range(tree.n_branches - 1, -1, -1):
        kids = tree.children[t]
        values[t] = np.average(values[kids], axis=0, weights=mass[kids] + 1e-300)
    return values


UNKNOWN = 1e6  # rows that a tree counts by its shares, where the number of its training rows is not known


def _mass(tree: Tree) -> NDArray[np.float64]:
    """Share of the rows in each node; leaves alike if it is not known."""
    if tree.share is not None:
        return np.asarray(tree.share)
    mass = np.zeros(tree.n_nodes)
    mass[tree.n_branches :] = 1.0 / tree.n_leaves
    for t in range(tree.n_branches - 1, -1, -1):
        mass[t] = mass[tree.children[t]].sum()
    return mass


def _tree(tree: Tree, rows: int | None = None) -> Any:
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
    from sklearn.tree._tree import Tree as Nodes

    check_plain(tree, "to_sklearn")
    tree = tree.canonical
    K = tree.n_outputs
    is_class = tree.classes is not None
    counts = np.array([K] if is_class else [1] * K, np.intp)
    nodes = Nodes(tree.n_features, counts, len(counts))
    table = np.zeros(tree.n_nodes, nodes.__getstate__()["nodes"].dtype)
    mass, values = _mass(tree), _values(tree)
    left, right = np.full(tree.n_nodes, -1), np.full(tree.n_nodes, -1)
    left[: tree.n_branches], right[: tree.n_branches] = tree.children.T
    order = _depth_first(left, right)
    place = np.argsort(order)
    for name, links in (("left_child", left), ("right_child", right)):
        table[name] = np.where(links >= 0, place[links], -1)[order]
    table["feature"] = np.append(tree.feature, np.full(tree.n_leaves, -2))[order]
    table["threshold"] = np.append(tree.b, np.full(tree.n_leaves, -2.0))[order]
    table["weighted_n_node_samples"] = mass[order]
    table["n_node_samples"] = np.maximum(np.round((rows or UNKNOWN) * mass[order]), 1)
    shaped = values[order].reshape(tree.n_nodes, 1, K) if is_class else values[order][:, :, None]
    state = {"max_depth": tree.depth, "node_count": tree.n_nodes, "nodes": table}
    nodes.__setstate__({**state, "values": np.ascontiguousarray(shaped)})
    fitted = DecisionTreeClassifier() if is_class else DecisionTreeRegressor()
    fitted.tree_, fitted.max_features_ = nodes, None
    fitted.n_features_in_, fitted.n_outputs_ = tree.n_features, len(counts)
    if is_class:
        fitted.classes_, fitted.n_classes_ = np.asarray(tree.classes), K
    return fitted


def _depth_first(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.intp]:
    """The nodes in the order in which scikit-learn numbers them."""
    order, stack = [], [0]
    while stack:
        node = stack.pop()
        order.append(node)
        if left[node] >= 0:
            stack += [int(right[node]), int(left[node])]
    return np.array(order, np.intp)


def _forest(forest: Forest) -> Any:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    if len(forest.layers) > 1 or forest.link != "identity":
        raise ValueError("to_sklearn takes forests of one layer whose answers are means; got layers, or class scores")
    check_proper(forest, "to_sklearn")
    parts = [_tree(tree) for tree in forest.trees]
    is_class = forest.classes is not None
    fitted = RandomForestClassifier(len(parts)) if is_class else RandomForestRegressor(len(parts))
    fitted.estimators_, fitted.n_features_in_, fitted.n_outputs_ = parts, forest.n_features, parts[0].n_outputs_
    if is_class:
        fitted.classes_, fitted.n_classes_ = np.asarray(forest.classes), forest.n_outputs
        for part in parts:
            part.classes_ = np.arange(forest.n_outputs)
    return fitted
