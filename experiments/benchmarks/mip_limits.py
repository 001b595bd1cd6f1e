"""Time limits of `solvers.MIP`: how late it ends, and whether its tree is ever worse than its start.

``python -m experiments.benchmarks.mip_limits --limits 1 5 10 --problems 20``
"""

from __future__ import annotations

import argparse

import numpy as np

from opttree import TreeProblem, datasets
from solvers import MIP, CartInit, solve

SETS = (
    "airfoil", "auto_mpg", "housing", "yacht", "computer_hardware",
    "abalone", "banknote", "raisin", "glass", "heart_failure",
)  # fmt: skip
ROWS = (100, 400)
FORMULATIONS = ("hyperflow", "flow", "big-m")


def problems(count: int) -> list[tuple[str, TreeProblem]]:
    """Parts of the data sets at depth 2 and 3, large enough that few are proved within the limits."""
    found = []
    for n in ROWS:
        for number, name in enumerate(name for name in SETS if name in datasets.names()):
            data = datasets.load(name)
            X, y = data.as_arrays()
            rows = np.random.default_rng(number).permutation(len(y))[:n]
            regression = data.task == "regression"
            y = (y - y.mean()) / y.std() if regression else y
            loss = "squared" if regression else "zero_one"
            problem = TreeProblem(X[rows], y[rows], depth=2 + number % 2, splits="axis", loss=loss)
            found.append((f"{name}, {n} rows, depth {problem.depth}", problem))
    return found[:count]


def main() -> None:
    """Print a line per formulation and limit, and the runs that are late or worse than their start."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limits", type=float, nargs="+", default=[1.0, 5.0, 10.0])
    parser.add_argument("--problems", type=int, default=20)
    args = parser.parse_args()
    chosen = problems(args.problems)
    for form in FORMULATIONS:
        solve(chosen[0][1].sample(np.arange(20)), MIP(form), time_limit=2)  # warm
    print("| formulation | limit | runs | worst seconds late | mean | ended by themselves | worse than the start |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for form in FORMULATIONS:
        for limit in args.limits:
            late, ended, worse = [], 0, 0
            for name, problem in chosen:
                start = solve(problem, CartInit(), random_state=0)
                result = solve(problem, MIP(form), start=start, time_limit=limit, random_state=0)
                late.append(result.seconds - limit)
                ended += result.termination.name != "TIME_LIMIT"
                worse += result.objective > start.objective + 1e-12
                if late[-1] > 1.0 or result.objective > start.objective + 1e-12:
                    print(f"  {form}, {name}, limit {limit:g}: {result}", flush=True)
            worst, mean = max(max(late), 0.0), float(np.mean(np.maximum(late, 0.0)))
            print(
                f"| {form} | {limit:g} | {len(late)} | {worst:.2f} | {mean:.2f} | {ended} | {worse} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
