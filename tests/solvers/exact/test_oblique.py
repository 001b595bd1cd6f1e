"""Optimal hyperplanes by branching on the sides of rows: against enumeration, and the limits of the claim."""

import numpy as np
import pytest

from opttree import L1, SplitPrice, Tree, TreeProblem
from solvers import MIP, TAO, BranchAndBound, LocalSearch, ObliqueBranchAndBound, Termination, certify, solve
from tests.conftest import ends_in_time


def instance(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 15))
    grid = rng.random() < 0.5  # rows on common lines, and equal ones
    X = rng.integers(0, 4, size=(n, 2)).astype(float) if grid else rng.normal(size=(n, 2))
    loss = str(rng.choice(["squared", "absolute", "zero_one", "log"]))
    y = rng.integers(0, 3, n) if loss in ("zero_one", "log") else rng.integers(0, 4, n).astype(float)
    if loss == "squared" and rng.random() < 0.3:
        y = rng.normal(size=(n, 2))
    return TreeProblem(
        X,
        y,
        depth=int(rng.integers(1, 3)),
        loss=loss,
        sample_weight=rng.integers(1, 4, n).astype(float) if rng.random() < 0.5 else None,
        penalties=(SplitPrice(0.05),) if rng.random() < 0.5 else (),
        min_leaf=int(rng.choice([1, 1, 2, 3])),
    )


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_it_equals_the_enumeration_of_all_lines(first):
    for seed in range(first, first + 20):
        problem = instance(seed)
        found = solve(problem, ObliqueBranchAndBound(init=None), random_state=0)
        truth = solve(problem, MIP("hyperflow"))
        assert found.termination is Termination.OPTIMAL
        assert found.objective == pytest.approx(truth.objective, abs=1e-9, rel=1e-9), seed
        assert found.bound <= found.objective


def test_one_feature_is_the_axis_aligned_problem(rng):
    X, y = rng.normal(size=(40, 1)), rng.normal(size=40)
    for loss in ("squared", "absolute"):
        problem = TreeProblem(X, y, depth=2, loss=loss)
        axis = solve(problem.restated(splits="axis"), BranchAndBound())
        assert solve(problem, ObliqueBranchAndBound()).objective == pytest.approx(axis.objective, rel=1e-9)


def test_no_heuristic_is_better_in_four_dimensions(rng):
    X = rng.normal(size=(40, 4))
    y = np.sign(X @ rng.normal(size=4)) + 0.5 * rng.normal(size=40)
    problem = TreeProblem(X, y, depth=1)
    proved = solve(problem, ObliqueBranchAndBound(init=None))
    assert proved.termination is Termination.OPTIMAL
    for seed in range(5):
        assert solve(problem, TAO(), random_state=seed).objective >= proved.objective - 1e-9
    verdict = certify(problem, solve(problem, LocalSearch(), random_state=0))
    assert verdict.objective >= verdict.bound
    assert verdict.bound == pytest.approx(proved.objective, rel=1e-6)


@pytest.mark.parametrize("seed", [2, 5, 8])
def test_rows_on_common_planes_but_for_rounding_keep_no_proof_open(seed):
    rng = np.random.default_rng(seed)
    angle = np.array([0.0, 1.5, 3.0, 4.0, 5.4, 7.3])[rng.integers(0, 6, 24)]
    chord = 0.0254 * np.array([1, 2, 4, 6, 9, 12])[rng.integers(0, 6, 24)]
    speed = np.array([31.7, 39.6, 55.5, 71.3])[rng.integers(0, 4, 24)]
    problem = TreeProblem(np.column_stack([angle, chord, speed]), rng.normal(size=24), depth=2)
    result = solve(problem, ObliqueBranchAndBound(), random_state=0)
    assert result.termination is Termination.OPTIMAL
    assert result.objective <= solve(problem, LocalSearch(n_starts=5), random_state=1).objective + 1e-9


@pytest.mark.parametrize(("n", "p", "depth"), [(80, 3, 2), (2000, 3, 2), (4000, 3, 1), (20_000, 3, 2), (3000, 1000, 2)])
def test_a_time_limit_leaves_a_valid_bound(n, p, depth, rng):
    """The bound is at most a planted tree's objective, also where a chunk of nodes takes longer than a second."""
    X = rng.normal(size=(n, p))
    normal = np.r_[1.0, -0.5, 0.3, np.zeros(p - 3)]
    side = X @ normal > 0.2
    problem = TreeProblem(X, side + 0.1 * rng.normal(size=n), depth=depth)
    planted = Tree.complete(normal[None], np.array([0.2]), 1)
    search = ObliqueBranchAndBound(init=None)
    result = ends_in_time(lambda: solve(problem, search, time_limit=0.5, random_state=0), 2.5)
    assert 0.0 <= result.bound <= problem.objective(problem.fit_leaves(planted)) + 1e-12
    verdict = certify(problem, problem.best_constant(), time_limit=0.5, init=None)
    assert verdict.bound is None or verdict.bound <= problem.objective(problem.fit_leaves(planted)) + 1e-12


