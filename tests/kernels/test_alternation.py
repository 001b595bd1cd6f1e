"""The compiled passes that grow the trees of a forest."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from opttree import Tree, TreeProblem
from opttree.kernels.passes import alternation
from solvers import TAOForest, solve
from solvers.ensembles.growth import Shared, grow
from tests.conftest import regression_problem


def test_root_model_is_ridge_regression_and_leaves_tend_to_it():
    problem = regression_problem(300, leaves="linear", penalties=())
    shared = Shared.of(problem, TAOForest(1, sample=1.0), (1e9, 1e-6))
    grown = grow(shared, ("oblique", np.random.default_rng(0)))
    ridge = Ridge(alpha=alternation.ROOT_RIDGE * 300).fit(problem.X, problem.y)
    tight = grown.models[0]
    assert np.bincount(grown.leaf).max() > 15
    np.testing.assert_allclose(tight[:, 0, :-1], np.tile(ridge.coef_, (len(tight), 1)), atol=1e-3)
    for number in range(grown.skeleton.n_leaves):
        rows = grown.leaf == number
        if rows.sum() > 15:
            X = np.column_stack([problem.X[rows], np.ones(rows.sum())])
            own = np.linalg.lstsq(X, problem.y[rows], rcond=None)[0]
            np.testing.assert_allclose(grown.models[1][number, 0], own, atol=2e-3)


def test_models_of_fewer_rows_than_features_are_in_the_span_of_the_rows():
    """Of a sample of them, products are singular in these coordinates, and the constant may be in the span."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 300)) + 10.0, rng.normal(size=40)
    problem = TreeProblem(X, y, depth=2, leaves="linear")
    for kind, sample in (("extra", 1.0), ("oblique", 1.0), ("extra", 0.7), ("oblique", 0.7), ("cart", "bootstrap")):
        shared = Shared.of(problem, TAOForest(1, sample=sample, clip=False, constant_iterations=0), (1e9,))
        assert shared.X.shape == (40, 40)
        grown = grow(shared, (kind, np.random.default_rng(0)))
        w = np.sqrt(shared.weights(np.random.default_rng(0)).astype(np.float64))  # the first that are drawn
        Z = w[:, None] * np.column_stack([X, np.ones(40)])
        ridge = Z.T @ np.linalg.solve(Z @ Z.T + alternation.ROOT_RIDGE * np.sum(w**2) * np.eye(40), w * y)
        new = rng.normal(size=(200, 300)) + 10.0
        np.testing.assert_allclose(grown.tree(0, None).predict(new), new @ ridge[:-1] + ridge[-1], atol=1e-4)


def test_leaf_numbers_are_those_of_the_tree():
    for kind, p in (("oblique", 9), ("axis", 9), ("cart", 9), ("oblique", 600), ("axis", 600)):
        problem = regression_problem(500, p=p, depth=5, leaves="linear", penalties=())
        grown = grow(Shared.of(problem, TAOForest(1), (1.0,)), (kind, np.random.default_rng(1)))
        tree = grown.tree(0, None)
        same = tree.apply(problem.X) - tree.n_branches == grown.leaf
        assert same.mean() > 0.995  # but for rows within single-precision rounding of a threshold
        assert np.bincount(grown.leaf, minlength=tree.n_leaves).min() > 0


def test_passes_lower_the_loss():
    problem = regression_problem(1000, depth=4, leaves="linear", penalties=())
    losses = [
        solve(problem, TAOForest(5, kind="oblique", max_iter=passes, shrinkage=1.0), random_state=0).objective
        for passes in (0, 2, 10)
    ]
    assert losses[0] > losses[1] > losses[2]


@pytest.mark.parametrize("min_leaf", [1, 25])
def test_min_leaf_holds(min_leaf):
    problem = regression_problem(600, depth=5, leaves="linear", penalties=(), min_leaf=min_leaf)
    shared = Shared.of(problem, TAOForest(1), (1.0,))
    for kind in ("oblique", "axis", "cart"):
        grown = grow(shared, (kind, np.random.default_rng(0)))
        inside = np.setdiff1d(np.arange(600), grown.outside)
        assert np.bincount(grown.leaf[inside]).min() >= min_leaf


@pytest.mark.parametrize("sample", ["bootstrap", 0.5])
def test_a_tree_grown_pass_by_pass_is_the_tree_grown_at_once(sample):
    problem = regression_problem(400, depth=4, penalties=(), leaves="linear")
    shared = Shared.of(problem, TAOForest(1, kind="oblique", sample=sample, max_iter=6), (3.0,))
    once = grow(shared, ("oblique", np.random.default_rng(0)))
    asked = []
    parts = grow(shared, ("oblique", np.random.default_rng(0)), lambda: asked.append(1) or False)
    assert len(asked) == 6
    assert parts.skeleton == once.skeleton
    np.testing.assert_array_equal(parts.models, once.models)
    first = grow(shared, ("oblique", np.random.default_rng(0)), lambda: True)
    assert first.skeleton != once.skeleton


def test_kernels_fit_leaves_alone_without_a_ridge():
    """With a ridge of 0 a leaf does not see its parent; with a ridge it is drawn towards its parent."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = np.where(X[:, 0] > 0, 5.0, -5.0) + np.where(X[:, 1] > 0, X[:, 0], -X[:, 0]) + 0.1 * rng.normal(size=200)
    X -= X.mean(axis=0)  # the constant is one of the span otherwise, to single precision
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
