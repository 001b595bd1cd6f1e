"""RADDT, DTSemNet and HRT against what their papers say of them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.base import is_classifier
from sklearn.datasets import make_friedman1

import solvers
from opttree import DTSemNetClassifier, DTSemNetRegressor, HRTRegressor, RADDTClassifier, RADDTRegressor, Tree
from opttree.kernels.records import Rows
from opttree.kernels.smooth import rectified
from opttree.problems import L1, SmoothTreeProblem, TreeProblem
from solvers import HRT, RADDT, DTSemNet, Termination, solve
from solvers.rectified.dtsemnet import Training
from solvers.rectified.hrt import Hinge, median_cut
from solvers.rectified.raddt import Combinations, Ladder, Units, centred
from tests.conftest import ends_in_time
from tests.estimators import solver_of


def smooth(loss="squared", leaves="constant", depth=3, n=50):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = rng.normal(size=(n, 2)) if loss == "squared" else rng.integers(0, 3, n)
    weight = rng.uniform(0.5, 2.0, n)
    made = SmoothTreeProblem(TreeProblem(X, y, depth=depth, leaves=leaves, loss=loss, sample_weight=weight))
    theta = made.random_theta(rng)
    return made, theta + 0.1 * rng.normal(size=theta.size)


def data(made):
    return Rows(made.problem.X, made.problem.Y.astype(float), made.problem.w), made.form


def by_definition(made, theta, alpha):
    """RADDT's objective, leaf by leaf."""
    A, b, _values, _coefs = made.parts(theta)
    tree, problem = made.harden(theta), made.problem
    z = problem.X @ A.T - b
    n_branches = b.size
    U = np.zeros((problem.n_samples, 2 * n_branches + 1))
    for t in range(n_branches):
        U[:, 2 * t + 1] = U[:, t] + np.maximum(z[:, t], 0.0)
        U[:, 2 * t + 2] = U[:, t] + np.maximum(-z[:, t], 0.0)
    U = U[:, n_branches:]
    assert np.array_equal(U.argmin(axis=1), problem.leaves_of(tree) - n_branches)
    assert (np.sum(U == 0.0, axis=1) == 1).all()
    P = np.exp(-alpha * U)
    P /= P.sum(axis=1, keepdims=True)
    total = 0.0
    for leaf in range(n_branches + 1):
        alone = tree.subtree(n_branches + leaf)
        if problem.is_classification:
            losses = -np.log(alone.predict_proba(problem.X)[np.arange(len(P)), problem.Y[:, 0].astype(int)])
        else:
            losses = np.sum((alone.outputs(problem.X) - problem.Y) ** 2, axis=1)
        total += np.sum(problem.w * P[:, leaf] * losses)
    return total


@pytest.mark.parametrize("leaves", ["constant", "linear"])
@pytest.mark.parametrize("loss", ["squared", "log"])
def test_raddts_objective_and_gradient(loss, leaves):
    made, theta = smooth(loss, leaves)
    gradient = np.empty_like(theta)

    def value(at):
        return rectified.relaxed(at, 3.0, 0.0, *data(made), np.empty_like(at))[0]

    objective, hard = rectified.relaxed(theta, 3.0, 0.0, *data(made), gradient)
    assert objective == pytest.approx(by_definition(made, theta, 3.0), rel=1e-5)  # negligible leaves are skipped
    assert gradient == pytest.approx(approx_fprime(theta, value, 1e-7), abs=1e-5)
    tree = made.harden(theta)
    expected = made.problem.mean_loss(made.problem.fit_leaves(tree) if leaves == "constant" else tree)
    assert hard == pytest.approx(expected)
    steep, _hard = rectified.relaxed(theta, 1e7, 0.0, *data(made), gradient)
    assert steep == pytest.approx(made.problem.mean_loss(tree), rel=1e-3)


def test_small_weights_count_as_zero():
    made, theta = smooth()
    gradient = np.empty_like(theta)
    alone = rectified.relaxed(theta, 1.0, 0.99, *data(made), gradient)[0]
    assert alone < rectified.relaxed(theta, 1.0, 0.0, *data(made), gradient)[0]


