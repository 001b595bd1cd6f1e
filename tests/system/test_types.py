"""Types as users see them: their own scripts, checked against the package as it is installed."""

import json
import subprocess
import sys

import pytest

import opttree
import solvers
from opttree.methods.table import estimators

SCRIPT = """
from opttree import GETRegressor, TAORegressor, TreeProblem
from solvers import GET, Result, solve

GETRegressor(leaves="liner")
GET(dtype="float16")
TAORegressor(4, leaves="linear", random_state=0)
def run(problem: TreeProblem) -> Result:
    return solve(problem, GET(n_starts=2), time_limit=3.0)
"""


def diagnostics(folder, text):
    """What pyright says of a script."""
    pytest.importorskip("pyright")
    script = folder / "script.py"
    script.write_text(text)
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(script)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return json.loads(done.stdout)["generalDiagnostics"]


@pytest.mark.slow
def test_a_wrong_option_is_a_type_error_and_nothing_else_is(tmp_path):
    found = diagnostics(tmp_path, SCRIPT)
    assert [error["range"]["start"]["line"] for error in found] == [4, 5], found
    assert '"Literal[\'liner\']" cannot be assigned to parameter "leaves"' in found[0]["message"]
    assert "float16" in found[1]["message"]


@pytest.mark.slow
def test_every_public_name_has_a_type(tmp_path):
    names = [f"opttree.{name}" for name in opttree.__all__] + [f"solvers.{name}" for name in solvers.__all__]
    names += [f"opttree.estimators.{name}" for name in estimators()]
    lines = [f"reveal_type({name})" for name in names]
    found = diagnostics(tmp_path, "\n".join(["import opttree.estimators, solvers", *lines]))
    assert [each["message"] for each in found if each["message"].endswith(('is "Any"', 'is "Unknown"'))] == []
    assert [each["severity"] for each in found] == ["information"] * len(names), found
