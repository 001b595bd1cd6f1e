"""Programs: what a model that a user builds or writes holds."""

import highspy
import numpy as np
import pyomo.environ as pyo
import pytest

from opttree import L2, MIPTreeProblem, SplitPrice, TreeProblem
from opttree.problems.exact import leaves
from opttree.problems.mip.candidates import dichotomies
from opttree.runtime.clock import due_at, now
from solvers import MIP, CartInit, RandomInit, solve
from tests.conftest import regression_problem
from tests.solvers.mip.test_mip import small


def solved(model):
    """The model, its variables set to an optimum that HiGHS finds."""
    pyo.SolverFactory("appsi_highs").solve(model)
    return model


def test_a_side_constraint_on_the_model_gives_the_true_optimum(auto_mpg):
    X, y = auto_mpg[0][:100, :5], auto_mpg[1][:100]
    problem = TreeProblem(X, y, depth=2, splits="axis")
    stated = MIPTreeProblem(problem)
    model = stated.build()
    for (_depth, _state, name), split in model.split.items():
        if name.startswith("x3_"):
            split.fix(0)
    tree = stated.decode(solved(model))
    truth = solve(TreeProblem(X[:, [0, 1, 2, 4]], y, depth=2, splits="axis"), MIP())
    assert truth.objective == pytest.approx(4.862, abs=1e-3)
    assert pyo.value(model.cost) == pytest.approx(truth.objective, rel=1e-9)
    assert problem.objective(tree) == pytest.approx(truth.objective, rel=1e-9)
    assert 3 not in tree.feature


@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_every_candidate_tree_is_an_integer_point_of_the_complete_model(leaves):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(24, 2)).round(1), rng.normal(size=24)
    problem = TreeProblem(X, y, depth=2, splits="axis", leaves=leaves, min_leaf=3, penalties=L2(leaves=0.01))
    stated = MIPTreeProblem(problem)
    model = stated.build()
    for seed in range(10):
        tree = stated.snap(solve(problem, CartInit(splitter="random"), random_state=seed).tree)
        stated.encode(tree, model)
        assert pyo.value(model.cost) == pytest.approx(problem.objective(tree), rel=1e-9)
        assert stated.decode(model) == tree
        assert all(row.slack() >= -1e-9 for row in model.component_data_objects(pyo.Constraint))
    budget = rng.uniform(size=len(model.split))
    model.budget = pyo.Constraint(expr=sum(b * v for b, v in zip(budget, model.split.values(), strict=True)) <= 0.7)
    tree = stated.decode(solved(model))
    assert all(v.is_binary() for v in model.component_data_objects(pyo.Var))
    assert pyo.value(model.cost) == pytest.approx(problem.objective(tree), rel=1e-6)


def test_a_reduced_model_says_so():
    problem = regression_problem(40, p=2, depth=2, splits="axis", penalties=())
    reduced, complete = (MIPTreeProblem(problem).build(complete=complete) for complete in (False, True))
    assert len(reduced.split) < len(complete.split)
    assert (reduced.name, complete.name) == ("hyperflow_reduced", "hyperflow")
    assert "its optimum may be wrong" in reduced.doc
    assert pyo.value(solved(reduced).cost) == pytest.approx(pyo.value(solved(complete).cost), rel=1e-9)
    reduced.name, complete.name = "mine", "plan_reduced"
    assert MIPTreeProblem(problem).decode(complete) is not None
    flow = MIPTreeProblem(problem, formulation="flow", n_thresholds=2)
    with pytest.raises(ValueError, match="model must be one that build\\(\\) of this 'flow' gave; got 'mine'"):
        flow.decode(reduced)
    outer = MIPTreeProblem(problem, formulation="flow", n_thresholds=2, objective="outer").build()
    assert outer.name == "flow_outer"
    assert "relaxation" in outer.doc


@pytest.mark.parametrize("formulation", ["flow", "big-m"])
def test_the_exact_objective_is_the_problems_and_tangents_are_below_it(formulation):
    problem = regression_problem(40, p=2, depth=1, splits="axis", penalties=(SplitPrice(0.01),))
    exact, outer = (
        MIPTreeProblem(problem, formulation=formulation, n_thresholds=4, objective=kind, subtree_rows=False)
        for kind in ("exact", "outer")
    )
    tree = exact.snap(solve(problem, CartInit(), random_state=0).tree)
    assert pyo.value(exact.encode(tree).cost) == pytest.approx(problem.objective(tree), rel=1e-9)
    assert pyo.value(solved(outer.build()).cost) < solve(problem, MIP(n_thresholds=4)).objective - 1e-3


