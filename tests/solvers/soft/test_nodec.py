"""NODEC from by-hand cases of its line search to whole runs."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import make_friedman1

import opttree
from opttree import L2, L2Constants, SmoothTreeProblem, SRTRegressor, SubtreeProblem, Tree, TreeProblem, datasets
from solvers import NODEC, ORRT, ArmijoLineSearch, ClusterInit, HingeInit, Termination, solve
from solvers.soft.nodec import slsqp
from solvers.soft.starts import soft_start
from tests.conftest import ends_in_time, regression_problem
from tests.statements import RIDGE, regression, smooth_problem


def test_armijo_tries_a_then_a_delta_and_so_on():
    tried = []

    def square(x):
        tried.append(float(x[0]))
        return float(x[0] ** 2)

    x, gradient = np.array([1.0]), np.array([2.0])
    search = ArmijoLineSearch(a=3.0, gamma=0.25, delta=0.5)  # enough: (1 - 2 s)^2 <= 1 - s, that is s <= 3 / 4
    assert search.step(square, x, 1.0, gradient) == 0.75
    assert tried == [-5.0, -2.0, -0.5]
    assert search.step(square, x, 1.0, gradient, direction=np.array([-1.0])) == 1.5  # twice as far for half as long
    tried.clear()
    assert ArmijoLineSearch(a=4.0, gamma=0.5, max_trials=3).step(square, x, 1.0, gradient) == 0.0
    assert len(tried) == 3
    assert ArmijoLineSearch(a=4.0, gamma=0.5, max_trials=4).step(square, x, 1.0, gradient) == 0.5
    for direction in ([2.0], [0.0]):
        with pytest.raises(ValueError, match="direction must descend; its slope is"):
            search.step(square, x, 1.0, gradient, direction=np.array(direction))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"a": 0.0}, r"a must be a finite number > 0; got 0\.0"),
        ({"a": np.inf}, "a must be a finite number > 0; got inf"),
        ({"gamma": 0.0}, r"gamma must be a finite number between 0 and 1; got 0\.0"),
        ({"delta": 0.0}, r"delta must be a finite number between 0 and 1; got 0\.0"),
        ({"delta": 1.0}, r"delta must be a finite number between 0 and 1; got 1\.0"),
        ({"max_trials": 0}, "max_trials must be an integer >= 1; got 0"),
    ],
)
def test_bad_options_of_the_line_search(options, message):
    with pytest.raises(ValueError, match=message):
        ArmijoLineSearch(**options)
    assert ArmijoLineSearch(max_trials=1).max_trials == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"branch_iterations": 0}, "branch_iterations must be an integer >= 1; got 0"),
        ({"joint_iterations": -1}, "joint_iterations must be an integer >= 0; got -1"),
        ({"imbalance": (0.1, 0.2, 1.0)}, r"imbalance must be three shares in \[0, 1\)"),
        ({"imbalance": (-0.1, 0.2, 0.3)}, r"imbalance must be three shares in \[0, 1\)"),
        ({"imbalance": (0.1, 0.2, 0.3, 0.4)}, "imbalance must be three shares"),
        ({"decay": -0.1}, r"decay must be a finite number in \[0, 1\)"),
        ({"theta": 1.0}, r"theta must be a finite number in \[0, 1\)"),
        ({"theta": -0.1}, r"theta must be a finite number in \[0, 1\)"),
        ({"alpha": np.inf}, "alpha must be a finite number > 0; got inf"),
        ({"tau": 0.0}, r"tau must be a finite number > 0; got 0\.0"),
        ({"steepness": 0.0}, r"steepness must be a finite number > 0 or None; got 0\.0"),
        ({"steepness": np.inf}, "steepness must be"),
        ({"tol": -1.0}, r"tol must be a finite number >= 0; got -1\.0"),
        ({"tol": np.inf}, "tol must be a finite number >= 0; got inf"),
        ({"device": "tpu"}, "device must be"),
    ],
)
def test_more_bad_options_of_nodec(options, message):
    with pytest.raises(ValueError, match=message):
        NODEC(**options)


def test_options_at_their_limits_are_taken():
    NODEC(max_iter=0, branch_iterations=1, joint_iterations=0, k0=0, imbalance=(0.0, 0.0, 0.0), decay=0.0, theta=0.0)
    NODEC(tol=0.0, steepness=None, k0=None)


def test_every_working_set_of_a_macro_iteration():
    def sets(working_sets, n_branches):
        everything = range(8)
        return [
            (chosen.node, chosen.splits, list(everything[chosen.leaves]))
            for chosen in NODEC(working_sets=working_sets)._macro_iteration(n_branches)
        ]

    eight = list(range(8))
    assert sets("all", 7) == [(0, "below", eight)]
    assert sets("subtree", 3) == [(0, "own", []), (1, "below", eight), (2, "below", eight)]
    assert sets("subtree", 1) == [(0, "below", eight)]
    assert sets("node", 3) == [
        *[(t, "own", []) for t in range(3)],
        *[(t, "none", [i]) for t in (1, 2) for i in (0, 1)],
    ]


def steps_of(problem, solver, **options):
    steps = []
    result = solve(problem, solver, callback=lambda step, trace: steps.append(step), random_state=0, **options)
    return steps, result


def test_phases_notes_and_the_end():
    problem = regression_problem(300, depth=2, leaves="linear", penalties=RIDGE)
    steps, result = steps_of(problem, NODEC(max_iter=2, joint_iterations=60))
    assert [step.phase for step in steps] == ["constant", "start", *["decomposition"] * 2, *["all variables"] * 3]
    assert result.termination is Termination.ITERATION_LIMIT
    smooth = [step.info["smooth"] for step in steps[1:]]
    assert np.all(np.diff(smooth) <= 0.0)
    assert smooth[-1] < smooth[2]
    one = problem.objective(Tree.constant([np.average(problem.y)], 4))
    assert steps[0].tree.n_leaves == 1
    assert problem.objective(steps[0].tree) <= one
    given, _ = steps_of(problem, NODEC(max_iter=1), start=steps[1].tree)
    assert [step.phase for step in given] == ["start", "decomposition"]


def test_the_smooth_objective_of_a_step_is_that_of_its_tree():
    problem = regression_problem(300, depth=2, leaves="linear", penalties=RIDGE)
    for alpha in (1.0, 4.0):
        smooth = SmoothTreeProblem(problem, alpha=alpha)
        steps, _ = steps_of(problem, NODEC(alpha=alpha, max_iter=3, joint_iterations=30, clip=False))
        for step in steps[1:]:
            assert step.tree.gate == alpha
            assert not step.tree.mixture
            assert step.tree.lower is None
            assert smooth.value(smooth.soften(step.tree)) == pytest.approx(step.info["smooth"], rel=1e-12)
            assert step.info["smooth"] <= step.info["current"] * (1 + 1e-12)
    clipped = steps_of(problem, NODEC(max_iter=1))[0][-1].tree
    assert clipped.lower.min() >= problem.y.min()
    assert clipped.upper.max() <= problem.y.max()


def test_moves_are_those_of_a_macro_iteration():
    problem = regression_problem(300, depth=2, leaves="linear", penalties=RIDGE)
    smooth = SmoothTreeProblem(problem)
    steps, _ = steps_of(problem, NODEC(k0=0, max_iter=3, clip=False))
    points = [smooth.soften(step.tree) for step in steps[1:]]
    cut = 3 * 5
    for before, after, step in zip(points, points[1:], steps[2:], strict=False):
        assert step.info["split_move"] == pytest.approx(np.linalg.norm((after - before)[:cut]), rel=1e-6)
        assert step.info["leaf_move"] == pytest.approx(np.linalg.norm((after - before)[cut:]), rel=1e-6)
        assert step.info["gradient_norm"] == pytest.approx(np.linalg.norm(smooth.value_and_grad(after)[1]), rel=1e-6)


def test_a_run_stops_where_the_gradient_is_small_enough():
    problem = regression_problem(300, depth=2, leaves="linear", penalties=RIDGE)
    norms = [step.info.get("gradient_norm") for step in steps_of(problem, NODEC(k0=0, max_iter=8))[0]][2:]
    tol = norms[3]
    stop = next(i for i, norm in enumerate(norms) if norm <= tol)
    steps, result = steps_of(problem, NODEC(k0=0, max_iter=8, tol=tol))
    assert len(steps) == 2 + stop + 1
    assert result.termination is Termination.LOCALLY_OPTIMAL
    assert "gradient_norm" not in steps_of(problem, NODEC(max_iter=1, tol=1e9))[0][-1].info


def test_a_move_that_lowers_too_little_is_not_taken(monkeypatch):
    """Conditions (15) and (16): the Armijo step takes the place of a candidate that is worse or moves too far."""
    problem = regression_problem(300, depth=1, leaves="linear", penalties=RIDGE)
    smooth = SmoothTreeProblem(problem)
    part = SubtreeProblem(smooth, smooth.random_theta(np.random.default_rng(0)), 0, exact=True)
    value, gradient = part.value_and_grad(part.start)
    search = NODEC().line_search
    armijo = part.start - gradient * search.step(lambda v: part.value_and_grad(v)[0], part.start, value, gradient)
    good = NODEC(branch_iterations=50)._update(part, part, part.start, np.zeros(3))
    assert part.value_and_grad(good)[0] < part.value_and_grad(armijo)[0] < value

    def taken(candidate, **options):
        monkeypatch.setattr(NODEC, "_update", lambda *_arguments: candidate)
        return NODEC(k0=0, theta=0.0, **options)._branch_step(part, np.zeros(3), 1)

    np.testing.assert_array_equal(taken(good), good)
    np.testing.assert_array_equal(taken(good, tau=1e6), armijo)
    np.testing.assert_array_equal(taken(part.start + 10.0), armijo)
    small = part.start - 1e-9 * gradient  # lowers the objective, but less than the Armijo step
    np.testing.assert_array_equal(taken(small), armijo)


def test_thresholds_decay_and_gates_are_taken(monkeypatch):
    problem = regression_problem(300, depth=2, leaves="linear", penalties=RIDGE)
    thresholds = []
    inner = NODEC._inner_iteration

    def watched(self, rows, chosen, imbalance, k):
        thresholds.append(imbalance)
        return inner(self, rows, chosen, imbalance, k)

    monkeypatch.setattr(NODEC, "_inner_iteration", watched)
    nodec = NODEC(max_iter=3, imbalance=(0.3, 0.2, 0.1), decay=0.5)
    steps, _ = steps_of(problem, nodec)
    np.testing.assert_allclose(np.unique(thresholds, axis=0)[::-1], np.outer(0.5 ** np.arange(3), (0.3, 0.2, 0.1)))
    again = solve(problem, NODEC(max_iter=0), start=replace(steps[-1].tree, lower=None, upper=None))
    assert again.trace.rows[0].info["smooth"] == pytest.approx(steps[-1].info["smooth"])


def test_what_nodec_solves():
    assert NODEC().refusal(regression_problem()) is None
    assert "squared" in NODEC().refusal(regression_problem(loss="absolute")) or NODEC().refusal(
        regression_problem(loss="absolute")
    )
    labels = TreeProblem(np.arange(8.0)[:, None], np.array(["a", "b"] * 4), depth=1, loss="log")
    assert NODEC().refusal(labels) is None
    assert "'zero_one'" in NODEC().refusal(labels.restated(loss="zero_one"))
    assert "axis" in NODEC().refusal(regression_problem(splits="axis"))
    assert NODEC().refusal(regression_problem(splits="axis", depth=0)) == NODEC().init.refusal(
        regression_problem(splits="axis", depth=0)
    )
    constant = solve(regression_problem(depth=0), NODEC(), random_state=0)
    assert constant.termination is Termination.LOCALLY_OPTIMAL
    assert constant.tree.n_leaves == 1
    assert [row.phase for row in constant.trace] == ["constant"]


def test_the_linear_leaves_of_an_uncut_tree_stay_as_they_are():
    problem = regression_problem(400, depth=2, leaves="linear", penalties=RIDGE, min_leaf=2)
    free = problem.restated(min_leaf=1)
    for clip in (True, False):
        tree = steps_of(problem, NODEC(max_iter=2, clip=clip))[0][-1].tree
        own = steps_of(free, NODEC(max_iter=2, clip=clip))[0][-1].tree
        assert tree == own.prune_dead(problem.X)
    small = problem.restated(min_leaf=150)
    for clip in (True, False):
        tree = steps_of(small, NODEC(max_iter=2, clip=clip))[0][-1].tree
        assert tree.n_leaves < 4
        assert (tree.lower is None) == (not clip)
        fitted = problem.fit_leaves(tree)
        np.testing.assert_allclose(tree.coefs, fitted.coefs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_rows_with_the_largest_losses_change_over_to_an_empty_side(side):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 1))
    y = np.where(X[:, 0] > 1.0, 3.0, 0.0)
    problem = TreeProblem(X, y - y.mean(), depth=1, penalties=(L2(splits=1e-6),))
    start = Tree([[1, 2]], [[0.1]], [9.0 * side], [[0.0], [0.0]])

    smooth = SmoothTreeProblem(problem)
    part = SubtreeProblem(smooth, soft_start(smooth, start, None, rng), exact=False)

    def cut(share, tolerated=0.1):
        weight, threshold = NODEC()._update(part, part, part.start, np.array([tolerated, tolerated, share]))
        return threshold / weight

    assert 0.7 < cut(np.mean(y > 0.0)) < 1.2
    assert abs(cut(0.4)) < 0.3  # 40 % of the rows cannot all be beyond one
    assert cut(0.1, tolerated=0.0) == pytest.approx(90.0 * side, rel=1e-4)  # but for the ridge, nothing moves


def real_problem(name, depth=2, **options):
    X, y = datasets.load(name, as_arrays=True)
    options = {"leaves": "linear", "penalties": RIDGE} | options
    return TreeProblem((X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std(), depth=depth, **options)


def test_armijo_takes_the_first_step_that_lowers_enough():
    def square(x):
        return float(np.sum(50.0 * x**2))

    x = np.array([1.0, -2.0])
    search = ArmijoLineSearch(a=1.0, gamma=0.1, delta=0.5)
    alpha = search.step(square, x, square(x), 100.0 * x)
    slope = -np.sum((100.0 * x) ** 2)
    assert square(x - alpha * 100.0 * x) <= square(x) + 0.1 * alpha * slope
    assert square(x - 2 * alpha * 100.0 * x) > square(x) + 0.2 * alpha * slope
    assert ArmijoLineSearch(max_trials=1).step(square, x, square(x), 100.0 * x) == 0.0
    with pytest.raises(ValueError, match="direction must descend"):
        search.step(square, x, square(x), 100.0 * x, direction=x)
    with pytest.raises(ValueError, match=r"gamma must be a finite number between 0 and 1; got 1\.0"):
        ArmijoLineSearch(gamma=1.0)


@pytest.mark.parametrize("working_sets", ["subtree", "node", "all"])
@pytest.mark.parametrize("init", [ClusterInit(n_init=1), HingeInit()], ids=["cluster", "hinge"])
def test_exact_steps_never_raise_the_smooth_objective(working_sets, init):
    problem = regression_problem(300, leaves="linear", penalties=RIDGE)
    solver = NODEC(init=init, working_sets=working_sets, k0=0, max_iter=15)
    frame = solve(problem, solver, random_state=0).trace.to_frame()
    current = frame["current"].dropna().to_numpy()
    assert frame["rises"].iloc[-1] == 0
    assert np.all(np.diff(current) <= 1e-12)
    assert current[-1] < 0.9 * current[0]
    np.testing.assert_allclose(frame["smooth"].dropna(), current, rtol=1e-12)


@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_exact_steps_converge_where_constants_are_penalised(leaves):
    held = (*RIDGE, L2Constants(splits=0.02, leaves=0.05))
    problem = regression_problem(300, leaves=leaves, penalties=held)
    result = solve(problem, NODEC(k0=0, max_iter=200, clip=False), random_state=0)
    frame = result.trace.to_frame().iloc[1:]
    assert frame["rises"].iloc[-1] == 0
    assert frame["gradient_norm"].min() <= 1e-4
    free = solve(problem.restated(penalties=RIDGE), NODEC(k0=0, max_iter=200, clip=False), random_state=0).tree
    assert np.square(result.tree.b).sum() < np.square(free.b).sum()


@pytest.mark.parametrize("name", ["yacht", "auto_mpg"])
@pytest.mark.parametrize("depth", [2, 3])
def test_convergence_conditions_hold(needs_data, name, depth):
    problem = real_problem(name, depth)
    frame = solve(problem, NODEC(k0=0, max_iter=150), random_state=0).trace.to_frame().iloc[1:]
    assert frame["gradient_norm"].min() <= 1e-5
    assert frame["gradient_norm"].iloc[-1] <= 1e-4
    assert frame["rises"].iloc[-1] == 0  # (8), (11)
    for move in ("split_move", "leaf_move"):  # (iii), (iv) of Proposition 1
        assert frame[move].tail(3).max() < 0.01 * frame[move].max()
    stopped = solve(problem, NODEC(k0=0, max_iter=400, tol=1e-4), random_state=0)
    assert stopped.termination is Termination.LOCALLY_OPTIMAL
    assert len(stopped.trace) < 100


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("working_sets", ["subtree", "node", "all"])
def test_every_branch_and_leaf_is_in_a_working_set_of_each_macro_iteration(working_sets, depth, monkeypatch):
    """Condition 1, by the variables that move; a macro iteration of NODEC-DR is one inner iteration for each branch."""
    problem = regression_problem(300, depth=depth, leaves="linear", penalties=RIDGE)
    smooth, passes, inner = SmoothTreeProblem(problem), [[]], NODEC._inner_iteration

    def watched(self, rows, chosen, *rest):
        before = rows.theta
        inner(self, rows, chosen, *rest)
        passes[-1].append((chosen.node, rows.theta != before))

    monkeypatch.setattr(NODEC, "_inner_iteration", watched)
    solver = NODEC(k0=0, theta=0.0, working_sets=working_sets, max_iter=4)
    solve(problem, solver, random_state=0, callback=lambda *step: passes.append([]))
    passes = [one for one in passes if one]
    assert len(passes) == 4
    for one in passes[1:]:  # the first inner iteration of all leaves small gradients alone: theta ** 0 = 1
        if working_sets == "subtree":
            assert [node for node, _moved in one] == list(range(smooth.n_branches))
        A, b, values, coefs = smooth.unpack(np.any([moved for _node, moved in one], axis=0))
        assert np.all(A.any(axis=1) | b)
        assert np.all(values.any(axis=1) | coefs.any(axis=(1, 2)))


@pytest.mark.parametrize("k0", [0, 10])
def test_the_trace_notes_the_gradient_of_the_point_it_is_at(k0):
    problem = regression_problem(300, leaves="linear", penalties=RIDGE)
    trees = []
    result = solve(
        problem, NODEC(k0=k0, max_iter=4, clip=False), random_state=0, callback=lambda step, _: trees.append(step.tree)
    )
    smooth = SmoothTreeProblem(problem)
    last = result.trace.to_frame().iloc[-1]
    value, gradient = smooth.value_and_grad(smooth.soften(trees[-1]))
    assert value == pytest.approx(last["smooth"], rel=1e-12)
    assert np.linalg.norm(gradient) == pytest.approx(last["gradient_norm"], rel=1e-6)


def test_small_leaves_are_cut_off_and_the_others_fitted_again():
    problem = regression_problem(400, leaves="linear", penalties=RIDGE, min_leaf=120)
    tree = solve(problem, NODEC(), random_state=0).tree
    assert problem.violation(tree) is None
    one = problem.fit_leaves(Tree.constant([0.0], 4))
    assert problem.objective(tree) < 0.5 * problem.objective(one)
    model = SRTRegressor(min_samples_leaf=120, random_state=0).fit(problem.X, problem.y)
    assert model.score(problem.X, problem.y) > 0.9


@pytest.mark.parametrize("solver", [ORRT(), ORRT(method="SLSQP", max_iter=100), NODEC(k0=0, max_iter=30)], ids=repr)
def test_a_shallower_start_grows(solver):
    problem = regression_problem(400, leaves="linear", penalties=RIDGE)
    start = solve(problem, NODEC(max_iter=0), start=Tree.constant([0.0], 4), random_state=0).tree
    assert problem.objective(start) > 0.9
    assert solve(problem, solver, start=Tree.constant([0.0], 4), random_state=0).objective < 0.3


def test_reassignment_gives_an_empty_side_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = np.abs(X[:, 0]) + 0.01 * rng.normal(size=400)
    problem = TreeProblem(X, (y - y.mean()) / y.std(), depth=1, leaves="linear", penalties=RIDGE)
    one_sided = Tree.complete(np.array([[0.3, 0.0, 0.0]]), np.array([9.0]), 1)
    start = problem.fit_leaves(one_sided)
    # saturated gates have small gradients: as printed, rows are reassigned once theta^k is below them
    soon = {"steepness": None, "theta": 0.01}
    stuck = solve(problem, NODEC(imbalance=(0.0, 0.0, 0.0), **soon), start=start, random_state=0)
    freed = solve(problem, NODEC(**soon), start=start, random_state=0)
    assert freed.objective < 0.2 < stuck.objective


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"working_sets": "leaf"}, "working_sets must be one of .*; got 'leaf'"),
        ({"k0": -1}, "k0 must be an integer >= 0 or None; got -1"),
        ({"alpha": 0.0}, r"alpha must be a finite number > 0; got 0\.0"),
        ({"steepness": -1.0}, r"steepness must be a finite number > 0 or None; got -1\.0"),
        ({"imbalance": (0.1, 0.2)}, "imbalance must be three shares"),
        ({"decay": 1.0}, r"decay must be a finite number in \[0, 1\); got 1\.0"),
        ({"max_iter": -1}, "max_iter must be an integer >= 0; got -1"),
    ],
)
def test_bad_options_of_nodec(options, message):
    with pytest.raises(ValueError, match=message):
        NODEC(**options)


@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_decomposition_under_log_loss_descends_to_a_stationary_point(leaves):
    problem = smooth_problem(n=300, depth=2, n_outputs="classes", leaves=leaves).problem
    result = solve(problem, NODEC(k0=0, max_iter=40, branch_iterations=50, imbalance=(0.0, 0.0, 0.4)), random_state=0)
    rows = [row for row in result.trace.rows if row.phase == "decomposition"]
    smooth = [row.info["smooth"] for row in rows]
    assert all(after <= before + 1e-12 for before, after in pairwise(smooth))
    assert rows[-1].info["gradient_norm"] < 2e-3 < rows[0].info["gradient_norm"]
    expected = SmoothTreeProblem(problem).value(SmoothTreeProblem(problem).soften(result.tree))
    assert expected == pytest.approx(min(smooth), rel=0.05)


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


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(240, n_features=6, noise=0.5, random_state=0)
    return X, y


def test_slsqp_minimises_the_working_set(friedman):
    problem = regression(friedman, depth=2, leaves="linear", penalties=(L2(splits=1e-3, leaves=1e-3),))
    smooth = SmoothTreeProblem(problem)
    theta = smooth.soften(ClusterInit().build(problem, np.random.default_rng(0)), np.random.default_rng(0))
    part = SubtreeProblem(smooth, theta, 1, False, False)
    found = slsqp(part, part.start, 100, 1e-6, -1.0)
    best = minimize(part.value_and_grad, part.start, jac=True, method="L-BFGS-B").fun
    assert part.value_and_grad(found)[0] <= best + 0.02 * abs(best)
    np.testing.assert_array_equal(slsqp(part, part.start, 100, 1e-6, 1e9), part.start)


def test_a_time_limit_reaches_into_the_start():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30_000, 30))
    problem = TreeProblem(X, X[:, 0] * X[:, 1] + rng.normal(size=30_000), depth=4, leaves="linear", penalties=RIDGE)
    for init in (HingeInit(), ClusterInit(n_init=1)):
        run = partial(solve, problem, NODEC(init=init), time_limit=0.1, random_state=0)
        for _ in range(2):  # each compiles what it comes to
            run()
        result = ends_in_time(run, 1.0)
        assert result.termination is Termination.TIME_LIMIT
