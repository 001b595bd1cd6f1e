"""Kernels compiled ahead of the first fit, in processes of their own, where small fits then load them."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import redirect_stdout, suppress
from queue import SimpleQueue
from typing import Any

from opttree.methods.table import METHODS, TASKS, make_estimator
from opttree.runtime.compiling.ahead import ALONE, compile_all, recorded_name, waiting
from opttree.runtime.compiling.caching import LEVELS, environment

ROWS = 300  # of a small fit
DEPTH = 3
PROCESSES = 2


def names() -> list[str]:
    """The methods with kernels of ours, by their names on the command line."""
    return [name for name, method in METHODS.items() if method.family]


def warm_up(
    methods: Iterable[str] | None = None, *, verbose: bool = True, prebuilt: str | None = None
) -> dict[str, float]:
    """Compile what some or all methods need for their default options, in several processes, into numba's cache.

    A first fit then loads it, in a second or two. What is compiled already is loaded.

    Parameters
    ----------
    methods : iterable of str or None, default None
        Names as on the command line, see `opttree.methods`; None: all.
    verbose : bool, default True
        Whether to show a progress bar.
    prebuilt : {"x86-64-v3", "arm64"} or None, default None
        For those who make a wheel: a level of processors, for which the kernels are compiled into the package itself.
        A machine of this level then needs to compile none of them.

    Returns
    -------
    dict of str to float
        Seconds of a small fit or two of each method, which load what is compiled and compile what else they need.

    Raises
    ------
    ValueError
        For an unknown name or level, and a level of other machines than this one.
    RuntimeError
        If a process fails; the others are finished.

    See Also
    --------
    show_versions : versions, which the cache is for

    Examples
    --------
    >>> import opttree
    >>> sorted(opttree.warm_up(["hrt"]))               # seconds of each; next to none the second time
    ['hrt']
    """
    if isinstance(methods, str):
        raise ValueError(f"methods must be a list of names; got the string {methods!r}")
    chosen = names() if methods is None else list(dict.fromkeys(methods))
    for name in chosen:
        if name not in names():
            raise ValueError(f"methods must be among {', '.join(names())}; got {name!r}")
    if prebuilt is not None and (prebuilt not in LEVELS or LEVELS[prebuilt][0] != platform.machine()):
        raise ValueError(f"prebuilt must be a level of this machine ({platform.machine()}); got {prebuilt!r}")
    from tqdm.auto import tqdm

    recorded = _recorded(chosen)
    kernels, about = waiting(recorded)
    if verbose and prebuilt is None:
        print(f"{kernels} kernels are left to compile, about {about} s", file=sys.stderr)
    seconds: dict[str, float] = {}
    failures: list[str] = []
    with (
        tempfile.TemporaryDirectory() as empty,
        tqdm(total=len(chosen), disable=not verbose, unit="method") as bar,
    ):
        there = {} if prebuilt is None else {**environment(prebuilt), "NUMBA_CACHE_DIR": empty}
        if (kernels or prebuilt is not None) and compile_all(recorded, there):
            raise KeyboardInterrupt
        for name, took, failure in _fits(chosen, there):
            seconds[name] = took
            if failure:
                failures.append(f"{name}: {failure}")
            bar.set_postfix_str(name)
            bar.update()
    if failures:
        raise RuntimeError(f"compiling failed for {'; '.join(failures)}")
    return seconds


def _recorded(methods: Sequence[str]) -> list[str]:
    """The names in the record of compilations."""
    models = [make_estimator(name, task, DEPTH, seed=0) for name in methods for task in TASKS if _has(name, task)]
    return [recorded_name(model) for model in models]


def _has(name: str, task: str) -> bool:
    return METHODS[name].estimator_class(task) is not None


def _fits(methods: Sequence[str], environment: Mapping[str, str]) -> Iterator[tuple[str, float, str]]:
    """Names of methods, in the order in which they end, the seconds of their small fits, and what became of one that
    failed, else "". Two processes take one method after the other; one that ends is replaced.
    """
    command = [sys.executable, "-W", "ignore", "-m", "opttree.methods.warming"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    there = {**os.environ, ALONE: "1", **environment}
    idle: SimpleQueue[subprocess.Popen[str] | None] = SimpleQueue()

    def fit(name: str) -> tuple[str, float, str]:
        began = time.perf_counter()
        process = idle.get() or subprocess.Popen(command, **pipes, env=there, text=True)
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):  # it has ended
            process.stdin.write(f"{name}\n")
            process.stdin.flush()
        answer = process.stdout.readline()
        idle.put(process if answer else None)
        if not answer:
            process.communicate()
            answer = f"exit code {process.returncode}"
        return name, time.perf_counter() - began, answer.strip()

    for _ in range(PROCESSES):
        idle.put(None)
    pool = ThreadPoolExecutor(PROCESSES)
    try:
        yield from (run.result() for run in as_completed([pool.submit(fit, name) for name in methods]))
    finally:
        pool.shutdown(cancel_futures=True)
        while not idle.empty():
            if (process := idle.get()) is not None:
                process.communicate()


def serve() -> None:
    """Small fits of the methods that standard input names, a line each; answers what went wrong, or an empty line."""
    answers = sys.stdout
    for line in sys.stdin:
        said = ""
        try:
            with redirect_stdout(sys.stderr):
                small_fits(line.strip())
        except Exception as error:
            said = " ".join(f"{type(error).__name__}: {error}".split())
        print(said, file=answers, flush=True)


def small_fits(name: str) -> None:
    """Fit the method to a little data, for each task that it has, and predict; on one thread and on several."""
    from sklearn.datasets import make_friedman1

    from opttree.runtime.threads import limited

    X, y = make_friedman1(ROWS, random_state=0)
    for task in TASKS:
        if not _has(name, task):
            continue
        target = y if task == "regression" else y > y.mean()
        for n_threads in (1, 2):
            model = make_estimator(name, task, DEPTH, seed=0, jobs=None, time_limit=0.5)
            with limited(n_threads, worth=1.0):
                model.fit(X, target)
            model.predict(X)


if __name__ == "__main__":
    serve()
