"""Devices that evaluate problems and hold arrays: the CPU, or a GPU through CuPy or PyTorch (both optional)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opttree.runtime.memory import available_memory

Device = Literal["cpu", "gpu", "torch", "auto"]
DEVICES = get_args(Device)
FRAMES = 4096  # bytes of local memory that a CUDA device reserves for each thread that can be resident
WORTH = 20_000_000  # rows x splits x features x starts of a pass from which "auto" takes the GPU: see `on_gpu`
TORCH = (2, 7)  # the first version of PyTorch that says which accelerator is available
CREATION = {"arange", "asarray", "empty", "full", "ones", "zeros"}  # functions that take a device


def require(device: object, dtype: str = "float32") -> None:
    """ValueError for an unknown or unavailable device, or one that has no numbers of ``dtype``."""
    if device not in DEVICES:
        raise ValueError(f"device must be one of {list(DEVICES)}; got {device!r}")
    if (reason := refusal(str(device), dtype)) is not None:
        raise ValueError(reason)


def refusal(device: str, dtype: str = "float32") -> str | None:
    """Why ``device`` is not available for numbers of ``dtype``, or None; "auto" always is."""
    if device not in ("gpu", "torch"):
        return None
    if device == "torch" and (reason := _no_torch()) is not None:
        return f"device='torch' needs {reason}: see pytorch.org, or device='cpu'"
    if device == "gpu" and (reason := _no_cupy()) is not None and _accelerator() is None:
        return f"device='gpu' needs {reason}"
    if dtype == "float64" and resolved(device) == "torch" and getattr(_accelerator(), "type", None) == "mps":
        return (
            f"device must have float64, and Apple's (mps) has not; use another, or a method in float32; got {device!r}"
        )
    return None


def on_gpu(device: str, work: float) -> bool:
    """Whether to leave the CPU's kernels; "auto" does if CuPy has a GPU and a pass takes ``work >= WORTH`` products.

    The constant is an estimate and not tuned: such a pass is thought to take two cores about a millisecond, and a few
    kernel launches a tenth of that. "auto" never takes PyTorch, whose speed here has not been measured.
    """
    return device in ("gpu", "torch") or (device == "auto" and work >= WORTH and _no_cupy() is None)


def resolved(device: str) -> Literal["gpu", "torch"]:
    """What evaluates a problem off the CPU: "gpu", the CUDA kernels by CuPy; or "torch", array functions by PyTorch.

    "torch" is always PyTorch: its accelerator (CUDA, XPU or Apple's MPS) where it has one, else the CPU. "gpu" and
    "auto" are CuPy where it has a device; "gpu" is PyTorch's accelerator where not.
    """
    return "torch" if device == "torch" or _no_cupy() is not None else "gpu"


def has_own_memory(device: str) -> bool:
    """Whether a device that may be taken holds its arrays elsewhere than in this process's memory."""
    if device == "torch":
        return _accelerator() is not None
    return device == "gpu" or (device == "auto" and _no_cupy() is None)


def backend(device: str) -> Backend:
    """The arrays of "gpu" or "torch", as `resolved` gives them; RuntimeError with the reason if it is missing."""
    if (reason := refusal(device)) is not None:
        raise RuntimeError(reason)
    return TorchBackend() if resolved(device) == "torch" else CupyBackend()


def _no_cupy() -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about CUDA toolkits that CuPy looks for
            import cupy
    except (ImportError, OSError, RuntimeError) as error:  # the last two: its libraries are missing or damaged
        how = "pip install opttree[gpu], or device='cpu'"
        return f"CuPy, which cannot be imported ({error}), or PyTorch with a GPU: {how}"
    return None if cupy.cuda.is_available() else "a CUDA device, and there is none; use device='cpu'"


def _no_torch() -> str | None:
    try:
        import torch
    except (ImportError, OSError, RuntimeError) as error:
        return f"PyTorch, which cannot be imported ({error})"
    version = torch.__version__
    if tuple(map(int, version.split(".")[:2])) >= TORCH:
        return None
    return f"PyTorch 2.7 or newer, and {version} is installed"


def _accelerator() -> Any:
    """PyTorch's device other than the CPU, or None."""
    if _no_torch() is not None:
        return None
    from torch import accelerator

    return accelerator.current_accelerator(check_available=True)


class Backend:
    """An array namespace of the array API standard, with transfers from and to NumPy; by itself, on the CPU.

    ``xp`` is the namespace; functions that make arrays put them on its device. ``kernels`` is CuPy where CUDA kernels
    can be compiled, else None.
    """

    name = "cpu"
    kernels: Any = None

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def asarray(self, array: ArrayLike) -> Any:
        """A copy of NumPy's array on the device."""
        return self.xp.asarray(np.array(array))

    def asnumpy(self, array: Any) -> NDArray[Any]:
        """A copy of the device's array as NumPy's."""
        return np.array(array)

    def wait(self) -> None:
        """Wait until the device has finished all work."""

    def memory(self, idle: bool) -> float | None:
        """Bytes of the device's memory that are free, or with ``idle`` all of it; None where that is not known."""
        return None


class CupyBackend(Backend):
    """CuPy's arrays on its current device."""

    name = "gpu"

    def __init__(self) -> None:
        import cupy
        from array_api_compat import cupy as arrays

        super().__init__(arrays)
        self.kernels = cupy

    def asnumpy(self, array: Any) -> NDArray[Any]:
        """A copy of the device's array as NumPy's."""
        return self.kernels.asnumpy(array)

    def wait(self) -> None:
        """Wait until the device has finished all work."""
        self.kernels.cuda.get_current_stream().synchronize()

    def memory(self, idle: bool) -> float:
        """Bytes of memory, less what the device reserves for the threads of kernels."""
        cp = self.kernels
        free, total = cp.cuda.runtime.memGetInfo()
        has = cp.cuda.Device().attributes
        taken = FRAMES * has["MaxThreadsPerMultiProcessor"] * has["MultiProcessorCount"]
        return (total if idle else free + cp.get_default_memory_pool().free_bytes()) - taken


class _Placed:
    """An array namespace whose functions that make arrays put them on one device."""

    def __init__(self, xp: Any, device: Any) -> None:
        self._xp, self._device = xp, device

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._xp, name)
        return partial(value, device=self._device) if name in CREATION else value


