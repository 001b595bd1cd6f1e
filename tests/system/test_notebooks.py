"""The notebooks run, their outputs are committed, and the example solver does what solvers must."""

import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from solvers import check_solver, solve
from solvers.conformance import check_time_limit, example_problems
from tests.conftest import regression_problem

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))

sys.path.insert(0, str(FOLDER))
from tilting import Tilting  # noqa: E402

sys.path.pop(0)


def test_there_are_seven():
    assert len(NOTEBOOKS) == 7


SHORT = ("write_your_own_solver.ipynb",)  # the others are run by `make long`


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in SHORT else pytest.param(name, marks=pytest.mark.long) for name in NOTEBOOKS]
)
@pytest.mark.filterwarnings("ignore")  # of the Jupyter libraries
def test_a_notebook_runs_with_a_small_budget(name, monkeypatch):
    monkeypatch.setenv("OPTTREE_BUDGET", "small")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FOLDER.parent), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(FOLDER / name, as_version=4)
    NotebookClient(notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": FOLDER}}).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    assert sum("image/png" in output.get("data", {}) for cell in code for output in cell.outputs) >= 2


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_outputs_are_committed_and_clean(name):
    notebook = nbformat.read(FOLDER / name, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in code for output in cell.outputs]
    assert all(cell.execution_count for cell in code)
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2
    assert not [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"]
    assert (FOLDER / name).stat().st_size < 700_000
    assert str(FOLDER.parent) not in (FOLDER / name).read_text()


def test_the_example_solver_keeps_the_rules():
    refused = check_solver(Tilting(trials=40))
    assert len(refused) < len(example_problems())
    check_time_limit(Tilting(trials=10**6))
    with pytest.raises(ValueError, match="size must be > 0; got 0"):
        Tilting(size=0)


def test_the_example_solver_descends():
    problem = regression_problem(400)
    result = solve(problem, Tilting(trials=400), random_state=0)
    assert result.trace.to_frame()["objective"].is_monotonic_decreasing
    assert result.objective < 0.9 * result.trace.rows[0].objective
