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

import opttree
from opttree.cli.main import main
from solvers import TAO, BranchAndBound, CartInit, LocalSearch, external
from solvers.races.store import Store
from tests.races.test_race import PROBLEMS
from tests.solvers.exact.test_branch_and_bound import ABALONE


@pytest.mark.slow
def test_an_interrupt_at_any_time_leaves_incumbent_bound_and_trace(tmp_path):
    script = [
        sys.executable,
        "-c",
        "import sys; from opttree.cli import main; from opttree.runtime.interrupts import noted_interrupts\n"
        "with noted_interrupts():\n print('up', flush=True)\n sys.exit(main())",
    ]
    command = ["solve", "auto_mpg", "--formulation", "flow", "--n-thresholds", "6"]
    main([*command, "--time-limit", "0.1", "--out", str(tmp_path)])  # compiles: a compilation ends before any tree
    for run, wait in enumerate((0.1, 1.5)):
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
                text, _ = process.communicate(timeout=200)
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


@pytest.fixture(scope="module")
def race():
    entrants = {
        "cart": CartInit(),
        "exact": BranchAndBound(),
        "local": LocalSearch(n_starts=2),
        "peer": external.STreeD(),
    }
    return opttree.race(PROBLEMS, entrants, 5.0, n_jobs=2)


@pytest.mark.long
def test_a_killed_race_loses_nothing_that_was_done(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(
        "import opttree\n"
        "from solvers import *\n"
        "from tests.races.test_race import PROBLEMS\n"
        "if __name__ == '__main__':\n"
        f"    opttree.race(PROBLEMS, [CartInit(), TAO(max_iter=10**6, patience=10**6)], 8.0, store={str(tmp_path)!r})\n"
    )
    root = Path(__file__).parents[2]
    process = subprocess.Popen([sys.executable, str(script)], cwd=root, env={**_environment(), "PYTHONPATH": str(root)})
    store = Store("race", tmp_path)
    deadline = time.monotonic() + 120.0
    while store.rows().empty and time.monotonic() < deadline:
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = set(store.rows()["key"])
    assert done
    found = opttree.race(PROBLEMS, [CartInit(), TAO(max_iter=10**6, patience=10**6)], 1.0, store=tmp_path)
    assert done <= set(store.rows()["key"])
    assert len(found.to_frame()) == 4


def _environment():
    import os

    return dict(os.environ)


@pytest.mark.long
def test_an_interrupted_command_goes_on_where_it_was(tmp_path):
    pd.DataFrame({"u": np.arange(60.0), "y": np.arange(60.0) % 7}).to_csv(tmp_path / "a.csv", index=False)
    slow = "CartInit();MultiStart(TAO(),n=1000000)"
    command = [sys.executable, "-m", "opttree.cli", "race", str(tmp_path / "a.csv"), "--solvers", slow]
    command += ["--splits", "oblique", "--time-limit", "60", "--out", str(tmp_path / "out")]
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    store = Store("race", tmp_path / "out" / "store")
    deadline = time.monotonic() + 120.0
    while store.rows().empty and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, _err = process.communicate(timeout=30.0)
    assert "finished runs are kept in" in out
    assert process.returncode == 130
    assert len(store.rows()) >= 1
