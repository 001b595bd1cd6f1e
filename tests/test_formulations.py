"""What a model that a user builds or writes holds, and what MIP answers at a time limit."""

import time

import numpy as np
import pandas as pd
import pyomo.environ as pyo
import pytest

from opttree import L2, MIPTreeProblem, ORTRegressor, SplitPrice, TreeProblem
from opttree.cli.main import main
from solvers import MIP, CartInit, solve
from tests.conftest import regression_problem


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


@pytest.mark.parametrize("formulation", ["hyperflow", "flow", "big-m"])
@pytest.mark.parametrize("suffix", ["lp", "mps"])
def test_a_written_program_has_the_optimum_of_the_statement(tmp_path, formulation, suffix):
    pyscipopt = pytest.importorskip("pyscipopt")
    problem = regression_problem(40, p=2, depth=1, splits="axis", penalties=())
    path = tmp_path / f"model.{suffix}"
    MIPTreeProblem(problem, formulation=formulation, n_thresholds=4).write(path)
    model = pyscipopt.Model()
    model.hideOutput()
    model.readProblem(str(path))
    model.optimize()
    assert model.getStatus() == "optimal"
    assert model.getObjVal() == pytest.approx(solve(problem, MIP(n_thresholds=4)).objective, rel=1e-5)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("formulation", ["flow", "big-m"])
def test_the_exact_objective_is_the_problems_and_tangents_are_below_it(formulation):
    problem = regression_problem(40, p=2, depth=1, splits="axis", penalties=(SplitPrice(0.01),))
    exact, outer = (
        MIPTreeProblem(problem, formulation=formulation, n_thresholds=4, objective=kind) for kind in ("exact", "outer")
    )
    tree = exact.snap(solve(problem, CartInit(), random_state=0).tree)
    assert pyo.value(exact.encode(tree).cost) == pytest.approx(problem.objective(tree), rel=1e-9)
    assert pyo.value(solved(outer.build()).cost) < solve(problem, MIP(n_thresholds=4)).objective - 1e-3


def test_writing_means_one_thing_in_python_and_on_the_command_line(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(30, 2)).round(1), columns=["a", "b"]).assign(y=rng.normal(size=30))
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for extra, complete in (([], True), (["--reduced"], False)):
        command = ["solve", str(tmp_path / "rows.csv"), "--target", "y", "--out", str(tmp_path / "out"), *extra]
        assert main([*command, "--write", str(tmp_path / "theirs.lp")]) == 0
        problem, _scaling = ORTRegressor(2, min_samples_leaf=1).state(
            frame[["a", "b"]].to_numpy(), frame["y"].to_numpy()
        )
        MIPTreeProblem(problem).write(tmp_path / "ours.lp", complete=complete)
        theirs, ours = ((tmp_path / name).read_text().splitlines() for name in ("theirs.lp", "ours.lp"))
        assert len(theirs) == len(ours)
        assert "reduced" in theirs[0] or complete


def test_building_and_writing_end_with_the_time_limit(tmp_path, auto_mpg, capsys):
    path = tmp_path / "large.mps"
    main(["solve", "friedman1", "--depth", "1", "--n-thresholds", "1", "--out", str(tmp_path)])  # compiles
    capsys.readouterr()
    began = time.perf_counter()
    code = main(
        ["solve", "auto_mpg", "--depth", "3", "--write", str(path), "--time-limit", "2", "--out", str(tmp_path)]
    )
    assert time.perf_counter() - began < 15.0
    out, err = capsys.readouterr()
    assert code == 2
    assert "--time-limit 2 was over before it was built and written" in err
    assert "incumbent" in out
    assert not list(tmp_path.glob("*.mps"))


def test_mip_starts_from_less_depth_where_a_limit_rules_cart_out(auto_mpg):
    X, y = auto_mpg
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    problem = TreeProblem(X, y, depth=2, splits="axis", leaves="linear", loss="absolute", min_leaf=10)
    for most, reached in ((2, 1), (0, 0)):
        cart = solve(problem.restated(depth=reached), CartInit(), random_state=0).tree
        result = solve(problem, MIP(max_splits=most), time_limit=0.01, random_state=0)
        assert result.objective <= problem.objective(MIPTreeProblem(problem).snap(cart)) * (1.0 + 1e-9)


@pytest.mark.parametrize(("leaves", "depth", "limit"), [("linear", 3, 0.01), ("linear", 3, 3.0), ("constant", 4, 0.01)])
def test_mip_holds_what_cart_and_local_search_do_at_a_time_limit(auto_mpg, leaves, depth, limit):
    X, y = auto_mpg
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    problem = TreeProblem(X, y, depth=depth, splits="axis", leaves=leaves, min_leaf=20)
    cart = MIPTreeProblem(problem).snap(solve(problem, CartInit(), random_state=0).tree)
    result = solve(problem, MIP(), time_limit=limit, random_state=0)
    assert result.objective <= problem.objective(cart) * (1.0 + 1e-9)
    assert result.objective < 0.3
    if limit > 1.0:
        assert "start" in result.trace.to_frame()["phase"].tolist()
        assert result.objective < 0.9 * problem.objective(cart)


def test_no_tree_is_said_on_the_command_line_with_a_code_of_its_own(tmp_path, capsys):
    command = ["solve", "friedman1", "--depth", "1", "--n-thresholds", "2", "--out", str(tmp_path)]
    assert main([*command, "--require", "x0", "--require", "x1"]) == 3
    assert "No tree satisfies the constraints" in capsys.readouterr().out
    assert main([*command, "--require", "x0", "--forbid", "x3"]) == 0
    assert "x0 <=" in capsys.readouterr().out
    assert main([*command, "--forbid", "y"]) == 2
    assert "--forbid must name a column" in capsys.readouterr().err
