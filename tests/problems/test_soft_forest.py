"""The soft forest against its definition."""

from dataclasses import replace

import numpy as np
import pytest

from opttree import Forest, SDTRRegressor, SoftForestProblem, Tree, TreeProblem
from opttree.runtime.threads import limited
from solvers import SDTR, CartInit, Chain, solve
from tests.conftest import regression_problem, thinned

FAST = SDTR(max_batches=200, patience=100)


FORMS = {
    "one tree": {},
    "one tree, penalties": {"path_penalty": 0.1, "l1": 0.01},
    "deep, penalties": {"depth": 5, "path_penalty": 0.1, "l1": 0.01},
    "mixture": {"aggregation": "mixture", "path_penalty": 0.1},
    "bagged": {"n_trees": 3, "l1": 0.01, "path_penalty": 0.2},
    "averaged, two outputs": {"n_trees": 4, "aggregation": "mixture", "K": 2, "path_penalty": 0.1, "l1": 0.02},
    "layers": {
        "n_trees": 3, "n_layers": 3, "tree_output_dim": 3, "aggregation": "mixture", "K": 2, "path_penalty": 0.1,
        "l1": 0.01,
    },
    "many trees in layers": {"n_trees": 20, "n_layers": 2, "aggregation": "mixture", "depth": 2},
    "classes": {"n_classes": 3, "path_penalty": 0.1, "l1": 0.01},
    "classes, bagged": {"n_classes": 2, "n_trees": 3, "path_penalty": 0.1},
    "classes, averaged": {"n_classes": 3, "n_trees": 4, "aggregation": "mixture", "l1": 0.01},
    "classes, layers": {"n_classes": 3, "n_trees": 3, "n_layers": 2, "aggregation": "mixture", "path_penalty": 0.1},
}  # fmt: skip


def forest_problem(n=300, p=5, depth=3, K=1, seed=0, dtype="float64", n_classes=0, **options):
    rng = np.random.default_rng(seed)
    X, y, w = rng.normal(size=(n, p)), rng.normal(size=(n, K)), rng.uniform(0.5, 2.0, n)
    if n_classes:
        y = rng.integers(n_classes, size=n)
    problem = TreeProblem(X, y, depth=depth, sample_weight=w, loss="log" if n_classes else "squared")
    return SoftForestProblem(problem, dtype=dtype, **options)


def by_definition(np_or_torch, forest, theta):
    """The objective as SDTR's equations state it: (3) or section III-D, (5) and (7); log loss in their place."""
    lib = np_or_torch
    array = (lambda a: a) if lib is np else lib.tensor
    problem, T, width = forest.problem, forest.n_trees, forest.width
    x, y, w = array(np.array(problem.X)), array(np.array(problem.Y)), array(np.array(problem.w))[:, None]
    B, K = 2**problem.depth - 1, problem.n_outputs
    each, at, penalty, expected, outs = 1.0 / (T * forest.n_layers), 0, 0.0, 0.0, []
    for _layer in range(forest.n_layers):
        parts = []
        for shape in ((T, B, x.shape[1]), (T, B), (T, B), (T, B + 1, width)):
            size = int(np.prod(shape))
            parts.append(theta[at : at + size].reshape(shape))
            at += size
        A, b, beta, values = parts
        left = 1.0 / (1.0 + lib.exp(-beta * (b - lib.einsum("np,tbp->ntb", x, A))))
        reach = [x[:, :1] * 0.0 + array(np.ones((1, T)))]
        for t in range(B):
            d = int(np.log2(t + 1))
            share = (w * reach[t] * left[:, :, t]).sum(0) / (w * reach[t]).sum(0)
            penalty = penalty - forest.path_penalty * each * 2.0**-d * 0.5 * (lib.log(share) + lib.log(1 - share)).sum()
            penalty = penalty + forest.l1 * each * 2.0**-d * lib.abs(A[:, t]).sum()
            reach += [reach[t] * left[:, :, t], reach[t] * (1.0 - left[:, :, t])]
        P = lib.stack(reach[B:], 2)
        if problem.is_classification:
            values = lib.exp(values) / lib.exp(values).sum(2)[:, :, None]
            label = array(np.eye(K)[problem.Y[:, 0].astype(int)])
            errors = -lib.log((values[None] * label[:, None, None, :]).sum(3))
        else:
            errors = ((values[None, :, :, :K] - y[:, None, None, :]) ** 2).sum(3)
        expected = expected + (w * (P * errors).sum(2)).sum() * each
        out = lib.einsum("ntl,tlk->ntk", P, values)
        outs.append(out)
        x = lib.concatenate([x, out.reshape(x.shape[0], T * width)], 1)
    mean = lib.concatenate(outs, 1)[:, :, :K].mean(1)
    if forest.aggregation == "expected":
        return expected + penalty
    if problem.is_classification:
        return -(w[:, 0] * lib.log((mean * label).sum(1))).sum() + penalty
    return (w * (mean - y) ** 2).sum() + penalty


