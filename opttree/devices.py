"""Where problems are evaluated and arrays live: on the CPU, or on a GPU through CuPy, which is optional."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

Device = Literal["cpu", "gpu", "auto"]
DEVICES = get_args(Device)
FRAMES = 4096  # bytes that a thread may want of local memory, which the device reserves for all that can run
WORTH = 20_000_000  # products of a pass over rows, splits and starts from which "auto" takes the GPU: see `on_gpu`


def require(device: object) -> None:
    """ValueError for what is no device, or one that cannot be had here."""
    if device not in DEVICES:
        raise ValueError(f"device must be one of {list(DEVICES)}; got {device!r}")
    if (reason := refusal(str(device))) is not None:
        raise ValueError(reason)


def refusal(device: str) -> str | None:
    """Why ``device`` cannot be had here, or None; "auto" always can."""
    return _missing() if device == "gpu" else None


def on_gpu(device: str, work: float) -> bool:
    """Whether to go to the GPU: "auto" does so where there is one and a pass takes ``work >= WORTH`` products.

    On two cores such a pass takes about a millisecond; a few launches of kernels take a tenth of that. The constant
    follows from that estimate, it is not tuned.
    """
    return device == "gpu" or (device == "auto" and work >= WORTH and _missing() is None)


def cupy() -> Any:
    """CuPy; RuntimeError with the reason where it or a device is missing."""
    if (reason := _missing()) is not None:
        raise RuntimeError(reason)
    import cupy

    return cupy


def _missing() -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of toolkits that it looks for
            import cupy
    except ImportError as error:
        return f"device='gpu' needs CuPy, which cannot be imported ({error}): pip install opttree[gpu], or device='cpu'"
    return None if cupy.cuda.is_available() else "device='gpu' needs a CUDA device, and there is none; use device='cpu'"


def attribute(xp: Any, name: str) -> int:
    """A number about the current device, as CUDA calls it."""
    return int(xp.cuda.Device().attributes[name])


def lacking(xp: Any, needed: float, what: str, lower: str, idle: bool = False) -> str | None:
    """A sentence where the device has less than ``needed`` bytes for ``what`` left, or None.

    ``lower`` names the options that ask for less; with ``idle`` all its memory counts, not what is free.
    """
    free, total = xp.cuda.runtime.memGetInfo()
    free = total if idle else free + xp.get_default_memory_pool().free_bytes()
    needed += FRAMES * attribute(xp, "MaxThreadsPerMultiProcessor") * attribute(xp, "MultiProcessorCount")
    if needed <= free:
        return None
    return _sentence(f"{what}, about {needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free", lower)


@contextmanager
def memory_errors(what: str, lower: str) -> Iterator[None]:
    """Within, memory that the device does not give becomes one sentence."""
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
