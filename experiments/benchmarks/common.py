"""What the benchmark scripts share: data, standardised problems, timing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opttree import TAORegressor, TreeProblem, datasets


def standardised(name: str, depth: int, leaves: str = "constant", split_penalty: float = 1e-4) -> TreeProblem:
    """The problem that `TAORegressor` states on all rows of a data set."""
    X, y = datasets.load(name, as_arrays=True)
    model = TAORegressor(depth, leaves=leaves, split_penalty=split_penalty)
    problem, _scaling = model.state(X, y)
    return problem


def splits(n: int, share: float, seeds: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """``seeds`` random splits of n rows: seed, training rows (1 - share), test rows (share)."""
    from sklearn.model_selection import train_test_split

    for seed in range(seeds):
        train, test = train_test_split(np.arange(n), test_size=share, random_state=seed)
        yield seed, train, test
