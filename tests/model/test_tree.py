"""`Tree`: structure, counts, pruning, unscaling, equality."""

import copy
import json
import pickle

import numpy as np
import pytest

from opttree import ORTRegressor, Tree
from tests.model.test_files import chain
from tests.trees import random_tree


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


def test_one_leaf_tree():
    tree = Tree.constant([2.0], 3)
    assert (tree.depth, tree.n_leaves, tree.n_parameters) == (0, 1, 1)
    assert tree.predict(np.zeros((4, 3))).tolist() == [2.0] * 4
    assert tree.to_text() == "2"
    assert Tree.from_dict(json.loads(json.dumps(tree.to_dict()))) == tree
    assert tree.decision_path(np.zeros((2, 3))).toarray().tolist() == [[1], [1]]


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


def small_tree(**parts):
    """Root 0 with the branch 1 on its left: the leaves 3 (right of the root's) and, below, 2 and 4."""
    return Tree(
        **{
            "children": [[1, 2], [3, 4]],
            "A": [[1.0, 0.0], [0.0, -2.0]],
            "b": [0.0, 4.0],
            "values": [[1.0], [2.0], [3.0]],
            **parts,
        }
    )


def test_shares_are_counted_kept_and_belong_to_nodes():
    tree = small_tree()
    X = np.array([[1.0, 0.0], [-1.0, 0.0], [-1.0, -3.0], [-1.0, 0.0]])
    assert tree.apply(X).tolist() == [2, 3, 4, 3]
    assert tree.node_share(X).tolist() == [1.0, 0.75, 0.25, 0.5, 0.25]
    assert tree.node_share(X, [4.0, 1.0, 2.0, 1.0]).tolist() == [1.0, 0.5, 0.5, 0.25, 0.25]
    shared = tree.with_share(tree.node_share(X))
    assert shared == tree
    assert shared.keep(np.array([True, False, True])).share.tolist() == [1.0, 0.25, 0.25]
    assert shared.subtree(1).share is None
    with pytest.raises(ValueError, match=r"share must have shape \(5,\)"):
        tree.with_share(np.ones(3))


def test_subtrees_are_cut_out_and_put_back(rng):
    tree, X = random_tree(rng, 3, 3, 2, linear=True), rng.normal(size=(200, 3))
    for node in (0, 1, 5, 9):
        part = tree.subtree(node)
        passes = tree.decision_path(X)[:, [node]].toarray()[:, 0] == 1
        np.testing.assert_array_equal(part.outputs(X[passes]), tree.outputs(X[passes]))
        assert tree.graft({node: part}) == tree
    other, leaf = random_tree(rng, 2, 3, 2, linear=True), tree.subtree(9)
    mixed = tree.graft({2: other, 9: other, 3: leaf})
    path = tree.decision_path(X).toarray() == 1
    expected = np.where(
        (path[:, 2] | path[:, 9])[:, None], other.outputs(X), np.where(path[:, [3]], leaf.outputs(X), tree.outputs(X))
    )
    inside = ~(path[:, 3] & path[:, 9])
    np.testing.assert_array_equal(mixed.outputs(X)[inside], expected[inside])


def test_graft_by_hand():
    tree, stump = small_tree(), Tree([[1, 2]], [[0.0, 1.0]], [5.0], [[7.0], [8.0]])
    grafted = tree.graft({2: stump, 4: Tree.constant([9.0], 2)})
    assert grafted.children.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert grafted.A.tolist() == [[1.0, 0.0], [0.0, -2.0], [0.0, 1.0]]
    assert grafted.b.tolist() == [0.0, 4.0, 5.0]
    assert grafted.values.ravel().tolist() == [2.0, 9.0, 7.0, 8.0]
    assert tree.graft({0: stump}) == stump
    assert tree.graft({1: stump}).values.ravel().tolist() == [1.0, 7.0, 8.0]


