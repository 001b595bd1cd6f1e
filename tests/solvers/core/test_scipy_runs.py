"""Runs of SciPy's minimisers, which can be left."""

import time

import numpy as np

from solvers import ORRT, solve
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
