"""Decomposition against all variables at once, and convergence with guarantees, on the smooth objective of SRTs.

1. NODEC-DR (proxies), the same with exact steps (k0 = 0) and L-BFGS on all variables minimise one objective from one
   clustering start: objective reached against seconds, after ten macro iterations of NODEC-DR and at the end, as a
   table and a figure.
2. NODEC with k0 = 0 until the gradient has a norm of 1e-6, or 2000 macro iterations: gradient norm and moves against
   macro iterations, as a table, a figure and CSV traces.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.optimize import minimize

from experiments.benchmarks.common import Row, load, script
from opttree import SmoothTreeProblem, SRTRegressor, Tree, TreeProblem
from opttree.runtime.calm import calm_threads
from solvers import NODEC, ClusterInit, solve
from solvers.soft.starts import soft_start


def all_variables(problem: TreeProblem, start: Tree, iterations: int) -> pd.DataFrame:
    """L-BFGS on the whole vector: seconds and objective of every evaluation."""
    smooth = SmoothTreeProblem(problem)
    rows: list[tuple[float, float]] = []
    began = time.perf_counter()

    def watched(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = smooth.value_and_grad(theta)
        rows.append((time.perf_counter() - began, value))
        return value, gradient

    with calm_threads():
        theta = soft_start(smooth, start, NODEC().steepness, np.random.default_rng(0))
        minimize(watched, theta, jac=True, method="L-BFGS-B", options={"maxiter": iterations, "ftol": 0, "gtol": 1e-7})
    return pd.DataFrame(rows, columns=["seconds", "smooth"])


def compare(name: str, depth: int, ax: Any) -> Row:
    """Three ways from one start."""
    problem, _scaling = SRTRegressor(depth).state(*load(name))
    start = solve(problem, ClusterInit(n_init=1, n_repeats=3), random_state=0).tree
    frames: dict[str, pd.DataFrame] = {}
    for label, k0 in (("NODEC-DR", NODEC().k0), ("NODEC, exact", 0)):
        for iterations in (1, 40):  # the first compiles
            result = solve(problem, NODEC(max_iter=iterations, k0=k0), start=start, random_state=0)
        frames[label] = result.trace.to_frame()[["seconds", "smooth"]]
    frames["L-BFGS, all variables"] = all_variables(problem, start, 1000)
    ten = float(frames["NODEC-DR"]["seconds"].iloc[10])
    row: Row = {"data": name, "depth": depth, "ten at s": ten}
    for label, frame in frames.items():
        row[f"{label}: then"] = float(frame["smooth"][frame["seconds"] <= ten].min())
        row |= {f"{label}: end": float(frame["smooth"].min()), f"{label}: s": float(frame["seconds"].iloc[-1])}
        ax.plot(frame["seconds"], frame["smooth"].cummin(), label=label)
    ax.set(xscale="log", xlabel="seconds", ylabel="smooth objective")
    return row


def to_a_stationary_point(name: str, depth: int, ax: Any, out: Path) -> Row:
    """By exact steps."""
    problem, _scaling = SRTRegressor(depth).state(*load(name))
    result = solve(problem, NODEC(k0=0, max_iter=2000, tol=1e-6), random_state=0)
    frame = result.trace.to_frame()
    frame.to_csv(out / f"srt_convergence_{name}.csv", index=False)
    for column in ("gradient_norm", "split_move", "leaf_move"):
        ax.semilogy(frame["step"], frame[column], label=column.replace("_", " "))
    ax.set_xlabel("macro iterations")
    row = {"data": name, "depth": depth, "macro iterations": len(frame) - 1, "seconds": result.seconds}
    return row | {key: frame[key].iloc[-1] for key in ("gradient_norm", "smooth", "rises", "split_move", "leaf_move")}


@script
def main(
    data: tuple[str, ...] = ("yacht", "auto_mpg", "airfoil", "housing", "kin8nm", "cpu_small"),
    converge: tuple[str, ...] = ("yacht", "auto_mpg", "airfoil"),
    depth: int = 3,
    out: Path = Path("out"),
) -> Iterator[Row | str]:
    out.mkdir(exist_ok=True)
    ways = {
        "srt_objective_against_time": (data, compare, ()),
        "srt_convergence": (converge, to_a_stationary_point, (out,)),
    }
    for file, (names, way, more) in ways.items():
        columns = min(len(names), 3)
        shape = -(-len(names) // columns), columns
        figure, axes = plt.subplots(*shape, figsize=(4 * shape[1], 3.3 * shape[0]), squeeze=False)
        for name, ax in zip(names, axes.ravel(), strict=False):
            yield way(name, depth, ax, *more)
            ax.set_title(name, fontsize=10)
            ax.grid(alpha=0.25)
        axes[0, 0].legend(frameon=False, fontsize=8)
        figure.tight_layout()
        figure.savefig(out / f"{file}.png", dpi=150)
