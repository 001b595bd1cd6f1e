"""`SOCT`: oblique trees by shattering inequalities."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.problems.mip.cuts import Cut
from opttree.problems.mip.shatter import ShatterProgram
from opttree.runtime.interrupts import in_background
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from opttree.statement.constraints import picks
from solvers.core.base import Solver, Step, Steps
from solvers.core.origin import steps_of
from solvers.decomposition.benders import Loop
from solvers.mip.limits import unavailable
from solvers.tao import TAO

Floats = NDArray[np.float64]
MOST_CELLS = 20_000  # rows x leaves


@dataclass(frozen=True)
class SOCT(Solver):
    """Oblique classification trees without big-M constants: rows choose leaves, and where the rows left and right of a
    branch cannot be divided by a hyperplane, a few of them that show it give a cut (a shattering inequality).

    For 0/1 loss and costs of actions, constant leaves, tens of rows. It is here beside "big-m", which keeps a margin:
    here hulls that meet within the tolerance of a linear program, some 1e-7 of the features' ranges, count as meeting.
    `ObliqueBranchAndBound` is for two features, and faster there.

    ``step.info`` holds the numbers of "cuts", and of "rounds" with HiGHS.

    See Also
    --------
    MIP : ``MIP("big-m")``, hyperplanes with a margin
    ObliqueBranchAndBound : two features

    References
    ----------
    Boutilier, Michini and Zhou, "Optimal multivariate decision trees", Constraints 28 (2023).

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from solvers import SOCT, solve
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(14, 3))
    >>> y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
    >>> result = solve(TreeProblem(X, y, 1, "oblique", loss="zero_one"), SOCT(), random_state=0)
    >>> result.termination.name
    'OPTIMAL'
    """

    needs = ()  # said in `_refusal`

    optimizer: Literal["highs", "scip", "gurobi"] = option("highs", "As `Benders` takes it.")
    init: Solver | None = option(TAO(), "Solver for a start, or None.")
    threads: int | None = option(None, "Threads of the optimizer, >= 1; None: it decides.", least=1)
    seed: int | None = option(
        None, "Of the optimizer, >= 0; None: by the ``random_state`` of `solve`.", least=0, most=2**31 - 1
    )
    gap: float = option(1e-6, "Relative gap that counts as proved.", least=0, below=1)
    verbose: bool = option(False, "Whether to print the log of the optimizer.")

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes oblique splits, 0/1 loss and costs of actions."""
        if problem.splits != "oblique":
            return "its splits are axis-aligned, and shattering inequalities are for hyperplanes; use Benders"
        if not picks(problem) or problem.leaves != "constant":
            return (
                f"its loss is {problem.loss!r} of {problem.leaves} leaves; cuts are for 0/1 loss and costs of actions"
            )
        if problem.min_leaf > 1:
            return f"min_leaf is {problem.min_leaf}, and this program does not count the rows of leaves"
        if problem.n_samples * 2**problem.depth > MOST_CELLS:
            return f"its {problem.n_samples:,} rows and {2**problem.depth} leaves are too many for this program"
        for penalty in problem.penalties:
            if getattr(penalty, "splits", 0.0):
                return f"{penalty!r} is on the weights of hyperplanes, which this program does not have"
        return unavailable(self.optimizer)

    def covers(self, problem: TreeProblem) -> bool:
        """Not hyperplanes that divide rows by less than a linear program's tolerance."""
        return False

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """The start, then the trees of the optimizer, with its bounds."""
        seed = int(rng.integers(2**31 - 1)) if self.seed is None else self.seed
        return (yield from _Run(self, problem, seed).steps(start, rng))


class _Run(Loop):
    """A run: the program and its shattering inequalities."""

    program: ShatterProgram

    def begin(self, start: Tree | None, rng: Rng) -> Generator[Step | None, Any, None]:
        """Trees to begin with, and the program."""
        problem = self.problem
        yield from self.take(problem.best_constant(), "constant")
        if start is not None:
            yield from self.take(as_tree(start), "start")
        if isinstance(self.options.init, Solver) and problem.depth:
            for step in steps_of(self.options.init, problem, None, rng):
                if step is not None:
                    yield from self.take(as_tree(step.tree), "start")
                yield None
        self.program = yield from in_background(lambda: ShatterProgram(problem))
        self.unit = self.program.unit
        self.rows = yield from in_background(self.program.rows)

    def violated(self, point: Floats, fractional: bool) -> Iterator[Cut]:
        """Shattering inequalities, of whole points alone."""
        if not fractional:
            yield from self.program.shattered(point)

    def start(self, n_columns: int) -> Floats | None:
        """The incumbent as a point."""
        assert self.tree is not None
        return self.program.encode(self.tree)
