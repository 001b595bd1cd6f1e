"""Starts of soft trees."""

import numpy as np

from opttree import SmoothTreeProblem, SRTRegressor
from solvers import ClusterInit, solve
from solvers.soft.starts import soft_start
from tests.conftest import regression_problem
from tests.estimators import solver_of


def test_starts_can_be_taken_as_they_are():
    model = SRTRegressor(2, init="cluster", steepness=None, max_iter=1, random_state=0)
    assert solver_of(model, regression_problem()).steepness is None
    smooth = SmoothTreeProblem(regression_problem(penalties=()))
    tree = solve(smooth.problem, ClusterInit(n_init=1), random_state=0).tree
    kept, scaled = (soft_start(smooth, tree, steepness, np.random.default_rng(0)) for steepness in (None, 1.0))
    np.testing.assert_array_equal(kept, smooth.soften(tree, np.random.default_rng(0)))
    assert not np.allclose(kept, scaled)
