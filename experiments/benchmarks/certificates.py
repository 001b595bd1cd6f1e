"""How far trees are from optimal, proved by `solvers.certify`: gap and seconds, data in memory and in chunks.

Trees of CART, of TAO and of local search, each found within a minute; outputs are standardised. Friedman #1 sets are
generated, with noise of deviation 1; their last line is CART's tree certified by chunks of 10,000 rows, without the
whole table.

python -m experiments.benchmarks.certificates [--rows 100000,1000000] [--data airfoil,abalone] [--depths 2,3]
    [--trees CART,LocalSearch] [--limit 120]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from sklearn.datasets import make_friedman1

from experiments.benchmarks.exact import stated
from opttree import TreeProblem
from opttree.tables.chunks import Chunks
from solvers import TAO, CartInit, LocalSearch, certify, solve

SIXTEEN = (
    "abalone,airfoil,ailerons_7154,auto_mpg,cpu_act,cpu_small,computer_hardware,delta_ailerons,delta_elevators,"
    "elevators,housing,kin8nm,lpga2009,puma8NH,space_ga,yacht"
)
HEURISTICS = {"CART": CartInit(), "TAO": TAO(), "LocalSearch": LocalSearch(n_starts=3)}
SEARCH = 60.0  # seconds for a heuristic
CHUNK = 10_000


def friedman(n: int, depth: int) -> TreeProblem:
    """A generated problem of ``n`` rows."""
    X, y = make_friedman1(n, noise=1.0, random_state=0)
    return TreeProblem(X, (y - y.mean()) / y.std(), depth=depth, splits="axis")


def parts(n: int) -> Iterator[tuple[Any, Any]]:
    """Rows of such a set that are generated when they are asked for."""
    for seed in range(n // CHUNK):
        X, y = make_friedman1(CHUNK, noise=1.0, random_state=1 + seed)
        yield X, (y - 14.4) / 5.0


def report(name: str, problem: TreeProblem, limit: float, trees: list[str]) -> None:
    """A line per heuristic."""
    for label in trees:
        found = solve(problem, HEURISTICS[label], time_limit=SEARCH, random_state=0)
        result = certify(problem, found, time_limit=limit, random_state=0)
        gap = 100.0 * (result.gap or 0.0)
        how = result.message
        print(
            f"{name}, D = {problem.depth}, {label:11s}: objective {result.objective:.6f}, gap {gap:6.3f} %, "
            f"{result.seconds:6.1f} s; {how}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="100000,1000000", help='of Friedman sets; "" for none')
    parser.add_argument("--data", default=SIXTEEN, help='"" for none')
    parser.add_argument("--depths", default="2,3")
    parser.add_argument("--trees", default=",".join(HEURISTICS))
    parser.add_argument("--limit", type=float, default=120.0, help="time limit of a certificate, in seconds")
    args = parser.parse_args()
    depths = [int(depth) for depth in args.depths.split(",")]
    trees = args.trees.split(",")
    for depth in depths:  # compiles
        report("warm-up", friedman(500, depth), 10.0, trees)
    for name in filter(None, args.data.split(",")):
        for depth in depths:
            report(name, stated(name, depth, None), args.limit, trees)
    for n in map(int, filter(None, args.rows.split(","))):
        for depth in depths:
            report(f"friedman, {n} rows", friedman(n, depth), args.limit, trees)
            few = TreeProblem(*next(parts(CHUNK)), depth=depth, splits="axis")
            tree = solve(few, CartInit(), random_state=0).tree
            result = certify(few, tree, chunks=Chunks(lambda n=n: parts(n), rows=CHUNK), time_limit=args.limit)
            gap = f"gap {100.0 * (result.gap or 0.0):.3f} %, {result.seconds:.1f} s"
            print(f"friedman, {n} rows in chunks, D = {depth}, CART of the first: {gap}", flush=True)


if __name__ == "__main__":
    main()
