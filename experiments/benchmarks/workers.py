"""Rows shared out over workers: a tree of TAO on a Dask cluster of this machine, measured beside a simulation.

A million generated rows of 30 features in Parquet files, TAO's tree of depth 6 with linear leaves, one pass. The fit by
one thread says what each round's blocks of parts take, what is told and what comes back; a round of nothing says what
the cluster takes for a block. From these the simulation has the seconds of any number of workers: they hear the news
one after another, take one block after another, and their answers share the way back. Workers beyond the cores of this
machine share its cores, in the simulation as here.

With ``--kill``, in place of all that: a table in parts on workers of limited memory, one of which is killed in the
middle, beside the same fit in one process.
"""

from __future__ import annotations

import os
import resource
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np

import opttree
from experiments.benchmarks.common import Row, script
from experiments.benchmarks.tall import write
from opttree.tables.blocks import size_in_bytes

EMPTY_ROUNDS = 5
NETWORKS = ((0.0001, 10e9), (0.001, 10e9), (0.001, 1e9), (0.02, 0.1e9))  # seconds of a way, bits a second
MANY = (1, 10, 100, 1000)


class Round(NamedTuple):
    """Seconds of each block of parts, reading with them, bytes told to a block and back, seconds until the next one."""

    blocks: tuple[float, ...]
    told: int
    back: int
    between: float


