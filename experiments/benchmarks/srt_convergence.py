"""Decomposition against all variables at once, and convergence with guarantees, on the smooth objective of SRTs.

1. NODEC-DR (proxies), the same with exact steps (k0 = 0) and L-BFGS on all variables minimise one objective from one
   clustering start: objective reached against seconds, as a table and a figure.
2. NODEC with k0 = 0 until the gradient has a norm of 1e-6, or 2000 macro iterations: gradient norm and moves against
   macro iterations, as a figure and CSV traces.

python -m experiments.benchmarks.srt_convergence [--depth 3] [--out out]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.optimize import minimize

from opttree import SmoothTreeProblem, SRTRegressor, Tree, TreeProblem, datasets
from solvers import NODEC, ClusterInit, solve
from solvers.core.calm import calm_threads
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


def reached(frame: pd.DataFrame, seconds: float) -> float:
    """Least objective by then."""
    return float(frame["smooth"][frame["seconds"] <= seconds].min())


def compare(names: list[str], depth: int, out: Path) -> None:
    figure, axes = plt.subplots(2, -(-len(names) // 2), figsize=(4 * -(-len(names) // 2), 6.4), squeeze=False)
    for name, ax in zip(names, axes.ravel(), strict=False):
        problem, _scaling = SRTRegressor(depth).state(*datasets.load(name, as_arrays=True))
        start = solve(problem, ClusterInit(n_init=1, n_repeats=3), random_state=0).tree
        solvers = {"NODEC-DR": NODEC(max_iter=40), "NODEC, exact": NODEC(k0=0, max_iter=40)}
        for solver in solvers.values():
            solve(problem, NODEC(max_iter=1, k0=solver.k0), start=start, random_state=0)  # compile
        frames = {
            label: solve(problem, solver, start=start, random_state=0).trace.to_frame()[["seconds", "smooth"]]
            for label, solver in solvers.items()
        }
        frames["L-BFGS, all variables"] = all_variables(problem, start, 1000)
        ten = float(frames["NODEC-DR"]["seconds"].iloc[10])
        print(
            f"{name:12s} depth {depth}: after {ten:.3f} s (10 macro iterations of NODEC-DR) and at the end |",
            " | ".join(
                f"{label} {reached(frame, ten):.4f}, {frame['smooth'].min():.4f} in {frame['seconds'].iloc[-1]:.2f} s"
                for label, frame in frames.items()
            ),
            flush=True,
        )
        for label, frame in frames.items():
            ax.plot(frame["seconds"], frame["smooth"].cummin(), label=label)
        ax.set_xscale("log")
        ax.set_title(name, fontsize=10)
        ax.set_xlabel("seconds")
        ax.set_ylabel("smooth objective")
        ax.grid(alpha=0.25)
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(out / "srt_objective_against_time.png", dpi=150)


def converge(names: list[str], depth: int, out: Path) -> None:
    figure, axes = plt.subplots(1, len(names), figsize=(4 * len(names), 3.4), squeeze=False)
    for name, ax in zip(names, axes[0], strict=True):
        problem, _scaling = SRTRegressor(depth).state(*datasets.load(name, as_arrays=True))
        result = solve(problem, NODEC(k0=0, max_iter=2000, tol=1e-6), random_state=0)
        frame = result.trace.to_frame()
        frame.to_csv(out / f"srt_convergence_{name}.csv", index=False)
        last = frame.iloc[-1]
        print(
            f"{name:12s} depth {depth}: gradient norm {last['gradient_norm']:.1e} after {len(frame) - 1} macro "
            f"iterations, {result.seconds:.2f} s; objective {last['smooth']:.6f}, rises {last['rises']:.0f}; last "
            f"moves of splits {last['split_move']:.1e}, leaves {last['leaf_move']:.1e}",
            flush=True,
        )
        for column in ("gradient_norm", "split_move", "leaf_move"):
            ax.semilogy(frame["step"], frame[column], label=column.replace("_", " "))
        ax.set_title(name, fontsize=10)
        ax.set_xlabel("macro iterations")
        ax.grid(alpha=0.25)
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(out / "srt_convergence.png", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="yacht,auto_mpg,airfoil,housing,kin8nm,cpu_small")
    parser.add_argument("--converge", default="yacht,auto_mpg,airfoil")
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("out"))
    args = parser.parse_args()
    args.out.mkdir(exist_ok=True)
    compare(args.data.split(","), args.depth, args.out)
    converge(args.converge.split(","), args.depth, args.out)


if __name__ == "__main__":
    main()
