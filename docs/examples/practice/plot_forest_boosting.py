"""
Forest, boosting, XGBoost
=========================

The sums of trees beside those of other libraries, at their default settings, on one thread each, as training rows
grow.
"""

# %%
import time

import matplotlib.pyplot as plt
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from threadpoolctl import threadpool_limits
from xgboost import XGBRegressor

from opttree import BoostedTreesRegressor, TAOForestRegressor, datasets

X, y = datasets.load("friedman1", as_arrays=True)
models = {
    "opttree forest, 30 trees": TAOForestRegressor(random_state=0, n_jobs=1),
    "opttree boosting": BoostedTreesRegressor(random_state=0, n_jobs=1),
    "XGBoost": XGBRegressor(random_state=0, n_jobs=1),
    "HistGradientBoosting": HistGradientBoostingRegressor(random_state=0),
    "random forest, 100 trees": RandomForestRegressor(random_state=0, n_jobs=1),
}

# %%
# Friedman's first function, ten features of which five matter; 500 new rows.
sizes = (125, 1000)
_, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for name, model in models.items():
    scores, seconds = [], []
    for size in sizes:
        began = time.perf_counter()
        with threadpool_limits(1):
            model.fit(X[:size], y[:size])
        seconds.append(time.perf_counter() - began)
        scores.append(model.score(X[1500:], y[1500:]))
    axes[0].plot(sizes, scores, "o-", label=name)
    axes[1].plot(sizes, seconds, "o-", label=name)
axes[0].set(xlabel="training rows", ylabel="R2 on 500 new rows")
axes[1].set(xlabel="training rows", ylabel="seconds of a fit", yscale="log")
axes[0].legend()

# %%
# Below 1000 rows our boosting averages four ensembles, so that it takes longer there. One function, one seed:
# :doc:`/accurate` has the same comparison on 26 and 33 real data sets, tuned and untuned.
