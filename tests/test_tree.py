"""`Tree`: structure, counts, pruning, unscaling, text, dictionaries, equality."""

import copy
import json
import pickle

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from opttree import Tree
from tests.test_kernels import random_tree


def test_complete_tree_is_in_heap_order(rng):
    tree = random_tree(rng, 3, 2, 1)
    assert tree.children.tolist() == [[2 * t + 1, 2 * t + 2] for t in range(7)]
    assert (tree.n_branches, tree.n_leaves, tree.n_nodes, tree.depth) == (7, 8, 15, 3)
    assert tree.node_depth.tolist() == [0, 1, 1, 2, 2, 2, 2] + [3] * 8


def test_arrays_cannot_be_written_and_inputs_are_copied(rng):
    A = rng.normal(size=(1, 2))
    tree = Tree.complete(A, np.zeros(1), 1)
    with pytest.raises(ValueError, match="read-only"):
        tree.A[0, 0] = 1.0
    with pytest.raises(AttributeError):
        tree.A = A
    before = tree.A.copy()
    A[:] = 7.0
    assert np.array_equal(tree.A, before)


def test_pickle_and_copy_stay_immutable_and_equal(rng):
    tree = random_tree(rng, 2, 3, 2, linear=True)
    for twin in (pickle.loads(pickle.dumps(tree)), copy.deepcopy(tree)):
        assert twin == tree
        assert not twin.A.flags.writeable


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"children": [[1, 1]]}, "children"),
        ({"children": [[0, 1]]}, "children"),
        ({"values": np.zeros((3, 1))}, "values must have shape"),
        ({"coefs": np.zeros((2, 1, 5))}, "coefs must have p"),
        ({"link": "probit"}, "link must be one of"),
        ({"lower": np.zeros((2, 1))}, "lower and upper"),
        ({"classes": ["a", "b"]}, "classes must have shape"),
    ],
)
def test_malformed_trees_are_refused(changes, message):
    parts = {"children": [[1, 2]], "A": np.ones((1, 3)), "b": np.zeros(1), "values": np.zeros((2, 1))}
    with pytest.raises(ValueError, match=message):
        Tree(**{**parts, **changes})


def test_decision_path_matches_apply(rng):
    X, tree = rng.normal(size=(40, 3)), random_tree(rng, 4, 3, 1).prune_dead(rng.normal(size=(9, 3)))
    path, leaf = tree.decision_path(X), tree.apply(X)
    assert np.array_equal(np.asarray(path.sum(axis=1)).ravel(), tree.node_depth[leaf] + 1)
    assert np.all(path[np.arange(40), leaf] == 1)
    assert np.all(path[:, [0]].toarray() == 1)


def test_parameters_and_flops_by_hand():
    tree = Tree(
        children=[[1, 2], [3, 4]],
        A=[[1.0, 0.0, -2.0], [0.0, 1.0, 0.0]],
        b=[0.0, 0.5],
        values=[[1.0], [2.0], [3.0]],
        coefs=[[[0.0, 0.0, 0.0]], [[1.0, 1.0, 0.0]], [[0.0, 0.0, 2.0]]],
    )
    assert tree.n_parameters == (2 + 1) + (1 + 1) + (1 + 0) + (1 + 2) + (1 + 1)
    left_low = [[-1.0, 0.0, 0.0]]  # root (2 weights: 4), axis split (1), leaf 4 (2 weights: 4)
    right = [[1.0, 0.0, 0.0]]  # root 4, leaf with none
    assert tree.apply(left_low).tolist() == [3]
    assert tree.flops(left_low) == 4 + 1 + 4
    assert tree.flops(right) == 4 + 0
    assert tree.flops(left_low + right) == (9 + 4) / 2


def test_pruning_dead_branches_keeps_the_predictions(rng):
    for linear in (False, True):
        tree, X = random_tree(rng, 5, 3, 2, linear), rng.normal(size=(12, 3))
        pruned = tree.prune_dead(X)
        assert pruned.n_leaves <= 12 < tree.n_leaves
        assert np.all(np.bincount(pruned.apply(X), minlength=pruned.n_nodes)[pruned.n_branches :] > 0)
        assert np.array_equal(pruned.outputs(X), tree.outputs(X))
        assert pruned.prune_dead(X) == pruned


