"""Exact trees by programs: against an independent dynamic program, proofs, limits."""

import time
from importlib.metadata import version
from itertools import combinations

import numpy as np
import pyomo.environ as pyo
import pytest
from packaging.version import parse

from opttree import L1, L2, MIPTreeProblem, ORTRegressor, SplitPrice, TreeProblem, datasets
from opttree.problems.mip.candidates import dichotomies
from opttree.statement.constraints import FeatureCost, ForbidSplit, MaxDifference, MaxShare, PathCost, RequireSplit
from solvers import (
    MIP,
    TAO,
    BranchAndBound,
    CartInit,
    Chain,
    ColumnGeneration,
    Lagrangian,
    LocalSearch,
    MonotoneDP,
    Termination,
    certify,
    solve,
)
from solvers.mip import highs
from tests.conftest import regression_problem, thinned
from tests.exact import instances, leaf_loss, optimum

pytestmark = pytest.mark.usefixtures("needs_data")


def small(n=18, p=3, seed=0, loss="squared", **options):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)).round(1)
    y = np.where(X[:, 0] > 0, X[:, 1], 1.0) + 0.3 * rng.normal(size=n)
    if loss in ("zero_one", "log"):
        y = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    return TreeProblem(X, y, **({"depth": 2, "splits": "axis", "loss": loss} | options))


@pytest.mark.parametrize("part", thinned(range(2), 2))
def test_hyperflow_is_optimal_on_real_data(part):
    assert len(instances()) >= 150
    for name, problem, value in instances()[part::2]:
        result = solve(problem, MIP(), random_state=0)
        assert result.termination is Termination.OPTIMAL, name
        assert result.objective == pytest.approx(value, rel=1e-6, abs=1e-9), name
        assert result.bound == pytest.approx(value, rel=1e-6, abs=1e-9), name


@pytest.mark.parametrize("loss", ["squared", "absolute", "zero_one"])
@pytest.mark.parametrize("formulation", ["flow", "big-m"])
@pytest.mark.parametrize("options", [{}, {"min_leaf": 4}, {"penalties": [SplitPrice(0.05)], "depth": 1}], ids=str)
def test_flow_and_big_m_agree_with_hyperflow(formulation, loss, options):
    problem = small(11, 2, loss=loss, **options)
    exact = solve(problem, MIP(n_thresholds=2))
    result = solve(problem, MIP(formulation=formulation, n_thresholds=2), time_limit=60)
    assert result.bound <= exact.objective * (1 + 1e-6)
    assert result.objective >= exact.objective * (1 - 1e-9)
    if result.termination is Termination.OPTIMAL:
        assert result.objective == pytest.approx(exact.objective, rel=2e-4 if loss == "squared" else 1e-6)
    assert result.gap < 0.01


@pytest.mark.parametrize("formulation", ["hyperflow", "flow", "big-m"])
@pytest.mark.parametrize("loss", ["squared", "absolute", "zero_one"])
def test_the_number_of_splits_is_limited(formulation, loss):
    problem = small(8, 2, loss=loss)
    for most in (0, 1, 2):
        value = optimum(problem.X, problem.Y, depth=2, loss=loss, max_splits=most)
        result = solve(problem, MIP(formulation=formulation, max_splits=most, gap=1e-5), time_limit=30)
        assert result.tree.n_branches <= most
        if formulation == "hyperflow" or most < 2:
            assert result.objective == pytest.approx(value, rel=1e-5, abs=1e-9)
        assert result.bound <= value * (1 + 1e-6)


def test_the_number_of_features_is_limited():
    problem = small(40, 4)
    for most in (1, 2):
        values = [
            optimum(problem.X[:, list(js)], problem.Y, depth=2, loss="squared") for js in combinations(range(4), most)
        ]
        result = solve(problem, MIP(max_features=most))
        assert result.objective == pytest.approx(min(values), rel=1e-6)
        assert np.unique(result.tree.feature).size <= most
    both = solve(problem, MIP(max_features=1, max_splits=2))
    assert both.termination is Termination.OPTIMAL
    assert both.objective >= solve(problem, MIP(max_features=1)).objective


def test_all_columns_give_the_optimum_of_the_reduced_ones():
    problem = small(20, 3, depth=3)
    for limits in ({}, {"max_splits": 3}, {"max_features": 2}):
        values, columns = [], []
        for reduce, complete in ((True, False), (False, False), (True, True)):
            model = MIPTreeProblem(problem, reduce=reduce, n_thresholds=3, **limits).build(complete=complete)
            pyo.SolverFactory("appsi_highs").solve(model)
            values.append(pyo.value(model.cost))
            columns.append(len(list(model.component_data_objects(pyo.Var))))
        assert values == pytest.approx(values[:1] * 3, rel=1e-6)
        assert columns[0] < columns[1] < columns[2]


