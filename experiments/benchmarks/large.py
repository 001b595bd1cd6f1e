"""Seconds and peak memory of one fit on generated rows: 500,000 x 90, depth 8, linear leaves, 10 passes.

Peak memory is the process's largest resident set, the interpreter and all libraries included.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from experiments.benchmarks.common import Row, peak, script, timed
from opttree import TAORegressor


@script
def main(
    rows: int = 500_000, features: int = 90, depth: int = 8, passes: int = 10, init: str = "random"
) -> Iterator[Row | str]:
    rng = np.random.default_rng(0)
    warm = rng.normal(size=(300, 3))
    TAORegressor(2, leaves="linear", init=init, max_iter=5).fit(warm, warm[:, 0])  # compile
    X = np.empty((rows, features))
    for start in range(0, rows, 10_000):
        block = X[start : start + 10_000]
        block[:] = rng.normal(size=block.shape)
    y = np.where(X[:, 0] > 0, X[:, 1] + np.abs(X[:, 2]), X[:, 3] * np.sign(X[:, 4])) + 0.3 * rng.normal(size=rows)
    size, before = X.nbytes / 2**20, peak()
    model = TAORegressor(depth, leaves="linear", init=init, max_iter=passes, random_state=0, verbose=0)
    taken, _model = timed(model.fit, X, y)
    row = {"rows": rows, "features": features, "depth": depth, "passes": passes, "seconds": taken}
    row |= {"train R2": model.score(X[:50_000], y[:50_000]), "leaves": model.tree_.n_leaves, "input MB": size}
    after = peak()
    yield row | {"before MB": before, "peak MB": after, "peak / input": after / size}
    yield str(model.result_)
