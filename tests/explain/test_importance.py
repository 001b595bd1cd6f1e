"""Importances of features."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.inspection import permutation_importance
from sklearn.tree import DecisionTreeRegressor

import opttree
from opttree import (
    BoostedTreesRegressor,
    Forest,
    GETRegressor,
    SDTRRegressor,
    TAOForestRegressor,
    TAORegressor,
    Tree,
    datasets,
    interpret,
    io,
    plotting,
)
from tests.trees import random_tree


def test_importances_are_the_decrease_of_the_error():
    """Of an axis-aligned tree of means they are scikit-learn's."""
    X, y = make_friedman1(500, random_state=0)
    for depth in (1, 3, 6):
        theirs = DecisionTreeRegressor(max_depth=depth, random_state=0).fit(X, y)
        ours = interpret.importances(Tree.from_sklearn(theirs), X)
        np.testing.assert_allclose(ours, theirs.feature_importances_, atol=1e-9)


def test_importances_of_planes_leaves_and_forests():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3)) * [1.0, 10.0, 1.0]
    plane = Tree([[1, 2]], [[1.0, 0.1, 0.0]], [0.0], [[0.0], [1.0]])
    np.testing.assert_allclose(interpret.importances(plane, X), [0.5, 0.5, 0.0], atol=0.02)
    line = Tree(np.zeros((0, 2), int), np.zeros((0, 3)), [], [[0.0]], [[[3.0, 0.0, 1.0]]])
    np.testing.assert_allclose(interpret.importances(line, X), [0.75, 0.0, 0.25], atol=0.02)
    np.testing.assert_allclose(
        interpret.importances(Forest(((plane, line),), 1), X),
        np.mean([interpret.importances(t, X) for t in (plane, line)], axis=0),
    )
    assert interpret.importances(Tree.constant([1.0], 3), X).tolist() == [0.0, 0.0, 0.0]
    soft = random_tree(rng, 2, 3, 1)
    soft = Tree(soft.children, soft.A, soft.b, soft.values, gate=1e6, mixture=True)
    np.testing.assert_allclose(interpret.importances(soft, X), interpret.importances(soft.as_hard, X), atol=1e-6)


def test_importances_find_what_matters():
    X, y = make_friedman1(600, n_features=8, noise=0.1, random_state=0)
    for model in (
        TAORegressor(4),
        GETRegressor(3, leaves="linear"),
        TAOForestRegressor(8),
        BoostedTreesRegressor(n_estimators=20),
    ):
        fitted = model.set_params(random_state=0).fit(X, y)
        assert set(np.argsort(-fitted.feature_importances_)[:4]) <= {0, 1, 2, 3, 4}, repr(model)
        theirs = permutation_importance(fitted, X, y, n_repeats=2, random_state=0).importances_mean
        assert np.corrcoef(theirs, fitted.feature_importances_)[0, 1] > 0.5, repr(model)


def test_importances_of_soft_trees_are_in_units_of_the_features(auto_mpg):
    X, y = auto_mpg
    model = SDTRRegressor(2, max_batches=200, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.feature_importances_, interpret.feature_importance(model.tree_))


def test_weights_are_compared_in_units_of_their_features(auto_mpg, tmp_path):
    frame = datasets.load("auto_mpg")
    X, y = frame.encoded().fillna(0.0), frame.y
    model = TAORegressor(2, random_state=0).fit(X, y)
    names = list(X.columns)
    shares = interpret.feature_importance(model.tree_)
    assert shares[names.index("weight")] > 0.15
    np.testing.assert_allclose(model.tree_.spread, X.std(ddof=0))
    for name in ("model.json", "model.npz"):
        io.save(model, tmp_path / name)
        np.testing.assert_array_equal(io.load(tmp_path / name).tree.spread, model.tree_.spread)
    scaled = model.result_.tree  # standardised features have one scale
    order = np.argsort(-np.abs(scaled.A[0]))[:3]
    drawn = [text.get_text() for text in plotting.plot_tree(model).texts]
    root = next(text for text in drawn if "rows, 100 %" in text)
    assert all(names[j] in root for j in order)


@pytest.mark.filterwarnings("error")
def test_importances_of_large_answers_are_those_of_their_shares(rng):
    X = rng.normal(size=(60, 3))
    for leaves in ("constant", "linear"):
        tree = TAORegressor(2, leaves=leaves, random_state=0).fit(X, X[:, 0] + 0.3 * X[:, 1]).tree_
        large = tree.unscale(np.zeros(3), np.ones(3), 0.0, 1e200)
        np.testing.assert_allclose(interpret.importances(large, X), interpret.importances(tree, X), atol=1e-12)


def test_a_leaf_that_no_row_reaches_sets_no_unit():
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    for far in (2.0, 1e200, np.inf):
        tree = Tree([[1, 2], [3, 4]], np.eye(2)[[1, 0]], [5.0, 0.5], [[far], [1.0], [3.0]])
        assert opttree.interpret.importances(tree, X).tolist() == [1.0, 0.0]
