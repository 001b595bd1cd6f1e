"""Initial trees: CART, clusters, hinges."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.linear_model import LinearRegression

from opttree import TreeProblem
from solvers import CartInit, ClusterInit, HingeInit, solve
from tests.conftest import regression_problem
from tests.statements import regression


def test_clustering_repeats_keep_the_lowest_davies_bouldin_index():
    from solvers.initial.cluster import davies_bouldin

    problem = regression_problem(300, depth=3)
    rng = np.random.default_rng(0)
    trees = [ClusterInit(n_init=1).build(problem, rng) for _ in range(8)]
    indices = [davies_bouldin(problem, problem.leaves_of(tree)) for tree in trees]
    best = solve(problem, ClusterInit(n_init=1, n_repeats=8), random_state=0).tree
    assert davies_bouldin(problem, problem.leaves_of(best)) == min(indices) < indices[0]
    with pytest.raises(ValueError, match="n_repeats must be an integer >= 1; got 0"):
        ClusterInit(n_repeats=0)


def test_hinge_finds_a_hinge(rng):
    X = rng.uniform(-1, 1, size=(500, 3))
    y = np.maximum(X[:, 0] + X[:, 1], 0.0) + 0.5 * X[:, 2]
    problem = TreeProblem(X, y / y.std(), depth=1, leaves="linear")
    tree = solve(problem, HingeInit(), random_state=0).tree
    assert problem.objective(tree) < 1e-3
    direction = tree.A[0] / np.linalg.norm(tree.A[0])
    assert abs(direction @ [1, 1, 0]) / np.sqrt(2) > 0.99


def test_cart_tells_values_apart_that_single_precision_does_not():
    X = 1.7e9 + np.arange(16.0)[:, None]  # seconds: single precision has one number for 128 of them
    y = np.arange(16) // 4 % 2
    stated = TreeProblem(X, y, depth=3, splits="axis", loss="zero_one")
    assert solve(stated, CartInit()).objective == 0.0
    near = TreeProblem(X * 1e-16, y, depth=3, splits="axis", loss="zero_one")
    assert solve(near, CartInit()).objective == 0.0


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(240, n_features=6, noise=0.5, random_state=0)
    return X, y


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


def test_cart_takes_fewer_rows_where_time_is_short(rng):
    X = rng.normal(size=(200_000, 10))
    problem = TreeProblem(X, X[:, 7], depth=3, splits="axis")
    result = solve(problem, CartInit(), time_limit=0.05, random_state=0)
    assert set(result.tree.feature) == {7}
    assert result.objective < 0.1
    labels = np.where(X[:, 7] > 3.5, 2, X[:, 7] > 0.0).astype(int)  # few rows have the last one
    problem = TreeProblem(X, labels, depth=1, splits="axis", loss="zero_one")
    tree = solve(problem, CartInit(), time_limit=0.05, random_state=0).tree
    assert tree.values.shape == (2, 3)
    assert tree.feature.tolist() == [7]