class Timed(opttree.Rows):
    """`Rows` that note their rounds."""

    def watched(self) -> list[Round]:
        """The rounds so far."""
        rounds: list[Round] = self.__dict__.setdefault("rounds", [])
        return rounds

    def _noted(self, seconds: list[float], shared: Any, back: int, began: float) -> None:
        rounds = self.watched()
        if rounds:
            rounds[-1] = rounds[-1]._replace(between=began - self.__dict__["ended"])
        rounds.append(Round(tuple(seconds), size_in_bytes(shared), back, 0.0))
        self.__dict__["ended"] = time.perf_counter()

    def each(self, function: Callable[..., Any], shared: Any) -> Generator[Any]:
        """As that of `Rows`, with a clock."""
        began = time.perf_counter()
        results = list(super().each(function, shared))
        count = len(self._blocks)
        own = (time.perf_counter() - began) / count
        self._noted([own] * count, shared, size_in_bytes(results) // count, began)
        yield from results

    def sum(self, function: Callable[..., Any], shared: Any, states: list[Any] | None = None) -> Any:
        """As that of `Rows`, with clocks."""
        began = time.perf_counter()
        self.__dict__["clocks"] = []
        result = super().sum(function, shared, states)
        self._noted(self.__dict__["clocks"], shared, size_in_bytes(result), began)
        return result

    def _come(self, result: Any, number: int) -> Any:
        self.__dict__.setdefault("clocks", []).append(time.perf_counter() - self.__dict__.get("last", 0.0))
        self.__dict__["last"] = time.perf_counter()
        return super()._come(result, number)

    def _new_round(self, shared: Any) -> Any:
        self.__dict__["last"] = time.perf_counter()
        return super()._new_round(shared)


def simulated(rounds: list[Round], workers: int, cores: int, latency: float, bits: float, task: float) -> float:
    """Seconds of the rounds on workers.

    Parameters
    ----------
    rounds : list of Round
        What they do.
    workers, cores : int
        Workers, each of one thread, and the cores that they share.
    latency : float
        Seconds of a message.
    bits : float
        Bits a second of the centre's link.
    task : float
        Seconds that the scheduler takes for a block, one after another.

    Returns
    -------
    float
        Seconds.
    """
    total, slower, rate = 0.0, max(workers / cores, 1.0), bits / 8.0
    for one in rounds:
        free = latency + one.told / rate * (1.0 + np.arange(workers))  # the news goes to one worker after another
        arrived = np.empty(len(one.blocks))
        for number, seconds in enumerate(one.blocks):
            w = int(np.argmin(free))
            free[w] = max(free[w], (number + 1) * task) + slower * seconds
            arrived[number] = free[w] + latency
        link = 0.0
        for when in np.sort(arrived):
            link = max(link, when) + one.back / rate
        total += link + one.between
    return total


def nothing(part: Any, number: int, shared: Any) -> int:
    """A round's answer that costs nothing."""
    return 0


def fitted(table: opttree.Rows, depth: int) -> Any:
    """The tree."""
    model = opttree.TAORegressor(depth, leaves="linear", random_state=0)
    return model.fit_chunks(table, epochs=1, sample_rows=20_000)


def clustered(workers: int, limit: str) -> Any:
    """A cluster of processes of one thread."""
    from distributed import LocalCluster

    return LocalCluster(n_workers=workers, threads_per_worker=1, memory_limit=limit, dashboard_address=None)


def killed(files: str, part: int, workers: int, limit: str, depth: int) -> Iterator[Row]:
    """A fit whose workers have little memory and one of which is lost, and the one without workers."""
    from distributed import Client

    with (
        tempfile.TemporaryDirectory(dir=Path(files).parent) as store,
        clustered(workers, limit) as cluster,
        Client(cluster) as client,
    ):
        table = opttree.Rows(files, "y", rows=part, client=client, store=store)
        began = time.perf_counter()
        victim = next(iter(client.run(os.getpid).values()))
        ended: list[float] = []

        def kill_midway() -> None:
            while table.traffic.rounds < 15:
                time.sleep(0.1)
            os.kill(victim, signal.SIGKILL)
            ended.append(time.perf_counter() - began)

        killer = threading.Thread(target=kill_midway, daemon=True)
        killer.start()
        there = fitted(table, depth)
        seconds = time.perf_counter() - began
        killer.join()
        peaks = client.run(lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
    yield {"fit": f"{workers} workers of {limit}", "seconds": seconds, "killed at": ended[0], "MB": max(peaks.values())}
    with tempfile.TemporaryDirectory(dir=Path(files).parent) as store:
        began = time.perf_counter()
        here = fitted(opttree.Rows(files, "y", rows=part, store=store), depth)
        row = {"fit": "one process", "seconds": time.perf_counter() - began, "killed at": None}
    yield row | {"MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}
    yield f"the same tree: {here.tree_ == there.tree_}"


@script
def main(
    folder: Path,
    rows: int = 1_000_000,
    part: Annotated[int, "rows of a part, at most"] = 16_384,
    workers: tuple[int, ...] = (1, 2, 4, 8),
    depth: int = 6,
    kill: Annotated[bool, "kill a worker of 8, in place of the simulation"] = False,
    limit: Annotated[str, "memory of a worker"] = "1GB",
) -> Iterator[Row | str]:
    from distributed import Client

    write(folder, rows)
    files = str(folder / "*.parquet")
    if kill:
        yield from killed(files, part, 8, limit, depth)
        return
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(dir=folder) as store:
        fitted(opttree.Rows(files, "y", rows=part, n_jobs=1), depth)  # compiles
        table = Timed(files, "y", rows=part, n_jobs=1, store=store)
        began = time.perf_counter()
        fitted(table, depth)
        here = time.perf_counter() - began
        rounds = table.watched()
        outside = here - sum(sum(one.blocks) + one.between for one in rounds)
        yield {
            "fit": "one thread",
            "seconds": here,
            "rounds": len(rounds),
            "parts": len(table),
            "blocks": len(rounds[-1].blocks),
            "MB told": sum(one.told * len(one.blocks) for one in rounds) / 2**20,
            "MB back": sum(one.back * len(one.blocks) for one in rounds) / 2**20,
            "s in blocks": sum(sum(one.blocks) for one in rounds),
            "s at the centre": outside + sum(one.between for one in rounds),
        }
    for count in workers:
        with (
            tempfile.TemporaryDirectory(dir=folder) as store,
            clustered(count, "auto") as cluster,
            Client(cluster) as client,
        ):
            table = opttree.Rows(files, "y", rows=part, client=client, store=store)
            fitted(table, depth)  # workers compile, or load what is compiled
            empty = opttree.Rows([(np.zeros((1, 1)), np.zeros(1))] * len(table), client=client)
            empty.sum(nothing, ())
            began = time.perf_counter()
            for _ in range(EMPTY_ROUNDS):
                empty.sum(nothing, ())
            task = (time.perf_counter() - began) / (EMPTY_ROUNDS * len(rounds[-1].blocks))
            began = time.perf_counter()
            fitted(table, depth)
            seconds = time.perf_counter() - began
        told = outside + simulated(rounds, count, cores, 0.0001, 10e9, task)
        yield {
            "workers": str(count),
            "measured s": seconds,
            "simulated s": told,
            "ratio": told / seconds,
            "ms of a task": 1e3 * task,
        }
    for latency, bits in NETWORKS:
        row: Row = {"network": f"{1e3 * latency:g} ms, {bits / 1e9:g} Gbit/s"}
        for count in MANY:
            row[f"{count} workers, s"] = outside + simulated(rounds, count, count, latency, bits, task)
        yield row
