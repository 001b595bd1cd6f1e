"""Routing and outputs against a walk in Python."""

import numpy as np
import pytest

from opttree.kernels import records, routing
from opttree.kernels.leaves import outputs
from opttree.kernels.passes import reduced
from tests.trees import random_tree


def reference_outputs(tree, X):
    """Row by row, in plain Python."""
    leaf, out = [], []
    for x in X:
        t = 0
        while t < tree.n_branches:
            t = int(tree.children[t, 0 if tree.A[t] @ x <= tree.b[t] else 1])
        row = t - tree.n_branches
        value = tree.values[row].copy()
        if tree.linear_leaves:
            value = np.clip(value + tree.coefs[row] @ x, tree.lower[row], tree.upper[row])
        leaf.append(t)
        out.append(value)
    return np.array(leaf), np.array(out)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("axis", [False, True])
@pytest.mark.parametrize("depth", [0, 1, 4])
def test_routing_and_outputs(rng, depth, linear, axis):
    X = rng.normal(size=(150, 5))
    tree = random_tree(rng, depth, 5, 2, linear, axis)
    leaf, out = reference_outputs(tree, X)
    assert np.array_equal(tree.apply(X), leaf)
    np.testing.assert_allclose(tree.outputs(X), out, rtol=1e-12, atol=1e-13)


def side_by_passes(X, tree):
    """The side of each row at the root by the kernels of TAO; the next level agrees."""
    n = len(X)
    leaves = records.Leaves(np.zeros((2, 1)), np.zeros((2, 1, 0)), *np.zeros((2, 0, 0)))
    tracks = reduced.Tracks(*(np.zeros(n, kind) for kind in ["i4", "i4", "f8", "i4", "i1", "f8", "i4", "f8"]))
    rows, slot_of = records.Rows(X, np.zeros((n, 1)), np.ones(n)), np.array([0, -1, -1], np.int32)
    reduced.pseudolabels(rows, tree, leaves, 0, 0, slot_of, tracks)
    assert np.array_equal(tracks.other_leaf, 2 - tracks.side)
    reduced.advance(X, tree, tracks)
    assert np.array_equal(tracks.node, 1 + tracks.side)
    return tracks.side


@pytest.mark.parametrize("p", [1, 2, 3, 7, 16, 41, 130])
def test_tied_rows_go_the_same_way_wherever_the_law_is_written(p):
    """Thresholds that equal a row's projection: 400 ties for each number of features."""
    rng = np.random.default_rng(p)
    X, A = rng.normal(size=(400, p)), rng.normal(size=(400, p))
    rows, feature = np.arange(400), routing.single_features(A)
    numbers = records.Leaves(np.array([[0.0], [1.0]]), np.zeros((2, 1, 0)), *np.zeros((2, 0, 0)))
    b = np.array([routing.project(X, rows[i : i + 1], A[i])[0] for i in rows])
    assert routing.each_left(X, rows, A, b, rows).all()
    for i in range(0, 400, 20):
        assert routing.goes_left(X, A[i], b[i], rows[i : i + 1])[0]
        children = np.array([[1, 2]], np.int32)
        tree = records.Tree(children, A[i : i + 1], b[i : i + 1], feature[i : i + 1])
        leaf = routing.route(X, tree)
        assert leaf[i] == 1
        assert np.array_equal(side_by_passes(X, tree), leaf - 1)
        assert np.array_equal(outputs.forest_outputs(X, np.array([0, 1]), tree, numbers)[:, 0], leaf - 1)
        assert np.array_equal(leaf == 1, routing.goes_left(X, A[i], b[i]))
