"""`solve`: the only loop. It owns the clock, the best tree, the trace, the callback, Ctrl-C and the verdict."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from opttree.forest import Forest
from opttree.interrupts import compilation_can_end, noted_interrupts
from opttree.models import as_tree
from opttree.problems import TreeProblem
from opttree.tree import Tree
from solvers.base import LastCall, Solver, Step, due_at, start_for
from solvers.result import Result, SolverError, Termination, Trace, TraceRow, Verdict

SAME, ROUNDING = 1e-6, 1e-9  # of a bound, and of the worst objective seen: a tree that much below a bound is at it
SAID_GAP = 1e-3  # relative gap of what counts as proved, above which the message states it
CLAIM = 1e-4  # share of the objective, or of the best constant's, that single precision may hide from a solver

Callback = Callable[[Step, Trace], object]


def solve(
    problem: TreeProblem,
    solver: Solver,
    *,
    start: Any = None,
    time_limit: float | None = None,
    callback: Callback | None = None,
    random_state: int | np.random.Generator | None = None,
) -> Result:
    """Run ``solver`` on ``problem`` and return the best tree it came by.

    The result's objective is computed anew, whatever the solver said of it, and its tree is held against the limits of
    the problem.

    Parameters
    ----------
    start : tree to start from, or a `Result`, an estimator (fitted to the problem's own X and y, as its tree is on raw
        data) or a scikit-learn tree that holds one, see `opttree.models.as_model`; the solver's own initial tree by
        default.
    time_limit : wall-clock seconds, > 0. Checked between the solver's steps; the best tree so far is returned.
    callback : called with each `Step`, that of the last call too, and the `Trace` so far; return True to stop.
    random_state : seed or Generator. One seed gives one tree, whatever the number of threads.

    Raises
    ------
    ValueError
        If ``solver`` is no solver or does not support the problem, the start is not feasible, or ``time_limit`` is not
        positive.
    SolverError
        If the solver's best tree breaks a limit of the problem or has another objective than the solver said, beyond
        what single precision explains. The error's ``result`` holds the run, with the true objective. (A bound above
        the objective is dropped, with a word in the message.)
    KeyboardInterrupt
        On Ctrl-C before there is any tree; afterwards the result so far is returned as INTERRUPTED. The first Ctrl-C
        waits for the solver's next step or pause; the second does not.
    """
    if time_limit is not None and not (isinstance(time_limit, (int, float, np.number)) and time_limit > 0):
        raise ValueError(f"time_limit must be > 0 seconds or None; got {time_limit!r}")
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be a function of a Step and a Trace, or None; got {callback!r}")
    _check_solver(solver)
    if not isinstance(problem, TreeProblem):
        raise ValueError(f"problem must be a TreeProblem; got {problem!r}")
    reason = solver.supports(problem)
    if reason is not None:
        raise ValueError(f"{type(solver).__name__} cannot solve this problem: {reason}")
    start = None if start is None else as_tree(start, "start")
    if start is not None and (reason := problem.violation(start)) is not None:
        raise ValueError(f"start must be feasible; {reason}")
    rng = np.random.default_rng(random_state)

    began = time.perf_counter()
    off_clock = 0.0  # time spent evaluating objectives and in the callback
    trace = Trace()
    best: Step | None = None
    best_objective = math.inf
    bound: float | None = None
    n_evaluations = 0
    termination: Termination | None = None
    detail = ""

    def record(step: Any) -> float:
        """Take account of an iterate; its objective."""
        nonlocal best, best_objective, bound, n_evaluations, off_clock
        if not isinstance(step, Step) or not isinstance(step.tree, (Tree, Forest)):
            what = step if isinstance(step, Step) else type(step).__name__
            raise SolverError(f"{type(solver).__name__}.steps must yield Step(tree) or None; got {what}")
        if step.bound is not None and math.isnan(step.bound):
            raise SolverError(f"{type(solver).__name__}.steps must yield bounds that are numbers; got nan")
        seconds = time.perf_counter() - began - off_clock
        paused = time.perf_counter()
        objective = problem.objective(step.tree) if step.objective is None else step.objective
        n_evaluations += step.n_evaluations
        if best is None or objective < best_objective:
            best, best_objective = step, objective
        if step.bound is not None:
            bound = step.bound if bound is None else max(bound, step.bound)
        trace.rows.append(TraceRow(seconds, len(trace), step.phase, objective, best_objective, bound, step.info))
        off_clock += time.perf_counter() - paused
        return objective

    def told(step: Step) -> bool:
        """Whether the callback, which sees every step, wants to stop."""
        nonlocal off_clock
        paused = time.perf_counter()
        stops = callback is not None and bool(callback(step, trace))
        off_clock += time.perf_counter() - paused
        return stops

    iterates = solver.steps(problem, start_for(solver, start), rng)
    if not isinstance(iterates, Generator):
        raise ValueError(
            f"{type(solver).__name__}.steps must be a generator, a function that yields Step(tree); "
            f"it returned a {type(iterates).__name__}"
        )
    with noted_interrupts() as interrupted:
        try:
            while termination is None:
                deadline = began + off_clock + (math.inf if time_limit is None else float(time_limit))
                try:
                    with due_at(deadline), compilation_can_end():
                        step = next(iterates)
                except StopIteration as stop:
                    if isinstance(stop.value, Verdict):
                        termination, detail = stop.value
                    else:
                        termination = stop.value or Termination.ITERATION_LIMIT
                    if not isinstance(termination, Termination):
                        raise SolverError(
                            f"{type(solver).__name__}.steps must return a Termination, a Verdict or None; "
                            f"got {termination!r}"
                        ) from None
                    break
                except (FloatingPointError, np.linalg.LinAlgError) as error:
                    if best is None:
                        raise
                    termination, detail = Termination.NUMERICAL_ERROR, f" ({error})"
                    break
                if step is not None:
                    if math.isnan(record(step)):
                        termination, detail = Termination.NUMERICAL_ERROR, " (the objective is not a number)"
                    if told(step):
                        termination, detail = Termination.INTERRUPTED, " (by the callback)"
                if interrupted() and best is None:
                    raise KeyboardInterrupt
                seconds = time.perf_counter() - began - off_clock
                late = time_limit is not None and best is not None and seconds >= time_limit
                if termination is None and (late or interrupted()):
                    termination = Termination.INTERRUPTED if interrupted() else Termination.TIME_LIMIT
                    try:
                        if (last := iterates.throw(LastCall())) is not None:
                            record(last)
                            told(last)
                        iterates.throw(LastCall())
                    except StopIteration as stop:
                        detail = stop.value.detail if isinstance(stop.value, Verdict) else ""
                    except LastCall:
                        pass
        except KeyboardInterrupt:
            if best is None:
                raise
            termination = Termination.INTERRUPTED
        finally:
            iterates.close()
    if interrupted():  # also where it came while the solver was about to end
        if best is None:
            raise KeyboardInterrupt
        termination = Termination.INTERRUPTED
    if best is None:
        raise SolverError(f"{type(solver).__name__} ended without yielding a tree")
    scale = problem.objective(problem.best_constant())
    claimed, reason = best_objective, problem.violation(best.tree)
    best_objective = problem.objective(best.tree)
    assert termination is not None
    if bound is not None and best_objective < bound:
        worst = max([scale, *(row.objective for row in trace if math.isfinite(row.objective))])
        if best_objective >= bound - SAME * abs(bound) - ROUNDING * worst:
            bound = best_objective
        else:
            termination, bound = Termination.LOCALLY_OPTIMAL, None
            detail += (
                " The bound is dropped: it holds for trees of the solver's candidate splits and leaves, not for this."
            )
    proved = termination is Termination.OPTIMAL
    if proved and bound is not None and best_objective - bound > SAID_GAP * abs(best_objective) + ROUNDING * scale:
        detail += f" Relative gap: {(best_objective - bound) / abs(best_objective):.3g}."
    result = Result(
        tree=best.tree,
        objective=best_objective,
        bound=bound,
        termination=termination,
        message=termination.value + detail,
        n_steps=len(trace),
        n_evaluations=n_evaluations,
        seconds=time.perf_counter() - began - off_clock,
        trace=trace,
        solver=repr(solver),
    )
    if reason is not None:
        raise SolverError(f"{type(solver).__name__} returned an infeasible tree: {reason}", result)
    if proved and bound is None:
        raise SolverError(f"{type(solver).__name__} said OPTIMAL; OPTIMAL needs a bound, and it gave none", result)
    if abs(claimed - best_objective) > CLAIM * max(abs(best_objective), scale):
        raise SolverError(
            f"{type(solver).__name__} said that its best tree has the objective {claimed:.9g}; "
            f"computed anew it is {best_objective:.9g}",
            result,
        )
    return result


def _check_solver(solver: Any) -> None:
    """ValueError, with the remedy, for what is no solver."""
    if isinstance(solver, Solver):
        return
    rule = "solver must be an instance of a solver, such as TAO()"
    if isinstance(solver, type) and issubclass(solver, Solver):
        raise ValueError(f"{rule}; got the class {solver.__name__}: write {solver.__name__}()")
    raise ValueError(f"{rule}; got {solver!r}")
