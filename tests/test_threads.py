"""Threads that share work, the clock that leaves compilation out, and the cache of compiled kernels."""

import logging
import multiprocessing
import os
import subprocess
import sys
import threading
import time

import numba
import numpy as np
import pytest
from joblib import Parallel, cpu_count, delayed
from numba.core import caching

from opttree import SmoothTreeProblem, TAORegressor, kernels, warm_up
from opttree.runtime import threads
from opttree.runtime.clock import compile_seconds, now
from opttree.runtime.compiling.compiled import kernel
from opttree.runtime.interrupts import in_background
from opttree.runtime.threads import available, each, limited, share
from solvers import Solver, Step, solve
from tests.conftest import regression_problem


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 7, 1000])
def test_ranges_cover_every_item_once(n, n_threads):
    seen, lock = np.zeros(n, int), threading.Lock()

    def count(first, last, by):
        with lock:
            seen[first:last] += by

    with limited(n_threads, worth=1.0):
        share(count, n, 100.0, 2)
    assert (seen == 2).all()


def test_small_work_stays_on_the_calling_thread():
    who = set()
    with limited(4):
        share(lambda first, last: who.add(threading.get_ident()), 1000, 1.0)
    assert who == {threading.get_ident()}


def test_an_error_in_a_range_is_raised():
    def fail(first, last):
        raise ZeroDivisionError

    with limited(3, worth=1.0), pytest.raises(ZeroDivisionError):
        share(fail, 100, 1.0)
    with limited(3), pytest.raises(ZeroDivisionError):
        each(lambda item: 1 / item, [1, 1, 0, 1])


def test_items_share_the_threads_and_do_not_start_more():
    running, most, lock = [0], [0], threading.Lock()

    def busy(first, last):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.01)
        with lock:
            running[0] -= 1

    def work(item):
        share(busy, 40, 1.0)
        return item, available()

    with limited(4, worth=1.0):
        assert each(work, range(2)) == [(0, 2), (1, 2)]
        assert each(work, range(5)) == [(i, 1) for i in range(5)]
    assert 2 <= most[0] <= 4
    assert each(work, []) == []


