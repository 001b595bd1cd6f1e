"""How the processor time of a fit grows with features, outputs, classes, rows and depth: the exponent of each.

Each quantity goes through its sizes while the others stay; the exponent is the slope of the logarithm of the seconds
over the last half of the sizes that ended in time. A fit's work grows with rows and features to the power of one; for
linear leaves, by Gram matrices, with features to the power of two.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Annotated

import numpy as np

from experiments.benchmarks.common import Row, script
from opttree.methods.table import METHODS

SIZES: dict[str, tuple[int, ...]] = {
    "features": (10, 30, 100, 300, 1000, 5000),
    "outputs": (1, 5, 20, 50, 100, 200),
    "classes": (2, 10, 30, 100),
    "rows": (10_000, 30_000, 100_000, 300_000, 1_000_000),
    "depth": (2, 4, 6, 8, 10, 12),
}
USUAL = {"features": 20, "outputs": 1, "classes": 0, "rows": 2000, "depth": 4}
METHODS_HERE = ("tao-c", "tao-l", "tao-axis", "get", "get-linear", "gradtree", "srt", "sdtr", "forest", "boosted")


def seconds(name: str, size: dict[str, int], limit: float) -> float:
    """Processor time of a fit; infinite where it reached the limit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(size["rows"], size["features"]))
    scores = np.tanh(X[:, :10] @ rng.normal(size=(10, max(size["outputs"], size["classes"]))))
    scores += 0.3 * rng.normal(size=scores.shape)
    y = scores.argmax(axis=1) if size["classes"] else scores if size["outputs"] > 1 else scores[:, 0]
    method = METHODS[name]
    kind = method.estimator_class("classification" if size["classes"] else "regression")
    options = {**method.options, "random_state": 0, "n_jobs": 1, "time_limit": limit}
    model = kind(**options)
    changes = {"max_depth": size["depth"], "floor": False, "leaf_shrinkage": 0.0}
    if not method.has_depth:
        changes = {"n_estimators": 5}
    model.set_params(**{key: value for key, value in changes.items() if key in model.get_params()})
    began, wall = time.process_time(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return time.process_time() - began if time.perf_counter() - wall < 0.95 * limit else float("inf")


def swept(name: str, quantity: str, limit: float) -> dict[int, float]:
    """Seconds by size, up to the first that is not in time."""
    found: dict[int, float] = {}
    seconds(name, USUAL | ({"classes": 2} if quantity == "classes" else {}), limit)  # compiles
    for size in SIZES[quantity]:
        found[size] = seconds(name, USUAL | {quantity: size}, limit)
        if not np.isfinite(found[size]):
            break
    return found


def exponent(found: dict[int, float]) -> float:
    """The slope over the last half of the sizes; NaN for fewer than two."""
    ended = [(np.log(size), np.log(value)) for size, value in found.items() if np.isfinite(value)]
    last = np.array(ended[len(ended) // 2 - 1 :] if len(ended) > 3 else ended)
    return float(np.polyfit(last[:, 0], last[:, 1], 1)[0]) if len(last) > 1 else float("nan")


@script
def main(
    methods: Annotated[tuple[str, ...], "names of methods"] = METHODS_HERE,
    quantities: Annotated[tuple[str, ...], "what grows: features, outputs, classes, rows, depth"] = tuple(SIZES),
    limit: Annotated[float, "seconds of a fit"] = 20.0,
) -> Iterator[Row]:
    for quantity in quantities:
        for name in methods:
            found = swept(name, quantity, limit)
            last = max((size for size, value in found.items() if np.isfinite(value)), default=0)
            yield {
                "quantity": quantity,
                "method": name,
                "exponent": exponent(found),
                "largest": last,
                "seconds": found.get(last, float("nan")),
            }
