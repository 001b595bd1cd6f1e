"""Threads that do not fight: solvers that alternate our kernels with those of other libraries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import numba

from opttree.problems import TreeProblem

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

SMALL = 40_000  # numbers in X up to which threads cost more than they bring


@contextmanager
def calm_threads(problem: TreeProblem) -> Iterator[None]:
    """One thread for BLAS, and for small problems one for everything.

    Idle threads of one library wait for work by spinning; on few cores each call into another library then waits for
    the end of a time slice, milliseconds for a call of microseconds.
    """
    before = numba.get_num_threads()
    small = problem.X.size <= SMALL
    with _controller().limit(limits=1, user_api=None if small else "blas"):
        if small:
            numba.set_num_threads(1)
        try:
            yield
        finally:
            numba.set_num_threads(before)


@cache
def _controller() -> ThreadpoolController:
    """Looking for the libraries of a process takes milliseconds; those with threads of their own are loaded first."""
    import sklearn.cluster  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
