"""Ratios and limits of false alarms, against all trees of small tables."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from opttree import L1, TreeProblem
from opttree.constraints import RequireSplit
from solvers import Bagging, NeymanPearson, Ratio, solve


def answers(X, rows, depth):
    """All 0/1 answers of trees to some rows, as sets of positive rows."""
    found = {frozenset(), frozenset(rows)}
    if depth and len(rows) > 1:
        for j in range(X.shape[1]):
            for threshold in np.unique(X[rows, j])[:-1]:
                left, right = ([i for i in rows if (X[i, j] <= threshold) == side] for side in (True, False))
                found |= {a | b for a in answers(X, left, depth - 1) for b in answers(X, right, depth - 1)}
    return found


def drawn(seed):
    rng = np.random.default_rng(seed)
    n, depth = int(rng.integers(4, 12)), int(rng.integers(1, 3))
    X, y = rng.integers(0, 4, size=(n, 2)).astype(float), rng.permutation(np.arange(n) % 3 == 0).astype(int)
    w = rng.uniform(0.2, 2.0, n) if seed % 2 else np.ones(n)
    sets = answers(X, list(range(n)), depth)
    positive = np.array([[i in one for i in range(n)] for one in sets], float)
    return (
        TreeProblem(X, y, depth, "axis", loss="zero_one", sample_weight=w),
        positive @ (w * y),
        positive @ (w * (1 - y)),
    )


def f_measure(square, found, wrong, total):
    return (1.0 + square) * found / (square * total + found + wrong)


MEASURES = {
    "f1": partial(f_measure, 1.0),
    "fbeta": partial(f_measure, 4.0),
    "jaccard": lambda found, wrong, total: found / (total + wrong),
}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("measure", MEASURES)
def test_ratios_are_the_best(measure, seed):
    problem, found, wrong = drawn(seed)
    best = MEASURES[measure](found, wrong, found.max()).max()
    last = solve(problem, Ratio(measure)).trace.rows[-1].info
    assert last["ratio"] == pytest.approx(best, abs=1e-9)
    assert best - 1e-9 <= last["bound"] <= best + 1e-6


@pytest.mark.parametrize("seed", range(12))
def test_false_alarms_keep_their_limit(seed):
    problem, found, wrong = drawn(seed)
    share = 0.1 + 0.05 * (seed % 6)
    best = found[wrong <= share * wrong.max() + 1e-12].max() / found.max()
    result = solve(problem, NeymanPearson(share))
    last = result.trace.rows[-1].info
    assert last["false_alarms"] <= share + 1e-8
    assert last["recall"] <= best + 1e-9 <= last["bound"] + 2e-9
    taken = result.tree.predict(problem.X) == 1
    weight = problem.w * (problem.y == 1)
    assert np.sum(weight * taken) / weight.sum() == pytest.approx(last["recall"])


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
def test_limits_of_false_alarms_are_used(share):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = X[:, 0] + rng.normal(size=300) > 1.0
    last = solve(TreeProblem(X, y, 2, "axis", loss="zero_one"), NeymanPearson(share)).trace.rows[-1].info
    thresholds = X[:, 0][:, None] > X[:, 0]  # one split on the first feature, at each value
    alarms, found = thresholds[~y].mean(axis=0), thresholds[y].mean(axis=0)
    assert last["recall"] >= 0.8 * found[alarms <= share].max() > 0.0
    assert last["bound"] >= found[alarms <= share].max()


def test_positives_of_little_weight_are_found():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = X[:, 0] > 0.5
    problem = TreeProblem(X, y, 1, "axis", loss="zero_one", sample_weight=np.where(y, 1e-12, 1.0))
    assert solve(problem, Ratio()).trace.rows[-1].info["ratio"] == pytest.approx(1.0)


def test_what_has_no_ratio_is_refused():
    X, y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 2, 0, 1, 2])
    for solver in (Ratio(), NeymanPearson()):
        with pytest.raises(ValueError, match="two classes"):
            solve(TreeProblem(X, y, 1, "axis", loss="zero_one"), solver)
        with pytest.raises(ValueError, match="no room for penalties"):
            solve(TreeProblem(X, y > 0, 1, "axis", loss="zero_one", penalties=L1(splits=0.1)), solver)
        with pytest.raises(ValueError, match="makes forests"):
            solve(TreeProblem(X, y > 0, 1, "axis", loss="zero_one"), replace(solver, solver=Bagging()))
    required = TreeProblem(X, y > 0, 1, "axis", loss="zero_one", constraints=RequireSplit(1))
    with pytest.raises(ValueError, match="one leaf must satisfy the constraints"):
        solve(required, Ratio())


def test_a_limit_that_is_too_short_leaves_a_bound():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 20))
    problem = TreeProblem(X, X[:, 0] + rng.normal(size=3000) > 1.0, 4, "axis", loss="zero_one")
    result = solve(problem, Ratio(), time_limit=0.3)
    last = result.trace.rows[-1].info
    assert result.termination.name == "TIME_LIMIT"
    assert 0.3 < last["ratio"] < last["bound"] <= 1.0
