"""``opttree fit`` of Parquet files that need not fit into memory, on this machine or on a Dask cluster."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from opttree.cli.common import names_in


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options for tables in parts."""
    group = parser.add_argument_group("a folder or a pattern of Parquet files ('parts/*.parquet'), read in parts")
    group.add_argument(
        "--passes", type=int, metavar="N", help="passes over all rows; default 3; sdtr 1; boosted: its own"
    )
    group.add_argument(
        "--sample", type=int, default=50_000, metavar="ROWS", help="rows to begin with; default %(default)s"
    )
    group.add_argument(
        "--part-rows", type=int, default=262_144, metavar="ROWS", help="rows in a part; default %(default)s"
    )
    group.add_argument("--store", metavar="FOLDER", help="keep the rows there as numbers, which are read more quickly")
    group.add_argument("--checkpoint", metavar="FILE", help="go on from this file; it is written after each pass")
    group.add_argument("--workers", type=int, metavar="N", help="processes of a Dask cluster on this machine")
    group.add_argument("--scheduler", metavar="ADDRESS", help="address of a running Dask cluster")


def is_tall(args: argparse.Namespace) -> bool:
    """Whether the data are several files."""
    return Path(args.data).is_dir() or ("*" in args.data and not Path(args.data).exists())


def fit(args: argparse.Namespace, make: Any) -> tuple[Any, str]:
    """A model of all rows but those of the parts held out, and what is to be said of it.

    ``make`` makes the estimator for a task.
    """
    from sklearn.base import is_regressor

    from opttree.runtime.interrupts import InterruptedFitWarning
    from opttree.tables.checks import TableWarning
    from opttree.tables.parts import Rows

    for name, least in (("--sample", 1), ("--part-rows", 1), ("--passes", 1), ("--workers", 1)):
        value = getattr(args, name[2:].replace("-", "_"))
        if value is not None and value < least:
            raise ValueError(f"{name} must be at least {least}; got {value}")
    with _client(args) as client:
        rows = Rows(args.data, args.target, rows=args.part_rows, client=client, store=args.store, n_jobs=args.jobs)
        held_out = None
        if args.test and len(rows) > 1:
            rows, held_out = rows.without(args.test, np.random.default_rng(args.seed))
        task = args.task or _task(rows)
        model = make(task)
        if not hasattr(model, "fit_chunks"):
            reading = "tao, forest, boosted, srt, orrt, get, sdtr"
            raise ValueError(f"--method must be one that reads parts: {reading}; got {args.method!r}")
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InterruptedFitWarning)
            warnings.simplefilter("ignore", TableWarning)
            passes = args.passes or (3 if model.recipe.parts else 1)
            model.fit_chunks(rows, epochs=passes, sample_rows=args.sample, checkpoint=args.checkpoint)
        seconds = time.perf_counter() - began
        said = f"{model.n_rows_} rows in {len(rows)} parts, {seconds:.2f} s, {rows.traffic.rounds} rounds"
        if held_out is not None:
            score, count = _score(model, held_out, is_regressor(model))
            said += (
                f", held-out {'R2' if is_regressor(model) else 'accuracy'} {score:.4f} on {count} rows of other parts"
            )
    return model, f"{task}: {said}"


def _task(rows: Any) -> str:
    import pandas as pd

    from opttree.tables.datasets import guess_task

    return guess_task(pd.Series(rows.part(0).y))


def _score(model: Any, rows: Any, numbers: bool) -> tuple[float, int]:
    sums = rows.sum(_judged, (model, numbers))
    n = sums[2]
    return float(1.0 - sums[0] / max(sums[1] - sums[3] ** 2 / n, 1e-300) if numbers else sums[0] / n), int(n)


def _judged(part: Any, number: int, shared: tuple[Any, bool]) -> Any:
    """Squared errors, squares, rows and sums of the outcomes; of classes right answers, and rows third."""
    model, numbers = shared
    found = model.predict(part.X)
    if not numbers:
        return np.array([np.sum(found == part.y), 0.0, len(part.y), 0.0])
    y = np.asarray(part.y, np.float64)
    return np.array([np.sum(np.square(y - found)), np.sum(np.square(y)), len(y), np.sum(y)])


@contextmanager
def _client(args: argparse.Namespace) -> Iterator[Any]:
    """The cluster that is asked for, or None."""
    if args.scheduler is None and args.workers is None:
        yield None
        return
    from distributed import Client, LocalCluster

    if args.scheduler is not None:
        with Client(args.scheduler) as client:
            yield client
        return
    with (
        LocalCluster(n_workers=args.workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


def names_refused(args: argparse.Namespace) -> None:
    """ValueError for options that say how text files are written."""
    for name in ("sep", "decimal", "thousands", "encoding", "header"):
        if getattr(args, name) is not None:
            raise ValueError(f"--{name} is for text files; {args.data} holds Parquet files")
    if names_in(args.drop):
        raise ValueError(f"--drop is for one file; got {args.drop!r} for {args.data}")
