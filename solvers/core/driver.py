"""`solve`: the loop that runs every solver, with the clock, incumbent, trace, callback, Ctrl-C and termination."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from typing import Any, cast

import numpy as np

from opttree.model.convert import Model, as_tree
from opttree.model.forest import Forest
from opttree.model.tree import Tree
from opttree.runtime.clock import compile_seconds, due_at, now
from opttree.runtime.interrupts import compilation_can_end, noted_interrupts
from opttree.statement import TreeProblem
from solvers.core.base import LastCall, Solver, Step, Steps, start_for
from solvers.core.incumbent import noise_of
from solvers.core.log import LOGGER, Bar, Lines, Silent, Verbosity, checked, log_of
from solvers.core.origin import steps_of
from solvers.core.result import Result, SolverError, Termination, Trace, TraceRow, Verdict

BOUND_RTOL, BOUND_ATOL = 1e-6, 1e-12  # relative to a bound, to one leaf's objective: a tree so little below equals it
EPSILON = float(np.finfo(float).eps)  # of the loss of a row: rounding where one row has nearly all the weight
FREE = 0.1  # of the time limit, which computing objectives may take beyond it
REPORTED_GAP = 1e-3  # the message states relative gaps above this
OBJECTIVE_RTOL = 1e-4  # allowed error of a reported objective, for single precision; relative to it or the constant's

Callback = Callable[[Step, Trace], object]


def solve(
    problem: TreeProblem,
    solver: Solver,
    *,
    start: Any = None,
    time_limit: float | None = None,
    callback: Callback | None = None,
    random_state: int | np.random.Generator | None = None,
    verbose: Verbosity = 0,
) -> Result:
    """Run a solver on a problem and return the best tree it found.

    The objective of the result is recomputed, whatever the solver reported, and its tree is checked against the limits
    of the problem.

    Parameters
    ----------
    problem : TreeProblem
        The statement.
    solver : Solver
        An instance, such as ``TAO()``.
    start : Tree, Result, estimator or scikit-learn tree, default None
        Tree to start from, or what holds one, see `opttree.model.convert.as_model`; by default the solver's initial
        tree. A run that is cut short returns no worse tree; where the solver takes no soft trees, than its hard
        version. An estimator must be fitted to the problem's own X and y, as its tree is on raw data.
    time_limit : float or None, default None
        Wall-clock seconds, > 0, without those in which kernels are compiled or loaded, those of the callback, and, up
        to a tenth of the limit, those in which objectives of steps are computed. Checked between the solver's steps,
        of which one may take seconds on a wide table; the best tree so far is returned.
    callback : callable or None, default None
        Called with each `Step`, including that of the last call, and the `Trace` so far; return True to stop.
    random_state : int or numpy.random.Generator or None, default None
        Seed or generator. The same seed gives the same tree on any number of threads.
    verbose : {0, 1, "bar"}, default 0
        "bar" shows a progress bar, 1 prints a line, at most four a second, when the best objective, the bound or the
        phase changes; 0 prints nothing. The beginning and the end of a run also go to ``logging.getLogger("opttree")``.

    Returns
    -------
    Result
        The best tree, its objective and bound, and why the run ended.

    Raises
    ------
    ValueError
        If ``solver`` is not a solver or does not support the problem, the start is infeasible, or ``time_limit`` is not
        positive.
    SolverError
        If the solver's best tree is infeasible, or its objective differs from the reported one by more than single
        precision explains; the error's ``result`` holds the run with the true objective. Or if it ended without a tree
        and without a proof that none satisfies the constraints; with the proof the result is INFEASIBLE, its ``tree``
        None. (A bound above the objective is dropped, and the message says so.)
    KeyboardInterrupt
        On Ctrl-C before there is any tree; later the result so far is returned as INTERRUPTED. The first Ctrl-C takes
        effect at the solver's next step or pause, the second at once.

    See Also
    --------
    Result : what it returns
    opttree.race : many solvers on many problems
    certify : a bound for any tree

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import TAO, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2)
    >>> result = solve(problem, TAO(), time_limit=10, random_state=0)
    >>> result.termination.name in ("STALLED", "LOCALLY_OPTIMAL")
    True
    >>> problem.objective(result.tree) == result.objective
    True
    """
    is_number = isinstance(time_limit, (int, float, np.number)) and not isinstance(time_limit, bool)
    if time_limit is not None and not (is_number and time_limit > 0):
        raise ValueError(f"time_limit must be > 0 seconds or None; got {time_limit!r}")
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be a function of a Step and a Trace, or None; got {callback!r}")
    checked(verbose)
    _check_solver(solver)
    if not isinstance(problem, TreeProblem):
        raise ValueError(f"problem must be a TreeProblem; got {problem!r}")
    reason = solver.refusal(problem)
    if reason is not None:
        raise ValueError(f"{type(solver).__name__} cannot solve this problem: {reason}")
    start = None if start is None else as_tree(start, "start")
    if start is not None and (reason := problem.violation(start)) is not None:
        raise ValueError(f"start must be feasible; {reason}")
    try:
        rng = np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        rule = "random_state must be None, an integer >= 0 or a Generator of NumPy"
        raise ValueError(f"{rule}; got {random_state!r}") from error

    limit = math.inf if time_limit is None else float(time_limit)
    title = f"{solver.brief()} on {problem.n_samples} rows, {problem.n_features} features, depth {problem.depth}"
    LOGGER.info("%s begins", title)
    log = log_of(verbose, title, limit)
    result = None
    try:
        result = _run(problem, solver, start, rng, _Recorder(problem, solver, callback, log, FREE * limit), limit)
    finally:
        log.end(result)
    LOGGER.info("%s: %s", title, result)
    return result


def _run(
    problem: TreeProblem, solver: Solver, start: Tree | None, rng: np.random.Generator, run: _Recorder, limit: float
) -> Result:
    """The solver's steps, to their end or the time limit, and the result."""
    start = start_for(solver, start)
    iterates = steps_of(solver, problem, start, rng)
    if not isinstance(iterates, Generator):
        raise ValueError(
            f"{type(solver).__name__}.steps must be a generator, a function that yields Step(tree); "
            f"it returned a {type(iterates).__name__}"
        )
    with noted_interrupts() as interrupted:
        try:
            end = _loop(iterates, run, limit, interrupted)
        except KeyboardInterrupt:
            if run.best is None:
                raise
            end = Termination.INTERRUPTED, ""
        finally:
            iterates.close()
    if interrupted():  # also if Ctrl-C came during the solver's last step
        if run.best is None:
            raise KeyboardInterrupt
        end = Termination.INTERRUPTED, end[1]
    if end[0] in (Termination.TIME_LIMIT, Termination.INTERRUPTED):
        run.fall_back(start)
    return run.result(*end)


