"""Combinators of solvers: restarts and chains."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from numpy.random import Generator as Rng

from opttree.model.convert import Model
from opttree.model.tree import Tree
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from solvers.core.base import Solver, Step, Steps, changed_steps, start_for
from solvers.core.origin import steps_of
from solvers.core.parallel import spread
from solvers.core.result import Termination, Verdict


@dataclass(frozen=True)
class MultiStart(Solver):
    """Run ``solver`` ``n`` times with independent random numbers; `solve` keeps the tree with the lowest objective.

    A start tree, if given, is used in the first run only. Phases are numbered: "2: ..." belongs to the second run.

    See Also
    --------
    Chain : solvers after one another

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import TAO, MultiStart, RandomInit, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2)
    >>> many = solve(problem, MultiStart(TAO(init=RandomInit()), n=5), random_state=0)
    >>> many.objective <= solve(problem, TAO(init=RandomInit()), random_state=0).objective
    True
    """

    takes_gates = True
    solver: Solver = option(doc="The solver to run.")
    n: int = option(10, "Number of runs.", least=1)
    n_jobs: int | None = option(
        None,
        """None: run one after another, with all steps in the trace. A number: this many runs in parallel, or on a
        cluster, see `solvers.core.parallel.spread`; a step is then the best tree of a run. The trees are the same.""",
        test=lambda n_jobs: n_jobs != 0,
        words="None or an integer other than 0",
    )

    @property
    def makes_forests(self) -> bool:  # type: ignore[override]
        """Whether ``solver`` makes forests."""
        return self.solver.makes_forests

    def refusal(self, problem: TreeProblem) -> str | None:
        """Reason why ``solver`` cannot solve the problem."""
        return self.solver.refusal(problem)

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes what ``solver`` takes."""
        return self.solver._refusal(problem)

    def covers(self, problem: TreeProblem) -> bool:
        """Whether ``solver`` covers the problem."""
        return self.solver.covers(problem)

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """The runs one after another; the runs of a smaller ``n`` are the first ones of a larger ``n``."""
        if self.n_jobs is not None:
            return (yield from self._spread_out(problem, start, rng))
        termination: Termination | Verdict | None = None
        for run in range(self.n):
            first = start_for(self.solver, start) if run == 0 else None
            inner = steps_of(self.solver, problem, first, rng.spawn(1)[0])
            termination = yield from changed_steps(inner, partial(_labelled, str(run + 1)))
        return termination

    def _spread_out(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """Run in parallel; the run that finishes last says why all ended."""
        tasks = ((start_for(self.solver, start) if run == 0 else None, rng.spawn(1)[0]) for run in range(self.n))
        termination: Termination | Verdict | None = None
        results = spread(_run, (problem, self.solver), tasks, self.n_jobs, self.n)
        with closing(results):
            for run, result in results:
                termination = result.termination
                yield Step(result.tree, result.objective, result.bound, f"{run + 1}", result.n_evaluations)
        return termination


def _run(shared: tuple[TreeProblem, Solver], task: tuple[Tree | None, Rng]) -> Any:
    from solvers.core.driver import solve

    return solve(*shared, start=task[0], random_state=task[1])


@dataclass(frozen=True, init=False)
class Chain(Solver):
    """Run solvers one after another, each from the best tree so far: ``Chain(TAO(), LocalSearch())``.

    Parameters
    ----------
    *solvers : Solver
        Two or more solvers, in order.

    See Also
    --------
    MultiStart : one solver from many starts

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import TAO, CartInit, Chain, LocalSearch, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2)
    >>> chain = Chain(CartInit(), TAO(), LocalSearch(n_starts=1))
    >>> solve(problem, chain, random_state=0).objective <= solve(problem, CartInit()).objective
    True
    """

    takes_gates = True
    solvers: tuple[Solver, ...]

    def __init__(self, *solvers: Solver) -> None:
        if not solvers:
            raise ValueError("Chain needs at least one solver; got none")
        for solver in solvers:
            if not isinstance(solver, Solver):
                raise ValueError(f"Chain must be of instances of solvers; got {solver!r}")
        object.__setattr__(self, "solvers", solvers)

    @property
    def makes_forests(self) -> bool:  # type: ignore[override]
        """Whether the last solver makes forests."""
        return self.solvers[-1].makes_forests

    def __repr__(self) -> str:
        return f"Chain({', '.join(map(repr, self.solvers))})"

    def brief(self) -> str:
        """The solvers' names and the options that differ from their defaults."""
        return f"Chain({', '.join(solver.brief() for solver in self.solvers)})"

    def refusal(self, problem: TreeProblem) -> str | None:
        """The first reason given by one of the solvers; forests are not followed by another solver."""
        return self._reason(lambda solver: solver.refusal(problem))

    def _refusal(self, problem: TreeProblem) -> str | None:
        """As `refusal`, side constraints apart."""
        return self._reason(lambda solver: solver._refusal(problem))

    def _reason(self, ask: Callable[[Solver], str | None]) -> str | None:
        for solver in self.solvers[:-1]:
            if solver.makes_forests:
                return f"{type(solver).__name__} makes a forest, from which the next solver of the chain cannot start"
        for solver in self.solvers:
            if (reason := ask(solver)) is not None:
                return f"{type(solver).__name__}: {reason}"
        return None

    def covers(self, problem: TreeProblem) -> bool:
        """Whether the last solver covers the problem: its termination ends the chain."""
        return self.solvers[-1].covers(problem)

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """Run the solvers in turn; the last one says why the chain ended."""
        best: Model | None = start
        best_objective = float("inf")
        if start is not None:
            best_objective = problem.objective(start)
            yield Step(start, best_objective, phase="start")
        termination: Termination | Verdict | None = None
        for solver in self.solvers:
            inner = steps_of(solver, problem, start_for(solver, best), rng.spawn(1)[0])
            best, best_objective, termination = yield from follow(
                problem, inner, type(solver).__name__, best, best_objective
            )
        return termination


def follow(
    problem: TreeProblem, inner: Steps, label: str, best: Model | None = None, best_objective: float = float("inf")
) -> Generator[Step | None, Any, tuple[Model | None, float, Termination | Verdict | None]]:
    """Yield the steps of ``inner``, labelled; returns the best model among them and ``best``, its objective, and the
    return value of ``inner``.
    """

    def seen(step: Step) -> Step:
        nonlocal best, best_objective
        objective = problem.objective(step.tree) if step.objective is None else step.objective
        if objective < best_objective:
            best, best_objective = step.tree, objective
        return _labelled(label, replace(step, objective=objective))

    ended = yield from changed_steps(inner, seen)
    return best, best_objective, ended


def _labelled(label: str, step: Step) -> Step:
    return replace(step, phase=f"{label}: {step.phase}" if step.phase else label)
