"""ORRT: mixtures of the whole tree at once."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_friedman1

from opttree import L2, ORRTClassifier, SmoothTreeProblem, SRTRegressor, TreeProblem
from solvers import ORRT, solve
from tests.conftest import regression_problem
from tests.statements import RIDGE, regression


def test_bounded_soft_trees_answer_within_the_range_of_y():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    problem = TreeProblem(X, y, depth=4, penalties=L2(splits=1e-4))
    free, bounded = (solve(problem, ORRT(bounded=b), random_state=0).tree for b in (False, True))
    assert bounded.values.min() >= y.min()
    assert bounded.values.max() <= y.max()
    assert np.ptp(free.values) > np.ptp(y)


def test_a_deep_tree_approximates_a_continuous_function():
    side = np.linspace(-1.0, 1.0, 60)
    X = np.stack([a.ravel() for a in np.meshgrid(side, side)], axis=1)
    y = np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1]) + 0.5 * X[:, 0] * X[:, 1]
    model = SRTRegressor(6, l2=1e-9, max_iter=20, random_state=0).fit(X, y)
    assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) < 1e-2


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


def test_orrt_is_one_run_of_its_minimiser():
    problem = regression_problem(200, depth=2, leaves="linear", penalties=(L2(leaves=1e-3, splits=1e-3),))
    from scipy.optimize import minimize

    smooth = SmoothTreeProblem(problem, alpha=1.0, aggregation="mixture")
    rng = np.random.default_rng(5)
    theta = rng.spawn(1)[0].normal(size=smooth.size)
    options = {"maxiter": 120, "gtol": 1e-6, "ftol": 0.0}
    whole = minimize(smooth.value_and_grad, theta, jac=True, method="L-BFGS-B", options=options)
    result = solve(problem, ORRT(max_iter=120), random_state=5)
    assert result.n_steps > 3
    assert result.objective == pytest.approx(whole.fun, rel=1e-9)


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(240, n_features=6, noise=0.5, random_state=0)
    return X, y


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


def test_the_time_limit_keeps_the_latest_iteration():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 10))
    problem = TreeProblem(X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2], depth=6, leaves="linear", penalties=RIDGE)
    result = solve(problem, ORRT(max_iter=10**6), time_limit=1.0, random_state=0)
    first, last = result.trace.rows[0], result.trace.rows[-1]
    assert last.info["iterations"] > 0
    assert result.objective == last.objective < first.objective
