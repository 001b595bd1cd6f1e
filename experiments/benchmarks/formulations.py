"""Programs and decompositions on one statement: bounds of linear programs, what is proved in a time, side constraints.

Parts: "roots", the value of each formulation's linear program beside the optimum; "solved", errors and what is proved
in a time, by every method; "limits", optima under parity, a budget of features and an order of answers; "squares",
roots and parity under squared loss. References are the known optima of `solvers.instances`, never the best of the run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np

from experiments.benchmarks.common import Row, script
from opttree import MIPTreeProblem, TreeProblem, datasets
from opttree.constraints import MaxDifference, MaxFeatures, Monotone
from opttree.problems.mip.candidates import thresholds
from solvers import (
    CPSAT,
    MIP,
    Benders,
    BranchAndBound,
    ColumnGeneration,
    Lagrangian,
    MonotoneDP,
    Solver,
    instances,
    solve,
)
from solvers.mip.highs import Compiled, Program, Run
from solvers.mip.limits import Limits

SETS = tuple(name for name in instances() if name.startswith("onehot_"))
SOLVERS: dict[str, Solver] = {
    "branch and bound": BranchAndBound(),
    "hyperflow": MIP("hyperflow", threads=1),
    "columns": ColumnGeneration(),
    "CP-SAT": CPSAT(threads=1),
    "flow, HiGHS": MIP("flow", threads=1, subtree_rows=False),
    "flow, HiGHS, subtree rows": MIP("flow", threads=1),
    "flow, SCIP": MIP("flow", optimizer="scip", threads=1, subtree_rows=False),
    "Benders, SCIP": Benders("scip", cuts=("min-cut",), threads=1),
    "Benders, SCIP, subtree rows": Benders("scip", threads=1),
    "Benders, Gurobi": Benders("gurobi", cuts=("min-cut",), threads=1),
    "Benders, HiGHS in rounds": Benders(cuts=("min-cut",), threads=1),
    "big-m, HiGHS": MIP("big-m", threads=1, subtree_rows=False),
    "big-m, HiGHS, subtree rows": MIP("big-m", threads=1),
    "Lagrangian": Lagrangian(),
    "intervals": MonotoneDP(),
}
PARITY = [  # set, depth, feature whose values are the groups, tolerance, errors
    ("monk1", 2, 3, 0.05, 31),
    ("house-votes-84", 2, 3, 0.1, 98),
    ("spect", 2, 0, 0.05, 55),
    ("breast-cancer", 2, 37, 0.02, 73),
    ("monk1", 3, 3, 0.05, 12),
    ("house-votes-84", 3, 3, 0.1, 95),
    ("spect", 3, 0, 0.05, 53),
    ("breast-cancer", 3, 37, 0.02, 60),
]
BUDGET = [("monk1", 22), ("monk2", 59), ("hayes-roth", 56), ("spect", 55), ("house-votes-84", 7)]
ORDER = [("monk1", 2, 28), ("hayes-roth", 2, 52), ("spect", 2, 55), ("balance-scale", 2, 199), ("monk1", 3, 10),
         ("hayes-roth", 3, 34)]  # along feature 0, upwards  # fmt: skip
SQUARES = {"fish": 6, "autos": 8, "concreteslump": 8, "qsar": 6, "forest": 4}  # thresholds of each feature
SHARE = 0.3  # of the difference of the free tree's means: the tolerance


def named(name: str) -> str:
    """A set's name without the prefix of its list."""
    return name.removeprefix("onehot_")


def statement(name: str, depth: int, *constraints: Any) -> TreeProblem:
    """Errors of trees of a depth on a set."""
    if name == "iris":
        return TreeProblem(*datasets.load("iris", as_arrays=True), depth, "axis", loss="zero_one")
    return instances()[f"onehot_{named(name)}"].problem(depth).restated(constraints=constraints)


def linear(problem: TreeProblem, formulation: str, seconds: float) -> tuple[float, int, int]:
    """Value of a program's linear program in units of the objective, its variables and rows."""
    stated = MIPTreeProblem(problem, formulation, subtree_rows=False)
    compiled = Compiled(stated.build())
    program = compiled.program | {"integer": np.zeros(len(compiled.columns), bool)}
    run = Run(Program(program, compiled.offset, compiled.unit), Limits(0.0, seconds, None, 1, 0, False, False), None)
    until = time.perf_counter() + seconds + 5.0
    while not run.wait() and time.perf_counter() < until:
        pass
    run.stop()
    bound = run.outcome().bound
    return math.nan if bound is None else bound, program["n_columns"], program["n_rows"]


