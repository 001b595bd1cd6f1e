"""Soft regression trees: working sets, decomposition and its guarantees, mixtures, and the estimators."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_iris

from opttree import (
    L2,
    ORRTClassifier,
    ORRTRegressor,
    SmoothTreeProblem,
    SRTClassifier,
    SRTRegressor,
    SubtreeProblem,
    Tree,
    TreeProblem,
    datasets,
    load as load_model,
    plotting,
    save,
)
from opttree.problems.smooth.problem import path_products
from solvers import (
    NODEC,
    ORRT,
    TAO,
    ArmijoLineSearch,
    CartInit,
    Chain,
    ClusterInit,
    HingeInit,
    MultiStart,
    Termination,
    solve,
)
from tests.conftest import own_clock, regression_problem

RIDGE = (L2(splits=1e-3, leaves=1e-3),)


def smooth_problem(n=500, depth=3, seed=0, alpha=1.0, n_outputs=1, leaves="linear"):
    """A regression problem of ``n_outputs`` outputs, or, where that is "classes", one of three classes."""
    rng = np.random.default_rng(seed)
    classes, n_outputs = n_outputs == "classes", 1 if n_outputs == "classes" else n_outputs
    X = rng.normal(size=(n, 4))
    Y = np.stack([np.sin(X[:, 0] + k) + X[:, 1] * X[:, 2] for k in range(n_outputs)], axis=1)
    weight, loss = rng.uniform(0.5, 2.0, n), "squared"
    if classes:
        Y, loss = np.digitize(Y[:, 0], [-0.5, 0.5]), "log"
    return SmoothTreeProblem(
        TreeProblem(X, Y, depth=depth, leaves=leaves, loss=loss, penalties=RIDGE, sample_weight=weight), alpha=alpha
    )


def real_problem(name, depth=2, **options):
    X, y = datasets.load(name, as_arrays=True)
    options = {"leaves": "linear", "penalties": RIDGE} | options
    return TreeProblem((X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std(), depth=depth, **options)


# ---- working sets ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaves", ["constant", "linear"])
@pytest.mark.parametrize("n_outputs", [1, 2, "classes"])
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("node", range(7))
def test_the_exact_form_is_the_whole_objective_up_to_a_constant(node, alone, n_outputs, leaves):
    smooth = smooth_problem(alpha=2.0, n_outputs=n_outputs, leaves=leaves)
    rng = np.random.default_rng(1)
    theta = rng.normal(size=smooth.size)
    part = SubtreeProblem(smooth, theta, node, alone=alone)
    point = part.start + 0.3 * rng.normal(size=part.start.size)
    moved = part.insert(point)
    change = part.value_and_grad(point)[0] - part.value_and_grad(part.start)[0]
    assert change == pytest.approx(smooth.value(moved) - smooth.value(theta), rel=1e-10, abs=1e-12)
    A, b, _values, _coefs = smooth.unpack(smooth.value_and_grad(moved)[1])
    expected = np.concatenate([A[part.branches].ravel(), b[part.branches]])
    np.testing.assert_allclose(part.value_and_grad(point)[1], expected, atol=1e-12)
    assert smooth.harden(moved).values == pytest.approx(smooth.harden(theta).values)


@pytest.mark.parametrize("node", [1, 2, 5])
def test_the_proxy_holds_the_rows_whose_path_passes_the_node(node):
    smooth = smooth_problem(alpha=3.0)
    theta = np.random.default_rng(2).normal(size=smooth.size)
    part = SubtreeProblem(smooth, theta, node, exact=False)
    passes = smooth.harden(theta).decision_path(smooth.problem.X)[:, [node]].toarray()[:, 0] > 0
    assert np.array_equal(np.flatnonzero(passes), part.rows)
    np.testing.assert_allclose(part.weights, smooth.problem.w[passes])
    tree = smooth.harden(theta).subtree(node)
    own = SmoothTreeProblem(smooth.problem.restrict(part.rows, tree.depth), alpha=3.0)
    value = part.value_and_grad(part.start)[0]
    leaf_part = 1e-3 * np.sum(np.square(tree.coefs))
    assert value == pytest.approx(part.share * own.value(own.soften(tree)) - leaf_part, rel=1e-9)
    rows = np.sum(path_products(part.left_probabilities) * part.losses, axis=1)
    np.testing.assert_allclose(part.row_losses, rows)


def test_proxy_and_exact_form_agree_at_the_root_and_under_steep_gates():
    for alpha, nodes in ((1.0, [0]), (1e7, range(7))):
        smooth = smooth_problem(alpha=alpha)
        theta = smooth.soften(solve(smooth.problem, CartInit(), random_state=0).tree, np.random.default_rng(0))
        for node in nodes:
            exact, proxy = (SubtreeProblem(smooth, theta, node, exact=e) for e in (True, False))
            assert proxy.rows.size > 0
            assert exact.value_and_grad(exact.start)[0] == pytest.approx(proxy.value_and_grad(proxy.start)[0], rel=1e-9)


def test_a_working_set_is_refused_with_a_reason():
    smooth = smooth_problem()
    theta = np.zeros(smooth.size)
    with pytest.raises(ValueError, match=r"node must be a branch node, 0\.\.6; got 7"):
        SubtreeProblem(smooth, theta, 7)
    mixture = SmoothTreeProblem(smooth.problem, aggregation="mixture")
    with pytest.raises(ValueError, match="aggregation is 'mixture'"):
        SubtreeProblem(mixture, theta)
    with pytest.raises(ValueError, match="point must have the shape of start"):
        SubtreeProblem(smooth, theta).value_and_grad(np.zeros(3))


# ---- line search -----------------------------------------------------------------------------------------------------


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


# ---- decomposition ---------------------------------------------------------------------------------------------------


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


def test_limits_of_other_libraries_threads_are_restored_by_the_last_to_leave():
    from threadpoolctl import threadpool_info

    from solvers.core.calm import calm_threads

    def counts():
        return sorted((pool["filepath"], pool["num_threads"]) for pool in threadpool_info())

    solve(regression_problem(50), ClusterInit(), random_state=0)  # loads the libraries
    with calm_threads():
        pass
    before = counts()
    first, second = calm_threads(), calm_threads()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    within = counts()
    second.__exit__(None, None, None)
    assert all(threads == 1 for _path, threads in within)
    assert counts() == before


def test_a_time_limit_reaches_into_the_start():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30_000, 30))
    problem = TreeProblem(X, X[:, 0] * X[:, 1] + rng.normal(size=30_000), depth=4, leaves="linear", penalties=RIDGE)
    for init in (HingeInit(), ClusterInit(n_init=1)):
        for _ in range(3):  # each compiles what it comes to
            solve(problem, NODEC(init=init), time_limit=0.1, random_state=0)
        for _ in range(3):
            began = own_clock()
            result = solve(problem, NODEC(init=init), time_limit=0.1, random_state=0)
            assert own_clock() - began < 1.0
            assert result.termination is Termination.TIME_LIMIT


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


def test_a_deep_tree_approximates_a_continuous_function():
    side = np.linspace(-1.0, 1.0, 60)
    X = np.stack([a.ravel() for a in np.meshgrid(side, side)], axis=1)
    y = np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1]) + 0.5 * X[:, 0] * X[:, 1]
    model = SRTRegressor(6, l2=1e-9, max_iter=20, random_state=0).fit(X, y)
    assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) < 1e-2


def test_clustering_repeats_keep_the_lowest_davies_bouldin_index():
    from solvers.initial.cluster import davies_bouldin

    problem = regression_problem(300, depth=3)
    rng = np.random.default_rng(0)
    indices = [davies_bouldin(problem, ClusterInit(n_init=1).build(problem, rng)) for _ in range(8)]
    best = solve(problem, ClusterInit(n_init=1, n_repeats=8), random_state=0).tree
    assert davies_bouldin(problem, best) == min(indices) < indices[0]
    with pytest.raises(ValueError, match="n_repeats must be an integer >= 1; got 0"):
        ClusterInit(n_repeats=0)


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


# ---- mixtures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["L-BFGS-B", "SLSQP"])
def test_orrt_minimises_the_loss_of_the_mixture(method):
    problem = regression_problem(300, depth=2, leaves="linear", penalties=RIDGE)
    result = solve(problem, ORRT(method=method, n_starts=2, max_iter=100), random_state=0)
    tree = result.tree
    assert tree.mixture
    smooth = SmoothTreeProblem(problem, aggregation="mixture")
    assert result.objective == pytest.approx(smooth.value(smooth.soften(tree.as_hard)), rel=1e-9)
    assert result.objective == pytest.approx(problem.objective(tree), rel=1e-12)
    assert result.objective < 0.1
    share = tree.leaf_proba(problem.X)
    np.testing.assert_allclose(share.sum(axis=1), 1.0)
    mixed = np.sum(share * np.stack([tree.as_hard.values[leaf, 0] + problem.X @ tree.coefs[leaf, 0] for leaf in range(4)], axis=1), axis=1)  # fmt: skip # noqa: E501
    np.testing.assert_allclose(tree.predict(problem.X), mixed)
    assert not np.allclose(tree.as_hard.predict(problem.X), mixed)


def test_mixtures_of_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.where(X[:, 0] * X[:, 1] > 0, "a", "b")
    for leaves in ("constant", "linear"):
        problem = TreeProblem(X, y, depth=2, loss="log", leaves=leaves, penalties=RIDGE)
        result = solve(problem, ORRT(n_starts=3), random_state=0)
        smooth = SmoothTreeProblem(problem, aggregation="mixture")
        assert result.objective == pytest.approx(smooth.value(smooth.soften(result.tree.as_hard)), rel=1e-4)
        np.testing.assert_allclose(result.tree.predict_proba(X).sum(axis=1), 1.0)
        assert np.mean(result.tree.predict(X) == y) > 0.85


def test_soft_trees_are_saved_scaled_drawn_and_told_apart(tmp_path):
    problem = regression_problem(200, depth=2, leaves="linear", penalties=RIDGE)
    tree = solve(problem, ORRT(max_iter=50), random_state=0).tree
    for suffix in ("json", "npz"):
        save(tree, tmp_path / f"t.{suffix}")
        again = load_model(tmp_path / f"t.{suffix}").tree
        assert again == tree
        assert np.array_equal(again.predict(problem.X), tree.predict(problem.X))
    assert tree != tree.as_hard
    assert "soft" in tree.to_text()
    assert "soft" not in tree.as_hard.to_text()
    assert any("soft" in text.get_text() for text in plotting.plot_tree(tree).texts)
    mean, scale = np.array([1.0, -2.0, 0.5, 3.0]), np.array([2.0, 0.5, 1.0, 4.0])
    raw = tree.unscale(mean, scale, 5.0, 3.0)
    np.testing.assert_allclose(raw.predict(problem.X * scale + mean), 3.0 * tree.predict(problem.X) + 5.0, rtol=1e-9)
    np.testing.assert_allclose(raw.scale(mean, scale, 5.0, 3.0).predict(problem.X), tree.predict(problem.X), rtol=1e-9)
    single = Tree.complete(np.array([[2.0]]), np.array([0.5]), 1)
    soft = Tree(single.children, single.A, single.b, np.array([[0.0], [1.0]]), gate=1.0, mixture=True)
    assert soft.unscale(np.zeros(1), np.ones(1)).canonical == soft
    with pytest.raises(ValueError, match="mixture needs the scale of the gates"):
        Tree(single.children, single.A, single.b, single.values, mixture=True)
    with pytest.raises(ValueError, match="leaf_proba needs a soft tree"):
        single.leaf_proba(np.zeros((1, 1)))


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


# ---- estimators ------------------------------------------------------------------------------------------------------


def test_single_leaf_and_soft_predictions():
    X, y = datasets.load("friedman1", as_arrays=True)
    model = SRTRegressor(random_state=0).fit(X[:1500], y[:1500])
    assert model.score(X[1500:], y[1500:]) > 0.85
    assert model.leaf_proba(X).shape == (len(X), 8)
    np.testing.assert_allclose(model.leaf_proba(X).sum(axis=1), 1.0)
    leaf = model.apply(X) - model.tree_.n_branches
    linear = model.tree_.values[leaf, 0] + np.sum(X * model.tree_.coefs[leaf, 0], axis=1)
    np.testing.assert_allclose(model.predict(X), np.clip(linear, y[:1500].min(), y[:1500].max()))
    assert 0.8 < np.corrcoef(model.predict_soft(X), y)[0, 1] ** 2 < 1.0
    mixed = ORRTRegressor(random_state=0).fit(X[:1500], y[:1500])
    assert mixed.score(X[1500:], y[1500:]) > 0.85
    assert np.array_equal(mixed.predict(X), mixed.predict_soft(X))
    warm = ORRTRegressor(init=model.tree_, max_iter=5, random_state=0).fit(X[:1500], y[:1500])
    assert warm.score(X[:1500], y[:1500]) > 0.85


@pytest.mark.parametrize("init", ["hinge", "cluster", "cart", "random", HingeInit(n_random=1)], ids=str)
def test_every_start(init):
    X, y = datasets.load("friedman1", as_arrays=True)
    assert SRTRegressor(2, init=init, random_state=0).fit(X[:500], y[:500]).score(X[500:], y[500:]) > 0.7


def test_printed_penalties_are_the_papers():
    X, y = datasets.load("friedman1", as_arrays=True)
    n, p = X.shape
    model = SRTRegressor(2, l2="paper", random_state=0)
    problem, (low, spread, _mean, _scale) = model.state(X, y)
    np.testing.assert_allclose(low, X.min(axis=0))
    np.testing.assert_allclose(spread, np.ptp(X, axis=0))
    tree = solve(problem, NODEC(max_iter=1), random_state=0).tree
    omega, beta = -p * tree.A, tree.coefs
    lambdas = 2.0 / (p * 3), 2.0 / (p * 4)
    printed = 0.5 * lambdas[0] * np.sum(omega**2) + 0.5 * lambdas[1] * np.sum(beta**2)
    assert problem.penalty(tree) == pytest.approx(printed)
    strengths = SRTRegressor(2).state(X, y)[0].penalties[0]
    assert (strengths.splits, strengths.leaves) == pytest.approx((0.01 * p / n, 0.03 * p / n))
    assert SRTRegressor(2, l2=(0.1, 0.2)).state(X, y)[0].penalties[0] == L2(splits=0.1, leaves=0.2)
    small = SRTRegressor(2).state(X, y, np.full(n, 1.0 / n))[0].penalties[0]
    assert small == strengths


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (
            SRTRegressor,
            {"l2": "none"},
            "l2 must be 'auto', 'paper', 'paper, sum', a number >= 0 or a pair of them; got 'none'",
        ),
        (SRTRegressor, {"l2": (1.0, -1.0)}, "l2 must be"),
        (SRTRegressor, {"init": "best"}, "init must be one of .*; got 'best'"),
        (
            SRTRegressor,
            {"init": HingeInit},
            r"init must be one of \['auto', 'hinge', 'cluster', 'cart', 'random'\], an initial tree of `solvers`",
        ),
        (SRTRegressor, {"k0": 1.5}, r"k0 must be an integer or None; got 1\.5"),
        (SRTRegressor, {"n_init": 0}, "n_init must be an integer >= 1; got 0"),
        (SRTRegressor, {"max_depth": 0}, "max_depth must be an integer >= 1 or 'cv'; got 0"),
        (ORRTRegressor, {"method": "Newton"}, "method must be one of .*; got 'Newton'"),
        (ORRTRegressor, {"init": "hinge"}, "init must be a Tree or None; got 'hinge'"),
    ],
)
def test_bad_options_are_one_clear_sentence(kind, options, message):
    with pytest.raises(ValueError, match=message):
        kind(**options).fit(np.zeros((5, 2)), np.arange(5.0))


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


@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_srt_of_classes(leaves):
    X, y = load_iris(return_X_y=True)
    names = np.array(["s", "ve", "vi"])[y]
    model = SRTClassifier(2, leaves=leaves, random_state=0).fit(X[::2], names[::2])
    assert model.score(X[1::2], names[1::2]) > 0.93
    problem, _scaling = model.state(X[::2], names[::2])
    own = model.predict_proba(X[::2])[np.arange(75), y[::2]]
    expected = -np.log(np.maximum(own, 1e-6)).mean() + problem.penalty(model.result_.tree)
    assert model.result_.objective == pytest.approx(expected, rel=1e-6)
    assert list(model.classes_) == ["s", "ve", "vi"]


def test_orrt_of_classes_minimises_the_log_loss_of_the_mixture():
    X, y = load_iris(return_X_y=True)
    names = np.array(["s", "ve", "vi"])[y]
    model = ORRTClassifier(2, random_state=0).fit(X[::2], names[::2])
    assert model.score(X[1::2], names[1::2]) > 0.93
    P = model.predict_proba(X[1::2])
    assert P.sum(axis=1) == pytest.approx(np.ones(75))
    share, scores = model.leaf_proba(X[1::2]), model.tree_
    by_hand = np.zeros((75, 3))
    for leaf in range(scores.n_leaves):
        z = scores.values[leaf] + X[1::2] @ scores.coefs[leaf].T
        e = np.exp(z - z.max(axis=1, keepdims=True))
        by_hand += share[:, leaf, None] * e / e.sum(axis=1, keepdims=True)
    assert by_hand == pytest.approx(P, abs=1e-9)
    problem, _scaling = model.state(X[::2], names[::2])
    own = model.predict_proba(X[::2])[np.arange(75), y[::2]]
    assert model.result_.objective == pytest.approx(-np.log(own).mean() + problem.penalty(model.result_.tree), rel=1e-6)
