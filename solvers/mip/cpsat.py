"""`CPSAT`: the statement as clauses and rows of 0/1 variables, for CP-SAT of OR-tools."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from importlib.util import find_spec
from threading import Event, Thread
from typing import Any, Literal

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.problems.mip.clauses import LARGEST, Clauses
from opttree.runtime.clock import now, seconds_left
from opttree.runtime.interrupts import in_background
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from opttree.statement.constraints import Constraint, picks
from solvers.core.base import LastCall, Step, Steps
from solvers.core.candidates import OverCandidates
from solvers.core.incumbent import Incumbent
from solvers.core.result import Termination, Verdict
from solvers.initial.starts import first_trees

Floats = NDArray[np.float64]
ROUNDING = 1e-15  # relative, of sums of all costs
POLL, PATIENCE = 0.02, 0.5  # seconds: between two looks at a run, for one that is asked to stop
MOST_CLAUSES = 8e6  # literals of the sides of patterns


@dataclass(frozen=True)
class CPSAT(OverCandidates):
    """Constraint programming: every branch chooses a split, every leaf an answer, and clauses say which rows are right.

    For 0/1 loss and costs of actions, axis-aligned splits, and all side constraints, which become clauses and rows.
    Weights and costs are whole numbers there: ratios of small whole numbers are exact, others are rounded to nine
    digits of the largest, and the bound is less what that may add. At depth 2 it proved all of the eleven data sets of
    `experiments/results/formulations` in 20 s, more than any other method without dynamic programming; without side
    constraints `BranchAndBound` takes hundredths of a second there. OR-tools is an extra: ``pip install
    "opttree[cpsat]"``.

    ``step.info`` holds the number of "branches" of its search.

    See Also
    --------
    MIP : programs, for all losses
    Lagrangian, MonotoneDP : for some side constraints, faster

    References
    ----------
    Narodytska, Ignatiev, Pereira and Marques-Silva, "Learning optimal decision trees with SAT" (IJCAI 2018); Verhaeghe,
    Nijssen, Pesant, Quimper and Schaus, "Learning optimal decision trees using constraint programming", Constraints 25
    (2020).

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.constraints import MaxDifference
    >>> from solvers import CPSAT, solve
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, size=(60, 5)).astype(float)
    >>> y = ((X[:, 0] + X[:, 1] * X[:, 2] + rng.random(60)) > 1.2).astype(int)
    >>> fair = TreeProblem(X, y, 2, "axis", loss="zero_one", constraints=[MaxDifference(0, 0.1)])
    >>> if CPSAT().refusal(fair) is None:                   # OR-tools is installed
    ...     assert fair.violation(solve(fair, CPSAT(threads=1)).tree) is None
    """

    respects = (Constraint,)
    states = "flow"
    needs = ()  # said in `_refusal`

    n_thresholds: int | Literal["all"] = option("all", "See `MIPTreeProblem`.", least=1)
    threads: int | None = option(None, "Threads, >= 1; None: one for each processor.", least=1)
    seed: int | None = option(
        None, "Of CP-SAT, >= 0; None: by the ``random_state`` of `solve`.", least=0, most=2**31 - 1
    )
    verbose: bool = option(False, "Whether to print its log.")
    gap: float = option(0.0, "Relative gap that counts as proved.", least=0, below=1)

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes 0/1 loss and costs of actions, where OR-tools is installed."""
        if not picks(problem):
            return f"its loss is {problem.loss!r}, and clauses are for 0/1 loss and costs of actions"
        if problem.leaves != "constant":
            return "its leaves are linear, and clauses are for constant ones"
        if (reason := self.not_stated(problem)) is not None:
            return reason
        count = len(self.stated(problem).candidates)
        size = float(count) * problem.n_samples * 2**problem.depth
        if size > MOST_CLAUSES:
            return f"its {count:,} candidate splits need {size:.2g} literals, more than {MOST_CLAUSES:g}"
        return None if find_spec("ortools") is not None else 'OR-tools is missing: pip install "opttree[cpsat]"'

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """CART's tree, then those of CP-SAT, with its bounds."""
        run = _Run(self, problem, int(rng.integers(2**31 - 1)) if self.seed is None else self.seed)
        try:
            yield from run.in_time(run.begin(start, rng))
            yield from run.in_time(run.solve())
        except LastCall:
            run.stop()
            for _step in run.news():
                pass
            if (last := run.step("search")) is not None:
                yield last
            return Verdict(Termination.TIME_LIMIT, run.words)
        finally:
            run.stop()
        yield run.step("end")
        return run.verdict()


