"""CP-SAT: known optima, brute force of all side constraints, weights, rounding, limits."""

import math

import numpy as np
import pytest

from opttree import TreeProblem
from opttree.constraints import FeatureCost, MaxDifference, PathCost
from opttree.problems.mip.clauses import as_whole
from solvers import CPSAT, BranchAndBound, instances, solve
from tests import constraint_oracle
from tests.conftest import ends_in_time

pytest.importorskip("ortools")
KNOWN = [("monk1", 22), ("monk3", 8), ("house-votes-84", 7), ("balance-scale", 199), ("spect", 55)]


@pytest.mark.usefixtures("needs_data")
@pytest.mark.parametrize(("name", "errors"), KNOWN)
def test_known_optima(name, errors):
    problem = instances()[f"onehot_{name}"].problem(2)
    result = solve(problem, CPSAT(threads=1), random_state=0, time_limit=60)
    assert result.termination.name == "OPTIMAL"
    assert problem.n_samples * result.objective == pytest.approx(errors)


@pytest.mark.usefixtures("needs_data")
def test_parity_is_proved():
    problem = instances()["onehot_house-votes-84"].problem(2).restated(constraints=[MaxDifference(3, 0.1)])
    result = solve(problem, CPSAT(threads=1), random_state=0, time_limit=60)
    assert result.termination.name == "OPTIMAL"
    assert problem.n_samples * result.objective == pytest.approx(98)


@pytest.mark.parametrize("kind", constraint_oracle.KINDS, ids=lambda kind: kind.__name__)
def test_brute_force_under_every_constraint(kind):
    found = 0
    for seed in range(40):
        problem = constraint_oracle.instance(kind, seed)
        if found < 8 and CPSAT().refusal(problem) is None:
            found += 1
            truth = constraint_oracle.optimum(problem)
            assert constraint_oracle.disagreement(problem, "CP-SAT", truth) is None, seed
    assert found


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e12])
def test_weights_that_are_no_whole_numbers(scale):
    rng = np.random.default_rng(0)
    X, w = rng.integers(0, 3, size=(50, 3)).astype(float), scale * rng.uniform(0.01, 5.0, 50)
    for y, loss in ((rng.integers(0, 3, 50), "zero_one"), (scale * rng.uniform(0.0, 3.0, (50, 3)), "cost")):
        problem = TreeProblem(X, y, 2, "axis", loss=loss, sample_weight=w)
        result, best = solve(problem, CPSAT(threads=1), random_state=0), solve(problem, BranchAndBound())
        assert result.objective == pytest.approx(best.objective, rel=1e-4)
        assert result.bound <= best.objective * (1.0 + 1e-9)


def test_rows_as_whole_numbers_hold_at_all_points():
    rng = np.random.default_rng(0)
    for values in (rng.normal(size=6), np.array([1 / 3, -1 / 7, 0.5]), np.array([2.0, 4.0, -6.0]), np.zeros(3)):
        points = np.array(np.meshgrid(*[[0, 1]] * len(values))).reshape(len(values), -1).T
        sums = points @ values
        most = float(np.median(sums))
        whole, (low, high), unit = as_whole(values, -math.inf, most)
        assert np.all((points @ np.array(whole) <= high)[sums <= most])
        assert low < -np.abs(whole).sum()
        assert np.allclose(np.array(whole) / unit, values, atol=1e-5)
    assert as_whole(np.array([1 / 3, 1 / 7]), 0.0, 1.0)[0] == [7, 3]


def test_limits_that_cannot_bind_and_costs_that_are_no_fractions():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, (20, 3)).astype(float), rng.integers(0, 2, 20)
    for constraint in (FeatureCost([1, 1, 1], 1e30), PathCost([1, 1, 1], 1e300)):
        problem = TreeProblem(X, y, 2, "axis", loss="zero_one", constraints=[constraint])
        free = solve(problem.restated(constraints=()), BranchAndBound())
        assert solve(problem, CPSAT(threads=1)).objective == pytest.approx(free.objective)
    for depth in (0, 1, 2):
        result = solve(TreeProblem(X, rng.random((20, 3)), depth, "axis", loss="cost"), CPSAT(threads=1))
        assert result.termination.name == "OPTIMAL"
    with pytest.raises(ValueError, match="seed must be"):
        CPSAT(seed=2**40)


def test_bad_input_and_refusals():
    X, y = np.random.default_rng(0).normal(size=(400, 30)), np.arange(400) % 2
    assert "literals" in CPSAT().refusal(TreeProblem(X, y, 3, "axis", loss="zero_one"))
    assert "0/1 loss" in CPSAT().refusal(TreeProblem(X, y.astype(float), 2, "axis"))
    assert CPSAT(n_thresholds=3).refusal(TreeProblem(X, y, 3, "axis", loss="zero_one")) is None


@pytest.mark.parametrize("seconds", [0.05, 1.0])
def test_a_limit_that_is_too_short(seconds):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, size=(400, 15)).astype(float), rng.integers(0, 3, 400)
    problem = TreeProblem(X, y, 3, "axis", loss="zero_one", constraints=[MaxDifference(0, 0.05)])
    result = ends_in_time(lambda: solve(problem, CPSAT(threads=1), time_limit=seconds, random_state=0), seconds + 1.5)
    assert result.tree is None or problem.violation(result.tree) is None
