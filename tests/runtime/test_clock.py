"""The clock of a run, which leaves compilation out."""

import threading
import time

from numba.core.compiler_lock import global_compiler_lock

from opttree.runtime.clock import compile_seconds, now
from opttree.runtime.interrupts import in_background
from solvers import Solver, Step, solve
from tests.conftest import regression_problem


class Compiling(Solver):
    """Compiles a kernel in its second step."""

    def steps(self, problem, start, rng):
        yield Step(problem.best_constant())
        began = time.perf_counter(), compile_seconds()
        with global_compiler_lock:
            time.sleep(0.5)
        wall, compiling = time.perf_counter() - began[0], compile_seconds() - began[1]
        yield Step(problem.best_constant(), info={"wall": wall, "compiling": compiling})
        time.sleep(0.05)
        yield Step(problem.best_constant(), info={"last": 1.0})


def test_compilation_is_off_the_clock():
    result = solve(regression_problem(100), Compiling(), time_limit=60.0)
    second = result.trace.rows[1]
    assert second.info["compiling"] >= 0.5
    assert second.seconds <= result.trace.rows[0].seconds + second.info["wall"] - 0.5 + 0.4
    assert result.compile_seconds >= second.info["compiling"]
    assert "last" in result.trace.rows[-1].info  # the time limit was not over


def test_the_clock_runs_on_after_an_interrupt_in_the_compilers_lock():
    from numba.core import event

    event.start_event("numba:compiler_lock")  # its end never comes
    before = now()
    time.sleep(0.02)
    assert now() - before >= 0.02
    thread = threading.Thread(target=event.start_event, args=("numba:compiler_lock",))
    thread.start()
    thread.join()
    before = now()
    time.sleep(0.02)
    assert now() - before >= 0.02


def test_the_clock_never_runs_backwards_or_loses_a_compilation():
    ended, stood = threading.Event(), []

    def poll():
        last = now()
        while not ended.is_set():
            stood.append(now() - last)
            last += stood[-1]

    began, poller = compile_seconds(), threading.Thread(target=poll)
    poller.start()
    for _ in range(200):
        with global_compiler_lock:
            time.sleep(0.001)
    ended.set()
    poller.join()
    assert min(stood) >= 0.0
    assert compile_seconds() - began >= 0.2


def test_a_call_that_was_left_is_not_taken_for_a_compilation():
    running = in_background(lambda: time.sleep(1.5))
    next(running)
    running.close()
    before, wall = now(), time.perf_counter()
    time.sleep(0.4)
    assert now() - before > 0.5 * (time.perf_counter() - wall)
