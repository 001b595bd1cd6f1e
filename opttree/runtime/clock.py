"""A clock that stands still while kernels are compiled or loaded, and word of their compilation."""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from numba.core import event

_log = logging.getLogger("opttree")
_listeners: list[Callable[[str], None]] = []
_what: ContextVar[Callable[[], str] | None] = ContextVar("what", default=None)  # is compiled, and for how long


class _Compilations(event.Listener):
    """Seconds in which some thread held numba's compiler lock, or waited for it, to compile or to load a function."""

    def __init__(self) -> None:
        self.forget()
        self._total = 0.0

    def forget(self) -> None:
        """Forget what is going on: a forked process has none of the threads that it had begun in."""
        self._lock = threading.Lock()
        self._depths: dict[int, int] = {}  # of nested compilations, by thread
        self._since = 0.0

    def on_start(self, event: event.Event) -> None:
        thread = threading.get_ident()
        with self._lock:
            if not self._depths:
                self._since = time.perf_counter()
            self._depths[thread] = self._depths.get(thread, 0) + 1

    def on_end(self, event: event.Event) -> None:
        thread = threading.get_ident()
        with self._lock:
            left = self._depths.pop(thread, 0) - 1
            if left > 0:
                self._depths[thread] = left
            elif left == 0 and not self._depths:
                self._total += time.perf_counter() - self._since

    def read(self) -> tuple[float, float]:
        """`time.perf_counter`, and the seconds so far."""
        with self._lock:
            wall = time.perf_counter()
            if self._depths:
                # who asks does not compile: an interrupt or an exception kept its end from coming
                self._depths.pop(threading.get_ident(), None)
                for thread in self._depths.keys() - sys._current_frames().keys():
                    del self._depths[thread]
            return wall, self._total + (wall - self._since if self._depths else 0.0)


class _Announcement(event.Listener):
    """Says once that kernels are compiled: where one of ours is not in the cache."""

    said = False

    def on_start(self, event: event.Event) -> None:
        module = event.data["dispatcher"].py_func.__module__ or ""
        own = module.startswith("opttree.") and not module.startswith("opttree.statement.")  # losses take a second
        if self.said or not own:
            return
        self.said = True
        what = _what.get()
        sentence = "opttree compiles its kernels, once per machine and version"
        if what is not None:
            sentence += f": {what()}"
        _log.warning(sentence)
        for listener in _listeners:
            listener(sentence)

    def on_end(self, event: event.Event) -> None:
        pass


_compilations = _Compilations()
event.register("numba:compiler_lock", _compilations)
event.register("numba:compile", _Announcement())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_compilations.forget)


def compile_seconds() -> float:
    """Seconds that this process has spent so far on compiling and loading kernels, in any thread."""
    return _compilations.read()[1]


def now() -> float:
    """Seconds of a clock that stands still while kernels are compiled or loaded."""
    wall, compiling = _compilations.read()
    return wall - compiling


GRACE = 0.2  # seconds after a time limit in which a tree is still completed
_DEADLINE: ContextVar[float] = ContextVar("deadline", default=math.inf)  # by `now`


@contextmanager
def due_at(deadline: float) -> Iterator[None]:
    """Context that sets the deadline of `seconds_left`; an earlier deadline of an enclosing block takes precedence."""
    token = _DEADLINE.set(min(_DEADLINE.get(), deadline))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def seconds_left() -> float:
    """Seconds until the run's time limit, inf without one; for calls that take a time limit but cannot be stopped."""
    return _DEADLINE.get() - now()


def is_late() -> bool:
    """Whether the run's time limit has passed by `GRACE`, so that work that it was to leave time for is left undone."""
    return seconds_left() < -GRACE


@contextmanager
def compiling(what: Callable[[], str]) -> Iterator[None]:
    """Context of a fit, with what its sentence on compilation says more."""
    token = _what.set(what)
    try:
        yield
    finally:
        _what.reset(token)


@contextmanager
def told_of_compilation(listener: Callable[[str], None]) -> Iterator[None]:
    """Context in which ``listener`` gets the sentence on compilation, if there is one."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
