"""
Errors that cost different amounts
==================================

A cost matrix in the statement: the splits change with it, not the threshold alone.
"""

# %%
# Tumours: a missed one costs twenty times as much as a false alarm.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from opttree import CostClassifier
from opttree.plotting import plot_tree

data = load_breast_cancer(as_frame=True)
X, y = data.data, data.target_names[data.target]  # "benign" and "malignant", in this order
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
_, axes = plt.subplots(1, 2, figsize=(13, 3.6), layout="constrained")
for ax, missed in zip(axes, (1, 20), strict=True):
    model = CostClassifier(max_depth=2, cost_matrix=[[0, 1], [missed, 0]]).fit(X_train, y_train)
    plot_tree(model, ax=ax)
    ax.set_title(f"a missed tumour costs {missed}")

# %%
# Missed tumours and false alarms on the other rows, as the price goes up. All trees are proved.
prices, found = [1, 2, 5, 10, 20, 50], []
for missed in prices:
    model = CostClassifier(max_depth=2, cost_matrix=[[0, 1], [missed, 0]]).fit(X_train, y_train)
    answer = model.predict(X_test)
    found.append([np.sum((y_test == a) & (answer == b)) for a, b in (("malignant", "benign"), ("benign", "malignant"))])
_, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.semilogx(prices, found, "o-", label=["missed", "false alarms"])
ax.set(xlabel="cost of a missed tumour", ylabel="rows")
ax.legend()
