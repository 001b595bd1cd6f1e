"""Problems on features far from zero, which solvers of hyperplanes get about zero."""

from dataclasses import fields, replace

import numpy as np
import pytest

import solvers
from opttree import L1, L2Constants, SplitPrice, Tree, TreeProblem
from opttree.constraints import MaxSplits
from solvers import GET, SDTR, TAO, Bagging, CartInit, Chain, GradTree, MultiStart, RandomInit, Solver, TAOForest, solve
from solvers.core.origin import origin

KINDS = [
    kind
    for kind in (getattr(solvers, name) for name in solvers.__all__)
    if isinstance(kind, type) and issubclass(kind, Solver)
]
WANT_ZERO = [kind for kind in KINDS if kind.wants_zero]


def problem(shift=0.0, unit=1.0, n=240, leaves="constant", **options):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(n, 4))
    Z = np.round(Z - Z.mean(axis=0), 6)
    y = np.where(Z[:, 0] + Z[:, 1] > 0.3, 2.0 + Z[:, 2], -1.0 + Z[:, 3])
    return TreeProblem(shift + unit * Z, (y - y.mean()) / y.std(), **{"depth": 2} | options, leaves=leaves)


@pytest.mark.parametrize("kind", WANT_ZERO, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_hyperplanes_far_from_zero_are_as_good_as_about_zero(kind, leaves):
    splits = "axis" if kind is GradTree else "oblique"
    near, solver = problem(leaves=leaves, splits=splits), kind()
    solver = replace(solver, **dict.fromkeys({"n_trees"} & {field.name for field in fields(solver)}, 8))
    if solver.refusal(near) is not None:
        pytest.skip("it takes no such leaves")
    wanted = solve(near, solver, random_state=0, time_limit=20.0).objective
    constant = near.objective(near.best_constant())
    for shift in (30.0, 1e6):
        far = problem(shift, leaves=leaves, splits=splits)
        result = solve(far, solver, random_state=0, time_limit=20.0)
        assert result.objective == far.objective(result.tree)
        assert result.objective <= wanted + 0.05 * (constant - wanted)


def test_who_gets_features_about_zero():
    assert {kind.__name__ for kind in WANT_ZERO} == {
        "Boosting", "ClusterInit", "DTSemNet", "Distilled", "GET", "GradTree", "GreedyInit", "HingeInit", "JointForest",
        "NODEC", "ORRT", "SDTR", "StackedForest", "SubtreePolish", "TAO", "TAOForest",
    }  # fmt: skip


@pytest.mark.parametrize(
    "solver", [Chain(RandomInit(), TAO()), MultiStart(TAO(), 2), MultiStart(TAO(), 2, n_jobs=2), Bagging(TAO(), 3)],
    ids=lambda solver: solver.brief(),
)  # fmt: skip
def test_solvers_made_of_others_give_each_its_features_about_zero(solver):
    near, far = (solve(problem(shift), solver, random_state=0) for shift in (0.0, 1e4))
    assert far.objective <= near.objective + 0.03


def test_models_starts_and_callbacks_are_on_the_problems_own_features():
    far, seen = problem(1e4), []
    first = solve(far, TAO(max_iter=2), random_state=0)
    again = solve(far, TAO(), start=first, random_state=0, callback=lambda step, _trace: seen.append(step))
    assert again.objective <= first.objective
    assert seen[0].phase == "start"
    assert far.objective(seen[0].tree) == first.objective
    for step in seen:
        assert far.violation(step.tree) is None
        assert far.objective(step.tree) <= 1.0 + 1e-9
    soft = solve(far, SDTR(), random_state=0).tree
    assert soft.gate is not None
    assert far.objective(soft) < 0.5
    forest = solve(far, TAOForest(4), random_state=0).tree
    assert far.objective(forest) < 0.5


@pytest.mark.parametrize("unit", [1.0, 1e-9])
def test_thresholds_of_axis_aligned_splits_part_the_rows_as_the_solver_parted_them(unit):
    near = problem(splits="axis", n=60, depth=3)
    far = near.with_rows(1.0 + unit * (30.0 + np.round(near.X, 2)), near.y)  # values are a few units of rounding apart
    assert origin(far) is not None
    result = solve(far, TAO(), random_state=0)
    assert result.objective == pytest.approx(
        solve(near.with_rows(np.round(near.X, 2), near.y), TAO(), random_state=0).objective
    )


def test_tables_about_zero_and_other_statements_stay_as_they_are():
    assert origin(problem()) is None
    unit = problem()
    low, high = unit.X.min(axis=0), unit.X.max(axis=0)
    assert origin(unit.with_rows((unit.X - low) / (high - low), unit.y)) is None  # as SRT's paper has it
    assert origin(problem(penalties=[SplitPrice(0.1), L1(splits=0.1)], shift=50.0)) is not None

    class Threshold:
        def value(self, tree):
            return 0.0 if not isinstance(tree, Tree) else 1e-9 * float(np.abs(tree.b).sum())

    for stated in (
        problem(50.0, penalties=L2Constants(splits=0.1)),
        problem(50.0, penalties=Threshold()),
        problem(50.0, constraints=[MaxSplits(2)]),
    ):
        assert origin(stated) is None


def test_of_a_raw_table_all_features_are_moved_unless_that_makes_values_equal():
    X = np.random.default_rng(0).normal(size=(50, 3))
    X[:, 0] += 1e3
    X[:, 1] = 1e-300 * np.arange(50)
    X[:, 2] = 7.0
    oblique, axis = (origin(TreeProblem(X, X[:, 0], 1, splits)) for splits in ("oblique", "axis"))
    assert oblique == pytest.approx([X[:, 0].mean(), X[:, 1].mean(), 7.0], rel=1e-12)
    assert axis == pytest.approx([X[:, 0].mean(), 0.0, 0.0], rel=1e-12)


def test_a_short_limit_and_weights():
    far = problem(1e4)
    weight = np.linspace(0.0, 1.0, far.n_samples)
    weighted = TreeProblem(far.X, far.y, 2, sample_weight=weight)
    result = solve(weighted, GET(), random_state=0)
    assert result.objective == weighted.objective(result.tree) < 0.5
    assert solve(weighted, GET(), time_limit=1e-9).objective <= weighted.objective(weighted.best_constant())
    assert replace(GET(), n_starts=2).wants_zero


def test_classes_far_from_zero():
    far = problem(1e4)
    labels = TreeProblem(far.X, far.y > 0, 2, loss="log", min_leaf=5)
    result = solve(labels, TAO(), random_state=0)
    near = TreeProblem(far.X - 1e4, far.y > 0, 2, loss="log", min_leaf=5)
    assert result.objective <= 1.05 * solve(near, TAO(), random_state=0).objective
    assert labels.violation(result.tree) is None
    assert solve(labels, CartInit()).objective < 0.6


def test_values_that_a_move_would_make_equal_stay():
    rng = np.random.default_rng(0)
    chance = 10.0 ** -rng.uniform(0.0, 40.0, 400)  # of a test, beside years
    X = np.c_[rng.integers(1990, 2024, 400), chance]
    y = (chance < 1e-25) + 0.5 * (chance < 1e-30)
    problem = TreeProblem(X, y, depth=2)
    assert origin(problem)[1] == 0.0
    start = solve(TreeProblem(X, y, 2, "axis"), CartInit()).tree
    assert solve(problem, TAO(), start=start, random_state=0).objective < 1e-12


@pytest.mark.parametrize("solver", [TAO(), GET(), TAOForest(4)], ids=lambda solver: solver.brief())
def test_times_in_fine_units_leave_enough_rows_in_leaves(solver):
    rng = np.random.default_rng(0)
    X = 1.7e16 + np.round(8.0 * rng.normal(size=(120, 2)))  # numbers there are 2 apart
    problem = TreeProblem(X, np.sign(X[:, 0] - X[:, 1]), 3, leaves="linear", min_leaf=8)
    for seed in range(5):
        result = solve(problem, solver, random_state=seed)
        assert problem.violation(result.tree) is None
        assert result.objective == problem.objective(result.tree)
