"""The GPU kernels go through the compilers of NVIDIA and AMD; neither needs a GPU."""

import itertools
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from experiments.benchmarks import registers
from opttree.kernels.dense import fused as fused_dense
from opttree.kernels.smooth import fused

VARIANTS = list(registers.variants(depths=(8,), outputs=(1, 3)))
DEFAULT = [variant for variant in registers.variants(depths=(8,), outputs=(1,)) if variant.default]
HIPCC = shutil.which("hipcc")


def report(*, every):
    """What each variant takes, by variant and architecture; `experiments.benchmarks.registers` has more of them.

    Those of default options are compiled, for one architecture each; with ``every`` for all architectures, and the
    others for one.
    """
    if (reason := registers.missing()) is not None:
        pytest.skip(reason)
    turns = zip(VARIANTS if every else DEFAULT, itertools.cycle(registers.ARCHITECTURES))
    jobs = [*dict.fromkeys([*(itertools.product(DEFAULT, registers.ARCHITECTURES) if every else ()), *turns])]
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda job: registers.compiled(job[0].program(registers.SHARED[job[1]]), job[1]), jobs)
        return dict(zip(jobs, found, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
def test_every_kind_of_kernel_is_compiled_and_none_spills_at_default_options(every):
    methods = set()
    for (variant, architecture), kernels in report(every=every).items():
        names = fused_dense.NAMES if variant.name.startswith("dense") else fused.NAMES
        assert set(kernels) == set(names), (variant, architecture)
        assert all(0 < taken.registers <= 255 for taken in kernels.values())
        if variant.default:
            methods |= set(variant.default.split(", "))
            for name, taken in kernels.items():
                assert taken.spills_written == taken.spills_read == 0, (variant, architecture, name, taken)
    assert methods == {"get", "get-linear", "srt", "orrt", "gradtree"}


def test_a_refusal_of_the_compiler_is_shown():
    if (reason := registers.missing()) is not None:
        pytest.skip(reason)
    with pytest.raises(RuntimeError, match='identifier "nothing" is undefined'):
        registers.compiled('extern "C" __global__ void f(float *x) { x[0] = nothing; }', "sm_90")
    many = """
extern "C" __global__ void f(double *x)
{
    double own[N];
#pragma unroll
    for (int i = 0; i < N; i++) own[i] = x[i * 32 + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < N; i++) x[i * 32 + threadIdx.x] = own[N - 1 - i] * own[i];
}
"""
    few, spilling = (registers.compiled(f"#define N {n}\n{many}", "sm_90")["f"] for n in (50, 300))
    assert few.spills_written == 0 < spilling.spills_written  # so that a spill would be seen
    assert few.registers < spilling.registers


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["gfx90a", "gfx1030"])  # warps of 64 and of 32 threads
def test_kernels_compile_for_amd(architecture, tmp_path):
    if HIPCC is None:
        pytest.skip("HIP's compiler, hipcc, is not installed")
    for variant in VARIANTS:
        if variant.dtype == "float32":
            source, built = tmp_path / "kernels.hip", tmp_path / "kernels.o"
            source.write_text("#include <hip/hip_runtime.h>\n" + variant.program(64 << 10))
            command = [HIPCC, f"--offload-arch={architecture}", "--cuda-device-only", "-c", "-O1", source, "-o", built]
            environment = {**os.environ, "HIP_PLATFORM": "amd"}
            run = subprocess.run(command, capture_output=True, text=True, env=environment)
            assert run.returncode == 0, (variant, run.stderr[:2000])
