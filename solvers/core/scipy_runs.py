"""SciPy's minimisers as generators of iterates: a single run that keeps its memory and can be abandoned."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextvars import copy_context
from queue import Empty, Queue
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opttree.runtime.interrupts import POLL
from solvers.core.base import LastCall

Floats = NDArray[np.floating]
GRACE = 0.2  # seconds that a run that is no longer needed is waited for


class Iterate(NamedTuple):
    """The current point of a run, its number, and the number of evaluations since the iterate before."""

    theta: Floats
    number: int
    n_evaluations: int


class _Left(Exception):  # noqa: N818
    """Raised in a run whose result is no longer needed."""


def minimise(
    value_and_gradient: Callable[[Floats], tuple[float, Floats]], theta: Floats, portion: int, **how: Any
) -> Generator[Iterate | None, None, tuple[Any, int]]:
    """`scipy.optimize.minimize` from ``theta``, in a thread that waits at every ``portion``-th iterate.

    Yields these iterates, and None from time to time in between; at a `LastCall`, the latest iterate. It returns
    SciPy's result and the number of evaluations since the last iterate. ``how`` are options of SciPy, such as
    ``method``. Closing the generator ends the run at its next evaluation; a long step of SciPy's own (SLSQP's take the
    cube of the number of variables) is not waited for.
    """
    from scipy.optimize import minimize

    news: Queue[Any] = Queue()
    taken = threading.Event()
    left = False
    counts = {"iterates": 0, "evaluations": 0, "told": 0}
    latest = np.asarray(theta)

    def told() -> int:
        new = counts["evaluations"] - counts["told"]
        counts["told"] = counts["evaluations"]
        return new

    def counted(x: Floats) -> tuple[float, Floats]:
        if left:
            raise _Left
        counts["evaluations"] += 1
        value, gradient = value_and_gradient(x)
        return value, np.asarray(gradient, np.float64)  # SciPy before 1.13 takes no other

    def seen(x: Floats) -> None:
        nonlocal latest
        counts["iterates"] += 1
        latest = x.copy()
        if counts["iterates"] % portion == 0:
            taken.clear()
            news.put(Iterate(latest, counts["iterates"], told()))
            while not taken.wait(POLL):
                if left:
                    raise _Left

    def run() -> None:
        try:
            news.put(minimize(counted, theta, jac=True, callback=seen, **how))
        except _Left:
            pass
        except BaseException as error:
            news.put(error)

    thread = threading.Thread(target=copy_context().run, args=(run,), daemon=True)  # with the caller's limits
    thread.start()
    try:
        while True:
            try:
                message = news.get(timeout=POLL)
            except Empty:
                try:
                    yield None
                except LastCall:
                    if counts["iterates"] % portion:
                        yield Iterate(latest, counts["iterates"], told())
                    raise
                continue
            if not isinstance(message, Iterate):
                break
            yield message
            taken.set()
    finally:
        left = True
        taken.set()
        thread.join(GRACE)
    if isinstance(message, BaseException):
        raise message
    return message, told()
