"""Limits that add up, by multipliers and enumeration: known optima, brute force, refusals, limits."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from opttree import TreeProblem
from opttree.constraints import (
    AnswerLimit,
    FeatureCost,
    ForbidSplit,
    MaxDifference,
    MaxFeatures,
    MaxShare,
    MaxSplits,
    Monotone,
    RequireSplit,
)
from solvers import MIP, BranchAndBound, Lagrangian, solve

PARITY = [  # set, depth, feature whose values are the groups, tolerance, errors
    ("monk1", 2, 3, 0.05, 31),
    ("monk1", 3, 3, 0.05, 12),
    ("house-votes-84", 2, 3, 0.1, 98),
    ("house-votes-84", 3, 3, 0.1, 95),
    ("spect", 2, 0, 0.05, 55),
    ("spect", 3, 0, 0.05, 53),
    ("breast-cancer", 2, 37, 0.02, 73),
    ("breast-cancer", 3, 37, 0.02, 60),
]


@pytest.mark.usefixtures("needs_data")
@pytest.mark.parametrize(("name", "depth", "group", "tolerance", "errors"), PARITY)
def test_parity_is_proved(name, depth, group, tolerance, errors):
    table = pd.read_csv(Path(os.environ["OPTTREE_DATA"]) / "onehot" / f"{name}.csv.gz")
    X, y = table.drop(columns="target").to_numpy(float), table["target"].to_numpy()
    problem = TreeProblem(X, y, depth, "axis", loss="zero_one", constraints=[MaxDifference(group, tolerance)])
    result = solve(problem, Lagrangian(), random_state=0, time_limit=120)
    assert result.termination.name == "OPTIMAL"
    assert len(y) * result.objective == pytest.approx(errors)
    assert problem.violation(result.tree) is None


def drawn(seed, n=40, loss="cost"):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, size=(n, 3)).astype(float)
    group = rng.integers(0, 2, n)
    if loss == "cost":
        return X, rng.integers(0, 5, size=(n, 3)).astype(float) + group[:, None] * [0, 1, 2], group
    X[:, 0] += 2.0 * group  # the groups are seen
    return X, X[:, 0] + rng.normal(size=n), group


@pytest.mark.parametrize("seed", range(4))
def test_several_limits_at_once_agree_with_a_program(seed):
    X, costs, group = drawn(seed, n=24)
    limits = [MaxShare(seed % 3, 0.3), MaxDifference(group, 0.3), MaxFeatures(2)]
    problem = TreeProblem(X, costs, 2, "axis", loss="cost", constraints=limits)
    result, program = solve(problem, Lagrangian(), random_state=0), solve(problem, MIP("flow"), time_limit=100)
    assert result.termination.name == "OPTIMAL"
    assert result.objective == pytest.approx(program.objective, rel=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_squared_loss_has_a_bound_and_a_tree(seed):
    X, y, group = drawn(seed, n=200, loss="squared")
    free = solve(TreeProblem(X, y, 2, "axis"), BranchAndBound()).objective
    problem = TreeProblem(X, y, 2, "axis", constraints=[MaxDifference(group, 0.2)])
    result = solve(problem, Lagrangian(), random_state=0)
    assert problem.violation(result.tree) is None
    assert free < result.bound <= result.objective
    assert result.gap < 0.15
    assert result.trace.rows[-1].info["multipliers"] > 1


def test_a_floor_of_recall_is_a_limit_of_answers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)).round(1)
    y = (X[:, 0] + rng.normal(size=300) > 1.0).astype(int)
    recall = np.zeros((300, 2))
    recall[y == 1, 1] = -1.0 / (y == 1).sum()
    problem = TreeProblem(X, y, 2, "axis", loss="zero_one", constraints=[AnswerLimit(recall, -0.9)])
    result = solve(problem, Lagrangian(enumerate=False), random_state=0)
    found = result.tree.predict(X) == 1
    assert found[y == 1].mean() >= 0.9
    assert result.bound <= result.objective
    assert result.gap < 0.2


def test_what_it_cannot_do_is_said():
    X, y, group = drawn(0, loss="squared")
    ordered = TreeProblem(X, y, 2, "axis", constraints=[Monotone(0)])
    assert "orders leaves; multipliers are for limits that add up" in Lagrangian().refusal(ordered)
    absolute = TreeProblem(X, y, 2, "axis", loss="absolute", constraints=[MaxDifference(group, 0.1)])
    assert "multipliers are for 0/1 loss" in Lagrangian().refusal(absolute)
    X, costs, _group = drawn(1)
    one = TreeProblem(X, costs, 1, "axis", loss="cost")
    with pytest.raises(ValueError, match="MaxShare is for costs of actions and 0/1 loss"):
        TreeProblem(X, costs[:, 0], 1, "axis", constraints=[MaxShare(0, 0.5)])
    with pytest.raises(ValueError, match="action must be below the number of actions, 3; got 3"):
        one.restated(constraints=[MaxShare(3, 0.5)])
    with pytest.raises(ValueError, match=r"weights must have shape \(40, 3\)"):
        one.restated(constraints=[AnswerLimit(np.ones((4, 3)), 1.0)])
    with pytest.raises(ValueError, match=r"weights must be finite numbers \(n, K\)"):
        AnswerLimit(np.full((2, 2), np.nan), 1.0)
    free = solve(one, Lagrangian())  # without limits
    assert free.objective == pytest.approx(solve(one, BranchAndBound()).objective)


def test_no_tree_and_too_many_halves():
    X, costs, _group = drawn(2)
    nobody = [MaxShare(k, 0.3) for k in range(3)]  # 90 % of the rows
    result = solve(TreeProblem(X, costs, 1, "axis", loss="cost", constraints=nobody), Lagrangian())
    assert result.termination.name == "INFEASIBLE"
    tight = TreeProblem(X, costs, 2, "axis", loss="cost", constraints=[MaxShare(0, 0.1), MaxSplits(2)])
    open_one = solve(tight, Lagrangian(), random_state=0)
    assert open_one.bound <= open_one.objective
    few = tight.restated(constraints=[MaxShare(0, 0.1)])
    stopped = solve(few, Lagrangian(most=1), random_state=0)
    proved = solve(few, Lagrangian(), random_state=0)
    assert proved.termination.name == "OPTIMAL"
    assert stopped.bound <= proved.objective <= stopped.objective
    late = solve(few, Lagrangian(), time_limit=1e-3, random_state=0)
    assert late.bound <= proved.objective + 1e-12


def test_costs_of_many_sizes_have_no_false_proof():
    """Answers of leaves came from a program whose tolerances hid costs of 1 beside one of 1e7."""
    X = np.random.default_rng(0).integers(0, 4, (8, 2)).astype(float)
    costs = np.random.default_rng(1).integers(0, 5, (8, 3)).astype(float)
    for dear in (1e5, 1e7, 1e9):
        costs[0] = dear, 0.0, dear
        result = solve(TreeProblem(X, costs, 2, "axis", loss="cost", constraints=[MaxShare(0, 0.2)]), Lagrangian())
        assert result.termination.name == "OPTIMAL"
        assert result.objective == pytest.approx(1.125)


@pytest.mark.parametrize("size", [1e7, 1.0, 1e-9])
@pytest.mark.parametrize("solver", [Lagrangian(), MIP("flow")], ids=["Lagrangian", "flow"])
def test_limits_are_of_any_size(size, solver):
    """A quota of treatments that nobody would choose: limits of 1e-7 were within a tolerance."""
    weights = np.column_stack([np.zeros(8), -np.ones(8)])
    free = np.column_stack([np.zeros(8), np.ones(8)])
    limit = AnswerLimit(weights * size, -3.0 * size)
    problem = TreeProblem(np.arange(8.0)[:, None], free, 1, "axis", loss="cost", constraints=[limit])
    assert solve(problem, solver).objective == pytest.approx(0.375)
    assert solve(problem, Lagrangian(enumerate=False)).bound == pytest.approx(0.375, rel=1e-6)


def test_one_group_asks_for_nothing_and_what_no_answer_keeps_is_infeasible():
    X, y = np.arange(6.0)[:, None], np.array([0, 1, 0, 1, 1, 0])
    for loss in ("zero_one", "squared"):
        one = TreeProblem(X, y, 1, "axis", loss=loss, constraints=[MaxDifference(["a"] * 6, 0.1)])
        free = solve(one.restated(constraints=()), BranchAndBound())
        assert solve(one, Lagrangian()).objective == pytest.approx(free.objective)
    never = TreeProblem(X, y, 1, "axis", loss="zero_one", constraints=[AnswerLimit(np.ones((6, 2)), 3.0)])
    assert solve(never, Lagrangian()).termination.name == "INFEASIBLE"


@pytest.mark.parametrize("other", [ForbidSplit(0), FeatureCost([5.0, 5.0], 1.0)], ids=repr)
def test_without_a_tree_that_satisfies_the_other_limits_there_is_none(other):
    X = np.c_[np.arange(8.0), np.arange(8.0) % 2.0]
    limits = [MaxShare(0, 0.6), RequireSplit(0), other]
    problem = TreeProblem(X, np.array([0, 0, 1, 1, 0, 0, 1, 1]), 2, "axis", loss="zero_one", constraints=limits)
    result = solve(problem, Lagrangian())
    assert result.termination.name == "INFEASIBLE"
    assert result.tree is None
    assert result.bound == np.inf
