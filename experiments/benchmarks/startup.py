"""Seconds to import opttree and to fit a first model in a fresh process, and what the compiler does in them.

Each method of the table (`opttree.methods`) is fitted to 600 rows of a generated Friedman #1 set, with default options
but for the depth, in a process of its own: with ``--cold`` also with an empty cache, where a list says which functions
were compiled, how often, and in how many seconds of their own.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from experiments.benchmarks.common import Row, fresh, script

IMPORT = "import time; t = time.perf_counter(); import opttree; print(time.perf_counter() - t)"
FIT = """
import json, sys, time
began = time.perf_counter()
import warnings
from collections import Counter
import opttree
from sklearn.datasets import make_friedman1
from numba.core import event

class Functions(event.Listener):
    def __init__(self):
        self.open, self.seconds, self.times = [], Counter(), Counter()
    def on_start(self, event):
        self.open.append([event.data["dispatcher"], time.perf_counter(), 0.0])
    def on_end(self, event):
        dispatcher, since, inside = self.open.pop()
        whole = time.perf_counter() - since
        if self.open:
            self.open[-1][2] += whole
        name = dispatcher.py_func.__module__.removeprefix("opttree.") + "." + dispatcher.py_func.__name__
        self.seconds[name] += whole - inside
        self.times[name] += 1

functions = Functions()
event.register("numba:compile", functions)
X, y = make_friedman1(600, random_state=0)
y = y > 14.4 if sys.argv[1].endswith("Classifier") else y
model = getattr(opttree, sys.argv[1])(**json.loads(sys.argv[2]), random_state=0)
model.fit(X, y)
total = time.perf_counter() - began
print(json.dumps({
    "seconds": total,
    "clock": getattr(getattr(model, "result_", None), "seconds", None),
    "functions": [[name, functions.times[name], seconds] for name, seconds in functions.seconds.most_common()],
}))
"""
CASES: dict[str, tuple[str, dict[str, Any]]] = {  # name: estimator and its options
    "tao-c": ("TAORegressor", {}),
    "tao-l": ("TAORegressor", {"leaves": "linear"}),
    "tao-axis": ("TAORegressor", {"splits": "axis"}),
    "tao-classifier": ("TAOClassifier", {}),
    "tao-forest": ("TAOForestRegressor", {}),
    "boosting": ("BoostedTreesRegressor", {}),
    "get": ("GETRegressor", {}),
    "get-linear": ("GETRegressor", {"leaves": "linear"}),
    "get-classifier": ("GETClassifier", {}),
    "gradtree": ("GradTreeRegressor", {}),
    "srt": ("SRTRegressor", {}),
    "orrt": ("ORRTRegressor", {}),
    "sdtr": ("SDTRRegressor", {}),
    "ort": ("ORTRegressor", {}),
    "ort-l": ("ORTRegressor", {"leaves": "linear"}),
    "oct": ("OCTClassifier", {}),
}


@script
def main(
    cold: Annotated[bool, "also with an empty cache"] = False,
    methods: Annotated[tuple[str, ...], CASES] = tuple(CASES),
    top: Annotated[int, "functions to list"] = 15,
    repeats: int = 3,
    time_limit: Annotated[float | None, "the fits' time limit, in seconds"] = None,
    root: Annotated[Path, "folder of the version to measure"] = Path(),
) -> Iterator[Row | str]:
    root = root.resolve()
    imports = [fresh(IMPORT, root=root) for _ in range(repeats)]
    yield f"import opttree: {statistics.median(imports):.3f} s"
    limit = {} if time_limit is None else {"time_limit": time_limit}
    with tempfile.TemporaryDirectory() as warm_cache:
        for name in methods:
            estimator, options = CASES[name]
            words = estimator, json.dumps({**options, **limit})
            with tempfile.TemporaryDirectory() as cold_cache:
                cache = cold_cache if cold else warm_cache
                first, *warm = (fresh(FIT, *words, root=root, NUMBA_CACHE_DIR=cache) for _ in range(1 + repeats))
            row = {"method": name, "warm s": statistics.median(one["seconds"] for one in warm)}
            row["warm, clock s"] = warm[-1]["clock"] or 0.0
            if not cold:
                yield row
                continue
            functions = first["functions"]
            row |= {"cold s": first["seconds"], "cold, clock s": first["clock"] or 0.0, "functions": len(functions)}
            row |= {"compilations": sum(f[1] for f in functions), "compiling s": sum(f[2] for f in functions)}
            yield row
            yield from (f"    {spent:6.2f} s {times:4d}  {function}" for function, times, spent in functions[:top])
