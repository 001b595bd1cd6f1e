"""`solve`: clock, best tree, trace, callback, Ctrl-C, verdict, and what a solver says wrongly."""

import math
import signal
import time
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import pytest

import solvers
from opttree import L1, MIPTreeProblem, TAORegressor, Tree, TreeProblem, plotting
from solvers import (
    MIP,
    TAO,
    BranchAndBound,
    CartInit,
    Chain,
    LocalSearch,
    Solver,
    SolverError,
    Step,
    TAOForest,
    Termination,
    check_solver,
    solve,
)
from solvers.core.base import LastCall
from solvers.core.result import Verdict
from tests.conftest import regression_problem
from tests.trees import random_tree


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


@pytest.mark.usefixtures("by_hand")
def test_time_in_the_callback_is_off_the_clock(problem):
    result = solve(problem, Script(), callback=lambda step, trace: time.sleep(0.05))
    assert result.seconds < 0.1
    assert result.trace.rows[-1].seconds < 0.1


@pytest.mark.usefixtures("by_hand")
def test_the_time_limit_stops_between_steps(problem):
    result = solve(problem, Script((3.0, -0.1, -0.1, -5.0, 1.0)), time_limit=0.15)
    assert result.seconds == pytest.approx(0.2)
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
            yield Step(Tree.constant([1.0], problem.n_features))
            for _ in range(self.count):
                signal.raise_signal(signal.SIGINT)
            reached.append(self.count)
            try:
                yield None
            except LastCall:
                yield Step(Tree.constant([0.0], problem.n_features))

    reached = []
    handler = signal.getsignal(signal.SIGINT)
    once, twice = (solve(problem, Signals(count)) for count in (1, 2))
    assert reached == [1]
    assert once.termination is twice.termination is Termination.INTERRUPTED
    assert (once.objective, twice.objective) == pytest.approx((1.0, 2.0))  # y has mean 0 and deviation 1
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


@pytest.mark.parametrize("solver", [BranchAndBound(), MIP(), CartInit(), LocalSearch()], ids=lambda s: s.brief())
def test_a_run_that_is_cut_short_returns_no_worse_tree_than_its_start(solver):
    stated = regression_problem(200, splits="axis", penalties=(), depth=3)
    start = solve(stated, TAO(), random_state=0)
    result = solve(stated, solver, start=start, time_limit=1e-9)
    assert result.termination is Termination.TIME_LIMIT
    assert result.objective <= start.objective + 1e-12
    assert stated.objective(result.tree) == result.objective


def test_infeasible_starts_and_unsupported_problems_are_refused(problem, rng):
    with pytest.raises(ValueError, match="start must be feasible; the tree has depth 5"):
        solve(problem, TAO(), start=random_tree(rng, 5, 4, 1))
    from solvers import NewtonNode

    axis = regression_problem(30, splits="axis")
    with pytest.raises(ValueError, match="TAO cannot solve this problem: NewtonNode makes oblique splits"):
        solve(axis, TAO(node_solver=NewtonNode()))
    with pytest.raises(ValueError, match=r"Chain cannot solve this problem: TAO: NewtonNode"):
        solve(axis, Chain(CartInit(), TAO(node_solver=NewtonNode())))


@dataclass(frozen=True)
class Claim(Solver):
    """Yields constants, then a tree of objective ``at`` with a bound on it, and says that it is optimal."""

    bound: float
    before: tuple = ()

    def steps(self, problem, start, rng):
        for value in self.before:
            yield Step(Tree.constant([value], problem.n_features))
        yield Step(Tree.constant([0.0], problem.n_features), bound=self.bound)
        return Verdict(Termination.OPTIMAL, " (said the solver)")


