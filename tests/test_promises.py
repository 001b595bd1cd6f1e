"""What is said is what is done: promises that were once broken, each held by a test."""

import json
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_friedman1
from sklearn.tree import DecisionTreeRegressor

import opttree
import solvers
from opttree import (
    L1,
    L2,
    AutoTreeRegressor,
    BoostedTreesRegressor,
    GETClassifier,
    GETRegressor,
    GradTreeRegressor,
    MIPTreeProblem,
    ORRTRegressor,
    ORTRegressor,
    SDTRRegressor,
    SmoothTreeProblem,
    SplitPrice,
    SRTRegressor,
    TAOForestRegressor,
    TAORegressor,
    Tree,
    TreeProblem,
    datasets,
    interpret,
    io,
    plotting,
)
from opttree.cli.main import main
from opttree.kernels.algebra.quadratic import solve_linear_leaf
from opttree.kernels.smooth.first_order import Moments, adam_step, lbfgs_memory
from solvers import (
    GET,
    MIP,
    NODEC,
    ORRT,
    TAO,
    CartInit,
    ClusterInit,
    LocalSearch,
    Solver,
    SolverError,
    Step,
    TAOForest,
    Termination,
    certify,
    check_solver,
    solve,
)
from solvers.core.base import LastCall
from solvers.core.scipy_runs import minimise
from solvers.soft.starts import soft_start
from tests.conftest import regression_problem

# ---- forests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["auto", "oblique", "axis", "cart"])
@pytest.mark.parametrize("splits", ["oblique", "axis"])
def test_trees_of_a_forest_keep_the_limits_of_the_problem(kind, splits):
    problem = regression_problem(300, depth=2, leaves="linear", splits=splits, min_leaf=9, penalties=())
    solver = TAOForest(12, kind=kind, sample=0.5)
    if (splits, kind) == ("axis", "oblique"):
        assert "use kind='axis'" in solver.refusal(problem)
        return
    result = solve(problem, solver, random_state=0)
    assert problem.violation(result.tree) is None
    assert max(tree.depth for tree in result.tree.trees) <= 2
    assert result.objective == problem.objective(result.tree)
    left_out = 1.0 - result.tree.outside[1].mean() / 12
    assert left_out == pytest.approx(0.5, abs=0.01)  # whatever the kind


def test_a_forest_says_what_its_trees_are(needs_data):
    X, y = datasets.load("airfoil", as_arrays=True)
    for kind in ("auto", "oblique", "axis", "cart", "extra"):
        model = TAOForestRegressor(12, warm_start=kind == "auto", max_depth=2, kind=kind, random_state=0).fit(X, y)
        assert model.get_depth() <= 2
        assert model.depth_ == model.get_depth()
        assert model.kind_ == kind or (kind == "auto" and model.kind_ in ("oblique", "cart"))
        assert model.kind_ == "oblique" or all(tree.is_axis_aligned for tree in model.forest_.trees)
    mixed = TAOForestRegressor(12, max_depth=2, random_state=0).fit(X, y)
    assert (mixed.kind_, mixed.depth_) == ("stacked", 2)
    grown = TAOForestRegressor(4, kind="cart", random_state=0).fit(X, y)
    assert grown.depth_ == grown.get_depth() > 10
    tao, cart = (TAOForestRegressor(4, kind=kind, max_depth=4, random_state=0).fit(X, y) for kind in ("axis", "cart"))
    assert [tree.A.tolist() for tree in tao.forest_.trees] != [tree.A.tolist() for tree in cart.forest_.trees]


# ---- numbers --------------------------------------------------------------------------------------------------------


def test_leaves_without_a_penalty_are_of_least_norm():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    X[:, 3], X[:, 4] = X[:, 1] - 2.0 * X[:, 0], 3.7
    for rows in (40, 4, 1):
        A, y = X[:rows], rng.normal(size=rows)
        Z = np.column_stack([A, np.ones(rows)])
        v = np.zeros(6)
        solve_linear_leaf(Z.T @ Z / rows, Z.T @ y / rows, 0.0, 0.0, v)
        unit = np.sqrt(np.mean(A**2, axis=0))
        least = np.linalg.lstsq((A - A.mean(axis=0)) / unit, y - y.mean(), rcond=1e-6)[0] / unit
        np.testing.assert_allclose(v[:5], least, atol=1e-8)
        assert v[5] == pytest.approx(y.mean() - A.mean(axis=0) @ least, abs=1e-8)


