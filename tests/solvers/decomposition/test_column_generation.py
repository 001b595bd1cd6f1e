"""Path columns: known roots and optima, brute force, limits, pricers, clocks."""

import itertools
from functools import partial

import numpy as np
import pytest

from opttree import TreeProblem
from opttree.constraints import DifferentLeaf, MaxDifference, MaxFeatures, MaxSplits, Monotone, RequireSplit
from opttree.problems.mip.candidates import thresholds
from solvers import BranchAndBound, Column, ColumnGeneration, Lagrangian, SolverError, instances, solve
from tests import constraint_oracle
from tests.conftest import ends_in_time, thinned

KINDS = [kind for kind in constraint_oracle.KINDS if kind.kind not in ("order", "paths")]
ROOTS = thinned([(name, depth) for name in ("monk2", "hayes-roth", "spect") for depth in (2, 3, 4)], 2)


def one_hot(name, depth, *constraints):
    return instances()[f"onehot_{name}"].problem(depth).restated(constraints=constraints)


def root(problem, **options):
    """Value of the linear program, in errors."""
    solver = ColumnGeneration(whole_master=True, enumerate=False, **options)
    return problem.n_samples * solve(problem, solver, random_state=0).trace.rows[-1].info["lp_bound"]


@pytest.mark.usefixtures("needs_data")
@pytest.mark.parametrize(("name", "depth"), ROOTS)
def test_with_cover_rows_the_root_is_the_optimum(name, depth):
    problem, optimum = one_hot(name, depth), instances()[f"onehot_{name}"].optima[depth]
    assert root(problem) == pytest.approx(optimum, abs=1e-5)
    result = solve(problem, ColumnGeneration(), random_state=0)
    assert result.termination.name == "OPTIMAL"
    assert problem.n_samples * result.objective == pytest.approx(optimum)


@pytest.mark.usefixtures("needs_data")
@pytest.mark.parametrize(("name", "value"), [("monk2", 45.0), ("hayes-roth", 29.0), ("house-votes-84", 11 / 3)])
def test_without_cover_rows_it_is_below(name, value):
    assert root(one_hot(name, 2), cover=False) == pytest.approx(value, abs=1e-5)


@pytest.mark.usefixtures("needs_data")
@pytest.mark.parametrize(
    ("name", "errors", "value"), [("monk1", 22, 22), ("monk2", 59, 57.5), ("hayes-roth", 56, 52), ("spect", 55, 55)]
)
def test_a_budget_of_features(name, errors, value):
    problem = one_hot(name, 2, MaxFeatures(2))
    assert root(problem) == pytest.approx(value, abs=1e-5)
    result = solve(problem, ColumnGeneration(), random_state=0)
    assert result.termination.name == "OPTIMAL"
    assert problem.n_samples * result.objective == pytest.approx(errors)


@pytest.mark.usefixtures("needs_data")
@pytest.mark.parametrize(("name", "value"), [("monk1", 24.05), ("house-votes-84", 95.3109), ("spect", 55.0)])
def test_parity_has_the_bound_of_the_multipliers(name, value):
    group, tolerance = {"monk1": (3, 0.05), "house-votes-84": (3, 0.1), "spect": (0, 0.05)}[name]
    problem = one_hot(name, 2, MaxDifference(group, tolerance))
    assert root(problem) == pytest.approx(value, abs=1e-2)
    assert root(problem, columns="twig") == pytest.approx(value, abs=1e-2)


@pytest.mark.usefixtures("needs_data")
def test_parity_is_proved_by_the_columns_within_the_gap():
    problem = one_hot("monk1", 2, MaxDifference(3, 0.05))
    result = solve(problem, ColumnGeneration(), random_state=0)
    assert result.termination.name == "OPTIMAL"
    assert problem.n_samples * result.objective == pytest.approx(31)
    assert problem.violation(result.tree) is None


@pytest.mark.usefixtures("needs_data")
@pytest.mark.parametrize(("name", "count"), [("concreteslump", 4), ("autos", 3)])
def test_squared_loss(name, count):
    X, y = instances()[name].load()
    binned = thresholds(X, count).left.T.astype(float)
    problem = TreeProblem(binned, y, 2, "axis")
    result = solve(problem, ColumnGeneration(), random_state=0)
    best = solve(problem, BranchAndBound())
    assert result.termination.name == best.termination.name == "OPTIMAL"
    assert result.objective == pytest.approx(best.objective)
    assert result.trace.rows[-1].info["lp_bound"] == pytest.approx(best.objective)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_brute_force_under_constraints(kind):
    for seed in range(4):
        problem = constraint_oracle.instance(kind, seed)
        if ColumnGeneration().refusal(problem) is None:
            truth = constraint_oracle.optimum(problem)
            assert constraint_oracle.disagreement(problem, "columns", truth) is None, seed


@pytest.mark.parametrize("loss", ["squared", "absolute", "zero_one", "log"])
@pytest.mark.parametrize("columns", ["leaf", "twig", "subtree"])
def test_all_columns_and_losses_agree_with_branch_and_bound(loss, columns):
    rng = np.random.default_rng(3)
    X = rng.integers(0, 3, size=(40, 3)).astype(float)
    y = (
        rng.integers(0, 3, 40)
        if loss == "zero_one"
        else rng.integers(0, 2, 40)
        if loss == "log"
        else rng.normal(size=40)
    )
    for depth in (0, 1, 2, 3):
        problem = TreeProblem(X, y, depth, "axis", loss=loss, sample_weight=rng.integers(1, 4, 40), min_leaf=2)
        result, best = solve(problem, ColumnGeneration(columns=columns)), solve(problem, BranchAndBound())
        assert result.termination.name == "OPTIMAL", depth
        assert result.objective == pytest.approx(best.objective, rel=1e-7), depth


