"""Penalties on splits and leaves."""

import numpy as np
import pytest

from opttree import L1, L2, L2Constants, SplitPrice, Tree, TreeProblem
from solvers import GET, MIP, TAO, BranchAndBound, solve
from tests.conftest import regression_problem


@pytest.mark.parametrize(
    "make", [lambda: L1(splits=-1.0), lambda: L2(leaves=np.nan), lambda: SplitPrice(-0.1), lambda: L2Constants("a")]
)
def test_bad_penalties_are_named(make):
    with pytest.raises(ValueError, match="must be finite and >= 0"):
        make()


def test_penalties_of_one_kind_add_up():
    penalties = [L1(splits=0.1, leaves=0.2), L2(splits=0.3), L1(splits=0.01), SplitPrice(0.5), SplitPrice(0.25)]
    problem = regression_problem(penalties=penalties)
    assert problem.penalties == tuple(penalties)
    assert problem.strength(L1, "splits") == pytest.approx(0.11)
    assert problem.strength(L1, "leaves") == pytest.approx(0.2)
    assert (problem.strength(L2, "splits"), problem.strength(L2, "leaves")) == (0.3, 0.0)
    assert problem.split_price == 0.75
    prices = (SplitPrice(0.5), L2(splits=0.25), L1(splits=0.125))
    assert regression_problem(splits="axis", penalties=prices).price_per_split == 0.875
    assert regression_problem(penalties=prices).price_per_split == 0.75


def test_a_penalty_on_splits_does_not_depend_on_their_length():
    problem = regression_problem(100, penalties=(L1(splits=0.1), L2(splits=0.01), L2Constants(splits=0.02)))
    tree = solve(problem, TAO(max_iter=2), random_state=0).tree
    shorter = Tree(tree.children, 1e-3 * tree.A, 1e-3 * tree.b, tree.values)
    assert problem.objective(shorter) == pytest.approx(problem.objective(tree), rel=1e-12)
    thresholds = 0.02 * np.square(tree.b / np.linalg.norm(tree.A, axis=1)).sum()
    least = 0.11 * tree.n_branches + thresholds
    assert least <= problem.penalty(tree) <= 0.1 * tree.n_branches * 2.0 + 0.01 * tree.n_branches + thresholds
    soft = Tree(tree.children, tree.A, tree.b, tree.values, gate=1.0)
    weights = 0.1 * np.abs(tree.A).sum() + 0.01 * np.square(tree.A).sum()
    assert problem.penalty(soft) == pytest.approx(weights + 0.02 * np.square(tree.b).sum())
    held = problem.restated(penalties=(L2Constants(leaves=0.3), L2Constants(leaves=0.1)))
    assert held.penalty(soft) == pytest.approx(0.4 * np.square(tree.values).sum())
    assert held.restrict(np.arange(50), 1).strength(L2Constants, "leaves") == pytest.approx(0.4 / held.w[:50].sum())


@pytest.mark.parametrize("solver", [BranchAndBound(), MIP()], ids=["branch and bound", "mip"])
def test_what_proves_bounds_refuses_penalties_on_constants(solver):
    problem = regression_problem(30, depth=1, splits="axis", penalties=L2Constants(splits=0.1))
    assert solver.refusal(problem) is not None
    assert TAO().refusal(problem) is None


@pytest.mark.parametrize("solver", [GET(n_starts=1), TAO()], ids=["GET", "TAO"])
def test_an_l1_penalty_on_splits_selects_features(solver):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 8))
    y = np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0) + 0.1 * rng.normal(size=400)
    free, held = (
        solve(TreeProblem(X, y, depth=2, penalties=L1(splits=s)), solver, random_state=0).tree for s in (0.0, 0.1)
    )
    assert np.count_nonzero(free.A[0]) == 8
    assert set(np.flatnonzero(held.A[0])) == {0, 1}
    assert np.mean((held.predict(X) - y) ** 2) < 0.2


def test_a_single_penalty_is_a_sequence_of_one():
    several = regression_problem(penalties=(L1(splits=s) for s in (1e-3, 1e-2))).penalties
    assert several == (L1(splits=1e-3), L1(splits=1e-2))
    assert regression_problem(penalties=L1(splits=1e-3)).penalties == (L1(splits=1e-3),)
