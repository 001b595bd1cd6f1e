"""Processor seconds and test scores of everyday fits on one thread: of versions of the code in turn, and of rivals.

A third of the rows is held out. Every version fits in a process of its own, after a fit to 400 rows which compiles what
it needs; the versions take turns, and the medians of the repeats are given. Scores are R2 or accuracy. Rivals that are
not installed are left out.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from experiments.benchmarks.common import Row, fresh, script

OURS: dict[str, tuple[str, dict[str, Any]]] = {  # name: estimator and its options
    "tao-c": ("TAO", {"max_depth": 6}),
    "tao-l": ("TAO", {"max_depth": 6, "leaves": "linear"}),
    "tao-axis": ("TAO", {"max_depth": 6, "splits": "axis"}),
    "tao-c auto": ("TAO", {}),
    "tao-axis auto": ("TAO", {"splits": "axis"}),
    "get d4": ("GET", {"max_depth": 4}),
    "get d8": ("GET", {"max_depth": 8}),
    "get-linear": ("GET", {"max_depth": 6, "leaves": "linear"}),
    "srt": ("SRT", {"max_depth": 3}),
    "sdtr": ("SDTR", {"max_depth": 4}),
    "gradtree": ("GradTree", {"max_depth": 8}),
    "ort": ("ORT", {"max_depth": 3, "time_limit": 60}),
    "forest": ("TAOForest", {}),
    "boosted": ("BoostedTrees", {}),
    "auto": ("AutoTree", {}),
}
RIVALS: dict[str, tuple[str, dict[str, Any]]] = {
    "rf 100": ("sklearn.ensemble.RandomForest", {"n_jobs": 1}),
    "histgb": ("sklearn.ensemble.HistGradientBoosting", {}),
    "lightgbm 100": ("lightgbm.LGBM", {"n_jobs": 1, "verbose": -1}),
    "xgboost 100": ("xgboost.XGB", {"n_jobs": 1}),
    "catboost 500": (
        "catboost.CatBoost",
        {"iterations": 500, "thread_count": 1, "verbose": 0, "allow_writing_files": False},
    ),
}
FIT = """
import importlib, json, sys, time, warnings
warnings.simplefilter("ignore")
import numba, numpy as np
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits
from opttree import datasets
package, kind, options, data, repeats, rows = json.loads(sys.argv[1])
numba.set_num_threads(1)
X, y = datasets.load(data, as_arrays=True)
classes = datasets.load(data).task != "regression"
kind += "Classifier" if classes else "Regressor"
if kind.startswith("ORTC"): kind = "OCTClassifier"
X, Z, y, z = train_test_split(X, y, test_size=1 / 3, random_state=0, stratify=y if classes else None)
X, y = X[:rows], y[:rows]
make = getattr(importlib.import_module(package), kind)
if package == "opttree": options["n_jobs"] = 1
options["random_seed" if package == "catboost" else "random_state"] = 0
seconds = []
with threadpool_limits(1):
    make(**options).fit(X[:400], y[:400])
    for _ in range(repeats):
        began = time.process_time()
        model = make(**options).fit(X, y)
        seconds.append(time.process_time() - began)
    print(json.dumps([seconds, float(model.score(Z, z))]))
"""


@script
def main(
    models: Annotated[tuple[str, ...], [*OURS, *RIVALS]] = (*OURS, *RIVALS),
    data: tuple[str, ...] = ("abalone", "cpu_act", "elevators", "adult"),
    versions: tuple[Path, ...] = (Path(),),
    repeats: int = 1,
    turns: int = 1,
    rows: Annotated[int | None, "of the training rows, at most"] = None,
) -> Iterator[Row]:
    for set_, name in product(data, models):
        ours = name in OURS
        if ours:
            (kind, options), package = OURS[name], "opttree"
        else:
            (path, options) = RIVALS[name]
            package, kind = path.rsplit(".", 1)
            if find_spec(package.partition(".")[0]) is None:
                continue
        taken: dict[Path, list[float]] = {}
        scores: dict[Path, float] = {}
        for _turn, version in product(range(turns), versions if ours else versions[:1]):
            words = json.dumps([package, kind, options, set_, repeats, rows])
            seconds, scores[version] = fresh(FIT, words, root=version.resolve(), NUMBA_NUM_THREADS="1")
            taken.setdefault(version, []).extend(seconds)
        row: Row = {"data": set_, "model": name}
        for number, version in enumerate(taken):
            row |= {f"s {number}": statistics.median(taken[version]), f"score {number}": scores[version]}
        if len(versions) > 1:
            medians = [statistics.median(taken[version]) for version in taken]
            row |= {f"score {k}": scores.get(version) for k, version in enumerate(versions)}
            row["first / last"] = medians[0] / medians[-1] if ours else None
        yield row
