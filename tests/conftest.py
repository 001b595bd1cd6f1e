"""Fixtures: data folders, problems small enough to check by hand, a non-interactive matplotlib."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

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

from opttree import datasets  # noqa: E402
from solvers.conformance import classification_problem, regression_problem  # noqa: E402

__all__ = ["classification_problem", "regression_problem"]

LONG = {
    "test_packaging.py",
    "test_gpu_compilers.py",
    "test_experiments.py",
    "test_notebooks.py",
    "test_forest.py",
    "test_mip.py",
    "test_device.py",
    "test_array_functions.py",
}

if SIDE_BY_SIDE:
    numba.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with long tests come first, so that no process waits at the end for another's."""
    items.sort(key=lambda item: item.path.name not in LONG)


def own_clock() -> float:
    """Seconds of the wall clock less those that this thread has waited for a core: other processes' do not count."""
    waits = Path("/proc/thread-self/schedstat")  # of Linux: nanoseconds at work, nanoseconds waited, ...
    waited = int(waits.read_text().split()[1]) if waits.exists() else 0
    return time.perf_counter() - 1e-9 * waited


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


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
