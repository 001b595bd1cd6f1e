"""Certificates of oblique trees: seconds to a proved optimum, or the gap at the limit, by rows, features and depth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np

from experiments.benchmarks.common import Row, load, script, standard
from opttree import TreeProblem
from solvers import MIP, ObliqueBranchAndBound, solve

SETS = (("auto_mpg", "squared"), ("airfoil", "squared"), ("banknote", "zero_one"), ("raisin", "zero_one"))
CASES = tuple((n, p, depth) for depth in (1, 2) for p in (2, 3, 4) for n in (20, 40, 60, 80, 100))


def instance(name: str, loss: str, n: int, p: int, depth: int) -> TreeProblem:
    """Random rows of a data set, with the features that have the most values."""
    X, y = load(name, n)
    features = np.sort(np.argsort([np.unique(column).size for column in X.T])[::-1][:p])
    return TreeProblem(X[:, features], y if loss == "zero_one" else standard(y), depth=depth, loss=loss)


@script
def main(
    limit: Annotated[float, "seconds of a solve"] = 60.0, most: Annotated[int, "largest number of rows"] = 100
) -> Iterator[Row]:
    for name, loss in SETS:
        solve(instance(name, loss, 12, 2, 2), ObliqueBranchAndBound(), random_state=0)
        for n, p, depth in CASES:
            if n > most:
                continue
            problem = instance(name, loss, n, p, depth)
            result = solve(problem, ObliqueBranchAndBound(), time_limit=limit, random_state=0)
            row = {"data": name, "loss": loss, "n": n, "p": problem.n_features, "depth": depth}
            row |= {"seconds": result.seconds, "gap %": 100.0 * (result.gap or 0.0), "objective": result.objective}
            row |= {"nodes": result.trace.rows[-1].info.get("nodes", 0.0), "enumeration (p = 2)": ""}
            if p == 2 and n <= 60:
                other = solve(problem, MIP("hyperflow"), time_limit=limit, random_state=0)
                told = "equal" if abs(other.objective - result.objective) <= 1e-7 else f"{other.objective:.6g}"
                row["enumeration (p = 2)"] = told if other.termination.name == "OPTIMAL" else "limit"
            yield row