class _Recorder:
    """State of a run: incumbent, bound and trace; its clock excludes the time in which kernels are compiled or loaded,
    that of the callback, and up to ``free`` seconds in which `solve` computes objectives.
    """

    def __init__(
        self, problem: TreeProblem, solver: Solver, callback: Callback | None, log: Lines | Bar | Silent, free: float
    ) -> None:
        self.problem, self.solver, self.callback, self.log = problem, solver, callback, log
        self.began, self.off_clock, self.free = now(), 0.0, free
        self.compiled = compile_seconds()
        self.trace, self.n_evaluations = Trace(), 0
        self.best: Step | None = None
        self.objective = math.inf
        self.seen: tuple[Model | None, float] = None, math.inf  # the last tree that was evaluated here
        self.bound: float | None = None

    @property
    def seconds(self) -> float:
        """Seconds on the run's clock."""
        return now() - self.began - self.off_clock

    def deadline(self, time_limit: float) -> float:
        """The deadline, as a value of `opttree.runtime.clock.now`."""
        return self.began + self.off_clock + time_limit

    def take(self, step: Any) -> tuple[Termination, str] | None:
        """Record an iterate; returns the reason if the run is to end."""
        name = type(self.solver).__name__
        if not isinstance(step, Step) or not isinstance(step.tree, (Tree, Forest)):
            what = step if isinstance(step, Step) else type(step).__name__
            raise SolverError(f"{name}.steps must yield Step(tree) or None; got {what}")
        if step.bound is not None and math.isnan(step.bound):
            raise SolverError(f"{name}.steps must yield bounds that are numbers; got nan")
        seconds, paused = self.seconds, now()
        objective = step.objective
        if objective is None or self.problem.constraints:  # what violates a side constraint is never the best
            if step.tree is not self.seen[0]:  # a step may bring a new bound of the tree before
                self.seen = step.tree, self.problem.objective(step.tree)
            objective = self.seen[1]
        self.n_evaluations += step.n_evaluations
        if self.best is None or objective < self.objective or math.isnan(self.objective):
            self.best, self.objective = step, objective
        if step.bound is not None:
            self.bound = step.bound if self.bound is None else max(self.bound, step.bound)
        row = TraceRow(seconds, len(self.trace), step.phase, objective, self.objective, self.bound, step.info)
        self.trace.rows.append(row)
        self.log.take(row)
        free = min(now() - paused, self.free)
        self.free -= free
        paused = now()
        stops = self.callback is not None and bool(self.callback(step, self.trace))
        self.off_clock += free + now() - paused
        if stops:
            return Termination.INTERRUPTED, " (by the callback)"
        return (Termination.NUMERICAL_ERROR, " (the objective is not a number)") if math.isnan(objective) else None

    def fall_back(self, start: Tree | None) -> None:
        """Take the start, if no better tree was found before the run was cut short."""
        if start is None or self.problem.violation(start) is not None:  # a soft tree's hard version may be infeasible
            return
        objective = self.problem.objective(start)
        if objective < self.objective:
            self.callback = None  # which may have ended the run
            self.take(Step(start, objective, phase="start"))

    def result(self, termination: Termination, detail: str) -> Result:
        """The result, with its numbers checked against the tree; `SolverError` if they disagree."""
        if self.best is None and termination is Termination.INFEASIBLE:
            return self._infeasible(detail)
        if self.best is None:
            why = f": {termination.value}{detail}" if self.problem.constraints or detail else ""
            raise SolverError(f"{type(self.solver).__name__} ended without yielding a tree{why}")
        problem, bound, seconds = self.problem, self.bound, self.seconds
        loss = problem.loss_function
        free = problem.restated(constraints=()) if problem.constraints else problem  # the constant may be infeasible
        seen = self.seen[1] if self.best.tree is self.seen[0] else None
        objective = problem.objective(self.best.tree) if seen is None else seen
        scale = free.objective(free.best_constant())
        if bound is not None and objective < bound:
            row = 1.0 if problem.is_classification else float(np.ptp(problem.Y)) ** loss.degree
            if objective >= bound - BOUND_RTOL * abs(bound) - BOUND_ATOL * scale - EPSILON * row:
                bound = objective
            else:
                bound = None
                if termination is Termination.OPTIMAL:
                    termination = Termination.LOCALLY_OPTIMAL
                detail += " The bound is dropped: it holds for trees of the solver's candidate splits and leaves,"
                detail += " not for this."
        proved = termination is Termination.OPTIMAL
        if (
            proved
            and bound is not None
            and objective - bound > REPORTED_GAP * abs(objective) + BOUND_ATOL * scale + noise_of(problem)
        ):
            detail += f" Relative gap: {(objective - bound) / abs(objective):.3g}."
        result = Result(
            tree=self._named(self.best.tree),
            objective=objective,
            bound=bound,
            termination=termination,
            message=termination.value + detail,
            n_steps=len(self.trace),
            n_evaluations=self.n_evaluations,
            seconds=seconds,
            trace=self.trace,
            solver=repr(self.solver),
            compile_seconds=compile_seconds() - self.compiled,
        )
        name = type(self.solver).__name__
        if (reason := problem.violation(self.best.tree)) is not None:
            raise SolverError(f"{name} returned an infeasible tree: {reason}", result)
        if proved and bound is None:
            raise SolverError(f"{name} said OPTIMAL; OPTIMAL needs a bound, and it gave none", result)
        if abs(self.objective - objective) > OBJECTIVE_RTOL * max(abs(objective), scale):
            raise SolverError(
                f"{name} said that its best tree has the objective {self.objective:.9g}; "
                f"computed anew it is {objective:.9g}",
                result,
            )
        return result

    def _infeasible(self, detail: str) -> Result:
        """The result of a proof that no tree satisfies the constraints, or none of the solver's candidates."""
        if not self.solver.covers(self.problem):
            detail = f" None of the solver's candidates, that is: other trees may.{detail}"
        bound = math.inf if self.solver.covers(self.problem) else None
        ended = Termination.INFEASIBLE
        counts = len(self.trace), self.n_evaluations, self.seconds, self.trace
        return Result(cast(Any, None), math.inf, bound, ended, ended.value + detail, *counts, repr(self.solver))

    def _named(self, model: Model) -> Model:
        """A tree with the problem's names of the features."""
        names = self.problem.feature_names
        return model.with_names(names) if names is not None and isinstance(model, Tree) else model


