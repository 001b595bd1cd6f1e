"""Trees of other libraries, of results and of estimators."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from opttree import ORTRegressor, SDTRRegressor, Tree, TreeProblem, io, plotting
from solvers import CartInit, LocalSearch, certify, solve
from tests.conftest import regression_problem


@pytest.mark.parametrize("kind", [DecisionTreeRegressor, DecisionTreeClassifier])
def test_from_sklearn_predicts_as_sklearn(rng, kind):
    X = rng.normal(size=(200, 4)).astype(np.float32)
    y = np.where(X[:, 0] > 0, 1.0, X[:, 1]) if kind is DecisionTreeRegressor else np.array(["u", "v"])[
        (X[:, 0] * X[:, 1] > 0).astype(int)
    ]  # fmt: skip
    model = kind(max_depth=6, random_state=0).fit(X, y)
    tree = Tree.from_sklearn(model)
    assert tree.is_axis_aligned
    assert tree.depth == model.get_depth()
    assert tree.n_leaves == model.get_n_leaves()
    if kind is DecisionTreeRegressor:
        np.testing.assert_allclose(tree.predict(X), model.predict(X))
    else:
        assert np.array_equal(tree.predict(X), model.predict(X))
        np.testing.assert_allclose(tree.predict_proba(X), model.predict_proba(X))


def test_an_estimator_of_transformed_features_is_no_tree_of_a_problem():
    X, y = make_friedman1(80, random_state=0)
    model = SDTRRegressor(2, max_batches=20, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="model must hold a tree of raw features; got one of their quantiles"):
        TreeProblem(X, y, depth=2).objective(model)


def test_results_estimators_and_scikit_trees_are_taken_for_trees(tmp_path):
    problem = regression_problem(80, splits="axis", penalties=())
    result = solve(problem, CartInit(), random_state=0)
    theirs = DecisionTreeRegressor(max_depth=2, random_state=0).fit(problem.X, problem.y)
    ours = ORTRegressor(2, random_state=0).fit(problem.X, problem.y)
    for model in (result, theirs, ours, io.Model(result.tree, tuple("abcd"))):
        objective = problem.objective(model)
        assert np.isfinite(objective)
        assert solve(problem, LocalSearch(n_starts=1), start=model, random_state=0).objective <= objective + 1e-12
        assert certify(problem, model, n_thresholds=3).objective == objective
        io.save(model, tmp_path / "model.json")
    assert problem.objective(result) == result.objective
    assert plotting.plot_trace([result, result]).get_legend_handles_labels()[1] == ["CartInit 1", "CartInit 2"]
