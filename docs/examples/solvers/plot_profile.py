"""
A race and its performance profile
==================================

Five solvers on four problems, each run in a process of its own, on one clock, against proved optima.
"""

# %%
import opttree
from opttree import TreeProblem, datasets
from solvers import TAO, BranchAndBound, CartInit, Chain, LocalSearch, MultiStart, RandomInit

problems = {}
for name in ("diabetes", "friedman1"):
    X, y = datasets.load(name, as_arrays=True)
    for depth in (2, 3):
        problems[f"{name}, depth {depth}"] = TreeProblem.standardized(X[:400], y[:400], depth=depth, splits="axis")

entrants = {
    "CART": CartInit(),
    "TAO": Chain(CartInit(), TAO()),
    "TAO, 10 starts": MultiStart(TAO(init=RandomInit()), n=10),
    "TAO, local search": Chain(CartInit(), TAO(), LocalSearch(n_starts=1)),
    "branch and bound": BranchAndBound(),
}
race = opttree.race(problems, entrants, time_limit=2)

# %%
# Gaps are to the proved optimum where a solver proved it, else to the best tree known, and the table says which:
race.references()

# %%
100 * race.gaps().round(4)

# %%
# Four pictures: mean gap against time; the share of problems solved within a factor of the fastest solver's time, and
# within a time; primal integrals, which reward being good early.
figures = race.plot()

# %%
race
