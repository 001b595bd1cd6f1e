"""Each fault many times, at random moments: ``python -m tests.system.faults``; the table goes to the results.

What must hold: a file is the old one or the new one, whole; finished rows of a run stay; a fit ends with a result or
with one sentence; nothing hangs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from opttree import GETRegressor, TAOForestRegressor, TAORegressor, load, save
from solvers.races.runs import code_version
from solvers.races.store import Store

REPORT = Path(__file__).parents[3] / "experiments" / "results" / "reliability" / "faults.md"
ROOT = Path(__file__).parents[3]
Outcome = tuple[int, list[str]]  # how often, and what went wrong

WRITER = """
import sys
import numpy as np
from opttree import TAORegressor, save
rng = np.random.default_rng(0)
X = rng.normal(size=(500, 8))
models = [TAORegressor(d, leaves="linear", random_state=0).fit(X, X[:, 0] * X[:, 1]) for d in (2, 5)]
print("ready", flush=True)
while True:
    for model in models:
        save(model, sys.argv[1])
"""
LIMITED = """
import resource, sys
import numpy as np
from opttree import GETRegressor, TAORegressor
rng = np.random.default_rng(0)
X = rng.normal(size=(20_000, 20))
TAORegressor(2, random_state=0).fit(X[:100], X[:100, 0])
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[1]), used + int(sys.argv[1])))
try:
    print(TAORegressor(6, random_state=0, time_limit=5).fit(X, X[:, 0] * X[:, 1]).score(X, X[:, 0] * X[:, 1]))
except (MemoryError, RuntimeError, OSError) as error:
    print(type(error).__name__, str(error)[:80])
"""
FULL = """
import resource, sys
import numpy as np
from opttree import TAORegressor, save
rng = np.random.default_rng(0)
X = rng.normal(size=(500, 8))
model = TAORegressor(5, leaves="linear", random_state=0).fit(X, X[:, 0] * X[:, 1])
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    save(model, sys.argv[1])
except OSError as error:
    print("refused:", error)
"""


def started(code: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """A child that runs ``code``."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    )


def killed_writers(folder: Path, times: int) -> Outcome:
    """SIGKILL while models are written over one another."""
    wrong = []
    for suffix in (".json", ".npz"):
        path = folder / f"written{suffix}"
        for _ in range(times // 2):
            child = started(WRITER, str(path))
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(random.uniform(0.0, 0.1))
            child.kill()
            child.wait()
            if path.exists():
                try:
                    load(path)
                except ValueError as error:
                    wrong.append(str(error))
    return times, wrong


def killed_runs(folder: Path, times: int) -> Outcome:
    """SIGKILL while experiments run: rows that were there stay, and all runs are done in the end."""
    wrong, before = [], 0
    command = [sys.executable, "-m", "experiments", "run", "smoke", "--store", str(folder), "--jobs", "2"]
    for _ in range(times):
        child = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(random.uniform(2.0, 9.0))
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        try:
            rows = Store("smoke", folder).rows()
        except Exception as error:
            wrong.append(f"store cannot be read: {error}")
            continue
        done = int((rows["status"] == "ok").sum()) if len(rows) else 0
        if done < before:
            wrong.append(f"{before - done} rows lost")
        before = done
    last = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if last.returncode:
        wrong.append(f"the run does not end: {last.stderr[-200:]}")
    return times, wrong


def full_disk(folder: Path, times: int) -> Outcome:
    """A limit on the size of files, as on a full disk: the old file stays, and the error says it."""
    wrong = []
    for suffix in (".json", ".npz"):
        path = folder / f"full{suffix}"
        save(TAORegressor(1, random_state=0).fit(np.arange(20.0)[:, None], np.arange(20.0)), path)
        old = path.read_bytes()
        for _ in range(times // 2):
            words = started(FULL, str(path)).communicate()[0]
            if "refused:" not in words or path.read_bytes() != old:
                wrong.append(words[-200:])
    if left := [p.name for p in folder.iterdir() if ".part" in p.name and p.name.startswith("full")]:
        wrong.append(f"left: {left}")
    return times, wrong


def two_writers(folder: Path, times: int) -> Outcome:
    """Two processes that write one file, while it is read."""
    path, wrong = folder / "shared.json", []
    children = [started(WRITER, str(path)) for _ in range(2)]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
    for _ in range(times):
        try:
            load(path)
        except ValueError as error:
            wrong.append(str(error))
    for child in children:
        child.kill()
        child.wait()
    return times, wrong


def interrupted_commands(folder: Path, times: int) -> Outcome:
    """SIGINT and SIGTERM to ``opttree fit``: a whole model or none, the exit code says which."""
    wrong = []
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 10))
    table = np.column_stack([X, np.sin(3 * X[:, 0]) * X[:, 1]])
    header = ",".join([*(f"x{j}" for j in range(10)), "target"])
    np.savetxt(folder / "table.csv", table, delimiter=",", header=header, comments="")
    for number in range(times):
        out, sent = folder / f"model{number}.json", (signal.SIGINT, signal.SIGTERM)[number % 2]
        words = ["fit", str(folder / "table.csv"), "--target", "target", "--method", "get", "--depth", "8"]
        child = subprocess.Popen(
            [sys.executable, "-m", "opttree.cli", *words, "--out", str(out)],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(random.uniform(0.3, 6.0))
        child.send_signal(sent)
        try:
            code = child.wait(timeout=60)
        except subprocess.TimeoutExpired:
            child.kill()
            wrong.append(f"{sent.name} is not heard")
            continue
        if code not in (0, 130, -sent):
            wrong.append(f"{sent.name}: exit code {code}")
        if code == 0 and not out.exists():
            wrong.append(f"{sent.name}: exit code 0 without a model")
        if out.exists():
            load(out)
    return times, wrong


def limited_memory(folder: Path, times: int) -> Outcome:
    """RLIMIT_AS 20 MB to 2 GB above what is in use: a result, or an error that says memory."""
    wrong = []
    for number in range(times):
        child = started(LIMITED, str(int(2e7 * 100.0 ** (number / max(times - 1, 1)))))
        words = child.communicate()[0].strip()
        last = words.splitlines()[-1] if words else ""
        if child.returncode or not (last.startswith(("MemoryError", "0.", "RuntimeError", "OSError"))):
            wrong.append(f"exit code {child.returncode}: {last[-150:]}")
    return times, wrong


def score(seed: int) -> float:
    """The score of a small fit."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 5))
    y = X[:, 0] * X[:, 1]
    forest = TAOForestRegressor(3, random_state=seed).fit(X, y).score(X, y)
    return float(forest + GETRegressor(3, random_state=seed).fit(X, y).score(X, y))


def pools(folder: Path, times: int) -> Outcome:
    """Fits in forked and spawned processes, in loky's and in threads give what they give one after another."""
    import joblib

    expected, wrong = [score(seed) for seed in range(4)], []
    for _ in range(times):
        for kind in ("fork", "spawn"):
            with multiprocessing.get_context(kind).Pool(2) as pool:
                if pool.map_async(score, range(4)).get(timeout=300) != expected:
                    wrong.append(f"{kind}: other scores")
        if joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(score)(seed) for seed in range(4)) != expected:
            wrong.append("loky: other scores")
        with ThreadPoolExecutor(4) as threads:
            if list(threads.map(score, range(4))) != expected:
                wrong.append("threads: other scores")
    return 4 * times, wrong