def columns(problem: TreeProblem, seconds: float, **options: Any) -> tuple[float, Row]:
    """Value of the path columns' linear program, and how it was found."""
    began = time.perf_counter()
    solver = ColumnGeneration(whole_master=True, enumerate=False, **options)
    result = solve(problem, solver, time_limit=seconds, random_state=0)
    info = result.trace.rows[-1].info
    ended = result.termination.name != "TIME_LIMIT"
    return info.get("lp_bound", math.nan), {
        "columns": info.get("columns"),
        "ended": ended,
        "s": time.perf_counter() - began,
    }


def roots(limit: float, depths: tuple[int, ...]) -> Iterator[Row]:
    """Values of linear programs, in errors."""
    for depth in depths:
        for name in (*SETS, "iris"):
            problem = statement(name, depth)
            n = problem.n_samples
            best = solve(problem, BranchAndBound(), time_limit=60.0)
            row: Row = {"data": named(name), "depth": depth, "optimum": round(n * best.objective)}
            if depth == 2:
                for formulation in ("big-m", "flow"):
                    row[formulation] = n * linear(problem, formulation, limit)[0]
                row["paths, no cover"] = n * columns(problem, limit, cover=False)[0]
            value, how = columns(problem, limit)
            yield row | {"paths, cover": n * value} | how


def solved(limit: float, depths: tuple[int, ...], seeds: int) -> Iterator[Row]:
    """Errors and what is proved in a time."""
    for depth in depths:
        for name in (*SETS, "iris"):
            problem = statement(name, depth)
            yield from by_all(problem, {"data": named(name), "depth": depth}, limit, seeds)


def by_all(problem: TreeProblem, row: Row, limit: float, seeds: int, scale: float = 0.0) -> Iterator[Row]:
    """Every method that takes a problem."""
    scale = scale or float(problem.n_samples)
    for label, solver in SOLVERS.items():
        special = label in ("Lagrangian", "intervals")
        if solver.refusal(problem) is not None or (special and not problem.constraints):
            continue
        for seed in range(seeds):
            began = time.perf_counter()
            result = solve(problem, solver, time_limit=limit, random_state=seed)
            yield row | {
                "solver": label,
                "seed": seed,
                "objective": round(scale * result.objective, 4),
                "at least": round(scale * (result.bound or 0.0), 4),
                "proved": result.termination.name == "OPTIMAL",
                "s": time.perf_counter() - began,
                "ended": result.termination.name,
            }


def limits(limit: float, seeds: int) -> Iterator[Row]:
    """Parity, a budget of two features, and an order of answers."""
    cases = [("parity", name, depth, errors, MaxDifference(g, tol)) for name, depth, g, tol, errors in PARITY]
    cases += [("two features", name, 2, errors, MaxFeatures(2)) for name, errors in BUDGET]
    cases += [("order", name, depth, errors, Monotone(0)) for name, depth, errors in ORDER]
    for kind, name, depth, errors, constraint in cases:
        row: Row = {"constraint": kind, "data": name, "depth": depth, "optimum": errors}
        yield from by_all(statement(name, depth, constraint), row, limit, seeds)


def squares(limit: float, seeds: int) -> Iterator[Row]:
    """Squared loss: roots of path columns over some thresholds, and parity between the halves of a feature."""
    for name, count in SQUARES.items():
        X, y = instances()[name].load()
        y = (y - y.mean()) / y.std()
        chosen = thresholds(X, count)
        binned = chosen.left.T.astype(float)[:, :: max(1, len(chosen) // 60)]
        problem = TreeProblem(binned, y, 2, "axis")
        best = solve(problem, BranchAndBound(), time_limit=60.0)
        value, how = columns(problem, limit)
        yield {"data": name, "optimum": len(y) * best.objective, "root": len(y) * value} | how
        if name not in ("fish", "qsar", "concreteslump"):
            continue
        group = (X[:, 0] > np.median(X[:, 0])).astype(int)
        answers = best.tree.predict(binned)
        gap = abs(answers[group == 0].mean() - answers[group == 1].mean())
        fair = TreeProblem(binned, y, 2, "axis", constraints=[MaxDifference(group, SHARE * gap)])
        for row in by_all(fair, {"data": f"{name}, parity"}, min(limit, 1.0), seeds):
            yield row | {"gap %": 100.0 * (1.0 - row["at least"] / row["objective"])}


@script
def main(
    part: Annotated[str, "what to measure", ("roots", "solved", "limits", "squares")],
    limit: Annotated[float, "seconds of a solver"] = 20.0,
    depths: Annotated[tuple[int, ...], "depths"] = (2, 3),
    seeds: Annotated[int, "seeds of each method"] = 2,
) -> Iterator[Row]:
    if part == "roots":
        yield from roots(limit, depths)
    elif part == "solved":
        yield from solved(limit, depths, seeds)
    elif part == "limits":
        yield from limits(limit, seeds)
    else:
        yield from squares(limit, seeds)