def test_weights_and_several_outputs():
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(24, 3)), rng.uniform(0.5, 2.0, 24)
    Y = np.stack([X[:, 0] > 0, X[:, 1]], axis=1) + 0.1 * rng.normal(size=(24, 2))
    for loss in ("squared", "absolute"):
        problem = TreeProblem(X, Y, depth=2, splits="axis", loss=loss, sample_weight=w)
        value = optimum(X, Y, depth=2, loss=loss, w=w)
        assert solve(problem, MIP()).objective == pytest.approx(value, rel=1e-9)


def test_linear_leaves():
    problem = small(24, 2, leaves="linear", penalties=[L2(leaves=0.01)], depth=1)

    def ridge(rows):
        Z = np.column_stack([problem.X[rows], np.ones(len(rows))])
        normal = Z.T @ Z / 24 + 0.01 * np.diag([1.0, 1.0, 0.0])
        v = np.linalg.solve(normal, Z.T @ problem.y[rows] / 24)
        return float(np.sum((problem.y[rows] - Z @ v) ** 2) / 24 + 0.01 * np.sum(v[:2] ** 2))

    ridge.rows = True
    value = optimum(problem.X, problem.y, depth=1, loss="squared", leaf=ridge)
    result = solve(problem, MIP())
    assert result.objective == pytest.approx(value, rel=1e-6)
    assert "linear leaves without bounds" in result.message


def test_linear_leaves_of_least_absolute_error_agree():
    problem = small(16, 2, loss="absolute", leaves="linear", penalties=[L1(leaves=0.02)], depth=1)
    values = [solve(problem, MIP(formulation=f, n_thresholds=2)).objective for f in ("hyperflow", "flow", "big-m")]
    np.testing.assert_allclose(values, values[0], rtol=1e-6)


def test_oblique_trees_of_two_features():
    problem = small(16, 2, splits="oblique", depth=1)
    result = solve(problem, MIP())
    value = min(
        leaf_loss(problem.Y[left], problem.w[left], "squared")
        + leaf_loss(problem.Y[~left], problem.w[~left], "squared")
        for left in dichotomies(problem.X).left
    )
    assert result.objective == pytest.approx(value, rel=1e-9)
    assert "linear dichotomies" in result.message
    textbook = solve(problem, MIP(formulation="big-m", margin=1e-3), time_limit=60)
    assert textbook.bound <= textbook.objective
    assert textbook.objective >= result.objective * (1 - 1e-9)
    if textbook.termination is Termination.OPTIMAL:
        assert textbook.objective == pytest.approx(result.objective, rel=1e-3)


def test_streed_finds_the_same_optima():
    pystreed = pytest.importorskip("pystreed")
    for name in ("auto_mpg", "yacht"):
        X, y = datasets.load(name, as_arrays=True)
        X, y = X[:120], (y[:120] - y[:120].mean()) / y[:120].std()
        for price in (0.01, 0.05):  # theirs is per unit of the variance, which is 1
            problem = TreeProblem(X, y, depth=3, splits="axis", penalties=[SplitPrice(price)])
            left = MIPTreeProblem(problem, n_thresholds=3).candidates.left.T.astype(int)
            theirs = pystreed.STreeDRegressor(max_depth=3, use_task_lower_bound=False, cost_complexity=price)
            theirs.fit(left, y)
            objective = np.mean((y - theirs.predict(left)) ** 2) + price * (theirs.get_n_leaves() - 1)
            assert solve(problem, MIP(n_thresholds=3)).objective == pytest.approx(objective, rel=1e-6)


def test_refusals_name_the_reason():
    problem = small(12, 3)
    cases = [
        (problem, {"formulation": "x"}, "formulation must be one of"),
        (problem, {"n_thresholds": 0}, "n_thresholds must be an integer >= 1 or 'all'; got 0"),
        (problem, {"margin": 1e-7}, "margin must be a finite number >= 1e-05; got 1e-07"),
        (problem, {"max_splits": -1}, "max_splits must be an integer >= 0 or None; got -1"),
        (
            small(12, 3, splits="oblique"),
            {"formulation": "hyperflow"},
            "oblique splits of 3 features have too many sides",
        ),
        (small(12, 3, splits="oblique"), {"formulation": "flow"}, "oblique splits have no thresholds"),
        (small(12, 3, loss="log"), {"formulation": "big-m"}, "the log loss of more than two classes is not linear"),
        (small(12, 3, splits="oblique", penalties=[L1(splits=1.0)]), {}, "hyperplanes of unit length is not linear"),
        (
            small(12, 3, leaves="linear", penalties=[L2(leaves=1.0)]),
            {"formulation": "flow"},
            "HiGHS takes no quadratic objectives",
        ),
    ]
    for stated, options, message in cases:
        with pytest.raises(ValueError, match=message):
            MIPTreeProblem(stated, **options)
        if "must be" not in message:
            with pytest.raises(ValueError, match=message):
                solve(stated, MIP(**options))


