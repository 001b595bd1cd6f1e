"""Independent tasks on shared data, in threads of this process or on joblib's active back end."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from opttree.threads import count, limited

ATTEMPTS = 3  # at tasks that a cluster lost


def spread(
    function: Callable[[Any, Any], Any], shared: Any, tasks: Sequence[Any], n_jobs: int | None
) -> Generator[tuple[int, Any]]:
    """``(i, function(shared, tasks[i]))`` for all tasks, in the order of completion.

    By default in ``n_jobs`` threads of this process (see `opttree.threads.count`), which share ``shared``; the
    kernels of a task get their part of the threads that the caller may use. Under
    ``joblib.parallel_config(backend="dask")`` the tasks run on the cluster, and ``shared`` is sent once to each worker;
    tasks lost with a worker are resubmitted.
    """
    from joblib import Parallel, delayed

    missing = dict(enumerate(tasks))
    for attempt in range(ATTEMPTS):
        with everywhere(shared):
            n_threads, part = -1 if n_jobs is None else n_jobs, None
            if _cluster() is None:
                n_threads = count(n_jobs)
                part = n_threads // min(n_threads, max(len(missing), 1))
            parallel = Parallel(n_threads, prefer="threads", return_as="generator_unordered")
            results = parallel(delayed(_numbered)(function, shared, i, task, part) for i, task in list(missing.items()))
            try:
                for i, result in results:
                    yield i, result
                    del missing[i]
                return
            except Exception as error:
                if attempt == ATTEMPTS - 1 or not type(error).__module__.startswith(("distributed", "concurrent")):
                    raise
            finally:
                with warnings.catch_warnings():  # about tasks cancelled because their results are no longer needed
                    warnings.simplefilter("ignore")
                    results.close()


def _numbered(
    function: Callable[[Any, Any], Any], shared: Any, i: int, task: Any, n_threads: int | None
) -> tuple[int, Any]:
    with nullcontext() if n_threads is None else limited(n_threads):
        return i, function(shared, task)


def _cluster() -> Any:
    """The active back end of joblib, if it is Dask's."""
    from joblib.parallel import get_active_backend

    backend, _n_jobs = get_active_backend()
    return backend if hasattr(backend, "data_futures") else None


@contextmanager
def everywhere(shared: Any) -> Iterator[None]:
    """Context in which every worker of an active Dask back end has ``shared``; joblib would send it to one only."""
    backend = _cluster()
    if backend is None:
        yield
        return
    futures = backend.data_futures
    futures[id(shared)] = backend.client.scatter([shared], broadcast=True, hash=False)[0]
    try:
        yield
    finally:
        del futures[id(shared)]
