"""
Distilling a forest into one tree
=================================

One tree, fitted to the answers of a forest on the rows and between them, keeps much of its accuracy.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from opttree import AutoTreeRegressor, TAOForestRegressor, TAORegressor, TreeProblem, datasets
from solvers import Distilled, solve

X, y = datasets.load("friedman1", as_arrays=True)
train, test = slice(0, 700), slice(700, None)

# %%
# A tree of depth 4 with linear leaves, trained on the outcomes; the same kind of tree, trained on a forest's answers;
# the forest.
tree = TAORegressor(max_depth=4, leaves="linear", random_state=0).fit(X[train], y[train])
forest = TAOForestRegressor(random_state=0).fit(X[train], y[train])

problem = TreeProblem.standardized(X[train], y[train], depth=4, leaves="linear")
distilled = problem.original(solve(problem, Distilled(), random_state=0))
r2 = 1 - np.mean((distilled.predict(X[test]) - y[test]) ** 2) / np.var(y[test])

# %%
# `opttree.AutoTreeRegressor` tries distilled trees among others, and keeps what held-out rows prefer:
auto = AutoTreeRegressor(time_limit=6, random_state=0).fit(X[train], y[train])
scores = {
    "one tree": tree.score(X[test], y[test]),
    "a forest, distilled": r2,
    "AutoTree, one tree": auto.score(X[test], y[test]),
    "forest of 30": forest.score(X[test], y[test]),
}
sizes = {
    "one tree": tree.tree_.n_parameters,
    "a forest, distilled": distilled.n_parameters,
    "AutoTree, one tree": auto.tree_.n_parameters,
    "forest of 30": forest.n_parameters_,
}

_, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
for name in scores:
    ax.semilogx(sizes[name], scores[name], "o", ms=9)
    ax.annotate(f" {name}", (sizes[name], scores[name]), va="center")
ax.set(xlabel="parameters", ylabel="R2 on new rows", xlim=(min(sizes.values()) / 2, 10 * max(sizes.values())))
