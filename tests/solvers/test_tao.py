"""TAO and its initial trees: against a straightforward reference, monotone where promised, optimal per node."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.linear_model import Lasso

import solvers
from experiments.benchmarks import reference_tao
from opttree import L1, L2, SplitPrice, TAORegressor, Tree, TreeProblem, datasets
from opttree.runtime.clock import now
from solvers import (
    GET,
    NODEC,
    ORRT,
    TAO,
    AxisNode,
    CartInit,
    Chain,
    ClusterInit,
    HingeInit,
    MultiStart,
    NewtonNode,
    RandomInit,
    SklearnNode,
    Termination,
    solve,
)
from solvers.tao.state import State
from tests.conftest import classification_problem, regression_problem
from tests.statements import RIDGE, regression


def test_one_pass_equals_the_reference_implementation(rng):
    problem = regression_problem(500, penalties=(L1(splits=1e-3),))
    start = RandomInit().build(problem, rng)
    expected = reference_tao.one_pass(problem, start, 1e-8).prune_dead(problem.X)
    ours = solve(problem, TAO(max_iter=1, node_solver=SklearnNode(tol=1e-8, intercept_scaling=1.0)), start=start)
    passes = [row for row in ours.trace if row.phase == "pass"]
    assert passes[0].objective == pytest.approx(problem.objective(expected), rel=1e-5)


def test_pseudolabels_are_the_losses_of_both_sides(rng):
    problem = classification_problem(loss="log")
    tree = problem.fit_leaves(RandomInit().build(problem, rng))
    state = State(problem, tree, None, improve=False)
    nodes = next(iter(state.levels()))
    level, cost = state.reduced_problems(nodes)
    sides = []
    for child in tree.children[0]:  # every row forced to one side of the root
        forced = Tree(
            np.vstack([tree.children[:1], tree.children[1:]]),
            np.vstack([np.zeros_like(tree.A[:1]), tree.A[1:]]),
            np.append(1.0 if child == tree.children[0, 0] else -1.0, tree.b[1:]),
            tree.values,
            classes=tree.classes,
        )
        p = forced.predict_proba(problem.X)[np.arange(200), problem.Y[:, 0].astype(int)]
        sides.append(-np.log(np.maximum(p, 1e-6)))
    u = np.zeros(200)
    u[level.order] = level.u
    np.testing.assert_allclose(u, problem.w * (sides[0] - sides[1]), atol=1e-12)
    wrong = (problem.X @ tree.A[0] > tree.b[0]) != (u > 0)
    assert cost[0] == pytest.approx(np.abs(u)[wrong].sum())


@pytest.mark.parametrize("leaves", ["constant", "linear"])
@pytest.mark.parametrize("splits", ["oblique", "axis"])
def test_improve_never_raises_the_objective(leaves, splits):
    for seed in range(3):
        for problem in (
            regression_problem(300, seed=seed, leaves=leaves, splits=splits, depth=4),
            regression_problem(300, seed=seed, leaves=leaves, splits=splits, depth=4, min_leaf=10),
            classification_problem(300, seed=seed, leaves=leaves, splits=splits, loss="log"),
        ):
            result = solve(problem, TAO(accept="improve", constant_iterations=0), random_state=seed)
            objective = np.array([row.objective for row in result.trace])
            assert np.all(np.diff(objective) <= 1e-12 * objective[:-1])


DATA = ["abalone", "airfoil", "auto_mpg", "ccpp", "housing", "kin8nm", "space_ga", "wine_red", "yacht", "banknote"]


@pytest.mark.slow
@pytest.mark.usefixtures("needs_data")
@pytest.mark.parametrize("name", DATA)
def test_improve_never_raises_the_objective_on_real_data(name):
    data = datasets.load(name)
    X, y = data.as_arrays()
    X, y = X[:4000], y[:4000]
    X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    loss = "squared" if data.task == "regression" else "zero_one"
    for seed in range(3):
        for leaves in ("constant", "linear"):
            problem = TreeProblem(X, y, depth=4, leaves=leaves, loss=loss, penalties=(L1(1e-4 * y.var(), 1e-4),))
            for init in (RandomInit(), CartInit()):
                result = solve(problem, TAO(accept="improve", init=init, max_iter=12), random_state=seed)
                objective = np.array([row.objective for row in result.trace if row.phase != "start"])
                linear = objective[2:] if leaves == "linear" else objective  # after the constant-leaf passes
                assert np.all(np.diff(linear) <= 1e-12 * linear[:-1])


def test_at_the_end_no_single_node_refit_helps(rng):
    problem = regression_problem(150, splits="axis", depth=2, penalties=())
    result = solve(problem, TAO(max_iter=100, accept="improve", tol=0.0, patience=100), random_state=0)
    state = State(problem, result.tree, None, improve=True)
    for nodes in state.levels():
        level, current = state.reduced_problems(nodes)
        _A, _b, cost = AxisNode().solve_level(level, state.A[nodes], state.b[nodes], rng)
        assert np.all(cost >= current - 1e-9)
        state.advance()
    refitted = problem.fit_leaves(result.tree)
    assert problem.objective(refitted) == pytest.approx(result.objective)


def test_depth_one_axis_trees_reach_the_best_split_from_some_start():
    problem = regression_problem(40, p=2, splits="axis", depth=1, penalties=())
    best = np.inf
    for j in range(2):
        values = np.unique(problem.X[:, j])
        for cut in 0.5 * (values[1:] + values[:-1]):
            tree = Tree([[1, 2]], [np.eye(2)[j]], [cut], np.zeros((2, 1)))
            best = min(best, problem.objective(problem.fit_leaves(tree)))
    found = [solve(problem, TAO(init=RandomInit()), random_state=seed).objective for seed in range(20)]
    assert min(found) == pytest.approx(best)
    assert min(found) >= best - 1e-12


def test_groups_of_nodes_between_looks_at_the_clock_change_nothing(monkeypatch):
    problem = regression_problem(300)
    whole = solve(problem, TAO(max_iter=4), random_state=0)
    monkeypatch.setattr("solvers.tao.state.GROUP_WORK", 1)
    pieces = []
    for step in TAO(max_iter=4).steps(problem, None, np.random.default_rng(0)):
        pieces.append(step)
    trees = [step for step in pieces if step is not None]
    assert len(pieces) - len(trees) > 4 * 3  # more looks at the clock than levels
    assert min(trees, key=lambda step: step.objective).tree == whole.tree
    assert [step.objective for step in trees] == [row.objective for row in whole.trace]


def test_min_leaf_is_kept_by_every_iterate():
    problem = regression_problem(300, depth=5, min_leaf=25)
    violations = []
    solve(
        problem,
        TAO(max_iter=10),
        random_state=0,
        callback=lambda step, trace: violations.append(problem.violation(step.tree)),
    )
    assert len(violations) > 2
    assert not any(violations)


def test_a_heavy_l1_penalty_prunes_the_tree_to_one_leaf():
    problem = regression_problem(penalties=(L1(splits=10.0),))
    assert solve(problem, TAO(max_iter=3), random_state=0).tree.n_leaves == 1


def test_a_price_per_split_gives_smaller_trees():
    for seed in (1, 2):
        free, dear = (
            regression_problem(300, seed=seed, depth=5, penalties=(SplitPrice(price),)) for price in (0.0, 0.1)
        )
        sizes = [solve(problem, TAO(init=RandomInit()), random_state=0).tree.n_branches for problem in (free, dear)]
        assert sizes[1] < sizes[0]


@pytest.mark.parametrize("start", [RandomInit(), CartInit(), ClusterInit(), HingeInit()], ids=repr)
@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_tao_improves_every_start(start, leaves):
    problem = regression_problem(400, leaves=leaves)
    before = solve(problem, start, random_state=0).objective
    after = solve(problem, TAO(init=start), random_state=0).objective
    assert after < before
    assert after < 0.2


def test_outliers_do_not_blow_the_hyperplanes_up(rng):
    X = rng.standard_t(1.2, size=(2000, 6))
    y = np.tanh(X[:, 0]) + 0.1 * rng.normal(size=2000)
    problem = TreeProblem(X / X.std(axis=0), y / y.std(), depth=5, penalties=(L1(splits=1e-5),))
    result = solve(problem, TAO(node_solver=NewtonNode()), random_state=0)
    assert np.isfinite(result.tree.A).all()
    assert np.abs(result.tree.A).max() < 1e6


def test_linear_leaves_with_few_rows_per_feature_stay_sane(rng):
    X = rng.normal(size=(90, 30))
    y = X[:, 0] + rng.normal(size=90)
    test = rng.normal(size=(500, 30))
    for depth in (2, 6):
        for init in ("hinge", "cart", "random"):
            model = TAORegressor(depth, leaves="linear", init=init, random_state=0).fit(X, y)
            predicted = model.predict(test)
            assert y.min() <= predicted.min()
            assert predicted.max() <= y.max()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accept": "maybe"}, "accept must be one of .*; got 'maybe'"),
        ({"max_iter": -1}, "max_iter must be an integer >= 0; got -1"),
        ({"patience": 0}, "patience must be an integer >= 1; got 0"),
        ({"tol": -1.0}, "tol must be a finite number >= 0"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        TAO(**options)
    with pytest.raises(ValueError, match="threshold must be one of"):
        RandomInit(threshold="x")


def passes(problem, solver, **options):
    """The steps of a run, and why it ended."""
    steps = []
    result = solve(problem, solver, callback=lambda step, trace: steps.append(step), random_state=0, **options)
    return steps, result.termination


def test_without_passes_the_start_comes_back_with_leaves_fitted_or_as_it_is(rng):
    problem = regression_problem(min_leaf=10)
    start = problem.trim(problem.fit_leaves(RandomInit().build(problem, rng)))
    poor = Tree(start.children, start.A, start.b, start.values + 1.0)
    (fitted,), ended = passes(problem, TAO(max_iter=0), start=poor)
    assert ended is Termination.ITERATION_LIMIT
    assert (fitted.phase, fitted.tree) == ("start", start)
    (kept,), _ = passes(problem, TAO(max_iter=0, accept="improve"), start=poor)
    assert kept.tree == poor
    assert kept.objective == pytest.approx(problem.objective(poor), rel=1e-12)


def test_a_run_ends_after_as_many_passes_without_progress_as_it_has_patience():
    problem = regression_problem(1000, penalties=())
    for patience in (1, 3):
        steps, ended = passes(problem, TAO(tol=1.0, patience=patience))  # nothing falls by all of itself
        assert [step.phase for step in steps] == ["start"] + ["pass"] * (1 + patience)
        assert ended is Termination.STALLED
    steps, ended = passes(problem, TAO(max_iter=3, tol=1.0))
    assert (len(steps), ended) == (4, Termination.ITERATION_LIMIT)


def test_progress_is_counted_from_the_best_pass():
    problem = regression_problem(1000, penalties=())
    steps, ended = passes(problem, TAO(tol=0.01, patience=3))
    objective = [step.objective for step in steps[1:]]
    best, stuck = np.inf, []
    for value in objective:
        stuck.append(value >= best * (1 - 0.01))
        best = min(best, value)
    assert ended is Termination.STALLED
    assert stuck[-3:] == [True] * 3
    assert [True] * 3 not in [stuck[i : i + 3] for i in range(len(stuck) - 3)]


@pytest.mark.parametrize("accept", ["always", "improve"])
def test_linear_leaves_wait_for_the_constant_passes(accept):
    problem = regression_problem(500, leaves="linear")
    start = problem.fit_leaves(RandomInit().build(problem, np.random.default_rng(0)), leaves="constant")
    for count in (0, 2):
        steps, _ = passes(problem, TAO(max_iter=5, accept=accept, constant_iterations=count), start=start)
        assert [step.tree.linear_leaves for step in steps] == ([False] * (1 + count) + [True] * 5)[: len(steps)]
        assert len(steps) > 2 + count
    linear = steps[-1].tree
    steps, _ = passes(problem, TAO(max_iter=2, accept=accept), start=linear)
    assert all(step.tree.linear_leaves for step in steps)
    assert not any(
        step.tree.linear_leaves for step in passes(regression_problem(500), TAO(max_iter=5, accept=accept))[0]
    )


def test_stalled_constant_passes_do_not_end_a_run_with_linear_leaves():
    problem = regression_problem(300, leaves="linear", splits="axis", depth=1)
    start = problem.fit_leaves(RandomInit().build(problem, np.random.default_rng(0)), leaves="constant")
    steps, ended = passes(problem, TAO(max_iter=20, constant_iterations=8, tol=1.0, patience=1), start=start)
    assert [step.tree.linear_leaves for step in steps] == [False] * 9 + [True] * (len(steps) - 9)
    assert 10 <= len(steps) <= 12
    assert ended in (Termination.STALLED, Termination.LOCALLY_OPTIMAL)


def test_a_fixed_point_is_seen_in_the_pass_that_changes_nothing():
    problem = regression_problem(300, splits="axis", depth=2, penalties=())
    result = solve(problem, TAO(tol=0.0, patience=100, max_iter=100), random_state=0)
    assert result.termination is Termination.LOCALLY_OPTIMAL
    objective = [row.objective for row in result.trace]
    assert objective[-1] == pytest.approx(objective[-2], rel=1e-12)
    assert len(set(np.round(objective, 12))) == len(objective) - 1
    again, ended = passes(problem, TAO(), start=result.tree)
    assert (len(again), ended) == (2, Termination.LOCALLY_OPTIMAL)
    assert again[-1].tree == result.tree


def test_small_leaves_stay_constant():
    problem = regression_problem(300, leaves="linear", depth=4)
    for fewest in (15, 30):
        tree = passes(problem, TAO(max_iter=6, min_linear_rows=fewest))[0][-1].tree
        rows = np.bincount(tree.apply(problem.X), minlength=tree.n_nodes)[tree.n_branches :]
        sloped = tree.coefs.any(axis=(1, 2))
        assert np.array_equal(sloped, rows >= fewest)
        assert sloped.any()


def test_the_node_solver_fits_the_splits():
    oblique, axis = regression_problem(), regression_problem(splits="axis")
    assert TAO().nodes(oblique) == NewtonNode(max_iter=2)
    assert TAO().nodes(axis) == AxisNode()
    own = NewtonNode(max_iter=7)
    assert TAO(node_solver=own).nodes(oblique) is own
    assert TAO().refusal(oblique) is TAO().refusal(axis) is None
    assert TAO(node_solver=AxisNode()).refusal(oblique) is None  # axis-aligned splits are oblique ones
    assert "makes oblique splits" in TAO(node_solver=own).refusal(axis)
    assert "not both; use NewtonNode" in TAO(node_solver=SklearnNode()).refusal(
        regression_problem(penalties=(L1(splits=0.1), L2(splits=0.1)))
    )
    assert TAO(init=ClusterInit()).refusal(axis) == ClusterInit().refusal(axis) is not None


def test_the_objective_of_a_state_is_the_problems(rng):
    penalties = (L1(splits=1e-3, leaves=1e-2), L2(splits=1e-3, leaves=1e-2))
    for problem in (
        regression_problem(leaves="linear", penalties=penalties, sample_weight=rng.uniform(size=200)),
        classification_problem(leaves="linear", loss="log", penalties=penalties),
    ):
        start = RandomInit().build(problem, rng)
        state = State(problem, problem.fit_leaves(start), None, improve=False)
        for nodes in state.levels():
            state.reduced_problems(nodes)
            state.advance()
        tree, objective = state.pruned()
        assert objective == pytest.approx(problem.objective(tree), rel=1e-12)
        assert tree == problem.fit_leaves(start).prune_dead(problem.X)
        assert np.bincount(tree.apply(problem.X), minlength=tree.n_nodes)[tree.n_branches :].all()


def one_pass(state, solver, rng):
    for nodes in state.levels():
        level, current = state.reduced_problems(nodes)
        proposed = solver.solve_level(level, state.A[nodes], state.b[nodes], rng)
        state.accept(nodes, level, proposed, current, solver.exact)
        state.advance()


def test_a_restored_state_is_the_one_of_the_snapshot(rng):
    problem = regression_problem(leaves="linear", penalties=())
    state = State(problem, problem.fit_leaves(RandomInit().build(problem, rng), leaves="constant"), None, False)
    before, saved = state.pruned(), state.snapshot()
    after = []
    for _ in range(2):
        one_pass(state, NewtonNode(), np.random.default_rng(1))
        state.fit_leaves(linear=True)
        after.append(state.pruned())
        state.restore(saved)
        assert state.pruned() == before
        saved = state.snapshot()
    assert after[0] == after[1]
    assert after[0][1] < before[1]


def test_under_improve_worse_leaves_keep_what_they_had(rng):
    problem = regression_problem(300, leaves="linear", penalties=(L1(leaves=0.01), L2(leaves=0.01)))
    tree = problem.fit_leaves(RandomInit().build(problem, rng), min_rows=1)
    poor = tree.values.copy()
    poor[0] += 1.0  # this leaf gets better, the others would become constant
    tree = Tree(tree.children, tree.A, tree.b, poor, tree.coefs, tree.lower, tree.upper)
    for improve in (True, False):
        state = State(problem, tree, 10_000, improve)
        before = state.pruned()[1]
        state.fit_leaves(linear=True)
        new, objective = state.pruned()
        assert objective == pytest.approx(problem.objective(new), rel=1e-12)
        assert (objective < before) == improve
        assert (state.leaf_arrays[1][1:] == tree.coefs[1:]).all() == improve
        assert state.leaves_changed
        state.fit_leaves(linear=True)
        assert not state.leaves_changed


def test_groups_cover_a_level_and_hold_about_as_much_work_each(rng, monkeypatch):
    problem = regression_problem(400, depth=4)
    state = State(problem, RandomInit().build(problem, rng), None, False)
    for nodes in state.levels():
        level, _ = state.reduced_problems(nodes)
        assert list(state.groups(level, whole=True)) == [(0, nodes.size)]
        assert list(state.groups(level, whole=False)) == [(0, nodes.size)]
        work = np.diff(level.start) * 4
        for limit in (1, 300, 500, 10**6):
            monkeypatch.setattr("solvers.tao.state.GROUP_WORK", limit)
            groups = list(state.groups(level, whole=False))
            assert [node for first, last in groups for node in range(first, last)] == list(range(nodes.size))
            for i, (first, last) in enumerate(groups):
                assert work[first:last].sum() <= limit or last == first + 1
                if i + 1 < len(groups):
                    assert work[first : last + 1].sum() > limit  # the next node did not fit
        monkeypatch.undo()
        state.advance()


@pytest.mark.parametrize("accept", ["always", "improve"])
@pytest.mark.parametrize("splits", ["axis", "oblique"])
def test_no_leaf_starves(accept, splits):
    problem = regression_problem(200, depth=3, min_leaf=20, splits=splits)
    for step in passes(problem, TAO(accept=accept, max_iter=8))[0]:
        assert problem.violation(step.tree) is None


def test_exact_nodes_leave_splits_that_cannot_be_bettered(rng):
    """Moving a threshold between the same two rows is no change."""
    problem = regression_problem(60, splits="axis", depth=1, penalties=())
    best = solve(problem, TAO(tol=0.0, patience=50), random_state=0).tree
    values = np.sort(problem.X[:, best.feature[0]])
    below = values[values <= best.b[0]].max()
    moved = Tree(best.children, best.A, [below + 1e-9], best.values)
    tree = solve(problem, TAO(), start=moved).tree
    assert tree.b[0] == below + 1e-9


def test_hard_solvers_start_from_the_hard_tree_below_a_mixture():
    problem = regression_problem(300, depth=2, leaves="linear", penalties=RIDGE)
    mixture = solve(problem, ORRT(max_iter=50), random_state=0).tree
    for solver in (TAO(max_iter=2), MultiStart(TAO(max_iter=2), 2)):
        tree = solve(problem, solver, start=mixture, random_state=0).tree
        assert tree.gate is None
        assert not tree.mixture
    chain = solve(problem, Chain(NODEC(max_iter=3), ORRT(max_iter=100)), random_state=0)
    assert chain.tree.mixture
    assert chain.objective <= solve(problem, NODEC(max_iter=3), random_state=0).objective


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


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(240, n_features=6, noise=0.5, random_state=0)
    return X, y


def lasso_of(X, y, alpha):
    return Lasso(alpha=alpha, tol=1e-10, max_iter=100_000).fit(X, y)


def test_leaves_of_a_tree_are_scikit_learns_lasso(friedman):
    problem = regression(friedman, depth=2, leaves="linear")
    tree = solve(problem, TAO.paper(5), random_state=0).tree
    leaf = problem.leaves_of(tree) - tree.n_branches
    for number in range(tree.n_leaves):
        rows = leaf == number
        if rows.sum() > 1:
            model = lasso_of(problem.X[rows], problem.y[rows], 0.01)
            np.testing.assert_allclose(tree.coefs[number, 0], model.coef_, atol=1e-5)
            np.testing.assert_allclose(tree.values[number, 0], model.intercept_, atol=1e-5)
    assert tree.lower is None


def test_the_last_pass_is_kept_even_if_the_start_was_better():
    rng = np.random.default_rng(2)
    problem = TreeProblem(rng.normal(size=(80, 3)), rng.normal(size=80), depth=4)  # noise
    start = problem.fit_leaves(CartInit().build(problem, rng))
    printed = replace(TAO.paper(), max_iter=3, tol=0.0)
    every = solve(problem, replace(printed, keep="best"), start=start, random_state=1)
    passes = [row.objective for row in every.trace.rows if row.phase == "pass"]
    assert passes[-1] > problem.objective(start)
    assert every.objective == problem.objective(start)
    last = solve(problem, printed, start=start, random_state=1)
    assert [row.phase for row in last.trace.rows] == ["pass"]
    assert last.objective == problem.objective(last.tree) == pytest.approx(passes[-1])
    none = solve(problem, replace(printed, max_iter=0), start=start)
    assert none.objective == pytest.approx(problem.objective(start))
    ended = solve(problem, replace(printed, max_iter=10**6, patience=10**6), start=start, time_limit=0.1)
    assert len(ended.trace.rows) == 1


def test_a_start_whose_leaves_are_better_is_kept():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)).round(1)
    y = np.digitize(X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=60), [-0.3, 0.3])
    problem = TreeProblem(X, y, 2, leaves="linear", loss="log")
    start = solve(problem, GET(n_starts=1), random_state=0)
    for solver in (TAO(), NODEC()):
        assert solve(problem, solver, start=start.tree, random_state=1).objective <= start.objective


def test_the_time_limit_reaches_into_starts_and_leaves():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6000, 20)), rng.integers(0, 30, 6000)
    problem = TreeProblem(X, y, 5, leaves="linear", loss="log")
    solve(problem.sample(np.arange(1000)), TAO(max_iter=1), random_state=0)  # compiles
    began = now()
    result = solve(problem, TAO(), time_limit=0.2, random_state=0)
    assert result.termination.name == "TIME_LIMIT"
    assert now() - began < 3.0  # 11 s before
