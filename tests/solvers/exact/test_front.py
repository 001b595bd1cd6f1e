"""The best trees of no, one, two, ... splits; features on which no tree splits."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from opttree import TreeProblem
from opttree.constraints import ForbidSplit
from solvers import MIP, BranchAndBound, Termination, solve, sparse_front
from tests.exact import optimum


def drawn(seed, loss="zero_one"):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, (24, 3)).astype(float)
    y = rng.integers(0, 3, 24) if loss == "zero_one" else rng.normal(size=24)
    return TreeProblem(X, y, depth=2, splits="axis", loss=loss)


@pytest.mark.parametrize("loss", ["zero_one", "squared"])
def test_every_tree_of_the_front_is_optimal(loss):
    problem = drawn(0, loss)
    front = sparse_front(problem)
    assert front.is_proved
    frame = front.to_frame()
    assert frame["objective"].is_monotonic_decreasing
    assert (frame["splits"] <= frame.index).all()
    for k, objective in frame["objective"].items():
        best = optimum(problem.X, problem.Y, depth=2, loss=loss, w=problem.w, price=0.0, min_leaf=1, max_splits=k)
        assert objective == pytest.approx(best, abs=1e-9)
    assert len(front.plot().lines) >= 1
    plt.close("all")
    assert len(sparse_front(problem, 1).results) == 2
    assert len(sparse_front(problem, np.int64(1)).results) == 2
    with pytest.raises(ValueError, match="max_splits must be None or an integer >= 0; got -1"):
        sparse_front(problem, -1)
    with pytest.raises(ValueError, match=r"time_limit must be None or > 0 seconds; got 0\.0"):
        sparse_front(problem, time_limit=0.0)


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("loss", ["zero_one", "squared"])
def test_no_tree_splits_on_a_forbidden_feature(loss, depth):
    problem = drawn(1, loss).restated(depth=depth)
    free = solve(problem, BranchAndBound())
    j = int(free.tree.feature[0])
    stated = problem.restated(constraints=[ForbidSplit(j)])
    result = solve(stated, BranchAndBound())
    assert result.termination is Termination.OPTIMAL
    assert j not in result.tree.feature[: result.tree.n_branches]
    others = np.delete(problem.X, j, axis=1)
    best = optimum(others, problem.Y, depth=depth, loss=loss, w=problem.w, price=0.0, min_leaf=1, max_splits=None)
    assert result.objective == pytest.approx(best, abs=1e-9)
    if depth < 3:
        assert solve(stated, MIP()).objective == pytest.approx(best, rel=1e-6, abs=1e-6)
    first = solve(problem.restated(constraints=[ForbidSplit(j, where=0)]), BranchAndBound())
    assert first.tree.feature[0] != j
    assert free.objective - 1e-12 <= first.objective <= result.objective + 1e-12