def test_dtsemnets_classes_and_gradient():
    made, theta = smooth("log")
    A, b, _values, _coefs = made.parts(theta)
    kinds = np.arange(8) % 3
    rows = np.arange(50)
    gradient = np.empty_like(theta)

    def value(at):
        return rectified.semantic(at, rows, *data(made), np.empty_like(at), kinds)

    rectified.semantic(theta, rows, *data(made), gradient, kinds)
    assert gradient == pytest.approx(approx_fprime(theta, value, 1e-7), abs=1e-5)
    z = made.problem.X @ A.T - b
    S = np.abs(z).sum(axis=1, keepdims=True) * np.ones(15)  # of other branches both sides count
    for t in range(7):
        S[:, 2 * t + 1] = S[:, t] - np.maximum(z[:, t], 0.0)
        S[:, 2 * t + 2] = S[:, t] - np.maximum(-z[:, t], 0.0)
    assert np.array_equal(S[:, 7:].argmax(axis=1) + 7, made.problem.leaves_of(made.harden(theta)))
    top = np.stack([S[:, 7:][:, kinds == k].max(axis=1) for k in range(3)], axis=1)
    log_share = top - np.log(np.exp(top).sum(axis=1, keepdims=True))
    own = log_share[np.arange(50), made.problem.Y[:, 0].astype(int)]
    assert value(theta) == pytest.approx(-np.sum(made.problem.w * own))


def test_dtsemnets_regression_is_the_hard_tree_and_straight_through():
    made, theta = smooth("squared", "linear", depth=2)
    rows, kinds = np.arange(50), np.zeros(4, np.int64)
    gradient = np.empty_like(theta)
    loss = rectified.semantic(theta, rows, *data(made), gradient, kinds)
    assert loss == pytest.approx(made.problem.mean_loss(made.harden(theta)))

    def of_leaves(at):
        return rectified.semantic(at, rows, *data(made), np.empty_like(at), kinds)

    n_splits = 3 * 4
    assert gradient[n_splits:] == pytest.approx(approx_fprime(theta, of_leaves, 1e-7)[n_splits:], abs=1e-5)
    tree, X, Y = made.harden(theta), made.problem.X, made.problem.Y
    outputs = np.stack([tree.subtree(3 + leaf).outputs(X) for leaf in range(4)], axis=1)
    own = made.problem.leaves_of(tree) - 3
    slope = 2.0 * (outputs[rows, own] - Y)  # of the loss by the answer, where the leaf was chosen

    def chosen_softly(at):
        A, b, _values, _coefs = made.parts(at)
        z = X @ A.T - b
        U = np.zeros((50, 7))
        for t in range(3):
            U[:, 2 * t + 1] = U[:, t] + np.maximum(z[:, t], 0.0)
            U[:, 2 * t + 2] = U[:, t] + np.maximum(-z[:, t], 0.0)
        P = np.exp(-U[:, 3:]) / np.exp(-U[:, 3:]).sum(axis=1, keepdims=True)
        return np.sum(made.problem.w[:, None] * slope * np.einsum("nl,nlk->nk", P, outputs))

    assert gradient[:n_splits] == pytest.approx(approx_fprime(theta, chosen_softly, 1e-7)[:n_splits], abs=1e-5)


def adam(theta, gradients, rates, decay=0.0):
    """AdamW as its paper states it."""
    m, v = np.zeros_like(theta), np.zeros_like(theta)
    for k, rate in enumerate(rates, 1):
        g = gradients(theta, k - 1)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        theta = theta * (1.0 - rate * decay) - rate * (m / (1 - 0.9**k)) / (np.sqrt(v / (1 - 0.999**k)) + 1e-8)
    return theta


