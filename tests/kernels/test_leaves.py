"""Leaves: means, medians, frequencies, and linear models at their optimum, whatever the rows."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from sklearn.linear_model import Lasso, LogisticRegression, Ridge

from opttree import L1, L2, ORTRegressor, Tree, TreeProblem
from opttree.kernels.leaves import fit as leaves
from tests.conftest import classification_problem, regression_problem
from tests.trees import random_tree


@pytest.mark.parametrize("weights", [[1, 1, 1], [1, 1, 1, 1], [5, 1, 1], [1, 2, 3, 4, 5]])
def test_weighted_median_minimises_the_absolute_deviation(rng, weights):
    y, w = rng.normal(size=len(weights)), np.array(weights, float)
    median = leaves.weighted_median(y, w)
    assert w @ np.abs(y - median) <= min(w @ np.abs(y - v) for v in y) + 1e-12


def one_leaf(problem):
    return Tree.constant(np.zeros(problem.n_outputs), problem.n_features, problem.classes)


def test_constant_leaves_are_means_medians_and_frequencies(rng):
    X, y, w = rng.normal(size=(60, 2)), rng.normal(size=60), rng.uniform(size=60)
    squared = TreeProblem(X, y, depth=1, sample_weight=w)
    assert squared.fit_leaves(one_leaf(squared)).values[0, 0] == pytest.approx(np.average(y, weights=w))
    absolute = TreeProblem(X, y, depth=1, loss="absolute")
    assert absolute.fit_leaves(one_leaf(absolute)).values[0, 0] == pytest.approx(np.median(y))
    classes = TreeProblem(X, np.array(["u", "v"])[(y > 0).astype(int)], depth=1, loss="log", sample_weight=w)
    assert classes.fit_leaves(one_leaf(classes)).values[0, 1] == pytest.approx(np.average(y > 0, weights=w))


@pytest.mark.parametrize("collinear", [False, True])
def test_lasso_and_ridge_leaves_agree_with_scikit_learn(rng, collinear):
    n, p, strength = 120, 5, 0.05
    X = rng.normal(size=(n, p))
    if collinear:
        X[:, 1] = X[:, 0] + 0.01 * rng.normal(size=n)
    y = X @ [1.0, -0.5, 0.0, 0.0, 2.0] + rng.normal(size=n) + 3.0
    lasso = TreeProblem(X, y, depth=1, leaves="linear", penalties=(L1(leaves=strength),))
    tree = lasso.fit_leaves(one_leaf(lasso))
    theirs = Lasso(alpha=strength / 2, tol=1e-12, max_iter=100_000).fit(X, y)  # mean of squares / 2 there
    np.testing.assert_allclose(tree.coefs[0, 0], theirs.coef_, atol=1e-6)
    assert tree.values[0, 0] == pytest.approx(theirs.intercept_, abs=1e-6)
    ridge = TreeProblem(X, y, depth=1, leaves="linear", penalties=(L2(leaves=strength),))
    np.testing.assert_allclose(
        ridge.fit_leaves(one_leaf(ridge)).coefs[0, 0], Ridge(alpha=n * strength).fit(X, y).coef_, atol=1e-6
    )


def test_linear_leaves_for_the_absolute_loss_beat_least_squares(rng):
    X = rng.normal(size=(200, 3))
    y = X @ [1.0, 2.0, 0.0] + rng.standard_t(1.5, size=200)
    problem = TreeProblem(X, y, depth=1, leaves="linear", loss="absolute")
    tree = problem.fit_leaves(one_leaf(problem))
    design = np.hstack([X, np.ones((200, 1))])
    least_squares = np.abs(y - design @ np.linalg.lstsq(design, y, rcond=None)[0]).mean()
    from scipy.optimize import linprog

    # the exact optimum as a linear program
    cost = np.concatenate([np.zeros(4), np.full(200, 1 / 200)])
    eye = np.eye(200)
    A = np.block([[design, -eye], [-design, -eye]])
    exact = linprog(cost, A, np.concatenate([y, -y]), bounds=[(None, None)] * 4 + [(0, None)] * 200).fun
    unclipped = np.abs(y - X @ tree.coefs[0, 0] - tree.values[0, 0]).mean()
    assert exact <= unclipped <= 1.002 * exact < least_squares


def test_softmax_leaves_agree_with_scikit_learn(rng):
    problem = classification_problem(400, depth=1, leaves="linear", loss="log", penalties=(L2(leaves=0.01),))
    tree = problem.fit_leaves(one_leaf(problem))
    model = LogisticRegression(C=1 / (2 * 0.01 * 400), tol=1e-10, max_iter=10_000).fit(problem.X, problem.y)
    theirs = -np.log(model.predict_proba(problem.X)[np.arange(400), problem.Y[:, 0].astype(int)]).mean()
    theirs += 0.01 * np.square(model.coef_).sum()
    assert problem.objective(tree) <= theirs * (1 + 1e-3)


def test_small_linear_leaves_stay_constant_and_predictions_are_clipped(rng):
    problem = regression_problem(40, leaves="linear", depth=2)
    tree = problem.fit_leaves(random_tree(rng, 2, 4, 1), min_rows=1000)
    assert not tree.coefs.any()
    tree = problem.fit_leaves(random_tree(rng, 1, 4, 1))
    far = tree.predict(1e6 * rng.normal(size=(50, 4)))
    assert problem.y.min() <= far.min()
    assert far.max() <= problem.y.max()


@pytest.mark.parametrize("loss", ["squared", "absolute", "log"])
def test_linear_leaves_need_rows(rng, loss):
    """``2 (p + 1)`` by default: ten for four features."""
    make = classification_problem if loss == "log" else regression_problem
    kinds = {}
    for n in (9, 10):
        problem = make(n, leaves="linear", depth=1, loss=loss, penalties=())
        tree = problem.fit_leaves(Tree.constant(np.zeros(problem.n_outputs), 4, problem.classes))
        assert tree.link == ("softmax" if loss == "log" else "identity")
        assert problem.violation(tree) is None
        kinds[n] = tree.coefs.any()
    assert kinds == {9: False, 10: True}
    assert not problem.fit_leaves(tree, min_rows=11).coefs.any()


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    return X, X[:, 0] + 0.1 * rng.normal(size=40)


def objective_of_one_leaf(X, y, loss, weight, penalties=()):
    problem = TreeProblem(X, y, depth=0, leaves="linear", loss=loss, sample_weight=weight, penalties=penalties)
    tree = problem.fit_leaves(problem.one_leaf("constant"), min_rows=1)
    return problem.objective(replace(tree, lower=None, upper=None))


def degenerate(rng, n, p):
    """Features with copies, constants and many scales."""
    X = rng.normal(size=(n, p))
    kind = rng.integers(4)
    if kind == 1:
        X[:, 0] = 3.7
    elif kind == 2:
        X[:, 0] = -2.0 * X[:, -1]
    elif kind == 3:
        X[: n // 2] = X[0]
    return X * 10.0 ** rng.integers(-4, 5, size=p)


def reached(cases):
    """What leaves reach, and the optima, of many random cases."""
    return np.transpose([*cases])


def test_linear_leaves_are_least_squares():
    np.testing.assert_allclose(*reached(least_squares(seed) for seed in range(40)), rtol=1e-6)


def least_squares(seed):
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(5, 100)), int(rng.integers(1, 6))
    X, y, w = degenerate(rng, n, p), rng.normal(size=n), rng.uniform(0.1, 2.0, n)
    root = np.sqrt(w / w.sum())
    A = np.column_stack([X / np.abs(X).max(axis=0), np.ones(n)]) * root[:, None]
    rest = y * root - A @ np.linalg.lstsq(A, y * root, rcond=None)[0]
    return objective_of_one_leaf(X, y, "squared", w), rest @ rest


@pytest.mark.parametrize("strength", [0.0, 0.03])
def test_linear_leaves_are_least_absolute_deviations(strength):
    found, best = reached(least_deviations(seed, strength) for seed in range(80))
    np.testing.assert_allclose(found, best, rtol=1e-6, atol=1e-9)


def least_deviations(seed, strength):
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(5, 100)), int(rng.integers(1, 6))
    X = degenerate(rng, n, p)
    y, w = rng.standard_t(2, size=n), rng.uniform(0.1, 2.0, n)
    y = y.round() if seed % 3 == 0 else y
    if seed % 4 == 0:  # many rows on one hyperplane
        X, y = rng.integers(0, 2 + seed % 3, size=(n, p)).astype(float), rng.integers(-2, 3, size=n).astype(float)
    unit = np.maximum(np.abs(X).max(axis=0), 1e-300)
    A, share, price = np.column_stack([X / unit, np.ones(n)]), w / w.sum(), np.append(strength / unit, 0.0)
    costs = np.concatenate([price, price, share, share])
    best = linprog(costs, A_eq=np.hstack([A, -A, np.eye(n), -np.eye(n)]), b_eq=y).fun
    penalties = (L1(leaves=strength),) if strength else ()
    return objective_of_one_leaf(X, y, "absolute", w, penalties), best


def test_linear_leaves_of_classes_minimise_log_loss():
    found, best = reached(least_log_loss(seed) for seed in range(20))
    assert ((best - 1e-6 <= found) & (found <= best + 2e-4)).all()


def least_log_loss(seed):
    rng = np.random.default_rng(seed)
    n, p, K = int(rng.integers(60, 200)), int(rng.integers(1, 4)), int(rng.integers(2, 5))
    X = rng.normal(size=(n, p))
    label = np.unique(np.argmax(X @ rng.normal(size=(p, K)) + rng.gumbel(size=(n, K)), axis=1), return_inverse=True)[1]
    strength, w = (0.0, 1e-3)[seed % 2], rng.uniform(0.1, 2.0, n)
    Y, A, share = np.eye(label.max() + 1)[label], np.column_stack([X, np.ones(n)]), w / w.sum()

    def value(v):
        V = v.reshape(p + 1, -1)
        z = A @ V
        log_sum = np.log(np.exp(z - z.max(axis=1, keepdims=True)).sum(axis=1)) + z.max(axis=1)
        slope = A.T @ (share[:, None] * (np.exp(z - log_sum[:, None]) - Y))
        slope[:p] += 2.0 * strength * V[:p]
        return share @ (log_sum - (z * Y).sum(axis=1)) + strength * np.square(V[:p]).sum(), slope.ravel()

    best = minimize(value, np.zeros((p + 1) * Y.shape[1]), jac=True, method="BFGS").fun
    scale = np.ones(p) if strength else 10.0 ** rng.integers(-4, 5, size=p)
    offset = rng.choice([0.0, 1e4]) * scale
    penalties = (L2(leaves=strength),) if strength else ()
    return objective_of_one_leaf(X * scale + offset, label, "log", w, penalties), best


@pytest.mark.parametrize("loss", ["squared", "absolute", "log"])
def test_weights_are_repetitions_to_degenerate_leaves(loss):
    rng = np.random.default_rng(3)
    X = np.column_stack([np.full(30, 3.7), np.repeat(rng.normal(size=3), 10), rng.normal(size=30)])
    times = rng.integers(1, 4, 30)
    y = rng.integers(3, size=30) if loss == "log" else rng.normal(size=30)
    rows = np.repeat(np.arange(30), times)
    assert objective_of_one_leaf(X, y, loss, times.astype(float)) == pytest.approx(
        objective_of_one_leaf(X[rows], y[rows], loss, None), rel=1e-4
    )


def test_constant_targets_with_linear_leaves_and_absolute_loss(table):
    model = ORTRegressor(2, leaves="linear", loss="absolute").fit(table[0], np.ones(40))
    np.testing.assert_array_equal(model.predict(table[0]), 1.0)


def test_linear_leaves_of_classes_get_no_worse():
    """Columns that nearly add up to others, classes nearly apart, hardly a ridge: a class whose step was too long began
    anew from zero weights, and the loss was .04 to .24.
    """
    rng = np.random.default_rng(0)
    Z = np.exp(1.5 * rng.normal(size=(400, 6)))
    X = np.column_stack([Z, Z[:, :3] + 1e-5 * rng.normal(size=(400, 3)), Z.sum(axis=1)])
    y = np.argmax(np.column_stack([Z[:, k] + 0.02 * rng.normal(size=400) for k in range(5)]), axis=1)
    problem = TreeProblem.standardized(X, y, depth=0, leaves="linear", loss="log", penalties=(L2(leaves=1e-6),))
    tree, losses = Tree.constant(np.zeros(5), 10, problem.classes), []
    for _ in range(6):
        tree = problem.fit_leaves(tree, min_rows=1)
        losses.append(problem.objective(tree))
    assert max(losses) < 0.036


@pytest.mark.parametrize("zero", [0.0, 0.1, 1.0, 1e6])
@pytest.mark.parametrize(
    ("p", "K", "loss"), [(3, 1, "squared"), (3, 9, "squared"), (80, 1, "squared"), (3, 3, "log"), (80, 3, "log")]
)
def test_features_that_are_constant_in_a_leaf_have_no_weight(p, K, loss, zero):
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(200, p - 1)), np.full(200, zero)]
    y = np.repeat(X[:, :1], K, axis=1) if loss == "squared" else np.digitize(X[:, 0], [-0.5, 0.5])
    problem = TreeProblem(X, y, depth=0, leaves="linear", loss=loss, penalties=L1(leaves=1e-3))
    start = replace(problem.fit_leaves(problem.one_leaf("constant"), min_rows=1), coefs=np.full((1, K, p), 2.0))
    fitted = problem.fit_leaves(start, min_rows=1)
    assert (fitted.coefs[0, :, -1] == 0.0).all()
    assert problem.objective(fitted) < (2e-3 * K if loss == "squared" else 0.2)


@pytest.mark.parametrize("shift", [0.0, 1e4, 1e6])
@pytest.mark.parametrize(("p", "K"), [(5, 1), (5, 9), (70, 1)])
def test_lasso_leaves_do_not_depend_on_where_they_start(p, K, shift):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(400, 1)) + 0.3 * rng.normal(size=(400, p))
    y = np.repeat(Z @ rng.normal(size=(p, 1)) + 0.1 * rng.normal(size=(400, 1)), K, axis=1)
    problem = TreeProblem(Z + shift, y, depth=0, leaves="linear", penalties=L1(leaves=1e-3))
    cold = problem.fit_leaves(replace(problem.one_leaf(), coefs=np.zeros((1, K, p))), min_rows=1)
    for size in (1.0, 1e8):
        warm = problem.fit_leaves(replace(cold, coefs=size * rng.normal(size=(1, K, p))), min_rows=1)
        assert problem.objective(warm) == pytest.approx(problem.objective(cold), rel=1e-4)


@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize(("unit", "zero"), [(1.0, 0.0), (1.0, 1e6), (1.0, -1e9), (1e-9, 1.0)])
def test_linear_leaves_do_not_depend_on_where_features_have_their_zero(loss, unit, zero):
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(300, 3)), np.full(300, 0.1)]
    y = 2.0 * X[:, 1] - X[:, 2] + 0.1 * rng.normal(size=300)
    weight = rng.uniform(0.1, 1.0, size=300)
    as_it_is = objective_of_one_leaf(X, y, loss, weight)
    assert as_it_is < 0.1
    assert objective_of_one_leaf(zero + unit * X, y, loss, weight) == pytest.approx(as_it_is, rel=1e-5)
