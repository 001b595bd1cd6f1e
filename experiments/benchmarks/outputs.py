"""What an output more takes, as a share of a fit's processor time with one: the numbers in ``opttree.methods.costs``.

Each method is fitted to the same rows with one output, twice, of which the second time counts, and with many.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np

from experiments.benchmarks.common import Row, script
from opttree.methods.table import METHODS


def seconds(model: Any, X: np.ndarray, Y: np.ndarray) -> float:
    """Processor time of a fit."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, Y)
    return time.process_time() - began


@script
def main(
    rows: Annotated[int, "of the table"] = 1000,
    features: Annotated[int, "of the table"] = 10,
    outputs: Annotated[int, "many"] = 20,
    limit: Annotated[float, "seconds of a fit, beyond which it says nothing"] = 60.0,
    methods: Annotated[tuple[str, ...], "names of methods; all, if none"] = (),
) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, features))
    Y = np.tanh(X @ rng.normal(size=(features, outputs))) + 0.1 * rng.normal(size=(rows, outputs))
    for name in methods or sorted(METHODS):
        method = METHODS[name]
        try:
            kind = method.estimator_class("regression")
        except ValueError:  # a library that is not installed
            continue
        options = {**method.options, "random_state": 0, "n_jobs": 1, "time_limit": limit}
        model = kind(**{key: value for key, value in options.items() if key in kind().get_params()})
        if method.has_depth:
            model.set_params(max_depth=4)
        if "floor" in model.get_params():
            model.set_params(floor=False)
        try:
            one, many = (seconds(model, X, y) for y in (Y[:, 0], Y))
            one = min(one, seconds(model, X, Y[:, 0]))
        except ValueError as error:  # of one output alone
            yield {"method": name, "share": str(error)[:60]}
            continue
        share = max(many / one - 1.0, 0.0) / (outputs - 1)
        yield {"method": name, "share": share, "one": one, "many": many, "late": max(one, many) > 0.9 * limit}
