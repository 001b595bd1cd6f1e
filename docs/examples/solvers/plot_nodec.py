"""
NODEC's convergence
===================

Node-based decomposition trains a soft tree block by block: how its objective falls, and what its conditions for
convergence do.
"""

# %%
import matplotlib.pyplot as plt

from opttree import L2, TreeProblem, datasets
from solvers import NODEC, RandomInit, solve

X, y = datasets.load("friedman1", as_arrays=True)
penalties = L2(splits=1e-3, leaves=1e-3)
problem = TreeProblem.standardized(X[:500], y[:500], depth=2, leaves="linear", penalties=penalties)

# %%
# From a random tree. Early stopped, as in the paper's experiments, steps are always accepted; with ``k0=0`` a step is
# accepted only if it is no worse than an Armijo step and lowers the objective enough, and the method converges to
# stationary points.
results = {
    "early stopped": solve(problem, NODEC(init=RandomInit(), max_iter=12), random_state=0),
    "k0 = 0": solve(problem, NODEC(init=RandomInit(), max_iter=12, k0=0), random_state=0),
}

_, axes = plt.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
for name, result in results.items():
    trace = result.trace.to_frame()
    axes[0].plot(trace["step"], trace["current"], "o-", ms=3, label=name)
    axes[1].plot(trace["step"], trace["objective"], "o-", ms=3, label=name)
axes[0].set(xlabel="macro iteration", ylabel="smooth objective, minimised")
axes[1].set(xlabel="macro iteration", ylabel="objective of the hard tree")
axes[0].legend()
trace = results["k0 = 0"].trace.to_frame()
axes[2].semilogy(trace["step"], trace["gradient_norm"], "o-", ms=3, color="C1")
axes[2].set(xlabel="macro iteration", ylabel="norm of the gradient, k0 = 0")

# %%
# Both minimise the loss of a *soft* tree. Its hard tree, which answers with one leaf and is what `solvers.solve`
# compares, need not follow, as the second picture shows; the best one seen is the result:
for name, result in results.items():
    print(f"{name}: {result}")
