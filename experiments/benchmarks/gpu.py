"""The smooth tree on a GPU, by itself on a machine that has one: milliseconds, shares of the roofline, what bounds it.

Per (n, p), depth and number of starts: median milliseconds of one loss and gradient of all starts by the fused kernels,
by the array functions on CuPy, by eager PyTorch on the same GPU, and by the compiled CPU kernel on two threads, one
start after another, interleaved in one run. The roofline is that of a large float32 matrix product and of a copy in
memory, both measured here: of the operations and bytes that the work must take, whichever allows less. Operations are
counted as in `smooth_vs_torch`; bytes are the rows once, and theta and its gradient, of every start. A case that does
not fit is left empty.

Then, per case, where the time of a step of Adam goes, kernel by kernel, with registers, shared and local memory, and
blocks on a processor at a time; seconds of GET with ten starts at depth 8 on elevators (on random numbers of its size
where the data set is missing), annealed only, whole, and as printed; and milliseconds of an epoch of three starts of
GradTree on random rows.

Tables go to --out as gpu_kernels.csv, gpu_phases.csv, gpu_get.csv, gpu_gradtree.csv. For Nsight:
``ncu --set full --profile-from-start off python -m experiments.benchmarks.gpu --profile``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numba
import numpy as np
import pandas as pd

from experiments.benchmarks.common import Row, alternating, load, median_seconds, script, standard
from experiments.benchmarks.smooth_vs_torch import POINTWISE
from opttree import DenseTreeProblem, SmoothTreeProblem, TreeProblem
from opttree.kernels.smooth import fused
from opttree.kernels.smooth.vectors import BLOCK
from opttree.problems.smooth.batch import SmoothBatch
from opttree.runtime import devices
from solvers import GET, GradTree, solve
from solvers.descent import Adam
from solvers.gradtree.descent import descents

ALPHA = 3.0
CPU_THREADS = 2
ROUNDS = 7
PARTS = ("kernels", "phases", "get", "gradtree")


class Case:
    """S starts of one depth on n random rows of p features in float32, and one step for each contestant."""

    def __init__(self, cp: Any, n: int, p: int, depth: int, n_starts: int) -> None:
        rng = np.random.default_rng(0)
        problem = TreeProblem(rng.normal(size=(n, p)), rng.normal(size=n), depth=depth)
        self.cp, self.n, self.p, self.depth, self.n_starts = cp, n, p, depth, n_starts
        self.cpu = SmoothTreeProblem(problem, alpha=ALPHA, dtype="float32")
        self.thetas = [self.cpu.random_theta(rng) for _ in range(n_starts)]

    def batch(self, *, use_fused: bool) -> SmoothBatch:
        """The rows on the device."""
        tables, penalties = [self.cpu.table] * self.n_starts, [self.cpu.penalty] * self.n_starts
        return SmoothBatch(tables, self.cpu.form, penalties, "float32", use_fused=use_fused)

    def ours(self, *, use_fused: bool) -> Callable[[], object]:
        """Loss and gradient, everything on the device."""
        batch = self.batch(use_fused=use_fused)
        theta, alpha = batch.upload(self.thetas), batch.upload(np.full(self.n_starts, ALPHA))
        if use_fused:
            return lambda: batch._launch(theta, alpha, *batch.every_row)
        from opttree.kernels.smooth import xp as arrays

        rows = batch._gathered(*batch.every_row)
        return lambda: arrays.evaluate(self.cp, theta, alpha, *rows, batch.form, batch.penalty)

    def torch(self, torch: Any) -> Callable[[], object]:
        """The usual level-by-level program by autograd, starts in front."""
        device, problem = torch.device("cuda"), self.cpu.problem
        X, y, w = (torch.tensor(a, dtype=torch.float32, device=device) for a in (problem.X, problem.Y, problem.w))
        parts = zip(*(self.cpu.unpack(theta)[:3] for theta in self.thetas), strict=True)
        A, b, values = (torch.tensor(np.stack(part), device=device, requires_grad=True) for part in parts)

        def step() -> None:
            for parameter in (A, b, values):
                parameter.grad = None
            S = torch.sigmoid(ALPHA * (b[:, None] - X @ A.transpose(1, 2)))
            P = torch.ones((self.n_starts, self.n, 1), device=device)
            for level in range(self.depth):
                s = S[:, :, 2**level - 1 : 2 ** (level + 1) - 1]
                P = torch.stack([P * s, P * (1 - s)], dim=3).reshape(self.n_starts, self.n, -1)
            (w[None, :, None] * P * (y[None] - values[:, None, :, 0]) ** 2).sum().backward()

        return step

    def on_cpu(self) -> None:
        """The starts one after another."""
        for theta in self.thetas:
            self.cpu.value_and_grad(theta)

    @property
    def work(self) -> tuple[float, float]:
        """Operations, and bytes that have to be moved."""
        branches = self.cpu.n_branches
        operations = float(self.n_starts) * self.n * branches * (4 * self.p + POINTWISE)
        return operations, 4.0 * self.n_starts * (self.n * (self.p + 2) + 2 * self.cpu.size)


def device_ms(cp: Any, step: Callable[[], object], repeats: int) -> float:
    """Milliseconds of one step, by the device's clock over ``repeats`` of them."""
    start, end = cp.cuda.Event(), cp.cuda.Event()
    start.record()
    for _ in range(repeats):
        step()
    end.record()
    end.synchronize()
    return cp.cuda.get_elapsed_time(start, end) / repeats


