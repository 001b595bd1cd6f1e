"""Ten million generated rows of 30 features in Parquet files: trees, forests and boosting by `opttree.Rows`, GET by
chunks, and LightGBM in memory and on a Dask cluster of this machine; a certificate of an axis-aligned tree of depth 3.

Each method runs in a process of its own. Printed: seconds, peak resident memory of the process and of its largest
child, test R2, rounds and megabytes that have travelled, and the certificate's gap. Rows are stored beside the files,
for the time of a fit.
"""

from __future__ import annotations

import json
import resource
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from experiments.benchmarks.common import Row, fresh, script
from experiments.benchmarks.out_of_core import FEATURES, generate

PER_FILE = 500_000
OURS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {  # estimator, its options, those of fit_chunks
    "tao-l": ("TAORegressor", {"max_depth": 6, "leaves": "linear"}, {"epochs": 1}),
    "forest": ("TAOForestRegressor", {"n_estimators": 10, "kind": "oblique", "max_depth": 6}, {"epochs": 1}),
    "boosted": ("BoostedTreesRegressor", {"n_estimators": 30, "base": "cart"}, {}),
    "boosted oblique": ("BoostedTreesRegressor", {"n_estimators": 30, "base": "oblique"}, {}),
    "get": ("GETRegressor", {"max_depth": 6}, {"epochs": 3}),
}
CERTIFICATE = "certificate"  # of a tree fitted to a sample, see `certified`
RIVALS = ("lightgbm", "lightgbm dask")


def write(folder: Path, rows: int) -> None:
    """Files of half a million rows, two row groups each; there already, they stay."""
    import pyarrow
    import pyarrow.parquet

    folder.mkdir(parents=True, exist_ok=True)
    schema = pyarrow.schema([(name, pyarrow.float64()) for name in (*(f"x{j}" for j in range(FEATURES)), "y")])
    for number, first in enumerate(range(0, rows, PER_FILE)):
        path = folder / f"part{number:05d}.parquet"
        if path.exists():
            continue
        with pyarrow.parquet.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
            for half in range(2):
                X, y = generate(min(PER_FILE, rows - first) // 2, 2 * number + half)
                writer.write_table(pyarrow.table([*X.T.copy(), y], schema=schema))


FIT = """
import json, resource, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from experiments.benchmarks import tall
if __name__ == "__main__":
    print(json.dumps(tall.one(*json.loads(sys.argv[1]))))
"""


def one(method: str, folder: str, rows: int, workers: int, limit: float) -> Row:
    """Fit and judge a method in this process."""
    import time

    test_X, test_y = generate(100_000, 10**6)
    began, row = time.perf_counter(), dict[str, Any]()
    if method == CERTIFICATE:
        model, row = certified(folder, rows, limit)
    elif method in OURS:
        import opttree

        kind, options, how = OURS[method]
        with tempfile.TemporaryDirectory(dir=folder) as store:
            table = opttree.Rows(str(Path(folder) / "*.parquet"), "y", rows=rows, store=store)
            model = getattr(opttree, kind)(**options, random_state=0).fit_chunks(table, **how)
        row = {
            "rounds": table.traffic.rounds,
            "MB sent": table.traffic.sent >> 20,
            "MB back": table.traffic.received >> 20,
        }
    else:
        import lightgbm
        import pandas as pd

        if method == "lightgbm":
            frame = pd.read_parquet(folder)
            model = lightgbm.LGBMRegressor(n_estimators=30, verbose=-1).fit(
                frame.drop(columns="y").to_numpy(), frame["y"]
            )
        else:
            import dask.dataframe as dd
            from distributed import Client, LocalCluster

            with (
                LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
                Client(cluster) as client,
            ):
                data = client.persist(dd.read_parquet(folder))
                X, y = data.drop(columns="y").to_dask_array(lengths=True), data["y"].to_dask_array(lengths=True)
                model = lightgbm.DaskLGBMRegressor(client=client, n_estimators=30, verbose=-1).fit(X, y).to_local()
    row["seconds"] = time.perf_counter() - began
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    row |= {"MB": usage[0] >> 10, "MB of a child": usage[1] >> 10}
    error = test_y - np.asarray(model.predict(test_X)).ravel()
    return row | {"R2": 1.0 - float(np.mean(error**2) / np.var(test_y))}


def certified(folder: str, rows: int, limit: float) -> tuple[Any, Row]:
    """A tree of depth 3 of a sample's 50,000 rows, and how far it is from the best of all rows, by parts."""
    import opttree
    from solvers import certify

    table = opttree.Rows(str(Path(folder) / "*.parquet"), "y", rows=rows)
    some = table.sample(50_000, np.random.default_rng(0))
    model = opttree.TAORegressor(3, splits="axis", leaf_shrinkage=0.0, random_state=0).fit(some.X, some.y)
    problem = opttree.TreeProblem(some.X.to_numpy()[:1000], some.y[:1000], depth=3, splits="axis")
    verdict = certify(problem, model, chunks=table, time_limit=limit)
    return model, {"gap": verdict.gap, "rounds": table.traffic.rounds, "message": verdict.message}


@script
def main(
    folder: Path,
    methods: Annotated[tuple[str, ...], [*OURS, CERTIFICATE, *RIVALS]] = (*OURS, *RIVALS),
    rows: int = 10_000_000,
    part: Annotated[int, "rows of a part, at most"] = 65_536,
    workers: int = 2,
    limit: Annotated[float, "seconds of the certificate"] = 300.0,
) -> Iterator[Row]:
    write(folder, rows)
    for method in methods:
        if method in RIVALS and find_spec("lightgbm") is None:
            continue
        yield {"method": method, **fresh(FIT, json.dumps([method, str(folder), part, workers, limit]))}
