"""Whether `opttree.estimate_cost` is right on data that it was not made from.

Its models come from rows of Friedman #1 (`experiments.benchmarks.scaling`). Here every method is fitted to ten real
tables: rows (from 300 on) and a depth (2 to 8) are drawn from a stated seed, and rows are taken away until the
estimate is below the limit. Fits are measured as there, seconds as the processor's. The table has, of each method, the
ratios of what was measured to what was told: the median, the least, the largest, and how many of the ten are within a
factor of 3. A fit that takes five times the limit is ended, and counts as that long.
"""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

import numpy as np
from threadpoolctl import threadpool_limits

from experiments.benchmarks.common import Row, script
from experiments.benchmarks.scaling import NAMES, measured_fit, warm
from opttree import datasets, estimate_cost
from opttree.methods.costs import FLOOR

TABLES = (
    "abalone", "ailerons", "airfoil", "cbm_turbine", "cpu_act", "elevators", "friedman", "kin8nm", "puma32H",
    "wine_white",
)  # fmt: skip
LEAST, DEPTHS = 300, (2, 9)
LONGEST = 5.0  # times the limit
WITHIN = 3.0


def part(X: np.ndarray, y: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Some rows of a table."""
    return X[rows], y[rows]


def ratios(name: str, limit: float, memory: float, seed: int, answer: Any) -> None:
    """Measured over told, seconds and bytes, of every table, in a process of its own."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(seed)
    with threadpool_limits(1):
        warm(name)
        for table in TABLES:
            X, y = datasets.load(table, as_arrays=True)
            y = (y - y.mean()) / y.std()
            n = int(np.exp(rng.uniform(np.log(LEAST), np.log(len(X)))))
            depth = int(rng.integers(*DEPTHS))
            while (cost := estimate_cost(name, n, X.shape[1], depth)).seconds > limit and n > LEAST:
                n = max(n // 2, LEAST)
            taken = rng.permutation(len(X))[:n]
            found = measured_fit(name, partial(part, X, y, taken), depth, LONGEST * limit, memory)
            seconds, megabytes = (found[0], found[2]) if found[-1] == "done" else (LONGEST * limit, np.nan)
            size = max(1e6 * megabytes, FLOOR) / max(cost.bytes, FLOOR)
            answer.send((table, n, depth, cost.seconds, seconds, seconds / cost.seconds, size))
    answer.send(None)


@script
def main(
    methods: Annotated[tuple[str, ...], NAMES] = tuple(NAMES),
    limit: Annotated[float, "seconds that a fit is told to take at most"] = 10.0,
    memory: Annotated[float, "GB of data that a fit may hold"] = 8.0,
    seed: Annotated[int, "of rows and depths"] = 0,
    each: Annotated[bool, "a row for each fit"] = False,
) -> Iterator[Row]:
    context = multiprocessing.get_context("fork")
    for name in methods:
        receiver, sender = context.Pipe(duplex=False)
        one = context.Process(target=ratios, args=(name, limit, memory, seed, sender))
        one.start()
        sender.close()
        seconds, size = [], []
        while (found := receiver.recv()) is not None:
            table, n, depth, told, took, time, space = found
            seconds.append(time)
            size.append(space)
            if each:
                yield {
                    "method": name,
                    "table": table,
                    "n": n,
                    "depth": depth,
                    "told": told,
                    "took": took,
                    "bytes": space,
                }
        one.join()
        row: Row = {"method": name}
        for what, values in (("seconds", np.array(seconds)), ("bytes", np.array(size)[~np.isnan(size)])):
            row |= {f"{what}: median": f"{np.median(values):.2f}"}
            row |= (
                {"least": f"{values.min():.2f}", "largest": f"{values.max():.2f}"}
                if what == "seconds"
                else {"least bytes": f"{values.min():.2f}", "most bytes": f"{values.max():.2f}"}
            )
            row |= {f"{what} within 3": int(((values <= WITHIN) & (values >= 1.0 / WITHIN)).sum())}
        yield row
