"""Shattering inequalities: proofs agree with all dichotomies of two features; hulls, limits, refusals."""

from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest

from opttree import SplitPrice, TreeProblem
from opttree.problems.mip.shatter import divider, meeting
from solvers import MIP, SOCT, solve
from tests.conftest import ends_in_time, thinned

OPTIMIZERS = [
    "highs",
    pytest.param("scip", marks=pytest.mark.skipif(find_spec("pyscipopt") is None, reason="no pyscipopt")),
    pytest.param("gurobi", marks=pytest.mark.skipif(find_spec("gurobipy") is None, reason="no gurobipy")),
]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("seed", thinned(range(3), 3))
def test_proofs_agree_with_all_dichotomies(optimizer, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(14, 2)), rng.integers(0, 3, 14)
    for options in ({"depth": 1}, {"depth": 1, "sample_weight": rng.uniform(0.2, 2.0, 14)},
                    {"depth": 2, "penalties": (SplitPrice(0.1),), "n": 9}):  # fmt: skip
        n = options.pop("n", 14)
        problem = TreeProblem(X[:n], y[:n], splits="oblique", loss="zero_one", **options)
        result = solve(problem, SOCT(optimizer, threads=1), random_state=0, time_limit=60)
        assert result.termination.name == "OPTIMAL"
        assert result.objective == pytest.approx(solve(problem, MIP(), time_limit=60).objective, rel=1e-6)


def test_hulls_that_meet_and_hyperplanes_that_divide():
    rng = np.random.default_rng(0)
    for p in (1, 2, 4):
        for _ in range(20):
            left, right = rng.normal(size=(8, p)), rng.normal(size=(7, p)) + rng.integers(0, 4)
            meet = meeting(left, right)
            if meet is None:
                a, b = divider(left, right)
                assert (left @ a).max() < b < (right @ a).min()
            else:
                assert len(meet[0]) + len(meet[1]) <= p + 2
                assert meeting(left[meet[0]], right[meet[1]]) is not None


def test_refusals_and_a_limit_that_is_too_short():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 6)), rng.integers(0, 2, 150)
    assert "use Benders" in SOCT().refusal(TreeProblem(X, y, 2, "axis", loss="zero_one"))
    assert "too many" in SOCT().refusal(TreeProblem(np.tile(X, (40, 1)), np.tile(y, 40), 3, "oblique", loss="zero_one"))
    problem = TreeProblem(X, y, 2, "oblique", loss="zero_one")
    for seconds in (0.05, 1.0):
        run = partial(solve, problem, SOCT(), time_limit=seconds, random_state=0)
        result = ends_in_time(run, seconds + 1.5)
        assert (result.bound or 0.0) <= result.objective
