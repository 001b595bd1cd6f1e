"""HiGHS on a Pyomo model: it runs in a thread, reports through callbacks, and can be stopped."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import highspy
import numpy as np
from numpy.typing import NDArray
from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler
from scipy.sparse import csc_array

from solvers.mip.limits import Limits

Floats = NDArray[np.float64]
POLL, PATIENCE = 0.02, 0.5  # seconds: between two looks at a run, for one that is asked to stop
TIGHT = 1e-9  # in place of 1e-6


class Progress(NamedTuple):
    """Progress of a run: values of the columns if there is a new incumbent, the bound, nodes so far, and other numbers
    for the trace.
    """

    values: Floats | None
    bound: float | None
    nodes: int
    info: Mapping[str, float] = {}


class Outcome(NamedTuple):
    """End of a run: HiGHS's status, bound, nodes, and the final values, if any."""

    status: str
    bound: float | None
    nodes: int
    values: Floats | None


def _options(limits: Limits) -> dict[str, Any]:
    """The limits by their names in HiGHS."""
    options = {
        "mip_rel_gap": limits.gap,
        "mip_abs_gap": 0.0,
        "random_seed": limits.seed,
        "time_limit": limits.seconds,  # sub-MIPs obey it, too
        "mip_max_nodes": limits.nodes,
        "threads": limits.threads,
        "mip_feasibility_tolerance": TIGHT if limits.tight else None,
        "primal_feasibility_tolerance": TIGHT if limits.tight else None,
    }
    return {name: value for name, value in options.items() if value is not None}


class Compiled:
    """A Pyomo model for HiGHS. Costs are scaled so that the largest is 1, as HiGHS's tolerances are absolute."""

    def __init__(self, model: Any) -> None:
        form = LinearStandardFormCompiler().write(model, mixed_form=True)
        self.columns = form.columns
        costs = np.asarray(form.c.todense()).ravel()
        self.offset, self.unit = float(form.c_offset[0]), float(np.abs(costs).max(initial=0.0)) or 1.0
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(form.columns), len(form.rows)
        lp.col_cost_ = costs / self.unit
        infinity = highspy.kHighsInf
        bounds = [v.bounds for v in form.columns]
        lp.col_lower_ = np.array([-infinity if low is None else low for low, _high in bounds])
        lp.col_upper_ = np.array([infinity if high is None else high for _low, high in bounds])
        kinds = np.array([kind for _row, kind in form.rows])  # 0 equality, 1 upper, -1 lower
        lp.row_lower_ = np.where(kinds == 1, -infinity, form.rhs)
        lp.row_upper_ = np.where(kinds == -1, infinity, form.rhs)
        matrix = csc_array(form.A)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = matrix.indptr, matrix.indices, matrix.data
        self.is_integer = any(v.is_integer() or v.is_binary() for v in form.columns)
        if self.is_integer:
            integer, free = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
            lp.integrality_ = [integer if v.is_integer() or v.is_binary() else free for v in form.columns]
        self.lp = lp

    def values(self) -> Floats:
        """The values of the model's variables, 0 if unset."""
        return np.array([0.0 if v.value is None else v.value for v in self.columns])

    def assign(self, values: Floats) -> None:
        """Set the model's variables."""
        for variable, value in zip(self.columns, values.tolist(), strict=True):
            variable.set_value(value, skip_validation=True)

    def bound(self, value: float) -> float | None:
        """A bound of HiGHS in units of the model's objective, or None if infinite."""
        return value * self.unit + self.offset if abs(value) < highspy.kHighsInf else None


class Quiet(highspy.Highs):
    """HiGHS that prints nothing, not even the line with its version, which comes when callbacks are enabled."""

    def enableCallbacks(self) -> None:  # noqa: N802
        """Called by the constructor."""
        self.setOptionValue("log_to_console", False)
        super().enableCallbacks()


_left_alone: list[Run] = []  # runs that have not ended when they were stopped, kept until they do


class Run:
    """A run of HiGHS in a thread, from ``start``, the values of all columns.

    Bounds come from log events and the final result only: other events may belong to sub-MIPs, which do not log.
    """

    def __init__(self, compiled: Compiled, limits: Limits, start: Floats | None) -> None:
        self.compiled = compiled
        self.events: deque[Progress] = deque()
        self.root_seconds: float | None = None
        self.highs = Quiet()
        self.highs.setOptionValue("output_flag", True)  # without it there are no log events
        self.highs.setOptionValue("log_to_console", limits.verbose)
        for name, value in _options(limits).items():
            self.highs.setOptionValue(name, value)
        self.highs.passModel(compiled.lp)
        if start is not None and compiled.is_integer:
            solution = highspy.HighsSolution()
            solution.col_value = start.tolist()
            self.highs.setSolution(solution)
        self.highs.cbMipImprovingSolution += self._incumbent
        self.highs.cbMipLogging += self._log
        self.highs.HandleUserInterrupt = True
        self.highs.startSolve()

    def _incumbent(self, event: Any) -> None:
        values = np.array(event.data_out.mip_solution)
        if values.size == len(self.compiled.columns):
            self.events.append(Progress(values, None, int(event.data_out.mip_node_count)))

    def _log(self, event: Any) -> None:
        data = event.data_out
        nodes = int(data.mip_node_count)
        if self.root_seconds is None and nodes > 0:
            self.root_seconds = float(data.running_time)
        bound, primal = self.compiled.bound(data.mip_dual_bound), self.compiled.bound(data.mip_primal_bound)
        info = {"mip_primal": primal, "mip_dual": bound, "mip_gap": data.mip_gap, "root_seconds": self.root_seconds}
        known = {name: float(value) for name, value in info.items() if value is not None and np.isfinite(value)}
        self.events.append(Progress(None, bound, nodes, known))

    def wait(self) -> bool:
        """Wait a few hundredths of a second; returns whether it has finished."""
        done: bool = self.highs.wait(POLL)[0]
        return done

    def stop(self) -> None:
        """Request a stop and wait for it, but not for long: HiGHS looks for it rarely in sub-MIPs and large LPs. A run
        that goes on is left alone.
        """
        self.highs.setOptionValue("time_limit", 0.0)  # sub-MIPs ignore callbacks, but new ones check this
        self.highs.cancelSolve()
        if not self.highs.wait(PATIENCE)[0]:
            _left_alone.append(self)

    def outcome(self) -> Outcome:
        """The result of the finished run; of one that is left alone, nothing beyond its events."""
        _left_alone[:] = [run for run in _left_alone if not run.highs.wait(0.0)[0] or run is self]
        if self in _left_alone:
            return Outcome("TimeLimit", None, 0, None)
        info = self.highs.getInfo()
        status = self.highs.getModelStatus().name.removeprefix("k")
        found = info.primal_solution_status == highspy.kSolutionStatusFeasible
        values = np.array(self.highs.getSolution().col_value) if found else None
        if self.compiled.is_integer:
            return Outcome(status, self.compiled.bound(info.mip_dual_bound), int(info.mip_node_count), values)
        bound = self.compiled.bound(info.objective_function_value) if status == "Optimal" else None
        return Outcome(status, bound, 0, values)
