"""Certificates of oblique trees: seconds to a proved optimum, or the gap at the limit, by rows, features and depth.

``python -m experiments.benchmarks.oblique_certificates --limit 60``
"""

from __future__ import annotations

import argparse

import numpy as np

from opttree import TreeProblem, datasets
from solvers import MIP, ObliqueBranchAndBound, solve

SETS = (("auto_mpg", "squared"), ("airfoil", "squared"), ("banknote", "zero_one"), ("raisin", "zero_one"))
CASES = tuple((n, p, depth) for depth in (1, 2) for p in (2, 3, 4) for n in (20, 40, 60, 80, 100))


def stated(name: str, loss: str, n: int, p: int, depth: int) -> TreeProblem:
    """A random part of the rows of a data set, with its features of the largest variance among standardised ranks."""
    X, y = datasets.load(name).as_arrays()
    rows = np.random.default_rng(0).permutation(len(y))[:n]
    unique = [np.unique(column).size for column in X[rows].T]
    features = np.sort(np.argsort(unique)[::-1][:p])
    target = y[rows] if loss == "zero_one" else (y[rows] - y[rows].mean()) / y[rows].std()
    return TreeProblem(X[rows][:, features], target, depth=depth, loss=loss)


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--most", type=int, default=100, metavar="ROWS")
    args = parser.parse_args()
    print("| data | loss | n | p | depth | seconds | gap % | objective | nodes | enumeration (p = 2) |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---|")
    for name, loss in SETS:
        warm = stated(name, loss, 12, 2, 2)
        solve(warm, ObliqueBranchAndBound(), random_state=0)
        for n, p, depth in CASES:
            if n > args.most:
                continue
            problem = stated(name, loss, n, p, depth)
            result = solve(problem, ObliqueBranchAndBound(), time_limit=args.limit, random_state=0)
            check = ""
            if p == 2 and n <= 60:
                other = solve(problem, MIP("hyperflow"), time_limit=args.limit, random_state=0)
                same = abs(other.objective - result.objective) <= 1e-7
                check = (
                    ("equal" if same else f"{other.objective:.6g}") if other.termination.name == "OPTIMAL" else "limit"
                )
            nodes = result.trace.rows[-1].info.get("nodes", 0.0)
            print(
                f"| {name} | {loss} | {n} | {problem.n_features} | {depth} | {result.seconds:.2f} | "
                f"{100.0 * (result.gap or 0.0):.2f} | {result.objective:.6g} | {nodes:.3g} | {check} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
