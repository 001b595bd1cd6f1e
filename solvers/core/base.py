"""The interface of solvers: frozen options and a generator of iterates, which `solve` runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, TypeVar

from numpy.random import Generator as Rng

from opttree.model.convert import Model
from opttree.model.forest import Forest
from opttree.model.tree import Tree
from opttree.runtime.options import Checked
from opttree.runtime.words import shown
from opttree.statement import TreeProblem
from opttree.statement.constraints import Constraint
from solvers.core.result import Termination, Verdict

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Step:
    """One iterate of a solver.

    Parameters
    ----------
    tree : Tree or Forest
        The model.
    objective : float or None, default None
        Its objective, if the solver knows it.
    bound : float or None, default None
        A proved lower bound on the objective of every tree, if there is one.
    phase : str, default ""
        Name of the part of the algorithm, for the trace.
    n_evaluations : int, default 1
        Passes over the data since the last step.
    info : mapping of str to float
        Additional numbers for the trace.

    See Also
    --------
    Solver : yields them

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import TAO, Step, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2)
    >>> seen = []
    >>> result = solve(problem, TAO(), callback=lambda step, trace: seen.append(step), random_state=0)
    >>> isinstance(seen[0], Step), seen[0].tree.n_leaves <= 4
    (True, True)
    """

    tree: Model
    objective: float | None = None
    bound: float | None = None
    phase: str = ""
    n_evaluations: int = 1
    info: Mapping[str, float] = field(default_factory=dict)


class LastCall(Exception):  # noqa: N818
    """Thrown into a solver's generator when the time is up; the solver may catch it and yield one more step.

    It is thrown again after that step; a `Verdict` that the solver then returns completes the message (not in a chain).
    """


Steps = Generator[Step | None, Any, Termination | Verdict | None]


def at_hand(problem: TreeProblem, start: Tree | None) -> Iterator[Step]:
    """The trees that need no work: the start tree, where there is one, and the best constant."""
    if start is not None:
        yield Step(start, phase="start")
    yield Step(problem.best_constant(), phase="constant")


def at_last_call(
    work: Generator[Step | None, Any, Any],
    last: Callable[[], Step | None],
    ends: tuple[type[BaseException], ...] = (LastCall,),
) -> Generator[Step | None, Any, Any]:
    """Run ``work``; when it is stopped by one of the exceptions ``ends``, yield the step that ``last`` returns."""
    try:
        return (yield from work)
    except ends:
        if (step := last()) is not None:
            yield step
        raise


def changed_steps(inner: Generator[T | None, Any, R], change: Callable[[T], Step]) -> Generator[Step | None, Any, R]:
    """What ``inner`` yields, including at its last call, each transformed by ``change``; None stays None."""
    step: T | None = None
    while True:
        try:
            step = next(inner)
        except StopIteration as stop:
            return stop.value
        try:
            yield None if step is None else change(step)
        except LastCall as call:
            with suppress(StopIteration):  # the solver ends without another step
                step = inner.throw(call)
                yield None if step is None else change(step)
            raise


def last_step(work: Steps, kept: Step) -> Steps:
    """The last step of ``work`` alone, or the last so far at its last call, ``kept`` if it has none; None in
    between.
    """
    while True:
        try:
            kept = next(work) or kept
        except StopIteration as stop:
            yield kept
            return stop.value
        try:
            yield None
        except LastCall:
            yield kept
            raise


class Solver(Checked):
    """Base class of solvers: frozen dataclasses of options, without state or data.

    See Also
    --------
    Step : what a solver yields
    check_solver : what a solver must do
    solve : runs it

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import TAO, Solver, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2)
    >>> isinstance(TAO(), Solver), TAO().refusal(problem) is None
    (True, True)
    """

    takes_gates = False  # whether it can start from soft trees; otherwise from their hard versions
    makes_forests = False  # whether its models may be forests, from which no solver starts
    takes_sparse = False  # whether it takes sparse tables as they are
    wants_zero = False  # whether it gets features that are far from zero about zero, see `solvers.core.origin`
    needs: ClassVar[tuple[str, ...]] = ("code",)  # what it needs of a loss, see `opttree.losses.Loss`
    respects: ClassVar[tuple[type[Constraint], ...]] = ()  # the side constraints that its trees satisfy

    def brief(self) -> str:
        """The solver's name and the options that differ from their defaults."""
        if not is_dataclass(self):
            return repr(self)
        options = []
        for f in fields(self):
            value = getattr(self, f.name)
            # by its type: where a class of a script goes to another process, the value is another one there
            default = f.default if isinstance(f.default_factory, type(MISSING)) else f.default_factory()
            if f.repr and not (type(value) is type(default) and value == default):
                options.append(f"{f.name}={value.brief() if isinstance(value, Solver) else repr(value)}")
        return f"{type(self).__name__}({', '.join(options)})"

    def refusal(self, problem: TreeProblem) -> str | None:
        """Reason why this solver cannot solve a problem, its side constraints and its loss included.

        Parameters
        ----------
        problem : TreeProblem
            The problem.

        Returns
        -------
        str or None
            One sentence, or None if the solver can solve the problem.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> problem = opttree.TreeProblem.standardized(X, y, depth=2, splits="axis")
        >>> from solvers import GET, solve
        >>> GET().refusal(problem)
        'its splits are axis-aligned, and the gates are hyperplanes'
        """
        for constraint in problem.constraints:
            if not isinstance(constraint, self.respects):
                return f"its trees may violate {shown(constraint)}; solvers.MIP states side constraints"
        if (reason := problem.loss_function.refusal(*self.needs)) is not None:
            return reason
        if problem.is_sparse and not self.takes_sparse:
            n, p = problem.X.shape
            return (
                f"its X is sparse, and this solver needs it dense: {n:,} x {p:,} numbers take {8e-9 * n * p:.3g} GB; "
                "give it X.toarray(), or take TAO"
            )
        return self._refusal(problem)

    def covers(self, problem: TreeProblem) -> bool:
        """Whether OPTIMAL is a proof over all trees of a problem, not over some that the options admit.

        Parameters
        ----------
        problem : TreeProblem
            The problem.

        Returns
        -------
        bool
            True if no tree of the problem is left out.
        """
        return False

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Reason why the algorithm cannot solve ``problem``, or None; `refusal` asks it. Subclasses override it."""
        return None

    def supports(self, problem: TreeProblem) -> str | None:
        """Deprecated name of `refusal`.

        Parameters
        ----------
        problem : TreeProblem
            The problem.

        Returns
        -------
        str or None
            What `refusal` returns.
        """
        warnings.warn("Solver.supports is deprecated; it is called refusal", DeprecationWarning, stacklevel=2)
        return None if type(self)._refusal is type(self).supports else self.refusal(problem)

    def __init_subclass__(cls, **others: Any) -> None:
        super().__init_subclass__(**others)
        if "supports" in vars(cls):
            message = f"{cls.__name__} defines supports, which is deprecated; it is called _refusal"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            cls._refusal = cls.supports  # type: ignore[method-assign]

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """Run the algorithm.

        Parameters
        ----------
        problem : TreeProblem
            The problem.
        start : Tree or None
            Tree to start from, if any.
        rng : numpy.random.Generator
            Random numbers.

        Yields
        ------
        Step or None
            A `Step` per iterate, and None in between wherever the run can be stopped. The return value of the generator
            says why it ended: a `Termination`, or a `Verdict` with an additional message; None means
            `Termination.ITERATION_LIMIT`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define steps")


def start_for(solver: Solver, tree: Model | None) -> Tree | None:
    """``tree`` as a start for ``solver``; ValueError for a forest, which an earlier solver of a chain may return."""
    if isinstance(tree, Forest) and len(tree.trees) == 1:
        tree = tree.trees[0]
    if tree is not None and not isinstance(tree, Tree):
        raise ValueError(f"start must be a Tree; got a {type(tree).__name__}")
    return tree if tree is None or solver.takes_gates else replace(tree, gate=None, mixture=False)
