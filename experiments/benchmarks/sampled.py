"""What it costs in the objective that a tree of a table in parts begins on a sample: objectives and test scores after
each pass over all rows, for samples of several sizes, and of the fit in memory, which begins on all rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

import opttree
from experiments.benchmarks.common import Row, script
from experiments.benchmarks.scaling import data


def judged(model: opttree.TAORegressor, problem: opttree.TreeProblem, scaling: object, Z: object, z: object) -> Row:
    """The loss of the raw tree in the units of the whole, and its score on other rows."""
    tree = scaling.scale(model.tree_)  # type: ignore[attr-defined]
    return {"loss": problem.mean_loss(tree), "test R2": model.score(Z, z)}


@script
def main(
    rows: int = 300_000,
    samples: Annotated[tuple[int, ...], "rows of the sample"] = (5_000, 20_000, 50_000, 150_000),
    passes: Annotated[tuple[int, ...], "over all rows"] = (1, 3, 6),
    depth: int = 6,
    leaves: str = "constant",
) -> Iterator[Row]:
    X, y = data(rows + 100_000, 10)
    X, y, Z, z = X[:rows], y[:rows], X[rows:], y[rows:]
    table = opttree.Rows((X, y), rows=65_536)
    whole = opttree.TAORegressor(depth, leaves=leaves, leaf_shrinkage=0.0, random_state=0)
    began = time.perf_counter()
    whole.fit(X, y)
    seconds = time.perf_counter() - began
    problem, scaling = whole.state(X, y)  # one statement for all
    yield {"sample": rows, "passes": None, "s": seconds} | judged(whole, problem, scaling, Z, z)
    for sample in samples:
        for count in passes:
            model = opttree.TAORegressor(depth, leaves=leaves, leaf_shrinkage=0.0, random_state=0)
            began = time.perf_counter()
            model.fit_chunks(table, sample_rows=sample, epochs=count)
            seconds = time.perf_counter() - began
            yield {"sample": sample, "passes": count, "s": seconds} | judged(model, problem, scaling, Z, z)
