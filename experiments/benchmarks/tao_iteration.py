"""Seconds of one TAO iteration, `solvers.TAO` against `reference_tao`, depth 6, in turn from the same random start.

python -m experiments.benchmarks.tao_iteration [--passes 10] [--depth 6] [--data elevators,cpu_act,ailerons]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd

from experiments.benchmarks.common import standardised
from experiments.benchmarks.reference_tao import one_pass
from solvers import TAO, RandomInit, solve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="elevators,cpu_act,ailerons")
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--passes", type=int, default=10)
    args = parser.parse_args()
    rows = []
    for name in args.data.split(","):
        problem = standardised(name, args.depth)
        start = RandomInit().build(problem, np.random.default_rng(0))
        ours = TAO(max_iter=args.passes, tol=0.0, patience=args.passes)
        solve(problem, TAO(max_iter=1), start=start)  # compile
        result = solve(problem, ours, start=start)
        seconds = np.diff([row.seconds for row in result.trace])
        row = {"data": name, "n": problem.n_samples, "p": problem.n_features, "ours_ms": 1e3 * np.median(seconds)}
        for tol in (1e-2, 1e-4):
            tree, times = start, []
            best = np.inf
            for _ in range(args.passes):
                began = time.perf_counter()
                tree = one_pass(problem, tree, tol)
                times.append(time.perf_counter() - began)
                best = min(best, problem.objective(tree.prune_dead(problem.X)))
            row |= {
                f"reference_ms_tol{tol:g}": 1e3 * np.median(times),
                f"ratio_tol{tol:g}": sum(times) / seconds.sum(),
                f"reference_best_tol{tol:g}": best,
            }
        rows.append(row | {"ours_best": result.objective})
    print(f"depth {args.depth}, {args.passes} passes from one random start; ms are medians, ratios are of the sums")
    print(pd.DataFrame(rows).set_index("data").T.to_string(float_format="%.4g"))


if __name__ == "__main__":
    main()
