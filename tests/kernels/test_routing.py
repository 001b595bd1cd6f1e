"""Routing and outputs against a walk in Python."""

import numpy as np
import pytest

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
