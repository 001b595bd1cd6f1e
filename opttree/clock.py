"""A clock that stands still while kernels are compiled or loaded, and word of their compilation."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from numba.core import event
from numba.core.compiler_lock import global_compiler_lock

ABOUT = 10  # seconds that the kernels of a method take to compile, on two cores

_log = logging.getLogger("opttree")
_listeners: list[Callable[[str], None]] = []


class _Compilations(event.Listener):
    """Seconds in which some thread held numba's compiler lock: it does while it compiles a function or loads one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open, self._since, self._total = 0, 0.0, 0.0

    def on_start(self, event: event.Event) -> None:
        with self._lock:
            if self._open == 0:
                self._since = time.perf_counter()
            self._open += 1

    def on_end(self, event: event.Event) -> None:
        with self._lock:
            if self._open == 1:
                self._total += time.perf_counter() - self._since
            self._open = max(self._open - 1, 0)

    def seconds(self) -> float:
        """Their sum so far."""
        with self._lock:
            if self._open == 0:
                return self._total
            if global_compiler_lock._lock.acquire(blocking=False):  # nobody holds it: an interrupt left its beginning
                global_compiler_lock._lock.release()
                self._open = 0
                return self._total
            return self._total + time.perf_counter() - self._since


class _Announcement(event.Listener):
    """Says once that kernels are compiled: where one of ours is not in the cache."""

    said = False

    def on_start(self, event: event.Event) -> None:
        module = event.data["dispatcher"].py_func.__module__
        if self.said or not module.startswith("opttree."):
            return
        self.said = True
        sentence = f"opttree compiles its kernels, once per machine and version: about {ABOUT} s"
        _log.warning(sentence)
        for listener in _listeners:
            listener(sentence)

    def on_end(self, event: event.Event) -> None:
        pass


_compilations = _Compilations()
event.register("numba:compiler_lock", _compilations)
event.register("numba:compile", _Announcement())


def compile_seconds() -> float:
    """Seconds that this process has spent so far on compiling and loading kernels, in any thread."""
    return _compilations.seconds()


def now() -> float:
    """Seconds of a clock that stands still while kernels are compiled or loaded."""
    return time.perf_counter() - compile_seconds()


@contextmanager
def told_of_compilation(listener: Callable[[str], None]) -> Iterator[None]:
    """Context in which ``listener`` gets the sentence on compilation, if there is one."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
