"""Write ``opttree/compilations.json``: what a first fit of each method compiles, in order, and in how many seconds.

`opttree.runtime.compiling.ahead` reads it. Each method of the table (`opttree.methods`), but for "auto", is fitted to
600 rows of a generated Friedman #1 set in a process of its own, two at a time, with an empty cache. Run it again where
kernels or their arguments have changed; ``tests/runtime/compiling/test_ahead.py`` says when.

python -m experiments.benchmarks.compilations
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from opttree.methods.table import METHODS, TASKS
from opttree.methods.warming import names
from opttree.runtime.compiling.ahead import ALONE, RECORD
from opttree.runtime.files import whole_file

FIT = """
import json, sys, time
from numba.core import event
from sklearn.datasets import make_friedman1
from opttree.runtime.compiling.ahead import encode, function_of, recorded_name
from opttree.methods.table import make_estimator

class Compilations(event.Listener):
    def __init__(self):
        self.open, self.found = [], []
    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        if (function.__module__ or "").startswith("opttree."):
            self.open.append([event.data["dispatcher"], time.perf_counter(), 0.0])
    def on_end(self, event):
        if not self.open or event.data["dispatcher"] is not self.open[-1][0]:
            return
        dispatcher, since, inside = self.open.pop()
        seconds = time.perf_counter() - since
        if self.open:
            self.open[-1][2] += seconds
        place = dispatcher.py_func.__module__, dispatcher.py_func.__name__
        if function_of(*place) is dispatcher:
            try:
                kinds = [encode(kind) for kind in event.data["args"]]
            except ValueError as error:
                print(*place, error, file=sys.stderr)
                return
            self.found.append([[*place, kinds], seconds - inside, dispatcher.overloads, event.data["args"]])

def called(library, number):
    # numbers of the recorded functions that a library calls, through functions of numba's own too
    found, pending, seen = set(), list(library._linking_libraries), set()
    while pending:
        other = pending.pop()
        if id(other) in seen:
            continue
        seen.add(id(other))
        if id(other) in number:
            found.add(number[id(other)])
        else:
            pending += other._linking_libraries
    return sorted(found)

compilations = Compilations()
event.register("numba:compile", compilations)
X, y = make_friedman1(600, random_state=0)
name, task = sys.argv[1:]
model = make_estimator(name, task, 4, seed=0, jobs=None, time_limit=20.0)
model.fit(X, y if task == "regression" else y > 14.4)
libraries = [overloads[tuple(kinds)].library for _function, _seconds, overloads, kinds in compilations.found]
number = {id(library): i for i, library in enumerate(libraries)}
print(json.dumps([recorded_name(model), [
    [function, seconds, called(library, number)]
    for (function, seconds, _overloads, _kinds), library in zip(compilations.found, libraries)
]]))
"""


def record(name: str, task: str) -> tuple[str, list[list[Any]]]:
    """The name of a method in the record, and its functions: each with seconds and the functions that it calls."""
    with tempfile.TemporaryDirectory() as empty:
        environment = {**os.environ, "NUMBA_CACHE_DIR": empty, ALONE: "1"}
        command = [sys.executable, "-W", "ignore", "-c", FIT, name, task]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    method, found = json.loads(done.stdout.splitlines()[-1])
    print(f"{method}: {len(found)} functions, {sum(one[1] for one in found):.1f} s", flush=True)
    return method, found


def main() -> None:
    cases = [
        (name, task)
        for name in names()
        for task in TASKS
        if name != "auto" and METHODS[name].estimator_class(task) is not None
    ]
    functions: dict[str, list[Any]] = {}  # by its JSON: number, and numbers of those that it calls
    methods: dict[str, list[list[Any]]] = {}
    with ThreadPoolExecutor(2) as pool:
        for method, found in pool.map(lambda case: record(*case), cases):
            numbers = [functions.setdefault(json.dumps(one[0]), [len(functions), []])[0] for one in found]
            for function, _seconds, called in found:
                functions[json.dumps(function)][1] = sorted({numbers[i] for i in called})
            methods[method] = [[number, round(one[1], 2)] for number, one in zip(numbers, found, strict=True)]
    listed = ",\n".join(f"    {function[:-1]}, {json.dumps(needed)}]" for function, (_n, needed) in functions.items())
    lines = ",\n".join(f"    {json.dumps(method)}: {json.dumps(found)}" for method, found in methods.items())
    text = f'{{\n  "functions": [\n{listed}\n  ],\n  "methods": {{\n{lines}\n  }}\n}}\n'
    with whole_file(RECORD) as path:
        path.write_text(text)


if __name__ == "__main__":
    main()