@pytest.mark.parametrize("blocks", [1, 3])
def test_raddts_run_is_adamw_and_keeps_the_best_tree(blocks):
    made, theta = smooth(depth=2)
    run = Ladder(RADDT(epochs=20, learning_rate=0.1, weight_decay=0.3), made, theta.copy())
    run.blocks = blocks
    begin, alpha = run.theta.copy(), run.scales[0]
    seen = []

    def gradients(at, _epoch):
        gradient = np.empty_like(at)
        seen.append(rectified.relaxed(at, alpha, 0.0, *data(made), gradient)[1])
        return gradient

    end = adam(begin, gradients, run.options.rates(), 0.3)
    gradients(end, 20)  # the last tree is judged, too
    run.advance(7)
    run.advance(21 * blocks - 7 - 1)
    assert run.theta == pytest.approx(end, abs=1e-6)
    assert run.unfinished()[0] == 1
    assert run.least == pytest.approx(min(seen[:-1]))
    run.advance(1)
    (stage, tree), *_ = run.taken()
    assert stage == run.stage == 1
    assert made.problem.mean_loss(made.problem.fit_leaves(tree)) == pytest.approx(min(seen))


def test_dtsemnets_epoch_is_adam_on_batches():
    made, theta = smooth("log", depth=2)
    options = DTSemNet(epochs=1, batch_size=20, learning_rate=0.05, dtype="float64")
    run = Training(options, made, theta.copy(), np.random.default_rng(3))
    order = np.random.default_rng(3).permutation(50)

    def gradients(at, step):
        gradient = np.empty_like(at)
        rectified.semantic(at, order[20 * step : 20 * step + 20], *data(made), gradient, np.arange(4) % 3)
        return gradient

    run.advance(1)
    run.advance(5)
    assert run.remaining == 0
    assert run.theta == pytest.approx(adam(theta, gradients, [0.05] * 3), abs=1e-12)


