"""One seed gives one tree on any number of threads; `test_solvers` has the solvers."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import make_friedman1

import opttree
from opttree import TreeProblem
from opttree.methods.table import estimators
from opttree.runtime.threads import limited
from solvers import BranchAndBound, solve

FEW = {"max_depth": 3, "epochs": 40, "max_batches": 60, "n_estimators": 6, "max_iter": 5, "n_starts": 2, "n_init": 2}
TIMED = {"AutoTreeRegressor", "AutoTreeClassifier"}  # which takes what time allows


@pytest.mark.parametrize("name", sorted(set(estimators()) - TIMED))
def test_every_estimator_gives_one_model(name):
    X, y = make_friedman1(700, noise=1.0, random_state=0)
    model = getattr(opttree, name)(random_state=3)
    model.set_params(**{option: FEW[option] for option in FEW.keys() & model.get_params().keys()})
    y = np.digitize(y, [12.0, 17.0]) if is_classifier(model) else y
    answers = []
    for n_threads in (1, 3):
        with limited(n_threads, worth=1.0):
            fitted = clone(model).set_params(n_jobs=n_threads).fit(X, y)
            answers.append(fitted.predict_proba(X) if is_classifier(model) else fitted.predict(X))
    np.testing.assert_array_equal(*answers)


@pytest.mark.parametrize("loss", ["squared", "zero_one"])
def test_branch_and_bound_gives_one_tree(loss):
    rng = np.random.default_rng(2)
    X, y = rng.integers(0, 30, (300, 5)).astype(float), rng.integers(0, 3, 300)
    problem = TreeProblem(X, y.astype(float) if loss == "squared" else y, depth=3, splits="axis", loss=loss)
    trees = []
    for threads in (1, 2, 3):
        with limited(threads):
            trees.append(solve(problem, BranchAndBound(init=None)).tree)
    assert trees[0] == trees[1] == trees[2]
