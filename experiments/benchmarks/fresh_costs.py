"""Fits of real tables, for the models of `opttree.estimate_cost`, and whether these are right on others.

`experiments.benchmarks.scaling` measures rows of Friedman #1. Here every method is fitted to ten real tables: rows
(from 300 on) and a depth (2 to 8) are drawn from a stated seed, and rows are taken away until the estimate is below the
limit. Fits are measured as there, seconds as the processor's, and appended to real.csv in the folder. The models are
fitted to those of seed 0, too; other seeds check them.

The table has, of each method and seed, the ratios of what was measured to what is told now: the median, the least, the
largest, and how many are within a factor of 3, and within the factor that is stated. A fit that takes five times the
limit is ended, and counts as that long.
"""

from __future__ import annotations

import csv
import multiprocessing
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from experiments.benchmarks.common import Row, script
from experiments.benchmarks.scaling import COLUMNS_OF_REAL, FOLDER, NAMES, REAL, begin, measured_fit, warm
from opttree import datasets, estimate_cost
from opttree.methods.costs import FLOOR

TABLES = ("abalone", "ailerons", "airfoil", "cbm_turbine", "cpu_act", "elevators", "friedman", "kin8nm", "puma32H",
          "wine_white")  # fmt: skip
LEAST, DEPTHS = 300, (2, 9)
LONGEST = 5.0  # times the limit
WITHIN = 3.0


def part(X: np.ndarray, y: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Some rows of a table."""
    return X[rows], y[rows]


def measure(name: str, limit: float, memory: float, seed: int, file: Path) -> None:
    """A fit to each table, in a process of its own."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(seed)
    with threadpool_limits(1):
        warm(name)
        for table in TABLES:
            X, y = datasets.load(table, as_arrays=True)
            y = (y - y.mean()) / y.std()
            n, p = int(np.exp(rng.uniform(np.log(LEAST), np.log(len(X))))), X.shape[1]
            depth = int(rng.integers(*DEPTHS))
            while estimate_cost(name, n, p, depth).seconds > limit and n > LEAST:
                n = max(n // 2, LEAST)
            rows = partial(part, X, y, rng.permutation(len(X))[:n])
            seconds, _wall, megabytes, steps, ended = measured_fit(name, rows, depth, LONGEST * limit, memory)
            if ended != "done":
                seconds, megabytes, steps = LONGEST * limit, "", ""
            with file.open("a", newline="") as out:
                csv.writer(out).writerow([name, table, seed, n, p, depth, seconds, megabytes, steps, ended])


def summary(name: str, fits: pd.DataFrame) -> Row:
    """How far the estimates of a method are off."""
    told = [estimate_cost(name, n, p, depth) for n, p, depth in fits[["n", "p", "depth"]].to_numpy().tolist()]
    seconds = fits["seconds"].to_numpy() / [cost.seconds for cost in told]
    size = np.maximum(1e6 * fits["megabytes"], FLOOR).to_numpy() / np.maximum([cost.bytes for cost in told], FLOOR)
    stated = told[0].seconds_factor

    def within(ratios: np.ndarray, factor: float) -> int:
        return int(((ratios <= factor) & (ratios >= 1.0 / factor)).sum())

    return {
        "method": name,
        "seed": int(fits["seed"].iloc[0]),
        "seconds: median": f"{np.median(seconds):.2f}",
        "least": f"{seconds.min():.2f}",
        "largest": f"{seconds.max():.2f}",
        "within 3": within(seconds, WITHIN),
        "within stated": f"{within(seconds, stated)} ({stated})",
        "bytes: least": f"{np.nanmin(size):.2f}",
        "bytes: largest": f"{np.nanmax(size):.2f}",
        "bytes within 3": within(size[~np.isnan(size)], WITHIN),
        "fits": len(fits),
    }


@script
def main(
    methods: Annotated[tuple[str, ...], NAMES] = tuple(NAMES),
    limit: Annotated[float, "seconds that a fit is told to take at most"] = 10.0,
    memory: Annotated[float, "GB of data that a fit may hold"] = 8.0,
    seed: Annotated[int, "of rows and depths"] = 0,
    out: Annotated[Path, "folder"] = FOLDER,
) -> Iterator[Row]:
    file = out / REAL
    begin(file, COLUMNS_OF_REAL)
    for name in methods:
        fits = pd.read_csv(file)
        if not ((fits["method"] == name) & (fits["seed"] == seed)).any():
            one = multiprocessing.get_context("fork").Process(target=measure, args=(name, limit, memory, seed, file))
            one.start()
            one.join()
            if one.exitcode:
                raise SystemExit(one.exitcode)
            fits = pd.read_csv(file)
        yield summary(name, fits[(fits["method"] == name) & (fits["seed"] == seed)])
