"""The process that helps a first fit to compile, and the record that it reads."""

import io
import json
import multiprocessing
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import numba
import numpy as np
import pytest

from opttree.methods.table import METHODS, TASKS, make_estimator
from opttree.methods.warming import names
from opttree.runtime.compiling import ahead
from opttree.runtime.threads import most

FUNCTIONS = ahead.recorded()["functions"]


def test_the_record_is_of_functions_that_there_are():
    assert len(FUNCTIONS) > 100
    for module, name, kinds, called in FUNCTIONS:
        function = ahead.function_of(module, name)
        assert function is not None, f"{module}.{name} is gone: run experiments.benchmarks.compilations"
        assert function.py_func.__code__.co_argcount == len(kinds), f"the arguments of {module}.{name} have changed"
        for kind in kinds:
            assert ahead.encode(ahead.decode(kind)) == kind
        assert set(called) <= set(range(len(FUNCTIONS)))


def test_every_method_is_in_the_record():
    for name in names():
        for task in TASKS:
            if name != "auto" and METHODS[name].estimator_class(task) is not None:
                method = ahead.recorded_name(make_estimator(name, task, 3, seed=0))
                numbers = [number for number, _seconds in ahead.recorded()["methods"][method]]
                assert set(numbers) <= set(range(len(FUNCTIONS)))
                assert sorted(drained(ahead.Queue([method]))) == sorted(set(numbers))


def drained(queue):
    """What one process compiles, in order; callees come before their callers."""
    done = []
    while (number := queue.take()) is not None:
        assert not set(FUNCTIONS[number][3]) & set(queue._waiting), "a function before one that it calls"
        done.append(number)
        queue.done(number)
    return done


def test_the_longest_way_to_the_end_comes_first(monkeypatch):
    functions = [["", "a", [], []], ["", "b", [], []], ["", "c", [], [0]], ["", "c", [], [1]]]
    seconds = [[0, 1.0], [1, 2.0], [2, 5.0], [3, 1.0]]
    monkeypatch.setattr(ahead, "recorded", lambda: {"functions": functions, "methods": {"some": seconds}})
    queue = ahead.Queue(["some"])
    assert [queue.take(), queue.take()] == [0, 1]  # 0 is short, but 2 waits for it
    queue.done(1)
    assert queue.take() == 3
    queue.done(0)
    queue.done(3)  # 2 is another version of the same function, and waits for it
    assert queue.take() == 2
    assert queue.take() is None


def test_types_that_have_no_code_are_named():
    array = numba.typeof(np.zeros((2, 3), np.float32)[:, :2])
    assert ahead.decode(ahead.encode(array)) == array
    assert ahead.decode(ahead.encode(numba.types.Omitted(-1))) == numba.types.Omitted(-1)
    with pytest.raises(ValueError, match="kind must be an array, a tuple, a number or left out; got ListType"):
        ahead.encode(numba.types.ListType(numba.float64))


REASONS = ["told", "one core", "worker", "embedded", "frozen", "another program", "unknown", "own cache"]
METHOD = "TAORegressor axis constant"


@pytest.fixture
def started(monkeypatch):
    """Commands of the processes that would have been started."""
    commands = []

    def start(command, **options):
        assert options["env"][ahead.ALONE]
        commands.append(command[-2:-1])
        asked, answers = io.StringIO(), io.StringIO("up\n" + "done\n" * 100)
        return SimpleNamespace(stdin=asked, stdout=answers, wait=lambda: 0, kill=lambda: None)

    monkeypatch.setattr(ahead.subprocess, "Popen", start)
    monkeypatch.setattr(ahead, "_compiled", set())
    monkeypatch.setattr(ahead, "most", lambda: 2)
    monkeypatch.setattr(ahead, "finds_no_folder", lambda: False)  # of tests before
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: None)
    monkeypatch.delenv(ahead.ALONE, raising=False)
    return commands