def test_worker_processes_of_a_search_share_the_cores(monkeypatch):
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    counts = Parallel(2)(delayed(threads.count)(n_jobs) for n_jobs in (None, 2, -1))
    assert counts == [max(1, cpu_count() // 2)] * 3


def fit_again(X, y, answers):
    answers.put(TAORegressor(3, random_state=0, n_jobs=2).fit(X, y).result_.objective)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_fits_again():
    problem = regression_problem(400)
    model = TAORegressor(3, random_state=0, n_jobs=2)
    with limited(2, worth=1.0):
        model.fit(problem.X, problem.y)  # starts the pool
        share(lambda first, last: None, 100, 1.0)
        context = multiprocessing.get_context("fork")
        answers = context.Queue()
        child = context.Process(target=fit_again, args=(problem.X, problem.y, answers))
        child.start()
    try:
        assert answers.get(timeout=120) == model.result_.objective
    finally:
        child.kill()
        child.join()


def test_one_evaluation_is_the_same_number_on_any_number_of_threads():
    problem = regression_problem(3000)
    for aggregation in ("expected", "mixture"):
        smooth = SmoothTreeProblem(problem, dtype="float32", aggregation=aggregation)
        theta = smooth.random_theta(np.random.default_rng(0))
        found = []
        for n_threads in (1, 2, 3):
            with limited(n_threads, worth=1.0):
                found.append((*smooth.value_and_grad(theta), smooth.lbfgs(theta.copy(), 5)))
        for value, gradient, lowest in found[1:]:
            assert (value, lowest) == (found[0][0], found[0][2])
            np.testing.assert_array_equal(gradient, found[0][1])


class Compiling(Solver):
    """Compiles a kernel in its second step."""

    def steps(self, problem, start, rng):
        yield Step(problem.best_constant())
        began = time.perf_counter(), compile_seconds()
        numba.njit(lambda x: np.sort(x)[::-1].sum())(np.ones(3))
        wall, compiling = time.perf_counter() - began[0], compile_seconds() - began[1]
        yield Step(problem.best_constant(), info={"wall": wall, "compiling": compiling})
        time.sleep(0.05)
        yield Step(problem.best_constant(), info={"last": 1.0})


def test_compilation_is_off_the_clock():
    result = solve(regression_problem(100), Compiling(), time_limit=1.0)
    second = result.trace.rows[1]
    assert second.info["compiling"] > 0.2
    assert second.seconds < second.info["wall"] - 0.9 * second.info["compiling"]
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
    from numba.core.compiler_lock import global_compiler_lock

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


def test_functions_without_a_module_are_compiled():
    scope = {}
    exec("def twice(x):\n    return 2 * x", scope)
    assert scope["twice"].__module__ is None or scope["twice"].__module__ == "builtins"
    assert numba.njit(scope["twice"])(2) == 4


FIRST_FIT = """
import sys, logging
from opttree import TAORegressor
from sklearn.datasets import make_friedman1
X, y = make_friedman1(100, random_state=0)
model = TAORegressor(1, splits="axis", random_state=0).fit(X, y)
TAORegressor(1, splits="axis", loss="absolute", random_state=0).fit(X, y)
print(model.result_.compile_seconds > model.result_.seconds)
"""


@pytest.mark.slow
def test_the_first_compilation_is_announced_once(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    first, again = (
        subprocess.run([sys.executable, "-c", FIRST_FIT], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    )
    (line,) = first.stderr.splitlines()
    assert line.startswith("opttree compiles its kernels, once per machine and version: about ")
    assert first.stdout == "True\n"
    assert again.stderr == ""


def test_without_a_folder_for_the_cache_each_process_compiles_for_itself(monkeypatch, caplog):
    locator = (
        getattr(caching, "UserProvidedCacheLocator", None) or caching._UserProvidedCacheLocator
    )  # Numba before 0.62
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [locator])
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    with caplog.at_level(logging.WARNING, "opttree"):
        assert kernel()(lambda x: x + 1)(1) == 2
    assert "set NUMBA_CACHE_DIR to a folder of your own" in caplog.text
    assert os.path.isdir(numba.config.CACHE_DIR)
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    with pytest.raises(RuntimeError, match="cannot cache function"):
        kernel()(lambda x: x + 2)


@pytest.mark.slow
def test_kernels_are_compiled_ahead():
    assert list(warm_up(["tao-axis"], verbose=False)) == ["tao-axis"]
    with pytest.raises(ValueError, match=r"methods must be among tao-c, .*; got 'cart'"):
        warm_up(["cart"])


def test_the_pool_of_a_fork_is_its_own():
    before = threads.pool()
    assert threads.pool() is before
    threads._forget_pool()
    assert threads.pool() is not before
    assert threads.pool().submit(lambda: 3).result(timeout=10.0) == 3


def test_all_threads_have_ended_when_an_error_is_raised():
    late, errors = [], []

    def work(first, last):
        if first == 0:
            raise ZeroDivisionError
        time.sleep(0.05)
        late.append(first)

    with limited(4, worth=1.0):
        for _ in range(5):
            with pytest.raises(ZeroDivisionError):
                share(work, 400, 1.0)
            errors.append(len(late))
            time.sleep(0.06)
            assert len(late) == errors[-1]
    assert len(late) <= 5 * 3  # what had begun; nothing begins after an error


def test_without_further_threads_the_caller_does_all(monkeypatch):
    class Ended:
        def submit(self, work):
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(threads, "pool", Ended)
    done = []
    with limited(4, worth=1.0):
        share(lambda first, last: done.extend(range(first, last)), 10, 1.0)
    assert done == list(range(10))


def test_kernels_of_different_versions_are_an_error_and_no_crash():
    smooth = SmoothTreeProblem(regression_problem(100), dtype="float32")
    theta = smooth.random_theta(np.random.default_rng(0))
    smooth.value(theta)
    address, number = kernels.smooth.alone(theta, np.array([0, 1]), smooth.objective)
    rest = 1.0, np.array([0, 1]), smooth.objective, theta.copy(), np.empty(8, np.float32)
    assert kernels.smooth.evaluate_alone((address, number), theta, *rest) > 0.0
    with pytest.raises(RuntimeError, match="compiled kernels are of different versions"):
        kernels.smooth.evaluate_alone((address, number + 1), theta, *rest)
