"""Independent tasks on shared data, in threads of this process or on joblib's active back end."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

ATTEMPTS = 3  # at tasks that a cluster lost


def spread(
    function: Callable[[Any, Any], Any], shared: Any, tasks: Sequence[Any], n_jobs: int | None
) -> Generator[tuple[int, Any]]:
    """``(i, function(shared, tasks[i]))`` for all tasks, in the order of completion.

    By default in ``n_jobs`` threads (None and -1: one per core) of this process, which share ``shared``. Under
    ``joblib.parallel_config(backend="dask")`` the tasks run on the cluster, and ``shared`` is sent once to each worker;
    tasks lost with a worker are resubmitted.
    """
    from joblib import Parallel, delayed

    missing = dict(enumerate(tasks))
    for attempt in range(ATTEMPTS):
        with everywhere(shared):
            parallel = Parallel(-1 if n_jobs is None else n_jobs, prefer="threads", return_as="generator_unordered")
            results = parallel(delayed(_numbered)(function, shared, i, task) for i, task in list(missing.items()))
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


def _numbered(function: Callable[[Any, Any], Any], shared: Any, i: int, task: Any) -> tuple[int, Any]:
    return i, function(shared, task)


@contextmanager
def everywhere(shared: Any) -> Iterator[None]:
    """Context in which every worker of an active Dask back end has ``shared``; joblib would send it to one only."""
    from joblib.parallel import get_active_backend

    backend, _n_jobs = get_active_backend()
    futures = getattr(backend, "data_futures", None)
    if futures is None:
        yield
        return
    futures[id(shared)] = backend.client.scatter([shared], broadcast=True, hash=False)[0]
    try:
        yield
    finally:
        del futures[id(shared)]
