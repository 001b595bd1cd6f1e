"""Docstrings of the public interface: each has an example that runs, and says where to look further."""

from __future__ import annotations

import doctest
import inspect
import types
from pathlib import Path
from typing import Any

import pytest

import opttree
import solvers

MODULES = (
    opttree, opttree.chunks, opttree.constraints, opttree.datasets, opttree.encoding, opttree.explain, opttree.export,
    opttree.interpret, opttree.io, opttree.losses, opttree.plotting, opttree.preprocessing, solvers, solvers.external,
    solvers.streaming,
)  # fmt: skip
PUBLIC: dict[str, Any] = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in MODULES
    for name in module.__all__
    if not isinstance(getattr(module, name), types.ModuleType)
}
REFERENCE = Path(__file__).parent.parent / "docs" / "reference"


@pytest.mark.parametrize("name", PUBLIC)
def test_example_runs(name, tmp_path, monkeypatch):
    found = PUBLIC[name]
    text = inspect.getdoc(found) or ""
    assert ">>>" in text, f"{name} has no example"
    assert "See Also\n--------" in text, f"{name} does not say where to look further"
    test = doctest.DocTestParser().get_doctest(text, {}, name, inspect.getsourcefile(found), 0)
    monkeypatch.chdir(tmp_path)
    report: list[str] = []
    failed = doctest.DocTestRunner(verbose=False).run(test, out=report.append).failed
    assert not failed, "".join(report)


def test_reference_lists_every_public_name():
    listed = {
        line.strip()
        for page in REFERENCE.glob("*.md")
        for line in page.read_text().splitlines()
        if "opttree." in line or "solvers." in line
    }
    homes = {id(found): {name for name, other in PUBLIC.items() if other is found} for found in PUBLIC.values()}
    missing = [sorted(names)[0] for names in homes.values() if not names & listed]
    assert not missing


def test_see_also_names_exist():
    for name, found in PUBLIC.items():
        lines = (inspect.getdoc(found) or "").split("See Also\n--------\n")[1].split("\n\n")[0].splitlines()
        for line in lines:
            for other in line.split(" : ")[0].split(", "):
                assert _resolves(other, name), f"{name}: {other!r} is no public name"


def _resolves(other: str, name: str) -> bool:
    parts = name.split(".")[:-1]
    places = [parts[:k] for k in range(len(parts), 0, -1)] + [[]]
    for place in places:
        path = [*place, *other.split(".")]
        here: Any = {"opttree": opttree, "solvers": solvers}.get(path[0])
        for part in path[1:]:
            here = getattr(here, part, None)
        if here is not None:
            return True
    return False
