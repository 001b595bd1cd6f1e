"""Fixtures: data folders, problems small enough to check by hand, a non-interactive matplotlib."""

from __future__ import annotations

import os
from pathlib import Path

import matplotlib

matplotlib.use("agg")

SIDE_BY_SIDE = "PYTEST_XDIST_WORKER" in os.environ  # as many processes as cores: one thread each, or they wait in turns
if SIDE_BY_SIDE:
    os.environ["OMP_NUM_THREADS"] = "1"

_SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
if "OPTTREE_DATA" not in os.environ and _SHARED.is_dir():
    os.environ["OPTTREE_DATA"] = str(_SHARED)

import numba  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402

from opttree import L1, TreeProblem  # noqa: E402

if SIDE_BY_SIDE:
    numba.set_num_threads(1)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def needs_data() -> None:
    if not os.environ.get("OPTTREE_DATA"):
        pytest.skip("OPTTREE_DATA names no folder of data sets")


def regression_problem(n: int = 200, p: int = 4, seed: int = 0, **options) -> TreeProblem:
    """Piecewise linear target with noise; options go to `TreeProblem`."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    y = np.where(X[:, 0] + 0.5 * X[:, 1] > 0, 2.0 + X[:, 1], -1.0 + X[:, -1]) + 0.1 * rng.normal(size=n)
    options = {"depth": 3, "penalties": (L1(splits=1e-4, leaves=1e-4),)} | options
    return TreeProblem(X, (y - y.mean()) / y.std(), **options)


def classification_problem(n: int = 200, p: int = 4, seed: int = 0, **options) -> TreeProblem:
    """Three classes by two hyperplanes, 5 % of the labels random; options go to `TreeProblem`."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    y = (X[:, 0] + X[:, 1] > 0).astype(int) + (X[:, 2] > 0.5)
    noisy = rng.uniform(size=n) < 0.05
    y[noisy] = rng.integers(0, 3, noisy.sum())
    options = {"depth": 3, "loss": "zero_one", "penalties": (L1(splits=1e-4, leaves=1e-3),)} | options
    return TreeProblem(X, np.array(["a", "b", "c"])[y], **options)