def test_a_bound_equal_to_the_objective_but_for_rounding_is_the_objective(problem):
    objective = problem.objective(Tree.constant([0.0], 4))
    for bound in (objective, objective * (1 + 5e-7)):
        result = solve(problem, Claim(bound))
        assert (result.bound, result.gap) == (result.objective, 0.0)
        assert result.termination is Termination.OPTIMAL
        assert result.message == Termination.OPTIMAL.value + " (said the solver)"
    far = solve(problem, Claim(objective + 1.0, before=(1e5,)))  # a bad tree on the way is no reason to round by more
    assert (far.bound, far.termination) == (None, Termination.LOCALLY_OPTIMAL)


def test_a_bound_above_the_objective_proves_nothing(problem):
    objective = problem.objective(Tree.constant([0.0], 4))
    for excess in (2e-6, 0.1, 1.0):
        result = solve(problem, Claim(objective * (1 + excess), before=(1.0, math.inf)))
        assert result.objective == objective
        assert result.bound is result.gap is None
        assert result.termination is Termination.LOCALLY_OPTIMAL
        assert result.message.startswith(Termination.LOCALLY_OPTIMAL.value + " (said the solver) The bound is dropped")


def test_a_bound_below_the_objective_stays_and_the_largest_counts(problem):
    class Bounds(Solver):
        def steps(self, problem, start, rng):
            for bound in (None, 0.1, 0.3, 0.2, None):
                yield Step(Tree.constant([0.0], problem.n_features), bound=bound)

    result = solve(problem, Bounds())
    assert [row.bound for row in result.trace] == [None, 0.1, 0.3, 0.3, 0.3]
    assert (result.bound, result.termination) == (0.3, Termination.ITERATION_LIMIT)


def test_of_equal_trees_the_first_is_kept(problem):
    class Twins(Solver):
        def steps(self, problem, start, rng):
            for share in (1.0, 2.0):
                yield Step(Tree.constant([0.0], problem.n_features).with_share(np.array([share])))

    assert solve(problem, Twins()).tree.share[0] == 1.0


@pytest.mark.usefixtures("by_hand")
def test_evaluations_are_summed_and_off_the_clock(problem):
    class Slow:
        def value(self, tree):
            time.sleep(0.1)
            return 0.0

    class Passes(Solver):
        def steps(self, problem, start, rng):
            for n in range(5):
                yield Step(Tree.constant([0.0], problem.n_features), n_evaluations=n)

    slow = problem.restated(penalties=(Slow(),))
    result = solve(slow, Passes(), time_limit=10.0)
    assert (result.n_steps, result.n_evaluations) == (5, 10)
    assert result.termination is Termination.ITERATION_LIMIT
    assert result.trace.rows[-1].seconds < 0.3
    assert [row.step for row in result.trace] == [0, 1, 2, 3, 4]
    late = solve(slow, Passes(), time_limit=0.25)  # of which they have a tenth off the clock
    assert late.termination is Termination.TIME_LIMIT
    assert late.n_steps in (2, 3)


@pytest.mark.usefixtures("by_hand")
def test_the_clock_runs_while_the_solver_works_and_not_in_the_callback(problem):
    sleep = lambda step, trace: time.sleep(0.1)  # noqa: E731
    result = solve(problem, Script((3.0, 1.0, 2.0)), time_limit=0.15, callback=sleep)
    assert (result.n_steps, result.termination) == (3, Termination.ITERATION_LIMIT)
    worked = solve(problem, Script((3.0, -0.1, 1.0)), callback=sleep)
    assert [worked.trace.rows[-1].seconds, worked.seconds] == pytest.approx([0.1, 0.1])


@pytest.mark.usefixtures("by_hand")
def test_a_time_limit_waits_for_the_first_tree(problem):
    result = solve(problem, Script((-0.05, -0.05, 3.0, 1.0)), time_limit=0.02)
    assert [row.phase for row in result.trace] == ["v3.0"]
    assert result.termination is Termination.TIME_LIMIT
    assert result.message == Termination.TIME_LIMIT.value


