"""
NODEC's convergence
===================

Node-based decomposition trains a soft tree block by block: how its objective falls, and what its conditions for
convergence do.
"""

# %%
import matplotlib.pyplot as plt

from opttree import L2, TreeProblem, datasets
from solvers import NODEC, solve

X, y = datasets.load("diabetes", as_arrays=True)
problem = TreeProblem.standardized(X, y, depth=2, leaves="linear", penalties=L2(splits=1e-3, leaves=1e-3))

# %%
# Early stopped, as in the paper's experiments, steps are always accepted; with ``k0=0`` a step is accepted only if it
# is no worse than an Armijo step, and the method converges to stationary points.
early = solve(problem, NODEC(max_iter=12), random_state=0)
proper = solve(problem, NODEC(max_iter=12, k0=0), random_state=0)

_, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for name, result in (("early stopped", early), ("with k0 = 0", proper)):
    trace = result.trace.to_frame()
    axes[0].plot(trace["step"], trace["current"], "o-", ms=3, label=name)
axes[0].set(xlabel="macro iteration", ylabel="smooth objective")
axes[0].legend()
trace = proper.trace.to_frame()
axes[1].semilogy(trace["step"], trace["gradient_norm"], "o-", ms=3)
axes[1].set(xlabel="macro iteration", ylabel="norm of the gradient, k0 = 0")

# %%
# The tree that is returned answers with one leaf, and its objective, the hard one, is what `solvers.solve` compares.
print(early)
print(proper)
