"""Rows predicted per second, and the time of one row, on elevators: forests against forests, a tree against CART.

Two threads; medians of repeated calls on all rows, repeated to 100,000, and on one row at a time. "Forest" and "Tree"
are the models themselves, without scikit-learn's checks of the input.
"""

from __future__ import annotations

from collections.abc import Iterator

import numba
import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

from experiments.benchmarks.common import Row, load, median_seconds, script, standard
from opttree import AutoTreeRegressor, TAOForestRegressor

THREADS = 2


@script
def main(data: str = "elevators", rows: int = 100_000) -> Iterator[Row]:
    import xgboost

    numba.set_num_threads(min(THREADS, numba.config.NUMBA_NUM_THREADS))
    X, y = load(data)
    y = standard(y)
    forest = TAOForestRegressor(random_state=0).fit(X, y)
    tree = AutoTreeRegressor(20.0, random_state=0).fit(X, y)
    rf = RandomForestRegressor(1000, n_jobs=THREADS, random_state=0).fit(X, y)
    xgb = xgboost.XGBRegressor(n_estimators=1000, max_depth=6, learning_rate=0.05, n_jobs=THREADS).fit(X, y)
    models = {
        "TAOForestRegressor, 30 trees": forest.predict,
        "its Forest": forest.forest_.predict,
        "RandomForestRegressor, 1000 trees": rf.predict,
        "XGBRegressor, 1000 trees": xgb.predict,
        "AutoTreeRegressor, one tree": tree.predict,
        "its Tree": tree.tree_.predict,
        "DecisionTreeRegressor": DecisionTreeRegressor(random_state=0).fit(X, y).predict,
    }
    many, one = np.resize(X, (rows, X.shape[1])), X[:1].copy()
    for name, predict in models.items():
        seconds = median_seconds(lambda predict=predict: predict(many), 5)
        latency = median_seconds(lambda predict=predict: predict(one), 50)
        yield {"model": name, "rows/s": f"{rows / seconds:,.0f}", "one row, us": f"{1e6 * latency:,.0f}"}
