"""Side constraints in branch and bound: every tree of small tables is looked at."""

import itertools

import numpy as np
import pytest

from opttree import SplitPrice, TreeProblem
from opttree.constraints import FeatureCost, ForbidSplit, MaxFeatures, MaxSplits, RequireSplit
from solvers import BranchAndBound, Termination, solve
from tests.conftest import thinned


def leaf_cost(problem, rows):
    w, y = problem.w[rows], problem.Y[rows, 0]
    if problem.loss == "zero_one":
        return w.sum() - np.bincount(y.astype(int), w).max()
    if problem.loss == "squared":
        return np.sum(w * (y - np.average(y, weights=w)) ** 2)
    order = np.argsort(y)
    sums = np.cumsum(w[order])
    return np.sum(w * np.abs(y - y[order][np.searchsorted(sums, 0.5 * sums[-1])]))


def least_cost(problem, features, required):
    """The least cost of a tree on some features, with a split that must be there (None: none must)."""
    forbidden = [c for c in problem.constraints if isinstance(c, ForbidSplit)]

    def below(rows, level):
        free = leaf_cost(problem, rows)
        bound = free if required is None else np.inf
        for j in features if level < problem.depth else ():
            if any(c.feature == j and c.at(level) for c in forbidden):
                continue
            here = required is None or (required.feature == j and required.at(level))
            for value in np.unique(problem.X[rows, j])[:-1]:
                left, right = rows[problem.X[rows, j] <= value], rows[problem.X[rows, j] > value]
                if min(len(left), len(right)) < problem.min_leaf:
                    continue
                (a, b), (c, d) = below(left, level + 1), below(right, level + 1)
                free = min(free, a + c + problem.price_per_split)
                bound = min(bound, (a + c if here else min(a + d, b + c)) + problem.price_per_split)
        return free, bound

    return below(np.arange(problem.n_samples), 0)[1]


def optimum(problem):
    p = problem.n_features
    budgets = [(np.ones(p), c.k) for c in problem.constraints if isinstance(c, MaxFeatures)]
    budgets += [(c.of(problem), c.budget) for c in problem.constraints if isinstance(c, FeatureCost)]
    required = next((c for c in problem.constraints if isinstance(c, RequireSplit)), None)
    sets = [list(s) for k in range(p + 1) for s in itertools.combinations(range(p), k)]
    sets = [s for s in sets if all(costs[s].sum() <= budget for costs, budget in budgets)]
    return min(least_cost(problem, s, required) for s in sets)


def drawn(seed):
    """A small problem with one to three side constraints."""
    rng = np.random.default_rng([seed, 7])
    depth, p = int(rng.choice([1, 2, 2, 3])), int(rng.integers(2, 5))
    m = int(rng.integers(6, 13 if depth == 3 else 22))
    X = rng.integers(0, int(rng.choice([2, 3, 5])), (m, p)).astype(float)
    loss = str(rng.choice(["zero_one", "squared", "absolute"], p=[0.45, 0.45, 0.1]))
    y = rng.integers(0, 3, m) if loss == "zero_one" else np.round(rng.normal(size=m), 1)
    level, feature = rng.choice([None, *range(depth)]), int(rng.integers(p))
    where = None if level is None else int(level)
    choices = [
        MaxFeatures(int(rng.integers(1, p))),
        FeatureCost(rng.integers(0, 4, p).tolist(), float(rng.integers(1, 5))),
        ForbidSplit(feature, where),
        RequireSplit(int(rng.integers(p)), where),
    ]
    constraints = [choices[k] for k in rng.choice(4, int(rng.integers(1, 4)), replace=False)]
    options = {"splits": "axis", "loss": loss, "min_leaf": int(rng.choice([1, 1, 2])), "constraints": constraints}
    options["penalties"] = (SplitPrice(0.02),) if rng.random() < 0.3 else ()
    options["sample_weight"] = rng.integers(1, 4, m).astype(float) if rng.random() < 0.3 else None
    return TreeProblem(X, y, depth, **options)


