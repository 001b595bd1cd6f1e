"""Ctrl-C without loss: noted, and acted upon where it is safe."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def noted_interrupts() -> Iterator[Callable[[], bool]]:
    """Inside, the first Ctrl-C is noted and raises nothing, so that compiled code and open files end what they do; the
    second raises KeyboardInterrupt. Yields a function that says whether there was one.

    Only in the main thread, which alone gets signals, and not where they are ignored.
    """
    seen: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before in (None, signal.SIG_IGN):
        yield lambda: False
        return

    def note(number: int, _frame: object) -> None:
        seen.append(number)
        if len(seen) > 1:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(seen)
    finally:
        signal.signal(signal.SIGINT, before)
