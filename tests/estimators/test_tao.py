"""The estimators of TAO: scaling, options, starts."""

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, make_friedman1

import solvers
from opttree import L1, SplitPrice, TAORegressor, TreeProblem, datasets
from solvers import MIP, solve
from tests.conftest import thinned


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True, as_frame=True)


@pytest.mark.parametrize("leaves", ["constant", "linear"])
@pytest.mark.parametrize("splits", ["oblique", "axis"])
def test_tree_works_on_raw_features_and_is_the_scaled_problems_tree(diabetes, leaves, splits):
    X, y = diabetes
    X = X * 1e4 + 7.0
    model = TAORegressor(3, leaves=leaves, splits=splits, leaf_shrinkage=0.0, random_state=0).fit(X, y)
    assert np.array_equal(model.predict(X), model.tree_.predict(X.to_numpy()))
    problem, (x_mean, x_scale, y_mean, y_scale) = model.state(X.to_numpy(), y.to_numpy())
    scaled = model.result_.tree.predict((X.to_numpy() - x_mean) / x_scale) * y_scale + y_mean
    np.testing.assert_allclose(model.predict(X), scaled, rtol=1e-6, atol=1e-6)
    assert problem.objective(model.result_.tree) == pytest.approx(model.result_.objective)
    mse = np.mean((y - model.predict(X)) ** 2) / y.var(ddof=0)
    assert mse == pytest.approx(problem.mean_loss(model.result_.tree), rel=1e-6)
    if splits == "axis":
        assert model.tree_.is_axis_aligned
    assert model.tree_.share[0] == pytest.approx(1.0)
    assert model.get_depth() <= 3
    assert model.get_n_leaves() == model.tree_.n_leaves
    assert model.feature_names_in_[0] in model.to_text()


@pytest.mark.parametrize("init", ["random", "cart", "cluster", "hinge", solvers.RandomInit(threshold="gaussian")])
@pytest.mark.parametrize("node_solver", ["newton", "liblinear", "sklearn", solvers.NewtonNode(tol=0.1)])
def test_every_named_option_works(init, node_solver):
    X, y = make_friedman1(300, random_state=0)
    model = TAORegressor(3, init=init, node_solver=node_solver, max_iter=4, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.5


@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_a_fitted_tree_can_be_the_start(leaves):
    X, y = make_friedman1(400, random_state=0)
    first = TAORegressor(3, leaves=leaves, leaf_shrinkage=0.0, random_state=0).fit(X, y)
    second = TAORegressor(3, leaves=leaves, init=first.tree_, accept="improve", random_state=0).fit(X, y)
    assert second.result_.trace.rows[0].objective == pytest.approx(first.result_.objective, rel=1e-6)
    assert second.result_.objective <= first.result_.objective * (1 + 1e-9)


def test_restarts_do_not_hurt_the_objective():
    X, y = make_friedman1(300, random_state=0)
    one, five = (TAORegressor(3, init="random", n_init=n, random_state=0).fit(X, y) for n in (1, 5))
    assert five.result_.n_steps > one.result_.n_steps
    assert five.result_.objective < one.result_.objective
    again = TAORegressor(3, init="random", n_init=5, random_state=0, n_jobs=1).fit(X, y)
    assert again.tree_ == five.tree_


def test_penalties_make_smaller_trees():
    X, y = make_friedman1(500, random_state=0)
    sizes = [TAORegressor(4, split_penalty=s, random_state=0).fit(X, y).tree_.n_parameters for s in (1e-6, 1e-2)]
    assert sizes[1] < sizes[0]
    linear = [
        np.count_nonzero(
            TAORegressor(2, leaves="linear", leaf_penalty=s, random_state=0).fit(X, y).tree_.coefs
        )
        for s in (0.0, 0.1)
    ]  # fmt: skip
    assert linear[1] < linear[0]
    ridge = TAORegressor(3, l1_ratio=0.0, split_penalty=1e-3, random_state=0).fit(X, y)
    assert np.count_nonzero(ridge.tree_.A) == ridge.tree_.A.size


@pytest.mark.slow
@pytest.mark.usefixtures("needs_data")
@pytest.mark.parametrize("depth", thinned((10, 2, 6), 3))
def test_default_linear_trees_are_never_worse_than_the_mean(depth):
    names = [n for n in datasets.names() if (Path(os.environ["OPTTREE_DATA"]) / f"{n}.csv.gz").exists()]
    found = {}
    for name in names:
        data = datasets.load(name)
        if data.task != "regression" or name in ("friedman", "ailerons_7154", "cpu_small"):
            continue
        X, y = data.as_arrays()
        train = np.random.default_rng(0).permutation(len(X))
        train, test = train[: int(0.75 * len(X))][:1500], train[int(0.75 * len(X)) :]  # few rows are the harder case
        model = TAORegressor(depth, leaves="linear", random_state=0).fit(X[train], y[train])
        found[name] = model.score(X[test], y[test])
    assert len(found) > 20
    assert min(found.values()) > 0.0, found


def test_an_axis_aligned_problem_of_an_estimator_can_be_proved():
    X, y = make_friedman1(60, random_state=0)
    problem, _scaling = TAORegressor(2, splits="axis", split_penalty=0.1).state(X[:, :3], y)
    assert not any(penalty.splits for penalty in problem.penalties)
    assert MIP().refusal(problem) is None
    priced = TreeProblem(X[:, :2], y, depth=2, splits="axis", penalties=L1(splits=0.05))
    result = solve(priced, MIP())
    assert result.gap < 1e-6
    assert result.objective == pytest.approx(
        solve(TreeProblem(X[:, :2], y, depth=2, splits="axis", penalties=SplitPrice(0.05)), MIP()).objective
    )
