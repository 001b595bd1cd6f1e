"""
Soft against hard
=================

A soft tree sends a row down both sides of a branch, with probabilities; a hard one down one side.
"""

# %%
# One feature, so that the answers can be drawn as a curve. SRT answers with one leaf, taking the likelier side at
# each branch; ORRT with the mixture of all its leaves; both have
import matplotlib.pyplot as plt
import numpy as np

from opttree import ORRTRegressor, SRTRegressor, TAORegressor

rng = np.random.default_rng(1)
x = np.sort(rng.uniform(-3, 3, 300))
y = np.sin(2 * x) + 0.15 * rng.normal(size=300)
X, grid = x[:, None], np.linspace(-3, 3, 800)[:, None]

models = {
    "TAO, hard": TAORegressor(max_depth=2, leaves="linear", random_state=0),
    "SRT, soft, one leaf": SRTRegressor(max_depth=2, random_state=0),
    "ORRT, soft, mixture": ORRTRegressor(max_depth=2, random_state=0),
}
_, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained", sharey=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    model.fit(X, y)
    ax.plot(x, y, ".", ms=3, color="0.6")
    ax.plot(grid, model.predict(grid), lw=2)
    ax.set_title(name)

# %%
# The gates of the mixture: the probability of each leaf along x. They sum to one everywhere.
tree = models["ORRT, soft, mixture"].tree_
_, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.stackplot(grid[:, 0], tree.leaf_proba(grid).T, alpha=0.8)
ax.set(xlabel="x", ylabel="probability of the leaves", xlim=(-3, 3), ylim=(0, 1))

# %%
# ``as_hard`` makes a hard tree of it, without a new fit. Its leaves were trained to be mixed: alone they answer far
# worse, which is the difference between a tree that mixes and one that does not.
_, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot(x, y, ".", ms=3, color="0.6")
ax.plot(grid, tree.predict(grid), lw=2, label="mixture")
ax.plot(grid, tree.as_hard.predict(grid), lw=1.5, ls="--", label="as_hard")
ax.set_ylim(-2, 2)
ax.legend()
