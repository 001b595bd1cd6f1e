"""Seconds of whole fits on one thread and on two, of one or several versions of the code, in turn; compiled code warm.

With ``--beside``, also on all threads beside another process that keeps a core busy.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from experiments.benchmarks.common import Row, fresh, script

CASES: dict[str, tuple[str, dict[str, Any]]] = {  # name: estimator and its options
    "get": ("GETRegressor", {"max_depth": 6}),
    "get-linear": ("GETRegressor", {"max_depth": 6, "leaves": "linear"}),
    "tao-c": ("TAORegressor", {"max_depth": 6}),
    "tao-l": ("TAORegressor", {"max_depth": 6, "leaves": "linear"}),
    "srt": ("SRTRegressor", {"max_depth": 3}),
    "sdtr": ("SDTRRegressor", {"n_trees": 256, "max_batches": 200}),
    "forest": ("TAOForestRegressor", {}),
}
FIT = """
import json, sys, time
import opttree
from opttree import datasets
name, options, data, n_jobs, repeats = json.loads(sys.argv[1])
X, y = datasets.load(data, as_arrays=True)
make = lambda: getattr(opttree, name)(**options, n_jobs=n_jobs, random_state=0)
make().fit(X, y)  # compiles, or loads what is compiled
seconds = []
for _ in range(repeats):
    began = time.perf_counter()
    model = make().fit(X, y)
    seconds.append(time.perf_counter() - began)
print(json.dumps([seconds, float(model.result_.objective)]))
"""


@contextmanager
def busy_process() -> Iterator[None]:
    """A process that keeps one core busy."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


@script
def main(
    data: tuple[str, ...] = ("elevators", "ailerons"),
    methods: Annotated[tuple[str, ...], CASES] = tuple(CASES),
    roots: Annotated[tuple[Path, ...], "folders of the versions"] = (Path(),),
    rounds: Annotated[int, "processes per version and number of threads, in turn"] = 2,
    repeats: Annotated[int, "fits of a process"] = 2,
    beside: bool = False,
) -> Iterator[Row]:
    for name, case in product(data, methods):
        times: dict[tuple[Path, str], list[float]] = {}
        objectives: dict[Path, set[float]] = {}

        def fit(root: Path, label: str, n_jobs: int | None) -> float:
            what = json.dumps([*CASES[case], name, n_jobs, repeats])  # noqa: B023
            seconds, objective = fresh(FIT, what, root=root.resolve())
            times.setdefault((root, label), []).extend(seconds)  # noqa: B023
            return objective

        for _, root in product(range(rounds), roots):
            objectives.setdefault(root, set()).update({fit(root, "1", 1), fit(root, "2", 2)})
            if beside:
                with busy_process():
                    fit(root, "beside", None)
        for root in roots:
            one, two = (statistics.median(times[root, label]) for label in "12")
            row = {"data": name, "method": case, "root": root.resolve().name, "1 thread s": one, "2 threads s": two}
            row["1 / 2"] = one / two
            if beside:
                row["beside s"] = statistics.median(times[root, "beside"])
                row["beside / 2"] = row["beside s"] / two
            yield row | {"objectives": ", ".join(f"{value:.9g}" for value in sorted(objectives[root]))}