def test_subtrees_are_priced_by_limits_on_answers():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(60, 6)).astype(float)
    y = ((X[:, 0] + X[:, 1] * X[:, 2] + rng.random(60)) > 1.2).astype(int)
    problem = TreeProblem(X, y, 3, "axis", loss="zero_one", constraints=[MaxDifference(0, 0.1)])
    optimum = solve(problem, Lagrangian(), random_state=0)
    assert optimum.termination.name == "OPTIMAL"
    for columns in ("leaf", "twig"):
        result = solve(problem, ColumnGeneration(columns=columns), random_state=0, time_limit=60)
        assert result.bound <= optimum.objective + 1e-9
        assert result.objective >= optimum.objective - 1e-9
        assert problem.violation(result.tree) is None


class Wrong:
    """A pricer whose columns do not help, are no paths of negative reduced cost, or are named twice."""

    def price(self, paths, duals):
        for slot, splits in enumerate(paths.splits):
            yield Column(slot, 0)
            yield Column(slot, len(splits) - 1)
            yield Column(slot, len(splits) - 1)


def test_a_pricer_that_finds_nothing_changes_nothing():
    rng = np.random.default_rng(1)
    X, y = rng.integers(0, 2, size=(80, 5)).astype(float), rng.integers(0, 2, 80)
    problem = TreeProblem(X, y, 2, "axis", loss="zero_one")
    result = solve(problem, ColumnGeneration(pricer=Wrong()))
    assert result.termination.name == "OPTIMAL"
    assert result.objective == pytest.approx(solve(problem, BranchAndBound()).objective)


def test_refusals_name_the_reason():
    X, y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 1, 0])
    ordered = TreeProblem(X, y, 2, "axis", loss="zero_one", constraints=[Monotone(0)])
    assert "orders leaves" in ColumnGeneration().refusal(ordered)
    fair = TreeProblem(X, y.astype(float), 2, "axis", constraints=[MaxDifference([0, 0, 0, 1, 1, 1], 0.1)])
    assert "0/1 loss and costs" in ColumnGeneration().refusal(fair)
    with pytest.raises(ValueError, match="pricer must be an object with a method price"):
        ColumnGeneration(pricer=3)
    limited = TreeProblem(X, y, 2, "axis", loss="zero_one", constraints=[MaxSplits(1)])
    assert "use columns='leaf'" in ColumnGeneration(columns="twig").refusal(limited)


@pytest.mark.parametrize("columns", ["auto", "leaf", "twig", "subtree"])
def test_pairs_of_rows_are_apart_in_subtrees_that_a_search_would_not_keep(columns):
    X = np.array(list(itertools.product([0, 1], repeat=3)), float)
    apart = [DifferentLeaf(i, j) for i, j in itertools.combinations(range(8), 2)]
    for depth, termination in ((3, "OPTIMAL"), (2, "INFEASIBLE")):
        problem = TreeProblem(X, [1] + [0] * 7, depth, "axis", loss="zero_one", constraints=apart)
        result = solve(problem, ColumnGeneration(columns=columns))
        assert result.termination.name == termination
        assert result.objective == (0.0 if depth == 3 else np.inf)


def test_one_leaf_that_costs_nothing_beside_a_split_that_must_be_there():
    X = np.random.default_rng(0).integers(0, 3, (12, 2)).astype(float)
    for y, loss in ((np.zeros((12, 2)), "cost"), (np.ones(12), "squared")):
        problem = TreeProblem(X, y, 2, "axis", loss=loss, constraints=[RequireSplit(0)])
        result = solve(problem, ColumnGeneration(), time_limit=20)
        assert (result.termination.name, result.objective) == ("OPTIMAL", 0.0)


def test_a_limit_without_a_tree_ends_the_run():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 6, (400, 10)).astype(float), rng.integers(0, 3, 400)
    apart = [DifferentLeaf(i, j) for i in range(4) for j in range(i)]
    problem = TreeProblem(X, y, 2, "axis", loss="zero_one", constraints=apart)

    def run():
        with pytest.raises(SolverError, match="without yielding a tree"):
            solve(problem, ColumnGeneration(), time_limit=0.02)

    ends_in_time(run, 1.5)


@pytest.mark.parametrize("seconds", [0.05, 0.5])
def test_a_limit_that_is_too_short(seconds):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 40)), rng.integers(0, 3, 500)
    for problem in (
        TreeProblem(X, y, 2, "axis", loss="zero_one"),
        TreeProblem(X.round(0), y, 3, "axis", loss="zero_one", constraints=[MaxDifference(y % 2, 0.05)]),
    ):
        run = partial(solve, problem, ColumnGeneration(), time_limit=seconds, random_state=0)
        result = ends_in_time(run, seconds + 1.5)
        assert problem.violation(result.tree) is None
        assert (result.bound or 0.0) <= result.objective
