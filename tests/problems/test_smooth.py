"""The smooth formulation: gradients against differences, autograd and the array-API twin; skipping; trees."""

import doctest

import numpy as np
import pytest
from scipy.optimize import minimize

from opttree import L1, L2, L2Constants, SmoothTreeProblem, Tree, TreeProblem
from opttree.kernels.smooth import xp as twin
from opttree.problems.smooth import problem as smooth_problem
from opttree.runtime.threads import limited
from solvers import CartInit, HingeInit, solve
from tests.conftest import classification_problem, regression_problem

PENALTIES = (L1(splits=1e-3, leaves=2e-3), L2(splits=3e-3, leaves=1e-3))
OF_CONSTANTS = L2Constants(splits=2e-2, leaves=3e-2)


def statement(loss="squared", leaves="constant", n_outputs=1, depth=3, n=300, p=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    y = rng.integers(0, 3, n) if loss == "log" else rng.normal(size=(n, n_outputs))
    weight = rng.uniform(0.5, 2.0, n)
    penalties = (*PENALTIES, OF_CONSTANTS if loss == "squared" else L2Constants(splits=OF_CONSTANTS.splits))
    return TreeProblem(X, y, depth=depth, loss=loss, leaves=leaves, sample_weight=weight, penalties=penalties)


CASES = [
    pytest.param({"loss": loss, "leaves": leaves, "n_outputs": k, "depth": depth}, aggregation, id="-".join(
        map(str, (loss, leaves, k, depth, aggregation))
    ))
    for loss, outputs in (("squared", (1, 3)), ("log", (1,)))
    for leaves in ("constant", "linear")
    for k in outputs
    for depth in (1, 2, 5, 8)
    for aggregation in ("expected", "mixture")
]  # fmt: skip


def some_theta(smooth, seed=1):
    return np.random.default_rng(seed).normal(size=smooth.size)


def autograd(smooth, theta):
    torch = pytest.importorskip("torch")
    problem = smooth.problem
    X, w = torch.tensor(problem.X), torch.tensor(problem.w)
    leaf_theta = torch.tensor(theta, requires_grad=True)
    B, p, K = smooth.n_branches, problem.n_features, problem.n_outputs
    A, b, values, coefs = torch.split(leaf_theta, [B * p, B, (B + 1) * K, smooth.size - B * (p + 1) - (B + 1) * K])
    A, values = A.reshape(B, p), values.reshape(B + 1, K)
    S = torch.sigmoid(smooth.alpha * (b - X @ A.T))
    P = torch.ones(len(X), 1, dtype=X.dtype)
    for level in range(problem.depth):
        s = S[:, 2**level - 1 : 2 ** (level + 1) - 1]
        P = torch.stack([P * s, P * (1 - s)], dim=2).reshape(len(X), -1)
    f = values[None].expand(len(X), -1, -1)
    penalty = PENALTIES[0].splits * A.abs().sum() + PENALTIES[1].splits * A.square().sum()
    penalty = penalty + OF_CONSTANTS.splits * b.square().sum()
    if problem.loss == "squared":
        penalty = penalty + OF_CONSTANTS.leaves * values.square().sum()
    if smooth.linear:
        f = f + torch.einsum("np,lkp->nlk", X, coefs.reshape(B + 1, K, p))
        penalty = penalty + PENALTIES[0].leaves * coefs.abs().sum() + PENALTIES[1].leaves * coefs.square().sum()
    if problem.loss == "log":
        own = torch.log_softmax(f, dim=2)[torch.arange(len(X)), :, torch.tensor(problem.Y[:, 0]).long()]
        rows = -(P * own).sum(1) if smooth.aggregation == "expected" else -torch.log((P * own.exp()).sum(1))
    else:
        y = torch.tensor(problem.Y)
        if smooth.aggregation == "expected":
            rows = (P * (f - y[:, None]).square().sum(2)).sum(1)
        else:
            rows = ((P[:, :, None] * f).sum(1) - y).square().sum(1)
    loss = (w * rows).sum() + penalty
    loss.backward()
    return loss.item(), leaf_theta.grad.numpy()


@pytest.mark.parametrize(("options", "aggregation"), CASES)
def test_gradient_against_central_differences_and_single_precision(options, aggregation):
    smooth = SmoothTreeProblem(statement(**options), alpha=2.0, aggregation=aggregation)
    theta = some_theta(smooth)
    value, gradient = smooth.value_and_grad(theta)
    assert value == smooth.value(theta)
    scale = np.abs(gradient).max()
    for j in np.random.default_rng(2).choice(smooth.size, min(smooth.size, 60), replace=False):
        step = np.zeros(smooth.size)
        step[j] = 1e-5
        slope = (smooth.value(theta + step) - smooth.value(theta - step)) / 2e-5
        assert abs(slope - gradient[j]) <= 1e-6 * scale
    single = SmoothTreeProblem(smooth.problem, alpha=2.0, aggregation=aggregation, dtype="float32")
    value32, gradient32 = single.value_and_grad(theta)
    assert gradient32.dtype == np.float32
    assert abs(value32 - value) <= 1e-5 * value
    assert np.abs(gradient32 - gradient).max() <= 1e-5 * scale


@pytest.mark.parametrize(("options", "aggregation"), CASES)
def test_gradient_against_autograd(options, aggregation):
    smooth = SmoothTreeProblem(statement(**options), alpha=2.0, aggregation=aggregation)
    theta = some_theta(smooth)
    value, gradient = smooth.value_and_grad(theta)
    expected, slopes = autograd(smooth, theta)
    assert value == pytest.approx(expected, rel=1e-12)
    assert np.abs(gradient - slopes).max() <= 1e-10 * np.abs(slopes).max()


@pytest.mark.parametrize("namespace", ["array_api_compat.numpy", "array_api_strict"])
@pytest.mark.parametrize(("options", "aggregation"), CASES)
def test_the_array_api_twin_computes_the_same(options, aggregation, namespace):
    xp = pytest.importorskip(namespace)
    problem = TreeProblem(**{k: getattr(statement(**options), k) for k in ("X", "y", "depth", "loss", "leaves")})
    smooth = SmoothTreeProblem(problem, alpha=2.0, aggregation=aggregation)
    thetas = [some_theta(smooth, seed) for seed in (1, 2)]
    A, b, values, coefs = (np.stack(parts) for parts in zip(*map(smooth.unpack, thetas), strict=True))
    Y = problem.Y[:, 0].astype(np.int64) if problem.is_classification else problem.Y
    form = smooth.form
    parts = [xp.asarray(x) for x in (A, b, values)] + [xp.asarray(coefs) if smooth.linear else None]
    rows = [xp.asarray(x) for x in (problem.X, Y, problem.w)]
    value, gradient = twin.value_and_gradient(xp, parts, 2.0, rows, form.loss, form.aggregation)
    for k, theta in enumerate(thetas):
        expected, slopes = smooth.value_and_grad(theta)
        assert float(value[k]) == pytest.approx(expected, rel=1e-12)
        flat = np.concatenate([np.asarray(g)[k].ravel() for g in gradient if g is not None])
        np.testing.assert_allclose(flat, slopes, atol=1e-13 + 1e-10 * np.abs(slopes).max())


@pytest.mark.parametrize("leaves", ["constant", "linear"])
@pytest.mark.parametrize(("alpha", "depth"), [(5.0, 7), (30.0, 6), (150.0, 7), (150.0, 8)])
def test_skipping_subtrees_changes_next_to_nothing(leaves, alpha, depth):
    problem = regression_problem(3000, depth=depth, leaves=leaves, penalties=())
    exact = SmoothTreeProblem(problem, alpha=alpha)
    theta = exact.unit_splits(exact.soften(solve(problem, CartInit()).tree, np.random.default_rng(0)))
    value, gradient = exact.value_and_grad(theta)
    skipping = SmoothTreeProblem(problem, alpha=alpha, eps=1e-6).sort(theta)
    value_eps, gradient_eps = skipping.value_and_grad(theta)
    assert abs(value_eps - value) <= 1e-7  # y has variance 1
    assert 1e-9 < np.abs(gradient_eps - gradient).max() / np.abs(gradient).max() <= 5e-5  # some are skipped
    tiny, tiny_gradient = SmoothTreeProblem(problem, alpha=alpha, eps=1e-300).value_and_grad(theta)
    assert tiny == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(tiny_gradient, gradient, atol=1e-12 * np.abs(gradient).max())


@pytest.mark.parametrize("make", [regression_problem, classification_problem])
@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_hard_trees_survive_softening(make, leaves):
    loss = {"loss": "log"} if make is classification_problem else {}
    problem = make(400, leaves=leaves, penalties=(), **loss)
    tight = make(400, leaves=leaves, penalties=(L2(leaves=1e-2),), **loss)  # no row at the cap of the log loss
    tree = solve(tight, HingeInit(), random_state=0).tree
    smooth = SmoothTreeProblem(problem, alpha=1e7)
    for rng in (None, np.random.default_rng(0)):
        theta = smooth.soften(tree, rng)
        back = smooth.harden(theta)
        assert back.n_leaves == 2**problem.depth
        unbounded = Tree(tree.children, tree.A, tree.b, tree.values, tree.coefs, classes=tree.classes, link=tree.link)
        np.testing.assert_allclose(back.outputs(problem.X), unbounded.outputs(problem.X), atol=2e-6)
    # with steep gates the smooth objective is the hard one
    np.testing.assert_allclose(smooth.value(theta), problem.mean_loss(smooth.harden(theta)), rtol=1e-3)
    unit = smooth.unit_splits(theta)
    np.testing.assert_allclose(smooth.harden(unit).outputs(problem.X), back.outputs(problem.X), atol=1e-9)


@pytest.mark.parametrize("aggregation", ["expected", "mixture"])
@pytest.mark.parametrize("spread", [1.0, 300.0])  # probabilities below those that the loss tells apart, too
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_constant_leaves_of_classes_are_linear_ones_without_weights(aggregation, spread, dtype):
    rng = np.random.default_rng(0)
    X, y, weight = rng.normal(size=(400, 3)), rng.integers(0, 12, 400), rng.uniform(0.5, 2.0, 400)
    constant, linear = (
        SmoothTreeProblem(
            TreeProblem(X, y, depth=3, loss="log", leaves=leaves, sample_weight=weight),
            aggregation=aggregation,
            dtype=dtype,
        )
        for leaves in ("constant", "linear")
    )
    theta = rng.normal(size=constant.size)
    theta[-8 * 12 :] *= spread
    value, gradient = constant.value_and_grad(theta)
    whole = linear.value_and_grad(np.concatenate([theta, np.zeros(linear.size - theta.size)]))
    exact = 1e-12 if dtype == "float64" else 2e-5
    assert np.isfinite(value)
    assert value == pytest.approx(whole[0], rel=exact)
    np.testing.assert_allclose(gradient, whole[1][: theta.size], atol=exact * np.abs(gradient).max())


@pytest.mark.parametrize("leaves", ["constant", "linear"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_score_that_is_no_number_leaves_no_loss(leaves, dtype):
    smooth = SmoothTreeProblem(statement("log", leaves), dtype=dtype)
    theta = some_theta(smooth)
    theta[smooth.n_branches * (smooth.problem.n_features + 1) + 4] = np.nan  # of the second leaf's second class
    assert np.isnan(smooth.value_and_grad(theta)[0])


@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_penalised_constants_of_leaves_without_rows_are_zero(leaves):
    X = np.linspace(0.0, 1.0, 50)[:, None]
    smooth = SmoothTreeProblem(TreeProblem(X, X[:, 0], depth=1, leaves=leaves, penalties=OF_CONSTANTS), alpha=1e6)
    theta = np.zeros(smooth.size)
    smooth.unpack(theta)[1][:] = 2.0  # all go left
    smooth.unpack(theta)[2][:] = 7.0
    assert smooth.unpack(smooth.best_leaves(theta))[2][1] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(("n", "p"), [(400, 70), (60, 90)])
@pytest.mark.parametrize("l1", [0.0, 1e-2])
def test_linear_leaves_of_many_features_have_penalised_constants(n, p, l1):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    penalties = (L1(leaves=l1), L2(leaves=1e-2), L2Constants(leaves=0.2))
    problem = TreeProblem(X, X[:, :1] + [2.0, -1.0], depth=1, leaves="linear", penalties=penalties)
    smooth = SmoothTreeProblem(problem)
    best = smooth.best_leaves(0.1 * some_theta(smooth))
    _A, _b, d_values, d_coefs = smooth.unpack(smooth.value_and_grad(best)[1])
    assert np.abs(d_values).max() < 1e-6
    assert np.abs(d_coefs[smooth.unpack(best)[3] != 0.0]).max() < (1e-4 if l1 else 1e-6)
    free = SmoothTreeProblem(problem.restated(penalties=penalties[:2]))
    assert np.abs(smooth.unpack(best)[2]).max() < np.abs(free.unpack(free.best_leaves(best))[2]).max()


def test_penalised_constants_of_leaves_are_for_regression():
    problem = classification_problem(100, loss="log", penalties=L2Constants(leaves=0.1))
    with pytest.raises(ValueError, match="constants of leaves is for regression, and it has classes"):
        SmoothTreeProblem(problem)
    assert SmoothTreeProblem(problem.restated(penalties=L2Constants(splits=0.1))).penalty.l2_thresholds == 0.1


@pytest.mark.parametrize("aggregation", ["expected", "mixture"])
@pytest.mark.parametrize("leaves", ["constant", "linear"])
@pytest.mark.parametrize("loss", ["squared", "log"])
@pytest.mark.parametrize("constants", [0.0, 0.3])
def test_closed_form_leaves_are_stationary(aggregation, leaves, loss, constants):
    problem = statement(loss, leaves, n_outputs=2 if loss == "squared" else 1)
    problem = TreeProblem(
        problem.X, problem.y, depth=3, loss=loss, leaves=leaves, sample_weight=problem.sample_weight,
        penalties=(L2(leaves=1e-3), L2Constants(splits=constants, leaves=constants if loss == "squared" else 0.0)),
    )  # fmt: skip
    smooth = SmoothTreeProblem(problem, alpha=3.0, aggregation=aggregation)
    theta = some_theta(smooth)
    if loss == "log" and (leaves == "linear" or aggregation == "mixture"):
        with pytest.raises(ValueError, match="best_leaves needs a closed form"):
            smooth.best_leaves(theta)
        return
    best = smooth.best_leaves(theta)
    _A, _b, d_values, d_coefs = smooth.unpack(smooth.value_and_grad(best)[1])
    assert np.abs(d_values).max() < 1e-8
    assert np.abs(d_coefs).max(initial=0.0) < 1e-8
    assert smooth.value(best) < smooth.value(theta)
    np.testing.assert_array_equal(smooth.unpack(best)[0], smooth.unpack(theta)[0])


def test_the_docstrings_example_works():
    results = doctest.testmod(smooth_problem)
    assert results.attempted >= 8
    assert results.failed == 0


def test_lbfgs_of_scipy_takes_the_problem_as_it_is():
    smooth = SmoothTreeProblem(regression_problem(depth=2), alpha=3.0, dtype="float32")
    theta = smooth.random_theta(np.random.default_rng(0))
    found = minimize(smooth.value_and_grad, theta, jac=True, options={"maxiter": 30})
    assert found.fun < 0.5 * smooth.value(theta)


@pytest.mark.parametrize(
    ("problem", "options", "message"),
    [
        ({"splits": "axis"}, {}, "its splits are axis-aligned"),
        ({"loss": "absolute"}, {}, "its loss is 'absolute'"),
        ({"depth": 0}, {}, "its depth is 0"),
        ({}, {"alpha": -1.0}, r"alpha must be a finite number > 0; got -1\.0"),
        ({}, {"eps": -1e-3}, "eps must be a finite number >= 0"),
        ({}, {"dtype": "float16"}, "dtype must be one of"),
        ({}, {"aggregation": "sum"}, "aggregation must be one of"),
    ],
)
def test_what_cannot_be_smoothed_is_refused(problem, options, message):
    with pytest.raises(ValueError, match=message):
        SmoothTreeProblem(regression_problem(**problem), **options)


def test_a_theta_of_another_size_is_refused():
    smooth = SmoothTreeProblem(regression_problem())
    with pytest.raises(ValueError, match=rf"theta must have shape \({smooth.size},\); got \(3,\)"):
        smooth.value_and_grad(np.zeros(3))


def test_one_evaluation_is_the_same_number_on_any_number_of_threads():
    problem = regression_problem(3000)
    for aggregation in ("expected", "mixture"):
        smooth = SmoothTreeProblem(problem, dtype="float32", aggregation=aggregation)
        theta = smooth.random_theta(np.random.default_rng(0))
        found = []
        for n_threads in (1, 2, 3):
            with limited(n_threads, worth=1.0):
                found.append((*smooth.value_and_grad(theta), smooth.lbfgs(theta.copy(), 5)))
        for value, gradient, lowest in found[1:]:
            assert (value, lowest) == (found[0][0], found[0][2])
            np.testing.assert_array_equal(gradient, found[0][1])
