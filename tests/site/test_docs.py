"""Public docstrings, each with an example that runs; what the site and the README take from results."""

from __future__ import annotations

import doctest
import inspect
import pkgutil
import sys
import types
from collections.abc import Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from numpydoc import validate
from numpydoc.docscrape import get_doc_object

import opttree
import solvers
from solvers.races.race import Race

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
PUBLIC["solvers.races.race.Race"] = Race
DOCS = Path(__file__).parents[2] / "docs"
sys.path[:0] = [str(DOCS), str(DOCS / "tools")]
import check  # noqa: E402
import decision  # noqa: E402
import generate  # noqa: E402
import house  # noqa: E402
import prose  # noqa: E402


@pytest.mark.usefixtures("one_sandbox")
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


METHODS = (
    "opttree.TAORegressor.explain", "opttree.TAORegressor.to_text", "opttree.TAORegressor.apply",
    "opttree.GETRegressor.fit_chunks", "opttree.GETRegressor.partial_fit",
    "opttree.TAOForestRegressor.predict_interval", "opttree.TreeProblem.standardized", "opttree.TreeProblem.original",
    "opttree.TreeProblem.restated", "opttree.TreeProblem.objective", "opttree.TreeProblem.violation",
    "opttree.Tree.from_sklearn", "opttree.Tree.leaf_proba", "opttree.Tree.to_html", "opttree.MIPTreeProblem.build",
    "opttree.MIPTreeProblem.write", "opttree.SmoothTreeProblem.harden", "solvers.Trace.to_frame",
    "solvers.Solver.refusal", "solvers.GET.paper", "solvers.TAO.paper", "solvers.NODEC.paper", "solvers.SDTR.paper",
    "solvers.GradTree.paper", "solvers.ORRT.paper", "solvers.LocalSearch.paper", "solvers.TAOForest.paper",
    "opttree.datasets.Dataset.as_arrays",
)  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_example_of_a_method_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = pkgutil.resolve_name(name)
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(found), {}, name, None, 0)
    assert test.examples
    report: list[str] = []
    assert not doctest.DocTestRunner(verbose=False).run(test, out=report.append).failed, "".join(report)


RULES = {*(f"PR{k:02}" for k in range(1, 11)), *(f"RT{k:02}" for k in range(1, 6))}  # of parameters and of returns


def described(found: Any) -> Iterator[Any]:
    """What has a docstring of its own: a function; a class and its methods, but for those that override one of ours."""
    yield found
    ours = [base for base in getattr(found, "__mro__", ()) if base.__module__.split(".")[0] in ("opttree", "solvers")]
    roots = {name: value for base in ours for name, value in vars(base).items() if not name.startswith("_")}
    methods = (inspect.unwrap(getattr(value, "__func__", value)) for value in roots.values())
    yield from filter(inspect.isfunction, methods)


@cache
def faults(found: Any) -> list[str]:
    """What numpydoc finds: all parameters in order, each with a type and a sentence, and what is returned."""
    path, text = f"{found.__module__}.{found.__qualname__}", inspect.getdoc(found) or ""
    excused = set()
    if isinstance(found, type):  # options are named, and stand by their classes; what users do not make has attributes
        parsed = get_doc_object(found)
        held = {name for entry in parsed["Attributes"] for name in entry.name.split(", ")}
        excused = {"PR03", "PR01"} if set(validate.Validator(parsed).signature_parameters) <= held else {"PR03"}
        excused |= {"PR01"} if getattr(found, "_is_protocol", False) else set()  # nobody makes one
    elif "\nYields\n" in text or not set(inspect.signature(found).parameters) - {"self", "cls"}:
        excused = {"RT01"}
    errors = validate.validate(path)["errors"]
    return [f"{path}: {code} {words}" for code, words in errors if code in RULES - excused]


@pytest.mark.parametrize("module", sorted({name.rpartition(".")[0] for name in PUBLIC}))
def test_parameters_have_types_and_sentences(module):
    public = [found for name, found in PUBLIC.items() if name.rpartition(".")[0] == module]
    public = [found for found in public if not (isinstance(found, type) and issubclass(found, Enum))]
    assert not [fault for found in public for each in described(found) for fault in faults(each)]


@pytest.mark.parametrize("module", [opttree, solvers])
def test_modules_have_examples_that_run(module):
    test = doctest.DocTestParser().get_doctest(module.__doc__, {}, module.__name__, module.__file__, 0)
    assert test.examples
    assert not doctest.DocTestRunner(verbose=False).run(test, out=lambda text: None).failed


def test_reference_lists_every_public_name():
    homes = {id(found): {name for name, other in PUBLIC.items() if other is found} for found in PUBLIC.values()}
    listed = generate.listed()
    missing = [sorted(names)[0] for names in homes.values() if not names & listed]
    assert not missing
    assert generate.unlisted() == ""


def test_a_new_solver_is_on_the_page_of_the_reference(monkeypatch):
    monkeypatch.setattr(solvers, "__all__", [*solvers.__all__, "Newest"])
    assert "   solvers.Newest\n" in generate.unlisted()


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


def test_readme_quotes_committed_results():
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert generate.leaders().split("\n", 2)[2] in readme
    assert generate.provers() in readme


def test_drawings_are_those_of_their_scripts():
    assert (DOCS / "_static" / "decision.html").read_text(encoding="utf-8") == decision.picture()
    assert (DOCS / "_static" / "house.html").read_text(encoding="utf-8") == house.picture()


def test_generated_pages_are_whole(tmp_path):
    generate.write(tmp_path)
    for command in ("fit", "solve", "race", "export"):
        assert f"## `opttree {command}`" in (tmp_path / "command_line.md").read_text(encoding="utf-8")
    for paper in generate.PAPERS:
        text = (tmp_path / f"reproduced_{paper.lower()}.md").read_text(encoding="utf-8")
        assert text.count("\n| Table") >= 3
        assert text.count("\n| ") > 12
    measured = pd.read_csv(generate.RESULTS / "measured.csv")
    told = sum(
        (tmp_path / f"measured_{page}.md").read_text(encoding="utf-8").count("\n") - 2
        for page in measured["page"].unique()
    )
    assert told == len(measured)


def test_checker_finds_what_is_wrong(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#there">b</a><a href="c.html">c</a><p id="here">')
    (tmp_path / "b.html").write_text('<a href="a.html#here">a</a><script src="https://example.org/x.js"></script>')
    (tmp_path / "c.css").write_text('@import "https://example.org/font.css";')
    (tmp_path / "gallery").mkdir()
    slow = "<p><strong>Total running time of the script:</strong> (1 minutes 2.5 seconds)</p>"
    (tmp_path / "gallery" / "d.html").write_text(f'<style>p {{background: url("//example.org/a.png")}}</style>{slow}')
    assert check.problems(tmp_path / "empty")
    assert sorted(check.problems(tmp_path)) == [
        "a.html: no c.html",
        "a.html: no place b.html#there",
        "b.html: fetches https://example.org/x.js",
        'c.css: @import "https://example.org/font.css',
        "gallery/d.html: took 1:2.5",
        'gallery/d.html: url("//example.org/a.png',
    ]


def test_long_sentences_are_found():
    short = "One idea a sentence; and one more. `x; y; z` is code.\n\n| a; b; c |\n"
    assert not list(prose.too_long(short))
    text = f"Short.\n\n- An item.\n- Another; with; two.\n\n{'word ' * 46}end.\n\n```python\n{'word ' * 60}\n```\n"
    assert [line for line, _sentence in prose.too_long(text)] == [4, 6]
