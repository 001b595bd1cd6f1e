"""Runs that are killed or interrupted from outside: what they have written is valid."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from opttree.cli.main import main
from tests.solvers.exact.test_branch_and_bound import ABALONE


@pytest.mark.slow
def test_an_interrupt_at_any_time_leaves_incumbent_bound_and_trace(tmp_path):
    script = [
        sys.executable,
        "-c",
        "import sys; from opttree.cli import main; print('up', flush=True); sys.exit(main())",
    ]
    command = ["solve", "auto_mpg", "--formulation", "flow", "--n-thresholds", "6"]
    main([*command, "--time-limit", "0.1", "--out", str(tmp_path)])  # compiles: a compilation ends before any tree
    for run, wait in enumerate(np.linspace(0.0, 2.0, 4)):
        out = tmp_path / str(run)
        with subprocess.Popen(
            [*script, *command, "--out", str(out)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
            env=os.environ,
        ) as process:
            try:
                assert process.stdout.readline() == "up\n"
                time.sleep(wait + 0.05)
                process.send_signal(signal.SIGINT)
                text, _ = process.communicate(timeout=60)
            finally:
                process.kill()  # whatever happened, nothing is left behind
        assert process.returncode == 0, text
        assert "incumbent" in text
        assert "bound none" not in text
        frame = pd.read_csv(out / "solve_auto_mpg_depth2.csv")
        assert frame["bound"].notna().all()


WRITES = """
import sys
from solvers import BranchAndBound, solve
from tests.solvers.exact.test_branch_and_bound import hard_problem

def write(step, trace):
    row = trace.rows[-1]
    print(row.best, row.bound, flush=True)

print("begun", flush=True)
solve(hard_problem(), BranchAndBound(n_jobs=1), callback=write)
"""


@pytest.mark.slow
def test_what_a_killed_process_has_written_is_valid(needs_data):
    process = subprocess.Popen([sys.executable, "-c", WRITES], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    lines = [process.stdout.readline() for _ in range(3)]
    process.kill()
    rest, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL
    pairs = [line.split() for line in [*lines, *rest.splitlines()]]
    assert len(pairs) >= 3
    for best, bound in (pair for pair in pairs if len(pair) == 2 and pair[1] != "None"):
        assert float(best) >= ABALONE - 1e-9
        assert float(bound) <= ABALONE + 1e-9
