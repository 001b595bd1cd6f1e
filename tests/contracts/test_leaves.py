"""Leaves that every solver should make."""

import numpy as np
import pytest

from opttree import TreeProblem
from solvers import NODEC, TAO, LocalSearch, solve


@pytest.mark.parametrize(
    "solver", [NODEC(joint_iterations=0), TAO(min_linear_rows=1), LocalSearch(n_starts=1)], ids=repr
)
def test_linear_leaves_of_dependent_features_stay_small(solver):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    X = np.column_stack([X, X[:, 0] + X[:, 1], np.full(120, 3.7), X[:, 2] * (1.0 + 1e-9)])
    y = X[:, 0] + np.abs(X[:, 1]) + 0.1 * rng.normal(size=120)
    splits = "axis" if isinstance(solver, LocalSearch) else "oblique"
    tree = solve(TreeProblem(X, y, depth=2, leaves="linear", splits=splits, min_leaf=4), solver, random_state=0).tree
    assert np.abs(tree.leaf_arrays[1]).max() < 100.0
