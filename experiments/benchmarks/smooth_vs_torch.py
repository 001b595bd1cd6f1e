"""Loss and gradient of the smooth tree against PyTorch's autograd, interleaved in one run, on the same threads.

Per (n, p), depth and dtype: median milliseconds of `SmoothTreeProblem.value_and_grad` and of eager PyTorch (the usual
level-by-level program), their ratio, and the arithmetic rate of ours as a share of this machine's matrix-product peak.
Counted are 4 p operations per row and branch (the two products with the features) and 22 more (sigmoid, path
probability, expected loss and its derivative, each operation of the formulas once, the exponential as its polynomial).

With --anneal, conditional against dense evaluation over a whole anneal from gate scale 5 to 150 on elevators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numba
import numpy as np

from experiments.benchmarks.common import Row, alternating, beside, load, script, standard, timed
from opttree import SmoothTreeProblem, TreeProblem
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


def peak(dtype: str) -> float:
    """Operations per second of a large matrix product."""
    a = np.random.default_rng(0).uniform(size=(3000, 3000)).astype(dtype)
    return 2 * 3000**3 / min(timed(lambda: a @ a)[0] for _ in range(5))


def compare(depths: tuple[int, ...], dtypes: tuple[str, ...]) -> Iterator[Row | str]:
    import torch

    torch.set_num_threads(numba.get_num_threads())
    rng = np.random.default_rng(0)
    for dtype in dtypes:
        best = peak(dtype)
        yield f"{dtype}: matrix product {best / 1e9:.0f} GFLOP/s, {numba.get_num_threads()} threads"
        for (n, p), depth in product(SIZES, depths):
            problem = TreeProblem(rng.normal(size=(n, p)), rng.normal(size=n), depth=depth)
            smooth = SmoothTreeProblem(problem, alpha=3.0, dtype=dtype)
            theta = smooth.random_theta(rng)
            calls = {"ours": partial(smooth.value_and_grad, theta), "torch": torch_step(torch, smooth, theta)}
            row = beside(alternating(calls, 40 if depth <= 4 else 12 if depth <= 8 else 4), "ms")
            rate = 1e3 * n * smooth.n_branches / row["ours ms"] / best
            shares = {"products % of peak": 400.0 * p * rate, "all % of peak": 100.0 * (4 * p + POINTWISE) * rate}
            yield {"dtype": dtype, "n": n, "p": p, "depth": depth, **row, **shares}


def conditional(depths: tuple[int, ...], epochs: int) -> Iterator[Row]:
    X, y = load("elevators")
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    schedules = {"equal steps": np.linspace, "equal ratios": geometric}
    for depth, (schedule, scales) in product(depths, schedules.items()):
        problem = TreeProblem(X, standard(y), depth=depth)
        row: Row = {"depth": depth, "epochs": epochs, "schedule": schedule}
        for label, eps in (("dense", 0.0), ("conditional", 1e-6)):
            smooth = SmoothTreeProblem(problem, dtype="float32", eps=eps)
            smooth.value_and_grad(smooth.random_theta(np.random.default_rng(0)))
            rng = np.random.default_rng(0)
            theta, alphas = smooth.random_theta(rng), scales(5.0, 150.0, epochs)
            (descent,) = Adam(0.01).start([smooth], [theta], [alphas], [rng], closed_leaves=True)
            row[f"{label} s"] = timed(lambda descent=descent: list(run_all([descent])))[0]
            row[f"{label} R2"] = 1.0 - problem.mean_loss(problem.fit_leaves(smooth.harden(descent.thetas[0])))
        yield row | {"ratio": row["dense s"] / row["conditional s"]}


@script
def main(
    depths: tuple[int, ...] = (2, 4, 8, 12),
    dtypes: tuple[str, ...] = ("float32", "float64"),
    anneal: bool = False,
    epochs: int = 3000,
) -> Iterator[Row | str]:
    return conditional(tuple(d for d in depths if d >= 8), epochs) if anneal else compare(depths, dtypes)