@dataclass(frozen=True)
class Closing(Solver):
    """Yields a tree and pauses; at the last call a better tree or none, and a verdict with words of its own."""

    better: bool = True

    def steps(self, problem, start, rng):
        yield Step(Tree.constant([3.0], problem.n_features), phase="first")
        try:
            while True:
                time.sleep(0.01)
                yield None
        except LastCall:
            try:
                yield Step(Tree.constant([0.0], problem.n_features), phase="last") if self.better else None
            except LastCall:
                return Verdict(Termination.OPTIMAL, " Five nodes are open.")


@pytest.mark.usefixtures("by_hand")
def test_the_last_call_brings_a_last_tree_and_words_to_the_message(problem):
    result = solve(problem, Closing(), time_limit=0.05)
    assert [row.phase for row in result.trace] == ["first", "last"]
    assert result.tree.values[0, 0] == 0.0
    assert result.termination is Termination.TIME_LIMIT
    assert result.message == Termination.TIME_LIMIT.value + " Five nodes are open."
    without = solve(problem, Closing(better=False), time_limit=0.05)
    assert [row.phase for row in without.trace] == ["first"]
    assert without.message == result.message


def test_messages_say_who_stopped_and_what_went_wrong(problem):
    stopped = solve(problem, Script(), callback=lambda step, trace: len(trace) == 2)
    assert stopped.message == Termination.INTERRUPTED.value + " (by the callback)"
    assert [row.phase for row in stopped.trace] == ["v3.0", "v1.0"]
    trouble = solve(problem, Script((3.0, np.linalg.LinAlgError("singular"))))
    assert trouble.message == Termination.NUMERICAL_ERROR.value + " (singular)"
    floating = solve(problem, Script((3.0, FloatingPointError("overflow"))))
    assert floating.message == Termination.NUMERICAL_ERROR.value + " (overflow)"
    nan = solve(problem, Script((3.0, math.nan, 1.0)))
    assert nan.message == Termination.NUMERICAL_ERROR.value + " (the objective is not a number)"
    assert (nan.n_steps, nan.objective) == (2, problem.objective(nan.tree))


def test_a_signal_before_the_first_tree_is_passed_on_at_the_next_pause(problem):
    class Early(Solver):
        def steps(self, problem, start, rng):
            signal.raise_signal(signal.SIGINT)
            reached.append("pause")
            yield None
            reached.append("tree")
            yield Step(Tree.constant([0.0], problem.n_features))

    reached = []
    with pytest.raises(KeyboardInterrupt):
        solve(problem, Early())
    assert reached == ["pause"]


@pytest.mark.usefixtures("by_hand")
def test_a_signal_past_the_time_limit_is_an_interrupt(problem):
    class Late(Solver):
        def steps(self, problem, start, rng):
            yield Step(Tree.constant([0.0], problem.n_features))
            time.sleep(0.15)
            signal.raise_signal(signal.SIGINT)
            yield None

    assert solve(problem, Late(), time_limit=0.1).termination is Termination.INTERRUPTED


def test_the_solver_is_closed_however_the_run_ends(problem):
    class Open(Solver):
        def steps(self, problem, start, rng):
            try:
                yield Step(Tree.constant([0.0], problem.n_features))
                yield Step(Tree.constant([0.0], problem.n_features))
            finally:
                closed.append(True)

    def callback(step, trace):
        raise ZeroDivisionError

    closed = []
    with pytest.raises(ZeroDivisionError) as error:
        solve(problem, Open(), callback=callback)
    assert closed == [True]
    assert error.traceback  # which holds the run's frame, so that the solver was not closed by losing its last user
    solve(problem, Open(), callback=lambda step, trace: True)
    assert closed == [True, True]


def test_options_are_named(problem):
    assert solve(problem=problem, solver=Script()).n_steps == 3
    with pytest.raises(TypeError, match="positional"):
        solve(problem, Script(), None)