@pytest.mark.parametrize(
    "solver", [NODEC(joint_iterations=0), TAO(min_linear_rows=1), LocalSearch(n_starts=1)], ids=repr
)
def test_linear_leaves_of_dependent_features_stay_small(solver):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    X = np.column_stack([X, X[:, 0] + X[:, 1], np.full(120, 3.7), X[:, 2] * (1.0 + 1e-9)])
    y = X[:, 0] + np.abs(X[:, 1]) + 0.1 * rng.normal(size=120)
    splits = "axis" if isinstance(solver, LocalSearch) else "oblique"
    tree = solve(TreeProblem(X, y, depth=2, leaves="linear", splits=splits, min_leaf=4), solver, random_state=0).tree
    assert np.abs(tree.leaf_arrays[1]).max() < 100.0


def test_adams_corrections_are_exact():
    theta, first, second = (np.zeros(3, np.float32) for _ in range(3))
    gradient = np.array([1.0, -2.0, 1e-3], np.float32)
    for step in range(1, 300):  # of a constant gradient every step is the rate
        before = theta.copy()
        adam_step(theta, gradient, first, second, step, 1.0, Moments(0.9, 0.999, 1.0, 1.0, 1e-12))
        np.testing.assert_allclose(theta - before, -np.sign(gradient), rtol=1e-5 if step > 50 else 2e-6)


def test_a_penalty_on_splits_does_not_depend_on_their_length():
    problem = regression_problem(100, penalties=(L1(splits=0.1), L2(splits=0.01)))
    tree = solve(problem, TAO(max_iter=2), random_state=0).tree
    shorter = Tree(tree.children, 1e-3 * tree.A, 1e-3 * tree.b, tree.values)
    assert problem.objective(shorter) == pytest.approx(problem.objective(tree), rel=1e-12)
    least = 0.11 * tree.n_branches
    assert least <= problem.penalty(tree) <= 0.1 * tree.n_branches * 2.0 + 0.01 * tree.n_branches
    soft = Tree(tree.children, tree.A, tree.b, tree.values, gate=1.0)
    assert problem.penalty(soft) == pytest.approx(0.1 * np.abs(tree.A).sum() + 0.01 * np.square(tree.A).sum())


@pytest.mark.parametrize("solver", [GET(n_starts=1), TAO()], ids=["GET", "TAO"])
def test_an_l1_penalty_on_splits_selects_features(solver):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 8))
    y = np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0) + 0.1 * rng.normal(size=400)
    free, held = (
        solve(TreeProblem(X, y, depth=2, penalties=L1(splits=s)), solver, random_state=0).tree for s in (0.0, 0.1)
    )
    assert np.count_nonzero(free.A[0]) == 8
    assert set(np.flatnonzero(held.A[0])) == {0, 1}
    assert np.mean((held.predict(X) - y) ** 2) < 0.2


def test_an_axis_aligned_problem_of_an_estimator_can_be_proved():
    X, y = make_friedman1(60, random_state=0)
    problem, _scaling = TAORegressor(2, splits="axis", split_penalty=0.1).state(X[:, :3], y)
    assert not any(penalty.splits for penalty in problem.penalties)
    assert MIP().refusal(problem) is None
    priced = TreeProblem(X[:, :2], y, depth=2, splits="axis", penalties=L1(splits=0.05))
    result = solve(priced, MIP())
    assert result.gap < 1e-6
    assert result.objective == pytest.approx(
        solve(TreeProblem(X[:, :2], y, depth=2, splits="axis", penalties=SplitPrice(0.05)), MIP()).objective
    )


# ---- descents -------------------------------------------------------------------------------------------------------


def test_orrt_is_one_run_of_its_minimiser():
    problem = regression_problem(200, depth=2, leaves="linear", penalties=(L2(leaves=1e-3, splits=1e-3),))
    from scipy.optimize import minimize

    smooth = SmoothTreeProblem(problem, alpha=1.0, aggregation="mixture")
    rng = np.random.default_rng(5)
    theta = rng.spawn(1)[0].normal(size=smooth.size)
    options = {"maxiter": 120, "gtol": 1e-6, "ftol": 0.0}
    whole = minimize(smooth.value_and_grad, theta, jac=True, method="L-BFGS-B", options=options)
    result = solve(problem, ORRT(max_iter=120), random_state=5)
    assert result.n_steps > 3
    assert result.objective == pytest.approx(whole.fun, rel=1e-9)


