"""What leaves the toolkit: largest differences from `predict` on 10,000 rows, and rows a second of ONNX Runtime and C.

    python -m experiments.benchmarks.exports

Models are those of `tests/export_models.py`, fitted to 600 rows. Throughput is the median of seven runs over 10,000
rows on one thread, warm; C by `cc -O2`, called once for all rows; ours by `predict` of the model on its features.
"""

from __future__ import annotations

import argparse
import ctypes
import sqlite3
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.benchmarks.throughput import median_seconds
from opttree import export, to_onnx
from opttree.model.files import as_saved
from opttree.runtime import threads
from tests.contracts.test_export import feeds
from tests.export_models import MODELS, answers, fitted

REPEATS = 7


def row_of(name: str) -> dict[str, Any]:
    import duckdb
    import onnxruntime

    expected, labels, X = answers(name)
    model = fitted(name)[0]
    saved = as_saved(model)
    Z, n = saved.table(X), len(X)
    row: dict[str, Any] = {"model": name}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    for dtype, real in (("float64", np.float64), ("float32", np.float32)):
        proto = to_onnx(model, dtype=dtype).SerializeToString()
        session = onnxruntime.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
        given = feeds(model, X, real)
        found = session.run(None, given)[-1]
        row[f"ONNX {dtype}"] = difference(found, expected)
        if dtype == "float64":
            row["ONNX rows/s"] = n / median_seconds(lambda s=session, g=given: s.run(None, g), REPEATS)
    with tempfile.TemporaryDirectory() as folder:
        export.to_c(model, folder)
        subprocess.run(["make", "-C", folder], check=True, capture_output=True)
        library = ctypes.CDLL(str(Path(folder) / "libmodel.so"))
        out = np.empty(expected.shape)
        places = Z.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(n), out.ctypes.data_as(ctypes.c_void_p)
        library.model_predict_rows(*places)
        row["C float64"] = difference(out, expected)
        row["C rows/s"] = n / median_seconds(lambda: library.model_predict_rows(*places), REPEATS)
    for database, run in (("SQLite", in_sqlite), ("DuckDB", lambda f, q: in_duckdb(duckdb, f, q))):
        frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(X, columns=list(saved.feature_names))
        frame = frame.assign(key=np.arange(n))
        if "since" in frame:
            frame["since"] = (frame["since"] - pd.Timestamp(0)).dt.total_seconds() / 86_400.0
        table = run(frame, export.to_sql(model, "rows", keep=["key"])).sort_values("key").drop(columns="key")
        row[database] = difference(
            table.drop(columns="prediction", errors="ignore") if labels is not None else table, expected
        )
    answer = saved.tree.predict if saved.tree.classes is None else saved.tree.predict_proba
    with threads.limited(1):
        row["ours rows/s"] = n / median_seconds(lambda: answer(Z), REPEATS)
    return row


def in_sqlite(frame: pd.DataFrame, query: str) -> pd.DataFrame:
    with closing(sqlite3.connect(":memory:")) as database:
        frame.to_sql("rows", database, index=False)
        return pd.read_sql_query(query, database)


def in_duckdb(duckdb: Any, frame: pd.DataFrame, query: str) -> pd.DataFrame:
    with duckdb.connect() as database:
        database.register("rows", frame)
        return database.execute(query).df()


def difference(found: Any, expected: np.ndarray) -> float:
    return float(np.abs(np.asarray(found, float).reshape(expected.shape) - expected).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    args = parser.parse_args()
    frame = pd.DataFrame([row_of(name) for name in args.models]).set_index("model")
    exact = [c for c in frame if not c.endswith("/s")]
    speed = [c for c in frame if c.endswith("/s")]
    print("Largest difference from `predict` on 10,000 rows.\n")
    print(frame[exact].map(lambda v: f"{v:.1e}").to_markdown())
    print("\nRows a second, one thread.\n")
    print(frame[speed].map(lambda v: f"{v:,.0f}").to_markdown())


if __name__ == "__main__":
    main()