@pytest.mark.parametrize("noise", [0.0, 1e-6, 1e-4])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_perfect_fits_and_other_units_are_proved_too(noise, scale):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(14, 2)).round(1)
        y = scale * (np.where(X[:, 0] > 0.5, 1.1, np.where(X[:, 1] > 0, -2.3, 0.3)) + noise * rng.normal(size=14))
        for loss in ("squared", "absolute"):
            problem = TreeProblem(X, y, depth=2, splits="axis", loss=loss)
            constant = optimum(X, y, depth=0, loss=loss)
            for most in (1, 2, None):
                result = solve(problem, MIP(max_splits=most))
                value = optimum(X, y, depth=2, loss=loss, max_splits=most)
                assert result.termination is Termination.OPTIMAL
                assert result.objective == pytest.approx(value, rel=1e-6, abs=1e-9 * constant)
                assert result.bound <= result.objective
            one_leaf = solve(problem, LocalSearch(max_splits=0), random_state=0).tree
            assert certify(problem, one_leaf).termination is not Termination.OPTIMAL


@pytest.mark.parametrize("formulation", ["hyperflow", "flow", "big-m"])
def test_where_there_is_nothing_to_split_one_leaf_is_optimal(formulation):
    solver = MIP(formulation, max_splits=1, gap=1e-3)
    for X, depth in ((np.ones((5, 2)), 1), (np.random.default_rng(0).normal(size=(5, 2)), 0), (np.ones((1, 2)), 2)):
        result = solve(TreeProblem(X, np.arange(len(X)), depth=depth, splits="axis"), solver)
        assert result.termination is Termination.OPTIMAL
        assert result.tree.n_leaves == 1


def test_features_far_from_zero_and_outliers_change_no_optimum():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 1))
    y = X[:, 0] + 0.01 * rng.normal(size=30)
    objectives = [
        solve(TreeProblem(X + far, y, depth=1, splits="axis", leaves="linear"), MIP()).objective
        for far in (0.0, 1e2, 1e4, 1e6)
    ]
    np.testing.assert_allclose(objectives, objectives[0], rtol=1e-4)
    X = rng.normal(size=(20, 2))
    y = (X[:, 0] > 0).astype(float)
    X[0, 0] = 1e9 * (2.0 * y[0] - 1.0)
    assert solve(TreeProblem(X, y, depth=1), MIP()).objective == 0.0


@pytest.mark.parametrize("formulation", ["flow", "big-m"])
def test_linear_leaves_keep_their_bound(formulation):
    X = np.random.default_rng(0).normal(size=(16, 1))
    y = np.where(X[:, 0] > 0, 3.0 * X[:, 0], -X[:, 0])
    problem = TreeProblem(X, y, depth=1, splits="axis", leaves="linear", loss="absolute")
    solver = MIP(formulation, coef_bound=0.5, n_thresholds=3)
    result = solve(problem, solver, time_limit=30)
    assert result.bound is not None
    assert solver.stated(problem).within_bound(result.tree)
    assert result.objective > solve(problem, MIP(n_thresholds=3)).objective


def test_a_limit_that_meets_the_solvers_own_in_a_chain_loses_nothing():
    problem = small(60, 3, loss="absolute")
    for late in (0.005, 0.02, 0.1):
        chain = Chain(CartInit(), MIP("flow", time_limit=0.5))
        assert solve(problem, chain, time_limit=0.5 + late, random_state=0).bound is not None


def test_no_solver_beats_a_proved_optimum():
    for _name, problem, value in instances()[::11]:
        for solver in (
            TAO(max_iter=10, init=CartInit()),
            CartInit(),
            LocalSearch(n_starts=3),
            Chain(CartInit(), MIP()),
        ):
            if solver.refusal(problem) is None:
                assert solve(problem, solver, random_state=0).objective >= value - 1e-9


