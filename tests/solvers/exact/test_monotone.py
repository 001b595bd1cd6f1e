"""Ordered answers by a dynamic program over intervals: known optima, brute force, programs, regression."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from opttree import Tree, TreeProblem
from opttree.constraints import MinLeaf, Monotone
from solvers import CPSAT, MIP, BranchAndBound, MonotoneDP, instances, solve
from tests import constraint_oracle
from tests.conftest import ends_in_time, real_data

KNOWN = [("monk1", 2, 28), ("hayes-roth", 2, 52), ("spect", 2, 55), ("balance-scale", 2, 199), ("monk1", 3, 10),
         ("hayes-roth", 3, 34)]  # along feature 0, upwards  # fmt: skip
KINDS = [kind for kind in constraint_oracle.KINDS if kind.kind in ("order", "filter")]


@pytest.mark.usefixtures("needs_data")
@pytest.mark.parametrize(("name", "depth", "errors"), KNOWN)
def test_known_optima(name, depth, errors):
    problem = instances()[f"onehot_{name}"].problem(depth).restated(constraints=[Monotone(0)])
    result = solve(problem, MonotoneDP())
    assert result.termination.name == "OPTIMAL"
    assert problem.n_samples * result.objective == pytest.approx(errors)


@pytest.mark.usefixtures("needs_data")
def test_a_second_method_proves_the_same():
    problem = instances()["onehot_monk1"].problem(2).restated(constraints=[Monotone(0)])
    for solver in (MIP("flow", threads=1), CPSAT(threads=1)):
        if solver.refusal(problem) is None:
            result = solve(problem, solver, time_limit=60, random_state=0)
            assert result.termination.name == "OPTIMAL"
            assert problem.n_samples * result.objective == pytest.approx(28)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_brute_force(kind):
    for seed in range(5):
        problem = constraint_oracle.instance(kind, seed)
        if MonotoneDP().refusal(problem) is None:
            truth = constraint_oracle.optimum(problem)
            assert constraint_oracle.disagreement(problem, "intervals", truth) is None, seed


@pytest.mark.parametrize("loss", ["squared", "absolute", "log", "zero_one"])
def test_several_features_at_once_agree_with_flow(loss):
    rng = np.random.default_rng(2)
    X = rng.integers(0, 3, size=(12, 2)).astype(float)
    y = (
        rng.integers(0, 2, 12)
        if loss == "log"
        else rng.integers(0, 3, 12)
        if loss == "zero_one"
        else rng.normal(size=12)
    )
    problem = TreeProblem(X, y, 2, "axis", loss=loss, constraints=[Monotone(0), Monotone(1, -1)])
    result, flow = solve(problem, MonotoneDP()), solve(problem, MIP("flow"), time_limit=60)
    assert result.objective == pytest.approx(flow.objective, rel=1e-3)
    assert result.bound <= flow.objective * (1.0 + 1e-6)
    assert flow.bound <= result.objective * (1.0 + 1e-6)


def test_both_signs_on_a_feature_ask_for_equal_answers():
    X, y = np.arange(8.0)[:, None], np.array([0, 0, 0, 0, 0, 1, 1, 1])
    problem = TreeProblem(X, y, 2, "axis", loss="zero_one", constraints=[Monotone(0), Monotone(0, -1)])
    result = solve(problem, MonotoneDP())
    assert result.termination.name == "OPTIMAL"
    assert 8 * result.objective == pytest.approx(3)


def test_without_an_order_it_is_branch_and_bound():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(60, 3)).round(1), rng.normal(size=60)
    for depth in (0, 1, 2):
        problem = TreeProblem(X, y, depth, "axis", constraints=[MinLeaf(4)], sample_weight=rng.uniform(0.5, 2.0, 60))
        result = solve(problem, MonotoneDP())
        assert result.termination.name == "OPTIMAL"
        assert result.objective == pytest.approx(solve(problem, BranchAndBound()).objective, rel=1e-4)


@pytest.mark.usefixtures("needs_data")
def test_regression_over_all_thresholds():
    X, y = instances()["concreteslump"].load()
    order = [Monotone(0), Monotone(1, -1), Monotone(2)]
    problem = TreeProblem(X, y, 2, "axis", constraints=order)
    result = solve(problem, MonotoneDP(), time_limit=60)
    assert result.termination.name == "OPTIMAL"
    assert len(y) * result.objective == pytest.approx(204887.88, rel=1e-4)
    assert problem.violation(result.tree) is None


def test_values_that_are_nearly_equal():
    x = 1.0 + np.arange(14) * 2.0**-50
    y = np.sin(np.arange(14.0))
    problem = TreeProblem(x[:, None], y, 2, "axis", constraints=[Monotone(0)])
    same = TreeProblem(np.arange(14.0)[:, None], y, 2, "axis", constraints=[Monotone(0)])
    assert solve(problem, MonotoneDP()).objective == pytest.approx(solve(same, MonotoneDP()).objective)


@pytest.mark.parametrize("seconds", [0.05, 0.5])
def test_a_limit_that_is_too_short(seconds):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1500, 50)), rng.normal(size=1500)
    problem = TreeProblem(X, y, 3, "axis", constraints=[Monotone(0)])
    result = ends_in_time(lambda: solve(problem, MonotoneDP(), time_limit=seconds, random_state=0), seconds + 1.5)
    assert problem.violation(result.tree) is None


@pytest.mark.usefixtures("needs_data")
@pytest.mark.parametrize("solver", [MIP(), MonotoneDP()], ids=["MIP", "MonotoneDP"])
def test_an_optimum_without_the_order_that_has_it_is_proved(solver):
    """It took more than 30 s, without a bound: the sets of 442 rows are too many."""
    free = TreeProblem.standardized(*real_data("diabetes"), depth=2, splits="axis")
    best = solve(free, BranchAndBound())
    ordered = free.restated(constraints=[Monotone(2), Monotone(8)])
    assert ordered.violation(best.tree) is None
    result = solve(ordered, solver, time_limit=20)
    assert result.termination.name == "OPTIMAL"
    assert result.objective == pytest.approx(best.objective, rel=1e-9)


@pytest.mark.usefixtures("needs_data")
@pytest.mark.parametrize("solver", [MIP(), MonotoneDP()], ids=["MIP", "MonotoneDP"])
def test_against_the_order_there_is_a_bound_and_a_tree_as_good_as_scikit_learns(solver):
    free = TreeProblem.standardized(*real_data("diabetes"), depth=2, splits="axis")
    ordered = free.restated(constraints=[Monotone(2, -1)])
    result = solve(ordered, solver, time_limit=3)
    assert free.objective(solve(free, BranchAndBound()).tree) - 1e-9 <= result.bound <= result.objective
    cart = DecisionTreeRegressor(max_depth=2, monotonic_cst=[0, 0, -1] + 7 * [0], random_state=0).fit(free.X, free.y)
    assert result.objective <= ordered.objective(ordered.fit_leaves(Tree.from_sklearn(cart))) + 1e-9
    assert ordered.violation(result.tree) is None


def test_a_start_without_the_constraints_can_be_left_out():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 2)).round(1), rng.normal(size=12)
    ordered = TreeProblem(X, y, 1, "axis", constraints=[Monotone(0)])
    for solver, phases in (
        (MonotoneDP(), True),
        (MonotoneDP(relax_first=False), False),
        (MIP(), True),
        (MIP(init=None), False),
    ):
        result = solve(ordered, solver, time_limit=20)
        assert ("without constraints" in {row.phase for row in result.trace}) is phases


@pytest.mark.parametrize("solver", [MIP(), MonotoneDP()], ids=["MIP", "MonotoneDP"])
def test_without_a_level_the_constant_is_proved(solver):
    problem = TreeProblem(np.arange(6.0)[:, None], np.arange(6.0), 0, "axis", constraints=[Monotone(0)])
    result = solve(problem, solver)
    assert result.termination.name == "OPTIMAL"
    assert result.objective == pytest.approx(35.0 / 12.0)
