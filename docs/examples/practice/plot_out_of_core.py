"""
More rows than memory
=====================

A Parquet file, learned in chunks: a sample initialises the model, all rows train it.
"""

# %%
# A file of 200,000 rows, written in parts; in earnest it would be larger than memory.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from opttree import GETRegressor, chunks

rng = np.random.default_rng(0)


def rows(count):
    X = rng.normal(size=(count, 10))
    left = np.where(X[:, 2] > X[:, 3], 3 * X[:, 4], -2 * X[:, 5])
    right = np.where(X[:, 6] + X[:, 7] > 0.5, 2 * X[:, 8] + 1, X[:, 9] - 1)
    return X, np.where(X[:, 0] + X[:, 1] > 0, left, right) + rng.normal(size=count)


file = Path(tempfile.mkdtemp()) / "rows.parquet"
with pq.ParquetWriter(file, pa.schema([(f"x{j}", pa.float64()) for j in range(10)] + [("y", pa.float64())])) as writer:
    for _ in range(10):
        X, y = rows(20_000)
        writer.write_table(pa.table({**{f"x{j}": X[:, j] for j in range(10)}, "y": y}))

# %%
# A sample in memory, and the same number of rows as a sample that begins, after which the whole file trains the tree,
# one chunk in memory at a time:
X_new, y_new = rows(20_000)
X_all, y_all = rows(3_000)
samples = (300, 1000, 3000)
alone, by_chunks = [], []
for n in samples:
    model = GETRegressor(3, leaves="linear", random_state=0)
    alone.append(model.fit(X_all[:n], y_all[:n]).score(X_new, y_new))
    model.fit_chunks(file, target="y", sample_rows=n, chunk_rows=10_000)
    by_chunks.append(model.score(X_new, y_new))

_, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
ax.semilogx(samples, alone, "o-", label="the sample in memory")
ax.semilogx(samples, by_chunks, "s-", label="then 200,000 rows in chunks")
ax.set(xlabel="rows of the sample", ylabel="R2 on new rows")
ax.legend()

# %%
# The file helps most where the sample is small: the first tree comes from the sample, and chunks refine it.
# Predictions come chunk by chunk, too:
answers = chunks.predict_chunks(model, file, target="y")
print(sum(len(part) for part in answers), "answers")