def _loop(
    iterates: Steps, run: _Recorder, time_limit: float, interrupted: Callable[[], bool]
) -> tuple[Termination, str]:
    """Run the steps until they end, the time limit or Ctrl-C; returns the termination and its message."""
    while True:
        try:
            with due_at(run.deadline(time_limit)), compilation_can_end():
                step = next(iterates)
        except StopIteration as stop:
            return _verdict(stop.value, type(run.solver).__name__)
        except (FloatingPointError, np.linalg.LinAlgError) as error:
            if run.best is None:
                raise
            return Termination.NUMERICAL_ERROR, f" ({error})"
        if step is not None and (end := run.take(step)) is not None:
            return end
        if run.best is None:
            if interrupted():
                raise KeyboardInterrupt
        elif interrupted() or run.seconds >= time_limit:
            ended = Termination.INTERRUPTED if interrupted() else Termination.TIME_LIMIT
            return ended, _last_call(iterates, run)


def _last_call(iterates: Steps, run: _Recorder) -> str:
    """Let the solver yield one more step; returns its message on the end."""
    try:
        if (last := iterates.throw(LastCall())) is not None:
            run.take(last)
        iterates.throw(LastCall())
    except StopIteration as stop:
        return stop.value.detail if isinstance(stop.value, Verdict) else ""
    except LastCall:
        pass
    return ""


def _verdict(value: Any, name: str) -> tuple[Termination, str]:
    """Termination and message from a solver's return value."""
    termination, detail = value if isinstance(value, Verdict) else (value or Termination.ITERATION_LIMIT, "")
    if not isinstance(termination, Termination):
        raise SolverError(f"{name}.steps must return a Termination, a Verdict or None; got {termination!r}") from None
    return termination, detail


def _check_solver(solver: Any) -> None:
    """ValueError, with the remedy, if ``solver`` is not a solver."""
    if isinstance(solver, Solver):
        return
    rule = "solver must be an instance of a solver, such as TAO()"
    if isinstance(solver, type) and issubclass(solver, Solver):
        raise ValueError(f"{rule}; got the class {solver.__name__}: write {solver.__name__}()")
    raise ValueError(f"{rule}; got {solver!r}")