def test_a_run_of_scipy_can_be_left():
    problem = regression_problem(2000, p=8, depth=5, leaves="linear", penalties=())
    began = time.perf_counter()
    result = solve(problem, ORRT(method="SLSQP", max_iter=5000), time_limit=0.3, random_state=0)
    assert time.perf_counter() - began < 10.0
    assert result.termination.name == "TIME_LIMIT"
    run = minimise(lambda x: (float(x @ x), 2.0 * x), np.ones(3), 1, method="L-BFGS-B")
    assert next(step for step in run if step is not None).theta.shape == (3,)
    run.close()

    def slow(x):
        time.sleep(0.05)
        return float(x @ x + (x**4).sum()), 2.0 * x + 4.0 * x**3

    run = minimise(slow, np.ones(3), 1, method="L-BFGS-B")
    assert next(run) is None
    run.close()  # between two iterates: the run must not wait for ever at the next


def test_lbfgs_in_parts_is_lbfgs():
    smooth = SmoothTreeProblem(regression_problem(200, depth=3, leaves="linear"), alpha=2.0)
    start = smooth.random_theta(np.random.default_rng(0))
    whole, parts = start.copy(), start.copy()
    value = smooth.lbfgs(whole, 60)
    memory = lbfgs_memory(parts.size)
    values = [smooth.lbfgs(parts, 15, memory) for _ in range(4)]
    assert values[-1] == pytest.approx(value, rel=1e-12)
    np.testing.assert_array_equal(parts, whole)
    forgetful = start.copy()
    for _ in range(4):
        smooth.lbfgs(forgetful, 15)
    assert not np.array_equal(forgetful, whole)


def test_passes_with_constant_leaves_come_first_from_a_random_start():
    problem = regression_problem(300, depth=3, leaves="linear")
    assert not solve(problem, solvers.RandomInit(), random_state=0).tree.linear_leaves
    seen = []
    solve(
        problem,
        TAO(constant_iterations=2, max_iter=4),
        callback=lambda step, _trace: seen.append(step.tree.linear_leaves),
        random_state=0,
    )
    assert seen[:4] == [False, False, False, True]


def test_where_the_gradient_is_small_nodec_moves_nothing(monkeypatch):
    problem = regression_problem(200, leaves="linear", penalties=())
    asked = []
    reroute = NODEC._reroute
    monkeypatch.setattr(NODEC, "_reroute", lambda self, *args: asked.append(1) or reroute(self, *args))
    easily = NODEC(max_iter=2, imbalance=(0.9, 0.9, 0.4), theta=0.999)
    smooth = SmoothTreeProblem(problem)
    theta = soft_start(
        smooth, solve(problem, ClusterInit(n_init=1), random_state=0).tree, 1.0, np.random.default_rng(0)
    )
    part = opttree.SubtreeProblem(smooth, theta, 0, alone=True, exact=False)
    norm = np.linalg.norm(part.value_and_grad(part.start)[1])
    assert norm < 1.0  # theta to the power of zero
    np.testing.assert_array_equal(easily._branch_step(part, np.array(easily.imbalance), 0), part.start)
    assert not asked
    easily._branch_step(part, np.array(easily.imbalance), 100_000)
    assert asked


def test_starts_can_be_taken_as_they_are():
    model = SRTRegressor(2, init="cluster", steepness=None, max_iter=1, random_state=0)
    assert model._solver(regression_problem()).steepness is None
    smooth = SmoothTreeProblem(regression_problem(penalties=()))
    tree = solve(smooth.problem, ClusterInit(n_init=1), random_state=0).tree
    kept, scaled = (soft_start(smooth, tree, steepness, np.random.default_rng(0)) for steepness in (None, 1.0))
    np.testing.assert_array_equal(kept, smooth.soften(tree, np.random.default_rng(0)))
    assert not np.allclose(kept, scaled)


# ---- what a solver says ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Liar(Solver):
    """Yields one tree, and says of it what it likes."""

    objective: float | None = None
    bound: float | None = None
    depth: int = 0
    inside: str = ""
    end: Any = None

    def steps(self, problem, start, rng):
        n = 2**self.depth - 1
        A = np.tile(np.eye(problem.n_features)[0], (n, 1))
        tree = Tree.complete(A, np.zeros(n), 1) if n else Tree.constant([0.0], problem.n_features)
        yield tree if self.inside else Step(tree, self.objective, self.bound)
        return self.end


