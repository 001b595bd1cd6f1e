"""
One tree, three kinds: axis-aligned, oblique, linear leaves
===========================================================

What hyperplanes and linear leaves buy at the same depth, on two features, where one can see it.
"""

# %%
# A function with a slanted ridge, and noise.
import matplotlib.pyplot as plt
import numpy as np

from opttree import TAORegressor
from opttree.plotting import plot_partition

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(1500, 2))
y = np.abs(X[:, 0] + X[:, 1]) + 0.5 * X[:, 1] + 0.05 * rng.normal(size=1500)

kinds = {
    "axis-aligned": {"splits": "axis"},
    "oblique": {"splits": "oblique"},
    "linear leaves": {"leaves": "linear"},
}
_, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained", sharey=True)
for ax, (kind, options) in zip(axes, kinds.items(), strict=True):
    model = TAORegressor(max_depth=2, leaf_shrinkage=0.0, random_state=0, **options).fit(X[:1000], y[:1000])
    plot_partition(model.tree_, X[:400], y[:400], ax=ax)
    ax.set_title(f"{kind}: test R2 {model.score(X[1000:], y[1000:]):.2f}")

# %%
# All three have at most four leaves. The axis-aligned tree makes steps beside the ridge; the oblique one finds its
# direction, and still answers with constants; with linear leaves one split along the ridge and two planes say nearly
# everything.
