"""Base class for data on a device: upload, download, and error messages when memory runs out."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opttree import devices


class DeviceArrays:
    """Arrays of one floating dtype on a device.

    Parameters
    ----------
    xp : array namespace; None: CuPy (RuntimeError if CuPy or a device is missing).
    dtype : "float32" or "float64".
    what, lower : for the out-of-memory message: what needs the memory, and which options to reduce.
    """

    def __init__(self, xp: Any, dtype: str, what: str, lower: str) -> None:
        self.xp = devices.cupy() if xp is None else xp
        self.dtype, self._what, self._lower = dtype, what, lower

    def upload(self, array: ArrayLike) -> Any:
        """A copy of the array on the device."""
        return self.xp.asarray(np.array(array, self.dtype))

    def download(self, array: Any) -> NDArray[np.floating]:
        """A copy of a device array as a NumPy array."""
        return getattr(self.xp, "asnumpy", np.array)(array)

    def within_memory(self) -> AbstractContextManager[None]:
        """Context that turns out-of-memory errors of the device into a MemoryError with a one-sentence message."""
        return devices.memory_errors(self._what, self._lower)
