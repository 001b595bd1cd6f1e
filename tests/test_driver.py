"""`solve`: clock, best tree, trace, callback, Ctrl-C, verdict; and the combinators."""

import math
import signal
import time
from dataclasses import dataclass

import numpy as np
import pytest

from opttree import Tree
from solvers import TAO, CartInit, Chain, MultiStart, RandomInit, Solver, Step, Termination, solve
from solvers.base import LastCall
from tests.conftest import regression_problem
from tests.test_kernels import random_tree


@dataclass(frozen=True)
class Script(Solver):
    """Yields the constants of a list; an exception in the list is raised, a float below zero sleeps that long."""

    values: tuple = (3.0, 1.0, 2.0)
    verdict: Termination | None = None

    def steps(self, problem, start, rng):
        for value in self.values:
            if isinstance(value, BaseException):
                raise value
            if isinstance(value, float) and value < 0:
                time.sleep(-value)
                yield None
            else:
                tree = Tree.constant([value], problem.n_features)
                yield Step(tree, bound=0.5 if value == 2.0 else None, phase=f"v{value}")
        return self.verdict


@pytest.fixture
def problem():
    return regression_problem(30, penalties=())


def test_the_best_tree_is_kept_and_everything_is_traced(problem):
    result = solve(problem, Script())
    assert result.tree.values[0, 0] == 1.0
    assert result.objective == problem.objective(result.tree)
    frame = result.trace.to_frame()
    assert list(frame.columns) == ["seconds", "step", "phase", "objective", "best", "bound"]
    assert frame["best"].tolist() == np.minimum.accumulate(frame["objective"]).tolist()
    assert frame["seconds"].is_monotonic_increasing
    assert result.n_steps == result.n_evaluations == 3
    assert result.bound == 0.5
    assert result.gap == pytest.approx((result.objective - 0.5) / result.objective)
    assert result.termination is Termination.ITERATION_LIMIT
    assert result.message == Termination.ITERATION_LIMIT.value
    assert "gap" in str(result)
    assert result.summary()["objective"] == result.objective


def test_the_solvers_verdict_is_passed_on(problem):
    assert solve(problem, Script(verdict=Termination.STALLED)).termination is Termination.STALLED
    assert solve(problem, Script((1.0,))).gap is None


def test_the_callback_sees_every_step_and_can_stop(problem):
    seen = []
    result = solve(problem, Script(), callback=lambda step, trace: seen.append((step.phase, len(trace))))
    assert seen == [("v3.0", 1), ("v1.0", 2), ("v2.0", 3)]
    assert result.n_steps == 3
    stopped = solve(problem, Script(), callback=lambda step, trace: True)
    assert (stopped.n_steps, stopped.termination) == (1, Termination.INTERRUPTED)


def test_time_in_the_callback_is_off_the_clock(problem):
    result = solve(problem, Script(), callback=lambda step, trace: time.sleep(0.05))
    assert result.seconds < 0.1
    assert result.trace.rows[-1].seconds < 0.1


def test_the_time_limit_stops_between_steps(problem):
    began = time.perf_counter()
    result = solve(problem, Script((3.0, -0.1, -0.1, -5.0, 1.0)), time_limit=0.15)
    assert time.perf_counter() - began < 1.0
    assert result.termination is Termination.TIME_LIMIT
    assert result.tree.values[0, 0] == 3.0
    with pytest.raises(ValueError, match="time_limit must be > 0"):
        solve(problem, Script(), time_limit=0)


def test_ctrl_c_returns_the_best_so_far_or_is_passed_on(problem):
    result = solve(problem, Script((3.0, 1.0, KeyboardInterrupt())))
    assert result.termination is Termination.INTERRUPTED
    assert result.tree.values[0, 0] == 1.0
    with pytest.raises(KeyboardInterrupt):
        solve(problem, Script((KeyboardInterrupt(),)))


def test_a_signal_ends_the_run_at_the_next_pause_and_a_second_one_at_once(problem):
    class Signals(Solver):
        def __init__(self, count):
            self.count = count

        def steps(self, problem, start, rng):
            yield Step(Tree.constant([0.0], problem.n_features), objective=2.0)
            for _ in range(self.count):
                signal.raise_signal(signal.SIGINT)
            reached.append(self.count)
            try:
                yield None
            except LastCall:
                yield Step(Tree.constant([0.0], problem.n_features), objective=1.0)

    reached = []
    handler = signal.getsignal(signal.SIGINT)
    once, twice = (solve(problem, Signals(count)) for count in (1, 2))
    assert reached == [1]
    assert once.termination is twice.termination is Termination.INTERRUPTED
    assert (once.objective, twice.objective) == (1.0, 2.0)
    assert signal.getsignal(signal.SIGINT) is handler


def test_numerical_trouble_keeps_the_best_so_far(problem):
    for trouble in (np.linalg.LinAlgError("singular"), math.nan):
        result = solve(problem, Script((3.0, trouble)))
        assert result.termination is Termination.NUMERICAL_ERROR
        assert result.tree.values[0, 0] == 3.0
    with pytest.raises(np.linalg.LinAlgError):
        solve(problem, Script((np.linalg.LinAlgError("singular"),)))


def test_a_bug_in_a_solver_is_not_swallowed(problem):
    with pytest.raises(ZeroDivisionError):
        solve(problem, Script((3.0, ZeroDivisionError())))
    with pytest.raises(RuntimeError, match="without yielding a tree"):
        solve(problem, Script(()))


def test_infeasible_starts_and_unsupported_problems_are_refused(problem, rng):
    with pytest.raises(ValueError, match="start must be feasible; the tree has depth 5"):
        solve(problem, TAO(), start=random_tree(rng, 5, 4, 1))
    from solvers import NewtonNode

    axis = regression_problem(30, splits="axis")
    with pytest.raises(ValueError, match="TAO cannot solve this problem: NewtonNode makes oblique splits"):
        solve(axis, TAO(node_solver=NewtonNode()))
    with pytest.raises(ValueError, match=r"Chain cannot solve this problem: TAO: NewtonNode"):
        solve(axis, Chain(CartInit(), TAO(node_solver=NewtonNode())))


def test_multi_start_runs_are_nested_and_the_best_wins(problem):
    few, many = (solve(problem, MultiStart(TAO(max_iter=3), n), random_state=0) for n in (2, 5))
    assert many.objective <= few.objective
    first = [row.objective for row in few.trace]
    assert [row.objective for row in many.trace][: len(first)] == first
    assert many.trace.rows[0].phase == "1: start"
    assert many.trace.rows[-1].phase.startswith("5: ")
    with pytest.raises(ValueError, match="n must be >= 1; got 0"):
        MultiStart(TAO(), 0)


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
