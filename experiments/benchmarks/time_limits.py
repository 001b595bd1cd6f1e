"""How late solvers end under a time limit: median and worst, on warm kernels, over random problems."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from scipy import sparse

import solvers
from experiments.benchmarks.common import script
from opttree import TreeProblem
from solvers import solve
from solvers.core.base import Solver

REPORT = Path(__file__).parents[1] / "results" / "reliability"
LIMITS = (0.2, 1.0, 5.0)
LONG = (
    solvers.TAO(max_iter=100_000, tol=0.0, patience=100_000), solvers.MultiStart(solvers.TAO(), 100_000),
    solvers.GET(n_starts=100), solvers.NODEC(max_iter=100_000), solvers.ORRT(max_iter=100_000, n_starts=1000),
    solvers.SDTR(max_batches=10**9, patience=10**9), solvers.GradTree(epochs=10**6, n_starts=20, patience=10**6),
    solvers.RADDT(n_starts=1000), solvers.DTSemNet(epochs=10**6), solvers.MultiStart(solvers.HRT(), 100_000),
    solvers.LocalSearch(n_starts=100_000), solvers.BranchAndBound(), solvers.MIP(),
    solvers.MIP("flow"), solvers.MIP("big-m"), solvers.TAOForest(2000), solvers.Boosting(n_trees=100_000),
    solvers.Chain(solvers.TAO(), solvers.LocalSearch(n_starts=100_000)),
)  # fmt: skip


TABLES = {  # rows, features, outputs, different values of a feature (0: no ties), share of numbers that are not zero
    "usual": None, "wide": (50, 1000, 1, 0, 1.0), "wider": (2000, 5000, 1, 0, 1.0), "outputs": (2000, 20, 50, 0, 1.0),
    "few values": (3000, 40, 1, 3, 1.0), "sparse": (2000, 20_000, 1, 0, 0.01),
}  # fmt: skip


def random_problem(solver: Solver, rng: np.random.Generator, table: str = "usual") -> TreeProblem | None:
    """A problem that keeps the solver busy for longer than any limit, where there is one; None if it takes none."""
    small = isinstance(solver, solvers.MIP)
    n, p = int(rng.integers(60, 400) if small else rng.integers(200, 8000)), int(rng.integers(2, 6 if small else 20))
    n, p, n_outputs, n_values, density = TABLES[table] or (n, p, 1, 0, 1.0)
    if density < 1.0:
        X: Any = sparse.random_array((n, p), density=density, format="csr", rng=rng)
        first, second = X[:, [0]].toarray()[:, 0], 1.0 + X[:, [1]].toarray()[:, 0]
    else:
        X = rng.normal(size=(n, p)) if not n_values else rng.integers(0, n_values, size=(n, p)).astype(float)
        first, second = X[:, 0], X[:, 1]
    y = np.sin(3.0 * first) * second + 0.3 * rng.normal(size=n)
    if n_outputs > 1:
        y = np.outer(y, rng.normal(size=n_outputs)) + 0.3 * rng.normal(size=(n, n_outputs))
    depth = int(rng.integers(2, 4) if small else rng.integers(3, 7))
    for splits in ("oblique", "axis"):
        for leaves in ("linear", "constant") if rng.random() < 0.5 else ("constant", "linear"):
            problem = TreeProblem(X, y, depth=depth, splits=splits, leaves=leaves)
            if solver.refusal(problem) is None:
                return problem
    return None


def name_of(solver: Solver) -> str:
    name = type(solver).__name__ + (f"({solver.formulation})" if isinstance(solver, solvers.MIP) else "")
    if not isinstance(solver, (solvers.MultiStart, solvers.Chain)):
        return name
    inner = (solver.solver,) if isinstance(solver, solvers.MultiStart) else solver.solvers
    return f"{name}({', '.join(type(each).__name__ for each in inner)})"


def lateness(problem: TreeProblem, solver: Solver, limit: float) -> float:
    """Seconds after the limit at which a run ended; infinitely many where memory did not suffice."""
    began = time.perf_counter()
    try:
        result = solve(problem, solver, time_limit=limit, random_state=0)
    except MemoryError:
        return np.inf
    return max(time.perf_counter() - began - result.compile_seconds - limit, 0.0)


@script
def main(
    runs: Annotated[tuple[int, ...], "under each limit"] = (60, 12, 2),
    limits: Annotated[tuple[float, ...], "seconds"] = LIMITS,
    tables: Annotated[tuple[str, ...], "of " + ", ".join(TABLES)] = ("usual",),
    without: Annotated[tuple[str, ...], "solvers left out"] = (),
    out: Path = REPORT,
) -> Iterator[str]:
    rows: list[dict[str, Any]] = []
    for solver in (solver for solver in LONG if name_of(solver) not in without):
        for table in tables:
            rng = np.random.default_rng(0)
            for _ in range(3):  # kernels are loaded
                if (problem := random_problem(solver, rng, table)) is not None:
                    lateness(problem, solver, 0.2)
            for limit, count in zip(limits, runs, strict=True):
                for _ in range(count):
                    if (problem := random_problem(solver, rng, table)) is None:
                        continue
                    late = lateness(problem, solver, limit)
                    rows.append({"table": table, "solver": name_of(solver), "limit": limit, "late": late})
        if own := [row["late"] for row in rows if row["solver"] == name_of(solver)]:
            yield f"{name_of(solver)}: {len(own)} runs, late by {np.median(own):.2f} s, at most {max(own):.2f} s"
    groups = pd.DataFrame(rows).groupby(["table", "solver", "limit"], sort=False)["late"]
    found = groups.agg(runs="count", median="median", worst="max").reset_index()
    text = "# Time limits\n\nSeconds by which runs end after their limit (whole calls of `solve`, warm; inf: memory)."
    text += "\n\n" + found.to_markdown(index=False, floatfmt=("", "", "g", "g", ".3f", ".3f")) + "\n"
    out.mkdir(parents=True, exist_ok=True)
    (out / ("time_limits.md" if tables == ("usual",) else "time_limits_of_tables.md")).write_text(text)
    yield text
