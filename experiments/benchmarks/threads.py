"""Seconds of whole fits on one thread and on two, of one or several versions of the code, in turn; compiled code warm.

With ``--beside``, also on all threads beside another process that keeps a core busy.

python -m experiments.benchmarks.threads [--data elevators] [--methods get tao-c] [--roots . ../parent] [--beside]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
import json, sys, time, warnings
warnings.simplefilter("ignore")
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


def fit(root: Path, case: str, data: str, n_jobs: int | None, repeats: int) -> tuple[list[float], float]:
    """Seconds of ``repeats`` fits in a process of its own, and their objective."""
    what = json.dumps([*CASES[case], data, n_jobs, repeats])
    here = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", FIT, what], env=here, cwd=root, capture_output=True, text=True, check=True
    )
    seconds, objective = json.loads(done.stdout.splitlines()[-1])
    return seconds, objective


@contextmanager
def busy_process() -> Any:
    """A process that keeps one core busy."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["elevators", "ailerons"])
    parser.add_argument("--methods", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--roots", nargs="+", type=Path, default=[Path.cwd()], help="folders of the versions")
    parser.add_argument("--rounds", type=int, default=2, help="processes per version and number of threads, in turn")
    parser.add_argument("--repeats", type=int, default=2, help="fits of a process")
    parser.add_argument("--beside", action="store_true")
    args = parser.parse_args()
    roots = [root.resolve() for root in args.roots]
    for data in args.data:
        for case in args.methods:
            times: dict[tuple[Path, str], list[float]] = {}
            objectives: dict[Path, set[float]] = {}
            for _ in range(args.rounds):
                for root in roots:
                    for threads in (1, 2):
                        seconds, objective = fit(root, case, data, threads, args.repeats)
                        times.setdefault((root, str(threads)), []).extend(seconds)
                        objectives.setdefault(root, set()).add(objective)
                    if args.beside:
                        with busy_process():
                            times.setdefault((root, "beside"), []).extend(fit(root, case, data, None, args.repeats)[0])
            for root in roots:
                one, two = (statistics.median(times[root, threads]) for threads in "12")
                line = f"{data} {case} {root.name}: 1 thread {one:.2f} s, 2 threads {two:.2f} s, {one / two:.2f}x"
                if args.beside:
                    beside = statistics.median(times[root, "beside"])
                    line += f"; beside a busy process {beside:.2f} s, {beside / two:.2f}x"
                same = "one tree" if len(objectives[root]) == 1 else f"objectives {sorted(objectives[root])}"
                print(f"{line}; {same}", flush=True)


if __name__ == "__main__":
    main()
