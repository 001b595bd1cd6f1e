"""A first fit has its kernels compiled by several processes, and loads what they have compiled.

Numba compiles one function at a time in a process, and keeps it in a cache that processes share. What a method
compiles, and in which order, stands in ``compilations.json``; ``python -m experiments.benchmarks.compilations`` writes
it. Processes compile what is on the list, callees before their callers. A list that is out of date costs time, and
changes nothing else.

Loaded kernels also round alike: where a process has compiled a kernel itself, it runs other copies of the functions in
it than the cache has. (The one kernel whose absence sets this off is compiled by the fit, too.)
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numba
from numba.core import event, types
from numba.core.dispatcher import Dispatcher

from opttree.runtime import clock
from opttree.runtime.compiling.compiled import finds_no_folder
from opttree.runtime.interrupts import POLL, noted_interrupts
from opttree.runtime.threads import most

RECORD = Path(__file__).with_name("compilations.json")
MOST_PROCESSES = 4
STARTS_WITHIN, LONGEST = 30.0, 600.0  # seconds until the first process is up, and in all
SERVE = "import sys; sys.path.append(sys.argv[1]); from opttree.runtime.compiling.ahead import serve; serve()"
ALONE = "OPTTREE_COMPILES_ALONE"  # set in processes that compile for themselves

_compiled: set[str] = set()  # methods whose kernels this process has had compiled


def recorded_name(estimator: Any) -> str:
    """The name of an estimator's method in the record: its class, splits and leaves."""
    options = (str(getattr(estimator, name, "")) for name in ("splits", "leaves"))
    return " ".join((type(estimator).__name__, *options))


@contextmanager
def compiled_ahead(estimator: Any) -> Iterator[None]:
    """Context of a fit: once a kernel has to be compiled, other processes compile all of its method, and it waits."""
    method = recorded_name(estimator)

    def what() -> str:
        kernels, seconds = waiting([method])
        found = f"{kernels} for {type(estimator).__name__}, about {seconds} s"
        return found if kernels else "some that are seldom needed"

    with clock.compiling(what), event.install_listener("numba:compile", _Caller(method)):
        yield


def waiting(methods: Iterable[str], processes: int | None = None) -> tuple[int, int]:
    """The number of kernels of some methods of the record that are not compiled yet, and about how many seconds that
    takes so many processes; None: as many as a fit uses.
    """
    if processes is None:
        processes = min(most(), MOST_PROCESSES) if _may_compile() else 1
    left = {number: seconds for method in methods for number, seconds in recorded()["methods"].get(method, ())}
    left = {number: seconds for number, seconds in left.items() if not _is_compiled(number)}
    return len(left), 5 * math.ceil(sum(left.values()) / processes / 5.0)


def _is_compiled(number: int) -> bool:
    module, name, kinds, _called = recorded()["functions"][number]
    with suppress(Exception):  # a record that is out of date
        kernel: Any = function_of(module, name)
        return bool(kernel._cache.holds(tuple(decode(kind) for kind in kinds), kernel.targetctx))
    return True


class _Caller(event.Listener):
    """Has a method's kernels compiled when the first of them that the record knows is missing."""

    def __init__(self, method: str) -> None:
        self.method = method

    def on_start(self, event: event.Event) -> None:
        if self.method not in _compiled and _is_recorded(self.method, event.data["dispatcher"], event.data["args"]):
            _compiled.add(self.method)
            compile_all([self.method])

    def on_end(self, event: event.Event) -> None:
        pass


def _is_recorded(method: str, function: Dispatcher, kinds: tuple[Any, ...]) -> bool:
    place = function.py_func.__module__, function.py_func.__name__
    listed = (recorded()["functions"][number] for number, _seconds in recorded()["methods"].get(method, ()))
    with suppress(ValueError, LookupError):  # of a type that is in no record; of a record that is wrong
        return any((one[0], one[1]) == place and one[2] == [encode(kind) for kind in kinds] for one in listed)
    return False


