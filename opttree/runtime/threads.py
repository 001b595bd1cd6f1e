"""Kernels on several threads: one pool of plain threads, which share the ranges of a loop and sleep when idle.

A kernel that can be shared out takes a range first, ``kernel(first, last, *args)``, releases the GIL, and computes each
item of the range on its own, so that its results do not depend on the number of threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from itertools import pairwise
from typing import Any

import numba
from numba.np.ufunc import parallel

from opttree.runtime.clock import is_late

RANGES = 4  # per thread, so that a thread that waits for a core holds up little
MOST = 256  # threads of the pool
LONG = 1e7  # numbers read, after which the clock is looked at
WORTH = 1_500_000  # numbers read, about a millisecond: with less, waking a further thread gains nothing (measured)

_limit: ContextVar[int | None] = ContextVar("limit", default=None)
_worth: ContextVar[float] = ContextVar("worth", default=WORTH)
_pool: ThreadPoolExecutor | None = None
_lock = threading.Lock()


def most() -> int:
    """The cores that this process may use, or the environment variable NUMBA_NUM_THREADS."""
    return int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]


def available() -> int:
    """Threads that the calling thread may use: as many as `limited` says, or else as Numba is set to."""
    limit = _limit.get()
    if limit is not None:
        return limit
    # to ask numba starts threads of its own; nobody has set their number before they were started
    return numba.get_num_threads() if parallel._is_initialized else most()


def count(n_jobs: int | None) -> int:
    """Threads for ``n_jobs`` as users give it: None for `available`, k for k, -1 for all cores, -k for all but k - 1;
    at least one, and no more than there are cores or than a caller in parallel has left.
    """
    if n_jobs is None:
        return available()
    ceiling = most() if _limit.get() is None else available()
    return max(1, min(n_jobs if n_jobs > 0 else most() + 1 + n_jobs, ceiling))


@contextmanager
def limited(n_threads: int, worth: float | None = None) -> Iterator[None]:
    """Context in which the calling thread may use ``n_threads`` threads, itself included; ``worth`` replaces `WORTH`,
    so that small work is shared too.
    """
    before = _limit.get(), _worth.get()
    _limit.set(n_threads)
    _worth.set(before[1] if worth is None else worth)
    try:
        yield
    finally:  # not by tokens, which are of one thread: a generator may end in another
        _limit.set(before[0])
        _worth.set(before[1])


def pool() -> ThreadPoolExecutor:
    """The pool; it starts a thread when there is work and all others are busy."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(MOST, "opttree")
        return _pool


def _forget_pool() -> None:
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)  # a forked process has none of its threads


def threads_for(n: int, cost: float) -> int:
    """Threads that `share` uses for ``n`` items of such a cost."""
    return min(available(), int(n * cost / _worth.get()) + 1, n)


def share(kernel: Callable[..., None], n: int, cost: float, *args: Any) -> None:
    """``kernel(first, last, *args)`` for ranges that cover 0, ..., n - 1; ``cost``: numbers that an item reads."""
    n_threads = threads_for(n, cost)
    if n_threads <= 1:
        kernel(0, n, *args)
        return
    pieces = min(RANGES * n_threads, n)
    bounds = [n * i // pieces for i in range(pieces + 1)]
    ranges = iter(list(pairwise(bounds)))  # a list iterator may be advanced by several threads

    def work() -> None:
        with _none_after_an_error(ranges):
            for first, last in ranges:
                kernel(first, last, *args)

    together(work, n_threads)


def share_in_time(kernel: Callable[..., None], n: int, cost: float, times: int, *args: Any) -> None:
    """`share`, where an item reads its numbers so many ``times``: some items at a time if that takes long, so that
    those whose turn comes well after the run's time limit are left undone.
    """
    count = min(max(int(LONG / max(cost * times, 1.0)), available()), n)
    for start in range(0, n, count):
        if (start or count * cost * times >= LONG) and is_late():
            return

        def some(first: int, last: int, *args: Any, start: int = start) -> None:
            kernel(start + first, start + last, *args)

        share(some, min(count, n - start), cost, *args)


def each(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """``[work(item) for item in items]``; where there is more than one item, on the available threads, of which each
    item gets its share.
    """
    n_threads = min(available(), len(items))
    if n_threads <= 1:
        return [work(item) for item in items]
    results: list[Any] = [None] * len(items)
    part, worth = available() // n_threads, _worth.get()
    tasks = iter(list(enumerate(items)))

    def take() -> None:
        with limited(part, worth), _none_after_an_error(tasks):
            for i, item in tasks:
                results[i] = work(item)

    together(take, n_threads)
    return results


@contextmanager
def _none_after_an_error(items: Iterator[Any]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        for _ in items:
            pass
        raise


def together(work: Callable[[], None], n_threads: int) -> None:
    """Call ``work()`` in the calling thread and, as far as the pool is idle, in ``n_threads - 1`` further ones."""
    helpers: list[Future[None]] = []
    with suppress(RuntimeError):  # no further threads: the process has as many as it may, or ends
        for _ in range(n_threads - 1):
            helpers.append(pool().submit(copy_context().run, work))  # with the caller's limits
    try:
        work()
    finally:
        begun = [helper for helper in helpers if not helper.cancel()]  # others are not needed any more
        wait(begun)
    for helper in begun:
        helper.result()
