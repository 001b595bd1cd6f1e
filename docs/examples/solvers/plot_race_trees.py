"""
Trees on one picture as solvers race
====================================

Five solvers, one statement, one clock: their best trees at three moments, and how their objectives fall.
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
    "TAO from CART": Chain(CartInit(), TAO()),
    "TAO, 30 random starts": MultiStart(TAO(init=RandomInit()), n=30),
    "GET": GET(),
    "TAO, local search": Chain(CartInit(), TAO(), LocalSearch(n_starts=1)),
}
seen = {name: [] for name in entrants}
results = {}
for name, solver in entrants.items():
    note = lambda step, trace, name=name: seen[name].append((trace.to_frame()["seconds"].iloc[-1], step.tree))  # noqa: E731
    results[name] = solve(problem, solver, time_limit=5, callback=note, random_state=0)

# %%
# The best tree of each after 3 ms, after 30 ms, and at the end. Every tree is judged by the same number,
# ``problem.objective``: the share of the variance that is left.
moments = (0.003, 0.03, 5.0)
_, axes = plt.subplots(3, 5, figsize=(14, 8.6), layout="constrained", sharex=True, sharey=True)
for column, name in zip(axes.T, entrants, strict=True):
    for ax, moment in zip(column, moments, strict=True):
        trees = [tree for seconds, tree in seen[name] if seconds <= moment] or [problem.best_constant()]
        best = min(trees, key=problem.objective)
        plot_partition(best, problem.X[:250], problem.y[:250], ax=ax)
        ax.figure.delaxes(ax.figure.axes[-1])  # one colour bar for each would be too many
        told = f"{problem.objective(best):.4f}"
        ax.set_title(f"{name}\n{told}" if moment == moments[0] else told, fontsize=10)
for ax, told in zip(axes[:, 0], ("3 ms", "30 ms", "the end"), strict=True):
    ax.set_ylabel(told)

# %%
# And against the clock:
_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
plot_trace(results, ax=ax)
