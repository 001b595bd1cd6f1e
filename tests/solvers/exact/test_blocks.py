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


def test_searches_that_stall_do_not_claim_a_time_limit():
    X = np.array([[2.0], [0], [0], [5], [0], [2], [4]])
    weight = [0.1, 1e-5, 1e11, 1e-12, 1e-5, 1e-5, 1e6]
    problem = TreeProblem(X, [-0.55, 1.28, -1.7, 0.16, -1.16, 1.05, 0.79], 3, "axis", sample_weight=weight)
    assert solve(problem, BlockBounds()).termination.name == "STALLED"
