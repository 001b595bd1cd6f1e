"""Models as graphs of ONNX operators; `opttree.export.onnx` makes files of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from opttree.export.columns import Read, columns_read, numbers_of, told
from opttree.model.forest import TINY_SHARE, Forest
from opttree.model.tree import Tree
from opttree.tables.curves import Curves
from opttree.tables.encoding import Encoding, Missing, Value
from opttree.tables.numbers import LARGEST

ML = "ai.onnx.ml"
BRANCH_LEQ, BRANCH_GTE = 0, 2  # modes of the nodes of TreeEnsemble
FLOAT = 1  # TensorProto.FLOAT


class Graph(Protocol):
    """What a graph must offer: nodes and constants are added, and called by the names that come back."""

    real: Any  # np.float64 or np.float32: the numbers of the graph
    has_tree_ensemble: bool  # whether the operator TreeEnsemble is known

    def node(self, op: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node with one output; its name."""

    def constant(self, array: NDArray[Any]) -> str:
        """Add an array; its name."""


# ---- tables -----------------------------------------------------------------------------------------------------


def encoded(graph: Graph, encoding: Encoding, inputs: Mapping[int, str], rows: str = "") -> str:
    """The features (n, p) of columns, each (n, 1), by their numbers: numbers with NaN, or texts with "" for missing.

    Infinity in a column of numbers makes a feature NaN. Features that are not read are 0; where none is read there is
    one row, or as many as the column ``rows`` has.
    """
    p = encoding.n_features
    parts, order = [], []
    for read in columns_read(encoding):
        name = inputs[read.number]
        order += [j for j, _feature in read.features]
        parts.append(_levels(graph, read, name) if read.column.is_category else _numbers(graph, read, name))
    if not parts:
        if not rows:
            return graph.constant(np.zeros((1, p), graph.real))
        n = graph.node("Gather", graph.node("Shape", rows), graph.constant(np.array([0])))
        shape = graph.node("Concat", n, graph.constant(np.array([p])), axis=0)
        return graph.node("Expand", real(graph, 0.0), shape)
    if len(order) < p:
        first = graph.node("Gather", parts[0], graph.constant(np.array([0])), axis=1)
        parts.append(graph.node("Mul", first, real(graph, 0.0)))
    whole = graph.node("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
    if order == list(range(p)):
        return whole
    place = {j: k for k, j in enumerate(order)}
    return graph.node("Gather", whole, graph.constant(np.array([place.get(j, len(order)) for j in range(p)])), axis=1)


def _numbers(graph: Graph, read: Read, name: str) -> str:
    """The features (n, q) of a column of numbers: NaN where it is infinite."""
    missing = graph.node("IsNaN", name)
    there = graph.node("Where", missing, real(graph, 0.0), name)
    doubt = graph.node("Mul", there, real(graph, 0.0))  # 0, or NaN for infinity
    parts = []
    for _j, feature in read.features:
        if isinstance(feature, Missing):
            part = graph.node("Where", missing, real(graph, 1.0), real(graph, 0.0))
        elif isinstance(feature, Value):
            known = there
            if feature.low is not None and feature.high is not None:
                known = graph.node("Min", graph.node("Max", there, real(graph, feature.low)), real(graph, feature.high))
            part = graph.node("Where", missing, real(graph, feature.fill), known)
        parts.append(graph.node("Add", part, doubt))
    return graph.node("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]


def _levels(graph: Graph, read: Read, name: str) -> str:
    """The features (n, q) of a category."""
    levels, codes = told(read)
    if read.column.kind == "code":
        code = _code(graph, codes, name)
    else:
        places = [*range(len(levels)), len(levels) + 1]
        code = graph.node(
            "LabelEncoder", name, domain=ML, keys_strings=[*levels, ""], values_int64s=places, default_int64=len(levels)
        )
    table = np.array([numbers_of(feature, levels) for _j, feature in read.features]).T
    numbers = graph.node("Gather", graph.constant(table.astype(graph.real)), code, axis=0)
    return graph.node("Reshape", numbers, graph.constant(np.array([-1, len(read.features)])))


def _code(graph: Graph, codes: Sequence[float], name: str) -> str:
    """The place (n, 1) of a number among some; their count if it is none of them, and one more if it is missing."""
    others = graph.node("Equal", graph.node("IsNaN", name), graph.constant(np.array([False])))
    columns = [graph.node("Equal", name, real(graph, *codes)), others] if codes else [others]
    columns = [graph.node("Cast", column, to=FLOAT) for column in columns]
    columns.append(graph.node("Cast", graph.node("IsNaN", name), to=FLOAT))
    return graph.node("ArgMax", graph.node("Concat", *columns, axis=1), axis=1, keepdims=1)  # the first that holds


def checked(graph: Graph, X: str, used: NDArray[np.bool_]) -> tuple[str, str]:
    """The features (n, p) with 0 in place of NaN, infinity and what is larger than `predict` takes, and (n, 1) NaN in
    rows where a used feature was one, 0 in others; "" where no feature is used.
    """
    most = min(LARGEST, float(np.finfo(graph.real).max))
    taken = graph.node("LessOrEqual", graph.node("Abs", X), real(graph, most))
    doubt = graph.node("Where", taken, real(graph, 0.0), real(graph, np.nan))
    finite = graph.node("Where", taken, X, real(graph, 0.0))
    if not used.any():
        return finite, ""
    if not used.all():
        doubt = graph.node("Gather", doubt, graph.constant(np.flatnonzero(used)), axis=1)
    return finite, graph.node("ReduceSum", doubt, graph.constant(np.array([1])), keepdims=1)


def on_curves(graph: Graph, curves: Curves, X: str) -> str:
    """The features (n, p) on their curves: each looks up the knot below it, and goes on from there."""
    most = max(at.size for at, _to in curves.knots) + 1
    at, to, slope = (np.zeros((len(curves.knots), most)) for _ in range(3))
    at[:, 1:] = np.inf
    for j, (own, become) in enumerate(curves.knots):
        own = own.astype(graph.real).astype(np.float64)
        at[j, 0], at[j, 1 : own.size + 1] = own[0], own
        to[j] = become[-1]
        to[j, 0], to[j, 1 : own.size + 1] = become[0], become
        with np.errstate(divide="ignore"):
            slope[j, 1 : own.size] = np.where(np.diff(own) > 0.0, np.diff(become) / np.diff(own), 0.0)
    row = graph.node("Unsqueeze", X, graph.constant(np.array([2])))
    passed = graph.node("GreaterOrEqual", row, graph.constant(at[:, 1:].astype(graph.real)))
    count = graph.node("ReduceSum", graph.node("Cast", passed, to=7), graph.constant(np.array([2])), keepdims=0)
    place = graph.node("Add", count, graph.constant(np.arange(len(curves.knots)) * most))
    at[np.isinf(at)] = 0.0

    def there(table: NDArray[np.float64]) -> str:
        return graph.node("Gather", graph.constant(table.ravel().astype(graph.real)), place)

    return graph.node("Add", there(to), graph.node("Mul", there(slope), graph.node("Sub", X, there(at))))


def real(graph: Graph, *numbers: float) -> str:
    """A constant of the graph's numbers: a row of them."""
    return graph.constant(np.array(numbers, graph.real))


# ---- models -----------------------------------------------------------------------------------------------------


def scores(graph: Graph, model: Tree | Forest, X: str) -> str:
    """The outputs (n, K) of a model for the features ``X (n, p)``, as its method `outputs`."""
    if isinstance(model, Tree):
        return tree_outputs(graph, model, X)
    if model.averages_outputs:
        return graph.node("Div", hard_sum(graph, model.trees, X), real(graph, float(len(model.trees))))
    parts: list[str] = []
    for number, layer in enumerate(model.layers):
        answers = [tree_outputs(graph, tree, X, probabilities=tree.classes is not None) for tree in layer]
        first = graph.constant(np.arange(model.n_outputs))
        parts += [graph.node("Gather", a, first, axis=1) for a in answers]
        if number < len(model.layers) - 1:
            X = graph.node("Concat", X, *answers, axis=1)
    total = graph.node("Sum", *parts) if len(parts) > 1 else parts[0]
    return graph.node("Div", total, real(graph, float(len(model.trees))))


def shares(graph: Graph, model: Tree | Forest, outputs: str) -> str:
    """Class probabilities (n, K) from the outputs of a model, as its method `predict_proba`."""
    if isinstance(model, Tree):
        return outputs if model.mixture or model.link == "identity" else graph.node("Softmax", outputs, axis=1)
    if model.is_proper:
        return outputs
    axis = graph.constant(np.array([1]))
    if model.link == "softmax":
        top = graph.node("ReduceMax", outputs, axis, keepdims=1)
        outputs = graph.node("Exp", graph.node("Sub", outputs, top))
    least = graph.node("Add", graph.node("Max", outputs, real(graph, 0.0)), real(graph, TINY_SHARE))
    return graph.node("Div", least, graph.node("ReduceSum", least, axis, keepdims=1))


def tree_outputs(graph: Graph, tree: Tree, X: str, probabilities: bool = False) -> str:
    """The outputs (n, K) of one tree, or its class probabilities."""
    if tree.mixture:
        return mixture(graph, tree, X)
    outputs = hard_sum(graph, [tree], X)
    return graph.node("Softmax", outputs, axis=1) if probabilities and tree.link == "softmax" else outputs


def hard_sum(graph: Graph, trees: Sequence[Tree], X: str) -> str:
    """The sum of the outputs (n, K) of hard trees."""
    leaf = leaf_numbers(graph, trees, X)
    starts = np.cumsum([0, *(tree.n_leaves for tree in trees)])
    constant = [t for t, tree in enumerate(trees) if not tree.linear_leaves]
    parts = []
    if constant:
        leaves = leaf
        if len(constant) < len(trees):
            leaves = graph.node("Gather", leaf, graph.constant(np.array(constant)), axis=1)
        values = np.concatenate([tree.values for tree in trees]).astype(graph.real)
        outputs = graph.node("Gather", graph.constant(values), leaves, axis=0)  # (n, T, K)
        parts.append(graph.node("ReduceSum", outputs, graph.constant(np.array([1])), keepdims=0))
    for t, tree in enumerate(trees):
        if tree.linear_leaves:
            leaves = graph.node("Gather", leaf, graph.constant(np.array(t)), axis=1)
            leaves = graph.node("Sub", leaves, graph.constant(np.array(starts[t])))
            parts.append(_linear(graph, tree, X, leaves))
    return graph.node("Sum", *parts) if len(parts) > 1 else parts[0]


def _linear(graph: Graph, tree: Tree, X: str, leaf: str) -> str:
    """The outputs (n, K) of linear leaves with the numbers ``leaf (n,)``."""
    values, coefs, lower, upper = (array.astype(graph.real) for array in tree.leaf_arrays)
    row = graph.node("Unsqueeze", X, graph.constant(np.array([1])))  # (n, 1, p)
    weights = graph.node("Gather", graph.constant(coefs), leaf, axis=0)  # (n, K, p)
    dots = graph.node("ReduceSum", graph.node("Mul", weights, row), graph.constant(np.array([2])), keepdims=0)
    outputs = graph.node("Add", dots, graph.node("Gather", graph.constant(values), leaf, axis=0))
    if lower.size:
        outputs = graph.node("Max", outputs, graph.node("Gather", graph.constant(lower), leaf, axis=0))
        outputs = graph.node("Min", outputs, graph.node("Gather", graph.constant(upper), leaf, axis=0))
    return outputs


def leaf_numbers(graph: Graph, trees: Sequence[Tree], X: str) -> str:
    """The leaf (n, T) of each row in each tree, numbered through all trees."""
    weights = np.concatenate([tree.A[np.arange(tree.n_branches), np.maximum(tree.feature, 0)] for tree in trees])
    plain = all(tree.is_axis_aligned for tree in trees) and bool(np.all(np.abs(weights) == 1.0))
    if plain and graph.has_tree_ensemble:
        return _ensemble(graph, trees, X)
    return _walk(graph, trees, X)


def _ensemble(graph: Graph, trees: Sequence[Tree], X: str) -> str:
    """`leaf_numbers` of axis-aligned trees, by the operator TreeEnsemble: every tree writes its leaf to its target."""
    nodes: dict[str, list[int]] = {name: [] for name in ("feature", "mode", "true", "true_leaf", "false", "false_leaf")}
    splits: list[float] = []
    roots: list[int] = []
    targets: list[int] = []
    numbers: list[int] = []
    for t, tree in enumerate(trees):
        first, first_leaf = len(splits), len(numbers)
        roots.append(first)
        targets += [t] * tree.n_leaves
        numbers += list(range(first_leaf, first_leaf + tree.n_leaves))
        for branch in range(tree.n_branches):
            j = int(tree.feature[branch])
            up = tree.A[branch, j] > 0.0
            nodes["feature"].append(j)
            nodes["mode"].append(BRANCH_LEQ if up else BRANCH_GTE)
            splits.append(float(tree.b[branch] if up else -tree.b[branch]))
            for side, kid in zip(("true", "false"), map(int, tree.children[branch]), strict=True):
                is_leaf = kid >= tree.n_branches
                nodes[side].append(first_leaf + kid - tree.n_branches if is_leaf else first + kid)
                nodes[f"{side}_leaf"].append(int(is_leaf))
        if tree.n_branches == 0:  # a tree needs a node: both of its sides are the leaf
            nodes["feature"].append(0)
            nodes["mode"].append(BRANCH_LEQ)
            splits.append(0.0)
            for side in ("true", "false"):
                nodes[side].append(first_leaf)
                nodes[f"{side}_leaf"].append(1)
    leaves = graph.node(
        "TreeEnsemble", X, domain=ML, n_targets=len(trees), aggregate_function=1, post_transform=0, tree_roots=roots,
        nodes_featureids=nodes["feature"], nodes_modes=np.array(nodes["mode"], np.uint8),
        nodes_splits=np.array(splits, graph.real), nodes_truenodeids=nodes["true"],
        nodes_trueleafs=nodes["true_leaf"], nodes_falsenodeids=nodes["false"], nodes_falseleafs=nodes["false_leaf"],
        leaf_targetids=targets, leaf_weights=np.array(numbers, graph.real),
    )  # fmt: skip
    return graph.node("Cast", graph.node("Round", leaves), to=7)  # int64


def _walk(graph: Graph, trees: Sequence[Tree], X: str) -> str:
    """`leaf_numbers` of trees with oblique splits: all splits at once, then down level by level."""
    A = np.concatenate([tree.A for tree in trees])
    b = np.concatenate([tree.b for tree in trees])
    n_branches, n_leaves = len(b), sum(tree.n_leaves for tree in trees)
    left, right = (np.arange(n_branches + n_leaves) for _ in range(2))  # leaves stay where they are
    roots, branch, leaf = [], 0, n_branches
    for tree in trees:
        for side, links in ((0, left), (1, right)):
            kids = tree.children[:, side]
            links[branch : branch + tree.n_branches] = np.where(
                kids < tree.n_branches, branch + kids, leaf + kids - tree.n_branches
            )
        roots.append(branch if tree.n_branches else leaf)
        branch, leaf = branch + tree.n_branches, leaf + tree.n_leaves
    if n_branches == 0:
        A, b = np.zeros((1, A.shape[1])), np.zeros(1)
    at = graph.node("MatMul", X, graph.constant(np.ascontiguousarray(A.T).astype(graph.real)))
    goes = graph.node("LessOrEqual", at, graph.constant(b.astype(graph.real)))  # (n, branches)
    column = graph.node("Gather", at, graph.constant(np.array([0])), axis=1)  # (n, 1), for the number of rows
    still = graph.node("Cast", graph.node("Mul", column, real(graph, 0.0)), to=7)
    node = graph.node("Add", still, graph.constant(np.array([roots])))  # (n, T)
    last = graph.constant(np.array(max(n_branches - 1, 0)))
    lefts, rights = graph.constant(left), graph.constant(right)
    for _ in range(max(tree.depth for tree in trees)):
        below = graph.node("GatherElements", goes, graph.node("Min", node, last), axis=1)
        node = graph.node("Where", below, graph.node("Gather", lefts, node), graph.node("Gather", rights, node))
    return graph.node("Sub", node, graph.constant(np.array(n_branches)))


def mixture(graph: Graph, tree: Tree, X: str) -> str:
    """The outputs (n, K) of a soft tree: leaves weighted by their probabilities."""
    L, K = tree.n_leaves, tree.n_outputs
    if tree.n_branches == 0:
        share = graph.node(
            "Sigmoid", graph.node("MatMul", X, graph.constant(np.zeros((tree.n_features, 1), graph.real)))
        )
        share = graph.node("Mul", share, real(graph, 2.0))
    else:
        share = _leaf_shares(graph, tree, X)
    values, coefs, lower, upper = (array.astype(graph.real) for array in tree.leaf_arrays)
    if not tree.linear_leaves:
        table = np.asarray(tree._probabilities(tree.values), graph.real)
        return graph.node("MatMul", share, graph.constant(table))
    flat = np.ascontiguousarray(coefs.reshape(L * K, -1).T)
    outputs = graph.node("Add", graph.node("MatMul", X, graph.constant(flat)), graph.constant(values.reshape(-1)))
    outputs = graph.node("Reshape", outputs, graph.constant(np.array([-1, L, K])))
    if lower.size:
        outputs = graph.node("Min", graph.node("Max", outputs, graph.constant(lower)), graph.constant(upper))
    if tree.link == "softmax":
        outputs = graph.node("Softmax", outputs, axis=2)
    weighted = graph.node("Mul", outputs, graph.node("Unsqueeze", share, graph.constant(np.array([2]))))
    return graph.node("ReduceSum", weighted, graph.constant(np.array([1])), keepdims=0)


def _leaf_shares(graph: Graph, tree: Tree, X: str) -> str:
    """Probability (n, L) of each leaf, level by level from the root."""
    gate = float(tree.gate or 1.0)
    at = graph.node("MatMul", X, graph.constant(np.ascontiguousarray(tree.A.T).astype(graph.real)))
    gap = graph.node("Mul", graph.node("Sub", graph.constant(tree.b.astype(graph.real)), at), real(graph, gate))
    sides = graph.node(
        "Concat", graph.node("Sigmoid", gap), graph.node("Sigmoid", graph.node("Neg", gap)), axis=1
    )  # (n, 2 B): going left, going right
    level, reached = [0], ""
    leaves: list[int] = []
    ends: list[str] = []
    while level:
        kids = [(place, branch, side) for place, branch in enumerate(level) for side in (0, 1)]
        step = graph.node(
            "Gather", sides, graph.constant(np.array([b + side * tree.n_branches for _p, b, side in kids])), axis=1
        )
        if reached:
            before = graph.node("Gather", reached, graph.constant(np.array([p for p, _b, _s in kids])), axis=1)
            step = graph.node("Mul", before, step)
        nodes = [int(tree.children[branch, side]) for _p, branch, side in kids]
        done = [k for k, node in enumerate(nodes) if node >= tree.n_branches]
        on = [k for k, node in enumerate(nodes) if node < tree.n_branches]
        if done:
            leaves += [nodes[k] - tree.n_branches for k in done]
            ends.append(graph.node("Gather", step, graph.constant(np.array(done)), axis=1))
        level = [nodes[k] for k in on]
        if level:
            reached = graph.node("Gather", step, graph.constant(np.array(on)), axis=1)
    whole = graph.node("Concat", *ends, axis=1) if len(ends) > 1 else ends[0]
    return graph.node("Gather", whole, graph.constant(np.argsort(leaves)), axis=1)
