"""Seconds to import opttree and to fit a first model in a fresh process, and what the compiler does in them.

Each method of the table (`opttree.methods`) is fitted to 600 rows of a generated Friedman #1 set, with default options
but for the depth, in a process of its own: with ``--cold`` also with an empty cache, where a list says which functions
were compiled, how often, and in how many seconds of their own.

python -m experiments.benchmarks.startup [--cold] [--methods get srt] [--top 15] [--repeats 3] [--root FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

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


def run(code: list[str], environment: dict[str, str], root: Path) -> str:
    """What a fresh process prints."""
    command = [sys.executable, "-W", "ignore", "-c", *code]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, cwd=root)
    return done.stdout.splitlines()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cold", action="store_true", help="also with an empty cache")
    parser.add_argument("--methods", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--top", type=int, default=15, help="functions to list")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--time-limit", type=float, help="the fits' time limit, in seconds")
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="folder of the version to measure")
    args = parser.parse_args()
    here = {**os.environ, "PYTHONPATH": str(args.root)}
    imports = [float(run([IMPORT], here, args.root)) for _ in range(args.repeats)]
    print(f"import opttree: {statistics.median(imports):.3f} s")
    limit = {} if args.time_limit is None else {"time_limit": args.time_limit}
    with tempfile.TemporaryDirectory() as warm_cache:
        for name in args.methods:
            estimator, options = CASES[name]
            code = [FIT, estimator, json.dumps({**options, **limit})]
            line = f"{name}:"
            with tempfile.TemporaryDirectory() as cold_cache:
                environment = {**here, "NUMBA_CACHE_DIR": cold_cache if args.cold else warm_cache}
                cold = json.loads(run(code, environment, args.root))
                warm = [json.loads(run(code, environment, args.root)) for _ in range(args.repeats)]
            seconds = statistics.median(one["seconds"] for one in warm)
            if args.cold:
                line += f" cold {cold['seconds']:.1f} s (clock {cold['clock'] or 0.0:.2f} s),"
            print(f"{line} warm {seconds:.2f} s, imports included (clock {warm[-1]['clock'] or 0.0:.2f} s)", flush=True)
            if args.cold:
                functions = cold["functions"]
                count, whole = sum(f[1] for f in functions), sum(f[2] for f in functions)
                print(f"    {count} compilations of {len(functions)} functions, {whole:.1f} s")
                for function, times, spent in functions[: args.top]:
                    print(f"    {spent:6.2f} s {times:4d}  {function}")


if __name__ == "__main__":
    main()
