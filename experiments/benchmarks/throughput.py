"""Rows predicted per second, and the time of one row, on elevators: forests against forests, a tree against CART.

Two threads; medians of repeated calls on all rows, repeated to 100,000, and on one row at a time. "Forest" and "Tree"
are the models themselves, without scikit-learn's checks of the input.

python -m experiments.benchmarks.throughput [--data elevators] [--rows 100000]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numba
import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

from opttree import AutoTreeRegressor, TAOForestRegressor, datasets

THREADS = 2


def median_seconds(call: Callable[[], object], repeats: int) -> float:
    """Median time of a call, after one that does not count."""
    call()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="elevators")
    parser.add_argument("--rows", type=int, default=100_000)
    args = parser.parse_args()
    import xgboost

    numba.set_num_threads(min(THREADS, numba.config.NUMBA_NUM_THREADS))
    X, y = datasets.load(args.data, as_arrays=True)
    y = (y - y.mean()) / y.std()
    forest = TAOForestRegressor(random_state=0).fit(X, y)
    tree = AutoTreeRegressor(20.0, random_state=0).fit(X, y)
    rf = RandomForestRegressor(1000, n_jobs=THREADS, random_state=0).fit(X, y)
    xgb = xgboost.XGBRegressor(n_estimators=1000, max_depth=6, learning_rate=0.05, n_jobs=THREADS).fit(X, y)
    models = {
        "TAOForestRegressor, 30 trees": forest.predict,
        "  its Forest": forest.forest_.predict,
        "RandomForestRegressor, 1000 trees": rf.predict,
        "XGBRegressor, 1000 trees": xgb.predict,
        "AutoTreeRegressor, one tree": tree.predict,
        "  its Tree": tree.tree_.predict,
        "DecisionTreeRegressor": DecisionTreeRegressor(random_state=0).fit(X, y).predict,
    }
    many = np.resize(X, (args.rows, X.shape[1]))
    one = X[:1].copy()
    for name, predict in models.items():
        seconds = median_seconds(lambda predict=predict: predict(many), 5)
        latency = median_seconds(lambda predict=predict: predict(one), 50)
        print(f"{name:36s} {args.rows / seconds:12,.0f} rows/s   one row {1e6 * latency:10,.0f} us", flush=True)


if __name__ == "__main__":
    main()
