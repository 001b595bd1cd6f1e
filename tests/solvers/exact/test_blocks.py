"""Bounds by blocks of rows."""

import numpy as np

from opttree import TreeProblem
from solvers import BlockBounds, solve


def test_blocks_start_from_a_tree_that_the_constraints_allow():
    from opttree.statement.constraints import MaxSplits

    X = np.arange(30.0)[:, None]
    stated = TreeProblem(X, np.arange(30) % 3, depth=2, splits="axis", loss="zero_one", constraints=[MaxSplits(0)])
    result = solve(stated, BlockBounds(blocks=2), random_state=0)
    assert result.bound <= result.objective
