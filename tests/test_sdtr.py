"""SDTR: the soft forest against its definition, training, models, what they say of features, the estimator."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.metrics import log_loss, r2_score

import solvers.sdtr.sdtr
from opttree import Forest, SDTRClassifier, SDTRRegressor, SoftForestProblem, Tree, TreeProblem
from opttree.explain.importance import average_entropy, feature_importance
from opttree.model.files import load, save
from opttree.runtime.threads import limited
from solvers import SDTR, CartInit, Chain, Termination, solve
from solvers.sdtr.descent import descent as forest_descent
from tests.conftest import classification_problem, regression_problem

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


@pytest.mark.parametrize("options", FORMS.values(), ids=FORMS)
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


@pytest.mark.parametrize("options", FORMS.values(), ids=FORMS)
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


# ---- training -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("validation", [0.2, None])
@pytest.mark.parametrize("options", [{}, {"n_trees": 4}, {"n_trees": 3, "n_layers": 2, "tree_output_dim": 2}])
def test_training_beats_a_constant_by_far(options, validation):
    problem = regression_problem(n=400, penalties=())
    result = solve(problem, replace(SDTR(max_batches=1500, validation=validation), **options), random_state=0)
    assert result.objective < 0.2
    again = solve(problem, replace(SDTR(max_batches=1500, validation=validation), **options), random_state=0)
    assert again.objective == result.objective


def test_early_stopping_is_counted_in_batches():
    problem = regression_problem(n=400)
    options = SDTR(patience=70, check=20, batch_size=100)
    assert solve(problem, options, random_state=0).termination is Termination.STALLED
    train, judge = (SoftForestProblem(part) for part in problem.split(0.2, np.random.default_rng(0)))
    ends = set()
    for cut in (1, 7, 20, 1000):
        rng = np.random.default_rng(1)
        descent = forest_descent(options, train, judge, train.random_theta(rng), rng)
        while descent.remaining:
            descent.advance(cut)
        assert descent.done == descent.best[0].step + 80
        ends.add((descent.done, descent.best[0].loss))
    assert len(ends) == 1


def test_a_run_that_diverges_leaves_what_was_found():
    result = solve(regression_problem(), SDTR(learning_rate=1e30, max_batches=40), random_state=0)
    assert result.termination is Termination.NUMERICAL_ERROR
    assert np.isfinite(result.objective)


def test_a_starved_leaf_does_not_spoil_the_gradient():
    forest = forest_problem(path_penalty=0.3)
    theta = forest.random_theta(np.random.default_rng(0))
    for threshold in (8.0, 12.0, 16.0, 20.0):
        forest.unpack(theta)[1][0, 3] = threshold
        value, gradient = forest.value_and_grad(theta)
        value32, gradient32 = replace(forest, dtype="float32").value_and_grad(theta)
        assert value32 == pytest.approx(value, rel=1e-3)
        np.testing.assert_allclose(gradient32, gradient, atol=2e-3 * np.abs(gradient).max())


def test_further_outputs_are_for_later_layers_alone():
    problem = regression_problem()
    result = solve(problem, SDTR(tree_output_dim=2, max_batches=400, patience=400), random_state=0)
    assert result.tree.n_outputs == 1
    assert result.objective < 0.5
    model = SDTRRegressor(2, tree_output_dim=3, max_batches=40).fit(problem.X, np.column_stack([problem.y, problem.y]))
    assert model.predict(problem.X).shape == (problem.n_samples, 2)


def test_l1_makes_sparse_and_the_path_penalty_even():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 12))
    problem = TreeProblem(X, X[:, 0] + 0.2 * rng.normal(size=800) + 3.0 * (X[:, 1] > 1.5), depth=3)
    base = SDTR(max_batches=1500, patience=1500, path_penalty=0.0, l1=0.0, validation=None)
    plain, sparse, even = (
        solve(problem, replace(base, **kw), random_state=0).tree for kw in ({}, {"l1": 0.02}, {"path_penalty": 1.0})
    )
    assert average_entropy(sparse) < 0.8 * average_entropy(plain)
    assert np.argmax(feature_importance(sparse)) in (0, 1)

    def evenness(tree):
        share = tree.leaf_proba(X).mean(axis=0)
        return -np.log(np.maximum(share, 1e-12)).mean()

    assert evenness(even) < evenness(plain)
    assert evenness(even) == pytest.approx(np.log(8), abs=0.02)


def test_reweighting_moves_leaves_faster():
    problem = regression_problem(n=400)
    forest = SoftForestProblem(problem)
    theta = forest.random_theta(np.random.default_rng(0))
    slow, fast = (
        forest_descent(SDTR(max_batches=1, reweight=flag), forest, forest, theta, np.random.default_rng(0))
        for flag in (False, True)
    )
    for descent in (slow, fast):
        descent.advance(1)
    moved = [np.abs(forest.unpack(d.steps.thetas[0])[3] - forest.unpack(theta)[3]).mean() for d in (slow, fast)]
    assert moved[1] == pytest.approx(8 * moved[0], rel=1e-3)
    np.testing.assert_array_equal(*(forest.unpack(d.steps.thetas[0])[0] for d in (slow, fast)))


def test_what_it_refuses():
    assert "linear" in SDTR().refusal(regression_problem(leaves="linear"))
    assert "loss" in SDTR().refusal(classification_problem(loss="zero_one"))
    assert "number of its classes" in SDTR(tree_output_dim=9).refusal(classification_problem(loss="log"))
    assert "min_leaf" in SDTR().refusal(regression_problem(min_leaf=5))
    assert "axis" in SDTR().refusal(regression_problem(splits="axis"))
    two = TreeProblem(np.zeros((4, 1)), np.arange(8.0).reshape(4, 2), depth=1)
    assert "tree_output_dim = 1 is less than its 2 outputs" in SDTR(tree_output_dim=1).refusal(two)
    assert "penalties are for one tree" in SDTR(n_trees=3).refusal(regression_problem())
    with pytest.raises(ValueError, match="SDTR makes a forest, from which the next solver"):
        solve(regression_problem(penalties=()), Chain(replace(FAST, n_trees=2), FAST))
    with pytest.raises(
        ValueError, match="validation_fraction must be a finite number between 0 and 1 or None; got 'a'"
    ):
        SDTRRegressor(validation_fraction="a").fit(np.zeros((4, 1)), np.arange(4.0))
    for options, match in (
        ({"n_trees": 0}, "n_trees must be an integer >= 1; got 0"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"l1": -1.0}, "l1 must be a finite number >= 0; got -1.0"),
        ({"aggregation": "sum"}, "aggregation"),
        ({"aggregation": "expected", "n_layers": 2}, "n_layers > 1 needs 'mixture'"),
        ({"validation": 1.0}, "validation must be a finite number between 0 and 1, a TreeProblem or None; got 1.0"),
        ({"beta": None}, "beta must be a finite number > 0; got None"),
    ):
        with pytest.raises(ValueError, match=match):
            SDTR(**options)
    with pytest.raises(ValueError, match="layers and further outputs need 'mixture'"):
        forest_problem(n_layers=2)
    with pytest.raises(ValueError, match="must hold trees of 3 features"):
        Forest(((Tree.constant([0.0], 2),), (Tree.constant([0.0], 2),)), 1)


# ---- the estimator ------------------------------------------------------------------------------------------------


def test_estimator_on_real_data():
    X, y = load_diabetes(return_X_y=True)
    single = SDTRRegressor(4, random_state=0).fit(X[:350], y[:350])
    forest = SDTRRegressor(4, n_trees=16, random_state=0).fit(X[:350], y[:350])
    deep = SDTRRegressor(3, n_trees=6, n_layers=2, tree_output_dim=2, random_state=0).fit(X[:350], y[:350])
    for model in (single, forest, deep):
        assert r2_score(y[350:], model.predict(X[350:])) > 0.3
        assert model.feature_importances_.shape == (10,)
        assert model.feature_importances_.sum() == pytest.approx(1.0)
        assert 0.0 < model.average_entropy_ < 4 * np.log(10)
        assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert len(deep.forest_.trees) == 12
    assert deep.forest_.layers[1][0].n_features == 10 + 12
    assert single.apply(X).shape == y.shape
    assert single.decision_path(X).shape == (len(X), single.tree_.n_nodes)
    for ask in (forest.to_text, forest.get_depth, forest.get_n_leaves):
        with pytest.raises(AttributeError, match="a forest of 16"):
            ask()
    again = clone(single).set_params(init=single.tree_, max_batches=1, learning_rate=1e-9).fit(X[:350], y[:350])
    assert again.validation_loss_ == pytest.approx(single.validation_loss_, rel=1e-3)
    with pytest.raises(AttributeError, match="a forest of 16"):
        _ = forest.tree_
    leaf = clone(single).set_params(prediction="leaf").fit(X[:350], y[:350])
    np.testing.assert_array_equal(leaf.predict(X)[:, None], leaf.tree_.likeliest(leaf.transformer_.transform(X)))


def test_multiple_outputs_and_depth_by_cross_validation():
    X, y = load_diabetes(return_X_y=True)
    Y = np.column_stack([y, -2.0 * y, X[:, 2]])
    model = SDTRRegressor("cv", cv=0.25, n_trees=2, max_batches=200, patience=100, random_state=0).fit(X, Y)
    assert model.predict(X).shape == Y.shape
    assert 1 <= model.best_depth_ <= 12
    single = SDTRRegressor("cv", cv=0.25, max_batches=200, patience=100, quantile_transform=False, random_state=0)
    assert single.fit(X, y).tree_.depth <= single.best_depth_


def test_a_tree_of_quantiles_is_not_saved_as_one_of_features(tmp_path):
    X, y = load_diabetes(return_X_y=True)
    model = SDTRRegressor(2, max_batches=100, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="quantile_transform=False"):
        save(model, tmp_path / "model.json")
    plain = clone(model).set_params(quantile_transform=False).fit(X, y)
    save(plain, tmp_path / "model.json")
    np.testing.assert_array_equal(load(tmp_path / "model.json").predict(X), plain.predict(X))


def test_average_entropy_by_hand():
    tree = Tree.complete(np.array([[1.0, 0.0], [1.0, 1.0], [2.0, 2.0]]), np.zeros(3), 1)
    e = 1e-3
    share = (1 + e) / (1 + 2 * e)
    root = -share * np.log(share) - (1 - share) * np.log(1 - share)
    assert average_entropy(tree) == pytest.approx(root + 2 * 0.5 * np.log(2))
    np.testing.assert_allclose(feature_importance(tree), [(share + 0.5) / 2, (1 - share + 0.5) / 2])


def test_of_two_objectives_the_one_behind_stops_early(monkeypatch):
    runs, start = [], solvers.sdtr.sdtr.descent
    monkeypatch.setattr(solvers.sdtr.sdtr, "descent", lambda *how: runs.append(start(*how)) or runs[-1])
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    problem = TreeProblem(X, X[:, 0] + rng.normal(size=300), depth=3)
    steps = []
    solver = SDTR(n_trees=4, patience=400, max_batches=3000)
    solve(problem, solver, random_state=0, callback=lambda step, trace: steps.append(step))
    ahead, behind = sorted(runs, key=lambda run: run.best[0].loss)
    assert ahead.done - ahead.best[0].step == 400
    assert behind.done - behind.best[0].step == 100
    assert behind.remaining > 0
    for phase in ("mixture", "expected"):
        losses = [step.info["validation"] for step in steps if step.phase == phase]
        assert losses == sorted(losses, reverse=True)
        assert len(losses) > 1


@pytest.mark.parametrize("options", [{}, {"n_trees": 8}, {"n_trees": 3, "n_layers": 2}], ids=str)
def test_classes(options):
    X, y = load_iris(return_X_y=True)
    names = np.array(["s", "ve", "vi"])[y]
    model = SDTRClassifier(3, max_batches=2000, random_state=0, **options).fit(X[::2], names[::2])
    assert model.score(X[1::2], names[1::2]) > 0.9
    shares = model.predict_proba(X[1::2])
    assert shares.sum(axis=1) == pytest.approx(np.ones(75))
    assert log_loss(names[1::2], shares) < 0.35
    again = SDTRClassifier(3, max_batches=2000, random_state=0, **options).fit(X[::2], names[::2])
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_classes_that_arrive_in_parts():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    X, y = X[order], y[order]
    model = SDTRClassifier(3, random_state=0)
    first = y[:60] != 2  # the third class comes later
    model.partial_fit(X[:60][first], y[:60][first], classes=[0, 1, 2])
    assert list(model.classes_) == [0, 1, 2]
    for _ in range(150):
        model.partial_fit(X[60:], y[60:])
    assert model.predict_proba(X).shape == (150, 3)
    assert model.score(X[60:], y[60:]) > 0.5