def test_one_huge_outcome_makes_no_tree_optimal():
    """Rounding hides what the other rows cost: the search says so, and its bound is valid."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(10, 2)), rng.normal(size=10)
        for size in (1e3, 1e7):
            y[0] = size
            problem = TreeProblem(X, y, depth=2)
            result = solve(problem, ObliqueBranchAndBound(init=None), random_state=0)
            truth = solve(problem, MIP("hyperflow"))
            assert result.bound <= truth.objective * (1.0 + 1e-9)
            if result.termination is Termination.OPTIMAL:
                assert result.objective == pytest.approx(truth.objective, rel=1e-6)
            else:
                assert size == 1e7


def test_two_values_that_nearly_agree_are_divided():
    X = np.where(np.arange(12) % 2, 0.3, 0.1 + 0.2)[:, None]
    problem = TreeProblem(X, (np.arange(12) % 2) + 0.1 * np.arange(12.0), depth=1)
    result = solve(problem, ObliqueBranchAndBound(init=None), random_state=0)
    assert result.termination is Termination.OPTIMAL
    axis = solve(problem.restated(splits="axis"), BranchAndBound())
    assert result.objective == pytest.approx(axis.objective, rel=1e-9)


def test_what_it_does_not_state_is_said():
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20.0)
    for options, words in (
        ({"depth": 3}, "goes to depth 2"),
        ({"depth": 1, "splits": "axis"}, "use BranchAndBound"),
        ({"depth": 1, "leaves": "linear"}, "is for constant ones"),
        ({"depth": 1, "penalties": [L1(splits=0.1)]}, "are not prices"),
    ):
        assert words in ObliqueBranchAndBound().refusal(TreeProblem(X, y, **options))


def test_oblique_rows_that_nearly_coincide_leave_no_false_proof():
    X = np.array([[0.0, -1e17], [0.3, 1.0], [-0.4, 2.0], [0.1, 3.0], [-2.0, 0.5], [0.7, -1.0]])
    y = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    for columns in (X, X[:, 1:], X[:, :1] * 1e-15 + 1.0):
        stated = TreeProblem(columns, y, depth=1)
        result = solve(stated, ObliqueBranchAndBound(init=None), random_state=0)
        axis = solve(stated.restated(splits="axis"), BranchAndBound())
        assert result.bound <= axis.objective + 1e-12


def test_a_search_that_has_not_ended_bounds_more_than_half(rng):
    X = rng.normal(size=(40, 3))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=40)
    result = solve(TreeProblem(X, y, depth=2), ObliqueBranchAndBound(node_limit=100_000), random_state=0)
    assert result.termination is Termination.ITERATION_LIMIT
    assert result.gap < 0.3  # depth first: 0.67


@pytest.mark.parametrize("most", [0, 4000, 10_000])
def test_nodes_wait_within_their_memory_and_give_the_same_optima(monkeypatch, most):
    from solvers.exact import oblique

    monkeypatch.setattr(oblique, "MOST_BYTES", most)
    monkeypatch.setattr(oblique, "DIVES", {1: (3, 1, 2), 2: (3, 1, 2)})
    for seed in range(8):
        problem = instance(seed)
        found = solve(problem, ObliqueBranchAndBound(init=None), random_state=0)
        assert found.termination is Termination.OPTIMAL
        assert found.objective == pytest.approx(solve(problem, MIP("hyperflow")).objective, abs=1e-9, rel=1e-9), seed


def test_no_node_is_looked_at_for_ever(monkeypatch, rng):
    from solvers.exact import oblique

    monkeypatch.setattr(oblique, "DIVES", {1: (1,), 2: (1,)})
    X, y = rng.normal(size=(14, 2)), rng.normal(size=14)
    for depth, smallest in ((1, 1), (2, 1), (2, 3)):
        problem = TreeProblem(X, y, depth=depth, min_leaf=smallest)
        found = solve(problem, ObliqueBranchAndBound(init=None), time_limit=60.0, random_state=0)
        assert found.termination is Termination.OPTIMAL
        assert found.objective == pytest.approx(solve(problem, MIP("hyperflow")).objective, abs=1e-9)
