"""Devices that evaluate problems and hold arrays: the CPU, or a GPU through CuPy (optional)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

Device = Literal["cpu", "gpu", "auto"]
DEVICES = get_args(Device)
FRAMES = 4096  # bytes of local memory that the device reserves for each thread that can be resident
WORTH = 20_000_000  # rows x splits x features x starts of a pass from which "auto" takes the GPU: see `on_gpu`


def require(device: object) -> None:
    """ValueError for an unknown or unavailable device."""
    if device not in DEVICES:
        raise ValueError(f"device must be one of {list(DEVICES)}; got {device!r}")
    if (reason := refusal(str(device))) is not None:
        raise ValueError(reason)


def refusal(device: str) -> str | None:
    """Why ``device`` is not available, or None; "auto" always is."""
    return _missing() if device == "gpu" else None


def on_gpu(device: str, work: float) -> bool:
    """Whether to use the GPU. "auto" does if there is one and a pass takes ``work >= WORTH`` products.

    On two cores such a pass takes about a millisecond; a few kernel launches take a tenth of that. The constant follows
    from this estimate and is not tuned.
    """
    return device == "gpu" or (device == "auto" and work >= WORTH and _missing() is None)


def cupy() -> Any:
    """The module CuPy; RuntimeError with the reason if CuPy or a device is missing."""
    if (reason := _missing()) is not None:
        raise RuntimeError(reason)
    import cupy

    return cupy


def _missing() -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about CUDA toolkits that CuPy looks for
            import cupy
    except ImportError as error:
        return f"device='gpu' needs CuPy, which cannot be imported ({error}): pip install opttree[gpu], or device='cpu'"
    return None if cupy.cuda.is_available() else "device='gpu' needs a CUDA device, and there is none; use device='cpu'"


def attribute(xp: Any, name: str) -> int:
    """A device attribute of the current device, by its CUDA name."""
    return int(xp.cuda.Device().attributes[name])


def lacking(xp: Any, needed: float, what: str, lower: str, idle: bool = False) -> str | None:
    """An error message if the device has less than ``needed`` bytes of memory for ``what``, or None.

    ``lower`` says which options to reduce; with ``idle``, total memory is compared instead of free memory.
    """
    free, total = xp.cuda.runtime.memGetInfo()
    free = total if idle else free + xp.get_default_memory_pool().free_bytes()
    needed += FRAMES * attribute(xp, "MaxThreadsPerMultiProcessor") * attribute(xp, "MultiProcessorCount")
    if needed <= free:
        return None
    return _sentence(f"{what}, about {needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free", lower)


@contextmanager
def memory_errors(what: str, lower: str) -> Iterator[None]:
    """Context that turns out-of-memory errors of the device into a MemoryError with a one-sentence message."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not (isinstance(error, MemoryError) or "OUT_OF_MEMORY" in str(error) or "MemoryAllocation" in str(error)):
            raise
        raise MemoryError(_sentence(f"{what} ({error})", lower)) from error


def _sentence(what: str, lower: str) -> str:
    return f"device must have memory for {what}; {lower}, or use device='cpu'; got device='gpu'"


class DeviceArrays:
    """Arrays of one floating dtype on a device.

    Parameters
    ----------
    xp : array namespace; None: CuPy (RuntimeError where there is no CuPy or no device).
    dtype : "float32" or "float64".
    what, lower : for the sentence where memory ends: what takes it, and the options that ask for less.
    """

    def __init__(self, xp: Any, dtype: str, what: str, lower: str) -> None:
        self.xp = cupy() if xp is None else xp
        self.dtype, self._what, self._lower = dtype, what, lower

    def upload(self, array: ArrayLike) -> Any:
        """An array on the device, a copy."""
        return self.xp.asarray(np.array(array, self.dtype))

    def download(self, array: Any) -> NDArray[np.floating]:
        """A device's array as NumPy's, a copy."""
        return getattr(self.xp, "asnumpy", np.array)(array)

    def within_memory(self) -> AbstractContextManager[None]:
        """Within, memory that the device does not give becomes one sentence."""
        return memory_errors(self._what, self._lower)
