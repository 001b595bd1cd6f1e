"""Formulations for comparison agree with the search; their linear programs; trees as points."""

import numpy as np
import pytest

from opttree import MIPTreeProblem, SplitPrice, TreeProblem
from opttree.constraints import ForbidSplit, MaxSplits
from solvers import MIP, BranchAndBound, solve
from solvers.mip.highs import Compiled, Program, Run
from solvers.mip.limits import Limits

NAMES = ["cut", "cut-w", "binoct"]


def drawn(seed=0, n=24, values=2, **options):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, values, size=(n, 4)).astype(float)
    y = ((X[:, 0] != X[:, 1]) ^ (rng.random(n) < 0.2)).astype(int)
    return TreeProblem(**{"X": X, "y": y, "depth": 2, "splits": "axis", "loss": "zero_one"} | options)


def root(problem, formulation):
    compiled = Compiled(MIPTreeProblem(problem, formulation, subtree_rows=False).build())
    program = compiled.program | {"integer": np.zeros(len(compiled.columns), bool)}
    run = Run(Program(program, compiled.offset, compiled.unit), Limits(0.0, 60.0, None, 1, 0, False, False), None)
    while not run.wait():
        pass
    return run.outcome().bound, len(compiled.columns)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("values", [2, 3])
def test_they_agree_with_branch_and_bound(name, values):
    rng = np.random.default_rng(1)
    for options in (
        {},
        {"penalties": (SplitPrice(0.02),)},
        {"sample_weight": rng.uniform(0.1, 2.0, 24)},
        {"y": rng.uniform(0.0, 3.0, (24, 3)), "loss": "cost"},
        {"constraints": [MaxSplits(2), ForbidSplit(0)]},
    ):
        problem = drawn(values=values, **options)
        result = solve(problem, MIP(name, threads=1), time_limit=60, random_state=0)
        assert result.termination.name == "OPTIMAL"
        assert result.objective == pytest.approx(solve(problem, BranchAndBound()).objective, rel=1e-6)


def test_without_flows_the_linear_program_is_the_same():
    X = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)], float)  # no equal rows
    both = np.hstack([X, 1.0 - X])
    for y in (np.array([0, 1, 1, 0, 1, 0, 0, 1]), np.array([0, 1, 2, 0, 1, 2, 0, 1])):
        problem = TreeProblem(both, y, 2, "axis", loss="zero_one")
        (flow, n_flow), (cut, n_cut), (weak, _n) = (root(problem, name) for name in ("flow", "cut", "cut-w"))
        assert cut == pytest.approx(flow, abs=1e-9)
        assert weak <= cut + 1e-9
        assert n_cut < 0.6 * n_flow


@pytest.mark.parametrize("name", NAMES)
def test_a_tree_is_a_point_and_comes_back(name):
    problem = drawn(values=5)
    tree = solve(problem, BranchAndBound()).tree
    stated = MIPTreeProblem(problem, name)
    model = stated.encode(tree)
    assert float(model.cost()) == pytest.approx(problem.objective(stated.snap(tree)))
    assert np.array_equal(stated.decode(model).predict(problem.X), tree.predict(problem.X))


@pytest.mark.parametrize("name", NAMES)
def test_refusals_name_the_formulation_that_takes_it(name):
    for options in (
        {"min_leaf": 3},
        {"constraints": [ForbidSplit(0, where=0)]},
        {"y": np.arange(24.0), "loss": "squared"},
    ):
        with pytest.raises(ValueError, match="use flow"):
            MIPTreeProblem(drawn(**options), name)


@pytest.mark.parametrize("optimizer", ["scip", "gurobi"])
def test_squares_are_given_to_optimizers_as_arrays(optimizer):
    if MIP(optimizer=optimizer).refusal(drawn()) is not None:
        pytest.skip("not installed")
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, size=(9, 2)).astype(float), rng.normal(size=9)
    problem = TreeProblem(X, y, 2, "axis")
    result = solve(problem, MIP("flow", optimizer=optimizer), time_limit=60)
    assert result.termination.name == "OPTIMAL"
    assert result.objective == pytest.approx(solve(problem, BranchAndBound()).objective, rel=1e-3)
    assert len(result.trace.rows) > 2
