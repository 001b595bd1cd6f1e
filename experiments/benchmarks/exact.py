"""Seconds to a proof, or the gap at a limit, of `solvers.BranchAndBound`, compiled code warm.

Regression outputs are standardised; losses are "squared" for numbers and "zero_one" for classes unless given. Linear
leaves have a ridge of 1e-4, on standardised features, and 20 rows. The seconds are those of the run's clock, medians
over the repeats.

python -m experiments.benchmarks.exact [--data airfoil,abalone] [--depths 2,3] [--threads 1,2] [--limit 60]
    [--loss absolute] [--leaves linear] [--max-splits 4]
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

import numpy as np

from opttree import L2, TreeProblem, datasets
from opttree.runtime.threads import limited
from solvers import BranchAndBound, solve


def stated(name: str, depth: int, loss: str | None, leaves: str = "constant") -> TreeProblem:
    """The problem on all rows of a data set."""
    data = datasets.load(name)
    X, y = data.as_arrays()
    if data.task == "regression":
        loss, y = loss or "squared", (y - y.mean(axis=0)) / y.std(axis=0)
    more: dict[str, Any] = {}
    if leaves == "linear":
        X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
        more = {"leaves": "linear", "penalties": L2(leaves=1e-4), "min_leaf": 20}
    return TreeProblem(X, y, depth=depth, splits="axis", loss=loss or "zero_one", **more)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="auto_mpg,housing,airfoil,abalone,cpu_act,elevators,ailerons")
    parser.add_argument("--depths", default="2,3")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--loss", choices=("squared", "absolute", "zero_one", "log"))
    parser.add_argument("--leaves", choices=("constant", "linear"), default="constant")
    parser.add_argument("--max-splits", type=int)
    parser.add_argument("--limit", type=float, default=60.0, help="time limit of a run, in seconds")
    parser.add_argument("--repeats", type=int, default=1)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    for depth in (1, 2, 3):  # compiles
        X = rng.normal(size=(60, 3))
        solve(TreeProblem(X, X[:, 0], depth=depth, splits="axis"), BranchAndBound())
    for name in args.data.split(","):
        for depth in map(int, args.depths.split(",")):
            problem = stated(name, depth, args.loss, args.leaves)
            parts = [f"{name:14s} n = {problem.n_samples}, p = {problem.n_features}, D = {depth}:"]
            for threads in map(int, args.threads.split(",")):
                with limited(threads):
                    runs = [
                        solve(
                            problem, BranchAndBound(max_splits=args.max_splits), time_limit=args.limit, random_state=0
                        )
                        for _ in range(args.repeats)
                    ]
                seconds = statistics.median(run.seconds for run in runs)
                gap = runs[-1].gap
                proof = "proved" if runs[-1].termination.name == "OPTIMAL" else f"gap {100.0 * (gap or 0.0):.2f} %"
                parts.append(f"{seconds:.3f} s on {threads} thread{'s' if threads > 1 else ''}, {proof};")
            print(*parts, f"objective {runs[-1].objective:.9g}", flush=True)


if __name__ == "__main__":
    main()
