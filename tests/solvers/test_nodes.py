"""Node solvers: one objective, three ways to its minimum; exact thresholds; exact axis-aligned splits."""

import numpy as np
import pytest

from opttree.problems import LevelProblem, NodeProblem
from solvers import AxisNode, LiblinearNode, NewtonNode, SklearnNode


def node_problem(rng, m=400, p=6, l1=1e-3, l2=0.0, equal_weights=False):
    X = rng.normal(size=(2 * m, p)) * rng.uniform(0.5, 2.0, p)
    rows = rng.permutation(2 * m)[:m].astype(np.int32)
    target = X[rows] @ rng.normal(size=p) + rng.normal(size=m)
    size = np.ones(m) if equal_weights else rng.exponential(size=m)
    return NodeProblem(X, rows, np.where(target > 0, size, -size) / m, l1, l2)


@pytest.mark.parametrize(("l1", "l2"), [(1e-3, 0.0), (2e-2, 0.0), (0.0, 1e-3), (0.0, 5e-2)])
def test_newton_and_scikit_learn_agree_to_a_millionth(rng, l1, l2):
    for _ in range(5):
        problem = node_problem(rng, l1=l1, l2=l2)
        zero = np.zeros(6)
        values = [
            problem.surrogate(*solver.solve(problem, zero, 0.0, rng))
            for solver in (NewtonNode(tol=1e-9), SklearnNode(tol=1e-9, max_iter=100_000))
        ]
        assert values[0] == pytest.approx(values[1], rel=1e-6)
        assert values[0] <= values[1] * (1 + 1e-9)


@pytest.mark.parametrize(("l1", "l2"), [(1e-3, 0.0), (0.0, 1e-3)])
def test_liblinear_is_exact_for_equal_weights(rng, l1, l2):
    problem = node_problem(rng, l1=l1, l2=l2, equal_weights=True)
    zero = np.zeros(6)
    exact = problem.surrogate(*NewtonNode(tol=1e-10).solve(problem, zero, 0.0, rng))
    theirs = problem.surrogate(*LiblinearNode(copies=1, tol=1e-8).solve(problem, zero, 0.0, rng))
    assert theirs == pytest.approx(exact, rel=1e-5)


def test_replication_and_resampling_come_near_the_weighted_optimum(rng):
    problem = node_problem(rng, m=3000)
    zero = np.zeros(6)
    exact = problem.surrogate(*NewtonNode(tol=1e-10).solve(problem, zero, 0.0, rng))
    fine = problem.surrogate(*LiblinearNode(copies=100, tol=1e-6).solve(problem, zero, 0.0, rng))
    coarse = problem.surrogate(*LiblinearNode(copies=2, tol=1e-6).solve(problem, zero, 0.0, rng))
    sampled = problem.surrogate(*LiblinearNode("resample", tol=1e-6).solve(problem, zero, 0.0, rng))
    assert exact <= fine * (1 + 1e-9)
    assert fine < exact * 1.001
    assert fine <= coarse < exact * 1.1
    assert sampled < exact * 1.05


def test_elastic_net_is_newtons_alone(rng):
    assert NewtonNode().penalty_refusal(1.0, 1.0) is None
    assert "not both" in SklearnNode().penalty_refusal(1.0, 1.0)
    assert "none or both" in LiblinearNode().penalty_refusal(1.0, 1.0)
    assert "none or both" in LiblinearNode().penalty_refusal(0.0, 0.0)
    problem = node_problem(rng, l1=1e-2, l2=1e-2)
    a, b = NewtonNode(tol=1e-8).solve(problem, np.zeros(6), 0.0, rng)
    for _ in range(50):
        assert problem.surrogate(a + 1e-3 * rng.normal(size=6), b + 1e-3 * rng.normal()) > problem.surrogate(a, b)


@pytest.mark.parametrize("solver", [NewtonNode(), SklearnNode(), LiblinearNode()], ids=repr)
def test_no_threshold_along_the_direction_is_better(rng, solver):
    problem = node_problem(rng, m=200)
    level = LevelProblem(problem.X, problem.rows, np.array([0, 200]), problem.u, problem.l1, problem.l2)
    A, b, cost = solver.solve_level(level, np.zeros((1, 6)), np.zeros(1), rng)
    assert cost[0] == pytest.approx(problem.cost(A[0], b[0]))
    z = problem.X[problem.rows] @ A[0]
    for cut in np.concatenate([z - 1e-9, z + 1e-9]):
        assert cost[0] <= problem.cost(A[0], cut) + 1e-12


def test_axis_nodes_have_no_better_single_feature_split(rng):
    problem = node_problem(rng, m=60, p=3)
    a, b = AxisNode().solve(problem, np.zeros(3), 0.0, rng)
    found = problem.cost(a, b)
    for j in range(3):
        for sign in (1.0, -1.0):
            direction = sign * np.eye(3)[j]
            for cut in problem.X[problem.rows] @ direction:
                assert found <= problem.cost(direction, cut) + 1e-12


@pytest.mark.parametrize("solver", [NewtonNode(), SklearnNode(), LiblinearNode(), AxisNode()], ids=repr)
def test_nodes_whose_rows_agree_are_sent_one_way(rng, solver):
    X = rng.normal(size=(30, 3))
    for sign in (1.0, -1.0):
        level = LevelProblem(X, np.arange(30, dtype=np.int32), np.array([0, 0, 30]), np.full(30, sign / 30), 1e-3, 0.0)
        _A, _b, cost = solver.solve_level(level, np.ones((2, 3)), np.zeros(2), rng)
        assert cost.tolist() == [0.0, 0.0]  # the first node has no rows


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NewtonNode(tol=0.0), r"tol must be a finite number > 0; got 0\.0"),
        (lambda: NewtonNode(max_iter=0), "max_iter must be an integer >= 1; got 0"),
        (lambda: LiblinearNode("guess"), "weighting must be one of .*; got 'guess'"),
        (lambda: LiblinearNode(copies=0), "copies must be an integer >= 1; got 0"),
    ],
)
def test_bad_options_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
