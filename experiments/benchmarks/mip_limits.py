"""Time limits of `solvers.MIP`: how late it ends, and whether its tree is ever worse than its start."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from experiments.benchmarks.common import Row, script, stated
from experiments.benchmarks.mip_formulations import FORMULATIONS
from opttree import datasets
from solvers import MIP, CartInit, solve

SETS = (
    "airfoil", "auto_mpg", "housing", "yacht", "computer_hardware",
    "abalone", "banknote", "raisin", "glass", "heart_failure",
)  # fmt: skip
ROWS = (100, 400)


@script
def main(limits: tuple[float, ...] = (1.0, 5.0, 10.0), problems: int = 20) -> Iterator[Row | str]:
    names = [name for name in SETS if name in datasets.names()]
    chosen = {  # large enough that few are proved within the limits
        f"{name}, {n} rows": stated(name, 2 + k % 2, rows=n, seed=k) for n in ROWS for k, name in enumerate(names)
    }
    cases = list(chosen.items())[:problems]
    for form in FORMULATIONS:
        solve(cases[0][1].sample(np.arange(20)), MIP(form), time_limit=2)  # warm
    for form in FORMULATIONS:
        for limit in limits:
            late, ended, worse = [], 0, 0
            for name, problem in cases:
                start = solve(problem, CartInit(), random_state=0)
                result = solve(problem, MIP(form), start=start, time_limit=limit, random_state=0)
                late.append(max(result.seconds - limit, 0.0))
                ended += result.termination.name != "TIME_LIMIT"
                worse += (is_worse := result.objective > start.objective + 1e-12)
                if late[-1] > 1.0 or is_worse:
                    yield f"{form}, {name}, depth {problem.depth}, limit {limit:g}: {result}"
            row = {"formulation": form, "limit": limit, "runs": len(late), "worst seconds late": max(late)}
            yield row | {"mean": float(np.mean(late)), "ended by themselves": ended, "worse than the start": worse}