@dataclass(frozen=True)
class Interrupted(Solver):
    """Ctrl-C comes after its last step."""

    def steps(self, problem, start, rng):
        yield Step(problem.best_constant())
        signal.raise_signal(signal.SIGINT)


@dataclass(frozen=True)
class Lists(Solver):
    """Its steps are a list."""

    def steps(self, problem, start, rng):
        return []


def test_a_false_claim_is_an_error_that_names_the_solver():
    problem = regression_problem(50, penalties=())
    with pytest.raises(
        SolverError, match="Liar said that its best tree has the objective 0; computed anew it is 1"
    ) as e:
        solve(problem, Liar(0.0, 0.0))
    assert e.value.result.objective == pytest.approx(1.0)
    with pytest.raises(
        SolverError, match="Liar returned an infeasible tree: the tree has depth 5; the problem allows 3"
    ):
        solve(problem, Liar(depth=5))
    with pytest.raises(SolverError, match="Liar returned an infeasible tree"):
        solve(problem, Liar(0.1, depth=5))
    with pytest.raises(SolverError, match=r"Liar.steps must yield Step\(tree\) or None; got Tree"):
        solve(problem, Liar(inside="a tree"))
    with pytest.raises(SolverError, match="Liar said OPTIMAL; OPTIMAL needs a bound"):
        solve(problem, Liar(end=Termination.OPTIMAL))
    with pytest.raises(SolverError, match=r"Liar.steps must yield bounds that are numbers; got nan"):
        solve(problem, Liar(bound=np.nan))
    with pytest.raises(SolverError, match=r"Liar.steps must return a Termination, a Verdict or None; got 'done'"):
        solve(problem, Liar(end="done"))
    assert solve(problem, Liar(bound=0.0, end=Termination.OPTIMAL)).message.endswith("Relative gap: 1.")
    with pytest.raises(AssertionError, match="OPTIMAL needs a relative gap of at most"):
        check_solver(Liar(bound=0.0, end=Termination.OPTIMAL), {"small": problem})
    assert solve(problem, Liar(bound=1e6)).bound is None
    assert solve(problem, Interrupted()).termination.name == "INTERRUPTED"
    assert solve(problem, Liar()).objective == problem.objective(Tree.constant([0.0], 4))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: solve(p, TAO(), time_limit="5"), "time_limit must be > 0 seconds or None; got '5'"),
        (lambda p: solve(p, TAO(), callback=3), "callback must be a function of a Step and a Trace, or None; got 3"),
        (lambda p: p.restated(penalties=L1), "penalties must be a sequence of L1, .* got <class"),
        (lambda p: solve(p, LocalSearch), r"got the class LocalSearch: write LocalSearch\(\)"),
        (lambda p: solve(p, "tao"), "solver must be an instance of a solver, such as TAO\\(\\); got 'tao'"),
        (lambda p: solve("p", TAO()), "problem must be a TreeProblem; got 'p'"),
        (lambda p: solve(p, Lists()), "Lists.steps must be a generator, .* it returned a list"),
        (lambda p: p.restated(penalties=3.0), "penalties must be a sequence of L1, L2, SplitPrice .* got 3.0"),
        (lambda p: plotting.plot_trace([3]), "results must hold what solve returns, Result; got 3"),
        (lambda p: solve(p, TAO(), start="oak"), "start must be a Tree, .* got str"),
        (lambda p: solve(p, TAO(), start=TAORegressor), "start must be a tree, .* got the class TAORegressor"),
        (lambda p: p.objective(TAORegressor()), "model must be a Tree, .* got TAORegressor"),
        (lambda p: MIPTreeProblem(p.restated(splits="axis"), objective="x"), "objective must be one of"),
        (lambda p: TAOForest(levels=0), "levels must be an integer >= 1 or None; got 0"),
        (lambda p: TAORegressor(on_interrupt="stop").fit(p.X, p.y), r"on_interrupt must be one of \['raise', 'keep'\]"),
        (lambda p: MIP(init="cart"), "init must be a Solver, 'auto' or None; got 'cart'"),
    ],
)
def test_unhelpful_errors_have_become_sentences(call, message):
    with pytest.raises(ValueError, match=message):
        call(regression_problem(60))


