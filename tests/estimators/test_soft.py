"""The estimators of soft regression trees."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from opttree import (
    L2,
    L2Constants,
    ORRTRegressor,
    SRTClassifier,
    SRTRegressor,
    Tree,
    datasets,
    load as load_model,
    plotting,
    save,
)
from solvers import NODEC, ORRT, HingeInit, solve
from tests.conftest import regression_problem
from tests.statements import RIDGE


def test_soft_trees_are_saved_scaled_drawn_and_told_apart(tmp_path):
    problem = regression_problem(200, depth=2, leaves="linear", penalties=RIDGE)
    tree = solve(problem, ORRT(max_iter=50), random_state=0).tree
    for suffix in ("json", "npz"):
        save(tree, tmp_path / f"t.{suffix}")
        again = load_model(tmp_path / f"t.{suffix}").tree
        assert again == tree
        assert np.array_equal(again.predict(problem.X), tree.predict(problem.X))
    assert tree != tree.as_hard
    assert "soft" in tree.to_text()
    assert "soft" not in tree.as_hard.to_text()
    assert any("soft" in text.get_text() for text in plotting.plot_tree(tree).texts)
    mean, scale = np.array([1.0, -2.0, 0.5, 3.0]), np.array([2.0, 0.5, 1.0, 4.0])
    raw = tree.unscale(mean, scale, 5.0, 3.0)
    np.testing.assert_allclose(raw.predict(problem.X * scale + mean), 3.0 * tree.predict(problem.X) + 5.0, rtol=1e-9)
    np.testing.assert_allclose(raw.scale(mean, scale, 5.0, 3.0).predict(problem.X), tree.predict(problem.X), rtol=1e-9)
    single = Tree.complete(np.array([[2.0]]), np.array([0.5]), 1)
    soft = Tree(single.children, single.A, single.b, np.array([[0.0], [1.0]]), gate=1.0, mixture=True)
    assert soft.unscale(np.zeros(1), np.ones(1)).canonical == soft
    with pytest.raises(ValueError, match="mixture needs the scale of the gates"):
        Tree(single.children, single.A, single.b, single.values, mixture=True)
    with pytest.raises(ValueError, match="leaf_proba needs a soft tree"):
        single.leaf_proba(np.zeros((1, 1)))


def test_single_leaf_and_soft_predictions():
    X, y = datasets.load("friedman1", as_arrays=True)
    model = SRTRegressor(random_state=0).fit(X[:1500], y[:1500])
    assert model.score(X[1500:], y[1500:]) > 0.85
    assert model.leaf_proba(X).shape == (len(X), 8)
    np.testing.assert_allclose(model.leaf_proba(X).sum(axis=1), 1.0)
    leaf = model.apply(X) - model.tree_.n_branches
    linear = model.tree_.values[leaf, 0] + np.sum(X * model.tree_.coefs[leaf, 0], axis=1)
    np.testing.assert_allclose(model.predict(X), np.clip(linear, y[:1500].min(), y[:1500].max()))
    assert 0.8 < np.corrcoef(model.predict_soft(X), y)[0, 1] ** 2 < 1.0
    mixed = ORRTRegressor(random_state=0).fit(X[:1500], y[:1500])
    assert mixed.score(X[1500:], y[1500:]) > 0.85
    assert np.array_equal(mixed.predict(X), mixed.predict_soft(X))
    warm = ORRTRegressor(init=model.tree_, max_iter=5, random_state=0).fit(X[:1500], y[:1500])
    assert warm.score(X[:1500], y[:1500]) > 0.85


@pytest.mark.parametrize("init", ["hinge", "cluster", "cart", "random", HingeInit(n_random=1)], ids=str)
def test_every_start(init):
    X, y = datasets.load("friedman1", as_arrays=True)
    assert SRTRegressor(2, init=init, random_state=0).fit(X[:500], y[:500]).score(X[500:], y[500:]) > 0.7


def test_printed_penalties_are_the_papers():
    X, y = datasets.load("friedman1", as_arrays=True)
    n, p = X.shape
    model = SRTRegressor(2, l2="paper", random_state=0)
    problem, (low, spread, _mean, _scale) = model.state(X, y)
    np.testing.assert_allclose(low, X.min(axis=0))
    np.testing.assert_allclose(spread, np.ptp(X, axis=0))
    tree = solve(problem, NODEC(max_iter=1), random_state=0).tree
    omega, beta = -p * tree.A, tree.coefs
    lambdas = 2.0 / (p * 3), 2.0 / (p * 4)
    printed = 0.5 * lambdas[0] * np.sum(omega**2) + 0.5 * lambdas[1] * np.sum(beta**2)
    assert problem.penalty(tree) == pytest.approx(printed)
    strengths = SRTRegressor(2).state(X, y)[0].penalties[0]
    assert (strengths.splits, strengths.leaves) == pytest.approx((0.01 * p / n, 0.03 * p / n))
    assert SRTRegressor(2, l2=(0.1, 0.2)).state(X, y)[0].penalties == (L2(splits=0.1, leaves=0.2),)
    held = SRTRegressor(2, l2=np.array([0.1, 0.2]), l2_constants=True).state(X, y)[0].penalties
    assert held == (L2(splits=0.1, leaves=0.2), L2Constants(splits=0.1, leaves=0.2))
    letter = SRTRegressor(2, preset="paper", reading="letter").state(X, y)[0]
    assert letter.penalty(tree) == pytest.approx(
        printed + 0.5 * lambdas[0] * np.sum(tree.b**2) + 0.5 * lambdas[1] * np.sum(tree.values**2)
    )
    for options in ({}, {"l2_constants": False}):
        stated = SRTRegressor(2, preset="paper", **options).state(X, y)[0]
        assert stated.penalties[0] == L2(1.0 / (n * p * 3), 1.0 / (n * p * 4))
        assert stated.penalties[1:] == (() if options else (L2Constants(1.0 / (n * p * 3), 1.0 / (n * p * 4)),))
    assert SRTRegressor(2, preset="paper", l2=0.0).state(X, y)[0].penalties == (L2(),)
    classes = SRTClassifier(2, l2=0.1, l2_constants=True).state(X, y > y.mean())[0]
    assert classes.penalties[1:] == (L2Constants(splits=0.1),)
    small = SRTRegressor(2).state(X, y, np.full(n, 1.0 / n))[0].penalties[0]
    assert small == strengths


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (
            SRTRegressor,
            {"l2": "none"},
            "l2 must be 'auto', 'paper', 'paper, sum', a number >= 0 or a pair of them; got 'none'",
        ),
        (SRTRegressor, {"l2": (1.0, -1.0)}, "l2 must be"),
        (SRTRegressor, {"init": "best"}, "init must be one of .*; got 'best'"),
        (
            SRTRegressor,
            {"init": HingeInit},
            r"init must be one of \['auto', 'hinge', 'cluster', 'cart', 'random'\], an initial tree of `solvers`",
        ),
        (SRTRegressor, {"k0": 1.5}, r"k0 must be an integer or None; got 1\.5"),
        (SRTRegressor, {"n_init": 0}, "n_init must be an integer >= 1; got 0"),
        (SRTRegressor, {"max_depth": 0}, "max_depth must be an integer >= 1, 'auto' or 'cv'; got 0"),
        (ORRTRegressor, {"method": "Newton"}, "method must be one of .*; got 'Newton'"),
        (ORRTRegressor, {"init": "hinge"}, "init must be a Tree or None; got 'hinge'"),
    ],
)
def test_bad_options_are_one_clear_sentence(kind, options, message):
    with pytest.raises(ValueError, match=message):
        kind(**options).fit(np.zeros((5, 2)), np.arange(5.0))


@pytest.mark.parametrize("leaves", ["constant", "linear"])
def test_srt_of_classes(leaves):
    X, y = load_iris(return_X_y=True)
    names = np.array(["s", "ve", "vi"])[y]
    model = SRTClassifier(2, leaves=leaves, random_state=0).fit(X[::2], names[::2])
    assert model.score(X[1::2], names[1::2]) > 0.93
    problem, _scaling = model.state(X[::2], names[::2])
    own = model.predict_proba(X[::2])[np.arange(75), y[::2]]
    expected = -np.log(np.maximum(own, 1e-6)).mean() + problem.penalty(model.result_.tree)
    assert model.result_.objective == pytest.approx(expected, rel=1e-6)
    assert list(model.classes_) == ["s", "ve", "vi"]


def test_the_smooth_objective_of_a_constant_is_its_objective(rng):
    X = rng.normal(size=(40, 2))
    assert SRTRegressor(2).fit(X, np.ones(40)).smooth_objective_ == pytest.approx(0.0)
    assert SRTClassifier(2).fit(X, np.zeros(40)).smooth_objective_ == pytest.approx(0.0, abs=1e-6)
