"""Papers' presets: one name on solvers and estimators, their printed values, and the parts that only they use."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_iris, make_friedman1
from sklearn.linear_model import Lasso, LinearRegression
from sklearn.preprocessing import minmax_scale

import opttree
from opttree import L1, L2, SmoothTreeProblem, SubtreeProblem, Tree, TreeProblem
from opttree.estimators import selection
from opttree.kernels.passes import alternation
from solvers import (
    GET,
    NODEC,
    ORRT,
    SDTR,
    TAO,
    CartInit,
    ClusterInit,
    GradTree,
    LocalSearch,
    RandomInit,
    SubtreePolish,
    TAOForest,
    solve,
)
from solvers.ensembles.growth import Shared, grow
from solvers.soft import printed_ridge
from solvers.soft.nodec import slsqp

SOLVERS = {
    "GET": GET.paper(2, epochs=30),
    "GET-Linear": GET.paper(2, leaves="linear", epochs=30),
    "GradTree": GradTree.paper(epochs=20),
    "TAO": TAO.paper(),
    "TAOForest": TAOForest.paper(4),
    "NODEC": NODEC.paper(2),
    "ORRT": ORRT.paper(),
    "SDTR": SDTR.paper(),
    "LocalSearch": LocalSearch.paper(2),
}
ESTIMATORS = {
    "GETRegressor": {"n_starts": 1},
    "GETClassifier": {"n_starts": 1},
    "GradTreeClassifier": {"epochs": 20},
    "GradTreeRegressor": {"epochs": 400},
    "TAORegressor": {"leaves": "linear"},
    "TAOClassifier": {},
    "TAOForestRegressor": {"n_estimators": 4, "max_depth": 3},
    "TAOForestClassifier": {"n_estimators": 4, "max_depth": 3},
    "SRTRegressor": {"max_iter": 2},
    "SRTClassifier": {"max_iter": 2},
    "ORRTRegressor": {"max_iter": 5},
    "ORRTClassifier": {"max_iter": 5},
    "SDTRRegressor": {"max_batches": 2000},
    "SDTRClassifier": {"max_batches": 50},
    "ORTRegressor": {"leaves": "linear", "n_init": 2},
    "OCTClassifier": {"n_init": 2},
}


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(240, n_features=6, noise=0.5, random_state=0)
    return X, y


def regression(friedman, **options):
    X, y = friedman
    X = X - X.mean(axis=0)
    return TreeProblem(X / X.std(axis=0), (y - y.mean()) / y.std(), **options)


@pytest.mark.parametrize("name", SOLVERS)
def test_every_preset_solves(name, friedman):
    axis = name in ("GradTree", "LocalSearch")
    leaves = "linear" if name in ("GET-Linear", "TAO", "TAOForest", "NODEC", "ORRT", "LocalSearch") else "constant"
    problem = regression(friedman, depth=2, splits="axis" if axis else "oblique", leaves=leaves)
    found = solve(problem, SOLVERS[name], random_state=0)
    assert problem.objective(found.tree) < problem.objective(problem.best_constant())


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_has_the_preset(name, friedman):
    if name == "GradTreeClassifier":
        pytest.importorskip("imblearn")
    X, y = load_iris(return_X_y=True) if name.endswith("Classifier") else friedman
    depth = {} if "Forest" in name else {"max_depth": 2}
    kind = getattr(opttree, name)
    model = kind(preset="paper", random_state=0, **depth, **ESTIMATORS[name]).fit(X, y)
    assert model.score(X, y) > (0.6 if name.endswith("Classifier") else 0.1)
    with pytest.raises(ValueError, match="preset must be one of"):
        kind(preset="printed").fit(X, y)


def test_the_printed_values():
    get, linear = GET.paper(), GET.paper(leaves="linear")
    assert (get.n_starts, get.anneal.epochs, get.anneal.optimizer.learning_rate) == (10, 3000, 0.01)
    assert get.anneal.scale_ranges == ((5.0, 25.0), (50.0, 150.0))
    assert isinstance(get.polish, SubtreePolish)
    assert linear.polish is None
    assert (linear.anneal.clip, linear.anneal.min_linear_rows, linear.portfolio, linear.refine) == (False, 1, (), None)
    assert GET.paper(polish_starts=10).polish.n_starts == 10
    tao = TAO.paper()
    assert (tao.max_iter, tao.accept, tao.keep, tao.clip, tao.constant_iterations) == (40, "always", "last", False, 0)
    assert (tao.split_lasso, tao.leaf_lasso, tao.min_linear_rows, tao.init) == (0.01, 0.01, 1, RandomInit())
    forest = TAOForest.paper()
    assert (forest.n_trees, forest.sample, forest.max_iter, forest.kind) == (30, 0.9, 40, "oblique")
    assert (forest.split_lasso, forest.leaf_lasso, forest.relaxed, forest.clip, forest.ridge) == (
        0.01, 0.01, False, False, 0.0,
    )  # fmt: skip
    nodec = NODEC.paper()
    assert (nodec.max_iter, nodec.imbalance, nodec.decay, nodec.k0) == (10, (0.1, 0.3, 0.4), 0.8, None)
    assert (nodec.branch_solver, nodec.steepness, nodec.clip, nodec.joint_iterations) == ("SLSQP", None, False, 0)
    assert isinstance(nodec.init, ClusterInit)
    assert nodec.init.routing == "clusters"
    orrt = ORRT.paper()
    assert (orrt.method, orrt.per_feature, orrt.max_iter, orrt.tol) == ("SLSQP", True, 100, 1e-6)
    sdtr = SDTR.paper()
    assert (sdtr.aggregation, sdtr.beta, sdtr.patience, sdtr.batch_size, sdtr.reweight) == (
        "expected", 1.5, 1000, 1024, True,
    )  # fmt: skip
    assert {sdtr.path_penalty, sdtr.l1} <= {0.1, 0.05, 0.01, 0.005, 0.001}
    assert SDTR.paper(256).aggregation == "mixture"
    gradtree = GradTree.paper()
    assert (gradtree.patience, gradtree.n_starts, gradtree.average, gradtree.validation, gradtree.stratify) == (
        200, 3, 5, 0.2, True,
    )  # fmt: skip
    assert not gradtree.refit
    local = LocalSearch.paper()
    assert (local.exact_levels, local.min_linear_rows) == (0, 1)


def test_options_of_an_estimator_win_over_the_preset(friedman):
    problem = regression(friedman, depth=2)
    free = opttree.SDTRRegressor(preset="paper")._solver(problem)
    assert (free.path_penalty, free.learning_rate) == (0.01, 1e-3)
    own = opttree.SDTRRegressor(preset="paper", path_penalty=0.3, learning_rate=0.003)._solver(problem)
    assert (own.path_penalty, own.learning_rate) == (0.3, 0.003)  # the defaults of the other preset, stated
    usual = opttree.SDTRRegressor()._solver(problem)
    assert (usual.path_penalty, usual.l1, usual.learning_rate) == (0.3, 0.005, 0.003)
    gradtree = opttree.GradTreeClassifier()._solver(regression(friedman, depth=2, splits="axis"))
    assert (gradtree.learning_rates, gradtree.epochs, gradtree.batch_size) == ((0.01, 0.05, 0.05), 1000, 512)
    srt = opttree.SRTRegressor()._solver(problem)
    assert (srt.joint_iterations, srt.steepness, srt.clip, srt.branch_solver) == (50, 1.0, True, "L-BFGS")
    kept = opttree.SRTRegressor(preset="paper", steepness=2.0, clip=True, joint_iterations=5)._solver(problem)
    assert (kept.joint_iterations, kept.steepness, kept.clip) == (5, 2.0, True)


@pytest.mark.parametrize("option", [{"split_penalty": 1e-3}, {"l1_ratio": 0.5}])
@pytest.mark.parametrize("name", ["TAORegressor", "TAOForestRegressor"])
def test_a_penalty_beside_that_of_the_preset_is_refused(name, option, friedman):
    ((given, _value),) = option.items()
    with pytest.raises(ValueError, match=f"{given} must be left at its default for preset='paper'"):
        getattr(opttree, name)(preset="paper", **option).fit(*friedman)


# ---- TAO -------------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("relaxed", [False, True])
def test_leaves_of_a_forests_trees_are_lassos_or_relaxed_ones(relaxed, friedman):
    problem = regression(friedman, depth=1, leaves="linear")
    options = TAOForest(1, "oblique", sample=1.0, ridge=0.0, leaf_lasso=0.05, relaxed=relaxed, clip=False, max_iter=4)
    grown = grow(Shared.of(problem, options, (1e-9,)), ("oblique", np.random.default_rng(0)))
    tree = grown.tree(0, None)
    for number in range(tree.n_leaves):
        rows = grown.leaf == number
        model = lasso_of(problem.X[rows], problem.y[rows], 0.05)
        assert np.count_nonzero(model.coef_) in range(1, problem.n_features)
        np.testing.assert_array_equal(tree.coefs[number, 0] != 0.0, model.coef_ != 0.0)
        expected = model.coef_.copy()
        if relaxed:
            some = model.coef_ != 0.0
            expected[some] = LinearRegression().fit(problem.X[rows][:, some], problem.y[rows]).coef_
        np.testing.assert_allclose(tree.coefs[number, 0], expected, atol=2e-4)


def test_a_lasso_of_the_statement_makes_a_forests_leaves_sparse(friedman):
    sizes = []
    for strength in (0.0, 1e-3, 1e-2):
        penalties = (L1(leaves=strength),) if strength else ()
        problem = regression(friedman, depth=2, leaves="linear", penalties=penalties)
        options = {"kind": "oblique", "shrinkage": 1.0, "leaf_lasso": 0.0, "relaxed": False}
        forest = solve(problem, TAOForest(3, **options), random_state=0).tree
        sizes.append(sum(np.count_nonzero(tree.coefs) for tree in forest.trees))
    assert sizes[0] > sizes[1] > sizes[2]


def test_the_lasso_of_splits_makes_trees_smaller(friedman):
    problem = regression(friedman, depth=3, leaves="linear")
    sizes = [
        solve(problem, TAOForest(4, "oblique", split_lasso=strength, leaf_lasso=0.0), random_state=0).tree.n_parameters
        for strength in (0.0, 0.01, 0.1)
    ]
    assert sizes[0] > sizes[1] > sizes[2]
    weights = solve(problem, TAOForest.paper(1), random_state=0).tree.trees[0].A
    np.testing.assert_allclose(np.linalg.norm(weights, axis=1), 1.0, atol=1e-6)  # unit length, by the single precision
    small, large = (
        np.count_nonzero(solve(problem, TAO(split_lasso=strength), random_state=0).tree.A) for strength in (0.2, 0.001)
    )
    assert small < large


def test_sparse_leaves_are_chosen_where_they_cost_nothing(friedman):
    X, y = friedman
    model = opttree.TAOForestRegressor(20, max_depth=2, kind="oblique", random_state=0).fit(X, y)
    dense = opttree.TAOForestRegressor(20, max_depth=2, kind="oblique", leaf_lasso=0.0, random_state=0).fit(X, y)
    assert model.leaf_lasso_ in (0.0, 0.003, 0.01, 0.03)
    assert model.oob_loss_ <= 1.005 * dense.oob_loss_ * (1 + 1e-9)
    assert model.n_parameters_ <= dense.n_parameters_
    flat = opttree.TAOForestRegressor(8, kind="cart", random_state=0).fit(X, y)
    assert flat.leaf_lasso_ == 0.0


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


def test_penalties_in_place_of_the_statements(friedman):
    problem = regression(friedman, depth=2, leaves="linear", penalties=(L1(splits=0.1),))
    assert "split_lasso takes the place of" in TAO.paper().refusal(problem)
    problem = regression(friedman, depth=2, leaves="linear", penalties=(L2(leaves=0.1),))
    assert "leaf_lasso takes the place of" in TAO.paper().refusal(problem)
    axis = regression(friedman, depth=2, splits="axis", penalties=(L1(splits=0.1),))
    assert replace(TAO.paper(), node_solver=None).refusal(axis) is None  # they are for oblique splits


# ---- soft trees ------------------------------------------------------------------------------------------------------


def test_clusters_are_the_rows_of_the_leaves(friedman):
    problem = regression(friedman, depth=2, leaves="linear")
    init = ClusterInit(n_init=2, routing="clusters")
    tree, leaf = run(init._grown(problem, np.random.default_rng(0)))
    for number in range(tree.n_leaves):
        rows = leaf == number
        model = LinearRegression().fit(problem.X[rows], problem.y[rows])
        np.testing.assert_allclose(tree.coefs[number, 0], model.coef_, atol=1e-6)
    routed = problem.leaves_of(tree) - tree.n_branches
    assert np.mean(routed == leaf) > 0.9  # the hyperplanes separate most of them
    assert tree.n_leaves == 4


def run(generator):
    while True:
        try:
            next(generator)
        except StopIteration as stop:
            return stop.value


def test_slsqp_minimises_the_working_set(friedman):
    problem = regression(friedman, depth=2, leaves="linear", penalties=(L2(splits=1e-3, leaves=1e-3),))
    smooth = SmoothTreeProblem(problem)
    theta = smooth.soften(ClusterInit().build(problem, np.random.default_rng(0)), np.random.default_rng(0))
    part = SubtreeProblem(smooth, theta, 1, False, False)
    found = slsqp(part, part.start, 100, 1e-6, -1.0)
    best = minimize(part.value_and_grad, part.start, jac=True, method="L-BFGS-B").fun
    assert part.value_and_grad(found)[0] <= best + 0.02 * abs(best)
    np.testing.assert_array_equal(slsqp(part, part.start, 100, 1e-6, 1e9), part.start)


def test_strengths_of_soft_trees(friedman):
    X, y = friedman
    n, p = X.shape
    for l2, preset, expected in (
        ("paper", "default", printed_ridge(p, 3)),
        ("paper", "paper", printed_ridge(p, 3)),
        ("auto", "paper", (1 / (n * p * 7), 1 / (n * p * 8))),
        ("paper, sum", "default", (1 / (n * p * 7), 1 / (n * p * 8))),
        (0.0, "paper", (0.0, 0.0)),
    ):
        problem, _scaling = opttree.SRTRegressor(3, l2=l2, preset=preset).state(X, y)
        assert (problem.strength(L2, "splits"), problem.strength(L2, "leaves")) == pytest.approx(expected)
        np.testing.assert_allclose(problem.X, minmax_scale(X))
    assert printed_ridge(p, 3) == pytest.approx((p / 7, 1 / (p * 8)))
    problem, _scaling = opttree.ORRTRegressor(3, preset="paper").state(X, y)
    assert problem.penalties == (L2(),)
    np.testing.assert_allclose(problem.X, minmax_scale(X))


def test_weights_of_orrt_are_divided_by_the_number_of_features(friedman):
    problem = regression(friedman, depth=1, leaves="linear")
    smooth = SmoothTreeProblem(problem, aggregation="mixture")
    units = ORRT.paper()._units(smooth)
    A, b, values, coefs = smooth.unpack(units)
    np.testing.assert_array_equal(A, 1 / problem.n_features)
    assert all((part == 1.0).all() for part in (b, values, coefs))
    assert (ORRT()._units(smooth) == 1.0).all()
    first = []
    for flat in (False, True):
        seen = []
        solve(
            problem,
            ORRT(max_iter=1, per_feature=flat),
            random_state=0,
            callback=lambda step, _t, seen=seen: seen.append(step),
        )
        first.append(next(step.tree for step in seen if step.phase == "start"))
    np.testing.assert_allclose(first[1].A, first[0].A / problem.n_features)
    np.testing.assert_allclose(first[1].b, first[0].b)


# ---- GET, local search, depth --------------------------------------------------------------------------------------


def test_the_tree_of_the_lowest_loss_is_kept_under_a_penalty(friedman):
    X, y = friedman
    options = {"preset": "paper", "leaves": "linear", "n_starts": 3, "split_penalty": 0.001, "random_state": 0}
    model = opttree.GETRegressor(2, **options).fit(X, y)
    problem, scaling = model.state(X, y)
    steps = []
    solve(problem, model._solver(problem), random_state=0, callback=lambda step, _trace: steps.append(step.tree))
    losses = [problem.mean_loss(tree) for tree in steps]
    own = problem.mean_loss(scaling.scale(model.tree_))
    assert own == pytest.approx(min(losses), rel=1e-6)
    objectives = [problem.objective(tree) for tree in steps]
    assert np.argmin(objectives) != np.argmin(losses)  # the penalty would have chosen another one


def test_several_warm_starts_of_a_subtree_are_no_worse(friedman):
    problem = regression(friedman, depth=2)
    printed = GET.paper(1, epochs=60).polish
    one, four = (
        solve(problem, opts, random_state=0).objective
        for opts in (printed, GET.paper(1, epochs=60, polish_starts=4).polish)
    )
    start = solve(problem, printed, random_state=0).trace.rows[0].objective
    assert one <= start
    assert four <= start


def test_a_printed_depth_search_tries_every_depth(friedman, monkeypatch):
    X, _y = friedman
    monkeypatch.setattr(selection, "DEEPEST", 7)
    constant = np.where(X[:, 0] > 0.5, 1.0, 0.0)  # depth 1 is best, and no deeper one better
    model = opttree.TAORegressor("cv", cv=0.3, preset="paper", max_iter=2, random_state=0).fit(X, constant)
    assert model.cv_results_["depth"].tolist() == [1, 2, 3, 4, 5, 6, 7]
    usual = opttree.TAORegressor("cv", cv=0.3, max_iter=2, random_state=0).fit(X, constant)
    assert usual.cv_results_["depth"].tolist() == [1, 2, 3, 4, 5]


def test_small_leaves_of_local_search_are_linear(friedman):
    X, y = friedman
    few = TreeProblem(X[:24], y[:24], depth=1, leaves="linear", splits="axis", penalties=(L1(leaves=1e-3),))
    assert 2 * (few.n_features + 1) == 14
    printed = solve(few, LocalSearch.paper(2), random_state=0).tree
    usual = solve(few, LocalSearch(2, exact_levels=0), random_state=0).tree
    leaves = [np.bincount(few.leaves_of(tree) - tree.n_branches).min() for tree in (printed, usual)]
    assert few.objective(printed) <= few.objective(usual) + 1e-9
    assert leaves[0] < 14
    assert np.count_nonzero(printed.coefs[np.bincount(few.leaves_of(printed) - printed.n_branches).argmin()])


def test_kernels_fit_leaves_alone_without_a_ridge():
    """With a ridge of 0 a leaf does not see its parent; with a ridge it is drawn towards its parent."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = np.where(X[:, 0] > 0, 5.0, -5.0) + np.where(X[:, 1] > 0, X[:, 0], -X[:, 0]) + 0.1 * rng.normal(size=200)
    problem = TreeProblem(X, y, depth=2, leaves="linear")
    tree = Tree.complete(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), np.zeros(3), 1)
    leaf = tree.apply(X).astype(np.int64) - 3
    shared = Shared.of(problem, TAOForest(1), (1.0,))
    sample = alternation.Sample(shared.X, shared.Y, shared.blocks, shared.w)
    children = tree.branch_arrays[0]
    moments = alternation.node_moments(sample, leaf, children, True, 6)
    alone, drawn, parents = np.zeros((3, 4, 1, 3), np.float32)
    for ridge, own in ((0.0, alone), (30.0, drawn), (1e9, parents)):
        alternation.leaf_models(children, moments, alternation.Shrinkage(ridge, 0.0, 0.0, False), own)
    for number in range(4):
        rows = leaf == number
        model = LinearRegression().fit(X[rows], y[rows])
        np.testing.assert_allclose(alone[number, 0], [*model.coef_, model.intercept_], atol=2e-3)
    assert np.abs(drawn - alone).max() > 0.1
    np.testing.assert_allclose(parents, parents[:1].repeat(4, axis=0), atol=1e-2)  # all are the root's
