"""Ctrl-C without loss: noted, and acted upon where it is safe; and long calls that can be left."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache, partial
from typing import Any

POLL = 0.02  # seconds
# packages that an exception in the middle breaks
DELICATE = {"numba", "llvmlite", "importlib", "_frozen_importlib", "weakref"}

_noted: list[int] | None = None  # the interrupts of the outermost block in force
_dispensable: list[None] = []  # one for each block of `compilation_can_end` in force


class InterruptedFitWarning(UserWarning):
    """A fit was interrupted: what it holds is the best so far, not what an undisturbed fit would have found."""


@contextmanager
def noted_interrupts(message: str = "", *, last: bool = False) -> Iterator[Callable[[], bool]]:
    """Inside, the first Ctrl-C is noted and raises nothing, so that compiled code and open files end what they do; the
    second raises KeyboardInterrupt. Yields a function that says whether there was one.

    A block within another one, in whatever thread, knows the interrupts of the outer one, also those from before it
    began. Signals come to the main thread alone: elsewhere, and where they are ignored, nothing is noted.

    Parameters
    ----------
    message : what the first Ctrl-C writes to standard error at once, if anything.
    last : whether only the process's end comes after the block: interrupts are ignored then.
    """
    global _noted
    if _noted is not None:
        seen = _noted
        yield lambda: bool(seen)
        return
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before in (None, signal.SIG_IGN):
        yield lambda: False
        return
    noted: list[int] = []

    def note(number: int, _frame: object) -> None:
        noted.append(number)
        if len(noted) > 1:
            raise KeyboardInterrupt
        if message:
            os.write(2, message.encode())  # a buffered stream may be in the middle of a write

    _noted = noted
    try:
        signal.signal(signal.SIGINT, note)
        yield lambda: bool(noted)
    finally:
        _noted = None
        signal.signal(signal.SIGINT, signal.SIG_IGN if last else before)


@contextmanager
def compilation_can_end() -> Iterator[None]:
    """Inside, a noted Ctrl-C ends compilations too, in whatever thread: their callers get a KeyboardInterrupt.

    For searches, not for what has to be computed after them to give what they have found.
    """
    _listen_to_numba()
    _dispensable.append(None)
    try:
        yield
    finally:
        _dispensable.pop()


@cache
def _listen_to_numba() -> None:
    """Have a look at Ctrl-C before each pass of the compiler; a pass takes up to some seconds."""
    from numba.core import event  # imported late: much of opttree does without Numba

    class BetweenPasses(event.Listener):
        def on_start(self, event: event.Event) -> None:
            if _noted and _dispensable:
                raise KeyboardInterrupt

        def on_end(self, event: event.Event) -> None:
            pass

    event.register("numba:run_pass", BetweenPasses())


class _Left(BaseException):
    """Raised in a thread whose work nobody waits for any more."""


def in_background(work: Callable[[], Any]) -> Generator[None, None, Any]:
    """Run ``work()`` in a thread of its own; yields None while it runs and returns what it returns.

    For long calls into other libraries that cannot be asked to stop: a generator that is closed, or that an exception
    is thrown into, leaves the call, which ends at the next line of Python that it comes to outside of imports and
    compilations: these would be broken for the rest of the process.
    """
    outcome: list[Any] = []
    error: list[BaseException] = []

    def run() -> None:
        with suppress(_Left):
            try:
                outcome.append(work())
            except (Exception, KeyboardInterrupt) as raised:
                error.append(raised)

    logging.getLogger("pyomo.core").addFilter(_is_news)  # it logs whatever ends the building of a model as an error
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while True:
            thread.join(POLL)
            if not thread.is_alive():
                break
            yield
    finally:
        if thread.is_alive():
            threading.Thread(target=_leave, args=(thread,), daemon=True).start()
            thread.join(1.0)
    if error:
        raise error[0]
    return outcome[0]


def _is_news(_record: logging.LogRecord) -> bool:
    """Whether a log should have a record: not if it is of a thread that was left on purpose."""
    return not isinstance(sys.exception(), _Left)


def _leave(thread: threading.Thread) -> None:
    """End a thread with an exception, once it is not in the middle of what that would break.

    Meanwhile nothing is compiled, so that the thread cannot begin to: an exception as it takes Numba's compiler lock
    would leave the lock taken for ever.
    """
    assert thread.ident is not None
    raise_in = partial(ctypes.pythonapi.PyThreadState_SetAsyncExc, ctypes.c_ulong(thread.ident))
    while thread.is_alive():
        with _no_compilation():
            frame = sys._current_frames().get(thread.ident)
            while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] not in DELICATE:
                frame = frame.f_back
            if frame is None:
                raise_in(ctypes.py_object(_Left))
                thread.join(0.2)  # again if it was lost, as in a callback
                if thread.is_alive():
                    raise_in(None)  # it may wait for the compiler lock
        thread.join(POLL)


def _no_compilation() -> AbstractContextManager[Any]:
    """Numba's compiler lock, if Numba is there."""
    module = sys.modules.get("numba.core.compiler_lock")
    return getattr(module, "global_compiler_lock", nullcontext())
