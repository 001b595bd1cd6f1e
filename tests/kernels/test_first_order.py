"""Steps of Adam and of L-BFGS."""

import numpy as np
import pytest

from opttree import SmoothTreeProblem
from opttree.kernels.smooth.first_order import Moments, adam_step, lbfgs_memory
from tests.conftest import regression_problem


def test_adams_corrections_are_exact():
    theta, first, second = (np.zeros(3, np.float32) for _ in range(3))
    gradient = np.array([1.0, -2.0, 1e-3], np.float32)
    for step in range(1, 300):  # of a constant gradient every step is the rate
        before = theta.copy()
        adam_step(theta, gradient, first, second, step, 1.0, Moments(0.9, 0.999, 1.0, 1.0, 1e-12))
        np.testing.assert_allclose(theta - before, -np.sign(gradient), rtol=1e-5 if step > 50 else 2e-6)


def test_lbfgs_in_parts_is_lbfgs():
    smooth = SmoothTreeProblem(regression_problem(200, depth=3, leaves="linear"), alpha=2.0)
    start = smooth.random_theta(np.random.default_rng(0))
    whole, parts = start.copy(), start.copy()
    value = smooth.lbfgs(whole, 60)
    memory = lbfgs_memory(parts.size)
    values = [smooth.lbfgs(parts, 15, memory) for _ in range(4)]
    assert values[-1] == pytest.approx(value, rel=1e-12)
    np.testing.assert_array_equal(parts, whole)
    forgetful = start.copy()
    for _ in range(4):
        smooth.lbfgs(forgetful, 15)
    assert not np.array_equal(forgetful, whole)
