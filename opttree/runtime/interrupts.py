"""Deferred handling of Ctrl-C, so that no result is lost; and long calls that can be abandoned."""

from __future__ import annotations

import ctypes
import logging
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import copy_context
from functools import cache, partial
from typing import Any

POLL = 0.02  # seconds
# packages that an exception at an arbitrary point would break
DELICATE = {"numba", "llvmlite", "importlib", "_frozen_importlib", "weakref"}

_noted: list[int] | None = None  # the interrupts seen by the outermost active block
_dispensable: list[None] = []  # one entry per active `compilation_can_end` block


class InterruptedFitWarning(UserWarning):
    """A fit was interrupted: its model is the best so far, not the result of a complete fit.

    See Also
    --------
    solvers.Termination : a solver's word for it is INTERRUPTED

    Examples
    --------
    >>> import warnings
    >>> import opttree
    >>> with warnings.catch_warnings():        # a script that takes what there is after Ctrl-C, and says nothing
    ...     warnings.simplefilter("ignore", opttree.InterruptedFitWarning)
    ...     model = opttree.TAORegressor(max_depth=2, on_interrupt="keep").fit([[0.0], [1.0]], [0.0, 1.0])
    >>> model.result_.termination.name == "INTERRUPTED"
    False
    """


@contextmanager
def noted_interrupts(message: str = "", *, last: bool = False) -> Iterator[Callable[[], bool]]:
    """Context in which the first Ctrl-C is only recorded, so that compiled code and file writes can finish; the second
    raises KeyboardInterrupt. Yields a function that returns whether Ctrl-C was pressed.

    A nested block, in any thread, sees the interrupts of the outer one, including earlier ones. Signals reach the main
    thread only: in other threads, and where SIGINT is ignored, nothing is recorded.

    Parameters
    ----------
    message : str, default ""
        What the first Ctrl-C writes to standard error at once, if anything.
    last : bool, default False
        Whether the process ends after the block; interrupts are then ignored.

    Yields
    ------
    callable
        Function that returns whether Ctrl-C was pressed.
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


def interrupted() -> bool:
    """Whether Ctrl-C was pressed in the outermost active block of `noted_interrupts`."""
    return bool(_noted)


@contextmanager
def compilation_can_end() -> Iterator[None]:
    """Context in which Ctrl-C also stops compilations, in any thread: their callers get a KeyboardInterrupt.

    For searches, not for the computations after them that return the best result so far.
    """
    _listen_to_numba()
    _dispensable.append(None)
    try:
        yield
    finally:
        _dispensable.pop()


@cache
def _listen_to_numba() -> None:
    """Check for Ctrl-C before each compiler pass; a pass takes up to several seconds."""
    from numba.core import event  # imported late: much of opttree does not need Numba

    class BetweenPasses(event.Listener):
        def on_start(self, event: event.Event) -> None:
            if _noted and _dispensable:
                raise KeyboardInterrupt

        def on_end(self, event: event.Event) -> None:
            pass

    event.register("numba:run_pass", BetweenPasses())


class _Left(BaseException):
    """Raised in a thread whose result is no longer needed."""


def in_background(work: Callable[[], Any], *, ends: bool = True) -> Generator[None, None, Any]:
    """Run ``work()`` in a separate thread; yields None while it runs and returns its result.

    For long calls into libraries that cannot be stopped. Closing the generator, or throwing an exception into it,
    abandons the call: the thread ends at its next line of Python outside of imports and compilations, which would
    otherwise stay broken for the rest of the process. Where it calls compiled functions that return tuples with names,
    which Python makes, ``ends`` must be False: an exception there ends the process. The call then runs to its end.
    """
    outcome: list[Any] = []
    error: list[BaseException] = []

    def run() -> None:
        with suppress(_Left):
            try:
                outcome.append(work())
            except (Exception, KeyboardInterrupt) as raised:
                error.append(raised)

    logging.getLogger("pyomo.core").addFilter(_is_news)  # it logs any exception that stops the building of a model
    _ignore_lost_exceptions()
    thread = threading.Thread(target=copy_context().run, args=(run,), daemon=True)  # with the caller's limits
    thread.start()
    try:
        while True:
            thread.join(POLL)
            if not thread.is_alive():
                break
            yield
    finally:
        if thread.is_alive() and ends:
            threading.Thread(target=_leave, args=(thread,), daemon=True).start()
            thread.join(1.0)
    if error:
        raise error[0]
    return outcome[0]


def _is_news(_record: logging.LogRecord) -> bool:
    """Logging filter that drops the records of abandoned threads."""
    return not isinstance(sys.exception(), _Left)


def _ignore_lost_exceptions() -> None:
    """Let nothing be reported of a `_Left` that is raised in a callback and lost there (`_leave` raises another), or at
    the very end of its thread.
    """
    report, report_thread = sys.unraisablehook, threading.excepthook
    if getattr(report, "ignores", None) is _Left:
        return

    def report_others(unraisable: Any) -> None:
        if unraisable.exc_type is not _Left:
            report(unraisable)

    report_others.ignores = _Left  # type: ignore[attr-defined]
    sys.unraisablehook = report_others
    threading.excepthook = lambda unraisable: None if unraisable.exc_type is _Left else report_thread(unraisable)


def _leave(thread: threading.Thread) -> None:
    """End a thread by an exception, at a point where that breaks nothing.

    Numba's compiler lock is held meanwhile, so that the thread cannot start a compilation: an exception while it
    acquires the lock would leave the lock locked for ever.
    """
    assert thread.ident is not None
    raise_in = partial(ctypes.pythonapi.PyThreadState_SetAsyncExc, ctypes.c_ulong(thread.ident))
    while thread.is_alive():
        with _no_compilation():
            frame = sys._current_frames().get(thread.ident)
            while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] not in DELICATE:
                frame = frame.f_back
            if frame is None and thread.is_alive():  # else its number may be another's by now
                raise_in(ctypes.py_object(_Left))
                thread.join(POLL)  # retried if the exception was lost, as in a callback
                if thread.is_alive():
                    raise_in(None)  # withdrawn: the thread may be waiting for the compiler lock
        thread.join(random.uniform(0.0, 2.0 * POLL))  # not in step with callbacks that come again and again


def _no_compilation() -> AbstractContextManager[Any]:
    """Numba's compiler lock, if Numba is loaded; without its events, which would count as compilation."""
    module = sys.modules.get("numba.core.compiler_lock")
    return nullcontext() if module is None else module.global_compiler_lock._lock
