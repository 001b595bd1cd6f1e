"""Loss and gradient of the smooth tree against PyTorch's autograd, interleaved in one run, on the same threads.

Per (n, p), depth and dtype: median milliseconds of `SmoothTreeProblem.value_and_grad` and of eager PyTorch (the usual
level-by-level program), their ratio, and the arithmetic rate of ours as a share of this machine's matrix-product peak.
Counted are 4 p operations per row and branch (the two products with the features) and 22 more (sigmoid, path
probability, expected loss and its derivative, each operation of the formulas once, the exponential as its polynomial).

With --anneal, conditional against dense evaluation over a whole anneal from gate scale 5 to 150 on elevators.

python -m experiments.benchmarks.smooth_vs_torch [--depths 2,4,8,12] [--dtypes float32,float64] [--anneal]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import product
from statistics import median
from typing import Any

import numba
import numpy as np

from opttree import SmoothTreeProblem, TreeProblem, datasets
from solvers import Adam
from solvers.descent import geometric, run_all

SIZES = ((8192, 8), (8192, 21), (16599, 18))
POINTWISE = 22


def torch_step(torch: Any, problem: SmoothTreeProblem, theta: np.ndarray) -> Callable[[], None]:
    """One evaluation of the same loss and gradient by autograd."""
    dtype = getattr(torch, problem.dtype)
    X, y, w = (torch.tensor(a, dtype=dtype) for a in (problem.problem.X, problem.problem.Y, problem.problem.w))
    parameters = [torch.tensor(part, dtype=dtype, requires_grad=True) for part in problem.unpack(theta)[:3]]

    def step() -> None:
        A, b, values = parameters
        for parameter in parameters:
            parameter.grad = None
        S = torch.sigmoid(problem.alpha * (b - X @ A.T))
        P = torch.ones(len(X), 1, dtype=dtype)
        for level in range(problem.problem.depth):
            s = S[:, 2**level - 1 : 2 ** (level + 1) - 1]
            P = torch.stack([P * s, P * (1 - s)], dim=2).reshape(len(X), -1)
        (w[:, None] * P * (y - values[:, 0]) ** 2).sum().backward()

    return step


def seconds(function: Callable[[], object]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def peak(dtype: str) -> float:
    """Operations per second of a large matrix product."""
    a = np.random.default_rng(0).uniform(size=(3000, 3000)).astype(dtype)
    return 2 * 3000**3 / min(seconds(lambda: a @ a) for _ in range(5))


def compare(depths: list[int], dtypes: list[str]) -> None:
    import torch

    torch.set_num_threads(numba.get_num_threads())
    rng = np.random.default_rng(0)
    for dtype in dtypes:
        best = peak(dtype)
        print(f"{dtype}: matrix product {best / 1e9:.0f} GFLOP/s, {numba.get_num_threads()} threads")
        for n, p in SIZES:
            for depth in depths:
                statement = TreeProblem(rng.normal(size=(n, p)), rng.normal(size=n), depth=depth)
                smooth = SmoothTreeProblem(statement, alpha=3.0, dtype=dtype)
                theta = smooth.random_theta(rng)
                theirs_step = torch_step(torch, smooth, theta)
                smooth.value_and_grad(theta)
                theirs_step()
                ours, theirs = [], []
                for _ in range(40 if depth <= 4 else 12 if depth <= 8 else 4):
                    ours += [seconds(lambda s=smooth, t=theta: s.value_and_grad(t)) for _ in range(5)]
                    theirs.append(seconds(theirs_step))
                mine, other = median(ours), median(theirs)
                work = n * smooth.n_branches
                rates = [work * ops / mine / best for ops in (4 * p, 4 * p + POINTWISE)]
                print(
                    f"  n = {n:5d}, p = {p:2d}, depth {depth:2d}: ours {1e3 * mine:8.3f} ms, PyTorch "
                    f"{1e3 * other:9.2f} ms, {other / mine:5.1f}x; of the peak: products {rates[0]:.0%}, all "
                    f"{rates[1]:.0%}",
                    flush=True,
                )


def anneal(depths: list[int], epochs: int) -> None:
    X, y = datasets.load("elevators", as_arrays=True)
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    y = (y - y.mean()) / y.std()
    schedules = {"equal steps": np.linspace, "equal ratios": geometric}
    for depth, (schedule, scales) in product(depths, schedules.items()):
        problem = TreeProblem(X, y, depth=depth)
        taken, found = {}, {}
        for eps in (0.0, 1e-6):
            smooth = SmoothTreeProblem(problem, dtype="float32", eps=eps)
            smooth.value_and_grad(smooth.random_theta(np.random.default_rng(0)))
            rng = np.random.default_rng(0)
            theta, alphas = smooth.random_theta(rng), scales(5.0, 150.0, epochs)
            (descent,) = Adam(0.01).start([smooth], [theta], [alphas], [rng], closed_leaves=True)
            taken[eps] = seconds(lambda d=descent: [None for _ in run_all([d])])
            found[eps] = problem.mean_loss(problem.fit_leaves(smooth.harden(descent.thetas[0])))
        print(
            f"elevators, depth {depth}, anneal 5 -> 150 in {epochs} {schedule}: dense {taken[0.0]:.2f} s, conditional "
            f"{taken[1e-6]:.2f} s, {taken[0.0] / taken[1e-6]:.1f}x; hard R2 {1 - found[0.0]:.4f} and "
            f"{1 - found[1e-6]:.4f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depths", default="2,4,8,12")
    parser.add_argument("--dtypes", default="float32,float64")
    parser.add_argument("--anneal", action="store_true")
    parser.add_argument("--epochs", type=int, default=3000, help="epochs of the anneal; default %(default)s")
    args = parser.parse_args()
    depths = [int(d) for d in args.depths.split(",")]
    if args.anneal:
        anneal([d for d in depths if d >= 8], args.epochs)
    else:
        compare(depths, args.dtypes.split(","))


if __name__ == "__main__":
    main()
