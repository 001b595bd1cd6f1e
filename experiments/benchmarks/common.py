"""The harness of the benchmark scripts: options, data, clocks and tables.

A script is one function under `script`, the last of its module. Its arguments are the options of the command line, with
their types and defaults, and with help and choices where `typing.Annotated` adds them; one without a default is a
positional argument, and tuples take ``a,b`` and ``a b`` alike. It yields rows, which are printed as a Markdown table
while they come and are written by ``--csv FILE``, and texts, which are printed.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd

from opttree import TAORegressor, TreeProblem, datasets

Row = dict[str, Any]
Step = Callable[[int], object]  # takes its number
Clock = Callable[[], float]


def script(function: Callable[..., Any]) -> Callable[..., Any]:
    """Run ``function`` with the options of the command line if its module is the program."""
    if function.__module__ == "__main__":
        sys.exit(run(function))
    return function


def run(function: Callable[..., Any], words: list[str] | None = None) -> int:
    """Call a script with ``words``, by default those of the command line; the exit status."""
    parser = argparse.ArgumentParser(
        description=inspect.getdoc(inspect.getmodule(function)), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    hints = get_type_hints(function, include_extras=True)
    choices = {name: _add(parser, name, hints[name], one.default) for name, one in _options(function).items()}
    parser.add_argument("--csv", metavar="FILE", help="write the rows, too")
    given = vars(parser.parse_args(words))
    file = given.pop("csv")
    for name, allowed in choices.items():
        if isinstance(given[name], list):
            given[name] = tuple(part for parts in given[name] for part in parts)
            if allowed and (other := [part for part in given[name] if part not in allowed]):
                parser.error(f"--{name} must be of {', '.join(map(str, allowed))}; got {other[0]}")
    outcome = function(**given)
    if not isinstance(outcome, Iterator):
        return int(outcome or 0)
    rows: list[Row] = []
    table = Table()
    try:
        for item in outcome:
            if isinstance(item, str):
                print(item, flush=True)
                continue
            rows.append(item)
            table.add(item)
    finally:
        if file and rows:
            pd.DataFrame(rows).to_csv(file, index=False)
    return 0


def _options(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters


def _add(parser: argparse.ArgumentParser, name: str, hint: Any, default: Any) -> list[Any] | None:
    """Declare an option; returns what its values may be, None: anything."""
    hint, *more = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    words = next((extra for extra in more if isinstance(extra, str)), "")
    allowed = next((list(extra) for extra in more if not isinstance(extra, str)), None)
    if NoneType in get_args(hint):
        hint = next(kind for kind in get_args(hint) if kind is not NoneType)
    if default is inspect.Parameter.empty:
        parser.add_argument(name, type=hint, choices=allowed, help=words)
    elif hint is bool:
        parser.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=words)
    else:
        several = get_origin(hint) is tuple
        kind = get_args(hint)[0] if several else hint
        told = ",".join(map(str, default)) if several and default else default
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            default=[default] if several and default is not None else default,
            type=(lambda word: [kind(part) for part in _parts(word, allowed) if part]) if several else kind,
            nargs="+" if several else None,
            choices=None if several else allowed,
            help=f"{words}{'; ' * bool(words)}default: {told}".replace("%", "%%"),
        )
    return allowed


def _parts(word: str, allowed: list[Any] | None) -> list[str]:
    """What a word names; names of choices may hold commas."""
    return [word] if allowed and word in allowed else word.split(",")


class Table:
    """A Markdown table whose rows are printed as they come; a row with other columns begins another one."""

    def __init__(self) -> None:
        self.widths: dict[str, int] = {}

    def add(self, row: Row) -> None:
        """Print a row."""
        cells = {name: _text(value) for name, value in row.items()}
        if list(cells) != list(self.widths):
            self.widths = {name: max(len(name), len(text), 9) for name, text in cells.items()}
            rule = (f"{'-' * (n + 1)}{'-' if isinstance(row[name], str) else ':'}" for name, n in self.widths.items())
            print(f"\n| {' | '.join(name.ljust(n) for name, n in self.widths.items())} |\n|{'|'.join(rule)}|")
        sides = ("<" if isinstance(value, str) else ">" for value in row.values())
        padded = (f"{cells[name]:{side}{self.widths[name]}}" for name, side in zip(row, sides, strict=True))
        print(f"| {' | '.join(padded)} |", flush=True)


def _text(value: Any) -> str:
    if value is None or value != value:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def markdown(rows: list[Row]) -> str:
    """A table whose cells are texts."""
    return pd.DataFrame(rows).to_markdown(index=False, disable_numparse=True)


# ---- clocks ----------------------------------------------------------------------------------------------------------


def timed(call: Callable[..., Any], *words: Any) -> tuple[float, Any]:
    """Seconds of a call, and what it returns."""
    began = time.perf_counter()
    answer = call(*words)
    return time.perf_counter() - began, answer


def median_seconds(call: Callable[[], object], repeats: int) -> float:
    """Median seconds of a call, after one that does not count."""
    return statistics.median(alternating({"": call}, repeats)[""])


def alternating(
    calls: Mapping[str, Callable[..., object]], rounds: int, *, numbered: bool = False, clock: Clock = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of the calls in turn, after one of each that does not count; ``numbered`` ones take the round."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for k in (0, *range(rounds)):
        for name, call in calls.items():
            began = clock()
            call(*(k,) * numbered)
            taken[name].append(clock() - began)
    return {name: times[1:] for name, times in taken.items()}


def beside(taken: Mapping[str, list[float]], unit: str = "s") -> Row:
    """Medians, in s or ms, and how many times as long as the first each of the others took."""
    medians = {name: statistics.median(times) for name, times in taken.items()}
    first, *others = medians
    cells = {f"{name} {unit}": (1e3 if unit == "ms" else 1.0) * value for name, value in medians.items()}
    return cells | {f"{name} / {first}": medians[name] / medians[first] for name in others}


def steps_beside(
    form: Any, n: int, batch: int, count: int, torch_threads: int, **makers: Callable[[Any, np.ndarray, Any], Step]
) -> Row:
    """Steps a second on the same batches of rows in turn, by what each maker makes of form, theta and batches."""
    import torch

    torch.set_num_threads(torch_threads)
    rng = np.random.default_rng(0)
    theta = form.random_theta(rng)
    batches = [rng.permutation(n)[:batch] for _ in range(count)]
    taken = alternating({name: make(form, theta, batches) for name, make in makers.items()}, count, numbered=True)
    rates = {f"{name} steps/s": 1.0 / statistics.median(times) for name, times in taken.items()}
    return rates | {"ratio": rates["ours steps/s"] / rates["torch steps/s"]}


def fresh(code: str, *words: str, python: str = sys.executable, root: Path | None = None, **environment: str) -> Any:
    """What ``code`` prints last, as JSON, in a process of its own, from the version in the folder ``root``."""
    before = os.environ.get("PYTHONPATH", "")
    path = {} if root is None else {"PYTHONPATH": os.pathsep.join(filter(None, [str(root), before]))}
    done = subprocess.run(
        [python, "-W", "ignore", "-c", code, *words],
        env={**os.environ, **path, **environment},
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def peak() -> float:
    """Largest resident set of this process so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# ---- data ------------------------------------------------------------------------------------------------------------


def load(name: str, rows: int | None = None, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features and outputs of a data set, or of some of its rows at random."""
    X, y = datasets.load(name, as_arrays=True)
    if rows is None:
        return X, y
    chosen = np.random.default_rng(seed).permutation(len(y))[:rows]
    return X[chosen], y[chosen]


def standard(values: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and deviation 1; constant ones are 0."""
    spread = values.std(axis=0)
    return (values - values.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)


def stated(
    name: str, depth: int, loss: str | None = None, rows: int | None = None, seed: int = 0, **options: Any
) -> TreeProblem:
    """The problem of axis-aligned trees on a data set, its outputs standardised; 0/1 loss for classes by default."""
    X, y = load(name, rows, seed)
    if datasets.load(name).task == "regression":
        loss, y = loss or "squared", standard(y)
    return TreeProblem(X, y, depth=depth, splits="axis", loss=loss or "zero_one", **options)


def standardised(name: str, depth: int) -> TreeProblem:
    """The problem that `TAORegressor` states on all rows of a data set."""
    return TAORegressor(depth, split_penalty=1e-4).state(*load(name))[0]
