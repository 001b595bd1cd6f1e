"""treelite: axis-aligned trees and forests for its compilers and inference servers."""

from __future__ import annotations

from typing import Any

import numpy as np

from opttree.export.record import Exporter
from opttree.model.convert import check_plain, check_proper
from opttree.model.files import as_saved
from opttree.model.forest import Forest


def to_treelite(model: Any) -> Any:
    """Model of treelite, in float64: numbers, or class probabilities, of the features.

    Boosted classes agree to single precision, in which treelite takes the softmax.

    Of a model with the encoding of a table, the rows are those that its ``encoding.transform`` makes. treelite answers
    for NaN and infinity, too, which `predict` refuses: it sends NaN to the left.

    Parameters
    ----------
    model : Tree, Forest, Model or estimator
        The model; an estimator must be fitted.

    Returns
    -------
    treelite.Model
        The model.

    Raises
    ------
    ImportError
        Without the package treelite: ``pip install opttree[export]``.
    ValueError
        For oblique splits, linear leaves, soft trees, layers, and forests whose trees answer with class scores.

    See Also
    --------
    to_sklearn : as scikit-learn's tree

    Examples
    --------
    >>> import opttree
    >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
    >>> model = opttree.TAORegressor(max_depth=2, splits="axis", random_state=0).fit(X, y)
    >>> opttree.export.to_treelite(model).num_tree
    1
    """
    try:
        import treelite
        from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation
    except ImportError as error:
        raise ImportError("to_treelite needs treelite: pip install opttree[export]") from error
    inside = as_saved(model).tree
    trees: list[Any] = [inside]
    softmax = isinstance(inside, Forest) and inside.link == "softmax"
    if isinstance(inside, Forest):
        if len(inside.layers) > 1:
            raise ValueError(f"to_treelite takes forests of one layer; got {len(inside.layers)}")
        check_proper(inside, "to_treelite")
        trees = list(inside.trees)
    for tree in trees:
        check_plain(tree, "to_treelite")
    K, is_class = inside.n_outputs, inside.classes is not None
    shape = (1, K) if is_class else (K, 1)
    builder = ModelBuilder(
        threshold_type="float64",
        leaf_output_type="float64",
        metadata=Metadata(
            num_feature=inside.n_features,
            task_type="kMultiClf" if is_class else "kRegressor",
            average_tree_output=True,
            num_target=1 if is_class else K,
            num_class=[K] if is_class else [1] * K,
            leaf_vector_shape=shape,
        ),
        tree_annotation=TreeAnnotation(
            num_tree=len(trees),
            target_id=[0 if is_class or K == 1 else -1] * len(trees),
            class_id=[-1 if is_class else 0] * len(trees),
        ),
        postprocessor=PostProcessorFunc(
            name="softmax" if softmax else "identity_multiclass" if is_class else "identity"
        ),
        base_scores=[0.0] * K,
    )
    for tree in trees:
        tree = tree.canonical
        values = tree.values if not is_class or softmax else tree._probabilities(tree.values)
        builder.start_tree()
        for node in range(tree.n_nodes):
            builder.start_node(node)
            if node < tree.n_branches:
                left, right = map(int, tree.children[node])
                builder.numerical_test(
                    feature_id=int(tree.feature[node]), threshold=float(tree.b[node]), default_left=True, opname="<=",
                    left_child_key=left, right_child_key=right,
                )  # fmt: skip
            else:
                row = np.asarray(values[node - tree.n_branches], float)
                builder.leaf(float(row[0]) if K == 1 and not is_class else list(row))
            builder.end_node()
        builder.end_tree()
    built: treelite.Model = builder.commit()
    return built


EXPORTER = Exporter("treelite", (".tl",), lambda model, path, options: to_treelite(model).serialize(str(path)))
