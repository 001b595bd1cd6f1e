"""Milliseconds of one TAO iteration, `solvers.TAO` against `reference_tao`, in turn from the same random start.

Milliseconds are medians over the passes, ratios are of the sums.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from experiments.benchmarks.common import Row, script, standardised, timed
from experiments.benchmarks.reference_tao import one_pass
from solvers import TAO, RandomInit, solve


@script
def main(
    data: tuple[str, ...] = ("elevators", "cpu_act", "ailerons"), depth: int = 6, passes: int = 10
) -> Iterator[Row]:
    for name in data:
        problem = standardised(name, depth)
        start = RandomInit().build(problem, np.random.default_rng(0))
        solve(problem, TAO(max_iter=1), start=start)  # compile
        result = solve(problem, TAO(max_iter=passes, tol=0.0, patience=passes), start=start)
        seconds = np.diff([row.seconds for row in result.trace])
        row: Row = {"data": name, "n": problem.n_samples, "p": problem.n_features, "ours ms": 1e3 * np.median(seconds)}
        row["ours best"] = result.objective
        for tol in (1e-2, 1e-4):
            tree, times, best = start, [], np.inf
            for _ in range(passes):
                took, tree = timed(one_pass, problem, tree, tol)
                times.append(took)
                best = min(best, problem.objective(tree.prune_dead(problem.X)))
            found = {"ms": 1e3 * np.median(times), "ratio": sum(times) / seconds.sum(), "best": best}
            row |= {f"{key}, tol {tol:g}": value for key, value in found.items()}
        yield row
