"""Registers, local memory and spills of the GPU kernels, for sm_80, sm_90 and sm_100: neither a GPU nor nvcc is needed.

Compiled by NVIDIA's run-time compiler (``pip install cuda-bindings nvidia-cuda-nvrtc``), for two processors in float32
and float64. Variants are the losses, aggregations and leaves of the smooth tree, by depth and number of outputs, and
GradTree's dense tree. A kernel may use 255 registers a thread; what does not fit goes to local memory (spills), as do
arrays that are indexed by variables (the rest of the stack). Variants of default options are marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from experiments.benchmarks.common import Row, script
from opttree.kernels.dense import fused as fused_dense, walk as dense
from opttree.kernels.losses import codes
from opttree.kernels.smooth import fused, walk as smooth

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
SHARED = {"sm_80": 163 << 10, "sm_90": 227 << 10, "sm_100": 227 << 10}  # bytes of shared memory of a block
FEATURES = 18  # as many as elevators has
DEPTHS = (3, 4, 8, 12)
LOSSES = {"squared": codes.SQUARED, "log": codes.LOG, "given": codes.TABLE}
AGGREGATIONS = {"expected": codes.EXPECTED, "mixture": codes.MIXTURE}
INDICES = {"entmax": codes.ENTMAX, "gumbel": codes.GUMBEL, "soft": codes.SOFT}
REPORT = re.compile(
    r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
    r".*?Used (\d+) registers",
    re.DOTALL,
)


class Resources(NamedTuple):
    """What a kernel takes per thread: registers, and bytes of local memory, of spills written and read."""

    registers: int
    stack: int
    spills_written: int
    spills_read: int


class Variant(NamedTuple):
    """Kernels of one form; ``default`` names the methods that use it at their default options."""

    name: str
    dtype: str
    depth: int
    outputs: int
    default: str
    form: Any

    def program(self, limit: int) -> str:
        """The source, for a device with ``limit`` bytes of shared memory for a block."""
        if isinstance(self.form, dense.Form):
            return fused_dense.program(self.form, self.dtype)
        return fused.program(self.form, fused.sizes(self.form, self.dtype, limit), self.dtype)


def missing() -> str | None:
    """Why nothing can be compiled, or None."""
    try:
        from cuda.bindings import nvrtc

        status, *_version = nvrtc.nvrtcVersion()
    except (ImportError, OSError, RuntimeError) as error:
        return f"NVIDIA's run-time compiler is missing ({error}): pip install cuda-bindings nvidia-cuda-nvrtc"
    return None if status == nvrtc.nvrtcResult.NVRTC_SUCCESS else f"NVIDIA's run-time compiler says {status.name}"


def compiled(code: str, architecture: str) -> dict[str, Resources]:
    """The kernels of a source and what they take; RuntimeError with the compiler's words where it refuses."""
    from cuda.bindings import nvrtc

    _status, program = nvrtc.nvrtcCreateProgram(code.encode(), b"kernels.cu", 0, [], [])
    options = [f"--gpu-architecture={architecture}".encode(), b"--ptxas-options=-v"]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    _status, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytes(size)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(program)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise RuntimeError(log.decode())
    found = {}
    for name, stack, written, read, registers in REPORT.findall(log.decode()):
        found[name] = Resources(int(registers), int(stack), int(written), int(read))
    return found


def variants(depths: tuple[int, ...] = DEPTHS, outputs: tuple[int, ...] = (1, 2, 3, 10)) -> Iterator[Variant]:
    """All kinds of kernels, at some depths and numbers of outputs."""
    for dtype in ("float32", "float64"):
        for depth in depths:
            for loss, aggregation, leaves, K in _kinds(outputs):
                default = _methods(loss, aggregation, leaves, dtype) if K <= 3 else ""
                linear = int(leaves == "linear")
                K_of_form = K if loss != "given" else 0
                form = smooth.Form(depth, 0, 0.0, LOSSES[loss], AGGREGATIONS[aggregation], FEATURES, K_of_form, linear)
                yield Variant(f"{loss}, {aggregation}, {leaves}", dtype, depth, K, default, form)
            for loss, index in ((loss, index) for loss in ("squared", "log") for index in INDICES):
                K = 1 if loss == "squared" else 3
                form = dense.Form(depth, FEATURES, K, LOSSES[loss], INDICES[index], 0.0, 0.0)
                default = "gradtree" if index == "entmax" and dtype == "float32" else ""
                yield Variant(f"dense, {loss}, {index}", dtype, depth, K, default, form)


def _kinds(outputs: tuple[int, ...]) -> Iterator[tuple[str, str, str, int]]:
    for aggregation in AGGREGATIONS:
        for leaves in ("constant", "linear"):
            for K in outputs:
                if K < 3:
                    yield "squared", aggregation, leaves, K
                if K > 1:
                    yield "log", aggregation, leaves, K
    yield "given", "expected", "constant", 1


def _methods(loss: str, aggregation: str, leaves: str, dtype: str) -> str:
    """The methods of `opttree.methods` that use such a form by default."""
    if aggregation == "mixture":
        return "orrt" if dtype == "float64" and leaves == "linear" else ""
    if dtype == "float64":  # `GETRegressor` has linear leaves in float64, the solver `GET` in float32
        return {"given": "srt"}.get(loss, "get-linear, srt" if leaves == "linear" else "")
    return {"constant": "get", "linear": "get-linear"}[leaves] if loss != "given" else ""


def rows_of(variant: Variant) -> list[dict[str, Any]]:
    """A row for each kernel and architecture."""
    rows = []
    for architecture in ARCHITECTURES:
        found = compiled(variant.program(SHARED[architecture]), architecture)
        for kernel, taken in found.items():
            rows.append({**variant._asdict(), "architecture": architecture, "kernel": kernel, **taken._asdict()})
            del rows[-1]["form"]
    return rows


@script
def main(out: Path = Path("experiments/results/gpu"), threads: int = 2) -> Iterator[Row | str]:
    if (reason := missing()) is not None:
        raise SystemExit(reason)
    with ThreadPoolExecutor(threads) as pool:
        table = pd.DataFrame([row for some in pool.map(rows_of, variants()) for row in some])
    out.mkdir(parents=True, exist_ok=True)
    table.to_csv(out / "registers.csv", index=False)
    worst = table.groupby(["name", "dtype", "outputs", "default", "kernel"])[list(Resources._fields)].max()
    yield from worst[worst["registers"] > 64].reset_index().to_dict("records")
    yield f"table: {out / 'registers.csv'}"
