"""The example of `write_your_own_solver.ipynb`: random tilts of one hyperplane at a time."""

from dataclasses import dataclass, field, replace

import numpy as np

from opttree import Tree, TreeProblem
from solvers import CartInit, Solver, Step, Termination


@dataclass(frozen=True)
class Tilting(Solver):
    """Tilt or shift a random hyperplane, refit the leaves, and keep the tree if its objective is lower.

    Parameters
    ----------
    trials : trees to try.
    size : length of a tilt, relative to the hyperplane's weights.
    init : the initial tree where none is given.
    """

    trials: int = 2000
    size: float = 0.5
    init: CartInit = field(default_factory=CartInit)

    def __post_init__(self) -> None:
        if self.trials < 0:
            raise ValueError(f"trials must be >= 0; got {self.trials}")
        if not self.size > 0:
            raise ValueError(f"size must be > 0; got {self.size}")

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Oblique problems only."""
        return None if problem.splits == "oblique" else "it tilts hyperplanes; state the problem with splits='oblique'"

    def steps(self, problem: TreeProblem, start: Tree | None, rng: np.random.Generator):
        """A `Step` for every better tree, and None after each trial, so that the driver can stop in between."""
        best = problem.trim(problem.fit_leaves(start if start is not None else self.init.build(problem, rng)))
        objective = problem.objective(best)
        yield Step(best, objective, phase="start")
        for _ in range(self.trials):
            if best.n_branches == 0:
                return Termination.LOCALLY_OPTIMAL
            trial = problem.trim(problem.fit_leaves(self._neighbour(problem, best, rng)))
            value = problem.objective(trial)
            if value < objective:
                best, objective = trial, value
                yield Step(best, objective, phase="tilt")
            else:
                yield None
        return Termination.ITERATION_LIMIT

    def _neighbour(self, problem: TreeProblem, tree: Tree, rng: np.random.Generator) -> Tree:
        """The tree with one hyperplane tilted about a random row, or moved to it."""
        node, row = rng.integers(tree.n_branches), problem.X[rng.integers(len(problem.X))]
        A, b = tree.A.copy(), tree.b.copy()
        if rng.uniform() < 0.5:
            tilt = rng.normal(size=A.shape[1])
            A[node] += self.size * np.linalg.norm(A[node]) * tilt / np.linalg.norm(tilt)
        b[node] = A[node] @ row
        return replace(tree, A=A, b=b)
