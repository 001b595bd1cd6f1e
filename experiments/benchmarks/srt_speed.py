"""Seconds of `solvers.NODEC` against the straightforward NumPy, SLSQP and scikit-learn program of `reference_srt`.

Both run NODEC-DR on the statement of `SRTRegressor`, in turn, from the same clustering starts; medians over seeds, with
the smooth objectives reached. SLSQP takes up to 100 iterations in a BN step (SciPy's default, the paper's choice)
or 10, as many as our L-BFGS.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from experiments.benchmarks.common import Row, beside, load, script, timed
from experiments.benchmarks.reference_srt import nodec
from opttree import SmoothTreeProblem, SRTRegressor
from solvers import NODEC, ClusterInit, solve
from solvers.soft.starts import soft_start


@script
def main(
    data: tuple[str, ...] = ("yacht", "airfoil", "kin8nm", "cpu_act"), depth: int = 3, repeats: int = 3
) -> Iterator[Row]:
    for name in data:
        problem, _scaling = SRTRegressor(depth).state(*load(name))
        solve(problem, NODEC(max_iter=1), random_state=0)  # compile
        taken: dict[str, list[float]] = {}
        reached: dict[str, list[float]] = {}
        for seed in range(repeats):
            start = solve(problem, ClusterInit(n_init=1, n_repeats=3), random_state=seed).tree
            result = solve(problem, NODEC(), start=start, random_state=seed)
            runs = {"ours": (result.seconds, result.trace.to_frame()["smooth"].min())}
            smooth = SmoothTreeProblem(problem)
            theta = soft_start(smooth, start, NODEC().steepness, np.random.default_rng(seed))
            A, b, _values, _coefs = smooth.unpack(theta)
            for count in (100, 10):
                took, (*_point, value) = timed(lambda A=A, b=b, k=count: nodec(problem, A, b, iterations=k))  # noqa: B023
                runs[f"SLSQP {count}"] = took, value
            for label, (took, value) in runs.items():
                taken.setdefault(label, []).append(took)
                reached.setdefault(label, []).append(value)
        objectives = {f"{label} objective": float(np.median(values)) for label, values in reached.items()}
        yield {"data": name, "depth": depth, **beside(taken), **objectives}
