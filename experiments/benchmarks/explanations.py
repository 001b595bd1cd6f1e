"""Seconds of Shapley values for 1,000 rows: a GET-Linear tree of depth 6 of 18 features (elevators), and others.

python -m experiments.benchmarks.explanations
"""

from __future__ import annotations

import time

import numpy as np

from opttree import GETRegressor, TAOForestRegressor, TAORegressor, datasets, explain

ROWS, BACKGROUND = 1000, 100


def main() -> None:
    X, y = datasets.load("elevators", as_arrays=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    train, rows = X[:4000], X[4000 : 4000 + ROWS]
    models = {
        "GET-Linear, depth 6": GETRegressor(6, leaves="linear", random_state=0),
        "TAO, oblique, depth 6": TAORegressor(6, random_state=0),
        "forest of 30": TAOForestRegressor(random_state=0),
    }
    for name, model in models.items():
        model.fit(train, y[:4000])
        explain.shap_values(model, rows[:2], train[:BACKGROUND])
        began = time.perf_counter()
        found = explain.shap_values(model, rows, train[:BACKGROUND])
        seconds = time.perf_counter() - began
        error = float(np.median(found.error / np.maximum(np.abs(found.values).max(axis=1, keepdims=True), 1e-300)))
        total = float(np.abs(found.values.sum(axis=1) + found.base - model.predict(rows)).mean() / y.std())
        print(
            f"{name}: {X.shape[1]} features, {ROWS} rows, background {BACKGROUND}: {seconds:.2f} s, "
            f"exact {found.is_exact}, median standard error {100 * error:.2f} % of a row's largest value, "
            f"sum off by {100 * total:.2f} % of the deviation of y in the mean"
        )


if __name__ == "__main__":
    main()
