"""
Choosing a depth
================

Deeper trees fit the training rows better, and new rows only up to a point; ``max_depth="cv"`` looks for it.
"""

# %%
import matplotlib.pyplot as plt

from opttree import TAORegressor, datasets

X, y = datasets.load("friedman1", as_arrays=True)
train, test = slice(0, 500), slice(500, None)

# %%
# Every depth on its own, for the picture:
depths = range(1, 9)
models = [TAORegressor(max_depth=d, leaf_shrinkage=0.0, random_state=0).fit(X[train], y[train]) for d in depths]
chosen = TAORegressor(max_depth="cv", leaf_shrinkage=0.0, random_state=0).fit(X[train], y[train])

_, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
ax.plot(depths, [m.score(X[train], y[train]) for m in models], "o-", label="training rows")
ax.plot(depths, [m.score(X[test], y[test]) for m in models], "o-", label="1500 new rows")
ax.axvline(chosen.best_depth_, color="0.5", ls="--", label="chosen on the training rows alone")
ax.set(xlabel="depth", ylabel="R2")
ax.legend()

# %%
# The search sees training rows alone. It starts each depth from the tree of the depth before, and stops after four
# depths without improvement.
print(f"depth {chosen.best_depth_}, R2 on new rows {chosen.score(X[test], y[test]):.3f}")
chosen.cv_results_

# %%
# Shrinkage of the leaves towards their parents, on by default, makes too deep a tree less harmful:
shrunk = TAORegressor(max_depth=8, random_state=0).fit(X[train], y[train])
print(f"depth 8 without shrinkage {models[-1].score(X[test], y[test]):.3f}, with {shrunk.score(X[test], y[test]):.3f}")