def test_canonical_turns_axis_splits_round_and_leaves_the_others():
    turned = small_tree().canonical
    assert turned.A.tolist() == [[1.0, 0.0], [0.0, 2.0]]
    assert turned.b.tolist() == [0.0, -4.0]
    assert turned.values.ravel().tolist() == [1.0, 3.0, 2.0]
    oblique = small_tree(A=[[1.0, -3.0], [-2.0, -1.0]])
    assert oblique.canonical == oblique


def test_unscaling_by_hand_and_its_defaults():
    mean, scale = np.array([1.0, 2.0]), np.array([2.0, 0.5])
    tree = small_tree(
        A=[[3.0, 0.0], [1.0, -2.0]], coefs=np.ones((3, 1, 2)), lower=np.zeros((3, 1)), upper=np.ones((3, 1))
    )
    raw = tree.unscale(mean, scale, 10.0, 4.0)
    assert raw.A.tolist() == [[1.0, 0.0], [0.5, -4.0]]
    assert raw.b.tolist() == [1.0, 4.0 + 0.5 - 8.0]
    assert raw.coefs[:, 0].tolist() == [[2.0, 8.0]] * 3
    assert raw.values.ravel().tolist() == [14.0 - 18.0, 18.0 - 18.0, 22.0 - 18.0]
    assert (raw.lower[0, 0], raw.upper[0, 0]) == (10.0, 14.0)
    plain = tree.unscale(mean, scale)
    assert plain.values.ravel().tolist() == (tree.values.ravel() - 0.5 - 4.0 + 0.0).tolist()
    assert (plain.lower[0, 0], plain.upper[0, 0]) == (0.0, 1.0)
    again = raw.scale(mean, scale, 10.0, 4.0)
    assert np.array_equal(again.values, tree.values)
    assert np.array_equal(plain.scale(mean, scale).values, tree.values)
    assert np.array_equal(again.A[1], tree.A[1])
    steep = small_tree(A=[[3.0, 0.0], [0.0, -2.0]], gate=1.0).unscale(mean, scale)
    assert steep.A.tolist() == [[1.5, 0.0], [0.0, -4.0]]


def test_gates_by_hand():
    stump = Tree([[1, 2]], [[2.0]], [0.5], [[1.0, 0.0], [0.0, 3.0]], classes=["u", "v"], link="softmax", gate=3.0)
    x = np.array([[1.0], [0.0]])
    left = 1.0 / (1.0 + np.exp(-3.0 * (0.5 - 2.0 * x[:, 0])))
    np.testing.assert_allclose(stump.leaf_proba(x), np.stack([left, 1.0 - left], axis=1))
    soft = np.exp([[1.0, 0.0], [0.0, 3.0]]) / np.exp([[1.0, 0.0], [0.0, 3.0]]).sum(axis=1, keepdims=True)
    mixture = stump.as_mixture
    np.testing.assert_allclose(mixture.outputs(x), stump.leaf_proba(x) @ soft)
    np.testing.assert_allclose(mixture.predict_proba(x), stump.leaf_proba(x) @ soft)
    np.testing.assert_allclose(stump.predict_proba(x), soft[::-1])
    np.testing.assert_allclose(stump.likeliest(x), soft[::-1])
    assert np.array_equal(stump.outputs(x), [[0.0, 3.0], [1.0, 0.0]])
    assert stump.predict(x).tolist() == ["v", "u"]
    assert mixture.as_hard == stump
    assert mixture.flops(x) == 2 * 1 + 2 * 0 + 2 * 4
    linear = Tree([[1, 2]], [[2.0]], [0.5], [[1.0], [2.0]], [[[3.0]], [[-1.0]]], gate=3.0, mixture=True)
    answers = np.stack([1.0 + 3.0 * x[:, 0], 2.0 - x[:, 0]], axis=1)
    np.testing.assert_allclose(linear.predict(x), np.sum(linear.leaf_proba(x) * answers, axis=1))
    assert linear.flops(x) == 2 * 1 + 2 * 2 + 2 * 2


