"""What the benchmark scripts share: data, standardised problems, timing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from opttree import L1, TAORegressor, TreeProblem, datasets


def standardised(name: str, depth: int, leaves: str = "constant", split_penalty: float = 1e-4) -> TreeProblem:
    """The problem that `TAORegressor` states on all rows of a data set."""
    X, y = datasets.load(name, as_arrays=True)
    model = TAORegressor(depth, leaves=leaves, split_penalty=split_penalty)
    problem, _scaling = model.state(X, y)
    return problem


def l1_of(problem: TreeProblem) -> float:
    """The l1 penalty on the splits of a problem."""
    return problem.strength(L1, "splits")


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Wall-clock seconds of one call, and what it returned."""
    began = time.perf_counter()
    value = call()
    return time.perf_counter() - began, value


def splits(n: int, share: float, seeds: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """``seeds`` random splits of n rows: seed, training rows (1 - share), test rows (share)."""
    from sklearn.model_selection import train_test_split

    for seed in range(seeds):
        train, test = train_test_split(np.arange(n), test_size=share, random_state=seed)
        yield seed, train, test
