"""TAO and its initial trees: against a straightforward reference, monotone where promised, optimal per node."""

import numpy as np
import pytest

from experiments.benchmarks import reference_tao
from opttree import L1, SplitPrice, TAORegressor, Tree, TreeProblem, datasets
from solvers import TAO, AxisNode, CartInit, ClusterInit, HingeInit, NewtonNode, RandomInit, SklearnNode, solve
from solvers.tao.state import State
from tests.conftest import classification_problem, regression_problem


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
    assert trees[-1].tree == whole.tree or trees[-1].objective >= whole.objective
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
    sizes = [
        solve(
            regression_problem(300, depth=5, penalties=(SplitPrice(price),)), TAO(init=CartInit()), random_state=0
        ).tree.n_branches
        for price in (0.0, 0.1)
    ]
    assert sizes[1] <= sizes[0]


@pytest.mark.parametrize("start", [RandomInit(), CartInit(), ClusterInit(), HingeInit()], ids=repr)
@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_tao_improves_every_start(start, leaves):
    problem = regression_problem(400, leaves=leaves)
    before = solve(problem, start, random_state=0).objective
    after = solve(problem, TAO(init=start), random_state=0).objective
    assert after < before * 1.0001
    assert after < 0.2


def test_outliers_do_not_blow_the_hyperplanes_up(rng):
    X = rng.standard_t(1.2, size=(2000, 6))
    y = np.tanh(X[:, 0]) + 0.1 * rng.normal(size=2000)
    problem = TreeProblem(X / X.std(axis=0), y / y.std(), depth=5, penalties=(L1(splits=1e-5),))
    result = solve(problem, TAO(node_solver=NewtonNode()), random_state=0)
    assert np.isfinite(result.tree.A).all()
    assert np.abs(result.tree.A).max() < 1e6


def test_hinge_finds_a_hinge(rng):
    X = rng.uniform(-1, 1, size=(500, 3))
    y = np.maximum(X[:, 0] + X[:, 1], 0.0) + 0.5 * X[:, 2]
    problem = TreeProblem(X, y / y.std(), depth=1, leaves="linear")
    tree = solve(problem, HingeInit(), random_state=0).tree
    assert problem.objective(tree) < 1e-3
    direction = tree.A[0] / np.linalg.norm(tree.A[0])
    assert abs(direction @ [1, 1, 0]) / np.sqrt(2) > 0.99


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
        ({"max_iter": -1}, "max_iter must be >= 0; got -1"),
        ({"patience": 0}, "patience must be >= 1; got 0"),
        ({"tol": -1.0}, "tol must be >= 0"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        TAO(**options)
    with pytest.raises(ValueError, match="threshold must be one of"):
        RandomInit(threshold="x")