def shared_model(folder: Path, times: int) -> Outcome:
    """Sixteen threads that predict with one model while another fits."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 6))
    y = X[:, 0] * X[:, 1]
    model = TAOForestRegressor(5, random_state=0).fit(X, y)
    expected, wrong, stop = model.predict(X), [], threading.Event()

    def fit() -> None:
        while not stop.is_set():
            GETRegressor(4, random_state=0).fit(X, y)

    def predict(_: int) -> None:
        for _again in range(times):
            if not np.array_equal(model.predict(X), expected):
                wrong.append("another prediction")

    fitting = threading.Thread(target=fit)
    fitting.start()
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(predict, range(16)))
    stop.set()
    fitting.join()
    return 16 * times, wrong


def clock_jumps(folder: Path, times: int) -> Outcome:
    """The time of day jumps forwards and backwards: time limits hold."""
    wrong, real = [], time.time
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 10))
    TAORegressor(2, random_state=0).fit(X[:200], X[:200, 0])
    for number in range(times):
        time.time = lambda: real() + random.choice((-1e6, 0.0, 1e6))  # type: ignore[assignment]
        try:
            began = time.perf_counter()
            result = GETRegressor(6, n_starts=50, time_limit=0.5, random_state=number).fit(X, X[:, 0] * X[:, 1]).result_
            late = time.perf_counter() - began - result.compile_seconds - 0.5
        finally:
            time.time = real
        if late > 0.5:
            wrong.append(f"{late:.2f} s late")
    return times, wrong


FAULTS: dict[Callable[[Path, int], Outcome], int] = {
    killed_writers: 60,
    killed_runs: 40,
    full_disk: 10,
    two_writers: 300,
    interrupted_commands: 30,
    limited_memory: 20,
    pools: 2,
    shared_model: 20,
    clock_jumps: 10,
}


def main() -> None:
    """All faults, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names: dict[str, Any] = {fault.__name__: fault for fault in FAULTS}
    parser.add_argument("faults", nargs="*", choices=[[], *names], default=[])
    parser.add_argument("--out", type=Path, default=REPORT)
    args = parser.parse_args()
    random.seed(0)
    lines = ["# Faults", "", f"`python -m tests.system.faults`, version {code_version()}.", ""]
    lines += ["| fault | times | wrong | seconds |", "|:--|--:|--:|--:|"]
    notes = []
    for fault, times in FAULTS.items():
        if args.faults and fault.__name__ not in args.faults:
            continue
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            count, wrong = fault(Path(folder), times)
        lines.append(
            f"| {(fault.__doc__ or '').rstrip('.')} | {count} | {len(wrong)} | {time.perf_counter() - began:.0f} |"
        )
        notes += [f"- {fault.__name__}: {note}" for note in dict.fromkeys(wrong)]
        print(lines[-1], flush=True)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text("\n".join([*lines, "", *notes]).rstrip() + "\n")
    print(args.out.read_text())