class Compiling(solvers.Solver):
    """Yields a tree, then compiles; what it hands over at the end needs a compilation, too."""

    def __init__(self, hand_over):
        self.hand_over = hand_over

    def steps(self, problem, start, rng):
        tree = problem.best_constant()
        yield solvers.Step(tree, phase="first")
        signal.raise_signal(signal.SIGINT)
        try:
            if self.hand_over:
                yield None
            numba.njit(lambda x: 3.0 * x)(1.0)
        except solvers.core.base.LastCall:
            assert numba.njit(lambda x: 4.0 * x)(1.0) == 4.0
            yield solvers.Step(tree, phase="last")
        raise AssertionError("the compilation should have ended")


@pytest.mark.parametrize("hand_over", [False, True])
def test_what_was_found_before_an_interrupted_compilation_is_kept(hand_over):
    result = solve(regression_problem(50), Compiling(hand_over))
    assert result.termination.name == "INTERRUPTED"
    assert result.trace.rows[-1].phase == ("last" if hand_over else "first")


def test_what_a_first_tree_costs_is_compiled_after_an_interrupt(monkeypatch):
    class Interrupted(solvers.Solver):
        def steps(self, problem, start, rng):
            signal.raise_signal(signal.SIGINT)
            yield solvers.Step(problem.best_constant())

    objective = TreeProblem.objective
    added = numba.njit(lambda x: x + 1.0)
    monkeypatch.setattr(TreeProblem, "objective", lambda self, tree: objective(self, tree) + added(-1.0))
    result = solve(regression_problem(50), Interrupted())
    assert result.termination.name == "INTERRUPTED"


@dataclass(frozen=True)
class Liar(Solver):
    """Yields one tree, and says of it what it likes."""

    objective: float | None = None
    bound: float | None = None
    depth: int = 0
    inside: str = ""
    end: Any = None

    def steps(self, problem, start, rng):
        n = 2**self.depth - 1
        A = np.tile(np.eye(problem.n_features)[0], (n, 1))
        tree = Tree.complete(A, np.zeros(n), 1) if n else Tree.constant([0.0], problem.n_features)
        yield tree if self.inside else Step(tree, self.objective, self.bound)
        return self.end


@dataclass(frozen=True)
class Interrupted(Solver):
    """Ctrl-C comes after its last step."""

    def steps(self, problem, start, rng):
        yield Step(problem.best_constant())
        signal.raise_signal(signal.SIGINT)


@dataclass(frozen=True)
class Lists(Solver):
    """Its steps are a list."""

    def steps(self, problem, start, rng):
        return []