def test_an_estimator_of_transformed_features_is_no_tree_of_a_problem():
    X, y = make_friedman1(80, random_state=0)
    model = SDTRRegressor(2, max_batches=20, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="model must hold a tree of raw features; got one of their quantiles"):
        TreeProblem(X, y, depth=2).objective(model)


def test_a_single_penalty_is_a_sequence_of_one():
    several = regression_problem(penalties=(L1(splits=s) for s in (1e-3, 1e-2))).penalties
    assert several == (L1(splits=1e-3), L1(splits=1e-2))
    assert regression_problem(penalties=L1(splits=1e-3)).penalties == (L1(splits=1e-3),)


def test_results_estimators_and_scikit_trees_are_taken_for_trees(tmp_path):
    problem = regression_problem(80, splits="axis", penalties=())
    result = solve(problem, CartInit(), random_state=0)
    theirs = DecisionTreeRegressor(max_depth=2, random_state=0).fit(problem.X, problem.y)
    ours = ORTRegressor(2, random_state=0).fit(problem.X, problem.y)
    for model in (result, theirs, ours, io.Model(result.tree, tuple("abcd"))):
        objective = problem.objective(model)
        assert np.isfinite(objective)
        assert solve(problem, LocalSearch(n_starts=1), start=model, random_state=0).objective <= objective + 1e-12
        assert certify(problem, model, n_thresholds=3).objective == objective
        io.save(model, tmp_path / "model.json")
    assert problem.objective(result) == result.objective
    assert plotting.plot_trace([result, result]).get_legend_handles_labels()[1] == ["CartInit 1", "CartInit 2"]


def test_the_callback_sees_the_step_of_the_last_call():
    class Late(Solver):
        def steps(self, problem, start, rng):
            yield Step(problem.best_constant(), phase="first")
            try:
                while True:
                    yield None
            except LastCall:
                yield Step(problem.best_constant(), phase="last")

    seen = []
    solve(regression_problem(50), Late(), time_limit=0.05, callback=lambda step, _trace: seen.append(step.phase))
    assert seen == ["first", "last"]


@pytest.mark.parametrize("level", ["1", "1.0", "1.5"])
def test_levels_that_look_like_numbers_are_known_where_others_are_missing(tmp_path, level):
    code = np.array([level, "2", "a"] * 20)
    y = np.where(code == level, 3.0, 0.0)
    pd.DataFrame({"code": code, "y": y}).to_csv(tmp_path / "all.csv", index=False)
    saved, out = str(tmp_path / "tree.json"), str(tmp_path / "out")
    main(["solve", str(tmp_path / "all.csv"), "--target", "y", "--depth", "1", "--save", saved, "--out", out])
    (tmp_path / "some.csv").write_text(f'code\n{level}\n2\n""\n{level}\n')  # pandas reads floats
    answers = io.load(saved).predict(datasets.read_csv(tmp_path / "some.csv"))
    np.testing.assert_allclose(answers, [3.0, 0.0, 0.0, 3.0], atol=1e-9)
    frame = pd.DataFrame({"a": ["b_c", "x"], "a_b": ["c", "y"]})
    with pytest.raises(ValueError, match=r"columns must have different names .* got 'a_b_c' twice"):
        datasets.Dataset(frame, pd.Series([1.0, 2.0]), "regression", "twice", "").encoded()


def test_importances_of_soft_trees_are_in_units_of_the_features(auto_mpg):
    X, y = auto_mpg
    model = SDTRRegressor(2, max_batches=200, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.feature_importances_, interpret.feature_importance(model.tree_))


def test_chunks_are_there_without_an_import_of_their_own():
    code = "import opttree; print(opttree.chunks.Chunks.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Chunks\n"


# ---- models ---------------------------------------------------------------------------------------------------------


