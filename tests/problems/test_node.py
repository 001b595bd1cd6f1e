"""The problem of one node."""

import numpy as np
import pytest

from opttree.problems import NodeProblem


def test_node_problem_cost_and_surrogate_by_hand():
    X, u = np.array([[0.0], [1.0], [2.0]]), np.array([-1.0, 3.0, -2.0])
    problem = NodeProblem(X, np.arange(3, dtype=np.int32), u, l1=0.5, l2=0.25)
    assert problem.labels.tolist() == [-1, 1, -1]
    assert problem.cost(np.array([1.0]), 0.5) == 2.0  # row 0 left, rows 1 and 2 right: the last should be left
    assert problem.cost(np.array([-1.0]), -1.5) == 1.0  # row 2 left, rows 0 and 1 right: the first should be left
    expected = np.log1p(np.exp(-0.5)) + 3 * np.log1p(np.exp(-0.5)) + 2 * np.log1p(np.exp(1.5)) + 0.5 + 0.25
    assert problem.surrogate(np.array([1.0]), 0.5) == pytest.approx(expected)
