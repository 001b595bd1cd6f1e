"""Fixtures: data folders, problems small enough to check by hand, a non-interactive matplotlib."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib

matplotlib.use("agg")

SIDE_BY_SIDE = "PYTEST_XDIST_WORKER" in os.environ  # as many processes as cores: one thread each, or they wait in turns
if SIDE_BY_SIDE:
    os.environ["OMP_NUM_THREADS"] = "1"

signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell runs in the background does not hear Ctrl-C

_SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
if "OPTTREE_DATA" not in os.environ and _SHARED.is_dir():
    os.environ["OPTTREE_DATA"] = str(_SHARED)

import numba  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from _pytest.mark.structures import ParameterSet  # noqa: E402
from xdist.scheduler import LoadScopeScheduling  # noqa: E402

from opttree import datasets  # noqa: E402
from opttree.runtime import clock  # noqa: E402
from solvers.conformance import classification_problem, regression_problem  # noqa: E402

__all__ = ["classification_problem", "regression_problem"]

SECONDS: dict[str, float] = json.loads(Path(__file__).with_name("durations.json").read_text())  # see `tests.durations`
MOST = 60.0  # seconds of a piece of work; files of more, which make fixtures twice, are shared out by function or test

if SIDE_BY_SIDE:
    numba.set_num_threads(1)


def piece_of(nodeid: str) -> str:
    """The piece of work that a test belongs to: its file; of slow files its function; of slow functions itself."""
    file, function = nodeid.partition("::")[0], nodeid.partition("[")[0]
    if SECONDS.get(file, 0.0) <= MOST:
        return file
    return f"{file}::" if function not in SECONDS else function if SECONDS[function] <= MOST else nodeid


def seconds_of(piece: str) -> float:
    """Seconds that the record has of a piece of work; of what it does not know, a few."""
    file, _, function = piece.partition("::")
    if file != piece and not function:  # what is left of a slow file
        return SECONDS[file] - sum(SECONDS[name] for name in SECONDS if name.startswith(piece))
    return SECONDS.get(piece.partition("[")[0], 5.0)


class Pieces(LoadScopeScheduling):
    """Shares out pieces of work in the order of the tests."""

    def _split_scope(self, nodeid: str) -> str:
        return piece_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Pieces:
    config.option.loadscopereorder = False
    return Pieces(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Side by side the slowest pieces come first, so that no process waits long for another at the end."""
    if SIDE_BY_SIDE:
        order = {piece: (-seconds_of(piece), piece) for piece in {piece_of(item.nodeid) for item in items}}
        items.sort(key=lambda item: order[piece_of(item.nodeid)])


def thinned(cases: Iterable[Any], every: int) -> list[Any]:
    """Cases of a test: every so many-th runs by default, the others are run by ``make long``."""
    found: list[Any] = []
    for number, case in enumerate(cases):
        if number % every == 0:
            found.append(case)
        elif isinstance(case, ParameterSet):
            found.append(pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.long]))
        else:
            found.append(pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.long))
    return found


def own_clock() -> float:
    """Seconds of the wall clock less those that this thread has waited for a core: other processes' do not count."""
    waits = Path("/proc/thread-self/schedstat")  # of Linux: nanoseconds at work, nanoseconds waited, ...
    waited = int(waits.read_text().split()[1]) if waits.exists() else 0
    return time.perf_counter() - 1e-9 * waited


def ends_in_time(run: Callable[[], Any], most: float) -> Any:
    """What ``run`` returns, if it ends within ``most`` seconds in one of three tries: a process that has to wait for a
    core, or to load kernels, is late now and then.
    """
    for _ in range(3):
        began = clock.now()
        found = run()
        if (seconds := clock.now() - began) < most:
            return found
    raise AssertionError(f"it took {seconds:.2f} s; at most {most:g} s are allowed")


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of runs is moved by `time.sleep` alone, which takes no time: machines of any speed see the same."""
    told = [time.perf_counter()]
    monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=lambda: told[0]))
    monkeypatch.setattr(time, "sleep", lambda seconds: told.__setitem__(0, told[0] + seconds))


@pytest.fixture(autouse=True)
def _one_state() -> None:
    """Estimators without a ``random_state`` draw from here: their results in tests are the same each time."""
    np.random.seed(0)  # noqa: NPY002


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def one_sandbox() -> Iterator[None]:
    """A sandbox takes seconds to start: one stays for all runs of a file."""
    from solvers.races import sandbox

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "close_all", lambda: None)
        yield
    sandbox.close_all()


@pytest.fixture
def needs_data() -> None:
    if not os.environ.get("OPTTREE_DATA"):
        pytest.skip("OPTTREE_DATA names no folder of data sets")


def real_data(name: str) -> tuple[np.ndarray, np.ndarray]:
    """X and y of a set in OPTTREE_DATA; the test is skipped where that names no folder."""
    if not os.environ.get("OPTTREE_DATA"):
        pytest.skip("OPTTREE_DATA names no folder of data sets")
    X, y = datasets.load(name, as_arrays=True)
    return X, y


@pytest.fixture
def auto_mpg() -> tuple[np.ndarray, np.ndarray]:
    return real_data("auto_mpg")
