"""HiGHS on a Pyomo model: it runs in a process of its own, reports as it goes, and can be stopped at any time."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyomo.common.collections import ComponentMap
from pyomo.repn import generate_standard_repn
from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler
from scipy.sparse import csc_array

from opttree.runtime.clock import now
from solvers.core.process import Process
from solvers.mip.limits import Limits

Floats = NDArray[np.float64]
POLL, PATIENCE = 0.02, 0.5  # seconds: between two looks at a run, for one that is asked to stop
TIGHT = 1e-9  # in place of 1e-6
FAINT = 1e-7  # of the largest cost: HiGHS's tolerance of reduced costs


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


class Program:
    """A program for HiGHS, as `solvers.mip.highs_process` takes it: its objective is ``offset + unit * value``."""

    def __init__(self, program: dict[str, Any], offset: float = 0.0, unit: float = 1.0) -> None:
        self.program, self.offset, self.unit = program, offset, unit

    def bound(self, value: float | None) -> float | None:
        """A bound of HiGHS in units of the objective, or None if infinite."""
        return value * self.unit + self.offset if value is not None and np.isfinite(value) else None


class Compiled(Program):
    """A Pyomo model for HiGHS. Costs are scaled so that the largest is 1, as HiGHS's tolerances are absolute."""

    def __init__(self, model: Any) -> None:
        whole = model.cost.expr
        squares = ComponentMap()
        if whole.polynomial_degree() == 2:  # squares of single variables: the rest is linear
            parts = generate_standard_repn(whole, quadratic=True)
            terms = zip(parts.quadratic_vars, parts.quadratic_coefs, strict=True)
            squares.update((first, float(value)) for (first, _second), value in terms)
            linear = zip(parts.linear_vars, parts.linear_coefs, strict=True)
            model.cost.set_value(parts.constant + sum(value * v for v, value in linear))
        standard = LinearStandardFormCompiler().write(model, mixed_form=True)
        model.cost.set_value(whole)
        self.columns = standard.columns
        costs = np.asarray(standard.c.todense()).ravel()
        square = np.array([squares.get(v, 0.0) for v in self.columns])
        most = max(float(np.abs(costs).max(initial=0.0)), float(square.max(initial=0.0)))
        offset, unit = float(standard.c_offset[0]), most or 1.0
        bounds = [v.bounds for v in standard.columns]
        kinds = np.array([kind for _row, kind in standard.rows])  # 0 equality, 1 upper, -1 lower
        matrix = csc_array(standard.A)
        program = {
            "n_columns": len(standard.columns),
            "n_rows": len(standard.rows),
            "col_cost_": costs / unit,
            "col_lower_": np.array([-np.inf if low is None else low for low, _high in bounds]),
            "col_upper_": np.array([np.inf if high is None else high for _low, high in bounds]),
            "row_lower_": np.where(kinds == 1, -np.inf, standard.rhs),
            "row_upper_": np.where(kinds == -1, np.inf, standard.rhs),
            "matrix": (matrix.indptr, matrix.indices, matrix.data),
            "integer": np.array([v.is_integer() or v.is_binary() for v in standard.columns], bool),
        }
        if square.any():
            program["squares"] = square / unit  # for optimizers that take them
        super().__init__(program, offset, unit)

    def values(self) -> Floats:
        """The values of the model's variables, 0 if unset."""
        return np.array([0.0 if v.value is None else v.value for v in self.columns])

    def assign(self, values: Floats) -> None:
        """Set the model's variables."""
        for variable, value in zip(self.columns, values.tolist(), strict=True):
            variable.set_value(value, skip_validation=True)


class Run:
    """A run of HiGHS from ``start``, the values of all columns."""

    def __init__(self, compiled: Program, limits: Limits, start: Floats | None) -> None:
        self.compiled, self.verbose = compiled, limits.verbose
        program = compiled.program
        if start is not None and np.any(
            (start < program["col_lower_"] - TIGHT) | (start > program["col_upper_"] + TIGHT)
        ):
            start = None  # HiGHS would take its value for a bound
        self.events: deque[Progress] = deque()
        self.root_seconds: float | None = None
        self._outcome: Outcome | None = None
        self._process = Process.idle(str(Path(__file__).with_name("highs_process.py")), f"{limits.threads}")
        options, costs = _options(limits), np.abs(program["col_cost_"])
        if np.any((costs > 0.0) & (costs < FAINT)):
            options["presolve"] = "off"  # HiGHS 1.16 presolves such costs away, and may lose the optimum with them
        self._process.send((compiled.program, options, start, limits.verbose))

    def wait(self) -> bool:
        """Wait a few hundredths of a second; returns whether it has finished."""
        return self._heard(POLL)

    def _heard(self, seconds: float) -> bool:
        """Take what HiGHS has said, after some seconds at most; returns whether it has finished."""
        while self._outcome is None and self._process.answers_within(seconds):
            kind, *said = self._process.answer()
            seconds = 0.0
            if kind == "log":
                print(said[0], end="")
            elif kind == "event":
                self._take(*said)
            else:
                status, bound, nodes, values = said[0]
                self._outcome = Outcome(status, self.compiled.bound(bound), nodes, values)
                self._process.release()
        return self._outcome is not None

    def _take(self, values: Floats | None, *numbers: Any) -> None:
        dual, primal, nodes, gap, seconds, cpu_seconds = numbers
        if self.root_seconds is None and nodes > 0 and seconds is not None:
            self.root_seconds = float(seconds)
        bound = self.compiled.bound(dual)
        info = {
            "mip_primal": self.compiled.bound(primal),
            "mip_dual": bound,
            "mip_gap": gap,
            "root_seconds": self.root_seconds,
            "cpu_seconds": cpu_seconds,  # of its process
        }
        known = {name: float(value) for name, value in info.items() if value is not None and np.isfinite(value)}
        self.events.append(Progress(values, bound, nodes, known))

    def stop(self) -> None:
        """Ask for the end and wait for it, but not for long: HiGHS looks rarely in sub-MIPs and large linear
        programs. A run that goes on is ended with its process.
        """
        if self._outcome is not None:
            return
        self._process.send("stop")
        until = now() + PATIENCE
        while not self._heard(POLL) and now() < until:
            pass
        if self._outcome is None:
            self._process.end()
            self._outcome = Outcome("TimeLimit", None, 0, None)

    def outcome(self) -> Outcome:
        """The result of the finished run; of one that was ended, nothing beyond its events."""
        assert self._outcome is not None
        return self._outcome
