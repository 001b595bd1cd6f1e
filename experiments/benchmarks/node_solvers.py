"""The default node solver against scikit-learn's liblinear on node problems taken from TAO runs.

For each data set a TAO run from a random start is stopped before each of several passes, and the node problems of
1,000 to 16,000 rows that it is about to solve are kept, with the warm start the run would use. Each solver then
solves all of them at tolerance 1e-4, in turn: ours from there and from zero ("cold"); reference optima come from a run
at 1e-10. Seconds are summed over the problems, gaps are relative.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd

from experiments.benchmarks.common import Row, alternating, script, standardised
from opttree.problems import NodeProblem
from solvers import TAO, NewtonNode, RandomInit, SklearnNode, solve
from solvers.tao.state import State


def node_problems(name: str, depth: int, passes: tuple[int, ...]) -> Iterator[tuple[NodeProblem, np.ndarray, float]]:
    """Node problems of the passes named, each with its warm start."""
    problem = standardised(name, depth)
    rng = np.random.default_rng(0)
    start = RandomInit().build(problem, rng)
    for done in passes:
        tree = solve(problem, TAO(max_iter=done, tol=0.0, patience=99), start=start).tree if done else start
        state = State(problem, tree, None, False)
        for nodes in state.levels():
            level, current_cost = state.reduced_problems(nodes)
            for s, node in enumerate(nodes):
                if 1000 <= level[s].rows.size <= 16000:
                    yield level[s], state.A[node].copy(), float(state.b[node])
            A, b, cost = NewtonNode().solve_level(level, state.A[nodes], state.b[nodes], rng)
            state.accept(nodes, level, (A, b, cost), current_cost, False)
            state.advance()


@script
def main(
    data: tuple[str, ...] = (
        "elevators", "cpu_act", "ailerons", "kin8nm", "puma32H", "abalone", "ccpp", "electrical_grid_stability",
    ),
    depth: int = 6,
    passes: tuple[int, ...] = (0, 1, 3, 6),
    repeats: int = 3,
) -> Iterator[Row | str]:  # fmt: skip
    rng = np.random.default_rng(0)
    ours, exact, theirs = NewtonNode(tol=1e-4), NewtonNode(1e-10, 500), SklearnNode(tol=1e-4)
    every = []
    for name in data:
        rows = []
        for problem, a, b in node_problems(name, depth, passes):
            best = problem.surrogate(*exact.solve(problem, a, b, rng))
            zero = np.zeros_like(a), 0.0
            calls = {
                "ours": partial(ours.solve, problem, a, b, rng),
                "cold": partial(ours.solve, problem, *zero, rng),
                "liblinear": partial(theirs.solve, problem, *zero, rng),
            }
            taken = alternating({label: lambda _round, call=call: call() for label, call in calls.items()}, repeats)
            row = {label: statistics.median(times) for label, times in taken.items()}
            rows.append(
                row | {f"gap {label}": problem.surrogate(*call()) / best - 1.0 for label, call in calls.items()}
            )
        every += rows
        yield summary(name, pd.DataFrame(rows))
    yield summary("all", pd.DataFrame(every))


def summary(name: str, table: pd.DataFrame) -> Row:
    """A row of the table."""
    total = {label: float(table[label].sum()) for label in ("ours", "cold", "liblinear")}
    gaps = {column: float(table[column].median()) for column in table if column.startswith("gap")}
    largest = {f"largest {label}": float(table[f"gap {label}"].max()) for label in ("ours", "liblinear")}
    ratios = {f"liblinear / {label}": total["liblinear"] / total[label] for label in ("ours", "cold")}
    return {"data": name, "problems": len(table), **total, **ratios, **gaps, **largest}
