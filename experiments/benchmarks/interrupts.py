"""Ctrl-C at random times: what is left of ``opttree solve``. Each line tells whether there was an incumbent, a bound
and a saved trace; the last one how often.

python -m experiments.benchmarks.interrupts [--runs 20] [--longest 7] [--seed 0]
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

START = "import sys; from opttree.cli import main; print('up', flush=True); sys.exit(main())"
WAYS = (
    ["--formulation", "flow", "--n-thresholds", "6"],
    ["--formulation", "big-m", "--n-thresholds", "6", "--method", "local+mip"],
    ["--depth", "3"],
    ["--formulation", "flow", "--n-thresholds", "6", "--method", "local+mip"],
)


def interrupted(options: list[str], wait: float, folder: Path) -> tuple[bool, str]:
    """Run, interrupt after ``wait`` seconds: whether everything is there, and the line of the incumbent."""
    command = [sys.executable, "-c", START, "solve", "auto_mpg", "--out", str(folder), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(wait)
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate()
    line = next((row for row in text.splitlines() if row.startswith("incumbent")), text)
    traces = [pd.read_csv(file) for file in folder.glob("*.csv")]
    complete = process.returncode == 0 and "bound none" not in line and len(traces) == 1
    return complete and bool(traces[0]["bound"].notna().all()), line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--longest", type=float, default=7.0, help="seconds")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    complete = 0
    for run in range(args.runs):
        wait = rng.uniform(0.0, args.longest)
        with tempfile.TemporaryDirectory() as folder:
            good, line = interrupted(WAYS[run % len(WAYS)], wait, Path(folder))
        complete += good
        print(f"{wait:5.2f} s  {' '.join(WAYS[run % len(WAYS)]):60s} {good}  {line}", flush=True)
    print(f"{complete} of {args.runs} left an incumbent, a bound and a trace")


if __name__ == "__main__":
    main()
