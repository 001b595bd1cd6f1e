"""Processes: fresh ones that load what was compiled, forks, workers that share the cores, and the memory of one."""

import multiprocessing
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from joblib import Parallel, cpu_count, delayed

import opttree
from opttree import GETRegressor, TAORegressor, warm_up
from opttree.methods import warming
from opttree.runtime import threads
from opttree.runtime.threads import limited, share
from tests.conftest import regression_problem


def test_worker_processes_of_a_search_share_the_cores(monkeypatch):
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    counts = Parallel(2)(delayed(threads.count)(n_jobs) for n_jobs in (None, 2, -1))
    assert counts == [max(1, cpu_count() // 2)] * 3


def fit_again(X, y, answers):
    answers.put(TAORegressor(3, random_state=0, n_jobs=2).fit(X, y).result_.objective)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_fits_again():
    problem = regression_problem(400)
    model = TAORegressor(3, random_state=0, n_jobs=2)
    with limited(2, worth=1.0):
        model.fit(problem.X, problem.y)  # starts the pool
        share(lambda first, last: None, 100, 1.0)
        context = multiprocessing.get_context("fork")
        answers = context.Queue()
        child = context.Process(target=fit_again, args=(problem.X, problem.y, answers))
        child.start()
    try:
        assert answers.get(timeout=120) == model.result_.objective
    finally:
        child.kill()
        child.join()


FIRST_FIT = """
import sys, logging
from opttree import TAORegressor
from sklearn.datasets import make_friedman1
X, y = make_friedman1(100, random_state=0)
model = TAORegressor(1, splits="axis", random_state=0).fit(X, y)
TAORegressor(1, splits="axis", loss="absolute", random_state=0).fit(X, y)
print(model.result_.compile_seconds > model.result_.seconds)
"""


@pytest.mark.long
def test_the_first_compilation_is_announced_once(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    first, again = (
        subprocess.run([sys.executable, "-c", FIRST_FIT], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    )
    (line,) = first.stderr.splitlines()
    assert line.startswith("opttree compiles its kernels, once per machine and version: 18 for TAORegressor, about ")
    assert first.stdout == "True\n"
    assert again.stderr == ""


@pytest.mark.slow
def test_kernels_are_compiled_ahead():
    assert list(warm_up(["tao-axis"], verbose=False)) == ["tao-axis"]
    with pytest.raises(ValueError, match=r"methods must be among auto, .*; got 'cart'"):
        warm_up(["cart"])


def test_what_goes_wrong_ahead_is_told(monkeypatch):
    monkeypatch.setattr(warming, "PROCESSES", 1)
    told = {name: failure for name, _seconds, failure in warming._fits(["hrt", "no method"], {})}
    assert told == {"hrt": "", "no method": "KeyError: 'no method'"}
    program = shutil.which("false")
    monkeypatch.setattr(warming.sys, "executable", program)
    monkeypatch.setattr(warming, "compile_all", lambda *_: None)
    with pytest.raises(RuntimeError, match=r"compiling failed for (hrt|srt): exit code 1; (srt|hrt): exit code 1"):
        warm_up(["hrt", "srt"], verbose=False)


def test_a_fresh_process_fits_from_the_compiled_cache():
    """Compiled functions come from the cache on disk: a second process compiles none. A benchmark has the seconds."""
    X = np.random.default_rng(0).normal(size=(500, 4))
    TAORegressor(4).fit(X, X[:, 0])
    code = (
        "from numba.core import event; from opttree import TAORegressor; import numpy as np; "
        "X = np.random.default_rng(0).normal(size=(500, 4)); "
        "recorder = event.RecordingListener(); event.register('numba:compile', recorder); "
        "TAORegressor(4).fit(X, X[:, 0]); "
        "print(len(recorder.buffer))"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=root)
    assert int(done.stdout) == 0


PEAK = """
import multiprocessing, sys
from experiments.benchmarks.scaling import data, fit
from opttree.methods.table import make_estimator
name, n, p, depth = sys.argv[1], *map(int, sys.argv[2:])
make_estimator(name, "regression", depth, 0, 1).fit(*data(500, p))
context = multiprocessing.get_context("fork")  # a new process, whose peak is its own
receiver, sender = context.Pipe(duplex=False)
context.Process(target=fit, args=(name, n, p, depth, 600.0, 8.0, sender)).start()
print(1e6 * receiver.recv()[2])
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize("name", ["tao-axis", "get"])
def test_memory_is_what_the_model_says(name):
    n, p, depth = 60_000, 40, 3
    command = [sys.executable, "-W", "ignore", "-c", PEAK, name, str(n), str(p), str(depth)]
    peak = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])
    cost = opttree.estimate_cost(name, n, p, depth)
    assert peak / 2.0 <= cost.bytes <= 2.0 * peak


@pytest.fixture
def csv(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 3)), columns=["u", "v", "w"])
    frame["y"] = np.where(frame.u > 0, frame.v, 3.0)
    frame["label"] = np.where(frame.u + frame.v > 0, "up", "down")
    frame.drop(columns="label").to_csv(tmp_path / "number.csv", index=False)
    frame.drop(columns="y").to_csv(tmp_path / "label.csv", index=False)
    return tmp_path


def test_as_a_command(csv):
    command = [sys.executable, "-m", "opttree.cli"]
    bad = subprocess.run([*command, "show", "absent.json"], capture_output=True, text=True, check=False)
    assert (bad.returncode, len(bad.stderr.splitlines())) == (2, 1)
    assert subprocess.run([*command, "fit"], capture_output=True, check=False).returncode == 2
    assert "opttree" in subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout


def test_chunks_are_there_without_an_import_of_their_own():
    code = "import opttree; print(opttree.chunks.Chunks.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Chunks\n"


def fitted_in_a_child(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 4))
    return GETRegressor(2, random_state=seed).fit(X, X[:, 0]).score(X, X[:, 0])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_forked_process_can_fit(n_jobs):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    own = GETRegressor(2, random_state=0, n_jobs=n_jobs).fit(X, X[:, 0]).score(X, X[:, 0])
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map_async(fitted_in_a_child, [0, 1]).get(timeout=120)
    assert found[0] == own
