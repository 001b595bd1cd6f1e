"""The default node solver: our proximal Newton method in covariance mode, all nodes of a level in parallel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels.passes.reduced import fit_nodes
from opttree.kernels.records import Net
from opttree.kernels.routing import is_sparse
from opttree.problems import LevelProblem, NodeProblem
from opttree.runtime.calm import calm_threads
from opttree.runtime.clock import now, seconds_left
from opttree.runtime.interrupts import interrupted
from opttree.runtime.options import option
from opttree.runtime.threads import each
from opttree.wide.logistic import fit_at_any_width, fit_logistic as fit_wide
from opttree.wide.rows import WIDE, part_of
from solvers.nodes.base import NodeSolver

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NewtonNode(NodeSolver):
    """Weighted logistic regression by `opttree.kernels.algebra.logistic.fit_logistic`, warm-started at the current
    split.

    See Also
    --------
    TAO : takes it as ``node_solver``

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import TAO, NewtonNode, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=1)
    >>> result = solve(problem, TAO(node_solver=NewtonNode()), random_state=0)
    >>> result.objective < 0.62          # of the variance
    True
    """

    tol: float = option(1e-2, "Stopping tolerance of liblinear's rule; 1e-2 is enough inside a tree.", above=0)
    max_iter: int = option(
        100, "Most Newton steps. Inside a tree 2 suffice: the next pass goes on from the hyperplane.", least=1
    )

    def solve(self, problem: NodeProblem, a: Floats, b: float, rng: Rng) -> tuple[Floats, float]:
        """One node."""
        a = a.copy()
        b, _steps = fit_at_any_width(
            problem.X, problem.rows, problem.u, np.empty(0), a, b, problem.l1, problem.l2, self.tol, self.max_iter
        )
        return a, b

    def looks_at_the_clock(self, level: LevelProblem) -> bool:
        """Where features are many, or the table is sparse."""
        return level.X.shape[1] > WIDE or is_sparse(level.X)

    def _one_by_one(self, level: LevelProblem, A: Floats, b: Floats) -> None:
        """The nodes of a level of many features, in parallel, until time is up or Ctrl-C was pressed."""
        end = now() + seconds_left()

        def late() -> bool:
            return now() > end or interrupted()

        def fit(s: int) -> None:
            problem = level[s]
            if problem.rows.size and not late():
                part = part_of(problem.X, problem.rows)
                settings = problem.l1, problem.l2, self.tol, self.max_iter
                b[s], _steps = fit_wide(part, problem.u, None, A[s], b[s], *settings, late)

        with calm_threads():
            each(fit, range(len(level)))

    def directions(self, level: LevelProblem, A: Floats, b: Floats, rng: Rng) -> tuple[Floats, Floats]:
        """All nodes of a level at once, compiled."""
        A, b = A.copy(), b.copy()
        if self.looks_at_the_clock(level):
            self._one_by_one(level, A, b)
            return A, b
        fit_nodes(level.rows, A, b, Net(level.l1, level.l2), self.tol, self.max_iter)
        return A, b
