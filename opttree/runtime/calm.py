"""One thread for other libraries, in solvers that alternate our kernels with theirs."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_lock = threading.Lock()  # fits may run in parallel threads, and the limits are per process
_wanted: Counter[str] = Counter()
_limits: dict[str, Any] = {}
LIBRARIES = ("blas", "openmp")


@contextmanager
def calm_threads() -> Iterator[None]:
    """Context with one thread for BLAS and OpenMP.

    Their idle threads spin while they wait for work; on few cores each call into another library then waits for the end
    of a time slice: milliseconds for a call of microseconds. Next to other busy processes this happens in each parallel
    region, so that one thread can be faster than two.
    """
    for library in LIBRARIES:
        _limit(library, 1)
    try:
        yield
    finally:
        for library in LIBRARIES:
            _limit(library, -1)


def _limit(library: str, change: int) -> None:
    """Count the solvers that limit ``library`` to one thread (``change``: +1 or -1); the last one lifts the limit."""
    with _lock:
        if _wanted[library] == 0:
            _limits[library] = _controller().limit(limits=1, user_api=library)
        _wanted[library] += change
        if _wanted[library] == 0:
            _limits.pop(library).restore_original_limits()


@cache
def _controller() -> ThreadpoolController:
    """The controller, cached since the search for libraries takes milliseconds; these are loaded first."""
    import sklearn.cluster  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
