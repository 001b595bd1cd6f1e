"""
Trees on one picture as solvers race
====================================

Four solvers, one statement, one clock: what their best trees look like after a while, and how their objectives fall.
"""

# %%
# The statement: an oblique tree of depth 2 with constant leaves, on two features.
import matplotlib.pyplot as plt
import numpy as np

from opttree import TreeProblem
from opttree.plotting import plot_partition, plot_trace
from solvers import GET, TAO, CartInit, Chain, LocalSearch, MultiStart, RandomInit, solve

rng = np.random.default_rng(3)
X = rng.uniform(-1, 1, size=(500, 2))
y = np.where(X[:, 0] + 0.6 * X[:, 1] > 0.1, 1.0, -1.0) * np.where(X[:, 1] - 0.8 * X[:, 0] > -0.2, 1.0, 0.2)
y += 0.1 * rng.normal(size=500)
problem = TreeProblem.standardized(X, y, depth=2)

entrants = {
    "CART": CartInit(),
    "TAO from CART": TAO(),
    "TAO, 30 random starts": MultiStart(TAO(init=RandomInit()), n=30),
    "GET": GET(),
    "TAO, then local search": Chain(TAO(), LocalSearch(n_starts=1)),
}
results = {name: solve(problem, solver, time_limit=5, random_state=0) for name, solver in entrants.items()}

# %%
# Every result is judged by the same number, ``problem.objective``: the share of the variance that is left.
_, axes = plt.subplots(1, 5, figsize=(14, 3.2), layout="constrained", sharey=True)
for ax, (name, result) in zip(axes, results.items(), strict=True):
    plot_partition(result.tree, problem.X[:250], problem.y[:250], ax=ax)
    ax.set_title(f"{name}\n{result.objective:.4f}", fontsize=10)

# %%
# And against the clock:
_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
plot_trace(results, ax=ax)
