"""Programs and decompositions on the one-hot sets of the literature: errors proved in a time, free and under parity."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd

from experiments.benchmarks.common import Row, script
from opttree import TreeProblem
from opttree.constraints import MaxDifference
from solvers import MIP, BranchAndBound, Lagrangian, solve

SETS = (
    "monk1",
    "monk2",
    "monk3",
    "hayes-roth",
    "balance-scale",
    "spect",
    "house-votes-84",
    "soybean-small",
    "breast-cancer",
    "tic-tac-toe",
)
PARITY = {  # feature whose two values are the groups, and the tolerance
    "monk1": (3, 0.05),
    "house-votes-84": (3, 0.1),
    "spect": (0, 0.05),
    "breast-cancer": (37, 0.02),
}
SOLVERS = {
    "branch and bound": BranchAndBound(),
    "hyperflow": MIP("hyperflow", threads=1),
    "flow": MIP("flow", threads=1, subtree_rows=False),
    "flow, rows of subtrees": MIP("flow", threads=1),
    "big-m": MIP("big-m", threads=1, subtree_rows=False),
    "big-m, rows of subtrees": MIP("big-m", threads=1),
    "Lagrangian": Lagrangian(),
}


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels."""
    found = pd.read_csv(Path(os.environ["OPTTREE_DATA"]) / "onehot" / f"{name}.csv.gz")
    return found.drop(columns="target").to_numpy(float), found["target"].to_numpy()


@script
def main(
    limit: Annotated[float, "seconds of a solver"] = 20.0,
    depths: Annotated[tuple[int, ...], "depths"] = (2, 3),
    parity: Annotated[bool, "under parity alone"] = False,
) -> Iterator[Row]:
    for depth in depths:
        for name in PARITY if parity else SETS:
            X, y = table(name)
            constraints = (MaxDifference(*PARITY[name]),) if parity else ()
            problem = TreeProblem(X, y, depth, "axis", loss="zero_one", constraints=constraints)
            for label, solver in SOLVERS.items():
                if solver.refusal(problem) is not None or (label == "Lagrangian" and not parity):
                    continue
                began = time.perf_counter()
                result = solve(problem, solver, time_limit=limit, random_state=0)
                yield {
                    "data": name,
                    "depth": depth,
                    "solver": label,
                    "errors": round(len(y) * result.objective),
                    "at least": round(len(y) * (result.bound or 0.0), 2),
                    "proved": result.termination.name == "OPTIMAL",
                    "s": time.perf_counter() - began,
                    "nodes": result.trace.rows[-1].info.get("nodes"),
                }
