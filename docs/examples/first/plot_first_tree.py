"""
A first tree
============

From a table with categories and blanks to a tree that is drawn, read and saved.
"""

# %%
# The table: made-up flats, with a city, a year with blanks, and a rent. Nothing has to be encoded or imputed.
import pandas as pd

flats = pd.read_csv("../../rentals.csv")
X, y = flats.drop(columns="rent"), flats["rent"]
flats.head(3)

# %%
# ``splits="axis"``: each condition is about one column. The tree is optimised as a whole, from CART's, and its leaves
# are drawn towards the nodes above them as far as held-out rows say.
from opttree import TAORegressor
from opttree.plotting import plot_importances, plot_tree

model = TAORegressor(max_depth=3, splits="axis", random_state=0).fit(X[:900], y[:900])
print(f"R2 on 300 rows that it has not seen: {model.score(X[900:], y[900:]):.3f}")

# %%
# A branch shows its condition and its share of the rows; a leaf its answer, blue for low and red for high.
plot_tree(model)

# %%
# The same as text, and which columns matter: shares of the variance of the model's own answers.
print(model.to_text())
plot_importances(model)

# %%
# One row's way through it, in words, and the whole of it in a file, as JSON:
import tempfile
from pathlib import Path

import opttree

print(model.explain(X[:1]))
file = Path(tempfile.mkdtemp()) / "tree.json"
opttree.save(model, file)
print(file.read_text()[:70], "...")
