"""The log of a run, progress bars, and what notebooks and terminals show."""

import io
import logging
import re
import time

import numpy as np
import pytest

from opttree import Tree, TreeProblem
from solvers import TAO, BranchAndBound, Chain, MultiStart, Solver, Step, Trace, solve
from tests.conftest import regression_problem


def test_lines_say_when_and_how_good(capsys):
    problem = regression_problem(splits="axis", depth=2)
    result = solve(problem, BranchAndBound(), verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("BranchAndBound() on ")
    assert lines[1].split() == ["seconds", "step", "phase", "objective", "best", "bound", "gap"]
    assert lines[-1] == str(result)
    last = lines[-2]
    assert f"{result.objective:.6g}" in last
    assert last.endswith("0.00 %")


@pytest.mark.usefixtures("by_hand")
def test_there_are_at_most_four_lines_a_second(capsys):
    class Busy(Solver):
        def steps(self, problem, start, rng):
            for k in range(500):
                time.sleep(0.01)
                yield Step(Tree.constant([1.0 - k / 500], 2), phase=f"phase {k}")

    problem = TreeProblem(np.zeros((4, 2)), np.zeros(4), depth=1)
    result = solve(problem, Busy(), verbose=True)
    lines = capsys.readouterr().out.splitlines()
    assert 15 < len(lines) <= 5 + 4 * result.seconds == pytest.approx(25)
    assert re.search(r"\b499\b", lines[-2])  # the last row is never lost


def test_a_bar_ends_and_nothing_is_printed_without_one(capsys):
    problem = regression_problem(depth=1)
    solve(problem, TAO(), verbose="bar", time_limit=5)
    assert "TAO" in capsys.readouterr().err
    solve(problem, TAO())
    assert capsys.readouterr() == ("", "")
    with pytest.raises(ValueError, match=r"verbose must be 0, 1 or 'bar'; got 2"):
        solve(problem, TAO(), verbose=2)


def test_runs_are_logged(caplog):
    with caplog.at_level(logging.INFO, logger="opttree"):
        solve(regression_problem(depth=1), MultiStart(TAO(), 2), random_state=0)
    assert [record.message.partition(" on ")[0] for record in caplog.records] == ["MultiStart(solver=TAO(), n=2)"] * 2
    assert "objective" in caplog.records[1].message


def test_notebooks_and_terminals_show_a_result():
    rich = pytest.importorskip("rich.console")
    result = solve(regression_problem(depth=2), Chain(TAO(), TAO()), random_state=0)
    for shown in (result, result.trace, result.tree):
        text = shown._repr_html_()
        assert "<svg" in text
        assert "http://www.w3.org" in text
    assert Trace()._repr_html_() == ""
    assert "<th>objective</th>" in result._repr_html_()
    console = rich.Console(width=100, record=True, file=io.StringIO())
    console.print(result)
    assert "ITERATION_LIMIT" in (text := console.export_text()) or "STALLED" in text or "OPTIMAL" in text
