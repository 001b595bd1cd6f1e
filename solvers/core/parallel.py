"""Independent tasks on shared data, in threads of this process or on a Dask cluster."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import CancelledError
from contextvars import copy_context
from typing import Any

from opttree.runtime import cluster
from opttree.runtime.threads import count, limited

ATTEMPTS = 3  # at tasks that a cluster lost


def spread(
    function: Callable[[Any, Any], Any], shared: Any, tasks: Iterable[Any], n_jobs: int | None, n: int | None = None
) -> Generator[tuple[int, Any]]:
    """``(i, function(shared, task))`` for the i-th of all tasks, in the order of completion.

    By default in ``n_jobs`` threads of this process (see `opttree.runtime.threads.count`), which share ``shared``; the
    kernels of a task get their part of the threads that the caller may use. Under
    ``joblib.parallel_config(backend="dask")`` the tasks run on the cluster, and each worker gets ``shared`` once;
    tasks lost with a worker are run again.

    With their number ``n`` the tasks may be an iterator, which threads ask for a task when they are about to begin it:
    of a forest of 100,000 trees there may be time for ten.
    """
    if n is None:
        tasks = list(tasks)
        n = len(tasks)
    client = cluster.client()
    if client is not None:
        yield from _on_cluster(client, function, shared, tasks)
        return
    from joblib import Parallel, delayed

    n_threads = count(n_jobs)
    part = n_threads // min(n_threads, max(n, 1))
    parallel = Parallel(n_threads, prefer="threads", return_as="generator_unordered")
    # each in a copy of the caller's context, with its limits
    results = parallel(
        delayed(copy_context().run)(_numbered, function, shared, i, task, part) for i, task in enumerate(tasks)
    )
    try:
        for result in results:  # noqa: UP028 (closed here, and not by `yield from`)
            yield result
    finally:
        with warnings.catch_warnings():  # stopped early, it warns of the tasks that were not waited for
            warnings.filterwarnings("ignore", ".*tasks", UserWarning)
            results.close()


def width(n_jobs: int | None) -> int:
    """How many tasks `spread` runs at a time: one on each thread, of this process or of the cluster."""
    client = cluster.client()
    return count(n_jobs) if client is None else max(sum(client.nthreads().values()), 1)


def _numbered(function: Callable[[Any, Any], Any], shared: Any, i: int, task: Any, n_threads: int) -> tuple[int, Any]:
    with limited(n_threads):
        return i, function(shared, task)


def _on_cluster(
    client: Any, function: Callable[[Any, Any], Any], shared: Any, tasks: Iterable[Any]
) -> Generator[tuple[int, Any]]:
    """`spread` on a cluster.

    By futures of Dask's own, since joblib's back end gives no word of a cancelled one. The scheduler keeps ``shared``
    as a task's argument and can send it anew, unlike scattered data; scattering also fails if a worker is lost then.
    """
    from distributed import KilledWorker, as_completed

    missing = dict(enumerate(tasks))
    for attempt in range(1, ATTEMPTS + 1):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")
            there = client.submit(_same, shared, pure=False)
            futures = {client.submit(function, there, task, pure=False): i for i, task in missing.items()}
        try:
            for future, result in as_completed(list(futures), with_results=True):
                i = futures[future]
                yield i, result
                del missing[i]
            return
        except (OSError, CancelledError, KilledWorker):  # what a cluster raises for tasks that it lost
            failed = [future.exception() for future in futures if future.status == "error"]
            if attempt == ATTEMPTS or not all(isinstance(error, KilledWorker) for error in failed):
                raise
        finally:
            client.cancel([there, *futures])


def _same(shared: Any) -> Any:
    return shared
