"""Seconds of Shapley values for 1,000 rows: a GET-Linear tree of depth 6 of 18 features (elevators), and others.

The standard error is the median over rows, in percent of a row's largest value; what the values lack of the answer is
the mean, in percent of the deviation of y.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from experiments.benchmarks.common import Row, load, script, timed
from opttree import GETRegressor, TAOForestRegressor, TAORegressor, explain

TRAIN, ROWS, BACKGROUND = 4000, 1000, 100


@script
def main() -> Iterator[Row]:
    X, y = load("elevators", TRAIN + ROWS)
    rows, background = X[TRAIN:], X[:BACKGROUND]
    models = {
        "GET-Linear, depth 6": GETRegressor(6, leaves="linear", random_state=0),
        "TAO, oblique, depth 6": TAORegressor(6, random_state=0),
        "forest of 30": TAOForestRegressor(random_state=0),
    }
    for name, model in models.items():
        model.fit(X[:TRAIN], y[:TRAIN])
        explain.shap_values(model, rows[:2], background)
        taken, found = timed(explain.shap_values, model, rows, background)
        largest = np.maximum(np.abs(found.values).max(axis=1, keepdims=True), 1e-300)
        lacks = np.abs(found.values.sum(axis=1) + found.base - model.predict(rows)).mean() / y.std()
        row = {"model": name, "seconds": taken, "exact": found.is_exact}
        yield row | {"error %": 100.0 * float(np.median(found.error / largest)), "lacks %": 100.0 * float(lacks)}
