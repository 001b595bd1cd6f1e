"""
Three solvers, five seeds
=========================

A comparison that a paper can print: one statement, one clock, five seeds of each solver, gaps to the proved optimum.
"""

# %%
# Two tables at depth 3. Each solver has five seeds and three seconds for each; every run is a process of its own.
import matplotlib.pyplot as plt

import opttree
from opttree import TreeProblem, datasets
from solvers import TAO, BranchAndBound, CartInit, Chain, LocalSearch, RandomInit

problems = {}
for name in ("diabetes", "iris"):
    X, y = datasets.load(name, as_arrays=True)
    if name == "iris":
        problems[name] = TreeProblem(X, y.astype(int), depth=3, splits="axis", loss="zero_one")
    else:
        problems[name] = TreeProblem.standardized(X[:400], y[:400], depth=3, splits="axis")
entrants = {
    "TAO, a random start": TAO(init=RandomInit()),
    "CART, TAO, local search": Chain(CartInit(), TAO(), LocalSearch(n_starts=1)),
    "branch and bound": BranchAndBound(),
}
race = opttree.race(problems, entrants, time_limit=3, seeds=range(5))
race.references()

# %%
# A number for a problem and a solver is the median over its seeds:
100 * race.gaps().round(4)

# %%
# ... and the spread over the seeds stands beside it:
race.spread()

# %%
# Differences between solvers, tested over the problems; with two problems, no test can find much:
race.compare("branch and bound")

# %%
# Every run is a point:
runs = race.to_frame()
best = runs.groupby("problem")["objective"].min()
runs["gap"] = 100 * (runs["objective"] / runs["problem"].map(best) - 1)
_, axes = plt.subplots(1, len(problems), figsize=(8, 3), sharey=True, layout="constrained")
for ax, name in zip(axes, problems, strict=True):
    some = runs[runs["problem"] == name]
    ax.plot(some["gap"], some["solver"], "o", ms=6, alpha=0.5)
    ax.set(title=name, xlabel="gap, %")
    ax.grid(alpha=0.3)

# %%
# The sentence to cite:
gaps = 100 * race.gaps().mean()
print(
    f"With opttree {opttree.__version__} we gave each solver five seeds and three seconds on the same {len(problems)} "
    f"statements of depth 3; the mean gap to the proved optimum was {gaps['CART, TAO, local search']:.1f} % for CART "
    f"followed by TAO and local search, and {gaps['TAO, a random start']:.1f} % for TAO from a random start "
    "(medians over the seeds)."
)