def compile_something(method, module=None, another=False):
    number, _seconds = ahead.recorded()["methods"].get(method, ahead.recorded()["methods"][METHOD])[0]
    place, name, kinds, _called = FUNCTIONS[number]
    function = SimpleNamespace(py_func=SimpleNamespace(__module__=module or place, __name__=name))
    kinds = tuple(ahead.decode(kind) for kind in kinds[another:])
    ahead._Caller(method).on_start(SimpleNamespace(data={"dispatcher": function, "args": kinds}))


def test_the_first_compilation_of_a_method_has_all_of_it_compiled(started):
    compile_something(METHOD, module="another.library")
    compile_something(METHOD, another=True)  # a version of the function that the record does not know
    assert not started
    compile_something(METHOD)
    compile_something(METHOD)
    assert started == [[ahead.SERVE]] * 2


@pytest.mark.parametrize("why", REASONS)
def test_a_fit_compiles_alone(started, monkeypatch, why):
    if why == "told":
        monkeypatch.setenv(ahead.ALONE, "1")
    elif why == "one core":
        monkeypatch.setattr(ahead, "most", lambda: 1)
    elif why == "worker":
        monkeypatch.setattr(multiprocessing, "parent_process", lambda: 1)
    elif why == "embedded":
        monkeypatch.setattr(sys, "executable", None)
    elif why == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    elif why == "another program":
        monkeypatch.setattr(sys, "executable", "/usr/bin/true")
    elif why == "own cache":
        monkeypatch.setattr(ahead, "finds_no_folder", lambda: True)
    compile_something("Unknown" if why == "unknown" else METHOD)
    assert not started


@pytest.mark.parametrize("does", ["exit 0", "echo up; exit 0", "sleep 20"])
def test_processes_that_end_or_hang_are_given_up(tmp_path, monkeypatch, does):
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(ahead, "_compiled", set())
    monkeypatch.setattr(ahead, "most", lambda: 2)
    monkeypatch.setattr(ahead, "finds_no_folder", lambda: False)  # of tests before
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: None)
    monkeypatch.setattr(ahead, "STARTS_WITHIN", 0.5)
    monkeypatch.delenv(ahead.ALONE, raising=False)
    began = time.monotonic()
    compile_something(METHOD)
    assert METHOD in ahead._compiled
    assert time.monotonic() - began < 10.0


def test_a_wrong_record_leaves_the_fit_alone(started, monkeypatch):
    circle = {"functions": [["", "a", [], [1]], ["", "b", [], [0]]], "methods": {METHOD: [[0, 1.0], [1, 1.0]]}}
    monkeypatch.setattr(ahead, "recorded", lambda: circle)
    assert ahead.Queue([METHOD]).take() is None
    ahead.compile_all([METHOD])
    assert len(started) == 2
    monkeypatch.setattr(ahead, "recorded", lambda: {"functions": [], "methods": {METHOD: [[7, 1.0]]}})
    ahead.compile_all([METHOD])
    assert len(started) == 2  # of the first


FIT = """
import json
from sklearn.datasets import make_friedman1
import opttree
from numba.core import event
class Compilations(event.Listener):
    found = []
    def on_start(self, event):
        self.found.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event):
        pass
event.register("numba:compile", Compilations())
model = opttree.TAORegressor(3, splits="axis", leaf_shrinkage=0.0, random_state=0)
model.fit(*make_friedman1(600, random_state=0))
compiled = [name for name in Compilations.found if name != "impl"]
print(json.dumps([compiled, model.result_.objective, model.result_.compile_seconds, model.result_.seconds]))
"""


@pytest.mark.long
def test_a_first_fit_loads_what_other_processes_compiled(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name not in (ahead.ALONE, "NUMBA_NUM_THREADS")}
    environment |= {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-W", "ignore", "-c", FIT]
    found = []
    for _ in range(2):
        done = subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    (first, objective, compiling, seconds), (second, again, loading, _seconds) = found
    if most() > 1:
        assert len(first) < 5, f"the record lacks {first}: run experiments.benchmarks.compilations"
    assert not second
    assert objective == again
    assert loading < compiling
    assert seconds < compiling  # off the clock
