"""How late solvers end under a time limit: median and worst, on warm kernels, over random problems.

python -m experiments.benchmarks.time_limits --runs 60 12 2
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd

import solvers
from opttree import TreeProblem
from solvers import solve
from solvers.core.base import Solver

REPORT = Path(__file__).parents[1] / "results" / "reliability"
LIMITS = (0.2, 1.0, 5.0)
LONG = (
    solvers.TAO(max_iter=100_000, tol=0.0, patience=100_000), solvers.MultiStart(solvers.TAO(), 100_000),
    solvers.GET(n_starts=1000), solvers.NODEC(max_iter=100_000), solvers.ORRT(max_iter=100_000, n_starts=1000),
    solvers.SDTR(max_batches=10**9, patience=10**9), solvers.GradTree(epochs=10**6, n_starts=20, patience=10**6),
    solvers.RADDT(n_starts=1000), solvers.DTSemNet(epochs=10**6), solvers.MultiStart(solvers.HRT(), 100_000),
    solvers.LocalSearch(n_starts=100_000), solvers.BranchAndBound(), solvers.MIP(),
    solvers.MIP("flow"), solvers.MIP("big-m"), solvers.TAOForest(100_000), solvers.Boosting(n_trees=100_000),
    solvers.Chain(solvers.TAO(), solvers.LocalSearch(n_starts=100_000)),
)  # fmt: skip


def random_problem(solver: Solver, rng: np.random.Generator) -> TreeProblem:
    """A problem that keeps the solver busy for longer than any limit, where there is one."""
    small = isinstance(solver, solvers.MIP)
    n, p = int(rng.integers(60, 400) if small else rng.integers(200, 8000)), int(rng.integers(2, 6 if small else 20))
    X = rng.normal(size=(n, p))
    y = np.sin(3.0 * X[:, 0]) * X[:, 1] + 0.3 * rng.normal(size=n)
    depth = int(rng.integers(2, 4) if small else rng.integers(3, 7))
    for splits in ("oblique", "axis"):
        for leaves in ("linear", "constant") if rng.random() < 0.5 else ("constant", "linear"):
            problem = TreeProblem(X, y, depth=depth, splits=splits, leaves=leaves)
            if solver.refusal(problem) is None:
                return problem
    raise ValueError(f"no problem for {solver}")


def main() -> None:
    """The table, as Markdown and CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, nargs=3, default=[60, 12, 2], help="for .2, 1 and 5 seconds")
    parser.add_argument("--out", type=Path, default=REPORT)
    args = parser.parse_args()
    rows = []
    for solver in LONG:
        name = repr(solver).split("(")[0] + (f"({solver.formulation})" if isinstance(solver, solvers.MIP) else "")
        if isinstance(solver, (solvers.MultiStart, solvers.Chain)):
            inner = (solver.solver,) if isinstance(solver, solvers.MultiStart) else solver.solvers
            name += f"({', '.join(type(each).__name__ for each in inner)})"
        rng = np.random.default_rng(0)
        for _ in range(3):  # kernels are loaded
            solve(random_problem(solver, rng), solver, time_limit=0.2, random_state=0)
        for limit, runs in zip(LIMITS, args.runs, strict=True):
            for _ in range(runs):
                problem = random_problem(solver, rng)
                began = time.perf_counter()
                result = solve(problem, solver, time_limit=limit, random_state=0)
                late = time.perf_counter() - began - result.compile_seconds - limit
                rows.append({"solver": name, "limit": limit, "late": late, "seconds": result.seconds})
        own = pd.DataFrame(rows).query("solver == @name")
        print(f"{name:30s} worst {own['late'].max():6.2f} s late", flush=True)
    frame = pd.DataFrame(rows)
    frame["late"] = frame["late"].clip(lower=0.0)
    table = frame.groupby(["solver", "limit"])["late"].agg(["count", "median", "max"]).unstack("limit")
    args.out.mkdir(parents=True, exist_ok=True)
    text = ["# Time limits", "", "Seconds by which runs end after their limit (whole calls of `solve`, warm).", ""]
    text += ["| solver | limit | runs | median | worst |", "|:--|--:|--:|--:|--:|"]
    for name in table.index:
        for limit in LIMITS:
            count, median, worst = (table.loc[name, (part, limit)] for part in ("count", "median", "max"))
            text.append(f"| {name} | {limit:g} | {count:.0f} | {median:.3f} | {worst:.3f} |")
    (args.out / "time_limits.md").write_text("\n".join(text) + "\n")
    print("\n".join(text))


if __name__ == "__main__":
    main()