def test_weights_are_compared_in_units_of_their_features(auto_mpg, tmp_path):
    frame = datasets.load("auto_mpg")
    X, y = frame.encoded().fillna(0.0), frame.y
    model = TAORegressor(2, random_state=0).fit(X, y)
    names = list(X.columns)
    shares = interpret.feature_importance(model.tree_)
    assert shares[names.index("weight")] > 0.15
    np.testing.assert_allclose(model.tree_.spread, X.std(ddof=0))
    for name in ("model.json", "model.npz"):
        io.save(model, tmp_path / name)
        np.testing.assert_array_equal(io.load(tmp_path / name).tree.spread, model.tree_.spread)
    scaled = model.result_.tree  # standardised features have one scale
    order = np.argsort(-np.abs(scaled.A[0]))[:3]
    drawn = [text.get_text() for text in plotting.plot_tree(model).texts]
    root = next(text for text in drawn if "100 % of samples" in text)
    assert all(names[j] in root for j in order)


@pytest.mark.parametrize(
    "model",
    [
        TAORegressor(2),
        GETRegressor(2),
        SRTRegressor(2),
        ORRTRegressor(2, max_iter=20),
        ORTRegressor(2),
        GradTreeRegressor(2, epochs=20),
        SDTRRegressor(2, max_batches=60),
        TAOForestRegressor(3, max_iter=2),
        BoostedTreesRegressor("oblique", n_estimators=3),
        AutoTreeRegressor(2.0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_no_public_accessor_changes_a_fitted_model(model):
    X, y = make_friedman1(200, random_state=0)
    model.set_params(random_state=0).fit(X, y)
    answers, before = model.predict(X), pickle.dumps(model)
    model.state(X[:50] * 3.0 + 1.0, y[:50])
    for name in dir(type(model)):
        if not name.startswith("_"):
            try:
                value = getattr(model, name)
                if name in ("get_depth", "get_n_leaves", "get_params", "to_text"):
                    value()
                if name in ("apply", "flops", "decision_path", "predict_soft", "leaf_proba", "predict_interval"):
                    value(X)
            except (AttributeError, ValueError):  # not for this model
                continue
    np.testing.assert_array_equal(model.predict(X), answers)
    assert pickle.dumps(model) == before


def test_the_papers_preset_of_get_has_no_extras():
    X, y = make_friedman1(60, n_features=12, noise=0.1, random_state=0)
    model = GETRegressor(2, preset="paper", leaves="linear", n_starts=1, polish=False, random_state=0)
    problem, _scaling = model.state(X, y)
    assert problem.penalties == ()
    assert problem.X.min() == 0.0
    assert problem.X.max() == pytest.approx(1.0)
    tree = model.fit(X, y).tree_
    assert tree.lower is None
    small = np.bincount(tree.apply(X), minlength=tree.n_nodes)[tree.n_branches :] < 2 * 13
    assert small.any()
    assert all(tree.leaf_arrays[1][small].any(axis=(1, 2)))
    assert GETRegressor(2).state(X, y)[0].strength(L1, "leaves") > 0.0
    assert GETClassifier(2, preset="paper", n_starts=1).state(X, y > 10.0)[0].penalties == ()


def test_names_travel_from_the_command_line_to_a_prediction(tmp_path, capsys):
    rng = np.random.default_rng(0)
    colour, size = rng.choice(["red", "blue green", ""], 80), rng.normal(size=80).round(2)
    y = np.where(colour == "red", 2.0, 0.0) + size
    frame = pd.DataFrame({"colour": colour, "size": np.where(rng.random(80) < 0.1, np.nan, size), "price": y})
    frame.to_csv(tmp_path / "raw.csv", index=False)
    raw, saved, out = (str(tmp_path / name) for name in ("raw.csv", "tree.json", "out"))
    assert main(["solve", raw, "--target", "price", "--save", saved, "--out", out]) == 0
    assert "colour in {" in capsys.readouterr().out
    names = json.loads(Path(saved).read_text())["feature_names"]
    assert names == ["mean(colour)", "size", "size"]  # missing sizes below and above all others
    assert main(["predict", saved, raw, "--out", str(tmp_path / "answers.csv")]) == 0
    answers = pd.read_csv(tmp_path / "answers.csv")
    assert list(answers.columns) == ["price"]
    model = io.load(saved)
    np.testing.assert_allclose(answers["price"], model.tree.predict(model.encoding.transform(frame)))
    for column in ("size", "colour"):
        with pytest.raises(ValueError, match=f"got none called '{column}'"):
            io.load(saved).predict(frame.drop(columns=column))
    with pytest.raises(ValueError, match="got none called 'size_max'"):
        io.Model(model.tree.with_names(None), ("size_max", "a", "b")).predict(frame)
