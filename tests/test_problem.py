"""`TreeProblem`, its penalties, its leaves, and its input checks."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso, LogisticRegression, Ridge

from opttree import L1, L2, SplitPrice, Tree, TreeProblem
from opttree.problems import NodeProblem
from tests.conftest import classification_problem, regression_problem
from tests.test_kernels import random_tree


@pytest.mark.parametrize("loss", ["squared", "absolute"])
@pytest.mark.parametrize("weighted", [False, True])
def test_objective_is_the_weighted_mean_loss_plus_penalties(rng, loss, weighted):
    X, y = rng.normal(size=(80, 3)), rng.normal(size=(80, 2))
    w = rng.uniform(size=80) if weighted else None
    penalties = (L1(splits=0.1, leaves=0.2), L2(splits=0.3, leaves=0.4), SplitPrice(0.5))
    problem = TreeProblem(X, y, depth=3, leaves="linear", loss=loss, sample_weight=w, penalties=penalties)
    tree = random_tree(rng, 2, 3, 2, linear=True)
    error = np.abs(y - tree.outputs(X)) if loss == "absolute" else np.square(y - tree.outputs(X))
    expected = np.average(error.sum(axis=1), weights=w)
    expected += 0.1 * np.abs(tree.A).sum() + 0.2 * np.abs(tree.coefs).sum()
    expected += 0.3 * np.square(tree.A).sum() + 0.4 * np.square(tree.coefs).sum() + 0.5 * 3
    assert problem.objective(tree) == pytest.approx(expected, rel=1e-12)


def test_zero_one_objective_is_the_error_rate(rng):
    problem = classification_problem(penalties=())
    tree = problem.fit_leaves(random_tree(rng, 2, 4, 3))
    assert problem.objective(tree) == pytest.approx(np.mean(tree.predict(problem.X) != problem.y))


def test_integer_weights_are_repetitions_and_zero_weights_are_absent(rng):
    X, y, w = rng.normal(size=(50, 3)), rng.normal(size=50), rng.integers(0, 4, 50)
    tree = random_tree(rng, 2, 3, 1)
    weighted = TreeProblem(X, y, depth=2, sample_weight=w)
    repeated = TreeProblem(np.repeat(X, w, axis=0), np.repeat(y, w), depth=2)
    assert weighted.objective(tree) == pytest.approx(repeated.objective(tree), rel=1e-12)
    assert weighted.fit_leaves(tree) == repeated.fit_leaves(tree)
    assert weighted.n_samples == np.count_nonzero(w)


def test_infeasible_trees_cost_infinity_and_say_why(rng):
    deep, oblique, linear = random_tree(rng, 3, 4, 1), random_tree(rng, 1, 4, 1), random_tree(rng, 1, 4, 1, linear=True)
    assert "depth 3" in regression_problem(depth=2).violation(deep)
    assert "oblique" in regression_problem(splits="axis").violation(oblique)
    assert "linear leaves" in regression_problem().violation(linear)
    assert "2 outputs" in regression_problem().violation(random_tree(rng, 1, 4, 2))
    small = regression_problem(min_leaf=90)
    assert "asks for 90" in small.violation(deep)
    assert small.objective(deep) == np.inf
    assert regression_problem(leaves="linear").violation(linear) is None


@pytest.mark.parametrize("depth", [1, 3])
def test_enforcing_min_leaf_gives_a_feasible_tree(rng, depth):
    problem = regression_problem(min_leaf=30, depth=4)
    tree = problem.enforce_min_leaf(random_tree(rng, 4, 4, 1))
    assert problem.violation(tree) is None
    assert tree.n_leaves > 1
    assert regression_problem(n=20, min_leaf=15, depth=4).enforce_min_leaf(random_tree(rng, 4, 4, 1)).n_leaves == 1


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"depth": -1}, "depth must be an integer >= 0; got -1"),
        ({"depth": 1.5}, "depth must be an integer >= 0; got 1.5"),
        ({"splits": "curved"}, "splits must be one of .*; got 'curved'"),
        ({"leaves": "x"}, "leaves must be one of"),
        ({"loss": "hinge"}, "loss must be one of"),
        ({"min_leaf": 0}, "min_leaf must be an integer >= 1; got 0"),
        ({"X": np.zeros((0, 2)), "y": np.zeros(0)}, "X must be a table with at least one row"),
        ({"X": np.zeros(3)}, "X must be a table"),
        ({"y": np.zeros(3)}, "y must have one entry per row of X, 4"),
        ({"X": np.array([[np.nan, 1.0]] * 4)}, "X must be finite; got nan"),
        ({"y": np.array([0, 1, 2, np.inf])}, "y must be finite; got inf"),
        ({"sample_weight": np.array([1.0, -2.0, 1.0, 1.0])}, "sample_weight must be finite, >= 0 .*; got -2"),
        ({"sample_weight": np.zeros(4)}, "not all zero; got 0"),
        ({"sample_weight": np.ones(3)}, "sample_weight must have shape"),
        ({"loss": "log", "y": np.zeros((4, 2))}, "y must be one column of labels"),
    ],
)
def test_bad_input_is_named(changes, message):
    parts = {"X": np.arange(8.0).reshape(4, 2), "y": np.arange(4.0), "depth": 1}
    with pytest.raises(ValueError, match=message):
        TreeProblem(**{**parts, **changes})


@pytest.mark.parametrize("make", [lambda: L1(splits=-1.0), lambda: L2(leaves=np.nan), lambda: SplitPrice(-0.1)])
def test_bad_penalties_are_named(make):
    with pytest.raises(ValueError, match="must be finite and >= 0"):
        make()


def test_node_problem_cost_and_surrogate_by_hand():
    X, u = np.array([[0.0], [1.0], [2.0]]), np.array([-1.0, 3.0, -2.0])
    problem = NodeProblem(X, np.arange(3, dtype=np.int32), u, l1=0.5, l2=0.25)
    assert problem.labels.tolist() == [-1, 1, -1]
    assert problem.cost(np.array([1.0]), 0.5) == 2.0  # row 0 left, rows 1 and 2 right: the last should be left
    assert problem.cost(np.array([-1.0]), -1.5) == 1.0  # row 2 left, rows 0 and 1 right: the first should be left
    expected = np.log1p(np.exp(-0.5)) + 3 * np.log1p(np.exp(-0.5)) + 2 * np.log1p(np.exp(1.5)) + 0.5 + 0.25
    assert problem.surrogate(np.array([1.0]), 0.5) == pytest.approx(expected)