class TorchBackend(Backend):
    """PyTorch's tensors on its accelerator, or on the CPU where it has none."""

    name = "torch"

    def __init__(self) -> None:
        import torch
        from array_api_compat import torch as arrays

        self.torch, self.accelerator = torch, _accelerator()
        super().__init__(_Placed(arrays, self.accelerator or torch.device("cpu")))

    def asnumpy(self, array: Any) -> NDArray[Any]:
        """A copy of the device's array as NumPy's."""
        return np.array(array.cpu().numpy())

    def wait(self) -> None:
        """Wait until the device has finished all work."""
        if self.accelerator is not None:
            self.torch.accelerator.synchronize()

    def memory(self, idle: bool) -> float | None:
        """Bytes of memory, where PyTorch or, on the CPU, the system says it."""
        if self.accelerator is None:
            return available_memory()
        try:
            free, total = self.torch.accelerator.get_memory_info()
            cached = self.torch.accelerator.memory_reserved() - self.torch.accelerator.memory_allocated()
        except (AttributeError, NotImplementedError, RuntimeError):  # not for every kind of device
            return None
        return total if idle else free + cached


def lacking(device: Backend, needed: float, what: str, lower: str, idle: bool = False) -> str | None:
    """An error message if the device has less than ``needed`` bytes of memory for ``what``, or None.

    ``lower`` says which options to reduce; with ``idle``, total memory is compared instead of free memory.
    """
    free = device.memory(idle)
    if free is None or needed <= free:
        return None
    what = f"{what}, about {needed / 1e9:.3g} GB, and {max(free, 0.0) / 1e9:.3g} GB are free"
    return _sentence(device, what, lower)


@contextmanager
def memory_errors(device: Backend, what: str, lower: str) -> Iterator[None]:
    """Context that turns out-of-memory errors of the device into a MemoryError with a one-sentence message."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        said = str(error).lower()
        if not isinstance(error, MemoryError) and not any(
            words in said for words in ("out_of_memory", "out of memory", "memoryallocation", "allocate memory")
        ):
            raise
        raise MemoryError(_sentence(device, f"{what} ({error})", lower)) from error


def _sentence(device: Backend, what: str, lower: str) -> str:
    return f"device must have memory for {what}; {lower}, or use device='cpu'; got device={device.name!r}"


class DeviceArrays:
    """Arrays of one floating dtype on a device.

    Parameters
    ----------
    backend : Backend
        The backend of the device.
    dtype : {"float32", "float64"}
        Floating type of the arrays.
    what, lower : str
        For the error message where memory ends: what takes it, and the options that ask for less.
    """

    def __init__(self, backend: Backend, dtype: str, what: str, lower: str) -> None:
        self.backend, self.xp = backend, backend.xp
        self.dtype, self._what, self._lower = dtype, what, lower

    def upload(self, array: ArrayLike) -> Any:
        """An array on the device, a copy."""
        return self.backend.asarray(np.asarray(array, self.dtype))

    def download(self, array: Any) -> NDArray[np.floating]:
        """A device's array as NumPy's, a copy."""
        return self.backend.asnumpy(array)

    def within_memory(self) -> AbstractContextManager[None]:
        """Context that raises MemoryError with one sentence where the device has not enough memory."""
        return memory_errors(self.backend, self._what, self._lower)