def test_starts_help_and_bounds_rise():
    problem = small(60, 3, loss="absolute")
    start = solve(problem, CartInit(), random_state=0).tree
    result = solve(problem, MIP(formulation="flow"), start=start, time_limit=1.0)
    frame = result.trace.to_frame()
    assert frame["best"].iloc[1] <= problem.objective(start) + 1e-12
    assert (np.diff(frame["bound"]) >= 0).all()
    assert (frame["bound"] <= frame["best"] + 1e-9).all()
    assert "nodes" in frame
    assert result.bound is not None
    assert result.seconds < 4.0


@pytest.mark.parametrize(("own", "of_solve"), [(None, 30.0), (30.0, None), (500.0, 30.0), (30.0, 500.0)])
def test_highs_knows_the_time_limit(monkeypatch, own, of_solve):
    """Its sub-problems hear no request to stop, but keep a limit: without it such runs ended 1.5 to 2.5 s late."""
    limits = []
    options = highs._options

    def noted(given):
        limits.append(given.seconds)
        return options(given) | {"time_limit": 0.1}  # long enough for what is to be seen

    monkeypatch.setattr(highs, "_options", noted)
    solver = MIP(formulation="flow", init=None, time_limit=own)
    result = solve(small(60, 3, loss="absolute"), solver, time_limit=of_solve)
    assert len(limits) == 1
    assert 0.0 < limits[0] <= 30.0
    assert result.termination is Termination.TIME_LIMIT


def test_one_seed_and_node_limit_give_one_tree():
    problem = small(40, 3, loss="absolute")
    results = [solve(problem, MIP(formulation="flow", node_limit=5, seed=3)) for _ in range(2)]
    assert results[0].tree == results[1].tree
    assert results[0].bound == results[1].bound
    assert results[0].termination in (Termination.ITERATION_LIMIT, Termination.OPTIMAL)


def test_the_start_does_not_depend_on_the_speed_of_the_machine(monkeypatch):
    problem = regression_problem(200, splits="axis", penalties=())
    steps = LocalSearch.steps

    def slowly(self, *arguments):
        for step in steps(self, *arguments):
            time.sleep(0.005)
            yield step

    def starts():
        """Objectives of the starts; the run ends with the step after them."""
        found = []

        def watch(step, _trace):
            found.append(step.objective)
            return step.phase not in ("constant", "CART", "start")

        solve(problem, MIP("flow", n_thresholds=6, node_limit=1), random_state=0, callback=watch)
        return found[:-1]

    fast = starts()
    assert len(fast) > 2
    monkeypatch.setattr(LocalSearch, "steps", slowly)
    assert starts() == fast


def test_constant_outputs_need_no_splits_under_any_loss():
    X = np.random.default_rng(0).normal(size=(40, 3))
    for loss in ("squared", "absolute"):
        model = ORTRegressor(2, leaves="linear", loss=loss, random_state=0).fit(X, np.full(40, 2.5))
        assert model.predict(X) == pytest.approx(2.5)


@pytest.mark.skipif(parse(version("highspy")) < parse("1.14"), reason="HiGHS gives no log to callbacks")
def test_the_log_of_highs_is_shown(capfd):
    solve(regression_problem(n=10, splits="axis", depth=1), MIP("flow", verbose=True), time_limit=20)
    shown = capfd.readouterr().out
    assert "HiGHS" in shown or "Solving report" in shown


def test_mip_starts_from_less_depth_where_a_limit_rules_cart_out(auto_mpg):
    X, y = auto_mpg
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    problem = TreeProblem(X, y, depth=2, splits="axis", leaves="linear", loss="absolute", min_leaf=10)
    for most, reached in ((2, 1), (0, 0)):
        cart = solve(problem.restated(depth=reached), CartInit(), random_state=0).tree
        result = solve(problem, MIP(max_splits=most), time_limit=0.5, random_state=0)
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


def test_seeds_reach_the_optimizer():
    from solvers.mip.mip import _Search

    seen = []
    take = _Search.__init__

    def noted(self, options, stated, began):
        seen.append(options.seed)
        take(self, options, stated, began)

    stated = TreeProblem(np.arange(8.0)[:, None], np.arange(8.0) % 3, depth=1, splits="axis")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Search, "__init__", noted)
        for seed in (0, 0, 1):
            solve(stated, MIP(), random_state=seed)
        solve(stated, MIP(seed=7), random_state=1)
    assert seen[0] == seen[1] != seen[2]
    assert seen[3] == 7


