"""What every solver must do, whatever it is. A solver that is not in the list below fails a test."""

import inspect
from itertools import groupby

import numba
import numpy as np
import pytest

import solvers
from opttree import L1, SplitPrice
from solvers import (
    GET,
    MIP,
    NODEC,
    ORRT,
    SDTR,
    TAO,
    Anneal,
    AxisNode,
    Boosting,
    CartInit,
    Chain,
    ClusterInit,
    Distilled,
    GradTree,
    GreedyInit,
    HingeInit,
    LiblinearNode,
    LocalSearch,
    MultiStart,
    RandomInit,
    SklearnNode,
    Solver,
    SubtreePolish,
    TAOForest,
    Termination,
    solve,
)
from tests.conftest import classification_problem, regression_problem

SOLVERS = [
    RandomInit(),
    RandomInit(threshold="gaussian"),
    CartInit(),
    ClusterInit(n_init=2),
    HingeInit(),
    TAO(max_iter=5),
    TAO(max_iter=5, accept="improve", init=CartInit()),
    TAO(max_iter=3, node_solver=LiblinearNode()),
    TAO(max_iter=3, node_solver=LiblinearNode("resample")),
    TAO(max_iter=3, node_solver=SklearnNode()),
    TAO(max_iter=3, node_solver=AxisNode(), init=CartInit()),
    MultiStart(TAO(max_iter=3), 3),
    Distilled(TAOForest(2, max_iter=3), n_starts=1, max_iter=3),
    Chain(CartInit(), TAO(max_iter=3)),
    GreedyInit(epochs=30),
    GET(anneal=Anneal(epochs=30), finish=Anneal(epochs=20), race_rows=100),
    SubtreePolish(anneal=Anneal(epochs=20)),
    NODEC(max_iter=3),
    NODEC(max_iter=3, k0=0, working_sets="node", init=HingeInit()),
    ORRT(n_starts=2, max_iter=60),
    ORRT(method="SLSQP", max_iter=5),
    LocalSearch(n_starts=2),
    GradTree(epochs=20, n_starts=2),
    SDTR(max_batches=60),
    SDTR(max_batches=60, aggregation="mixture", validation=None),
    MIP(n_thresholds=4),
    MIP("flow", n_thresholds=2, node_limit=3, max_splits=2),
]
PROBLEMS = {
    "squared, constant": regression_problem(),
    "squared, linear": regression_problem(leaves="linear"),
    "squared, axis": regression_problem(splits="axis"),
    "absolute, linear": regression_problem(leaves="linear", loss="absolute"),
    "absolute, constant, price": regression_problem(loss="absolute", penalties=(SplitPrice(0.01),)),
    "min_leaf": regression_problem(min_leaf=20),
    "depth 0": regression_problem(depth=0),
    "zero-one": classification_problem(),
    "log": classification_problem(loss="log"),
    "log, linear": classification_problem(leaves="linear", loss="log"),
    "zero-one, axis, linear": classification_problem(splits="axis", leaves="linear"),
    "two rows": regression_problem(2, p=2),
    "squared, axis, price": regression_problem(60, p=2, depth=2, splits="axis", penalties=(SplitPrice(0.01),)),
    "zero-one, axis, price": classification_problem(60, depth=2, splits="axis", penalties=(SplitPrice(0.01),)),
    "squared, axis, linear, l1 on leaves": regression_problem(
        50, p=2, depth=1, splits="axis", leaves="linear", penalties=(L1(leaves=1e-3),)
    ),
}


def supported(solver, problem):
    reason = solver.supports(problem)
    if reason is not None:
        assert len(reason) > 10
        pytest.skip(f"refused with a reason: {reason}")


def incumbents(result):
    return [best for best, _rows in groupby(row.best for row in result.trace)]


def test_every_solver_is_in_the_list():
    exported = {getattr(solvers, name) for name in solvers.__all__}
    kinds = {k for k in exported if inspect.isclass(k) and issubclass(k, Solver) and k is not Solver}
    assert kinds == {type(s) for s in SOLVERS} | {TAOForest, Boosting}  # of forests: see test_forest.py


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("name", PROBLEMS)
def test_results_are_feasible_recomputable_and_repeatable(solver, name):
    problem = PROBLEMS[name]
    supported(solver, problem)
    result = solve(problem, solver, random_state=1)
    assert problem.violation(result.tree) is None
    assert result.objective == pytest.approx(problem.objective(result.tree), rel=1e-9, abs=1e-12)
    assert result.objective == min(row.objective for row in result.trace)
    assert isinstance(result.termination, Termination)
    assert result.termination is not Termination.OPTIMAL or result.bound is not None
    if result.tree.gate is None:  # nothing dead is returned; soft trees are complete
        assert result.tree.n_leaves == np.unique(result.tree.apply(problem.X)).size
    again = solve(problem, solver, random_state=1)
    assert again.tree == result.tree
    if isinstance(solver, MIP):  # when bounds are told of, between incumbents, is a matter of time
        assert incumbents(again) == incumbents(result)
    else:
        assert [row.objective for row in again.trace] == [row.objective for row in result.trace]


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_one_seed_gives_one_tree_on_any_number_of_threads(solver):
    problem = regression_problem(600)
    supported(solver, problem)
    before = numba.get_num_threads()
    trees = []
    try:
        for threads in (1, numba.config.NUMBA_NUM_THREADS):
            numba.set_num_threads(threads)
            trees.append(solve(problem, solver, random_state=3).tree)
    finally:
        numba.set_num_threads(before)
    assert np.array_equal(trees[0].A, trees[1].A)
    assert np.array_equal(trees[0].values, trees[1].values)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_a_constant_y_gives_one_leaf(solver):
    problem = regression_problem(50)
    problem = type(problem)(problem.X, np.full(50, 3.3), depth=3, penalties=problem.penalties)
    supported(solver, problem)
    assert solve(problem, solver, random_state=0).tree.n_leaves == 1


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_the_time_limit_is_kept(solver):
    problem = regression_problem(3000, depth=8)
    supported(solver, problem)
    for _ in range(4):  # each compiles what it comes to
        solve(problem, solver, time_limit=0.01, random_state=0)
    result = solve(problem, solver, time_limit=0.01, random_state=0)
    assert result.seconds < 3.0
    assert result.tree is not None


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_solvers_are_frozen_and_readable(solver):
    with pytest.raises(AttributeError):
        solver.max_iter = 3
    assert repr(solver).startswith(type(solver).__name__)
    assert solver == eval(repr(solver), vars(solvers))
