"""What leaves the toolkit: largest differences from `predict` on 10,000 rows, and rows a second of ONNX Runtime and C.

Models are those of `tests/export_models.py`, fitted to 600 rows. Throughput is the median of seven runs over 10,000
rows on one thread, warm; C by `cc -O2`, called once for all rows; ours by `predict` of the model on its features.
"""

from __future__ import annotations

import ctypes
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

from experiments.benchmarks.common import Row, median_seconds, script
from opttree import export, to_onnx
from opttree.model.files import as_saved
from opttree.runtime import threads
from tests.contracts.test_export import feeds
from tests.export_models import MODELS, answers, fitted

REPEATS = 7


def of_onnx(model: Any, X: Any, real: type) -> tuple[np.ndarray, float]:
    """Answers, and seconds."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    program = to_onnx(model, dtype=np.dtype(real).name).SerializeToString()
    session = onnxruntime.InferenceSession(program, options, providers=["CPUExecutionProvider"])
    given = feeds(model, X, real)
    return session.run(None, given)[-1], median_seconds(lambda: session.run(None, given), REPEATS)


def of_c(model: Any, Z: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, float]:
    """Answers, and seconds."""
    with tempfile.TemporaryDirectory() as folder:
        export.to_c(model, folder)
        subprocess.run(["make", "-C", folder], check=True, capture_output=True)
        library = ctypes.CDLL(str(Path(folder) / "libmodel.so"))
    out = np.empty(shape)
    places = Z.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(len(Z)), out.ctypes.data_as(ctypes.c_void_p)
    return out, median_seconds(lambda: library.model_predict_rows(*places), REPEATS)


def in_sqlite(frame: pd.DataFrame, query: str) -> pd.DataFrame:
    with closing(sqlite3.connect(":memory:")) as database:
        frame.to_sql("rows", database, index=False)
        return pd.read_sql_query(query, database)


def in_duckdb(frame: pd.DataFrame, query: str) -> pd.DataFrame:
    import duckdb

    with duckdb.connect() as database:
        database.register("rows", frame)
        return database.execute(query).df()


@script
def main(models: Annotated[tuple[str, ...], MODELS] = tuple(MODELS)) -> Iterator[Row]:
    for name in models:
        expected, labels, X = answers(name)
        model = fitted(name)[0]
        saved = as_saved(model)
        Z, n = saved.table(X), len(X)

        def off(found: Any, expected: np.ndarray = expected) -> float:
            return float(np.abs(np.asarray(found, float).reshape(expected.shape) - expected).max())

        (onnx, onnx_seconds), (single, _seconds) = (of_onnx(model, X, real) for real in (np.float64, np.float32))
        c, c_seconds = of_c(model, Z, expected.shape)
        row: Row = {"model": name, "ONNX float64": off(onnx), "ONNX float32": off(single), "C float64": off(c)}
        frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X, columns=list(saved.feature_names))
        frame = frame.assign(key=np.arange(n))
        if "since" in frame:
            frame["since"] = (frame["since"] - pd.Timestamp(0)).dt.total_seconds() / 86_400.0
        for database, ask in (("SQLite", in_sqlite), ("DuckDB", in_duckdb)):
            table = ask(frame, export.to_sql(model, "rows", keep=["key"])).sort_values("key").drop(columns="key")
            row[database] = off(table.drop(columns="prediction", errors="ignore") if labels is not None else table)
        answer = saved.tree.predict if saved.tree.classes is None else saved.tree.predict_proba
        with threads.limited(1):
            ours = median_seconds(lambda answer=answer, Z=Z: answer(Z), REPEATS)
        yield row | {"ONNX rows/s": n / onnx_seconds, "C rows/s": n / c_seconds, "ours rows/s": n / ours}
