"""The formulations of `solvers.MIP` side by side, and what "hyperflow" proves where the others cannot.

Table 1: seconds to a proof (or the gap at the time limit), nodes and objective of "hyperflow", "flow" and "big-m" on
twelve instances: classification (OCT, n = 150, 12 thresholds) and regression (ORT, absolute and squared), depth 2 or 3.
Table 2: "hyperflow" with all thresholds at depth 2 and 3, with linear leaves, and with 2 to 6 splits at depth 3.

python -m experiments.benchmarks.mip_formulations [--tables 1,2] [--time-limit 60] [--csv FILE]
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pandas as pd

from opttree import MIPTreeProblem, SplitPrice, TreeProblem, datasets
from solvers import MIP, solve

FORMULATIONS = ("hyperflow", "flow", "big-m")
# name, rows, columns, thresholds per feature, depth, loss, price
INSTANCES = [
    ("iris", 150, 4, 3, 2, "zero_one", 0.0),
    ("wine", 150, 4, 3, 2, "zero_one", 0.0),
    ("breast_cancer", 150, 4, 3, 2, "zero_one", 0.0),
    ("wine", 150, 4, 3, 2, "zero_one", 0.02),
    ("iris", 150, 4, 1, 3, "zero_one", 0.0),
    ("auto_mpg", 100, 7, 2, 2, "absolute", 0.0),
    ("auto_mpg", 40, 7, 2, 2, "absolute", 0.0),
    ("diabetes", 60, 4, 3, 2, "absolute", 0.0),
    ("housing", 40, 4, 3, 2, "squared", 0.0),
    ("yacht", 60, 3, 3, 2, "squared", 0.02),
    ("airfoil", 40, 5, 2, 2, "squared", 0.0),
    ("auto_mpg", 50, 4, 2, 3, "absolute", 0.0),
]


def problem(
    name: str, rows: int | None, columns: int | None, depth: int, loss: str, price: float, **options: Any
) -> Any:
    """The first columns of random rows of a data set, y standardised."""
    X, y = datasets.load(name, as_arrays=True)
    if rows is not None:
        chosen = np.random.default_rng(0).permutation(len(X))[:rows]
        X, y = X[chosen], y[chosen]
    X = X[:, :columns]
    if loss != "zero_one":
        y = (y - y.mean()) / y.std()
    penalties = [SplitPrice(price)] if price else []
    return TreeProblem(X, y, depth=depth, splits="axis", loss=loss, penalties=penalties, **options)


def run(stated: TreeProblem, time_limit: float, **options: Any) -> dict[str, Any]:
    """One row of a table."""
    result = solve(stated, MIP(**options), time_limit=time_limit, random_state=0)
    return {
        "seconds": result.seconds,
        "objective": result.objective,
        "gap": result.gap,
        "nodes": int(result.trace.rows[-1].info["nodes"]),
        "proved": result.termination.name == "OPTIMAL",
    }


def text(row: dict[str, Any]) -> str:
    """A row in words."""
    return f"{row['seconds']:7.2f} s  gap {100 * row['gap']:6.3g} %  {row['nodes']:6d} nodes  {row['objective']:.6f}"


def table_1(time_limit: float) -> list[dict[str, Any]]:
    """All formulations."""
    rows = []
    for name, n, p, per_feature, depth, loss, price in INSTANCES:
        stated = problem(name, n, p, depth, loss, price)
        count = len(MIPTreeProblem(stated, n_thresholds=per_feature).candidates)
        print(f"{name}, n = {n}, {count} thresholds, depth {depth}, {loss}, price {price}")
        for formulation in FORMULATIONS:
            row = run(stated, time_limit, formulation=formulation, n_thresholds=per_feature)
            print(f"    {formulation:10s}", text(row), flush=True)
            rows.append({"data": name, "n": n, "depth": depth, "loss": loss, "formulation": formulation} | row)
    return rows


def table_2(time_limit: float) -> list[dict[str, Any]]:
    """Hyperflow at larger sizes."""
    rows = []
    cases: list[tuple[str, TreeProblem, dict[str, Any]]] = []
    for name in ("auto_mpg", "housing", "airfoil"):
        cases += [(name, problem(name, None, None, 2, loss, 0.0), {}) for loss in ("squared", "absolute")]
    cases += [("auto_mpg", problem("auto_mpg", None, None, 3, "squared", 0.0), o) for o in ({"n_thresholds": 3}, {})]
    cases.append(("auto_mpg", problem("auto_mpg", None, None, 2, "squared", 0.0, leaves="linear"), {}))
    for name in ("auto_mpg", "housing", "airfoil", "yacht", "abalone"):
        stated = problem(name, None, None, 3, "squared", 0.0)
        cases += [(name, stated, {"n_thresholds": 10, "max_splits": k}) for k in range(2, 7)]
    for name, stated, options in cases:
        row = run(stated, time_limit, **options)
        label = (
            f"{name}, n = {stated.n_samples}, depth {stated.depth}, {stated.loss}, {stated.leaves} leaves, {options}"
        )
        print(f"{label:100s}", text(row), flush=True)
        rows.append({"data": name, "n": stated.n_samples, "depth": stated.depth, "options": str(options)} | row)
    limited = [r["seconds"] for r in rows if "max_splits" in r["options"]]
    print(f"2 to 6 splits: median {np.median(limited):.2f} s, all proved: {all(r['proved'] for r in rows)}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="1,2")
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--csv", help="also write the rows to this file")
    args = parser.parse_args()
    for formulation in FORMULATIONS:  # compile and import off the clock
        for loss in ("zero_one", "absolute", "squared"):
            run(problem("iris", 12, 2, 1, loss, 0.0), 60.0, formulation=formulation, n_thresholds=1)
    rows = []
    for table, name in ((table_1, "1"), (table_2, "2")):
        if name in args.tables.split(","):
            rows += table(args.time_limit)
    if args.csv:
        pd.DataFrame(rows).to_csv(args.csv, index=False)


if __name__ == "__main__":
    main()
