"""
Annealing, step by step
=======================

GET trains a soft tree whose gates become steeper, until it is hard.
"""

# %%
# A checkerboard with noise, and an oblique tree of depth 2. `opttree.SmoothTreeProblem` is the smooth loss of its
# splits and leaves, as one vector theta; ``alpha`` is the scale of the gates.
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

from opttree import SmoothTreeProblem, TreeProblem

rng = np.random.default_rng(5)
X = rng.uniform(-1, 1, size=(600, 2))
y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0) + 0.1 * rng.normal(size=600)
problem = TreeProblem.standardized(X, y, depth=2)
scales = [1.0, 4.0, 16.0, 64.0]


def anneal(seed):
    """Minimise under each scale in turn, from where the last one ended; theta and both losses after each."""
    theta = SmoothTreeProblem(problem, alpha=scales[0]).random_theta(np.random.default_rng(seed))
    for alpha in scales:
        smooth = SmoothTreeProblem(problem, alpha=alpha)
        found = minimize(smooth.value_and_grad, theta, jac=True, method="L-BFGS-B", options={"maxiter": 12})
        theta = found.x
        hard = problem.fit_leaves(smooth.harden(theta))
        soft = replace(smooth.harden(theta), gate=alpha).as_mixture
        yield alpha, soft, found.fun, problem.objective(hard)


# %%
# One start. After each scale: what the soft tree answers, its smooth loss, and the objective of the hard tree with
# the same splits. The gates become steeper, and the two losses meet.
side = np.linspace(-1.75, 1.75, 160)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
_, axes = plt.subplots(1, 4, figsize=(13, 3.6), layout="constrained", sharey=True)
for ax, (alpha, soft, smooth_loss, objective) in zip(axes, anneal(seed=0), strict=True):
    answers = soft.predict(grid).reshape(160, 160)
    ax.imshow(answers, origin="lower", extent=(-1.75, 1.75, -1.75, 1.75), vmin=-1.3, vmax=1.3, cmap="RdBu_r")
    ax.set_title(f"alpha {alpha:g}\nsmooth {smooth_loss:.3f}, hard {objective:.3f}", fontsize=10)

# %%
# Other starts end elsewhere, and the objective of the hard tree says which is best. That is why GET has many:
_, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
for seed in range(8):
    steps = list(anneal(seed))
    ax.semilogx([step[0] for step in steps], [step[3] for step in steps], "o-", label=f"start {seed}")
ax.set(xlabel="alpha, scale of the gates", ylabel="objective of the hard tree")
ax.legend(ncols=2, fontsize=8)

# %%
# `solvers.GET` does this with Adam, in compiled kernels, and polishes the best tree subtree by subtree:
from solvers import GET, solve

print(solve(problem, GET(), random_state=0))
