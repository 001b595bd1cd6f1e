"""What solvers over a list of candidate splits have in common."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from opttree.problems import MIPTreeProblem
from opttree.statement import TreeProblem
from opttree.statement.constraints import LeafConstraint
from solvers.core.base import Solver


class OverCandidates(Solver):
    """A solver whose trees have the candidate splits of a formulation: "flow", or "hyperflow" without the limits on
    answers, which the solver states itself. Its option ``n_thresholds`` is as `MIPTreeProblem` takes it.
    """

    states: ClassVar[Literal["flow", "hyperflow"]]
    n_thresholds: Any

    def stated(self, problem: TreeProblem) -> MIPTreeProblem:
        """The program whose candidate splits the trees have.

        Parameters
        ----------
        problem : TreeProblem
            The problem.

        Returns
        -------
        MIPTreeProblem
            The program.

        Raises
        ------
        ValueError
            Where there is none.
        """
        if self.states == "hyperflow":
            others = tuple(c for c in problem.constraints if not isinstance(c, LeafConstraint))
            problem = problem.restated(constraints=others)
        return MIPTreeProblem(problem, self.states, n_thresholds=self.n_thresholds)

    def not_stated(self, problem: TreeProblem) -> str | None:
        """Why there is no such program, in one sentence, or None.

        Parameters
        ----------
        problem : TreeProblem
            The problem.

        Returns
        -------
        str or None
            The sentence.
        """
        try:
            self.stated(problem)
        except ValueError as error:
            return str(error)
        return None

    def covers(self, problem: TreeProblem) -> bool:
        """Whether the candidates are all splits, and leaves are as the statement has them: linear ones are clipped."""
        return self.n_thresholds == "all" and problem.leaves == "constant" and self.stated(problem).lists_candidates
