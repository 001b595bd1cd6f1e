"""What all that keeps arrays on a device has in common: there, back, and one sentence where memory ends."""

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
    xp : array namespace; None: CuPy (RuntimeError where there is no CuPy or no device).
    dtype : "float32" or "float64".
    what, lower : for the sentence where memory ends: what takes it, and the options that ask for less.
    """

    def __init__(self, xp: Any, dtype: str, what: str, lower: str) -> None:
        self.xp = devices.cupy() if xp is None else xp
        self.dtype, self._what, self._lower = dtype, what, lower

    def upload(self, array: ArrayLike) -> Any:
        """An array on the device, a copy."""
        return self.xp.asarray(np.array(array, self.dtype))

    def download(self, array: Any) -> NDArray[np.floating]:
        """A device's array as NumPy's, a copy."""
        return getattr(self.xp, "asnumpy", np.array)(array)

    def within_memory(self) -> AbstractContextManager[None]:
        """Within, memory that the device does not give becomes one sentence."""
        return devices.memory_errors(self._what, self._lower)
