"""Kernels compiled ahead of the first fit, by small fits in processes of their own."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from opttree.methods.table import METHODS, TASKS, make_estimator
from opttree.runtime.compiling.ahead import ALONE, recorded_name, waiting
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
    """Compile what some or all methods need for their default options, in two processes, and keep it in numba's cache.

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
        Seconds of each method's process.

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

    if verbose and prebuilt is None:
        kernels, about = left_to_compile(chosen)
        print(f"{kernels} kernels are left to compile, about {about} s", file=sys.stderr)
    seconds, failures = {}, []
    with (
        tempfile.TemporaryDirectory() as empty,
        ThreadPoolExecutor(PROCESSES) as pool,
        tqdm(total=len(chosen), disable=not verbose, unit="method") as bar,
    ):
        there = {} if prebuilt is None else {**environment(prebuilt), "NUMBA_CACHE_DIR": empty}
        runs = {pool.submit(_in_a_process, name, there): name for name in chosen}
        try:
            for run in as_completed(runs):
                seconds[runs[run]], failure = run.result()
                if failure:
                    failures.append(f"{runs[run]}: {failure}")
                bar.set_postfix_str(runs[run])
                bar.update()
        finally:
            for run in runs:
                run.cancel()
    if failures:
        raise RuntimeError(f"compiling failed for {'; '.join(failures)}")
    return seconds


def left_to_compile(methods: Sequence[str]) -> tuple[int, int]:
    """The kernels of methods, by their names on the command line, that are not compiled, and about their seconds."""
    models = [make_estimator(name, task, DEPTH, seed=0) for name in methods for task in TASKS if _has(name, task)]
    return waiting((recorded_name(model) for model in models), min(PROCESSES, len(methods)))


def _has(name: str, task: str) -> bool:
    return METHODS[name].estimator_class(task) is not None


def _in_a_process(name: str, environment: Mapping[str, str]) -> tuple[float, str]:
    """Seconds of a method's process, and the last line of its error, if there was one."""
    began = time.perf_counter()
    command = [sys.executable, "-W", "ignore", "-m", "opttree.methods.warming", name]
    alone = {**os.environ, ALONE: "1", **environment}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=alone)
    said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return time.perf_counter() - began, said[-1] if done.returncode else ""


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
    small_fits(sys.argv[1])
