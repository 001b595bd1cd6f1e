"""Seconds to a proof, or the gap at a limit, of `solvers.BranchAndBound`, compiled code warm.

Regression outputs are standardised; losses are "squared" for numbers and "zero_one" for classes unless given. Linear
leaves have a ridge of 1e-4, on standardised features, and 20 rows. The seconds are those of the run's clock, medians
over the repeats.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np

from experiments.benchmarks.common import Row, script, standard, stated
from opttree import L2, TreeProblem
from opttree.runtime.threads import limited
from solvers import BranchAndBound, solve


@script
def main(
    data: tuple[str, ...] = ("auto_mpg", "housing", "airfoil", "abalone", "cpu_act", "elevators", "ailerons"),
    depths: tuple[int, ...] = (2, 3),
    threads: tuple[int, ...] = (1, 2),
    loss: Annotated[str | None, ("squared", "absolute", "zero_one", "log")] = None,
    leaves: Annotated[str, ("constant", "linear")] = "constant",
    max_splits: int | None = None,
    limit: Annotated[float, "time limit of a run, in seconds"] = 60.0,
    repeats: int = 1,
) -> Iterator[Row]:
    X = np.random.default_rng(0).normal(size=(60, 3))
    for depth in (1, 2, 3):  # compiles
        solve(TreeProblem(X, X[:, 0], depth=depth, splits="axis"), BranchAndBound())
    linear: dict[str, Any] = {"leaves": "linear", "penalties": L2(leaves=1e-4), "min_leaf": 20}
    for name in data:
        for depth in depths:
            problem = stated(name, depth, loss)
            if leaves == "linear":
                X = standard(problem.X)
                problem = TreeProblem(X, problem.y, depth=depth, splits="axis", loss=problem.loss, **linear)
            row = {"data": name, "n": problem.n_samples, "p": problem.n_features, "depth": depth}
            for count in threads:
                solver = BranchAndBound(max_splits=max_splits)
                with limited(count):
                    runs = [solve(problem, solver, time_limit=limit, random_state=0) for _ in range(repeats)]
                row[f"s, {count} threads"] = statistics.median(run.seconds for run in runs)
                row[f"gap %, {count} threads"] = 100.0 * (runs[-1].gap or 0.0)
            yield row | {"ended": runs[-1].termination.name, "objective": f"{runs[-1].objective:.9g}"}