def test_requirements_that_no_tree_meets_are_infeasible_for_regressors_too():
    stated = TreeProblem(np.ones((4, 1)), np.arange(4.0), depth=1, splits="axis", constraints=[RequireSplit(0)])
    result = solve(stated, MIP(), random_state=0)
    assert result.termination.name == "INFEASIBLE"
    assert ORTRegressor(1, random_state=0).fit(np.ones((4, 1)), np.arange(4.0)).tree_.n_branches == 0


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    return X, X[:, 0] + 0.1 * rng.normal(size=40)


def test_a_start_outside_the_program_is_said(table):
    problem = TreeProblem(*table, depth=2, splits="axis")
    start = solve(problem, CartInit()).tree
    result = solve(problem, MIP(max_splits=1), start=start)
    assert "the start was not used: the tree has 3 splits; MaxSplits(k=1) allows 1" in result.message
    assert result.tree.n_branches == 1
    result = solve(problem, MIP(max_features=1, max_splits=3), start=start)
    assert ("the start was not used: it splits on" in result.message) == (np.unique(start.feature).size > 1)
    assert "not used" not in solve(problem, MIP(), start=start).message


def test_highs_prints_nothing(table, capfd):
    solve(TreeProblem(*table, depth=2, splits="axis"), MIP(formulation="flow"), time_limit=0.5)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("form", ["flow", "big-m"])
def test_rows_of_subtrees_make_the_free_optimum_the_bound_of_the_root(form):
    """Under parity and under an order, of which the dynamic program knows nothing: bounds stay below the optimum."""
    rng = np.random.default_rng(3)
    X = rng.integers(0, 3, size=(30, 3)).astype(float)
    y = rng.integers(0, 2, 30)
    group = rng.integers(0, 2, 30)
    problem = TreeProblem(X, y, 2, "axis", loss="zero_one", constraints=[MaxDifference(group, 0.1)])
    free = solve(problem.restated(constraints=()), BranchAndBound()).objective
    with_rows = solve(problem, MIP(form, node_limit=1), random_state=0)
    assert with_rows.bound >= free - 1.0 / 30 * 1e-3
    truth = solve(problem, Lagrangian(), random_state=0)
    assert with_rows.bound <= truth.objective + 1e-9
    whole = solve(problem, MIP(form), time_limit=100, random_state=0)
    assert whole.objective == pytest.approx(truth.objective)
    plain = MIPTreeProblem(problem, form, subtree_rows=False).build()
    assert not hasattr(plain, "subtrees")


def test_sets_of_rows_that_do_not_fit_are_refused_and_few_values_are_not():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200_000, 2)), rng.integers(0, 2, 200_000)
    assert "take 10 GB on 200,000 rows" in str(MIP().refusal(TreeProblem(X, y, 2, "axis", loss="zero_one")))
    assert MIP().refusal(TreeProblem(X.round(1), y, 2, "axis", loss="zero_one")) is None
    assert MIP(n_thresholds=10).refusal(TreeProblem(X, y, 2, "axis", loss="zero_one")) is None


@pytest.mark.parametrize(
    "constraint", [ForbidSplit(0), RequireSplit(3), FeatureCost([5, 5, 1, 1], 4), PathCost([5, 5, 1, 1], 4)]
)
def test_a_start_keeps_its_features(constraint):
    """Another feature that parts the rows alike was taken for its own, and was forbidden."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(60, 2))
    y = np.sign(a[:, 0]) * a[:, 1] + 0.3 * rng.normal(size=60)
    X = np.column_stack([a, np.exp(a)])
    cart = solve(TreeProblem(X, y, 3, "axis", constraints=[ForbidSplit(0), ForbidSplit(1)]), MIP(node_limit=1)).tree
    stated = TreeProblem(X, y, 3, "axis", constraints=constraint)
    assert stated.violation(cart) is None
    solvers = (MIP(threads=1, init=None), ColumnGeneration(), MonotoneDP())
    for solver in (one for one in solvers if one.refusal(stated) is None):
        result = solve(stated, solver, start=cart, time_limit=0.5)
        assert result.objective <= stated.objective(cart)


def test_another_solver_may_give_trees_that_break_the_constraints():
    X = [[1, 1], [2, 2], [0, 0], [2, 2], [0, 0], [2, 1], [0, 2], [0, 1]]
    y = [1, 1, 0, 0, 1, 1, 1, 1]
    stated = TreeProblem(X, y, 1, "axis", loss="zero_one", constraints=[MaxShare(0, 0.6), MaxShare(1, 0.6)])
    for init in (CartInit(), LocalSearch()):
        result = solve(stated, MIP("flow", threads=1, init=init))
        assert result.termination is Termination.OPTIMAL
        assert stated.violation(result.tree) is None
