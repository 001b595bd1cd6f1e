"""Seconds of `solvers.NODEC` against the straightforward NumPy, SLSQP and scikit-learn program of `reference_srt`.

Both run NODEC-DR on the statement of `SRTRegressor`, in turn, from the same clustering starts; medians over seeds, with
the smooth objectives reached. SLSQP takes up to 100 iterations in a BN step (SciPy's default, the paper's choice)
or 10, as many as our L-BFGS.

python -m experiments.benchmarks.srt_speed [--data yacht,airfoil,kin8nm,cpu_act] [--depth 3] [--repeats 3]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from experiments.benchmarks.reference_srt import nodec
from opttree import SmoothTreeProblem, SRTRegressor, datasets
from solvers import NODEC, ClusterInit, solve
from solvers.soft.starts import soft_start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="yacht,airfoil,kin8nm,cpu_act")
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    for name in args.data.split(","):
        problem, _scaling = SRTRegressor(args.depth).state(*datasets.load(name, as_arrays=True))
        solve(problem, NODEC(max_iter=1), random_state=0)  # compile
        seconds: dict[str, list[float]] = {"ours": [], "100": [], "10": []}
        reached: dict[str, list[float]] = {"ours": [], "100": [], "10": []}
        for seed in range(args.repeats):
            start = solve(problem, ClusterInit(n_init=1, n_repeats=3), random_state=seed).tree
            result = solve(problem, NODEC(), start=start, random_state=seed)
            seconds["ours"].append(result.seconds)
            reached["ours"].append(result.trace.to_frame()["smooth"].min())
            smooth = SmoothTreeProblem(problem)
            theta = soft_start(smooth, start, NODEC().steepness, np.random.default_rng(seed))
            A, b, _values, _coefs = smooth.unpack(theta)
            for iterations in (100, 10):
                began = time.perf_counter()
                *_point, value = nodec(problem, A, b, iterations=iterations)
                seconds[str(iterations)].append(time.perf_counter() - began)
                reached[str(iterations)].append(value)
        taken = {k: float(np.median(v)) for k, v in seconds.items()}
        cells = (
            f"SLSQP {k}: {taken[k]:.2f} s, {taken[k] / taken['ours']:.0f}x, {np.median(reached[k]):.4f}"
            for k in ("100", "10")
        )
        print(
            f"{name:10s} depth {args.depth}: ours {taken['ours']:.3f} s, objective {np.median(reached['ours']):.4f} |",
            " | ".join(cells),
            flush=True,
        )


if __name__ == "__main__":
    main()
