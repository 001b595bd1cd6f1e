"""`solve`: the only loop. It owns the clock, the best tree, the trace, the callback, Ctrl-C and the verdict."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from opttree.interrupts import noted_interrupts
from opttree.problems import TreeProblem
from opttree.tree import Tree
from solvers.base import LastCall, Solver, Step, start_for
from solvers.result import Result, Termination, Trace, TraceRow, Verdict

SAME, ROUNDING = 1e-6, 1e-9  # of a bound, and of the worst objective seen: a tree that much below a bound is at it

Callback = Callable[[Step, Trace], object]


def solve(
    problem: TreeProblem,
    solver: Solver,
    *,
    start: Tree | None = None,
    time_limit: float | None = None,
    callback: Callback | None = None,
    random_state: int | np.random.Generator | None = None,
) -> Result:
    """Run ``solver`` on ``problem`` and return the best tree it came by.

    Parameters
    ----------
    start : tree to start from; the solver's own initial tree by default.
    time_limit : wall-clock seconds, > 0. Checked between the solver's steps; the best tree so far is returned.
    callback : called with each `Step` and the `Trace` so far; return True to stop.
    random_state : seed or Generator. One seed gives one tree, whatever the number of threads.

    Raises
    ------
    ValueError
        If the solver does not support the problem, the start is not feasible, or ``time_limit`` is not positive.
    KeyboardInterrupt
        On Ctrl-C before there is any tree; afterwards the result so far is returned as INTERRUPTED. The first Ctrl-C
        waits for the solver's next step or pause; the second does not.
    """
    if time_limit is not None and not time_limit > 0:
        raise ValueError(f"time_limit must be > 0 seconds or None; got {time_limit}")
    reason = solver.supports(problem)
    if reason is not None:
        raise ValueError(f"{type(solver).__name__} cannot solve this problem: {reason}")
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

    def record(step: Step) -> float:
        """Take account of an iterate; its objective."""
        nonlocal best, best_objective, bound, n_evaluations, off_clock
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

    iterates = solver.steps(problem, start_for(solver, start), rng)
    with noted_interrupts() as interrupted:
        try:
            while termination is None:
                try:
                    step = next(iterates)
                except StopIteration as stop:
                    if isinstance(stop.value, Verdict):
                        termination, detail = stop.value
                    else:
                        termination = stop.value or Termination.ITERATION_LIMIT
                    break
                except (FloatingPointError, np.linalg.LinAlgError) as error:
                    if best is None:
                        raise
                    termination, detail = Termination.NUMERICAL_ERROR, f" ({error})"
                    break
                if step is not None:
                    if math.isnan(record(step)):
                        termination, detail = Termination.NUMERICAL_ERROR, " (the objective is not a number)"
                    paused = time.perf_counter()
                    if callback is not None and callback(step, trace):
                        termination, detail = Termination.INTERRUPTED, " (by the callback)"
                    off_clock += time.perf_counter() - paused
                if interrupted() and best is None:
                    raise KeyboardInterrupt
                seconds = time.perf_counter() - began - off_clock
                late = time_limit is not None and best is not None and seconds >= time_limit
                if termination is None and (late or interrupted()):
                    termination = Termination.INTERRUPTED if interrupted() else Termination.TIME_LIMIT
                    try:
                        if (last := iterates.throw(LastCall())) is not None:
                            record(last)
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
    if best is None:
        raise RuntimeError(f"{type(solver).__name__} ended without yielding a tree")
    assert termination is not None
    if bound is not None and best_objective < bound:
        worst = max((row.objective for row in trace if math.isfinite(row.objective)), default=0.0)
        if best_objective >= bound - SAME * abs(bound) - ROUNDING * worst:
            bound = best_objective
        else:
            termination, bound = Termination.LOCALLY_OPTIMAL, None
            detail += (
                " The bound is dropped: it holds for trees of the solver's candidate splits and leaves, not for this."
            )
    return Result(
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
