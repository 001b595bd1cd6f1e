"""Types as users see them: their own scripts, checked against the package as it is installed."""

import json
import subprocess
import sys

import pytest

SCRIPT = """
from opttree import GETRegressor, TAORegressor, TreeProblem
from solvers import GET, Result, solve

GETRegressor(leaves="liner")
GET(dtype="float16")
TAORegressor(4, leaves="linear", random_state=0)
def run(problem: TreeProblem) -> Result:
    return solve(problem, GET(n_starts=2), time_limit=3.0)
"""


@pytest.mark.slow
def test_a_wrong_option_is_a_type_error_and_nothing_else_is(tmp_path):
    pytest.importorskip("pyright")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    assert [error["range"]["start"]["line"] for error in found] == [4, 5], found
    assert '"Literal[\'liner\']" cannot be assigned to parameter "leaves"' in found[0]["message"]
    assert "float16" in found[1]["message"]
