"""A Dask cluster grows the same forest, and survives the loss of a worker."""

import os
import signal
import threading
import time
from functools import partial

import numpy as np
import pytest
from joblib import parallel_config

from opttree import BoostedTreesRegressor, Rows, TAOForestRegressor, TAORegressor, datasets
from solvers import TAO, MultiStart, solve
from solvers.races.store import Store
from tests.conftest import regression_problem
from tests.races.test_runner import assert_same, run, small


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_grows_the_same_forest_and_survives_the_loss_of_a_worker(needs_data):
    distributed = pytest.importorskip("distributed")
    Client, LocalCluster = distributed.Client, distributed.LocalCluster

    X, y = datasets.load("elevators", as_arrays=True)
    X, y = X[:6000], y[:6000]
    here = TAOForestRegressor(24, random_state=0).fit(X, y)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
        parallel_config(backend="dask"),
    ):
        there = TAOForestRegressor(24, random_state=0).fit(X, y)
        victim = next(iter(client.run(os.getpid).values()))
        began = time.time()
        killer = threading.Timer(0.7, os.kill, (victim, signal.SIGKILL))
        killer.start()
        try:
            survivor = TAOForestRegressor(24, random_state=0).fit(X, y)
        finally:
            killer.join()
        assert time.time() - began > 0.7
        starts = solve(regression_problem(), MultiStart(TAO(max_iter=3), 3, n_jobs=1), random_state=0)
    np.testing.assert_array_equal(here.predict(X), there.predict(X))
    np.testing.assert_array_equal(here.predict(X), survivor.predict(X))
    assert starts.tree == solve(regression_problem(), MultiStart(TAO(max_iter=3), 3), random_state=0).tree


@pytest.mark.long
def test_the_dask_back_end_gives_the_same_rows(tmp_path):
    from distributed import LocalCluster

    stated = small(seeds=(0, 1))
    local, dask = Store("local", tmp_path), Store("dask", tmp_path)
    run(stated, local)
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as cluster:
        counts = run(stated, dask, backend="dask", scheduler=cluster.scheduler_address)
    assert counts == {"kept": 0, "ok": 4}
    assert_same(local.rows(), dask.rows())
    assert set(local.traces()["key"]) == set(dask.traces()["key"])


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [TAORegressor, partial(BoostedTreesRegressor, n_estimators=15)])
def test_rows_shared_out_give_the_same_model_whatever_happens_to_a_worker(make, needs_data):
    distributed, da = pytest.importorskip("distributed"), pytest.importorskip("dask.array")
    X, y = datasets.load("elevators", as_arrays=True)
    here = make(random_state=0).fit_chunks(Rows((X, y), rows=1500), sample_rows=3000)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        distributed.Client(cluster) as client,
    ):

        def fitted():
            shared = Rows((da.from_array(X, chunks=(1500, -1)), da.from_array(y, chunks=1500)), client=client)
            return make(random_state=0).fit_chunks(shared, sample_rows=3000)

        began = time.time()
        there = fitted()
        victim = next(iter(client.run(os.getpid).values()))
        killer = threading.Timer(0.5 * (time.time() - began), os.kill, (victim, signal.SIGKILL))
        killer.start()
        survivor = fitted()
        killer.join()
    np.testing.assert_array_equal(here.predict(X), there.predict(X))
    np.testing.assert_array_equal(here.predict(X), survivor.predict(X))
