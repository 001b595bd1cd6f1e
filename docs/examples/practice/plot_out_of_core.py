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
    return X, np.where(X[:, 0] + X[:, 1] > 0, X[:, 2] - X[:, 3], 1.0 + X[:, 4]) + 0.3 * rng.normal(size=count)


file = Path(tempfile.mkdtemp()) / "rows.parquet"
with pq.ParquetWriter(file, pa.schema([(f"x{j}", pa.float64()) for j in range(10)] + [("y", pa.float64())])) as writer:
    for _ in range(10):
        X, y = rows(20_000)
        writer.write_table(pa.table({**{f"x{j}": X[:, j] for j in range(10)}, "y": y}))

# %%
# Trees trained on ever larger samples alone, and one trained on the file in chunks of which one is in memory at a
# time:
X_new, y_new = rows(20_000)
X_all, y_all = rows(10_000)
samples = (300, 1000, 3000, 10_000)
alone = [
    GETRegressor(3, leaves="linear", random_state=0).fit(X_all[:n], y_all[:n]).score(X_new, y_new) for n in samples
]
model = GETRegressor(3, leaves="linear", random_state=0).fit_chunks(
    file, target="y", sample_rows=1000, chunk_rows=10_000
)
by_chunks = model.score(X_new, y_new)

_, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
ax.semilogx(samples, alone, "o-", label="a sample in memory")
ax.semilogx([model.n_rows_], [by_chunks], "s", ms=9, label="the file, in chunks; a sample of 1000 begins")
ax.set(xlabel="rows", ylabel="R2 on new rows")
ax.legend()

# %%
# Predictions come chunk by chunk, too:
answers = chunks.predict_chunks(model, file, target="y")
print(sum(len(part) for part in answers), "answers")
