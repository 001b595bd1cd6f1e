"""CuPy on a CPU, as far as opttree uses it: NumPy arrays, and raw kernels whose CUDA C is compiled with the C compiler.

It holds callers to what CuPy wants: no mixing of arrays of the two kinds, scalars of the kernel's very types.
"""

import ctypes
import re
import shutil
import subprocess
import tempfile
import types
from functools import cache
from pathlib import Path

import array_api_compat.numpy
import numpy as np

HERE = Path(__file__).parent
COMPILER = shutil.which("cc") or shutil.which("gcc")
SHARED = 232448  # bytes that a block may have, as on an H100
CTYPES = {"int": ctypes.c_int, "wide": ctypes.c_longlong, "float": ctypes.c_float, "double": ctypes.c_double}
NUMPY = {"int": np.int32, "wide": np.int64, "float": np.float32, "double": np.float64}


class Array(np.ndarray):
    """An array "on the device": refuses to meet NumPy's own."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        for value in (*inputs, *(out or ())):
            if type(value) is np.ndarray and value.ndim:
                raise TypeError("Unsupported type <class 'numpy.ndarray'>")
        plain = [np.asarray(v) if isinstance(v, Array) else v for v in inputs]
        if out is not None:
            options["out"] = tuple(np.asarray(v) for v in out)
        result = getattr(ufunc, method)(*plain, **options)
        if out is not None:
            return out[0]
        return wrapped(result)


def wrapped(value):
    if isinstance(value, (tuple, list)):
        return type(value)(wrapped(v) for v in value)
    return np.asarray(value).view(Array) if isinstance(value, (np.ndarray, np.generic)) else value


def on_device(function):
    def call(*args, **options):
        flat = [a for arg in args for a in (arg if isinstance(arg, (list, tuple)) else (arg,))]
        if any(type(a) is np.ndarray for a in flat):
            raise TypeError(f"{function.__name__}: Unsupported type <class 'numpy.ndarray'>")
        return wrapped(function(*args, **options))

    return call


class Module(types.ModuleType):
    """The module ``cupy``; ``free`` is the memory that it says is free, and no more is handed out at a time."""

    free = total = 1 << 34

    def __getattr__(self, name):
        value = getattr(array_api_compat.numpy, name)
        return on_device(value) if callable(value) and not isinstance(value, type) else value


class RawKernel:
    """A kernel of a `RawModule`."""

    max_dynamic_shared_size_bytes = 48 << 10
    launches = 0  # of all kernels

    def __init__(self, launch, types):
        self.launch, self.types = launch, types

    def __call__(self, grid, block, args, *, shared_mem=0):
        RawKernel.launches += 1
        assert shared_mem <= self.max_dynamic_shared_size_bytes <= SHARED, "more shared memory than was asked for"
        assert len(args) == len(self.types), f"{len(args)} arguments for {len(self.types)}"
        values = []
        for value, kind in zip(args, self.types, strict=True):
            base = kind.removesuffix("*")
            if kind.endswith("*"):
                assert isinstance(value, Array), f"{kind} got {type(value)}"
                assert value.dtype == NUMPY[base], f"{kind} got {value.dtype}"
                assert value.flags.c_contiguous
                values.append(ctypes.c_void_p(value.ctypes.data))
            else:
                assert type(value) is NUMPY[base], f"{kind} got {type(value)}"
                values.append(CTYPES[base](value))
        grid, block = (*grid, 1, 1)[:3], (*block, 1, 1)[:3]
        assert min(*grid, *block) >= 1
        assert grid[1] <= 65535
        assert self.launch(grid[0], grid[1], block[0], ctypes.c_long(shared_mem), *values) == 0, (
            "some threads did not reach a barrier"
        )


class RawModule:
    """CUDA C, compiled as C; the name ``real`` of a floating type is a macro of it."""

    def __init__(self, *, code):
        self.built, self.signatures = compiled(code)

    def get_function(self, name):
        return RawKernel(getattr(self.built, f"launch_{name}"), self.signatures[name])


@cache
def compiled(code):
    real = re.search(r"^#define real (\w+)$", code, re.MULTILINE)[1]
    signatures, launchers = {}, []
    for name, given in re.findall(r"KERNEL void (\w+)\((.*?)\)\n\{", code, re.DOTALL):
        parts = [
            re.sub(r"\bconst\b|\b__restrict__\b", " ", part).replace("*", " * ").split() for part in given.split(",")
        ]
        signatures[name] = ["".join(part[:-1]).replace("real", real) for part in parts]
        kinds = [" ".join(part[:-1]) for part in parts]
        fields = "".join(f"{kind} a{i}; " for i, kind in enumerate(kinds))
        formal = "".join(f", {kind} a{i}" for i, kind in enumerate(kinds))
        names = [f"args_{name}.a{i}" for i in range(len(kinds))]
        taken = "".join(f"{n} = a{i}; " for i, n in enumerate(names))
        launchers.append(
            f"static struct {{ {fields} }} args_{name};\n"
            f"static void run_{name}(void) {{ {name}({', '.join(names)}); }}\n"
            f"int launch_{name}(int x, int y, int threads, long bytes{formal}) "
            f"{{ {taken} shared_size = bytes; return emulate(run_{name}, x, y, threads); }}\n"
        )
    code = re.sub(r"extern __shared__ (\w+) (\w+)\[\];", r"\1 *\2 = (\1 *)shared_memory;", code)
    text = '#include "cuda.h"\n' + code + "\n" + "\n".join(launchers)
    command = [COMPILER, "-O1", "-w", "-fno-strict-aliasing", "-shared", "-fPIC", f"-I{HERE}", f"-DSHARED={SHARED}"]
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder, "kernels.c"), Path(folder, "kernels.so")
        source.write_text(text)
        run = subprocess.run([*command, str(source), "-o", str(built), "-lm"], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr[:3000]
        return ctypes.CDLL(str(built)), signatures


class OutOfMemoryError(MemoryError):
    """As CuPy's."""


def module() -> Module:
    """A new stand-in for the module ``cupy``."""
    cupy = Module("cupy")
    cupy.ndarray, cupy.RawModule = Array, RawModule
    cupy.asarray = lambda value, dtype=None: np.array(value, dtype).view(Array)
    cupy.asnumpy = lambda value: np.array(value)

    def allocate(shape, dtype=np.float64):
        array = np.full(shape, 123, dtype).view(Array)  # nobody may count on what is in there
        if array.nbytes > cupy.free:
            raise OutOfMemoryError(f"Out of memory allocating {array.nbytes} bytes")
        return array

    cupy.empty = allocate
    cupy.zeros = lambda shape, dtype=np.float64: np.zeros(shape, dtype).view(Array)
    cupy.argsort = lambda a, axis=-1, kind=None: np.argsort(a, axis, "stable").view(Array)
    stream = types.SimpleNamespace(synchronize=lambda: None)
    device = types.SimpleNamespace(
        id=0,
        attributes={
            "MultiProcessorCount": 3,
            "MaxThreadsPerMultiProcessor": 1024,
            "MaxSharedMemoryPerBlockOptin": SHARED,
        },
    )
    cupy.cuda = types.SimpleNamespace(
        is_available=lambda: True,
        Device=lambda: device,
        get_current_stream=lambda: stream,
        runtime=types.SimpleNamespace(is_hip=False, memGetInfo=lambda: (cupy.free, cupy.total)),
        memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
    )
    cupy.get_default_memory_pool = lambda: types.SimpleNamespace(free_bytes=lambda: 0, free_all_blocks=lambda: None)
    return cupy
