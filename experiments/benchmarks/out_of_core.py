"""GET and SDTR on 5 million generated rows of 30 features in a Parquet file, with a limit on memory.

The file is written once, chunk by chunk. Each method runs in a process of its own whose data segment is limited; test
rows are generated apart. Printed: seconds, peak resident memory, test R2; beside it the R2 of the same method on the
sample alone.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np

from experiments.benchmarks.common import Row, peak, script, timed

FEATURES = 30
CHUNK = 100_000


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

    names = [f"x{j}" for j in range(FEATURES)]
    schema = pyarrow.schema([(name, pyarrow.float64()) for name in (*names, "y")])
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for k, first in enumerate(range(0, rows, CHUNK)):
            X, y = generate(min(CHUNK, rows - first), k)
            writer.write_table(pyarrow.table([*X.T.copy(), y], schema=schema))


def fitted(path: Path, method: str, memory: int) -> Iterator[Row]:
    """One method, in this process; without ``memory``, only the compilation of what it needs."""
    from opttree import GETRegressor, SDTRRegressor, chunks

    test_X, test_y = generate(100_000, 10**6)
    get = method == "get"
    model = GETRegressor(5, leaves="linear") if get else SDTRRegressor(5, path_penalty=0.0)
    model.set_params(random_state=0)
    if not memory:
        model.fit_chunks(generate(120_000, 0)).predict(test_X)
        return
    resource.setrlimit(resource.RLIMIT_DATA, (memory * 2**20, memory * 2**20))
    fit, _model = timed(lambda: model.fit_chunks(path, target="y"))
    predict, n = timed(lambda: sum(len(part) for part in chunks.predict_chunks(model, path, target="y")))
    row = {"method": method, "rows": n, "fit s": fit, "predict s": predict, "peak MB": peak(), "limit MB": memory}
    X, y, _n = chunks.Chunks(path, "y").sample(50_000, np.random.default_rng(0))
    alone = type(model)(**model.get_params()).set_params(**({} if get else {"max_batches": 2000})).fit(X, y)
    yield row | {"test R2": model.score(test_X, test_y), "of the sample alone": alone.score(test_X, test_y)}


@script
def main(
    rows: int = 5_000_000,
    memory: Annotated[int, "MB of data that a process may hold"] = 1000,
    file: Path = Path("rows.parquet"),
    method: Annotated[str | None, ("get", "sdtr")] = None,
) -> Iterator[Row | str]:
    if method:
        yield from fitted(file, method, memory)
        return
    if not file.exists():
        write(file, rows)
    whole = 8 * (FEATURES + 1) * rows / 2**20
    yield f"{file}: {os.path.getsize(file) / 2**20:.0f} MB, {whole:.0f} MB in memory"
    for method in ("get", "sdtr"):
        for most in (0, memory):  # compilers need more: that is done before, in a process of its own
            options = ["--method", method, "--file", str(file), "--memory", str(most)]
            subprocess.run([sys.executable, "-m", "experiments.benchmarks.out_of_core", *options], check=False)
