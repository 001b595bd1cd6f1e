"""Microseconds of a prediction: every estimator, fitted to 3,000 rows of elevators, beside ONNX Runtime and LightGBM.

One row as an array, and as a DataFrame of a model that was fitted to one, and a thousand and 200,000 rows (ms), by one
thread; medians of repeated calls. "One row, compiled" is `opttree.compile`, "ONNX" the exported model in ONNX Runtime,
of one row and of a thousand (ms).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from typing import Annotated, Any

import numba
import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import opttree
from experiments.benchmarks.common import Row, load, median_seconds, script, standard
from experiments.benchmarks.startup import CASES

ROWS = 3000
MANY = 200_000
DEPTHS = {"oct": 3, "ort": 3, "ort-l": 3}


def fitted(name: str, X: Any, y: np.ndarray) -> Any:
    """A model of `startup`'s table, or a rival."""
    if name == "lightgbm":
        from lightgbm import LGBMRegressor

        return LGBMRegressor(n_jobs=1, verbose=-1).fit(X, y)
    if name == "rf":
        from sklearn.ensemble import RandomForestRegressor

        return RandomForestRegressor(100, n_jobs=1, random_state=0).fit(X, y)
    kind, options = CASES[name]
    given = {"max_depth": DEPTHS[name], "time_limit": 20.0} if name in DEPTHS else {}
    return getattr(opttree, kind)(**options, **given, random_state=0).fit(X, y)


def in_onnx(model: Any, X: np.ndarray) -> tuple[float, float]:
    """Seconds of one row and of a thousand in ONNX Runtime, one thread; NaN where the model has no such export."""
    import onnxruntime

    try:
        exported = opttree.export.to_onnx(model)
    except (TypeError, ValueError):
        return float("nan"), float("nan")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(exported.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]

    def fed(rows: np.ndarray) -> dict[str, np.ndarray]:
        """All columns as one input, or each column that the model reads as one."""
        return {names[0]: rows} if len(names) == 1 else {name: rows[:, [int(name[1:])]] for name in names}

    one, more = fed(X[:1]), fed(X[:1000])
    return median_seconds(lambda: session.run(None, one), 50), median_seconds(lambda: session.run(None, more), 9)


def timed(model: Any, of_frame: Any, X: np.ndarray, many: np.ndarray, *, ours: bool) -> Row:
    """The times of a model, fitted to an array and to a DataFrame."""
    one, frame = X[:1].copy(), pd.DataFrame(X[:1]).add_prefix("x")
    compiled = onnx_one = onnx_more = float("nan")
    if ours:
        with suppress(ValueError):  # of trees of quantiles
            quick, x = opttree.compile(model), X[0].copy()
            compiled = median_seconds(lambda: quick.predict_one(x), 200)
        onnx_one, onnx_more = in_onnx(model, X)
    return {
        "array, us": 1e6 * median_seconds(lambda: model.predict(one), 50),
        "frame, us": 1e6 * median_seconds(lambda: of_frame.predict(frame), 50),
        "compiled, us": 1e6 * compiled,
        "1,000, ms": 1e3 * median_seconds(lambda: model.predict(X[:1000]), 9),
        "200,000, ms": 1e3 * median_seconds(lambda: model.predict(many), 3),
        "ONNX one, us": 1e6 * onnx_one,
        "ONNX 1,000, ms": 1e3 * onnx_more,
    }


@script
def main(
    methods: Annotated[tuple[str, ...], [*CASES, "rf", "lightgbm"]] = (*CASES, "rf", "lightgbm"),
    data: str = "elevators",
) -> Iterator[Row]:
    numba.set_num_threads(1)
    X, y = load(data, ROWS)
    y, many = standard(y), np.resize(X, (MANY, X.shape[1]))
    with threadpool_limits(1):
        for name in methods:
            if name == "lightgbm" and find_spec(name) is None:
                continue
            classes = name in CASES and CASES[name][0].endswith("Classifier")
            target = y > 0.0 if classes else y
            model, of_frame = fitted(name, X, target), fitted(name, pd.DataFrame(X).add_prefix("x"), target)
            yield {"model": name, **timed(model, of_frame, X, many, ours=name in CASES)}