@pytest.mark.parametrize(
    "solver", [RADDT(epochs=10**6, n_starts=1, scales=(60.0, 60.0)), DTSemNet(epochs=10**6, n_starts=1)]
)
def test_a_time_limit_keeps_the_best_tree_of_a_run_that_goes_on(solver):
    X, y = make_friedman1(600, noise=1, random_state=0)
    problem = TreeProblem((X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std(), depth=3)
    solve(problem, replace(solver, epochs=1), random_state=0)  # compiled
    found = solve(problem, solver, random_state=0, time_limit=2.0)
    assert found.termination is Termination.TIME_LIMIT
    assert found.objective < 0.95 * solve(problem, solvers.CartInit()).objective


@pytest.mark.parametrize("model", [RADDTRegressor(12), DTSemNetRegressor(12)], ids=repr)
def test_a_time_limit_is_kept_by_deep_trees(model):
    X, y = make_friedman1(4000, random_state=0)
    type(model)(12, epochs=1, n_starts=1).fit(X[:100], y[:100])  # compiled
    ends_in_time(lambda: model.set_params(time_limit=0.5).fit(X, y), 1.8)


@pytest.mark.parametrize("solver", [RADDT(n_scales=1, epochs=1), DTSemNet(epochs=1)], ids=repr)
def test_the_first_start_is_the_given_tree_and_others_are_random(solver):
    X, y = make_friedman1(300, random_state=0)
    problem = TreeProblem((X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std(), depth=3)
    start = solve(problem, RADDT(epochs=50), random_state=1).tree
    still = replace(solver, n_starts=3, learning_rate=1e-9)
    rows = solve(problem, still, start=start, random_state=0).trace.rows
    first, second, third = (next(row for row in rows if row.phase.startswith(f"start {k}")) for k in (1, 2, 3))
    assert first.objective == pytest.approx(problem.objective(start), rel=1e-3)
    if isinstance(solver, RADDT):  # the same tree of other features
        assert second.objective == pytest.approx(first.objective, rel=1e-3)
    assert third.objective > 1.5 * first.objective


def test_thresholds_move_to_the_middle_of_the_gap():
    made, theta = smooth(depth=2)
    moved = centred(made, theta)
    before, after = made.harden(theta), made.harden(moved)
    assert np.array_equal(made.problem.leaves_of(before), made.problem.leaves_of(after))
    z = made.problem.X @ after.A[0] - after.b[0]
    assert z[z > 0].min() == pytest.approx(-z[z <= 0].max())


def test_raddt_finds_a_hidden_tree():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(400, 2))
    y = np.where(X @ [1.0, 1.0] > 0, np.where(X @ [1.0, -1.0] > 0, 3.0, 2.0), np.where(X @ [1.0, -0.5] > 0.2, 1.0, 0.0))
    found = solve(TreeProblem(X, y, depth=2), RADDT(), random_state=0)
    greedy = solve(TreeProblem(X, y, depth=2), solvers.CartInit(), random_state=0)
    assert found.objective < 0.05 * y.var() < greedy.objective


def test_features_that_nearly_agree_are_told_apart():
    """Gradients hardly move their weights: the second start works on uncorrelated combinations of them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(500, 1)) + 1e-3 * rng.normal(size=(500, 5))
    y = np.where(X[:, 0] > X[:, 1], 1.0, 0.0)
    problem = TreeProblem(X, y, depth=2)
    found, plain = (
        solve(problem, RADDT(decorrelate=several, epochs=100), random_state=0).objective / y.var()
        for several in (True, False)
    )
    assert found < 0.1
    assert plain > 0.5
    assert RADDT.paper().decorrelate is False


def test_a_tree_of_combinations_is_the_tree_of_the_features():
    X, y = make_friedman1(200, random_state=0)
    problem = TreeProblem(X * np.arange(1.0, 11.0), y, depth=2, leaves="linear", sample_weight=np.arange(200.0) % 4)
    units = Units.from_problem(problem)
    combined = Combinations.from_problem(units.stated(problem), units)
    tree = solve(problem, solvers.TAO(), random_state=0).tree
    moved, stated = combined.moved(units.scale(tree)), combined.stated(units.stated(problem))
    correlation = np.cov(stated.X.T, aweights=stated.w)
    assert np.abs(correlation - np.diag(np.diag(correlation))).max() < 1e-9
    np.testing.assert_allclose(combined.unscale(moved).outputs(problem.X), tree.outputs(problem.X), rtol=1e-9)
    np.testing.assert_allclose(moved.outputs(stated.X), units.scale(tree).outputs(units.stated(problem).X), rtol=1e-7)


def test_the_presets_are_the_authors():
    paper = RADDT.paper()
    assert (paper.n_starts, paper.epochs, paper.n_scales, paper.learning_rate) == (10, 3000, 5, 0.01)
    assert paper.ladder(2)[[0, -1]] == pytest.approx([2.0, 100.0])
    assert paper.ladder(8)[[0, -1]] == pytest.approx([2.0, 170.0])
    assert paper.rates()[10] == pytest.approx(0.01)
    assert paper.rates().size == 3000
    assert paper.rates()[-1] < 1e-5
    assert solver_of(RADDTRegressor(2, preset="paper"), None) == paper


def test_raddt_knows_no_units():
    X, y = make_friedman1(200, random_state=0)
    one = solve(TreeProblem(X, y, depth=2), RADDT(epochs=30, dtype="float64"), random_state=0)
    other = solve(TreeProblem(1e6 * X + 3e6, 1e-5 * y, depth=2), RADDT(epochs=30, dtype="float64"), random_state=0)
    assert other.objective == pytest.approx(1e-10 * one.objective, rel=1e-6)


def test_dtsemnet_learns_classes_and_needs_leaves_for_them():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > X[:, 0])
    model = DTSemNetClassifier(3, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.95
    with pytest.raises(ValueError, match="its 2 leaves are fewer than its 3 classes"):
        DTSemNetClassifier(1).fit(X, y)


def test_the_penalty_of_dtsemnet_makes_weights_small():
    X, y = make_friedman1(300, n_features=10, noise=0.1, random_state=0)
    small = [
        np.mean(np.abs(DTSemNetRegressor(2, split_penalty=s, random_state=0).fit(X, y).tree_.A) < 1e-2)
        for s in (0.0, 0.02)
    ]
    assert small[1] > small[0]
    problem = TreeProblem(X, y, depth=2, penalties=L1(splits=0.01))
    assert DTSemNet().refusal(problem) is None


def test_hrt_finds_a_hinge():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.maximum(X @ [1.0, 2.0, 0.0], X @ [-1.0, 0.5, 1.0] - 0.3)
    for sign in (1.0, -1.0):
        model = HRTRegressor(1, ridge=1e-8).fit(X, sign * y)
        assert model.score(X, sign * y) > 1.0 - 1e-6
        assert model.tree_.n_branches == 1


def test_steps_of_hrt_fall():
    X, y = make_friedman1(300, random_state=0)
    problem = TreeProblem(X, y, depth=1, leaves="linear")
    rows = np.arange(300, dtype=np.int32)
    hinge = Hinge(HRT(), problem, rows, 1.0, 11)
    assert hinge.begin(median_cut(problem, rows, 11))
    errors = [hinge.error]
    while hinge.move():
        errors.append(hinge.error)
    assert len(errors) > 2
    assert (np.diff(errors) < 0.0).all()


def test_hrt_keeps_its_best_step():
    X, y = make_friedman1(300, random_state=11, noise=1)
    problem = TreeProblem((X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std(), depth=1, leaves="linear")
    rows = np.arange(300, dtype=np.int32)
    for step in (1.0, 0.5):
        hinge = Hinge(HRT(step=step), problem, rows, 1.0, 11)
        assert hinge.begin(median_cut(problem, rows, 11))
        errors, functions = [hinge.error], [hinge.functions]
        while len(errors) <= 100 and hinge.move():
            errors.append(hinge.error)
            functions.append(hinge.functions)
        assert hinge.least == min(errors)
        assert np.array_equal(hinge.best, functions[int(np.argmin(errors))])


def test_half_steps_of_hrt_settle():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    problem = TreeProblem(X, np.abs(X[:, 0] + 0.3) + 0.1 * rng.normal(size=300), depth=1, leaves="linear")
    rows = np.arange(300, dtype=np.int32)
    halves, whole = (Hinge(HRT(step=step), problem, rows, 1.0, 11) for step in (0.5, 1.0))
    for hinge in (halves, whole):
        assert hinge.begin(median_cut(problem, rows, 11))
        assert sum(iter(hinge.move, False)) < 60
    assert halves.least == pytest.approx(whole.least, rel=1e-4)


def test_hrt_counts_weights_as_repeated_rows_and_knows_no_units_of_them():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.abs(X @ [1, 2, 0]) + 0.5 * rng.normal(size=60)
    for ridge in (0.01, 1.0):
        model = HRTRegressor(2, ridge=ridge)
        plain, light = model.fit(X, y).predict(X), model.fit(X, y, np.full(60, 1e-6)).predict(X)
        assert light == pytest.approx(plain)
        few = HRTRegressor(2, ridge=ridge, min_samples_leaf=15)  # of rows, which repetitions are
        thrice = HRTRegressor(2, ridge=ridge, min_samples_leaf=45)
        weighted, repeated = few.fit(X, y, np.full(60, 3.0)).predict(X), thrice.fit(np.tile(X, (3, 1)), np.tile(y, 3))
        assert repeated.predict(X) == pytest.approx(weighted)


def test_hrt_begins_with_a_feature_whose_median_divides():
    X = np.random.default_rng(0).normal(size=(500, 3))
    X[:, 0] = 0.0
    X[:3, 0] = 1.0
    for table in (X, X[:, ::-1]):
        assert HRTRegressor(4).fit(table, np.abs(X[:, 1])).score(table, np.abs(X[:, 1])) > 0.999


def test_hrt_knows_no_units_of_y():
    X, y = make_friedman1(300, random_state=0)
    one, tiny = (solve(TreeProblem(X, k * y, depth=3, leaves="linear"), HRT()).objective for k in (1.0, 1e-9))
    assert 1e18 * tiny == pytest.approx(one)


def test_hrt_keeps_what_has_grown_and_the_start():
    X, y = make_friedman1(4000, random_state=0)
    problem = TreeProblem((X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std(), depth=9, leaves="linear")
    whole = solve(problem, HRT())
    part = solve(problem, HRT(), time_limit=0.3 * whole.seconds)
    assert part.termination is Termination.TIME_LIMIT
    assert 2 <= part.tree.n_leaves < whole.tree.n_leaves
    again = solve(problem, HRT(ridge=1e3), start=whole.tree)
    assert again.objective <= whole.objective


def test_a_leaf_of_hrt_is_as_little_clipped_as_its_trees():
    X, y = make_friedman1(300, random_state=0)
    for clip in (False, True):
        leaf = HRTRegressor(4, tolerance=10.0, clip=clip).fit(X, y)
        assert leaf.get_n_leaves() == 1
        assert (leaf.tree_.lower is None) == (not clip)


def test_the_depth_search_of_dtsemnet_begins_where_classes_have_leaves():
    X, y = make_friedman1(200, random_state=0)
    labels = np.digitize(y, np.quantile(y, [0.25, 0.5, 0.7, 0.8]))
    model = DTSemNetClassifier("cv", epochs=3, random_state=0).fit(X, labels)
    assert model.cv_results_["depth"][0] == 3


def test_presets_of_raddt_heed_what_is_given():
    made = solver_of(RADDTRegressor(2, preset="paper", n_starts=1, epochs=5, n_scales=2, dtype="float64"), None)
    assert made == replace(RADDT.paper(), n_starts=1, epochs=5, n_scales=2, dtype="float64")
    assert solver_of(RADDTRegressor(2), None) == RADDT()
    with pytest.raises(ValueError, match=r"scales must be None or two numbers above 0, .* that do not fall"):
        RADDT(scales=(100.0, 2.0))


def test_a_node_without_a_hinge_is_cut_at_the_median():
    X = np.arange(24.0)[:, None]
    y = np.where(np.arange(24) % 2, 1.0, -1.0)
    tree = solve(TreeProblem(X, y, depth=1, leaves="linear"), HRT(min_rows=12)).tree
    assert tree.n_branches == 1
    assert tree.b[0] / tree.A[0, 0] == pytest.approx(11.5)


def test_hrt_says_what_it_is_not_for():
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30.0)
    for options in ({"splits": "axis"}, {"leaves": "constant"}, {"loss": "absolute"}):
        problem = TreeProblem(X, y, **{"depth": 1, "leaves": "linear", **options})
        assert HRT().refusal(problem) == "hinges are oblique splits between linear leaves under squared loss"
    assert HRT().refusal(TreeProblem(X, np.c_[y, y], depth=1, leaves="linear")) == "a hinge is fitted to one output"


def test_tolerance_stops_the_growth():
    X, y = make_friedman1(300, random_state=0)
    sizes = [HRTRegressor(4, tolerance=t).fit(X, y).get_n_leaves() for t in (0.0, 0.3, 10.0)]
    assert sizes[0] > sizes[1] > sizes[2] == 1


@pytest.mark.parametrize(
    "model", [RADDTRegressor(3), RADDTClassifier(3), DTSemNetRegressor(3), DTSemNetClassifier(3)], ids=repr
)
def test_a_tree_can_be_the_start(model):
    X, y = make_friedman1(200, random_state=0)
    labels = y > np.median(y)
    target = labels if is_classifier(model) else y
    first = model.set_params(random_state=0, leaf_shrinkage=0.0).fit(X, target)
    assert isinstance(first.tree_, Tree)
    again = type(model)(3, init=first.tree_, epochs=2, n_starts=1, random_state=0).fit(X, target)
    assert again.result_.objective <= first.result_.objective + 1e-9
