"""Ensembles on keys of many levels beside columns that tell little, half of the rows held out: R2 or accuracy.

Each key has an effect of its own, a number or a class; a column of two values adds to it, one of three does not, nor do
``--noise`` columns of normal numbers. Keys are numbers without an order, as those of products are.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import opttree
from experiments.benchmarks.common import Row, script

KINDS: dict[str, tuple[Any, Any]] = {
    "random forest": (RandomForestRegressor, RandomForestClassifier),
    "forest": (opttree.TAOForestRegressor, opttree.TAOForestClassifier),
    "boosted": (opttree.BoostedTreesRegressor, opttree.BoostedTreesClassifier),
}


def table(seed: int, n: int, levels: int, n_classes: int, noise: int) -> tuple[np.ndarray, np.ndarray]:
    """Features, and numbers or, of two classes and more, class codes of which a tenth is random."""
    rng = np.random.default_rng(seed)
    key, others = rng.integers(0, levels, n), rng.integers(0, (2, 3), (n, 2))
    if n_classes < 2:
        y = rng.normal(size=levels)[key] + 0.5 * others[:, 0] + 0.3 * rng.normal(size=n)
    else:
        y = (rng.integers(0, n_classes, levels)[key] + others[:, 0]) % n_classes
        y = np.where(rng.random(n) < 0.1, rng.integers(0, n_classes, n), y)
    return np.column_stack([7.0 * key + 1e5, others, rng.normal(size=(n, noise))]), y


@script
def main(
    methods: Annotated[tuple[str, ...], KINDS] = tuple(KINDS),
    rows: int = 30_000,
    levels: int = 2000,
    classes: tuple[int, ...] = (1, 2, 5),
    noise: int = 0,
    seeds: tuple[int, ...] = (0, 1, 2),
) -> Iterator[Row]:
    for n_classes in classes:
        for seed in seeds:
            X, y = table(seed, rows, levels, n_classes, noise)
            half = rows // 2
            for method in methods:
                model = KINDS[method][int(n_classes > 1)](random_state=seed)
                began = time.process_time()
                model.fit(X[:half], y[:half])
                seconds = time.process_time() - began
                yield {
                    "classes": n_classes,
                    "seed": seed,
                    "method": method,
                    "score": model.score(X[half:], y[half:]),
                    "cpu_seconds": seconds,
                    "kind": getattr(model, "kind_", ""),
                }
