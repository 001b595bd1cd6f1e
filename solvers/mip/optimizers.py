"""Runs of optimizers on a Pyomo model, with one interface: HiGHS as in `solvers.mip.highs`, others through Pyomo."""

from __future__ import annotations

import math
from collections import deque
from threading import Event, Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.mip.direct import RUNS
from solvers.mip.highs import POLL, Compiled, Outcome, Progress, Run
from solvers.mip.limits import Limits

Floats = NDArray[np.float64]
OPTIONS = {  # names of the limits on gap, nodes, threads and the seed; seconds have one name for all
    "cplex": ("mip_tolerances_mipgap", "mip_limits_nodes", "threads", "randomseed"),
    "cbc": ("ratioGap", "maxNodes", "threads", "randomCbcSeed"),
    "glpk": ("mipgap", None, None, "seed"),
    "appsi": ("mip_rel_gap", "mip_max_nodes", "threads", "random_seed"),
}
STATUS = {
    "optimal": "Optimal",
    "infeasible": "Infeasible",
    "maxTimeLimit": "TimeLimit",
    "maxIterations": "SolutionLimit",
}


def begin(optimizer: str, model: Any, limits: Limits, has_start: bool) -> Any:
    """Begin to solve ``model``, whose variables hold a start if ``has_start``."""
    if optimizer != "highs" and optimizer not in RUNS:
        return PyomoRun(optimizer, model, limits)
    compiled = Compiled(model)
    return RUNS.get(optimizer, Run)(compiled, limits, compiled.values() if has_start else None)


class Variables:
    """The variables of a model, as the values of a run are for them."""

    def __init__(self, model: Any) -> None:
        import pyomo.core as pyo

        self.columns = [v for v in model.component_data_objects(pyo.Var) if not v.fixed]

    def values(self) -> Floats:
        """Their values, 0 if unset."""
        return np.array([0.0 if v.value is None else v.value for v in self.columns])

    def assign(self, values: Floats) -> None:
        """Set them."""
        for variable, value in zip(self.columns, values.tolist(), strict=True):
            variable.set_value(value, skip_validation=True)


class PyomoRun:
    """A run of a solver of Pyomo's in a thread. It cannot be stopped before its time limit, only left alone: `stop` of
    a run that goes on gives no result.
    """

    def __init__(self, optimizer: str, model: Any, limits: Limits) -> None:
        self.compiled = Variables(model)
        self.events: deque[Progress] = deque()
        self._outcome = Outcome("Interrupted", None, 0, None)
        self._done = Event()
        self._error: BaseException | None = None
        self._model = model.clone()  # a run that is left alone changes its own copy
        Thread(target=self._run, args=(optimizer, limits), daemon=True).start()

    def _run(self, optimizer: str, limits: Limits) -> None:
        try:
            self._outcome = self._solved(optimizer, limits)
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()

    def _solved(self, optimizer: str, limits: Limits) -> Outcome:
        import pyomo.environ as pyo

        solver = pyo.SolverFactory(optimizer)
        given = (limits.gap, limits.nodes, limits.threads, limits.seed)
        family = optimizer.partition("_")[0]
        names = OPTIONS.get(family, (None,) * 4)
        chosen = {name: value for name, value in zip(names, given, strict=True) if name and value is not None}
        seconds = {"timelimit": limits.seconds} if math.isfinite(limits.seconds) else {}
        results = solver.solve(self._model, options=chosen, tee=limits.verbose, load_solutions=False, **seconds)
        status = str(results.solver.termination_condition)
        values = None
        if len(results.solution):
            self._model.solutions.load_from(results)
            values = Variables(self._model).values()
        bound = results.problem.lower_bound
        known = bound is not None and math.isfinite(float(bound))
        return Outcome(STATUS.get(status, status), float(bound) if known else None, 0, values)

    def wait(self) -> bool:
        """Wait a few hundredths of a second; returns whether it has finished."""
        done = self._done.wait(POLL)
        if done and self._error is not None:
            raise self._error
        return done

    def stop(self) -> None:
        """Leave it alone."""

    def outcome(self) -> Outcome:
        """The result of the finished run."""
        return self._outcome
