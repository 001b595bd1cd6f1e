"""The instances of published comparisons of exact trees: CPU seconds to a proof, one thread, each result verified.

Instances whose files are in ``folder`` (by default ``exact`` in OPTTREE_DATA), at the depths of their known optima.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from experiments.benchmarks.common import Row, script
from solvers import BranchAndBound, claim, instances, solve, verify


@script
def main(
    names: tuple[str, ...] = (),
    depths: tuple[int, ...] = (2, 3, 4),
    folder: str | None = None,
    limit: float = 60.0,
) -> Iterator[Row | str]:
    for name, instance in instances().items():
        if names and name not in names:
            continue
        try:
            X, y = instance.load(folder)
        except ValueError as error:
            yield f"left out: {error}"
            continue
        for depth in sorted(set(depths) & set(instance.optima)):
            problem = instance.problem(depth, folder)
            solve(problem, BranchAndBound(n_jobs=1), time_limit=0.01)  # loads what is compiled
            began = time.process_time()
            result = solve(problem.restated(), BranchAndBound(n_jobs=1), time_limit=limit)
            seconds = time.process_time() - began
            stated = json.loads(json.dumps(claim(name, problem, result)))
            found = verify(stated, X, y, instance.optima[depth])
            row: Row = {"instance": name, "rows": instance.n, "features": instance.p, "depth": depth}
            row |= {"objective": f"{found.objective:.9g}", "known": f"{instance.optima[depth]:.9g}"}
            yield row | {"ended": result.termination.name, "CPU s": seconds, "verified": found.holds}
            if found.faults:
                yield f"{name}, depth {depth}: {'; '.join(found.faults)}"
