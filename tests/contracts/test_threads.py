"""One seed gives one tree on any number of threads."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from opttree import GradTreeClassifier, TreeProblem
from opttree.runtime.threads import limited
from solvers import BranchAndBound, solve


def test_the_same_seed_gives_the_same_tree_on_any_number_of_threads():
    X, y = load_breast_cancer(return_X_y=True)
    models = [GradTreeClassifier(4, epochs=40, random_state=3, n_jobs=jobs).fit(X, y) for jobs in (1, 2)]
    assert models[0].tree_ == models[1].tree_


@pytest.mark.parametrize("loss", ["squared", "zero_one"])
def test_one_tree_on_any_number_of_threads(loss):
    rng = np.random.default_rng(2)
    X, y = rng.integers(0, 30, (300, 5)).astype(float), rng.integers(0, 3, 300)
    problem = TreeProblem(X, y.astype(float) if loss == "squared" else y, depth=3, splits="axis", loss=loss)
    trees = []
    for threads in (1, 2, 3):
        with limited(threads):
            trees.append(solve(problem, BranchAndBound(init=None)).tree)
    assert trees[0] == trees[1] == trees[2]
