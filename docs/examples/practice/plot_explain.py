"""
Explaining a row
================

Why this answer, and what would have changed it: a path, Shapley values, and the nearest row with another answer.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from opttree import TAOClassifier, explain

data = load_breast_cancer(as_frame=True)
X, y = data.data.iloc[:, :8], data.target_names[data.target]
model = TAOClassifier(max_depth=3, splits="axis", random_state=0).fit(X[:400], y[:400])
row = X[450:451]
print(model.explain(row))

# %%
# Shapley values: how much each feature moves the probability of the answer, against a background of training rows.
# They are exact for up to ten columns, else sampled with standard errors.
values = explain.shap_values(model, X[440:460], X[:60])
one = values.values[10, :, list(model.classes_).index("malignant")]
order = np.argsort(np.abs(one))
_, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
ax.barh(np.array(X.columns)[order], one[order], color=np.where(one[order] > 0, "tab:red", "tab:blue"))
ax.set_xlabel("contribution to the probability of malignant")

# %%
# They sum to the answer less the mean answer of the background:
mean = model.predict_proba(X[:60])[:, 1].mean()
print(f"{one.sum():.4f} = {model.predict_proba(row)[0, 1]:.4f} - {mean:.4f}")

# %%
# The nearest row with another answer, found by a small program for each leaf:
print(explain.counterfactual(model, row))
