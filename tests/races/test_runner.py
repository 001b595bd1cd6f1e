"""Runs: resumption, limits, failures, searches."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from experiments import methods, reading, report
from experiments.__main__ import main
from experiments.planned import Method
from experiments.protocol import Protocol
from solvers.races import runner, sandbox
from solvers.races.runs import ROOT
from solvers.races.store import Store

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_sandbox")]
VOLATILE = ["fit_seconds", "cpu_seconds", "predict_seconds", "predict_microseconds", "session", "finished"]


def small(**options) -> Protocol:
    """CART and TAO on diabetes, one seed; options go to `Protocol`."""
    chosen = {
        "name": "small",
        "title": "small",
        "datasets": ("diabetes",),
        "depths": (2,),
        "methods": {"CART": Method("cart"), "TAO": Method("tao")},
    }
    return Protocol(**{**chosen, **options})


def run(stated: Protocol, store: Store, **options):
    return runner.run(stated, store, progress=False, **options)


def test_rows_traces_and_sessions_are_stored(tmp_path):
    store = Store("small", tmp_path)
    assert run(small(), store) == {"kept": 0, "ok": 2}
    rows = store.rows().set_index("method")
    assert rows.loc["CART", "n_parameters"] == 3 * 2 + 4
    assert rows.loc["TAO", "termination"] == "LOCALLY_OPTIMAL"
    assert rows["test_r2"].between(-1, 1).all()
    traces = store.traces()
    assert set(traces["key"]) == {rows.loc["TAO", "key"]}
    assert traces["best"].is_monotonic_decreasing
    session = store.sessions().iloc[0]
    assert session["jobs"] == 1
    assert "numpy" in session["libraries"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "small.parquet",
        "small.parts",
        "small.sessions.parquet",
        "small.traces.parquet",
    ]


def test_a_run_ends_its_sandboxes(tmp_path, monkeypatch):
    left = []
    monkeypatch.setattr(sandbox, "close_all", lambda: left.extend(sandbox._ALIVE))
    assert run(small(methods={"CART": Method("cart")}), Store("small", tmp_path)) == {"kept": 0, "ok": 1}
    assert sandbox._HERE.sandbox in left


def test_a_second_run_keeps_what_is_there_and_adds_the_rest(tmp_path):
    store = Store("small", tmp_path)
    run(small(), store)
    before = store.rows()
    assert run(small(seeds=(0, 1)), store) == {"kept": 2, "ok": 2}
    assert run(small(seeds=(0, 1)), store) == {"kept": 4}
    after = store.rows()
    pd.testing.assert_frame_equal(after[after["key"].isin(before["key"])].reset_index(drop=True), before)


def test_rows_of_another_version_of_the_code_do_not_count(tmp_path, monkeypatch):
    store = Store("small", tmp_path)
    for one in small().runs("other"):
        store.add(one, {"status": "ok", "reason": "", "row": {"test_r2": 0.5}}, "s")
    assert run(small(), store) == {"kept": 0, "ok": 2}
    assert len(store.rows()) == 4
    monkeypatch.setattr(Protocol, "version", staticmethod(lambda: "third"))  # files that change while a run goes on
    assert run(small(), store) == {"kept": 0, "failed": 2}
    assert "the code has changed" in store.rows()["reason"].iloc[-1]


def test_only_some_of_the_runs(tmp_path):
    store = Store("small", tmp_path)
    assert run(small(seeds=(0, 1)), store, only={"method": ["CART"], "seed": ["1"]}) == {"kept": 0, "ok": 1}
    both = {"method": ["CART,TAO"], "seed": ["0"]}
    assert run(small(seeds=(0, 1)), store, only=both) == {"kept": 0, "ok": 2}
    with pytest.raises(ValueError, match="--only method must be among CART, TAO; got 'GET'"):
        run(small(), store, only={"method": ["GET"]})


def test_failures_are_stored_and_tried_again(tmp_path):
    store = Store("small", tmp_path)
    broken = small(methods={"CART": Method("cart", {"min_samples_leaf": -1}), "TAO": Method("tao")})
    assert run(broken, store) == {"kept": 0, "failed": 1, "ok": 1}
    row = store.rows().set_index("method").loc["CART"]
    assert "min_samples_leaf" in row["reason"]
    assert "Traceback" in row["reason"]
    assert run(broken, store) == {"kept": 1, "failed": 1}


def test_a_failure_does_not_take_the_place_of_a_row(tmp_path, monkeypatch):
    store = Store("small", tmp_path)
    ended = {"status": "ok", "reason": "", "row": {"test_r2": 0.5, "termination": "TIME_LIMIT"}}
    for one in small(time_limit=5.0).runs(Protocol.version()):
        store.add(one, ended, "s")
    assert run(small(time_limit=5.0), store) == {"kept": 2}
    monkeypatch.setattr(sandbox.Sandbox, "run", lambda *_: {"status": "failed", "reason": "no"})
    assert run(small(time_limit=9.0), store) == {"kept": 0, "failed": 2}  # a higher limit: tried again
    assert list(store.rows()["status"]) == ["ok", "ok"]


def test_a_method_that_is_not_there_is_skipped_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setitem(methods.METHODS, "nowhere", methods.Entry("no_such_library:Tree", needs="no-such-library"))
    stated = small(datasets=("iris",), methods={"HRT": Method("hrt"), "CART": Method("cart")})
    store = Store("small", tmp_path)
    assert run(stated, store) == {"kept": 0, "skipped": 1, "ok": 1}
    assert store.rows().set_index("method").loc["HRT", "reason"] == "hrt has no estimator for classification"
    with pytest.raises(methods.UnavailableError, match="nowhere needs no-such-library: pip install no-such-library"):
        methods.estimator_class("nowhere", "regression")


@pytest.mark.long
def test_a_run_that_takes_too_long_is_ended_and_stays_ended_under_the_same_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "GRACE", (1.0, 0.0))
    slow = Method("random-forest", {"n_estimators": 100_000}, depth=False)
    stated = small(methods={"slow": slow, "CART": Method("cart")}, time_limit=0.5)
    store = Store("small", tmp_path)
    assert run(stated, store) == {"kept": 0, "time_limit": 1, "ok": 1}
    assert "0.5 s" in store.rows().set_index("method").loc["slow", "reason"]
    assert run(stated, store) == {"kept": 2}
    assert run(small(methods=stated.methods, time_limit=0.6), store) == {"kept": 1, "time_limit": 1}


def test_a_run_that_takes_too_much_memory_is_ended(tmp_path):
    stated = small(methods={"CART": Method("cart")}, memory_limit=50.0)  # the libraries alone take more
    store = Store("small", tmp_path)
    assert run(stated, store) == {"kept": 0, "memory_limit": 1}
    assert "of the 50 MB allowed" in store.rows()["reason"].iloc[0]
    assert run(stated, store) == {"kept": 1}


@pytest.mark.long
def test_a_sandbox_that_dies_is_a_failure_and_a_new_one_takes_over(tmp_path):
    one, threads = next(small().runs(Protocol.version())), os.cpu_count()
    sandbox.supervise(Protocol, one, threads)
    os.kill(sandbox._HERE.sandbox.process.pid, signal.SIGKILL)
    sandbox._HERE.sandbox.process.wait()
    _run, outcome = sandbox.supervise(Protocol, one, threads)
    assert outcome["status"] == "ok"


def test_a_search_grid_chooses_on_held_out_rows(tmp_path):
    tuned = Method("cart", grid={"max_depth": [1, 2, 20]}, depth=False)
    store = Store("small", tmp_path)
    run(small(methods={"CART": tuned}), store)
    assert store.rows()["chosen"].iloc[0] in ('{"max_depth": 1}', '{"max_depth": 2}')


def test_several_grids_and_parts(tmp_path):
    grids = [{"max_depth": [20]}, {"max_depth": [1, 2], "min_samples_leaf": [5]}]
    stated = small(methods={"CART": Method("cart", grid=grids, parts=2, depth=False)}, threads=3)
    store = Store("small", tmp_path)
    assert run(stated, store) == {"kept": 0, "ok": 1}
    assert '"min_samples_leaf": 5' in store.rows()["chosen"].iloc[0]
    assert store.sessions()["threads"].iloc[0] == 3


def test_preprocessing_and_options_of_one_data_set(tmp_path):
    pytest.importorskip("category_encoders")
    pytest.importorskip("imblearn")
    tuned = Method("cart", grid={"max_depth": [1, 4]}, depth=False, per_dataset={"iris": {"min_samples_leaf": 40}})
    stated = small(datasets=("iris", "wine"), methods={"CART": tuned}, preprocess="gradtree")
    assert len({one.identity["options"] for one in stated.runs("v")}) == 2
    store = Store("small", tmp_path)
    assert run(stated, store) == {"kept": 0, "ok": 2}
    rows = store.rows().set_index("dataset")
    assert rows.loc["iris", "n_leaves"] <= 3
    assert rows["test_f1"].min() > 0.5
    assert "model__max_depth" in rows.loc["wine", "chosen"]


def test_solvers_are_run_on_one_statement(tmp_path):
    stated = small(
        kind="solve",
        leaves=("constant", "linear"),
        time_limit=5.0,
        methods={"TAO": Method("TAO()"), "MIP": Method("MIP()"), "chain": Method("Chain(CartInit(), TAO())")},
    )
    store = Store("small", tmp_path)
    assert run(stated, store) == {"kept": 0, "ok": 5, "skipped": 1}
    rows = store.rows()
    constant = rows[(rows["method"] == "TAO") & (rows["leaves"] == "constant")].iloc[0]
    assert constant["objective"] == pytest.approx(1.0 - constant["train_r2"])
    assert "formulation" in rows[(rows["method"] == "MIP") & (rows["leaves"] == "linear")]["reason"].iloc[0]


def assert_same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    """The same rows, but for what no two runs share."""
    frames = [f.drop(columns=VOLATILE).sort_values("key", ignore_index=True).sort_index(axis=1) for f in (one, other)]
    pd.testing.assert_frame_equal(*frames)


@pytest.mark.long
def test_a_run_killed_four_times_ends_in_the_same_store(tmp_path):
    rng = np.random.default_rng(0)
    command = [sys.executable, "-m", "experiments", "run", "smoke", "--jobs", "2", "--quiet"]
    command += ["--only", "method=CART,RF,TAO,XGBoost", "--store"]  # a fresh process loads the others for seconds
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([*command, str(whole)], cwd=ROOT, check=True, capture_output=True)
    seen: list[str] = []
    between = 0
    for kill in range(4):
        with subprocess.Popen([*command, str(killed)], cwd=ROOT, stdout=subprocess.DEVNULL) as process:
            try:
                if kill % 2:  # at any time; or some time after the next row
                    time.sleep(rng.uniform(0.5, 4.0))
                else:
                    begun = time.monotonic()
                    while len(Store("smoke", killed).rows()) == len(seen) and time.monotonic() < begun + 30.0:
                        if process.poll() is not None:  # all is done
                            break
                        time.sleep(0.1)
                    time.sleep(rng.uniform(0.0, 0.5))
            finally:
                process.kill()
        rows = Store("smoke", killed).rows()
        assert rows["key"].is_unique
        assert set(seen) <= set(rows["key"])
        seen = list(rows["key"])
        between += 0 < len(seen) < len(Store("smoke", whole).rows())
    assert between >= 2  # kills between the first and the last row
    subprocess.run([*command, str(killed)], cwd=ROOT, check=True, capture_output=True)
    assert_same(Store("smoke", whole).rows(), Store("smoke", killed).rows())
    assert not list(killed.rglob("*.unfinished"))
    assert main(["report", "smoke", "--store", str(killed), "--out", str(tmp_path / "report")]) == 0
    columns = ["key", "step", "objective"]
    traces = [Store("smoke", f).traces()[columns].sort_values(columns, ignore_index=True) for f in (whole, killed)]
    pd.testing.assert_frame_equal(*traces)


@pytest.mark.parametrize("every", [48, pytest.param(1, marks=pytest.mark.long)])
def test_a_slice_of_each_runs(tmp_path, needs_data, every):
    stated = reading.read("smoke_papers", "minute")
    stated = replace(stated, parts=stated.parts[::every])
    store = Store("smoke_papers", tmp_path / "store")
    counts = runner.run(stated, store, jobs=2, progress=False)
    rows = store.rows()
    assert counts["failed"] == 0, rows[rows["status"] == "failed"]["reason"].iloc[0]
    assert counts["ok"] == len(list(stated.runs("v")))
    for path in report.write(stated, store, tmp_path / "out"):
        assert path.stat().st_size > 0
    text = (tmp_path / "out" / "report.md").read_text()
    assert all(part.name in text for part in stated.parts)
