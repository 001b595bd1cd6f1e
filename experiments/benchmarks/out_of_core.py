"""GET and SDTR on 5 million generated rows of 30 features in a Parquet file, with a limit on memory.

The file is written once, chunk by chunk. Each method runs in a process of its own whose data segment is limited; test
rows are generated apart. Printed: seconds, peak resident memory, test R2; beside it the R2 of the same method on the
sample alone.

python -m experiments.benchmarks.out_of_core [--rows 5000000] [--memory 1000] [--file rows.parquet] [--method get|sdtr]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

FEATURES = 30


def generate(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a piecewise linear function with noise of a tenth of its variance."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, FEATURES))
    bend = np.where(X[:, 0] + X[:, 1] > 0.0, 2.0 * X[:, 2] - X[:, 3], X[:, 4] + X[:, 5])
    bend += np.where(X[:, 6] - X[:, 7] > 0.5, 2.0, -1.0) + 0.3 * X[:, 8:12].sum(axis=1)
    return X, bend + 0.6 * rng.normal(size=count)


def write(path: Path, rows: int) -> None:
    import pyarrow
    import pyarrow.parquet

    writer = None
    for k in range(-(-rows // 100_000)):
        X, y = generate(min(100_000, rows - 100_000 * k), k)
        columns = {**{f"x{j}": X[:, j] for j in range(FEATURES)}, "y": y}
        table = pyarrow.table(columns)
        writer = writer or pyarrow.parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def run(path: Path, method: str, memory: int | None) -> None:
    """One method, in this process; without ``memory``, only the compilation of what it needs."""
    from opttree import GETRegressor, SDTRRegressor, chunks

    models = {
        "get": GETRegressor(5, leaves="linear", random_state=0),
        "sdtr": SDTRRegressor(5, path_penalty=0.0, random_state=0),
    }
    test_X, test_y = generate(100_000, 10**6)
    model = models[method]
    if memory is None:
        model.fit_chunks(generate(120_000, 0)).predict(test_X)
        return
    resource.setrlimit(resource.RLIMIT_DATA, (memory * 2**20, memory * 2**20))
    began = time.perf_counter()
    model.fit_chunks(path, target="y")
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    n = sum(len(part) for part in chunks.predict_chunks(model, path, target="y"))
    predicting = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    score = model.score(test_X, test_y)
    X, y, _n = chunks.Chunks(path, "y").sample(50_000, np.random.default_rng(0))
    alone = type(model)(**model.get_params()).set_params(**({"max_batches": 2000} if method == "sdtr" else {}))
    on_sample = alone.fit(X, y).score(test_X, test_y)
    print(
        f"{method}: {n} rows, fit {seconds:.0f} s, predict {predicting:.0f} s, peak memory {peak:.0f} MB under a limit "
        f"of {memory} MB; test R2 {score:.4f}, of the sample alone {on_sample:.4f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--memory", type=int, default=1000, help="MB of data that a process may hold")
    parser.add_argument("--file", type=Path, default=Path("rows.parquet"))
    parser.add_argument("--method", choices=("get", "sdtr"))
    args = parser.parse_args()
    if args.method:
        run(args.file, args.method, args.memory or None)
        return
    if not args.file.exists():
        write(args.file, args.rows)
    whole = 8 * (FEATURES + 1) * args.rows / 2**20
    print(f"{args.file}: {os.path.getsize(args.file) / 2**20:.0f} MB, {whole:.0f} MB in memory")
    for method in ("get", "sdtr"):
        for memory in (0, args.memory):  # compilers need more: that is done before, in a process of its own
            options = ["--method", method, "--file", str(args.file), "--memory", str(memory)]
            subprocess.run([sys.executable, "-m", "experiments.benchmarks.out_of_core", *options], check=False)


if __name__ == "__main__":
    main()
