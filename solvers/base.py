"""What a solver is: frozen options and a generator of iterates. The loop around it is `solve`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.random import Generator as Rng

from opttree.models import Model
from opttree.options import Checked
from opttree.problems import TreeProblem
from opttree.tree import Tree
from solvers.result import Termination, Verdict


@dataclass(frozen=True)
class Step:
    """One iterate: a model, its objective where the solver knows it, a proved bound if there is one, and the phase.

    ``n_evaluations`` counts the passes over the data since the last step; ``info`` holds further numbers for the trace.
    """

    tree: Model
    objective: float | None = None
    bound: float | None = None
    phase: str = ""
    n_evaluations: int = 1
    info: Mapping[str, float] = field(default_factory=dict)


class LastCall(Exception):  # noqa: N818
    """Thrown into a solver's generator when the time is up: it may yield one more step, or let it pass.

    Thrown again after that step; what a solver then returns as a `Verdict` completes the message (not in a chain).
    """


_DEADLINE: ContextVar[float] = ContextVar("deadline", default=math.inf)  # by time.perf_counter()


@contextmanager
def due_at(deadline: float) -> Iterator[None]:
    """Let solvers know that their work within the block ends then, or earlier if a block around it says so."""
    token = _DEADLINE.set(min(_DEADLINE.get(), deadline))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def seconds_left() -> float:
    """Seconds until the run's time limit, inf without one: for calls that cannot be stopped but take a limit."""
    return _DEADLINE.get() - time.perf_counter()


Steps = Generator[Step | None, Any, Termination | Verdict | None]


def at_last_call(
    work: Generator[Step | None, Any, Any],
    last: Callable[[], Step | None],
    ends: tuple[type[BaseException], ...] = (LastCall,),
) -> Generator[Step | None, Any, Any]:
    """``work``; at the last call, or where it ``ends`` otherwise, the step that ``last`` makes of what there is."""
    try:
        return (yield from work)
    except ends:
        if (step := last()) is not None:
            yield step
        raise


def changed_steps(inner: Steps, change: Callable[[Step], Step]) -> Steps:
    """The steps of ``inner``, that of its last call too, each as ``change`` makes it."""
    step: Step | None = None
    while True:
        try:
            step = next(inner)
        except StopIteration as stop:
            return stop.value
        try:
            yield None if step is None else change(step)
        except LastCall as call:
            with suppress(StopIteration):  # the solver was about to end
                step = inner.throw(call)
                yield None if step is None else change(step)
            raise


class Solver(Checked):
    """Base class of solvers: frozen dataclasses of options, without state and without data."""

    takes_gates = False  # whether it starts from soft trees as they are, or from the hard trees below them

    def supports(self, problem: TreeProblem) -> str | None:
        """None, or the reason why this solver cannot treat ``problem``, in one sentence."""
        return None

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """The algorithm: yields a `Step` per iterate and, in between, None wherever it can be stopped.

        The generator's return value says why it ended, as a `Termination` or, with words of its own, a `Verdict`;
        `Termination.ITERATION_LIMIT` if it is None.
        """
        raise NotImplementedError(f"{type(self).__name__} must define steps")


def start_for(solver: Solver, tree: Tree | None) -> Tree | None:
    """``tree`` as ``solver`` starts from it; ValueError for a forest, which a link of a chain may have made."""
    if tree is not None and not isinstance(tree, Tree):
        raise ValueError(f"start must be a Tree; got a {type(tree).__name__}")
    return tree if tree is None or solver.takes_gates else replace(tree, gate=None, mixture=False)
