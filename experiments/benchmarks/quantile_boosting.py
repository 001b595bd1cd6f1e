"""Boosted quantiles beside scikit-learn's two, by default: pinball loss on test rows as a share of y's deviation.

At most 4,000 training rows of each set, a quarter of all rows for tests; means over the seeds of the splits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.metrics import mean_pinball_loss
from sklearn.model_selection import train_test_split

from experiments.benchmarks.common import Row, script
from opttree import BoostedTreesRegressor, datasets

MOST = 4000


def models(q: float, seed: int) -> dict[str, Any]:
    """The three boosted models of a quantile."""
    return {
        "opttree": BoostedTreesRegressor(loss="quantile", quantile=q, random_state=seed),
        "histograms": HistGradientBoostingRegressor(loss="quantile", quantile=q, random_state=seed),
        "gradient boosting": GradientBoostingRegressor(loss="quantile", alpha=q, random_state=seed),
    }


@script
def main(
    sets: Annotated[tuple[str, ...], "data sets"] = ("airfoil", "abalone", "cpu_act", "housing", "kin8nm"),
    levels: Annotated[tuple[float, ...], "of the quantiles"] = (0.1, 0.9),
    seeds: Annotated[int, "splits"] = 3,
) -> Iterator[Row]:
    for name in sets:
        X, y = datasets.load(name, as_arrays=True)
        for q in levels:
            losses: dict[str, list[float]] = {}
            seconds: dict[str, float] = {}
            for seed in range(seeds):
                train_X, test_X, train_y, test_y = train_test_split(X, y, random_state=seed)
                for label, model in models(q, seed).items():
                    began = time.process_time()
                    model.fit(train_X[:MOST], train_y[:MOST])
                    seconds[label] = seconds.get(label, 0.0) + time.process_time() - began
                    loss = mean_pinball_loss(test_y, model.predict(test_X), alpha=q) / np.std(y)
                    losses.setdefault(label, []).append(float(loss))
            means = {label: float(np.mean(some)) for label, some in losses.items()}
            yield {"data": name, "quantile": q} | means | {f"{k}, CPU s": v / seeds for k, v in seconds.items()}
