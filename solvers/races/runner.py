"""The runner: what a plan asks for and the store does not hold yet, in parallel, row by row."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import pandas as pd
from joblib import Parallel, delayed, parallel_config
from tqdm import tqdm

from solvers.races import sandbox, system
from solvers.races.plans import Plan
from solvers.races.runs import Run
from solvers.races.store import Store

BACKENDS = ("local", "dask")
ONLY = ("dataset", "method", "depth", "leaves", "seed", "split")


def run(
    plan: Plan,
    store: Store,
    *,
    jobs: int = 1,
    only: Mapping[str, Iterable[str]] | None = None,
    backend: str = "local",
    scheduler: str | None = None,
    progress: bool = True,
) -> Counter[str]:
    """Do the runs that the store does not hold.

    Parameters
    ----------
    plan : Plan
        What to run.
    store : Store
        Where the runs go.
    jobs : int, default 1
        Runs at a time; each has the machine's threads divided by this number, or as many as the plan states. Of the
        local back end: on a Dask cluster, there are as many as its workers have threads, and each run has one.
    only : mapping of str to iterable of str or None, default None
        Values to run, by one of `ONLY`; "a,b" stands for both, where it is no value itself.
    backend : {"local", "dask"}, default "local"
        Where runs go.
    scheduler : str or None, default None
        Address of the Dask scheduler.
    progress : bool, default True
        Whether to draw a bar with the time that is left.

    Returns
    -------
    Counter[str]
        How many runs ended in which status; "kept" were there before.

    Raises
    ------
    ValueError
        For a bad option, or a store that another process writes to.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}; got {backend!r}")
    if (backend == "dask") != (scheduler is not None):
        raise ValueError("--backend dask and --scheduler ADDRESS go together")
    if jobs < 1:
        raise ValueError(f"jobs must be >= 1; got {jobs}")
    wanted = _kept(list(plan.runs(plan.version())), only or {})
    threads = plan.threads or max(1, (os.cpu_count() or 1) // jobs) if backend == "local" else 1
    session = uuid.uuid4().hex[:12]
    with store.lock():
        store.compact()  # what a killed session has left
        todo = _todo(wanted, store)
        held = set(store.rows().query("status == 'ok'")["key"])
        counts = Counter({"kept": len(wanted) - len(todo)})
        if not todo:
            return counts
        about = {"protocol": plan.name, "budget": plan.budget, "jobs": jobs, "threads": threads}
        started = pd.Timestamp.now(tz="UTC").isoformat(timespec="seconds")
        store.add_session({"session": session, "started": started, "backend": backend, **about, **system.info()})
        bar = tqdm(total=len(wanted), initial=counts["kept"], unit="run", disable=not progress, smoothing=0.05)
        try:
            with bar, _parallel(backend, jobs, scheduler) as perform:
                for done, outcome in perform(delayed(sandbox.supervise)(type(plan), one, threads) for one in todo):
                    if outcome["status"] == "ok" or done.key not in held:  # a row is not lost to a failure
                        store.add(done, outcome, session)
                    counts[outcome["status"]] += 1
                    bar.set_postfix_str(str(done), refresh=False)
                    bar.update()
        finally:
            sandbox.close_all()
            store.compact()
    return counts


def _todo(wanted: list[Run], store: Store) -> list[Run]:
    settled = store.settled()
    times, memories = store.ended_at("time_limit"), store.ended_at("memory_limit")

    def same_end(one: Run) -> bool:  # a limit that ended it would end it again, unless it has been raised
        slow = one.key in times and one.limit is not None and times[one.key] >= one.limit
        large = one.key in memories and one.memory_limit is not None and memories[one.key] >= one.memory_limit
        return slow or large

    return [one for one in wanted if one.key not in settled and not same_end(one)]


def _kept(runs: list[Run], only: Mapping[str, Iterable[str]]) -> list[Run]:
    """The runs that ``only`` lets pass; ValueError for a value that no run has."""
    for name, chosen in only.items():
        if name not in ONLY:
            raise ValueError(f"--only must be among {', '.join(ONLY)}; got {name!r}")
        there = sorted({str(one.identity[name]) for one in runs})
        kept = set()
        for value in chosen:  # labels may hold commas
            kept |= {value} if value in there else set(value.split(","))
        if kept - set(there):
            raise ValueError(f"--only {name} must be among {', '.join(there)}; got {min(kept - set(there))!r}")
        runs = [one for one in runs if str(one.identity[name]) in kept]
    return runs


@contextmanager
def _parallel(backend: str, jobs: int, scheduler: str | None) -> Iterator[Any]:
    """A joblib `Parallel` that hands out results as they come.

    Threads suffice here: each waits for a sandbox of its own.
    """
    if backend == "local":
        config: Any = parallel_config(backend="threading", n_jobs=jobs)
        client: Any = nullcontext()
    else:
        try:
            from distributed import Client
        except ImportError as error:
            raise ValueError("--backend dask needs distributed: pip install distributed") from error
        client = Client(scheduler)
        config = parallel_config(backend="dask", client=client)
    with client, config:
        yield Parallel(return_as="generator_unordered", pre_dispatch="2*n_jobs", batch_size=1)