def test_a_false_claim_is_an_error_that_names_the_solver():
    problem = regression_problem(50, penalties=())
    with pytest.raises(
        SolverError, match="Liar said that its best tree has the objective 0; computed anew it is 1"
    ) as e:
        solve(problem, Liar(0.0, 0.0))
    assert e.value.result.objective == pytest.approx(1.0)
    with pytest.raises(
        SolverError, match="Liar returned an infeasible tree: the tree has depth 5; the problem allows 3"
    ):
        solve(problem, Liar(depth=5))
    with pytest.raises(SolverError, match="Liar returned an infeasible tree"):
        solve(problem, Liar(0.1, depth=5))
    with pytest.raises(SolverError, match=r"Liar.steps must yield Step\(tree\) or None; got Tree"):
        solve(problem, Liar(inside="a tree"))
    with pytest.raises(SolverError, match="Liar said OPTIMAL; OPTIMAL needs a bound"):
        solve(problem, Liar(end=Termination.OPTIMAL))
    with pytest.raises(SolverError, match=r"Liar.steps must yield bounds that are numbers; got nan"):
        solve(problem, Liar(bound=np.nan))
    with pytest.raises(SolverError, match=r"Liar.steps must return a Termination, a Verdict or None; got 'done'"):
        solve(problem, Liar(end="done"))
    assert solve(problem, Liar(bound=0.0, end=Termination.OPTIMAL)).message.endswith("Relative gap: 1.")
    exact = solve(TreeProblem(np.arange(30.0)[:, None], np.full(30, 1e6), 1, "axis"), BranchAndBound())
    assert exact.objective > exact.bound == 0.0
    assert "gap" not in exact.message  # rounding of the mean
    with pytest.raises(AssertionError, match="OPTIMAL needs a relative gap of at most"):
        check_solver(Liar(bound=0.0, end=Termination.OPTIMAL), {"small": problem})
    assert solve(problem, Liar(bound=1e6)).bound is None
    assert solve(problem, Interrupted()).termination.name == "INTERRUPTED"
    assert solve(problem, Liar()).objective == problem.objective(Tree.constant([0.0], 4))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: solve(p, TAO(), time_limit="5"), "time_limit must be > 0 seconds or None; got '5'"),
        (lambda p: solve(p, TAO(), callback=3), "callback must be a function of a Step and a Trace, or None; got 3"),
        (lambda p: p.restated(penalties=L1), "penalties must be a sequence of L1, .* got <class"),
        (lambda p: solve(p, LocalSearch), r"got the class LocalSearch: write LocalSearch\(\)"),
        (lambda p: solve(p, "tao"), "solver must be an instance of a solver, such as TAO\\(\\); got 'tao'"),
        (lambda p: solve("p", TAO()), "problem must be a TreeProblem; got 'p'"),
        (lambda p: solve(p, Lists()), "Lists.steps must be a generator, .* it returned a list"),
        (lambda p: p.restated(penalties=3.0), "penalties must be a sequence of L1, L2, SplitPrice .* got 3.0"),
        (lambda p: plotting.plot_trace([3]), "results must hold what solve returns, Result; got 3"),
        (lambda p: solve(p, TAO(), start="oak"), "start must be a Tree, .* got str"),
        (lambda p: solve(p, TAO(), start=TAORegressor), "start must be a tree, .* got the class TAORegressor"),
        (lambda p: p.objective(TAORegressor()), "model must be a Tree, .* got TAORegressor"),
        (lambda p: MIPTreeProblem(p.restated(splits="axis"), objective="x"), "objective must be one of"),
        (lambda p: TAOForest(levels=0), "levels must be an integer >= 1 or None; got 0"),
        (lambda p: TAORegressor(on_interrupt="stop").fit(p.X, p.y), r"on_interrupt must be one of \['raise', 'keep'\]"),
        (lambda p: MIP(init="cart"), "init must be a Solver, 'auto' or None; got 'cart'"),
    ],
)
def test_unhelpful_errors_have_become_sentences(call, message):
    with pytest.raises(ValueError, match=message):
        call(regression_problem(60))


@pytest.mark.usefixtures("by_hand")
def test_the_callback_sees_the_step_of_the_last_call():
    class Late(Solver):
        def steps(self, problem, start, rng):
            yield Step(problem.best_constant(), phase="first")
            try:
                while True:
                    time.sleep(0.01)
                    yield None
            except LastCall:
                yield Step(problem.best_constant(), phase="last")

    seen = []
    solve(regression_problem(50), Late(), time_limit=0.05, callback=lambda step, _trace: seen.append(step.phase))
    assert seen == ["first", "last"]


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    return X, X[:, 0] + 0.1 * rng.normal(size=40)


class Claims(Solver):
    """A solver whose bound is above its tree."""

    def steps(self, problem, start, rng):
        """One step."""
        yield Step(problem.best_constant(), bound=1e9)
        yield None


def test_a_dropped_bound_leaves_the_verdict(table):
    result = solve(TreeProblem(*table, depth=2), Claims(), callback=lambda step, trace: True)
    assert result.termination is Termination.INTERRUPTED
    assert result.bound is None
    assert "The bound is dropped" in result.message
