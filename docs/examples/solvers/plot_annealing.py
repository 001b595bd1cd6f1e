"""
Annealing, step by step
=======================

GET trains a soft tree whose gates become steeper, until it is hard.
"""

# %%
# The smooth loss of one tree at three scales of its gates: the same weights, and answers from nearly constant to
# steps.
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

from opttree import SmoothTreeProblem, TreeProblem
from opttree.plotting import plot_partition

rng = np.random.default_rng(5)
X = rng.uniform(-1, 1, size=(600, 2))
y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0) + 0.1 * rng.normal(size=600)
problem = TreeProblem.standardized(X, y, depth=2)

# %%
# Anneal by hand: minimise at a scale, take the result as the start of the next. After each scale the tree is
# hardened, its leaves are fitted to the hard splits, and its true objective is known.
scales = [2.0, 5.0, 20.0, 100.0]
theta = SmoothTreeProblem(problem, alpha=scales[0]).random_theta(np.random.default_rng(0))
_, axes = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained", sharey=True)
for ax, alpha in zip(axes, scales, strict=True):
    smooth = SmoothTreeProblem(problem, alpha=alpha)
    found = minimize(smooth.value_and_grad, theta, jac=True, options={"maxiter": 60})
    theta = found.x
    tree = problem.fit_leaves(smooth.harden(theta))
    plot_partition(tree, problem.X[:300], problem.y[:300], ax=ax)
    ax.set_title(f"alpha {alpha:g}\nsmooth {found.fun:.3f}, hard {problem.objective(tree):.3f}", fontsize=10)

# %%
# At small scales the smooth loss says little about the hard tree; at large ones they agree, but gradients are all but
# zero, which is why one does not begin there. How far the two are apart, for one tree:
alphas = np.geomspace(0.5, 200, 40)
hard = problem.objective(tree)
_, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
losses = [SmoothTreeProblem(problem, alpha=a).value(theta) for a in alphas]
ax.semilogx(alphas, losses, label="smooth loss")
ax.axhline(hard, color="0.5", ls="--", label="objective of the hard tree")
ax.set(xlabel="alpha, scale of the gates", ylabel="loss")
ax.legend()

# %%
# `solvers.GET` does this from many starts, with Adam, in compiled kernels, and polishes the best tree subtree by
# subtree:
from solvers import GET, solve

print(solve(problem, GET(), random_state=0))