def test_all_lines_between_points_are_found():
    X = np.random.default_rng(0).normal(size=(12, 2))
    assert len(dichotomies(X)) == 12 * 11 // 2  # of points in general position
    grid = np.array([[i, j] for i in range(3) for j in range(3)], float)
    sides = dichotomies(grid).left
    rng = np.random.default_rng(0)
    for _ in range(2000):
        a, b = rng.normal(size=2), rng.uniform(-3, 3)
        left = grid @ a <= b
        if 0 < left.sum() < 9:
            assert any(np.array_equal(s, left) or np.array_equal(s, ~left) for s in sides)


@pytest.mark.parametrize("loss", ["squared", "absolute", "zero_one"])
@pytest.mark.parametrize("formulation", ["hyperflow", "flow", "big-m"])
def test_a_tree_is_a_point_of_the_model(formulation, loss):
    problem = small(20, 3, loss=loss, min_leaf=2, penalties=[SplitPrice(0.01)])
    stated = MIPTreeProblem(problem, formulation=formulation, reduce=False)
    for seed in range(5):
        tree = stated.snap(solve(problem, CartInit(splitter="random"), random_state=seed).tree)
        model = stated.encode(tree)
        assert all(v.value is not None for v in model.component_data_objects(pyo.Var))
        for row in model.component_data_objects(pyo.Constraint):
            assert row.slack() >= -1e-6, row.name
        value = problem.objective(stated.decode(model))
        assert value <= problem.objective(tree) + 1e-9  # hyperflow takes the best last splits
        assert pyo.value(model.cost) == pytest.approx(value, abs=0.02 if loss == "squared" else 1e-6)
        if formulation != "hyperflow":
            assert stated.decode(model) == tree


def test_an_oblique_tree_is_a_point_of_the_textbook_model():
    for options in ({}, {"loss": "zero_one"}, {"loss": "absolute", "leaves": "linear"}):
        problem = small(20, 3, splits="oblique", **options)
        stated = MIPTreeProblem(problem, formulation="big-m", margin=1e-4, coef_bound=100.0)
        model = stated.build()
        placed = 0
        for seed in range(8):
            snapped = stated.snap(solve(problem, RandomInit(), random_state=seed).tree)
            if snapped is None:
                continue
            stated.encode(snapped, model)
            placed += 1
            for row in model.component_data_objects(pyo.Constraint):
                assert row.slack() >= -1e-6, row.name
            np.testing.assert_array_equal(
                stated.decode(model).predict(problem.X).round(6), snapped.predict(problem.X).round(6)
            )
        assert placed > 2


@pytest.mark.parametrize("suffix", ["lp", "mps"])
@pytest.mark.parametrize("options", [{}, {"max_splits": 2}, {"formulation": "flow"}, {"formulation": "big-m"}], ids=str)
def test_written_models_have_the_same_optimum(tmp_path, suffix, options):
    problem = small(14, 2, loss="absolute")
    path = tmp_path / f"model.{suffix}"
    MIPTreeProblem(problem, reduce=False, n_thresholds=2, **options).write(path)
    theirs = highspy.Highs()
    theirs.setOptionValue("output_flag", False)
    theirs.readModel(str(path))
    theirs.run()
    ours = solve(problem, MIP(n_thresholds=2, **options))
    assert theirs.getObjectiveValue() == pytest.approx(ours.objective, rel=1e-4)
    assert "split" in path.read_text()
    with pytest.raises(ValueError, match=r"path must end in \.lp or \.mps"):
        MIPTreeProblem(problem).write(tmp_path / "model.txt")


def test_programs_of_too_many_thresholds_say_what_they_would_take():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2000))
    problem = TreeProblem(X, X[:, 0], depth=1, splits="axis")
    for formulation in ("hyperflow", "flow", "big-m"):
        with pytest.raises(ValueError, match=r"598,000 candidate splits of its 2,000 features take 9.57 GB"):
            MIPTreeProblem(problem, formulation, objective="outer")
    assert "n_thresholds" in MIP().refusal(problem)
    two_values = TreeProblem(np.sign(X), X[:, 0], depth=1, splits="axis")
    assert MIP().refusal(two_values) is None
    assert MIP(n_thresholds=10).refusal(problem) is None


@pytest.mark.usefixtures("by_hand")
def test_programs_of_leaves_hear_a_limit_that_is_too_short(monkeypatch):
    """Four of 6,000 rows took 6 s, where .05 s were asked for."""
    monkeypatch.setattr(leaves, "linear_absolute_leaf", lambda *_: pytest.fail("it was stated"))
    problem = regression_problem(5000, p=3, depth=1, splits="axis", leaves="linear", loss="absolute", penalties=())
    with due_at(now() + 0.05):
        tree = leaves.fit_exact_leaves(problem, problem.best_constant())
    assert problem.objective(tree) < problem.objective(problem.best_constant())