def roofs(cp: Any) -> tuple[float, float]:
    """Operations per second of a large float32 matrix product, and bytes per second of a copy."""
    a = cp.asarray(np.random.default_rng(0).uniform(size=(8192, 8192)).astype(np.float32))
    b, large = cp.empty_like(a), cp.empty(1 << 28, np.float32)
    other = cp.empty_like(large)
    product = min(device_ms(cp, lambda: cp.matmul(a, a, out=b), 3) for _ in range(3))
    copy = min(device_ms(cp, lambda: cp.copyto(other, large), 3) for _ in range(3))
    return 2e3 * 8192.0**3 / product, 2e3 * large.nbytes / copy


def fitting(make: Callable[[], Callable[[], object]]) -> Callable[[], object] | None:
    """The step after its first run (which compiles), or None where it does not fit into memory."""
    try:
        step = make()
        step()
        return step
    except (MemoryError, RuntimeError) as error:  # PyTorch's lack of memory is a RuntimeError
        print(f"  left out: {' '.join(str(error).split())[:200]}", flush=True)
        return None


def kernels(cp: Any, torch: Any, cases: list[tuple[int, int, int, int]], cpu: bool) -> Iterator[Row]:
    """The contestants' milliseconds, interleaved, per case."""
    flops, bandwidth = roofs(cp)
    print(f"float32 matrix product {flops / 1e12:.1f} TFLOP/s, copy {bandwidth / 1e9:.0f} GB/s")
    for n, p, depth, n_starts in cases:
        case = Case(cp, n, p, depth, n_starts)
        makers = {
            "fused": lambda c=case: c.ours(use_fused=True),
            "arrays": lambda c=case: c.ours(use_fused=False),
            **({"torch": lambda c=case: c.torch(torch)} if torch else {}),
        }
        steps = {}
        for name, make in makers.items():
            if (step := fitting(make)) is not None:
                steps[name] = step
            cp.get_default_memory_pool().free_all_blocks()
        repeats = {name: max(1, int(20.0 / max(device_ms(cp, step, 1), 1e-3))) for name, step in steps.items()}
        runs: dict[str, list[float]] = {name: [] for name in steps}
        for _ in range(ROUNDS):
            for name, step in steps.items():
                runs[name].append(device_ms(cp, step, min(repeats[name], 50)))
        taken = {name: median(run) for name, run in runs.items()}
        if cpu:
            numba.set_num_threads(min(CPU_THREADS, numba.config.NUMBA_NUM_THREADS))
            taken["numba"] = 1e3 * median_seconds(case.on_cpu, 3)
        operations, moved = case.work
        best = 1e3 * max(operations / flops, moved / bandwidth)
        row = {"n": n, "p": p, "depth": depth, "starts": n_starts}
        row |= {f"{name} ms": ms for name, ms in taken.items()}
        if "fused" in taken:
            row["bound by"] = "operations" if operations / flops > moved / bandwidth else "memory"
            row["share of roofline"] = best / taken["fused"]
            row |= {f"{name} / fused": ms / taken["fused"] for name, ms in taken.items() if name != "fused"}
        yield row
        del steps, step
        cp.get_default_memory_pool().free_all_blocks()
        if torch:
            torch.cuda.empty_cache()


