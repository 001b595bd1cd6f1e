"""How far trees are from optimal, proved by `solvers.certify`: gap and seconds, data in memory and in chunks.

Trees of CART, of TAO and of local search, each found within a minute; outputs are standardised. Friedman #1 sets are
generated, with noise of deviation 1; their last line is CART's tree of the first 10,000 rows, certified by chunks of as
many, without the whole table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from sklearn.datasets import make_friedman1

from experiments.benchmarks.common import Row, script, standard, stated
from opttree import TreeProblem
from opttree.tables.chunks import Chunks
from solvers import TAO, CartInit, LocalSearch, Result, certify, solve

SIXTEEN = (
    "abalone", "airfoil", "ailerons_7154", "auto_mpg", "cpu_act", "cpu_small", "computer_hardware", "delta_ailerons",
    "delta_elevators", "elevators", "housing", "kin8nm", "lpga2009", "puma8NH", "space_ga", "yacht",
)  # fmt: skip
HEURISTICS = {"CART": CartInit(), "TAO": TAO(), "LocalSearch": LocalSearch(n_starts=3)}
SEARCH = 60.0  # seconds for a heuristic
CHUNK = 10_000


def friedman(n: int, depth: int) -> TreeProblem:
    """A generated problem of ``n`` rows."""
    X, y = make_friedman1(n, noise=1.0, random_state=0)
    return TreeProblem(X, standard(y), depth=depth, splits="axis")


def parts(n: int) -> Iterator[tuple[Any, Any]]:
    """Rows of such a set that are generated when they are asked for."""
    for seed in range(n // CHUNK):
        X, y = make_friedman1(CHUNK, noise=1.0, random_state=1 + seed)
        yield X, (y - 14.4) / 5.0


def row(name: str, depth: int, label: str, result: Result) -> Row:
    known = {"data": name, "depth": depth, "tree": label, "objective": result.objective}
    return known | {"gap %": 100.0 * (result.gap or 0.0), "seconds": result.seconds, "how": result.message}


def certified(name: str, problem: TreeProblem, limit: float, trees: tuple[str, ...]) -> Iterator[Row]:
    """A row per heuristic."""
    for label in trees:
        found = solve(problem, HEURISTICS[label], time_limit=SEARCH, random_state=0)
        yield row(name, problem.depth, label, certify(problem, found, time_limit=limit, random_state=0))


@script
def main(
    rows: Annotated[tuple[int, ...], 'of Friedman sets; "" for none'] = (100_000, 1_000_000),
    data: Annotated[tuple[str, ...], '"" for none'] = SIXTEEN,
    depths: tuple[int, ...] = (2, 3),
    trees: Annotated[tuple[str, ...], HEURISTICS] = tuple(HEURISTICS),
    limit: Annotated[float, "time limit of a certificate, in seconds"] = 120.0,
) -> Iterator[Row]:
    for depth in depths:  # compiles
        list(certified("warm-up", friedman(500, depth), 10.0, trees))
    for name in data:
        for depth in depths:
            yield from certified(name, stated(name, depth), limit, trees)
    for n in rows:
        for depth in depths:
            yield from certified(f"friedman, {n} rows", friedman(n, depth), limit, trees)
            few = TreeProblem(*next(parts(CHUNK)), depth=depth, splits="axis")
            tree = solve(few, CartInit(), random_state=0).tree
            result = certify(few, tree, chunks=Chunks(lambda n=n: parts(n), rows=CHUNK), time_limit=limit)
            yield row(f"friedman, {n} rows in chunks", depth, "CART of the first", result)
