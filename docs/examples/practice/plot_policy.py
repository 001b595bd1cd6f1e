"""
Who should be treated?
======================

A tree that chooses an action for each row, from what was done and what came of it; and what a budget costs.
"""

# %%
# A trial: a treatment that helps some and harms others, given by chance, and an outcome that has other causes, too.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression

from opttree import PolicyTree, TreeProblem, causal
from opttree.plotting import plot_tree

rng = np.random.default_rng(0)
people = pd.DataFrame({"age": rng.integers(20, 80, 1200), "pressure": rng.normal(130, 15, 1200).round()})
treated = rng.random(1200) < 0.5
helps = np.where((people["age"] < 50) & (people["pressure"] > 125), 1.5, -0.5)
outcome = 0.02 * people["age"] + treated * helps + rng.normal(size=1200)

# %%
# Doubly robust scores say what each action would have brought each row. The tree of the highest mean score is found and
# proved over all thresholds.
scores = causal.scores(people, treated, outcome, propensity=[0.5, 0.5], outcome_model=LinearRegression())
policy = PolicyTree(max_depth=2, min_samples_leaf=50).fit(people[:800], scores[:800])
print(f"proved: {policy.is_optimal_}")
plot_tree(policy)

# %%
# Its value on the other rows, beside treating all and none:
value, error = policy.policy_value(people[800:], scores[800:])
print(f"policy {value:.2f} +- {error:.2f}, none {scores[800:, 0].mean():.2f}, all {scores[800:, 1].mean():.2f}")

# %%
# A budget is a side constraint: at most so large a share of the rows is treated. Mixed-integer programs prove under it,
# here on 100 rows and four thresholds of each column.
from opttree.constraints import MaxShare
from solvers import MIP, solve

few, gain = people[:100].to_numpy(float), scores[:100]
regret = gain.max(axis=1, keepdims=True) - gain
shares, means = [0.0, 0.1, 0.2, 0.3, 0.4, 0.6], []
for share in shares:
    limit = TreeProblem(few, regret, 2, "axis", loss="cost", constraints=[MaxShare(1, share)])
    chosen = solve(limit, MIP("flow", n_thresholds=4), time_limit=20).tree.predict(few)
    means.append(gain[np.arange(100), chosen].mean())
_, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot(shares, means, "o-")
ax.set(xlabel="share that may be treated", ylabel="mean score of the best tree")
