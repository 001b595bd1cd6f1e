"""``max_leaf_nodes``: trees within a number of leaves, for every kind of tree, and the pruning by the weakest pair."""

import itertools

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris

import opttree
from opttree import TreeProblem
from opttree.constraints import MaxSplits
from solvers import TAO, CartInit, solve

KINDS = [
    ("TAORegressor", {}),
    ("TAORegressor", {"splits": "axis"}),
    ("TAORegressor", {"loss": "absolute", "splits": "axis"}),
    ("TAORegressor", {"preset": "paper", "n_init": 2}),
    ("TAORegressor", {"max_depth": "cv", "splits": "axis", "cv": 0.3}),
    ("GETRegressor", {"leaves": "linear"}),
    ("GETRegressor", {"validation_fraction": 0.2}),
    ("GradTreeRegressor", {"epochs": 10}),
    ("RADDTRegressor", {"epochs": 10, "n_starts": 1}),
    ("DTSemNetRegressor", {"epochs": 3}),
    ("ORTRegressor", {"max_depth": 2}),
    ("ORTRegressor", {"max_depth": 2, "solver": "local", "leaves": "linear"}),
    ("TAOClassifier", {"splits": "axis", "loss": "log"}),
    ("TAOClassifier", {"leaves": "linear"}),
    ("GETClassifier", {"leaves": "linear"}),
    ("OCTClassifier", {"max_depth": 2}),
]


@pytest.mark.parametrize(("name", "options"), KINDS)
def test_no_tree_has_more_leaves(name, options):
    X, y = (load_iris if "Classifier" in name else load_diabetes)(return_X_y=True)
    kind = getattr(opttree, name)
    for most in (2, 3):
        model = kind(**({"max_depth": 4} | options), max_leaf_nodes=most, random_state=0).fit(X, y)
        assert 1 <= model.get_n_leaves() <= most
        problem, _scaling = model.state(X, y)
        assert problem.objective(model.result_.tree) == pytest.approx(model.result_.objective, rel=1e-6)
    assert kind(**({"max_depth": 4} | options), random_state=0).fit(X, y).get_n_leaves() > 1


@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_the_weakest_pair_is_the_best_pair_to_join(leaves):
    X, y = load_diabetes(return_X_y=True)
    free = TreeProblem.standardized(X[:, :3], y, depth=3, splits="axis", leaves=leaves)
    tree = free.fit_leaves(solve(free, CartInit(), random_state=0).tree)
    one_less = free.restated(constraints=[MaxSplits(tree.n_branches - 1)]).enforce_max_splits(tree)
    others = []
    for left, right in tree.children:
        if min(left, right) >= tree.n_branches:  # two leaves
            stays = np.ones(tree.n_leaves, bool)
            stays[right - tree.n_branches] = False
            others.append(free.objective(free.fit_leaves(tree.keep(stays))))
    assert free.objective(one_less) == pytest.approx(min(others))


def test_objectives_fall_with_the_number_of_leaves():
    X, y = load_diabetes(return_X_y=True)
    free = TreeProblem.standardized(X, y, depth=5)
    found = [solve(free.restated(constraints=[MaxSplits(k)]), TAO(init=CartInit())).objective for k in (0, 1, 3, 7, 15)]
    assert all(after < before for before, after in itertools.pairwise(found))
    assert found[0] == pytest.approx(free.objective(free.best_constant()))


def test_a_start_with_more_leaves_is_pruned():
    X, y = load_diabetes(return_X_y=True)
    start = opttree.TAORegressor(4, splits="axis", random_state=0).fit(X, y).tree_
    model = opttree.TAORegressor(4, splits="axis", init=start, max_leaf_nodes=4, random_state=0).fit(X, y)
    assert model.get_n_leaves() == 4


def test_trees_that_learn_from_chunks_refuse_it():
    X, y = load_diabetes(return_X_y=True)
    model = opttree.GETRegressor(2, max_leaf_nodes=3)
    with pytest.raises(ValueError, match="max_leaf_nodes must be None to train in chunks; got 3"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="max_leaf_nodes must be an integer >= 2 or None; got 1"):
        opttree.GETRegressor(2, max_leaf_nodes=1).fit(X, y)