@pytest.mark.parametrize("n", [1, 45])
@pytest.mark.parametrize("clipped", [False, True])
@pytest.mark.parametrize("link", ["identity", "softmax"])
def test_mixtures_of_linear_leaves(link, clipped, n):
    rng = np.random.default_rng(0)
    values, coefs = rng.normal(size=(3, 4)), 3.0 * rng.normal(size=(3, 4, 5))
    bounds = {"lower": values - 1.0, "upper": values + 2.0} if clipped else {}
    classes = {"classes": list("abcd"), "link": link} if link == "softmax" else {}
    splits = [[1, 2], [3, 4]], rng.normal(size=(2, 5)), rng.normal(size=2)
    tree = Tree(*splits, values, coefs, gate=2.0, mixture=True, **bounds, **classes)
    x = rng.normal(size=(n, 5))
    scores = np.einsum("lkj,ij->ilk", coefs, x) + values
    scores = np.clip(scores, values - 1.0, values + 2.0) if clipped else scores
    answers = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True) if link == "softmax" else scores
    np.testing.assert_allclose(tree.outputs(x), np.einsum("il,ilk->ik", tree.leaf_proba(x), answers), rtol=1e-12)


def test_flops_of_mixtures():
    assert small_tree(A=[[1.0, 1.0], [0.0, 1.0]], gate=1.0, mixture=True).flops(np.zeros((1, 2))) == 2 * 3 + 2 * 3


def test_the_likeliest_leaf_need_not_be_the_one_a_row_reaches():
    tree = small_tree(A=[[1.0, 0.0], [0.0, 1.0]], b=[0.1, 0.0], gate=1.0)
    x = np.zeros((1, 2))  # left with p = .525, then a leaf with .5 each: the right one has .475
    assert tree.predict(x).tolist() == [2.0]
    assert tree.likeliest(x).tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gate": 0.0}, "gate must be finite and > 0, or None; got 0.0"),
        ({"gate": -1.0}, "gate must be"),
        ({"gate": np.inf}, "gate must be"),
        ({"upper": np.zeros((3, 1))}, "lower and upper"),
        ({"lower": np.zeros((2, 1)), "upper": np.zeros((3, 1))}, "lower must have shape"),
        ({"coefs": np.zeros((2, 1, 2))}, "coefs must have shape"),
        ({"coefs": np.zeros((3, 1, 1))}, "coefs must have p = 2 or 0 terms per output; got 1"),
        ({"A": np.zeros((3, 2))}, r"A must have shape \(2, 2\); got \(3, 2\)"),
        ({"share": np.zeros(4)}, r"share must have shape \(5,\)"),
        ({"classes": ["a", "b"]}, r"classes must have shape \(1,\)"),
        ({"children": [[2, 3], [1, 4]]}, "branches after their parents"),
        ({"children": [[1, 2], [3, 3]]}, "exactly once"),
        ({"children": [[1, 2], [3, 5]]}, "exactly once"),
        ({"children": [[1, 2]]}, r"children must have shape \(2, 2\)"),
    ],
)
def test_malformed_parts_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        small_tree(**changes)


def test_trees_that_differ_in_one_part_are_unequal():
    bounds = {"lower": np.zeros((3, 1)), "upper": np.ones((3, 1))}
    tree = small_tree()
    variants = [
        small_tree(children=[[2, 1], [3, 4]]),
        small_tree(A=[[1.0, 0.0], [0.0, -2.1]]),
        small_tree(b=[0.0, 4.1]),
        small_tree(values=[[1.0], [2.0], [3.1]]),
        small_tree(values=np.ones((3, 2))),
        small_tree(coefs=np.zeros((3, 1, 2))),
        small_tree(**bounds),
        small_tree(lower=np.zeros((3, 1)), upper=np.full((3, 1), 1.1)),
        small_tree(classes=["a"]),
        small_tree(classes=["b"]),
        small_tree(link="softmax"),
        small_tree(gate=1.0),
        small_tree(gate=2.0),
        small_tree(gate=1.0, mixture=True),
    ]
    for i, one in enumerate([tree, *variants]):
        for j, other in enumerate([tree, *variants]):
            assert (one == other) == (i == j)
    with pytest.raises(TypeError, match="unhashable"):
        hash(tree)
    assert small_tree(b=[1e-13, 4.0 * (1 + 1e-10)]) == tree
    assert small_tree(b=[1e-11, 4.0]) != tree


