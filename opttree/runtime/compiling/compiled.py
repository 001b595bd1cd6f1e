"""How kernels are compiled: once per machine, kept on disk, and free of the interpreter's lock while they run."""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any

import numba

from opttree.runtime.compiling.caching import keep

_config: Any = numba.config
_folders: list[str] = []  # of this process alone
_njit: Any = numba.njit  # its types lack the options for entries from outside


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorator of a kernel, with options of `numba.njit`."""

    def compiled(function: Callable[..., Any]) -> Any:
        try:
            return keep(_njit(nogil=True, no_cfunc_wrapper=True, **options)(function))
        except RuntimeError:  # neither beside the source nor in the user's folder may numba write
            if _config.CACHE_DIR in _folders:
                raise
            _folders.append(tempfile.mkdtemp(prefix="opttree-"))
            atexit.register(shutil.rmtree, _folders[-1], ignore_errors=True)
            _config.CACHE_DIR = _folders[-1]
            logging.getLogger("opttree").warning(
                "opttree finds no folder in which it may keep compiled kernels: this process compiles them for itself "
                "alone; set NUMBA_CACHE_DIR to a folder of your own"
            )
            return compiled(function)

    return compiled


inner = partial(kernel, no_cpython_wrapper=True)  # of other kernels alone: nothing is compiled for calls from Python

# Of kernels that allocate nothing: numba does not count the references to their arrays, which it does by atomic
# operations at every call and every row of a table, and which can take longer than the arithmetic
kernel_without_refcounts = partial(kernel, _nrt=False)


def finds_no_folder() -> bool:
    """Whether kernels are kept for this process alone."""
    return bool(_folders)
