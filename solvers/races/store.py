"""The store of a plan's results: a parquet file of rows, one of traces and one of sessions (system, versions).

A finished run is first written, atomically, to a small file of its own beside them; `Store.compact` moves these into
the tables. So a killed process loses the runs in flight and nothing else, whenever it is killed: what stands in both
places is the same row, and is read once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock, Timeout

from solvers.races.runs import Run

COLUMNS = {  # those that are there whatever the rows hold
    "rows": (
        "key", "run_id", "dataset", "depth", "leaves", "split", "seed", "method", "options", "splits", "statement",
        "code_version", "status", "reason", "termination", "time_limit", "memory_limit", "session", "finished",
    ),
    "sessions": ("session",),
}  # fmt: skip
TRACE = {"seconds": float, "step": int, "phase": str, "objective": float, "best": float, "bound": float}


class Store:
    """The tables called ``name`` in a folder."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, Path(folder)
        self._parts = self.folder / f"{name}.parts"

    def path(self, table: str) -> Path:
        """File of "rows", "traces" or "sessions"."""
        return self.folder / (f"{self.name}.parquet" if table == "rows" else f"{self.name}.{table}.parquet")

    def rows(self) -> pd.DataFrame:
        """One row per run, the latest of each key."""
        return self._table("rows").drop_duplicates("key", keep="last", ignore_index=True)

    def traces(self) -> pd.DataFrame:
        """Objective against time: the steps of the runs that have a trace, by key."""
        parts, main = self._read_parts("traces"), self._read("traces")  # in this order: see `_table`
        if main is not None and parts:
            main = main[~main["key"].isin({frame["key"].iloc[0] for frame in parts})]
        return _concatenate([main, *parts], ["key", *TRACE])

    def sessions(self) -> pd.DataFrame:
        """One row per call of the runner: its system, the versions of its libraries, its options."""
        return self._table("sessions").drop_duplicates("session", keep="last", ignore_index=True)

    def settled(self) -> set[str]:
        """Keys of the runs that ended well. Failures and skipped runs are stored, but never count as done."""
        rows = self.rows()
        return set(rows["key"][(rows["status"] == "ok") & (rows["termination"] != "TIME_LIMIT")])

    def ended_at(self, limit: str) -> dict[str, float]:
        """The limits of the runs that "time_limit" or "memory_limit" ended, by key."""
        rows = self.rows()
        ended = rows["status"] == limit
        if limit == "time_limit":
            ended |= (rows["status"] == "ok") & (rows["termination"] == "TIME_LIMIT")
        return dict(zip(rows["key"][ended], rows[limit][ended], strict=True))

    def add(self, run: Run, outcome: dict[str, Any], session: str) -> None:
        """Write the row of a run, and its trace before it."""
        trace = outcome.get("trace")
        if trace is not None and len(trace):
            self._write(trace.astype(TRACE).assign(key=run.key), self._parts / f"{run.key}.traces.parquet")
        row = {
            "key": run.key,
            "run_id": run.run_id,
            **run.identity,
            "code_version": run.code_version,
            "status": outcome["status"],
            "reason": outcome["reason"],
            "time_limit": run.limit,
            "memory_limit": run.memory_limit,
            "session": session,
            "finished": pd.Timestamp.now(tz="UTC").isoformat(timespec="seconds"),
            **outcome.get("row", {}),
        }
        self._write(pd.DataFrame([row]), self._parts / f"{run.key}.rows.parquet")

    def add_session(self, row: dict[str, Any]) -> None:
        """Write what a session ran on."""
        self._write(pd.DataFrame([row]), self._parts / f"{row['session']}.sessions.parquet")

    def compact(self) -> None:
        """Move the single files into the tables; files of writes that were cut off are removed."""
        for path in self._parts.glob("*.unfinished"):
            path.unlink()
        parts = sorted(self._parts.glob("*.parquet"))
        for table in ("traces", "rows", "sessions"):
            if any(path.name.endswith(f".{table}.parquet") for path in parts):
                self._write(getattr(self, table)(), self.path(table))
        for path in parts:
            path.unlink()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One writer at a time; ValueError where there is another."""
        self._parts.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self._parts / "lock", timeout=0):
                yield
        except Timeout as error:
            raise ValueError(
                f"another run writes to {self.path('rows').name}; wait for it or name another --store"
            ) from error

    def _table(self, table: str) -> pd.DataFrame:
        parts = self._read_parts(table)  # first: what a writer moves meanwhile is then in both, not in neither
        return _concatenate([self._read(table), *parts], [*COLUMNS[table]])

    def _read(self, table: str) -> pd.DataFrame | None:
        path = self.path(table)
        return read_table(path) if path.exists() else None

    def _read_parts(self, table: str) -> list[pd.DataFrame]:
        frames = []
        for path in self._parts.glob(f"*.{table}.parquet"):
            with suppress(FileNotFoundError):  # moved into the table meanwhile
                frames.append((path.stat().st_mtime_ns, path.name, read_table(path)))
        return [frame for _time, _name, frame in sorted(frames, key=lambda f: f[:2])]

    def _write(self, frame: pd.DataFrame, path: Path) -> None:
        self._parts.mkdir(parents=True, exist_ok=True)
        unfinished = self._parts / f"{path.name}.{os.getpid()}.unfinished"
        frame.to_parquet(unfinished, index=False)
        os.replace(unfinished, path)


def read_table(path: Path) -> pd.DataFrame:
    """The table in a file, by one open file: pyarrow opens a name twice, and a writer may replace it in between."""
    with path.open("rb") as file:
        return pd.read_parquet(file)


def _concatenate(frames: list[pd.DataFrame | None], columns: list[str]) -> pd.DataFrame:
    """The frames one below the other; a column without a value in a frame leaves the type to the others."""
    whole = [frame.dropna(axis=1, how="all") for frame in frames if frame is not None and len(frame)]
    if not whole:
        return pd.DataFrame(columns=columns)
    table = pd.concat(whole, ignore_index=True)
    return table.reindex(columns=list(dict.fromkeys([*columns, *table.columns])))