class _Run(Incumbent):
    """A run of CP-SAT in a thread."""

    def __init__(self, options: CPSAT, problem: TreeProblem, seed: int) -> None:
        super().__init__(problem, options.gap)
        self.options, self.seed, self.stated = options, seed, options.stated(problem)
        self.words = f" Candidate splits: {self.stated.candidate_text}."
        self.events: deque[tuple[list[int] | None, float, int]] = deque()
        self.solver: Any = None
        self.done, self.status = Event(), ""
        self.error: Exception | None = None
        self.info = {"branches": 0.0}

    def begin(self, start: Tree | None, rng: Rng) -> Generator[Step | None, Any, None]:
        """Trees to begin with, and the model."""
        problem = self.problem
        yield from first_trees(self, self.stated, start, rng)
        self.model = yield from in_background(lambda: Clauses(self.stated))
        if self.tree is not None:
            self.model.hint(self.model.candidates.nearest(self.tree, problem.X))

    def solve(self) -> Generator[Step | None, Any, None]:
        """Run CP-SAT and take its news."""
        Thread(target=self._work, daemon=True).start()
        self.slack = self.model.lost + ROUNDING * self.model.offset
        while not self.done.wait(POLL):
            yield from self.news()
            yield None
            if not self.open:
                return
        yield from self.news()
        if self.error is not None:
            raise self.error
        if self.status == "INFEASIBLE" and self.tree is None:
            self.infeasible = True
        elif self.status not in ("OPTIMAL", "INFEASIBLE"):
            raise LastCall if seconds_left() <= 0.0 else RuntimeError(f"CP-SAT ended with {self.status}")

    def _work(self) -> None:
        from ortools.sat.python import cp_model

        run, model = self, self.model
        choices = [choice for branch in model.b for choice in branch]
        width = len(model.candidates) + 1

        class News(cp_model.CpSolverSolutionCallback):
            """Incumbents."""

            def on_solution_callback(self) -> None:
                values = np.array([self.value(choice) for choice in choices]).reshape(-1, width)
                run.events.append((values.argmax(axis=1).tolist(), self.best_objective_bound, self.num_branches))

        try:
            self.solver = solver = cp_model.CpSolver()
            options = solver.parameters
            options.random_seed = self.seed
            options.log_search_progress = self.options.verbose
            if math.isfinite(seconds_left()):
                options.max_time_in_seconds = max(seconds_left(), 0.01)
            if self.options.threads is not None:
                options.num_workers = self.options.threads
            solver.best_bound_callback = lambda bound: self.events.append((None, bound, 0))
            status = solver.solve(model.cp, News())
            if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                values = np.array([solver.value(choice) for choice in choices]).reshape(-1, width)
                self.events.append((values.argmax(axis=1).tolist(), solver.best_objective_bound, solver.num_branches))
            self.status = solver.status_name(status)
        except Exception as error:
            self.error = error
        finally:
            self.done.set()

    def news(self) -> Generator[Step | None, Any, None]:
        """Take incumbents and bounds."""
        while self.events:
            chosen, bound, branches = self.events.popleft()
            self.info["branches"] = max(self.info["branches"], float(branches))
            if chosen is not None:
                yield from self.take(self.model.tree_of(chosen), "search")
            if abs(bound) < LARGEST:
                before = self.bound
                self.raise_bound(self.model.offset + bound / self.model.scale, self.slack + 1e-12 * self.leaf)
                if self.bound > before:
                    yield self.step("search")

    def stop(self) -> None:
        """Ask for the end and wait for it, but not for long."""
        until = now() + PATIENCE
        while self.solver is not None and not self.done.is_set() and now() < until:
            self.solver.stop_search()
            self.done.wait(POLL)
