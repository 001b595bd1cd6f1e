"""Kernels of starts and passes against what they stand for: stable sorting, CART, random trees, hinges, TAO's pass."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from opttree import L1, TreeProblem
from opttree.kernels.passes import binned
from opttree.kernels.passes.sorting import stable_order
from solvers import TAO, CartInit, HingeInit, solve
from solvers.initial import hinge
from solvers.initial.cart import CartInit as Cart
from solvers.tao.state import State


def drawn(seed=0, n=400, p=5, levels=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) if levels is None else rng.integers(0, levels, (n, p)).astype(float)
    return rng, X, X[:, 0] * (X[:, 1] > 0.3) + np.abs(X[:, 2]) + 0.3 * rng.normal(size=n)


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 1000, 5000])
def test_orders_are_stable(n):
    rng = np.random.default_rng(n)
    for values in (
        rng.normal(size=n),
        rng.integers(0, 7, n).astype(float),
        np.zeros(n),
        -np.abs(rng.integers(0, 2, n)) * 0.0,
    ):
        assert np.array_equal(stable_order(values), np.argsort(values, kind="stable"))
        table = np.ascontiguousarray(np.stack([values, -values]))
        assert np.array_equal(stable_order(table), np.argsort(table, axis=1, kind="stable"))


@pytest.mark.parametrize("loss", ["squared", "zero_one"])
@pytest.mark.parametrize("levels", [None, 100])
@pytest.mark.parametrize("weights", [False, True])
def test_the_start_is_scikit_learns_tree(loss, levels, weights, monkeypatch):
    """But for ties: their trees are as good."""
    rng, X, y = drawn(3, levels=levels)
    target = np.digitize(y, np.quantile(y, [0.3, 0.6])) if loss == "zero_one" else y
    weight = np.where(rng.random(len(y)) < 0.2, 0.0, rng.random(len(y))) if weights else None
    problem = TreeProblem(X, target, 3, loss=loss, sample_weight=weight, min_leaf=5)
    assert CartInit()._compiles(problem, problem.loss_function.criterion)
    ours = CartInit().build(problem, np.random.default_rng(0))
    monkeypatch.setattr(Cart, "_compiles", lambda *_: False)
    theirs = CartInit().build(problem, np.random.default_rng(0))
    assert problem.objective(ours) == pytest.approx(problem.objective(theirs), rel=1e-12)
    assert ours.n_leaves == theirs.n_leaves


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize(("n", "levels"), [(600, 30), (2000, 400)])
def test_randomised_trees_with_all_features_are_carts(n, levels, K):
    rng, X, _y = drawn(1, n=n, levels=levels)
    Y = (X[:, :K] ** 2 + rng.normal(size=(n, K))).astype(np.float32)
    Y -= Y.mean(axis=0)
    codes, ends, coarse = binned.in_bins(X.astype(np.float32))
    assert not coarse.any()
    rows = np.flatnonzero(rng.random(n) < 0.8).astype(np.int32)
    w = rng.integers(1, 3, n).astype(np.float32)
    for depth, fewest in ((0, 1), (1, 1), (3, 4), (30, 1)):
        grown = binned.grow(codes, rows.copy(), Y, w, depth, fewest, 5, 7)
        theirs = DecisionTreeRegressor(max_depth=max(depth, 1), min_samples_leaf=fewest, random_state=0)
        theirs.fit(X[rows], Y[rows], sample_weight=w[rows])
        at = np.zeros(len(rows), np.intp)
        while np.any(inner := grown.left[at] >= 0):
            left = codes[np.maximum(grown.feature[at], 0), rows] <= grown.cut[at]
            at = np.where(inner, np.where(left, grown.left[at], grown.right[at]), at)
        sizes = np.bincount(at)
        assert sizes[sizes > 0].min() >= fewest
        means = np.stack([np.bincount(at, w[rows] * Y[rows, k]) for k in range(K)], axis=1)[at]
        error = np.sum(w[rows, None] * (Y[rows] - means / np.bincount(at, w[rows])[at, None]) ** 2)
        answer = np.reshape(theirs.predict(X[rows]), (len(rows), K)) if depth else np.average(Y[rows], 0, w[rows])
        assert error == pytest.approx(np.sum(w[rows, None] * (Y[rows] - answer) ** 2), rel=0.03, abs=1e-3)
    assert [len(end) + 1 for end in ends] == [len(np.unique(x)) for x in X.T]


@pytest.mark.parametrize("distinct", [1, 2, 256, 257, 2500, 2600, 5000])
def test_bins_are_in_order_and_keep_few_values_apart(distinct):
    x = np.random.default_rng(0).permutation(np.arange(5000) % distinct).astype(np.float32)[:, None]
    codes, ends, coarse = binned.in_bins(x)
    assert coarse.tolist() == [2 * distinct > 5000]  # of one row each, or hardly more
    assert np.array_equal(codes[0], np.searchsorted(ends[0], x[:, 0]))
    assert codes.dtype == (np.uint16 if 256 < distinct <= 2500 else np.uint8)
    if coarse[0]:
        assert 249 <= codes.max() < 256
        assert np.bincount(codes[0]).max() <= 4 + 5000 // 256
    else:
        assert codes.max() == distinct - 1


@pytest.mark.parametrize("K", [1, 2])
def test_a_key_of_many_levels_is_told_apart_beside_other_features(K):
    rng = np.random.default_rng(0)
    key = rng.permutation(np.arange(6000) % 1500)
    Y = rng.normal(size=(1500, K)).astype(np.float32)[key]
    codes, _ends, coarse = binned.in_bins(np.stack([7.0 * key, rng.integers(0, 2, 6000)], axis=1))
    assert not coarse.any()
    rows = np.arange(6000, dtype=np.int32)
    grown = binned.grow(codes, rows, Y, np.ones(6000, np.float32), 400, 1, 2, 7)
    leaves = np.flatnonzero(grown.left < 0)
    assert leaves.size < 1.1 * 1500  # in 256 bins 512 with the other feature, each of several keys
    assert all(np.ptp(key[rows[grown.first[t] : grown.last[t]]]) == 0 for t in leaves)


def test_rows_far_from_the_others_hide_no_cut_between_those():
    """Codes of a node were joined by their span: all but one of its rows were in one bin."""
    group = np.repeat([0.0, 1.0], [1000, 1000])
    x = np.concatenate([group, np.repeat(2.0 + np.arange(3000), 2)])
    y = np.concatenate([group, np.zeros(6000)]).astype(np.float32)[:, None]
    codes, ends, _coarse = binned.in_bins(x[:, None])
    rows = np.append(np.arange(2000), 7999).astype(np.int32)
    grown = binned.grow(codes, rows, y, np.ones(8000, np.float32), 1, 2, 1, 7)
    assert ends[0][grown.cut[0]] == 0.5


@pytest.mark.parametrize("K", [1, 2])
def test_hinges_of_all_kinds_of_tables_are_the_same(K, monkeypatch):
    rng, X, y = drawn(2, n=800)
    target = y if K == 1 else np.stack([y, X[:, 3] ** 2], axis=1)
    problem = TreeProblem(X, target, 3, leaves="linear", sample_weight=rng.random(800))
    found = []
    for kind in (hinge._DenseNode, hinge._WideNode, hinge._Node):
        monkeypatch.setattr(hinge, "_node", lambda p, rows, w, ridge, kind=kind: kind(p.X, rows, w, ridge))
        found.append(problem.objective(HingeInit().build(problem, np.random.default_rng(0))))
    assert found == pytest.approx([found[0]] * 3, rel=1e-9)


@pytest.mark.parametrize(("loss", "lasso"), [("squared", 0.0), ("absolute", 0.0), ("zero_one", 0.0), ("squared", 0.01)])
def test_a_whole_pass_is_that_of_the_levels(loss, lasso, monkeypatch):
    rng, X, y = drawn(4)
    penalties = () if lasso else (L1(splits=1e-3),)
    problem = TreeProblem(
        X, y > 0.5 if loss == "zero_one" else y, 4, loss=loss, penalties=penalties, sample_weight=rng.random(400)
    )
    solver = TAO(init=CartInit(), max_iter=4, split_lasso=lasso)
    whole = solve(problem, solver, random_state=0)
    monkeypatch.setattr(State, "whole_pass", lambda *_: False)
    by_levels = solve(problem, solver, random_state=0)
    assert whole.objective == pytest.approx(by_levels.objective, rel=1e-9)
    assert np.array_equal(whole.tree.apply(X), by_levels.tree.apply(X))
