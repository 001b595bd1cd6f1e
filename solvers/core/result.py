"""The result of a solve: the tree, why the solver stopped, and the trace of its progress."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from opttree.model.convert import Model
from opttree.model.html import columns, picture, table
from opttree.model.late import late

if TYPE_CHECKING:
    import pandas as pd


class Termination(Enum):
    """Why a solver stopped; the value is the sentence a user reads.

    See Also
    --------
    Result : holds it

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import BranchAndBound, Termination, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2, splits="axis")
    >>> solve(problem, BranchAndBound()).termination is Termination.OPTIMAL
    True
    >>> [kind.name for kind in Termination][:3]
    ['OPTIMAL', 'LOCALLY_OPTIMAL', 'ITERATION_LIMIT']
    """

    OPTIMAL = "Proved optimal."
    LOCALLY_OPTIMAL = "No further descent was found; nothing is proved."
    ITERATION_LIMIT = "The iteration limit was reached."
    TIME_LIMIT = "The time limit was reached."
    STALLED = "The objective changed too little to go on."
    INFEASIBLE = "No tree satisfies the constraints."
    INTERRUPTED = "Interrupted; the best tree so far is returned."
    TOO_LARGE = "The problem is too large for the solver; the best tree so far is returned."
    NUMERICAL_ERROR = "A number ceased to be finite; the best tree so far is returned."


def relative_gap(objective: float, bound: float | None) -> float | None:
    """``(objective - bound) / max(|objective|, 1e-12)``, not below 0; None without a bound or a finite objective."""
    if bound is None or not math.isfinite(objective):
        return None
    return max(objective - bound, 0.0) / max(abs(objective), 1e-12)


class SolverError(RuntimeError):
    """A solver violated its contract: no tree without a proof that there is none, an infeasible tree, or a wrong
    objective.

    Parameters
    ----------
    message : str
        What is wrong.
    result : Result or None, default None
        The run with the true objective, infinite where the tree is infeasible; None where the solver yielded no tree.

    See Also
    --------
    Result : for what ends well
    Solver : its ``refusal`` says beforehand

    Examples
    --------
    >>> from opttree import TreeProblem
    >>> from solvers import Solver, SolverError, Termination, solve
    >>> class Idle(Solver):
    ...     def _refusal(self, problem):
    ...         return None
    ...     def steps(self, problem, start, rng):
    ...         yield None
    ...         return Termination.STALLED
    >>> try:
    ...     solve(TreeProblem([[0.0], [1.0]], [0.0, 1.0], depth=1), Idle())
    ... except SolverError as error:
    ...     print(type(error).__name__)
    SolverError
    """

    def __init__(self, message: str, result: Result | None = None) -> None:
        super().__init__(message)
        self.result = result


class Verdict(NamedTuple):
    """Why a solver stopped, and an addition to the sentence."""

    termination: Termination
    detail: str


class TraceRow(NamedTuple):
    """One row of a trace: seconds since the start, and the state of the solver then."""

    seconds: float
    step: int
    phase: str
    objective: float
    best: float
    bound: float | None
    info: Mapping[str, float] = {}


@dataclass
class Trace:
    """Objective and bound against time, one row per step.

    Attributes
    ----------
    rows : list of TraceRow
        One row per step.

    See Also
    --------
    Result : holds it
    opttree.plotting.plot_trace : draws it

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import TAO, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2)
    >>> trace = solve(problem, TAO(), random_state=0).trace
    >>> list(trace.to_frame().columns)
    ['seconds', 'step', 'phase', 'objective', 'best', 'bound']
    """

    rows: list[TraceRow] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[TraceRow]:
        return iter(self.rows)

    def _repr_html_(self) -> str:
        """The picture of the trace, for notebooks."""
        return picture(late("plot_rows"), {"": self}) if self.rows else ""

    def to_frame(self) -> pd.DataFrame:
        """The trace as a DataFrame with columns seconds, step, phase, objective, best, bound.

        Additional numbers of the solver's steps (see `Step.info`) are additional columns.

        Examples
        --------
        >>> import opttree
        >>> X, y = opttree.datasets.load("diabetes", as_arrays=True)
        >>> problem = opttree.TreeProblem.standardized(X, y, depth=2, splits="axis")
        >>> from solvers import TAO, solve
        >>> frame = solve(problem, TAO(), random_state=0).trace.to_frame()
        >>> bool((frame["best"].diff().dropna() <= 0).all())
        True
        """
        import pandas as pd

        frame = pd.DataFrame([row[:-1] for row in self.rows], columns=TraceRow._fields[:-1])
        return frame.join(pd.DataFrame([row.info for row in self.rows], index=frame.index))


@dataclass(frozen=True)
class Result:
    """Outcome of `solve`.

    Attributes
    ----------
    tree : Tree or Forest
        The best model found, a `Tree` or a `opttree.Forest`; None where INFEASIBLE: there is none, or none among the
        solver's candidates (then ``bound`` is None).
    objective : float
        Its ``problem.objective``, infinite without a tree.
    bound : float or None
        Proved lower bound on the objective, or None; infinite where no tree satisfies the constraints.
    termination, message : Termination, str
        Why the solver stopped, as a code and as a sentence.
    n_steps : int
        Iterates the solver yielded.
    n_evaluations : int
        Passes over the data, as reported by the solver.
    seconds : float
        Wall-clock time, without that of objectives, callbacks, and the compilation and loading of kernels.
    trace : Trace
        Objective, best and bound against time.
    solver : str
        The solver's repr, options included.
    compile_seconds : float
        Wall-clock time in which kernels were compiled or loaded during the run.

    See Also
    --------
    solve : returns it
    Termination : why it ended
    Trace : how it went

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import TAO, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2)
    >>> result = solve(problem, TAO(), random_state=0)
    >>> result.bound is None, result.gap is None, result.n_steps > 0
    (True, True, True)
    """

    tree: Model  # but for INFEASIBLE
    objective: float
    bound: float | None
    termination: Termination
    message: str
    n_steps: int
    n_evaluations: int
    seconds: float
    trace: Trace
    solver: str
    compile_seconds: float = 0.0

    @property
    def gap(self) -> float | None:
        """``(objective - bound) / max(|objective|, 1e-12)``, or None without a proved bound."""
        return relative_gap(self.objective, self.bound)

    def __str__(self) -> str:
        if self.tree is None:
            return f"no tree after {self.seconds:.3g} s. {self.message}"
        gap = "" if self.gap is None else f", bound {self.bound:.6g}, gap {100 * self.gap:.3g} %"
        return f"objective {self.objective:.6g}{gap} after {self.n_steps} steps, {self.seconds:.3g} s. {self.message}"

    def __rich__(self) -> Any:
        """A table for `rich.print`."""
        from rich.table import Table

        table = Table(title=self.solver.split("(")[0], show_header=False)
        for name, value in self.summary().items():
            table.add_row(name, f"{value:.6g}" if isinstance(value, float) else str(value))
        table.add_row("message", self.message)
        return table

    def _repr_html_(self) -> str:
        """The summary, the tree and the trace, for notebooks."""
        parts = [table({**self.summary(), "message": self.message}), self.trace._repr_html_()]
        drawn = getattr(self.tree, "_repr_html_", None)
        return columns(parts) + (drawn() if drawn is not None else "")

    def summary(self) -> dict[str, Any]:
        """Scalars of the result, for a table row."""
        return {
            "solver": self.solver,
            "objective": self.objective,
            "bound": self.bound,
            "gap": self.gap,
            "termination": self.termination.name,
            "steps": self.n_steps,
            "seconds": self.seconds,
            "parameters": None if self.tree is None else self.tree.n_parameters,
        }
