"""`JointForest`: its ridge regression, its choice where it pays and where it does not, and what is left as it is."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split

import opttree
from opttree import TAOForestClassifier, TAOForestRegressor, TreeProblem
from solvers import JointForest, TAOForest, solve
from solvers.ensembles.joint import leaf_table, solved


def test_moves_are_a_ridge_regression_on_the_leaves(rng):
    X, y = make_friedman1(200, random_state=0)
    forest = TAOForestRegressor(5, kind="cart", max_depth=4, random_state=0).fit(X, y).forest_
    table, w = leaf_table(forest, X), rng.uniform(0.5, 2.0, 200)
    assert np.array_equal(table.sum(axis=1), np.full(200, 5.0))
    left = np.column_stack([y, -2.0 * y + X[:, 0]])
    moves = solved(table, left, w / w.sum(), 0.5)
    expected = Ridge(0.5 * 200 / 10.0, fit_intercept=False).fit(table.toarray(), left, w / w.mean()).coef_.T
    np.testing.assert_allclose(table @ moves, table @ expected, atol=0.01 * np.abs(left).max())


@pytest.mark.parametrize("kind", ["oblique", "extra", "stacked"])
def test_errors_fall_where_trees_are_too_small(kind):
    X, y = make_friedman1(1200, noise=0.2, random_state=0)
    train, test, y, test_y = train_test_split(X, y, random_state=0)
    plain = TAOForestRegressor(20, kind=kind, max_depth=4, random_state=0).fit(train, y)
    joint = TAOForestRegressor(20, kind=kind, max_depth=4, joint_leaves=True, random_state=0).fit(train, y)
    assert joint.result_.trace.rows[-1].info["joint"] > 0.0
    assert 1.0 - joint.score(test, test_y) < 0.98 * (1.0 - plain.score(test, test_y))
    assert joint.kind_ == plain.kind_ == kind
    again = TAOForestRegressor(20, kind=kind, max_depth=4, joint_leaves=True, random_state=0).fit(train, y)
    np.testing.assert_array_equal(again.predict(test), joint.predict(test))


@pytest.mark.parametrize("seed", range(3))
def test_leaves_stay_where_there_is_nothing_to_gain(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(60, 5)), rng.normal(size=60)
    plain, joint = (
        TAOForestRegressor(10, kind="oblique", joint_leaves=option, random_state=0).fit(X, y)
        for option in (False, True)
    )
    new = rng.normal(size=(500, 5))
    assert np.mean(joint.predict(new) ** 2) < 1.3 * np.mean(plain.predict(new) ** 2) + 0.1


def test_classes_weights_and_files(rng, tmp_path):
    X, y = make_friedman1(600, random_state=1)
    label = np.where(y > np.quantile(y, 0.6), "high", np.where(y > np.quantile(y, 0.3), "middle", "low"))
    model = TAOForestClassifier(10, kind="oblique", leaves="constant", max_depth=3, joint_leaves=True, random_state=0)
    model.fit(X[:400], label[:400], sample_weight=rng.integers(0, 3, 400) / 2.0)
    shares = model.predict_proba(X[400:])
    assert shares.sum(axis=1) == pytest.approx(np.ones(200))
    assert shares.min() >= 0.0
    assert model.score(X[400:], label[400:]) > 0.65
    opttree.save(model, tmp_path / "m.json")
    np.testing.assert_allclose(opttree.load(tmp_path / "m.json").predict_proba(X), model.predict_proba(X), rtol=1e-12)


def test_a_strength_may_be_given_and_a_limit_leaves_the_forest():
    X, y = make_friedman1(300, random_state=0)
    problem = TreeProblem.standardized(X, y, depth=4, leaves="linear")
    forest = TAOForest(n_trees=5, kind="oblique")
    strong, weak = (solve(problem, JointForest(forest, strength=s), random_state=0).objective for s in (100.0, 0.01))
    assert weak < strong
    endless = JointForest(TAOForest(n_trees=3000, kind="oblique"))
    assert solve(problem, endless, random_state=0, time_limit=2.0).tree.trees[0].n_branches  # those that were grown
    ordered = JointForest(TAOForest(kind="cart", monotone=(1,) + (0,) * 9))
    assert "do not keep an order" in ordered.refusal(problem.restated(leaves="constant"))
    with pytest.raises(ValueError, match="leaves stay as they are"):
        TAOForestRegressor(5, joint_leaves=True, warm_start=True).fit(X, y)
