"""Threads that share work."""

import threading
import time

import numba
import numpy as np
import pytest

from opttree.runtime import threads
from opttree.runtime.threads import available, each, limited, share, share_in_time
from solvers import ClusterInit, solve
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


def test_large_items_go_to_several_threads():
    met = threading.Barrier(2, timeout=60)

    def one(first, last):
        for _ in range(first, last):
            met.wait()  # until another item is at work

    with limited(2):
        share_in_time(one, 4, 1e9, 1)
    assert not met.broken


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
        def submit(self, *work):
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(threads, "pool", Ended)
    done = []
    with limited(4, worth=1.0):
        share(lambda first, last: done.extend(range(first, last)), 10, 1.0)
    assert done == list(range(10))


def test_n_jobs_counts_threads():
    before, most = numba.get_num_threads(), numba.config.NUMBA_NUM_THREADS
    numba.set_num_threads(1)
    try:
        for n_jobs, expected in ((None, 1), (1, 1), (-1, most), (-most - 5, 1), (most + 5, most)):
            assert threads.count(n_jobs) == expected
    finally:
        numba.set_num_threads(before)
    with threads.limited(1):  # what a caller in parallel has left
        assert threads.count(-1) == threads.count(most) == threads.count(None) == 1


def test_limits_of_other_libraries_threads_are_restored_by_the_last_to_leave():
    from threadpoolctl import threadpool_info

    from opttree.runtime.calm import calm_threads

    def counts():
        return sorted((pool["filepath"], pool["num_threads"]) for pool in threadpool_info())

    solve(regression_problem(50), ClusterInit(), random_state=0)  # loads the libraries
    with calm_threads():
        pass
    before = counts()
    first, second = calm_threads(), calm_threads()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    within = counts()
    second.__exit__(None, None, None)
    assert all(threads == 1 for _path, threads in within)
    assert counts() == before
