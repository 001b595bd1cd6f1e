"""The default node solver against scikit-learn's liblinear on node problems taken from TAO runs.

For each data set a TAO run from a random start is stopped before each of several passes, and the node problems of
1,000 to 16,000 rows that it is about to solve are kept, with the warm start the run would use. Each solver then
solves all of them at tolerance 1e-4, in turn; reference optima come from a run at 1e-10.

python -m experiments.benchmarks.node_solvers [--data ...] [--passes 0,1,3,6] [--depth 6]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd

from experiments.benchmarks.common import standardised
from opttree.problems import NodeProblem
from solvers import TAO, NewtonNode, RandomInit, SklearnNode, solve
from solvers.tao.state import State

DATA = "elevators,cpu_act,ailerons,kin8nm,puma32H,abalone,ccpp,electrical_grid_stability"


def node_problems(name: str, depth: int, passes: list[int]) -> list[tuple[NodeProblem, np.ndarray, float]]:
    """Node problems of the passes named, each with its warm start."""
    problem = standardised(name, depth)
    rng = np.random.default_rng(0)
    start = RandomInit().build(problem, rng)
    found = []
    for done in passes:
        tree = solve(problem, TAO(max_iter=done, tol=0.0, patience=99), start=start).tree if done else start
        state = State(problem, tree, None, False)
        for nodes in state.levels():
            level, current_cost = state.reduced_problems(nodes)
            for s, node in enumerate(nodes):
                rows = level[s].rows.size
                if 1000 <= rows <= 16000:
                    found.append((level[s], state.A[node].copy(), float(state.b[node])))
            A, b, cost = NewtonNode().solve_level(level, state.A[nodes], state.b[nodes], rng)
            state.accept(nodes, level, (A, b, cost), current_cost, False)
            state.advance()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=DATA)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--passes", default="0,1,3,6")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    ours, exact, theirs = NewtonNode(tol=1e-4), NewtonNode(1e-10, 500), SklearnNode(tol=1e-4)
    rows = []
    for name in args.data.split(","):
        for problem, a, b in node_problems(name, args.depth, [int(k) for k in args.passes.split(",")]):
            exact_a, exact_b = exact.solve(problem, a, b, rng)
            best = problem.surrogate(exact_a, exact_b)
            row = {"data": name, "rows": problem.rows.size, "p": a.size}
            zero = (np.zeros_like(a), 0.0)
            for label, solver, warm in (("ours", ours, (a, b)), ("cold", ours, zero), ("liblinear", theirs, zero)):
                times = []
                for _ in range(args.repeats):
                    began = time.perf_counter()
                    fit_a, fit_b = solver.solve(problem, warm[0], warm[1], rng)
                    seconds = time.perf_counter() - began
                    times.append(seconds)
                row[label] = np.median(times)
                row[f"gap_{label}"] = problem.surrogate(fit_a, fit_b) / best - 1.0
            rows.append(row)
    table = pd.DataFrame(rows)
    groups = table.groupby("data", sort=False)
    summary = groups[["ours", "cold", "liblinear"]].sum()
    summary.insert(0, "problems", groups.size())
    summary["ratio"] = summary["liblinear"] / summary["ours"]
    summary["ratio_cold"] = summary["liblinear"] / summary["cold"]
    gaps = groups[["gap_ours", "gap_cold", "gap_liblinear"]].median()
    print(f"{len(table)} node problems, {table.rows.min()} to {table.rows.max()} rows; seconds summed, tol 1e-4")
    print(summary.join(gaps).to_string(float_format="%.3g"))
    total = table[["ours", "cold", "liblinear"]].sum()
    print(
        f"all: {total['liblinear'] / total['ours']:.1f}x faster than liblinear warm-started, "
        f"{total['liblinear'] / total['cold']:.1f}x from zero; median relative gap "
        f"{table['gap_ours'].median():.1e} (cold {table['gap_cold'].median():.1e}, "
        f"liblinear {table['gap_liblinear'].median():.1e}); largest {table['gap_ours'].max():.1e} "
        f"(liblinear {table['gap_liblinear'].max():.1e})"
    )


if __name__ == "__main__":
    main()
