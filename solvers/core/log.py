"""The log of a run: lines like those of a MIP solver, or a progress bar."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

from opttree.runtime.clock import now
from solvers.core.result import Result, TraceRow, relative_gap

LOGGER = logging.getLogger("opttree")
PAUSE = 0.25  # least seconds between two lines
HEAD = f"{'seconds':>9}  {'step':>6}  {'phase':<24}  {'objective':>12}  {'best':>12}  {'bound':>12}  {'gap':>8}"

Verbosity = bool | int | str


def checked(verbose: Verbosity) -> Verbosity:
    """``verbose``; ValueError unless it is False, True, 0, 1 or "bar"."""
    if verbose not in (0, 1, "bar"):
        raise ValueError(f"verbose must be 0, 1 or 'bar'; got {verbose!r}")
    return verbose


class Lines:
    """A table that grows with the trace: a new best or bound, a new phase, the first and the last row; at most four
    lines a second.
    """

    def __init__(self, title: str, _time_limit: float, write: Callable[[str], Any] = print) -> None:
        self.write, self.last, self.waiting = write, -math.inf, ""
        self.seen: tuple[Any, ...] = ()
        write(title)
        write(HEAD)

    def take(self, row: TraceRow) -> None:
        """Print the row, now, later or not."""
        state = row.phase, row.best, row.bound
        if state == self.seen:
            return
        self.seen, self.waiting = state, _line(row)
        if now() - self.last >= PAUSE:
            self._flush()

    def _flush(self) -> None:
        if self.waiting:
            self.write(self.waiting)
            self.waiting, self.last = "", now()

    def end(self, result: Result | None) -> None:
        """Print what waits, and the result; None after an error."""
        self._flush()
        if result is not None:
            self.write(str(result))


class Bar:
    """A progress bar of tqdm: seconds of the time limit, or steps without one."""

    def __init__(self, title: str, time_limit: float) -> None:
        from tqdm.auto import tqdm

        self.timed = math.isfinite(time_limit)
        unit = {"unit": "s", "bar_format": "{l_bar}{bar}| {n:.1f}/{total:.1f} s{postfix}"} if self.timed else {}
        self.bar: Any = tqdm(total=time_limit if self.timed else None, desc=title.split("(")[0], **unit)

    def take(self, row: TraceRow) -> None:
        """Move the bar."""
        self.bar.n = min(row.seconds, self.bar.total) if self.timed else row.step + 1
        gap = relative_gap(row.best, row.bound)
        self.bar.set_postfix_str(f"best {row.best:.6g}" + ("" if gap is None else f", gap {100 * gap:.3g} %"), False)
        self.bar.update(0)
        if self.bar.n - self.bar.last_print_n >= (0.1 if self.timed else 1):
            self.bar.refresh()

    def end(self, result: Result | None) -> None:
        """Leave the bar as it is."""
        if result is not None and self.timed:
            self.bar.n = min(result.seconds, self.bar.total)
        self.bar.close()


class Silent:
    """No log."""

    def take(self, row: TraceRow) -> None:
        """Nothing."""

    def end(self, result: Result | None) -> None:
        """Nothing."""


def log_of(verbose: Verbosity, title: str, time_limit: float) -> Lines | Bar | Silent:
    """The log that ``verbose`` asks for."""
    if verbose == "bar":
        return Bar(title, time_limit)
    return Lines(title, time_limit) if verbose else Silent()


def _line(row: TraceRow) -> str:
    gap = relative_gap(row.best, row.bound)
    bound = "-" if row.bound is None else f"{row.bound:.6g}"
    share = "-" if gap is None else f"{100.0 * gap:.2f} %"
    phase = row.phase if len(row.phase) <= 24 else f"{row.phase[:23]}…"
    numbers = f"{row.objective:12.6g}  {row.best:12.6g}  {bound:>12}  {share:>8}"
    return f"{row.seconds:9.2f}  {row.step:6d}  {phase:<24}  {numbers}"
