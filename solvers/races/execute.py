"""One run of a solver: compiled before, refused or solved on the clock, and the numbers of its row."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Hashable
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import psutil
from numpy.typing import NDArray

from opttree.model.forest import Forest
from opttree.model.tree import Tree
from opttree.statement import TreeProblem
from solvers.core.base import Solver
from solvers.core.driver import solve
from solvers.core.result import Result, SolverError
from solvers.races.runs import GivenRun, Outcome, Run, UnavailableError

FEW, MANY, MOST = 300, 2000, 10_000  # rows of a run that compiles: FEW, or MOST where there are more than MANY
WARM_LIMIT = 2.0  # seconds, of such a run

_WARM: set[Hashable] = set()


def execute(run: GivenRun, threads: int, started: Callable[[], None]) -> Outcome:
    """The numbers of a run, and its trace; `UnavailableError` where the solver refuses the problem. The process that
    this is called in has as many ``threads``.
    """
    problem, solver = map(cloudpickle.loads, run.pickled)
    _result, row, trace = solved(problem, solver, run, started)
    return row, trace


def solved(
    problem: TreeProblem, solver: Solver, run: Run, started: Callable[[], None]
) -> tuple[Result, dict[str, Any], pd.DataFrame]:
    """The result of a solver on a problem, the numbers of its row, and its trace."""
    if (reason := solver.refusal(problem)) is not None:
        raise UnavailableError(reason)

    def compile_it(few: NDArray[np.intp]) -> None:
        with contextlib.suppress(SolverError):  # that limit may be over before there is a tree
            solve(problem.sample(few), solver, time_limit=WARM_LIMIT, random_state=0)

    kernels = (repr(solver), problem.depth, problem.splits, problem.leaves, repr(problem.loss))
    warm(kernels, compile_it, np.arange(problem.n_samples))
    started()
    used = _cpu_seconds()
    result = solve(problem, solver, time_limit=run.time_limit, random_state=run.random_state)
    used = _cpu_seconds() - used
    free = problem.restated(constraints=())
    row = {
        "fit_seconds": result.seconds,
        "cpu_seconds": used,
        "lacks": getattr(solver, "lacks", ""),
        "several_trees": isinstance(result.tree, Forest) or getattr(result.tree, "mixture", False),
        "n_steps": result.n_steps,
        "constant_objective": free.objective(free.best_constant()),
        "covers": solver.covers(problem),
        **({} if result.tree is None else sizes(result.tree)),
        **verdict(result),
    }
    return result, row, steps(result)


def warm(what: Hashable, compile_it: Callable[[NDArray[np.intp]], Any], rows: NDArray[np.intp]) -> None:
    """Compile off the clock, once per process, on some of the rows: kernels differ between few and many."""
    many = rows.size > MANY
    if (what, many) not in _WARM:
        compile_it(rows[: MOST if many else FEW])
        _WARM.add((what, many))


def _cpu_seconds() -> float:
    """CPU seconds of this process and of its children, such as HiGHS's."""
    ended = os.times()
    total = time.process_time() + ended.children_user + ended.children_system
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(child.cpu_times()[:2])
    return total


def sizes(model: Tree | Forest) -> dict[str, float]:
    """Trees, mean depth, branches, leaves, both, and parameters, as the TAO and GET papers count them: two per
    axis-aligned branch, the weights and the threshold of an oblique one, the constants and coefficients of the leaves.
    """
    trees = [model] if isinstance(model, Tree) else model.trees
    return {
        "n_trees": len(trees),
        "tree_depth": float(np.mean([tree.depth for tree in trees])),
        "n_branches": sum(tree.n_branches for tree in trees),
        "n_leaves": sum(tree.n_leaves for tree in trees),
        "n_nodes": sum(tree.n_nodes for tree in trees),
        "n_parameters": model.n_parameters,
    }


def verdict(result: Result) -> dict[str, Any]:
    """Objective, bound, termination and, where the solver counts them, nodes."""
    nodes = [row.info["nodes"] for row in result.trace if "nodes" in row.info]
    row = {"objective": result.objective, "bound": result.bound, "termination": result.termination.name}
    return row | ({"nodes": float(nodes[-1])} if nodes else {})


def steps(result: Result) -> pd.DataFrame:
    """The trace, without what solvers note beside it."""
    return result.trace.to_frame().reindex(columns=["seconds", "step", "phase", "objective", "best", "bound"])