class Recorder:
    """Launches a kernel, and can launch it again."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __call__(self, grid: Any, block: Any, args: Any, **options: Any) -> None:
        """As a kernel is called."""
        self.grid, self.block, self.args, self.options = grid, block, args, options
        self.again()

    def again(self) -> None:
        """The last launch once more."""
        self.kernel(self.grid, self.block, self.args, **self.options)


def phases(cp: Any, cases: list[tuple[int, int, int, int]]) -> Iterator[Row]:
    """Milliseconds of each kernel of a step of Adam, and what it asks of a processor."""
    for n, p, depth, n_starts in cases:
        case = Case(cp, n, p, depth, n_starts)
        batch = case.batch(use_fused=True)
        theta, alpha = batch.upload(case.thetas), batch.upload(np.full(n_starts, ALPHA))
        state = batch.upload(np.zeros_like(case.thetas)), batch.upload(np.zeros_like(case.thetas))
        moments = Adam().moments
        recorders = {name: Recorder(getattr(batch._space, name)) for name in ("lay_out", "walk", "gather", "adam")}
        spied = batch._space._replace(**recorders)
        fused.evaluate(spied, theta, alpha, batch.data, *batch.every_row, batch.form, batch.penalty)
        fused.adam_step(spied, theta, state, 1, 0.01, moments, True)
        same = {"n": n, "p": p, "depth": depth, "starts": n_starts}
        for name, own in recorders.items():
            about, threads, shared = own.kernel.attributes, own.block[0], own.options.get("shared_mem", 0)
            of_kernel = own.kernel.kernel.ptr, threads, shared
            yield same | {
                "kernel": name,
                "ms": device_ms(cp, own.again, 20),
                "blocks": own.grid[0] * own.grid[1],
                "threads": threads,
                "registers": about["num_regs"],
                "shared bytes": shared,
                "local bytes": about["local_size_bytes"],
                "blocks per processor": cp.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(*of_kernel),
            }
        step = partial(batch.step, theta, state, 1, 0.01, alpha, batch.every_row, moments, True)
        yield same | {"kernel": "a step, launches and all", "ms": device_ms(cp, step, 50)}


def get_runs(cpu: bool) -> Iterator[Row]:
    """Seconds of GET with ten starts at depth 8 on elevators; the second of two runs, so that all is compiled."""
    try:
        X, y = load("elevators")
        name = "elevators"
    except (ValueError, OSError):
        rng = np.random.default_rng(0)
        X, y, name = rng.normal(size=(16599, 18)), rng.normal(size=16599), "random numbers"
    scaled = (X - X.min(axis=0)) / np.ptp(X, axis=0), (y - y.min()) / np.ptp(y)
    annealed = GET(n_starts=10, race_rows=None, portfolio=(), sweeps=0, polish=None)
    solvers = {
        "ten starts annealed on all rows": (annealed, (standard(X), standard(y))),
        "GET, ten starts": (GET(n_starts=10), (standard(X), standard(y))),
        "GET.paper: 10 x 2 x 3000 epochs, polish": (GET.paper(10), scaled),
    }
    for label, (solver, (features, target)) in solvers.items():
        problem = TreeProblem(features, target, depth=8)
        for device in ("gpu", "cpu") if cpu and "paper" not in label else ("gpu",):
            numba.set_num_threads(min(CPU_THREADS, numba.config.NUMBA_NUM_THREADS))
            run = replace(solver, device=device)
            if solver.polish not in (None, "auto"):
                run = replace(run, polish=replace(solver.polish, device=device))
            if device == "gpu":
                solve(problem, run, random_state=1, time_limit=20)
            result = solve(problem, run, random_state=0, time_limit=300)
            yield {
                "data": name,
                "solver": label,
                "device": device,
                "seconds": result.seconds,
                "R2 in training": 1.0 - result.objective / float(np.var(target)),
                "ended": result.termination.name,
            }


def gradtree(cpu: bool) -> Iterator[Row]:
    """Milliseconds of an epoch of three starts in batches of 512 rows, per (features, depth)."""
    rng = np.random.default_rng(0)
    for p, depth in ((14, 8), (36, 8), (57, 10), (100, 10)):
        X, y = rng.normal(size=(8192, p)), rng.integers(0, 2, 8192)
        dense = DenseTreeProblem(TreeProblem(X, y, depth=depth, splits="axis", loss="log"))
        options, rngs = GradTree(epochs=10_000, patience=10_000), rng.spawn(3)
        thetas = [dense.random_theta(own) for own in rngs]
        (there,) = descents(replace(options, device="gpu"), dense, dense, thetas, rngs)
        contestants: dict[str, Callable[[], object]] = {"gpu ms": partial(there.advance, 1)}
        if cpu:
            here = descents(options, dense, dense, thetas, rngs)
            contestants["cpu ms, one thread"] = lambda runs=here: [run.advance(1) for run in runs]
        taken = alternating(contestants, ROUNDS)
        yield {"p": p, "depth": depth, **{name: 1e3 * median(times) for name, times in taken.items()}}


@script
def main(
    sizes: tuple[str, ...] = ("16599x18", "1000000x30"),
    depths: tuple[int, ...] = (8, 12),
    starts: tuple[int, ...] = (1, 10),
    parts: Annotated[tuple[str, ...], PARTS] = PARTS,
    no_cpu: Annotated[bool, "leave out the CPU, which takes minutes"] = False,
    profile: Annotated[bool, "one evaluation of the first case, for ncu or nsys"] = False,
    out: Path = Path("out"),
) -> Iterator[Row | str]:
    if (reason := devices.refusal("gpu")) is not None:
        raise SystemExit(reason)
    if (cp := devices.backend("gpu").kernels) is None:
        raise SystemExit("these are measurements of CUDA kernels, by CuPy, which is missing: pip install opttree[gpu]")
    cases = [(*map(int, size.split("x")), depth, n) for size, depth, n in product(sizes, depths, starts)]
    if profile:
        step = Case(cp, *cases[0]).ours(use_fused=True)
        step()
        with cp.cuda.profile():
            step()
        return
    try:
        import torch
    except ImportError:
        torch = None
    if torch is not None and not torch.cuda.is_available():
        torch = None
    if torch is None:
        yield "PyTorch with CUDA is missing: its column is left out"
    properties = cp.cuda.runtime.getDeviceProperties(cp.cuda.Device().id)
    yield f"{properties['name'].decode()}, CuPy {cp.__version__}, blocks of {BLOCK} rows"
    out.mkdir(parents=True, exist_ok=True)
    made = {
        "kernels": lambda: kernels(cp, torch, cases, not no_cpu),
        "phases": lambda: phases(cp, cases),
        "get": lambda: get_runs(not no_cpu),
        "gradtree": lambda: gradtree(not no_cpu),
    }
    for part in parts:
        rows = []
        for row in made[part]():
            rows.append(row)
            yield row
        pd.DataFrame(rows).to_csv(out / f"gpu_{part}.csv", index=False)
