"""
Survival times
==============

Groups whose hazards differ the most, with a proof, and a forest that predicts better than one tree.
"""

# %%
# Times until an event, of which some are known only to be longer than the time at which a row was lost from sight.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from opttree import SurvivalForest, SurvivalTree, survival
from opttree.plotting import plot_tree

rng = np.random.default_rng(0)
table = pd.DataFrame({"age": rng.integers(40, 90, 1000), "stage": rng.choice(["I", "II", "III"], 1000)})
risk = 0.04 * (table["age"] - 60) + table["stage"].map({"I": 0.0, "II": 0.4, "III": 1.5}) * (table["age"] > 55)
time, lost = rng.weibull(1.3, 1000) * 5.0 * np.exp(-risk), rng.exponential(6.0, 1000)
y = survival.outcome(time <= lost, np.minimum(time, lost))

# %%
# The tree of the highest likelihood, of as many splits as held-out rows ask for. Leaves show how many times the hazard
# of all rows theirs is.
model = SurvivalTree(max_depth=3, random_state=0).fit(table[:700], y[:700])
print(f"proved: {model.is_optimal_}")
plot_tree(model)

# %%
# Each leaf has a curve:
_, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
leaf = model.apply(table[:700])
for node in np.unique(leaf):
    one = table[:700][leaf == node][:1]
    function = model.predict_survival_function(one)[0]
    ax.step(function.x, function(function.x), where="post", label=f"leaf {node}, {np.sum(leaf == node)} rows")
ax.set(xlabel="years", ylabel="share without the event")
ax.legend(fontsize=8)

# %%
# Harrell's C on the other rows:
forest = SurvivalForest(random_state=0).fit(table[:700], y[:700])
print(f"tree {model.score(table[700:], y[700:]):.3f}, forest {forest.score(table[700:], y[700:]):.3f}")
