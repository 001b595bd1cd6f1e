"""Solvers made of solvers: starts side by side, chains."""

from dataclasses import fields, replace

import numpy as np
import pytest

from opttree import Forest, TreeProblem
from solvers import TAO, Bagging, CartInit, Chain, MultiStart, RandomInit, StackedForest, TAOForest, Termination, solve
from tests.conftest import ends_in_time, regression_problem


@pytest.fixture
def problem():
    return regression_problem(30, penalties=())


def test_multi_start_runs_are_nested_and_the_best_wins(problem):
    few, many = (solve(problem, MultiStart(TAO(max_iter=3), n), random_state=0) for n in (2, 5))
    assert many.objective <= few.objective
    first = [row.objective for row in few.trace]
    assert [row.objective for row in many.trace][: len(first)] == first
    assert many.trace.rows[0].phase == "1: start"
    assert many.trace.rows[-1].phase.startswith("5: ")
    with pytest.raises(ValueError, match="n must be an integer >= 1; got 0"):
        MultiStart(TAO(), 0)


@pytest.mark.parametrize(
    "solver",
    [TAOForest(kind="oblique"), StackedForest(), Bagging(CartInit()), MultiStart(CartInit(), n_jobs=2)],
    ids=lambda solver: type(solver).__name__,
)  # fmt: skip
def test_a_million_runs_take_no_time_before_the_first(solver, problem):
    solver = replace(solver, **dict.fromkeys({"n_trees", "n"} & {field.name for field in fields(solver)}, 10**6))
    result = ends_in_time(lambda: solve(problem, solver, time_limit=0.3, random_state=0), 6.0)  # 20 s for seeds alone
    assert result.termination is Termination.TIME_LIMIT
    assert len(result.trace) > 1


def test_a_chain_starts_each_link_from_the_best_so_far(problem):
    result = solve(problem, Chain(RandomInit(), TAO(max_iter=4), TAO(max_iter=2, accept="improve")), random_state=0)
    frame = result.trace.to_frame()
    links = frame["phase"].str.split(":").str[0]
    assert links.unique().tolist() == ["RandomInit", "TAO"]
    starts = frame[frame["phase"].str.endswith("start")]
    assert starts["objective"].iloc[1] == pytest.approx(frame["best"][starts.index[1] - 1])
    with pytest.raises(ValueError, match="at least one solver"):
        Chain()
    assert repr(Chain(CartInit())) == f"Chain({CartInit()!r})"


def test_a_chain_offers_its_start(problem):
    start = solve(problem, TAO(), random_state=0).tree
    result = solve(problem, Chain(TAO(max_iter=0)), start=start)
    assert result.objective <= problem.objective(start)


def test_a_chain_may_end_in_a_forest_and_no_solver_starts_from_one():
    problem = regression_problem(penalties=())
    result = solve(problem, Chain(CartInit(), TAOForest(3, max_iter=1)), random_state=0)
    assert isinstance(result.tree, Forest)
    assert result.objective == problem.objective(result.tree)
    assert {row.phase.split(":")[0] for row in result.trace} == {"CartInit", "TAOForest"}
    with pytest.raises(ValueError, match="TAOForest makes a forest, from which the next solver"):
        solve(problem, Chain(TAOForest(3, max_iter=1), TAO(max_iter=1)), random_state=0)
    with pytest.raises(ValueError, match="start must be a single tree; got a forest of 3"):
        solve(problem, TAO(max_iter=1), start=result, random_state=0)
    with pytest.raises(ValueError, match="Chain must be of instances of solvers; got 3"):
        Chain(TAO(), 3)


def test_runs_side_by_side_find_what_runs_in_turn_find():
    problem = regression_problem()
    in_turn, side_by_side = (
        solve(problem, MultiStart(TAO(max_iter=3), 4, n_jobs=n_jobs), random_state=0) for n_jobs in (None, 2)
    )
    assert in_turn.tree == side_by_side.tree
    assert len(side_by_side.trace) == 4


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    return X, X[:, 0] + 0.1 * rng.normal(size=40)


def test_a_chain_that_goes_on_from_a_forest_is_refused_before_it_starts(table):
    with pytest.raises(ValueError, match="TAOForest makes a forest, from which the next solver of the chain cannot"):
        solve(TreeProblem(*table, depth=2), Chain(TAOForest(2), TAO()))
    assert Chain(TAO(), TAOForest(2)).refusal(TreeProblem(*table, depth=2)) is None
