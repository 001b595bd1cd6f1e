"""The harness of the benchmark scripts: options, tables, clocks; and that every script can be asked for help."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pandas as pd
import pytest

from experiments import benchmarks
from experiments.benchmarks import common

NAMES = [path.stem for path in sorted(Path(benchmarks.__path__[0]).glob("*.py"))]
KINDS = {"a": 1, "b, c": 2}


def example(
    file: Path,
    rows: tuple[int, ...] = (1, 2),
    kinds: Annotated[tuple[str, ...], KINDS] = tuple(KINDS),
    limit: Annotated[float | None, "in seconds"] = None,
    fast: bool = False,
) -> Iterator[common.Row | str]:
    """Says what it was given."""
    yield f"{file} {rows} {kinds} {limit} {fast}"
    for n in rows:
        yield {"n": n, "half": n / 2, "name": "one" if n == 1 else None}


def test_options_are_those_of_the_function(capsys):
    assert common.run(example, ["here"]) == 0
    assert capsys.readouterr().out.startswith("here (1, 2) ('a', 'b, c') None False\n")
    common.run(example, ["here", "--rows", "3,4", "5", "--limit", "2", "--fast", "--kinds", "b, c"])
    assert capsys.readouterr().out.startswith("here (3, 4, 5) ('b, c',) 2.0 True\n")
    common.run(example, ["here", "--rows", ""])
    assert capsys.readouterr().out == "here () ('a', 'b, c') None False\n"
    for words in (["here", "--kinds", "d"], ["here", "--rows", "x"], []):
        with pytest.raises(SystemExit):
            common.run(example, words)


def test_rows_are_a_table_and_a_file(capsys, tmp_path):
    common.run(example, ["here", "--csv", str(tmp_path / "rows.csv")])
    table = [line.replace(" ", "") for line in capsys.readouterr().out.splitlines()[2:]]
    assert table == ["|n|half|name|", "|----------:|----------:|-----------|", "|1|0.5|one|", "|2|1||"]
    assert pd.read_csv(tmp_path / "rows.csv")["half"].tolist() == [0.5, 1.0]


def test_calls_are_timed_in_turn():
    order: list[tuple[str, int]] = []
    ticks = iter(range(100))
    calls = {name: lambda k, name=name: order.append((name, k)) for name in "ab"}
    taken = common.alternating(calls, 2, numbered=True, clock=lambda: next(ticks))
    assert order == [("a", 0), ("b", 0), ("a", 0), ("b", 0), ("a", 1), ("b", 1)]
    assert taken == {"a": [1, 1], "b": [1, 1]}
    assert common.beside({"a": [1.0, 2.0, 9.0], "b": [4.0]}, "ms") == {"a ms": 2e3, "b ms": 4e3, "b / a": 2.0}


@pytest.mark.parametrize("name", NAMES)
def test_scripts_can_be_asked_for_help(name, capsys):
    if name == "exports":
        pytest.importorskip("onnx")
    module = importlib.import_module(f"experiments.benchmarks.{name}")
    if "@script" not in Path(module.__file__).read_text():
        return
    assert ast.parse(Path(module.__file__).read_text()).body[-1].name == "main"  # it runs when it is read
    with pytest.raises(SystemExit) as ended:
        common.run(module.main, ["--help"])
    assert ended.value.code == 0
    assert module.__doc__.splitlines()[0] in capsys.readouterr().out