def test_keep_needs_a_leaf(rng):
    with pytest.raises(ValueError, match="at least one leaf"):
        random_tree(rng, 1, 2, 1).keep(np.zeros(2, bool))


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("axis", [False, True])
def test_unscaled_tree_predicts_the_same_on_raw_data(rng, linear, axis):
    X = rng.normal(size=(300, 4)) * [1.0, 100.0, 0.01, 3.0] + [5.0, -20.0, 0.0, 1e3]
    mean, scale = X.mean(axis=0), X.std(axis=0)
    tree = random_tree(rng, 3, 4, 2, linear, axis)
    raw = tree.unscale(mean, scale, np.array([1.0, -2.0]), np.array([3.0, 0.5]))
    expected = tree.outputs((X - mean) / scale) * [3.0, 0.5] + [1.0, -2.0]
    for candidate in (raw, raw.canonical):
        np.testing.assert_allclose(candidate.outputs(X), expected, rtol=1e-9, atol=1e-9)
    if axis:
        assert np.all(raw.canonical.A.sum(axis=1) == 1.0)


@pytest.mark.parametrize("kind", [DecisionTreeRegressor, DecisionTreeClassifier])
def test_from_sklearn_predicts_as_sklearn(rng, kind):
    X = rng.normal(size=(200, 4)).astype(np.float32)
    y = np.where(X[:, 0] > 0, 1.0, X[:, 1]) if kind is DecisionTreeRegressor else np.array(["u", "v"])[
        (X[:, 0] * X[:, 1] > 0).astype(int)
    ]  # fmt: skip
    model = kind(max_depth=6, random_state=0).fit(X, y)
    tree = Tree.from_sklearn(model)
    assert tree.is_axis_aligned
    assert tree.depth == model.get_depth()
    assert tree.n_leaves == model.get_n_leaves()
    if kind is DecisionTreeRegressor:
        np.testing.assert_allclose(tree.predict(X), model.predict(X))
    else:
        assert np.array_equal(tree.predict(X), model.predict(X))
        np.testing.assert_allclose(tree.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("linear", [False, True])
def test_dictionary_round_trip_is_exact(rng, linear):
    tree = random_tree(rng, 3, 4, 2, linear).with_share(rng.uniform(size=15))
    twin = Tree.from_dict(json.loads(json.dumps(tree.to_dict())))
    for name in ("children", "A", "b", "values", "coefs", "lower", "upper", "share"):
        assert np.array_equal(getattr(twin, name), getattr(tree, name)), name


def test_one_leaf_tree():
    tree = Tree.constant([2.0], 3)
    assert (tree.depth, tree.n_leaves, tree.n_parameters) == (0, 1, 1)
    assert tree.predict(np.zeros((4, 3))).tolist() == [2.0] * 4
    assert tree.to_text() == "2"
    assert Tree.from_dict(json.loads(json.dumps(tree.to_dict()))) == tree
    assert tree.decision_path(np.zeros((2, 3))).toarray().tolist() == [[1], [1]]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"format": "x"}, "format must be"),
        ({"version": 99}, "version must be 1"),
        ({"A": [[1.0]]}, "cannot reshape|must have shape"),
        ({"b": "abc"}, "could not convert|must have|lists"),
    ],
)
def test_damaged_dictionaries_are_refused(rng, damage, message):
    data = random_tree(rng, 2, 2, 1).to_dict() | damage
    with pytest.raises(ValueError, match=message):
        Tree.from_dict(data)
    with pytest.raises(ValueError, match="lack them"):
        Tree.from_dict({k: v for k, v in random_tree(rng, 1, 2, 1).to_dict().items() if k != "values"})


def test_text_names_features_and_values():
    tree = Tree([[1, 2]], [[1.0, 0.0]], [0.25], [[1.0], [2.0]], [[[0.0, 0.0]], [[0.0, -3.0]]])
    assert tree.to_text(["age", "height"]) == (
        "if age <= 0.25:\n    1\nelse:  # age > 0.25\n    2 - 3 height"
    )  # fmt: skip
    with pytest.raises(ValueError, match="feature_names must have 2 entries; got 1"):
        tree.to_text(["age"])
    labels = Tree([[1, 2]], [[1.0, 0.0]], [0.25], [[0.9, 0.1], [0.2, 0.8]], classes=["no", "yes"])
    assert "yes (p = 0.8)" in labels.to_text()


def test_equality_has_a_tolerance(rng):
    tree = random_tree(rng, 2, 3, 1)
    near = Tree(tree.children, tree.A * (1 + 1e-12), tree.b, tree.values)
    far = Tree(tree.children, tree.A * (1 + 1e-6), tree.b, tree.values)
    assert tree == near
    assert tree != far
    assert tree != "a tree"
    assert tree != random_tree(rng, 1, 3, 1)


def test_wrong_inputs_are_named(rng):
    tree = random_tree(rng, 1, 3, 1)
    with pytest.raises(ValueError, match=r"X must have shape \(n, 3\); got \(2, 2\)"):
        tree.predict(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="predict_proba needs a classification tree"):
        tree.predict_proba(np.zeros((2, 3)))
