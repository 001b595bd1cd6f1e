"""Sparse trees of any depth: a price, or a limit, of splits bounds their number, and with it their depth."""

import numpy as np
import pytest

from opttree import SplitPrice, TreeProblem
from opttree.constraints import MaxSplits, RequireSplit
from solvers import BranchAndBound, solve


def least(problem, most):
    """The least objective of a tree of at most so many splits, of any depth, by a recursion over sets of rows."""
    X, w, known = problem.X, problem.w, {}
    lost = 1.0 - (np.arange(problem.n_outputs) == problem.Y)

    def below(rows, k):
        if (rows, k) not in known:
            at = list(rows)
            best = (w[at] @ lost[at]).min()
            for j in range(X.shape[1]) if k else ():
                for t in np.unique(X[at, j])[:-1]:
                    left = tuple(i for i in rows if X[i, j] <= t)
                    right = tuple(i for i in rows if X[i, j] > t)
                    if min(len(left), len(right)) >= problem.min_leaf:
                        sides = (below(left, a) + below(right, k - 1 - a) for a in range(k))
                        best = min(best, problem.price_per_split + min(sides))
            known[rows, k] = best
        return known[rows, k]

    return below(tuple(range(len(X))), most)


def drawn(seed, **options):
    """A small table, of 0 and 1 by turns, with weights and smallest leaves."""
    rng = np.random.default_rng(seed)
    n, few = int(rng.integers(8, 15)), seed % 2
    X = rng.integers(0, 2 if few else 4, size=(n, 5 if few else 2)).astype(float)
    weight = rng.integers(1, 4, n).astype(float) if seed % 3 == 0 else None
    y = rng.integers(0, 2 + seed % 2, n)
    return TreeProblem(
        X, y, splits="axis", loss="zero_one", sample_weight=weight, min_leaf=int(rng.integers(1, 3)), **options
    )


@pytest.mark.parametrize("seed", range(10))
def test_a_price_finds_the_best_tree_of_any_depth(seed):
    problem = drawn(seed, depth=20, penalties=(SplitPrice([0.1, 0.07, 0.05][seed % 3]),))
    result = solve(problem, BranchAndBound())
    assert result.termination.name == "OPTIMAL"
    assert result.objective == pytest.approx(least(problem, 8), abs=1e-9)
    assert result.bound <= result.objective + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_a_limit_finds_the_best_tree_of_any_depth(seed):
    problem = drawn(seed, depth=30, constraints=(MaxSplits(1 + seed % 5),))
    result = solve(problem, BranchAndBound())
    assert result.termination.name == "OPTIMAL"
    assert result.objective == pytest.approx(least(problem, 1 + seed % 5), abs=1e-9)


def test_depths_that_are_too_large_are_refused():
    problem = drawn(1, depth=20)
    assert BranchAndBound().refusal(problem).startswith("its depth is 20, and branch and bound goes to depth 6, or")
    dear = problem.restated(penalties=(SplitPrice(0.01),))
    assert BranchAndBound().refusal(dear.restated(penalties=(SplitPrice(1e-6),))) is not None
    assert BranchAndBound(max_splits=4).refusal(problem) is None
    must = problem.restated(penalties=(SplitPrice(10.0),), constraints=(RequireSplit(0),))  # one leaf is not allowed
    assert BranchAndBound().refusal(must) is not None


def test_a_chain_of_splits_is_found():
    """One class in every second interval: a tree of one path, deeper than six levels."""
    X = np.arange(20.0)[:, None]
    y = np.repeat([0, 1] * 5, 2)
    problem = TreeProblem(X, y, depth=15, splits="axis", loss="zero_one", penalties=(SplitPrice(0.04),))
    result = solve(problem, BranchAndBound())
    assert result.termination.name == "OPTIMAL"
    assert result.tree.n_branches == 9
    assert result.objective == pytest.approx(0.36)