@pytest.mark.parametrize("seed", thinned(range(120), 4))
def test_it_proves_the_best_tree_that_satisfies_the_constraints(seed):
    problem = drawn(seed)
    best = optimum(problem)
    required = any(isinstance(c, RequireSplit) for c in problem.constraints)
    if required and np.isinf(best):
        return  # that there is none may stay open
    result = solve(problem, BranchAndBound(n_jobs=1 + seed % 2))
    assert result.bound <= best + 1e-9
    assert result.objective >= best - 1e-9
    assert problem.violation(result.tree) is None
    if not required or not problem.penalties:
        assert result.termination is Termination.OPTIMAL or required
    if result.termination is Termination.OPTIMAL:
        assert result.objective == pytest.approx(best, abs=1e-9)


def rows_of(n=400, p=8):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    return X, X[:, 0] + np.abs(X[:, 1]) + X[:, 2] * (X[:, 3] > 0)


@pytest.mark.parametrize("depth", [2, 3])
def test_few_features_are_the_best_of_all_subsets(depth):
    X, y = rows_of(150, 5)
    result = solve(TreeProblem(X, y, depth, splits="axis", constraints=[MaxFeatures(2)]), BranchAndBound())
    subsets = (TreeProblem(X[:, s], y, depth, splits="axis") for s in itertools.combinations(range(5), 2))
    assert result.objective == pytest.approx(min(solve(one, BranchAndBound()).objective for one in subsets))
    assert result.termination is Termination.OPTIMAL


def test_a_split_at_the_root_may_be_required_under_a_price():
    X, y = rows_of(100, 4)
    stated = TreeProblem(
        X, y, 2, splits="axis", penalties=(SplitPrice(1.0),), constraints=[RequireSplit(2, where=0)]
    )  # fmt: skip
    result = solve(stated, BranchAndBound())
    assert result.termination is Termination.OPTIMAL
    assert result.tree.n_branches == 1


def test_there_may_be_no_such_tree():
    X, y = rows_of(50, 4)
    stated = TreeProblem(X, y, 2, splits="axis", constraints=[RequireSplit(1, where=0), ForbidSplit(1)])
    result = solve(stated, BranchAndBound())
    assert result.termination is Termination.INFEASIBLE
    assert result.tree is None


def test_a_time_limit_leaves_a_tree_that_satisfies_them():
    X, y = rows_of(3000, 30)
    constraints = [MaxFeatures(3), RequireSplit(4), MaxSplits(6)]
    stated = TreeProblem(X, y, 4, splits="axis", constraints=constraints)
    result = solve(stated, BranchAndBound(), time_limit=0.5)
    assert stated.violation(result.tree) is None
    assert result.bound <= result.objective


@pytest.mark.parametrize("gap", [0.1, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_a_gap_that_is_allowed_is_said(gap, seed):
    """Parts that were within the gap were forgotten: the bound was the incumbent's objective."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (20, 3)).astype(float)
    stated = TreeProblem(X, rng.normal(size=20) + 0.3 * X[:, 0], 2, splits="axis", constraints=[MaxFeatures(1)])
    result = solve(stated, BranchAndBound(gap=gap))
    assert result.bound <= optimum(stated) + 1e-9
    assert result.gap <= gap / (1.0 - gap) + 1e-9


def test_what_rounding_loses_is_not_proved():
    X = 1 + np.array([[0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 0], [0, 1, 1]]) * 4.4e-16
    Y = [
        [-282.904541, 21.5282566],
        [4859.46611, 874.869313],
        [-3.5351e-4, -0.0163241],
        [7.77e-5, 0.0019991],
        [-1e-5, 0],
    ]
    stated = TreeProblem(X, np.array(Y), 3, splits="axis", constraints=[RequireSplit(2), MaxSplits(5)])
    result = solve(stated, BranchAndBound())
    assert result.bound <= 1e-20
    assert result.termination is Termination.STALLED


def test_trees_without_splits_keep_to_all_constraints():
    X, y = rows_of(20, 4)
    stated = TreeProblem(X, y, 0, splits="axis", constraints=[MaxFeatures(1)])
    assert solve(stated, BranchAndBound()).termination is Termination.OPTIMAL


def test_large_tables_have_a_bound_from_the_first_second_on():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200_000, 4))
    stated = TreeProblem(X, X[:, 0] * X[:, 1], 2, splits="axis", constraints=[MaxFeatures(2)])
    result = solve(stated, BranchAndBound(), time_limit=1.0)
    assert result.bound > 0.0
    assert stated.violation(result.tree) is None
