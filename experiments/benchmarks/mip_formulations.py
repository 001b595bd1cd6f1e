"""The formulations of `solvers.MIP` side by side, and what "hyperflow" proves where the others cannot.

Table 1: seconds to a proof (or the gap at the time limit), nodes and objective of "hyperflow", "flow" and "big-m" on
twelve instances: classification (OCT, n = 150, 12 thresholds) and regression (ORT, absolute and squared), depth 2 or 3.
Table 2: "hyperflow" with all thresholds at depth 2 and 3, with linear leaves, and with 2 to 6 splits at depth 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from experiments.benchmarks.common import Row, script, stated
from opttree import MIPTreeProblem, SplitPrice, TreeProblem
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


def instance(name: str, rows: int, columns: int, depth: int, loss: str, price: float) -> TreeProblem:
    """The first columns of random rows of a data set."""
    problem = stated(name, depth, loss, rows, penalties=[SplitPrice(price)] if price else [])
    return problem.with_rows(problem.X[:, :columns], problem.y, problem.sample_weight)


def run(problem: TreeProblem, time_limit: float, **options: Any) -> Row:
    """What came of a run."""
    result = solve(problem, MIP(**options), time_limit=time_limit, random_state=0)
    row = {"seconds": result.seconds, "gap %": 100.0 * result.gap, "nodes": int(result.trace.rows[-1].info["nodes"])}
    return row | {"objective": result.objective, "proved": result.termination.name == "OPTIMAL"}


def table_1(time_limit: float) -> Iterator[Row]:
    """All formulations."""
    for name, n, p, per_feature, depth, loss, price in INSTANCES:
        problem = instance(name, n, p, depth, loss, price)
        count = len(MIPTreeProblem(problem, n_thresholds=per_feature).candidates)
        for formulation in FORMULATIONS:
            row = {"data": name, "n": n, "depth": depth, "loss": loss, "price": price, "thresholds": count}
            row |= {"formulation": formulation}
            yield row | run(problem, time_limit, formulation=formulation, n_thresholds=per_feature)


def table_2(time_limit: float) -> Iterator[Row]:
    """Hyperflow at larger sizes."""
    cases: list[tuple[str, TreeProblem, Row]] = []
    for name in ("auto_mpg", "housing", "airfoil"):
        cases += [(name, stated(name, 2, loss), {}) for loss in ("squared", "absolute")]
    cases += [("auto_mpg", stated("auto_mpg", 3), options) for options in ({"n_thresholds": 3}, {})]
    cases.append(("auto_mpg", stated("auto_mpg", 2, leaves="linear"), {}))
    for name in ("auto_mpg", "housing", "airfoil", "yacht", "abalone"):
        cases += [(name, stated(name, 3), {"n_thresholds": 10, "max_splits": k}) for k in range(2, 7)]
    for name, problem, options in cases:
        row = {"data": name, "n": problem.n_samples, "depth": problem.depth, "loss": str(problem.loss)}
        row |= {
            "leaves": problem.leaves,
            "thresholds": options.get("n_thresholds"),
            "splits": options.get("max_splits"),
        }
        yield row | run(problem, time_limit, **options)


@script
def main(
    tables: Annotated[tuple[int, ...], (1, 2)] = (1, 2), time_limit: Annotated[float, "of a run, in seconds"] = 60.0
) -> Iterator[Row]:
    for formulation in FORMULATIONS:  # compile and import off the clock
        for name, loss in (("iris", "zero_one"), ("diabetes", "absolute"), ("diabetes", "squared")):
            run(instance(name, 12, 2, 1, loss, 0.0), 60.0, formulation=formulation, n_thresholds=1)
    for number, table in ((1, table_1), (2, table_2)):
        if number in tables:
            yield from table(time_limit)
