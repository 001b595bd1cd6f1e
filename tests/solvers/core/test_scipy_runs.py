"""Runs of SciPy's minimisers, which can be left."""

import threading
import time

import numpy as np
import pytest

from solvers import ORRT, solve
from solvers.core.base import LastCall
from solvers.core.scipy_runs import minimise
from tests.conftest import regression_problem


def test_a_run_of_scipy_can_be_left():
    problem = regression_problem(2000, p=8, depth=5, leaves="linear", penalties=())
    began = time.perf_counter()
    result = solve(problem, ORRT(method="SLSQP", max_iter=5000), time_limit=0.3, random_state=0)
    assert time.perf_counter() - began < 10.0
    assert result.termination.name == "TIME_LIMIT"
    run = minimise(lambda x: (float(x @ x), 2.0 * x), np.ones(3), 1, method="L-BFGS-B")
    assert next(step for step in run if step is not None).theta.shape == (3,)
    run.close()

    def slow(x):
        time.sleep(0.05)
        return float(x @ x + (x**4).sum()), 2.0 * x + 4.0 * x**3

    run = minimise(slow, np.ones(3), 1, method="L-BFGS-B")
    assert next(run) is None
    run.close()  # between two iterates: the run must not wait for ever at the next


def test_the_last_call_is_answered_with_the_latest_iterate():
    stuck, seen = threading.Event(), []

    def value(x):
        seen.append(x.copy())
        if len(seen) == 12:  # the run is between two iterates for as long as the test wants
            stuck.wait(30.0)
        return float(((x - 1.0) ** 4).sum()), 4.0 * (x - 1.0) ** 3

    run = minimise(value, np.full(3, 5.0), 50, method="L-BFGS-B", options={"maxiter": 1000})
    while len(seen) < 12:
        assert next(run) is None
    point = run.throw(LastCall())
    assert 0 < point.number < 12
    assert any(np.array_equal(point.theta, x) for x in seen)
    with pytest.raises(LastCall):
        next(run)
    stuck.set()