@pytest.mark.parametrize("options", thinned(FORMS.values(), 3), ids=FORMS)
def test_value_and_gradient_are_those_of_the_equations(options):
    forest = forest_problem(**options)
    rng = np.random.default_rng(1)
    theta = 0.5 * rng.normal(size=forest.size)
    value, gradient = forest.value_and_grad(theta)
    assert value == pytest.approx(by_definition(np, forest, theta), rel=1e-12)
    for _ in range(5):
        u = rng.normal(size=forest.size)
        step = 1e-6 * u
        slope = (by_definition(np, forest, theta + step) - by_definition(np, forest, theta - step)) / 2e-6
        assert gradient @ u == pytest.approx(slope, rel=1e-6, abs=1e-8)
    for n_threads in (2, 3):
        with limited(n_threads, worth=1.0):
            shared = forest.value_and_grad(theta)
        assert shared[0] == value
        np.testing.assert_array_equal(shared[1], gradient)


@pytest.mark.parametrize("options", thinned(FORMS.values(), 3), ids=FORMS)
def test_gradient_is_autograds(options):
    torch = pytest.importorskip("torch")
    forest = forest_problem(**options)
    theta = 0.5 * np.random.default_rng(1).normal(size=forest.size)
    given = torch.tensor(theta, requires_grad=True)
    by_definition(torch, forest, given).backward()
    np.testing.assert_allclose(forest.value_and_grad(theta)[1], given.grad.numpy(), atol=1e-12)


def test_single_precision_is_close():
    forest = forest_problem(n_trees=3, n_layers=2, aggregation="mixture", path_penalty=0.1)
    theta = forest.random_theta(np.random.default_rng(0))
    single = replace(forest, dtype="float32")
    value, gradient = forest.value_and_grad(theta)
    value32, gradient32 = single.value_and_grad(theta)
    assert value32 == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(gradient32, gradient, atol=1e-5 * np.abs(gradient).max())


@pytest.mark.parametrize("options", [FORMS["classes"], FORMS["classes, averaged"], FORMS["classes, layers"]])
def test_models_answer_with_class_probabilities(options):
    forest = forest_problem(**options)
    problem = forest.problem
    theta = forest.random_theta(np.random.default_rng(0))
    model = forest.harden(theta)
    assert forest.mean_loss(theta) == pytest.approx(problem.mean_loss(model), rel=1e-9)
    shares = model.predict_proba(problem.X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    if "n_layers" not in options and "n_trees" not in options:
        assert forest.value_and_grad(theta)[0] >= forest.mean_loss(theta)  # Jensen's inequality
    mean, scale = np.linspace(-1, 1, problem.n_features), np.linspace(0.5, 2, problem.n_features)
    raw = model.unscale(mean, scale)
    np.testing.assert_allclose(raw.predict_proba(problem.X * scale + mean), shares, atol=1e-9)


@pytest.mark.parametrize("options", [FORMS["one tree"], FORMS["averaged, two outputs"], FORMS["layers"]])
def test_models_answer_as_the_kernels_do(options):
    forest = forest_problem(**options)
    problem = forest.problem
    theta = forest.random_theta(np.random.default_rng(0))
    model = forest.harden(theta)
    assert isinstance(model, Tree if "n_trees" not in options else Forest)
    errors = np.square(model.outputs(problem.X) - problem.Y).sum(axis=1)
    assert forest.mean_loss(theta) == pytest.approx(problem.w @ errors, rel=1e-12)
    mean, scale = np.linspace(-1, 1, problem.n_features), np.linspace(0.5, 2, problem.n_features)
    shift, unit = np.arange(1.0, problem.n_outputs + 1), np.linspace(2, 3, problem.n_outputs)
    raw = model.unscale(mean, scale, shift, unit)
    np.testing.assert_allclose(
        raw.outputs(problem.X * scale + mean), model.outputs(problem.X) * unit + shift, atol=1e-9
    )


def test_a_tree_becomes_theta_and_back():
    forest = forest_problem(depth=3)
    tree = solve(forest.problem, CartInit()).tree
    result = solve(forest.problem, Chain(CartInit(), replace(FAST, max_batches=1)), random_state=0)
    assert result.trace.rows[0].objective == pytest.approx(forest.problem.objective(tree))
    soft = replace(tree, gate=40.0)
    still = SDTR(max_batches=1, learning_rate=1e-9, validation=None)
    trace = solve(forest.problem, still, start=soft, random_state=0).trace
    first = next(row.objective for row in trace if row.phase == "expected")
    assert first == pytest.approx(forest.problem.objective(soft.as_mixture), rel=1e-3)


def test_leaf_prediction_is_the_most_probable_leaf():
    tree = Tree(  # the right branch is surer than the left is likely
        children=[[1, 2], [3, 4]], A=[[0.0], [0.0]], b=[0.2, 0.0], values=[[1.0], [2.0], [3.0]], gate=1.0
    )
    P = tree.leaf_proba([[0.0]])[0]
    np.testing.assert_allclose(P.sum(), 1.0)
    assert tree.likeliest([[0.0]])[0, 0] == tree.values[np.argmax(P), 0]
    assert tree.likeliest([[0.0]])[0, 0] != tree.predict([[0.0]])[0]


def test_further_outputs_are_for_later_layers_alone():
    problem = regression_problem()
    result = solve(problem, SDTR(tree_output_dim=2, max_batches=400, patience=400), random_state=0)
    assert result.tree.n_outputs == 1
    assert result.objective < 0.5
    model = SDTRRegressor(2, tree_output_dim=3, max_batches=40).fit(problem.X, np.column_stack([problem.y, problem.y]))
    assert model.predict(problem.X).shape == (problem.n_samples, 2)