def test_parts_are_stored_as_the_kernels_want_them():
    tree = small_tree(A=np.asfortranarray([[1, 0], [0, -2]]), values=np.array([1, 2, 3], np.float32)[:, None])
    for name in ("A", "b", "values", "coefs"):
        array = getattr(tree, name)
        assert (array.dtype, array.flags.c_contiguous, array.flags.writeable) == (np.float64, True, False)
    assert tree.children.dtype == np.int32
    assert not tree.children.flags.writeable
    assert not tree.node_depth.flags.writeable
    assert not tree.feature.flags.writeable
    assert tree.feature.tolist() == [0, 1]
    assert tree.is_axis_aligned
    assert not small_tree(A=[[1.0, 1.0], [0.0, 1.0]]).is_axis_aligned


def test_links_in_any_order_give_a_breadth_first_tree():
    left, right = np.array([3, -1, -1, 4, -1]), np.array([1, -1, -1, 2, -1])
    A = np.arange(10.0).reshape(5, 2)
    tree = Tree.from_links(left, right, A, np.arange(5.0), np.arange(10.0, 15.0)[:, None], np.array(["a"]))
    assert tree.children.tolist() == [[1, 2], [3, 4]]
    assert tree.A.tolist() == A[[0, 3]].tolist()
    assert tree.b.tolist() == [0.0, 3.0]
    assert tree.values.ravel().tolist() == [11.0, 14.0, 12.0]
    assert tree.classes.tolist() == ["a"]


def test_one_leaf_and_complete_trees_know_their_classes():
    leaf = Tree.constant([0.25, 0.75], 3, ["no", "yes"])
    assert leaf.predict(np.zeros((2, 3))).tolist() == ["yes", "yes"]
    assert leaf.predict_proba(np.zeros((1, 3))).tolist() == [[0.25, 0.75]]
    assert Tree.constant(1.5, 3).values.tolist() == [[1.5]]
    assert (leaf.n_features, leaf.n_outputs, leaf.n_nodes) == (3, 2, 1)
    complete = Tree.complete(np.ones((3, 2)), np.zeros(3), 2, np.array(["no", "yes"]))
    assert complete.predict(np.zeros((1, 2))).tolist() == ["no"]
    assert not complete.values.any()


def test_no_rows_are_no_trouble():
    tree = small_tree()
    assert tree.predict(np.zeros((0, 2))).shape == (0,)
    assert tree.decision_path(np.zeros((0, 2))).shape == (0, 5)


def test_a_damaged_tree_makes_a_short_message():
    children = chain(5000).children.copy()
    children[7] = 0
    with pytest.raises(ValueError, match="children must name every node but the root exactly once") as caught:
        Tree(children, np.ones((5000, 1)), np.zeros(5000), np.zeros((5001, 1)))
    assert len(str(caught.value)) < 300


def test_a_leaf_of_zeros_answers_zero_in_the_units_of_the_outcome():
    X, y = np.arange(40.0)[:, None], np.repeat([0.0, 7.0, 0.0, 3.0], 10)
    tree = ORTRegressor(2, random_state=0).fit(X, y).tree_
    assert sorted(tree.values[:, 0])[:2] == [0.0, 0.0]  # -4e-16 before
    small = Tree(np.zeros((0, 2)), np.zeros((0, 1)), np.zeros(0), [[1e-15]])
    assert small.unscale(np.zeros(1), np.ones(1)).values[0, 0] == 1e-15