def _may_compile() -> bool:
    """Whether other processes can compile for this one: there are cores, a cache to share, and a Python to run."""
    is_worker = multiprocessing.parent_process() is not None
    is_python = Path(sys.executable or "").name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)
    alone = is_worker or not is_python or ALONE in os.environ or finds_no_folder()
    return most() > 1 and not alone


def compile_all(methods: Sequence[str], environment: Mapping[str, str] | None = None) -> bool:
    """Compile the kernels of some methods of the record in other processes, whose environment has these variables, too;
    what they leave out, a fit compiles. Returns whether Ctrl-C ended it.
    """
    if not _may_compile():
        return False
    package = os.path.abspath(Path(__file__).parents[3])  # not resolved: numba keys its cache to the path as it is
    command = [sys.executable, "-P", "-W", "ignore", "-c", SERVE, package]
    there = {**os.environ, ALONE: "1"}
    if numba.config.CACHE_DIR:  # type: ignore[attr-defined]
        there["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    there.update(environment or {})
    helpers: list[subprocess.Popen[str]] = []
    threads: list[threading.Thread] = []
    up, ended = threading.Event(), False
    began = time.monotonic()
    with suppress(OSError, LookupError, ValueError, TypeError), ExitStack() as stack:  # a record that is wrong, ...
        queue = Queue(methods)
        bar = stack.enter_context(_bar(queue.left))
        for _ in range(min(most(), MOST_PROCESSES)):
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            helpers.append(subprocess.Popen(command, **pipes, env=there, text=True))
            threads.append(threading.Thread(target=_serve, args=(helpers[-1], queue, up), daemon=True))
            threads[-1].start()
        with noted_interrupts() as interrupted:
            while any(thread.is_alive() for thread in threads) and not interrupted():
                time.sleep(POLL)
                bar.update(bar.total - bar.n - queue.left)
                waited = time.monotonic() - began
                if waited > LONGEST or (waited > STARTS_WITHIN and not up.is_set()):
                    break
            ended = interrupted()
    for helper in helpers:
        helper.kill()
        helper.wait()
    for thread in threads:
        thread.join(1.0)
    return ended


def _bar(kernels: int) -> Any:
    """One bar for all kernels of a method, in a terminal, of which nothing is left in the end."""
    from tqdm.auto import tqdm

    return tqdm(total=kernels, desc="compiling kernels", unit="kernel", leave=False, disable=None)


def _serve(helper: subprocess.Popen[str], queue: Queue, up: threading.Event) -> None:
    """Have a process compile what the queue offers, until this is empty or the process ends."""
    assert helper.stdin is not None
    assert helper.stdout is not None
    with suppress(OSError), helper.stdin, helper.stdout:  # the process may end
        if not helper.stdout.readline():
            return
        up.set()
        while (number := queue.take()) is not None:
            try:
                helper.stdin.write(f"{number}\n")
                helper.stdin.flush()
                answer = helper.stdout.readline()
            finally:
                queue.done(number)
            if not answer:
                return


def serve() -> None:
    """Compile functions of the record by their numbers, a line of standard input each; "up" and "done" are answered."""
    print("up", flush=True)
    for line in sys.stdin:
        compile_one(int(line))
        print("done", flush=True)


class Queue:
    """The functions of methods, each offered once those that it calls are compiled; longest way to the end first."""

    def __init__(self, methods: Iterable[str]) -> None:
        functions, every = recorded()["functions"], recorded()["methods"]
        listed = list({number: seconds for name in methods for number, seconds in every.get(name, ())}.items())
        self._waiting = {number: {n for n in functions[number][3] if n != number} for number, _seconds in listed}
        for needed in self._waiting.values():
            needed &= self._waiting.keys()
        self._ahead: dict[int, float] = {}  # seconds from the start of a function to the end
        for number, seconds in reversed(listed):
            after = [self._ahead[n] for n, needed in self._waiting.items() if number in needed and n in self._ahead]
            self._ahead[number] = seconds + max(after, default=0.0)
        self._begun: set[int] = set()
        self._changed = threading.Condition()

    @property
    def left(self) -> int:
        """The functions that are not compiled yet."""
        return len(self._waiting) + len(self._begun)

    def take(self) -> int | None:
        """The next function, once there is one; None when none is left. Of one function's versions, one at a time:
        numba's cache has one index for all of them, and no lock.
        """
        with self._changed:
            while self._waiting:
                busy = {self._name(number) for number in self._begun}
                ready = [n for n, needed in self._waiting.items() if not needed and self._name(n) not in busy]
                if ready:
                    number = max(ready, key=self._ahead.__getitem__)
                    del self._waiting[number]
                    self._begun.add(number)
                    return number
                if not self._begun:
                    return None  # a record of circles
                self._changed.wait()
            return None

    def _name(self, number: int) -> tuple[str, str]:
        module, name, *_rest = recorded()["functions"][number]
        return module, name

    def done(self, number: int) -> None:
        """A function is compiled, or cannot be."""
        with self._changed:
            self._begun.discard(number)
            for needed in self._waiting.values():
                needed.discard(number)
            self._changed.notify_all()


# ---- the record ------------------------------------------------------------------------------------------------------


@cache
def recorded() -> dict[str, Any]:
    """The record: ``"functions"``, each a module, a name, its arguments' types, see `encode`, and the numbers of the
    functions that it calls; and ``"methods"``: of each method, the functions' numbers and their seconds, callees before
    their callers.
    """
    record: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {"functions": [], "methods": {}}
    return record


def function_of(module: str, name: str) -> Dispatcher | None:
    """The kernel in a module that compiles the function of this name, or None."""
    found = (f for f in vars(import_module(module)).values() if isinstance(f, Dispatcher))
    return next((f for f in found if (f.py_func.__module__, f.py_func.__name__) == (module, name)), None)


def encode(kind: Any) -> Any:
    """A Numba type as JSON. ValueError for one that is not in use here."""
    if isinstance(kind, types.Array):
        return ["array", encode(kind.dtype), kind.ndim, kind.layout, kind.mutable, kind.aligned]
    if isinstance(kind, types.BaseTuple):
        named = getattr(kind, "instance_class", None)
        members = [encode(member) for member in tuple(kind)]  # type: ignore[var-annotated, arg-type]
        return ["tuple", f"{named.__module__}:{named.__name__}" if named else "", members]
    if isinstance(kind, types.Omitted):
        return ["omitted", kind.value]
    if isinstance(kind, types.IntegerLiteral):
        return ["literal", kind.literal_value]
    if _named(str(kind)) == kind:
        return str(kind)
    raise ValueError(f"kind must be an array, a tuple, a number or left out; got {kind}")


def _named(name: str) -> Any:
    """The Numba type of a name; "bool" stands there under this name in newer versions only."""
    return types.boolean if name == "bool" else getattr(types, name, None)


def decode(code: Any) -> Any:
    """The Numba type of `encode`."""
    if isinstance(code, str):
        return _named(code)
    if code[0] == "omitted":
        return types.Omitted(code[1])
    if code[0] == "literal":
        return types.literal(code[1])
    if code[0] == "array":
        _array, dtype, ndim, layout, mutable, aligned = code
        return types.Array(decode(dtype), ndim, layout, readonly=not mutable, aligned=aligned)
    _tuple, named, members = code
    module, _colon, name = named.partition(":")
    kinds = tuple(decode(member) for member in members)
    return types.BaseTuple.from_types(kinds, getattr(import_module(module), name) if named else None)


def compile_one(number: int) -> None:
    """Compile a function of the record, or load it; if the record is wrong, nothing."""
    module, name, kinds, _called = recorded()["functions"][number]
    with suppress(Exception):
        function_of(module, name).compile(tuple(decode(kind) for kind in kinds))  # type: ignore[union-attr]
