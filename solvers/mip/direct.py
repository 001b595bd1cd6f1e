"""Optimizers that are given arrays and say what happens while they run: SCIP and Gurobi, each in a thread.

`solvers.mip.highs` runs HiGHS in a process of its own.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from threading import Event, Thread
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from opttree.problems.mip.cuts import Cut
from opttree.runtime.clock import now
from solvers.mip.highs import PATIENCE, POLL, Outcome, Program, Progress
from solvers.mip.limits import Limits

Floats = NDArray[np.float64]
NEW_CUT = 1e-6  # least violation of a cut that is added


class Lazy(Protocol):
    """Rows of a program that are added where points violate them."""

    def cuts(self, point: Floats, fractional: bool) -> Iterable[Cut]:
        """Violated rows; a point that is not fractional and violates none is a solution."""


class ThreadRun:
    """A run in a thread: `wait`, `stop` and `outcome` as those of `solvers.mip.highs.Run`."""

    def __init__(self, compiled: Program, limits: Limits, start: Floats | None, lazy: Lazy | None = None) -> None:
        self.compiled, self.limits, self.first, self.lazy = compiled, limits, start, lazy
        self.events: deque[Progress] = deque()
        self.n_cuts = 0
        self._outcome: Outcome | None = None
        self._error: BaseException | None = None
        self._done = Event()
        Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self._outcome = self._solve()
        except BaseException as error:
            self._error = error
        finally:
            self._done.set()

    def _solve(self) -> Outcome:
        raise NotImplementedError

    def _ask_to_stop(self) -> None:
        raise NotImplementedError

    def _event(self, values: Floats | None, bound: float | None, nodes: int) -> None:
        bound = self.compiled.bound(bound)
        info = {} if bound is None else {"mip_dual": bound}
        if self.lazy is not None:
            info["cuts"] = float(self.n_cuts)
        self.events.append(Progress(values, bound, nodes, info))

    def _new_cuts(self, point: Floats, *, fractional: bool) -> list[Cut]:
        """Rows that a point violates; none where rows are complete."""
        if self.lazy is None:
            return []
        found = [cut for cut in self.lazy.cuts(point, fractional) if cut.violation(point) > NEW_CUT]
        self.n_cuts += len(found)
        return found

    def _violates(self, point: Floats) -> bool:
        """Whether a point that is not fractional violates a row."""
        assert self.lazy is not None
        return any(cut.violation(point) > NEW_CUT for cut in self.lazy.cuts(point, False))

    def wait(self) -> bool:
        """Wait a few hundredths of a second; returns whether it has finished."""
        done = self._done.wait(POLL)
        if done and self._error is not None:
            raise self._error
        return done

    def stop(self) -> None:
        """Ask for the end and wait for it, but not for long."""
        until = now() + PATIENCE
        while not self._done.is_set() and now() < until:
            self._ask_to_stop()
            self._done.wait(POLL)

    def outcome(self) -> Outcome:
        """The result of the finished run; of one that goes on, nothing beyond its events."""
        return self._outcome or Outcome("TimeLimit", None, 0, None)

    def matrix(self) -> csr_array:
        """The rows."""
        program = self.compiled.program
        start, index, value = program["matrix"]
        shape = program["n_rows"], program["n_columns"]
        return csc_array((value, index, start), shape=shape).tocsr()


class ScipRun(ThreadRun):
    """SCIP, through `pyscipopt`; rows that are added lazily by a constraint handler."""

    def _solve(self) -> Outcome:
        import pyscipopt

        program, limits = self.compiled.program, self.limits
        self.model = model = pyscipopt.Model()
        if not limits.verbose:
            model.hideOutput()
        # where a sum of binary variables is at most 1, SCIP 10.0 may take fractional values of them for a solution
        options = {"constraints/linear/upgrade/setppc": False, "limits/gap": limits.gap}
        options["randomization/randomseedshift"] = limits.seed
        if math.isfinite(limits.seconds):
            options["limits/time"] = max(limits.seconds, 0.0)
        if limits.nodes is not None:
            options["limits/nodes"] = limits.nodes
        if limits.tight:
            options["numerics/feastol"] = 1e-9
        if self.lazy is not None:  # rows that are not there yet forbid them
            options |= {"misc/allowstrongdualreds": False, "misc/allowweakdualreds": False}
        model.setParams(options)
        low, high, cost = (program[name].tolist() for name in ("col_lower_", "col_upper_", "col_cost_"))
        kinds = np.where(program["integer"], "I", "C").tolist()
        self.columns = [
            model.addVar(
                vtype=kind,
                lb=None if math.isinf(a) else a,
                ub=None if math.isinf(b) else b,
                obj=c,
            )
            for kind, a, b, c in zip(kinds, low, high, cost, strict=True)
        ]
        matrix = self.matrix()
        for row in range(matrix.shape[0]):
            part = slice(matrix.indptr[row], matrix.indptr[row + 1])
            self._add_row(
                matrix.indices[part], matrix.data[part], *(program[f"row_{k}_"][row] for k in ("lower", "upper"))
            )
        self._add_squares(pyscipopt)
        if self.first is not None:
            solution = model.createSol()
            for column, value in zip(self.columns, self.first.tolist(), strict=True):
                model.setSolVal(solution, column, value)
            if self.total is not None:
                model.setSolVal(solution, self.total, float(program["squares"] @ np.square(self.first)))
            model.addSol(solution)
        self._listen(pyscipopt)
        model.optimizeNogil()
        status = {"optimal": "Optimal", "gaplimit": "Optimal", "infeasible": "Infeasible", "timelimit": "TimeLimit"}
        word = model.getStatus()
        bound = model.getDualbound()
        values = self._values(model.getBestSol()) if model.getNSols() else None
        known = "TimeLimit" if word == "userinterrupt" else "SolutionLimit" if word.endswith("limit") else word
        return Outcome(
            status.get(word, known), self.compiled.bound(_finite(bound)), int(model.getNTotalNodes()), values
        )

    def _add_squares(self, pyscipopt: Any) -> None:
        """Squares in the objective, as a variable that is at least their sum."""
        self.total: Any = None
        squares = self.compiled.program.get("squares")
        if squares is None:
            return
        self.total = self.model.addVar(lb=0.0, obj=1.0)
        some = np.flatnonzero(squares).tolist()
        terms = pyscipopt.quicksum(float(squares[i]) * self.columns[i] * self.columns[i] for i in some)
        self.model.addCons(terms <= self.total)

    def _add_row(self, index: Any, values: Any, low: float, high: float) -> None:
        import pyscipopt

        terms = pyscipopt.quicksum(v * self.columns[i] for i, v in zip(index.tolist(), values.tolist(), strict=True))
        if low == high:
            self.model.addCons(terms == low)
            return
        if math.isfinite(high):
            self.model.addCons(terms <= high)
        if math.isfinite(low):
            self.model.addCons(terms >= low)

    def _values(self, solution: Any) -> Floats:
        return np.array([self.model.getSolVal(solution, column) for column in self.columns])

    def _listen(self, pyscipopt: Any) -> None:
        run, model = self, self.model
        types, results = pyscipopt.SCIP_EVENTTYPE, pyscipopt.SCIP_RESULT

        class News(pyscipopt.Eventhdlr):
            """Incumbents and bounds."""

            def eventinit(self) -> None:
                for kind in (types.BESTSOLFOUND, types.NODESOLVED, types.FIRSTLPSOLVED):
                    model.catchEvent(kind, self)

            def eventexec(self, event: Any) -> None:
                found = event.getType() == types.BESTSOLFOUND
                values = run._values(model.getBestSol()) if found else None
                run._event(values, _finite(model.getDualbound()), int(model.getNTotalNodes()))

        model.includeEventhdlr(News(), "news", "incumbents and bounds")
        if self.lazy is None:
            return

        class Rows(pyscipopt.Conshdlr):
            """Rows that are added where points violate them."""

            def add(self, point: Floats, *, fractional: bool) -> bool:
                found = run._new_cuts(point, fractional=fractional)
                for cut in found:  # without a lower side, which is 0 by default
                    row = model.createEmptyRowUnspec("cut", lhs=None, rhs=cut.upper, removable=False)
                    for i, v in zip(cut.places.tolist(), cut.values.tolist(), strict=True):
                        model.addVarToRow(row, run.columns[i], v)
                    model.addCut(row, forcecut=True)
                    model.releaseRow(row)
                return len(found) > 0

            def consenfolp(self, _constraints: Any, _useful: Any, _infeasible: Any) -> dict[str, Any]:
                cut = self.add(run._values(None), fractional=False)
                return {"result": results.SEPARATED if cut else results.FEASIBLE}

            def conssepalp(self, _constraints: Any, _useful: Any) -> dict[str, Any]:
                at_root = model.getNTotalNodes() <= 1
                cut = at_root and self.add(run._values(None), fractional=True)
                return {"result": results.SEPARATED if cut else results.DIDNOTFIND}

            def consenfops(self, _constraints: Any, _useful: Any, _infeasible: Any, _objective: Any) -> dict[str, Any]:
                cut = run._violates(run._values(None))
                return {"result": results.INFEASIBLE if cut else results.FEASIBLE}

            def conscheck(self, _constraints: Any, solution: Any, *_others: Any) -> dict[str, Any]:
                cut = run._violates(run._values(solution))
                return {"result": results.INFEASIBLE if cut else results.FEASIBLE}

            def conslock(self, _constraint: Any, locktype: Any, up: int, down: int) -> None:
                for column in run.columns:  # a change of any of them, up or down, may violate a row
                    model.addVarLocksType(column, locktype, up + down, up + down)

        model.includeConshdlr(
            Rows(), "rows", "rows on demand", sepapriority=1, enfopriority=-10, chckpriority=-10, sepafreq=1,
            propfreq=-1, eagerfreq=-1, maxprerounds=0, delaysepa=False, delayprop=False, needscons=False,
        )  # fmt: skip

    def _ask_to_stop(self) -> None:
        model = getattr(self, "model", None)
        if model is not None:
            model.interruptSolve()


class GurobiRun(ThreadRun):
    """Gurobi, through `gurobipy`; the licence that comes with its package is for 2,000 variables and 2,000 rows."""

    def _solve(self) -> Outcome:
        import gurobipy as gp

        program, limits = self.compiled.program, self.limits
        environment = gp.Env(empty=True)
        environment.setParam("OutputFlag", int(limits.verbose))
        environment.start()
        with environment, gp.Model(env=environment) as model:
            self.model = model
            kinds = np.where(program["integer"], "I", "C")
            x = model.addMVar(
                program["n_columns"],
                lb=np.maximum(program["col_lower_"], -gp.GRB.INFINITY),
                ub=np.minimum(program["col_upper_"], gp.GRB.INFINITY),
                obj=program["col_cost_"],
                vtype=kinds,
            )
            matrix = self.matrix()
            low, high = program["row_lower_"], program["row_upper_"]
            equal = low == high
            for some, sense, sides in (
                (equal, "=", low),
                (~equal & np.isfinite(high), "<", high),
                (~equal & np.isfinite(low), ">", low),
            ):
                if some.any():
                    model.addMConstr(matrix[np.flatnonzero(some)], x, sense, sides[some])
            if (squares := program.get("squares")) is not None:
                some = np.flatnonzero(squares).tolist()
                model.setObjective(program["col_cost_"] @ x + (squares[some] * x[some] * x[some]).sum())
            if self.first is not None:
                x.setAttr("Start", self.first)
            options: dict[str, Any] = {
                "MIPGap": limits.gap,
                "Seed": limits.seed,
                "NodeLimit": limits.nodes,
                "Threads": limits.threads,
            }
            options["TimeLimit"] = max(limits.seconds, 0.0) if math.isfinite(limits.seconds) else None
            options["LazyConstraints"] = 1 if self.lazy is not None else None
            options |= {"FeasibilityTol": 1e-9, "IntFeasTol": 1e-9} if limits.tight else {}
            for name, value in options.items():
                if value is not None:
                    model.setParam(name, value)
            variables = x.tolist()
            try:
                model.optimize(lambda m, where: self._heard(gp.GRB, m, where, variables))
            except gp.GurobiError as error:
                return Outcome(str(error), None, 0, None)
            words = {2: "Optimal", 3: "Infeasible", 8: "SolutionLimit", 9: "TimeLimit", 11: "TimeLimit"}
            values = np.array(x.X) if model.SolCount else None
            bound = self.compiled.bound(_finite(model.ObjBound)) if model.Status in words else None
            return Outcome(words.get(model.Status, f"status {model.Status}"), bound, int(model.NodeCount), values)

    def _heard(self, GRB: Any, model: Any, where: int, variables: list[Any]) -> None:
        if where == GRB.Callback.MIPSOL:
            values = np.array(model.cbGetSolution(variables))
            cuts = self._new_cuts(values, fractional=False)
            self._add(model, cuts, variables)
            if not cuts:
                bound = model.cbGet(GRB.Callback.MIPSOL_OBJBND)
                self._event(values, _finite(bound), int(model.cbGet(GRB.Callback.MIPSOL_NODCNT)))
        elif where == GRB.Callback.MIP:
            bound, nodes = (model.cbGet(key) for key in (GRB.Callback.MIP_OBJBND, GRB.Callback.MIP_NODCNT))
            self._event(None, _finite(bound), int(nodes))
        elif (
            where == GRB.Callback.MIPNODE
            and self.lazy is not None
            and model.cbGet(GRB.Callback.MIPNODE_STATUS) == GRB.OPTIMAL
            and model.cbGet(GRB.Callback.MIPNODE_NODCNT) == 0
        ):
            point = np.array(model.cbGetNodeRel(variables))
            self._add(model, self._new_cuts(point, fractional=True), variables)

    @staticmethod
    def _add(model: Any, cuts: list[Cut], variables: list[Any]) -> None:
        import gurobipy as gp

        for cut in cuts:
            terms = gp.LinExpr(cut.values.tolist(), [variables[i] for i in cut.places.tolist()])
            model.cbLazy(terms <= cut.upper)

    def _ask_to_stop(self) -> None:
        model = getattr(self, "model", None)
        if model is not None and not self._done.is_set():
            model.terminate()


def _finite(value: float | None) -> float | None:
    """None for what optimizers take for infinity."""
    return None if value is None or abs(value) >= 1e20 else float(value)


RUNS: dict[str, type[ThreadRun]] = {"scip": ScipRun, "gurobi": GurobiRun}
