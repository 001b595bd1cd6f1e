"""Fits with a time limit that is short for the table: a million rows of 20 columns.

Numbers are ``sin x0 + x1 x2`` and noise of variance .09, of which .94 of the variance can be told, and classes are
four ranges of them. Each fit runs in a process of its own, on one thread, after a fit of a thousand rows that compiles
its kernels; the score, R2 or accuracy, is that of 200,000 other rows. The seconds are those of the clock, from the call
of ``fit`` to its return.
"""

from __future__ import annotations

import multiprocessing
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from experiments.benchmarks.common import Row, markdown, script
from opttree.methods.table import METHODS, make_estimator
from solvers.races.runs import code_version

REPORT = Path(__file__).resolve().parents[1] / "results" / "reliability" / "short_limits.md"
USUAL = ("auto", "boosted", "forest", "get", "tao-axis", "tao-c", "tao-l", "orrt", "raddt")


def drawn(n: int, seed: int) -> tuple[Any, Any]:
    """Features (n, 20) and numbers (n,)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 20))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)


def fit(method: str, task: str, limit: float, rows: int, seed: int, found: Any) -> None:
    """One fit; its seconds and score go into the queue."""
    warnings.simplefilter("ignore")
    X, y = drawn(rows, seed)
    fresh, answers = drawn(200_000, seed + 1000)
    if task == "classification":
        ends = np.quantile(y, [0.3, 0.6, 0.9])
        y, answers = np.digitize(y, ends), np.digitize(answers, ends)
    for some in (slice(1000), slice(None)):
        model = make_estimator(method, task, 6, seed, 1).set_params(time_limit=limit)
        began = time.perf_counter()
        model.fit(X[some], y[some])
        seconds = time.perf_counter() - began
    found.put((seconds, model.score(fresh, answers)))


@script
def main(
    methods: Annotated[tuple[str, ...], list(METHODS)] = USUAL,
    limits: Annotated[tuple[float, ...], "seconds"] = (15.0, 60.0),
    rows: Annotated[int, "of the table"] = 1_000_000,
    seeds: Annotated[tuple[int, ...], "of the table and the fit"] = (0,),
    out: Annotated[Path, "file"] = REPORT,
) -> Iterator[Row]:
    context = multiprocessing.get_context("spawn")
    table: list[Row] = []
    for method in methods:
        for task in ("regression", "classification"):
            if METHODS[method].estimator_class(task) is None:
                continue
            row: Row = {"method": method, "task": task}
            for limit in limits:
                results = []
                for seed in seeds:
                    found: Any = context.Queue()
                    one = context.Process(target=fit, args=(method, task, limit, rows, seed, found))
                    one.start()
                    one.join()
                    results.append(found.get() if one.exitcode == 0 else (np.nan, np.nan))
                seconds, score = np.median(results, axis=0)
                row |= {f"{limit:g} s: score": f"{score:.3f}", f"{limit:g} s: seconds": f"{seconds:.1f}"}
            table.append(row)
            yield row
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(
        f"# Short limits\n\n`python -m experiments.benchmarks.short_limits`, version {code_version()}: {rows:,} rows "
        f"of 20 columns, depth 6 where a method has one.\n\n{markdown(table)}\n"
    )
