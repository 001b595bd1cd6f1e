"""Forests of several kinds of trees."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

from experiments.execute import parts
from experiments.planned import Splits
from opttree import TAOForestClassifier, TAOForestRegressor, TreeProblem, datasets
from solvers import StackedForest, TAOForest, solve
from solvers.ensembles import KINDS


def counts(model):
    info = model.result_.trace.rows[-1].info
    return {kind: int(info.get(kind, 0)) for kind in (*KINDS, "linear")}


def test_the_shares_are_those_of_the_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    steps = (X[:, 0] > 0.3) * 2.0 + (X[:, 1] > -0.5) * (X[:, 2] > 0.0) + 0.05 * rng.normal(size=500)
    slope = X.sum(axis=1) + 0.05 * rng.normal(size=500)
    of_steps = counts(TAOForestRegressor(20, kind="stacked", random_state=0).fit(X, steps))
    of_slope = counts(TAOForestRegressor(20, kind="stacked", random_state=0).fit(X, slope))
    assert sum(of_steps.values()) == sum(of_slope.values()) == 20
    assert of_steps["axis"] + of_steps["extra"] >= 15
    assert of_slope["linear"] + of_slope["oblique"] >= 18


def test_there_are_more_trees_where_they_differ():
    X, y = make_friedman1(400, noise=0.1, random_state=0)
    rng = np.random.default_rng(0)
    wild = TAOForestRegressor(random_state=0).fit(X, y)
    dull = TAOForestRegressor(random_state=0).fit(X, X[:, 0] + 3.0 * rng.normal(size=400))
    assert len(dull.forest_.trees) == 30
    assert 30 < len(wild.forest_.trees) <= 100
    kinds = counts(wild)
    assert sum(kinds.values()) == len(wild.forest_.trees)
    assert len(TAOForestRegressor(30, random_state=0).fit(X, y).forest_.trees) == 30
    first = {tree.A.tobytes() for tree in TAOForestRegressor(30, random_state=0).fit(X, y).forest_.trees}
    assert len(first & {tree.A.tobytes() for tree in wild.forest_.trees}) == 30


def test_forests_of_constant_leaves_have_no_linear_model():
    """It is no tree of such a statement, and made the forest's objective infinite."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    for model, y in ((TAOForestRegressor, X[:, 0]), (TAOForestClassifier, X[:, 0] > 0.0)):
        forest = model(6, kind="stacked", leaves="constant", random_state=0).fit(X, y)
        assert counts(forest)["linear"] == 0
        assert np.isfinite(forest.result_.objective)


def test_labels_may_be_any_numbers():
    X = np.random.default_rng(0).normal(size=(60, 2))
    labels = np.where(X[:, 0] > 0.0, 1.5, 0.5)
    problem = TreeProblem(X, labels, depth=2, leaves="linear", loss="log")
    assert (solve(problem, StackedForest(6), random_state=0).tree.predict(X) == labels).mean() > 0.9


@pytest.mark.slow
def test_dependent_one_hot_columns_leave_numbers(needs_data):
    """287 columns of 60 categories: in single precision the leaves' matrices are singular, and all leaves were NaN."""
    X, y = datasets.load("splice", as_arrays=True)
    rows, _ = parts(Splits(inner=0.25, most=500), 0, 0, y, "classification")
    model = TAOForestClassifier(6, kind="stacked", random_state=0).fit(X[rows], y[rows])
    assert np.isfinite(model.forest_.outputs(X)).all()
    assert model.score(X, y) > 0.9


def test_members_are_checked():
    X, y = make_friedman1(60, random_state=0)
    problem = TreeProblem(X, y, depth=3)
    with pytest.raises(ValueError, match="members must be"):
        StackedForest(members=())
    with pytest.raises(ValueError, match="of different kinds, none of them 'auto'"):
        StackedForest(members=(TAOForest(kind="axis"), TAOForest()))
    alone = solve(problem, StackedForest(4, (TAOForest(kind="oblique"),)), random_state=0)
    assert alone.trace.rows[-1].info["oblique"] == 4.0
    axis = TreeProblem(X, y, depth=3, splits="axis")
    assert "oblique" in StackedForest().refusal(axis)
