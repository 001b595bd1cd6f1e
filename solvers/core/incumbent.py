"""The best tree so far and a bound on all trees, as exact solvers keep them."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from typing import Any

import numpy as np

from opttree.model.tree import Tree
from opttree.runtime.clock import seconds_left
from opttree.statement import TreeProblem
from opttree.statement.joint_leaves import NoAnswersError
from solvers.core.base import LastCall, Step
from solvers.core.result import SolverError, Termination, Verdict

EPSILON = 4.0 * float(np.finfo(float).eps)
CLOSE = 1e-9  # relative, of a bound and an objective that are the same
NOTHING = 1e-12  # of one leaf's objective: what rounding leaves of a loss of 0
LOST = 1e-3  # of an objective: the most that tolerances may be in a proof
DISAGREE = 1e-5  # relative, of a bound that is wrong and not rounded
WHOLE = 1e-5  # errors of rows of equal weight are whole numbers, to this


def rounded(objective: float, leaf: float, noise: float) -> float:
    """What rounding may leave of a loss of 0, where one leaf has the objective ``leaf``: of an objective that is hardly
    more it is no part of a proof, but for the ``noise`` of rows, see `noise_of`.
    """
    left = NOTHING * leaf
    counts = left <= LOST * abs(objective) or abs(objective) <= LOST * left
    return max(left if counts else 0.0, noise)


def noise_of(problem: TreeProblem) -> float:
    """What rounding may leave of the costs of rows that a tree answers exactly, far from 0 as they may be."""
    if problem.is_classification:
        return 0.0
    size = 4.0 * EPSILON * float(np.abs(problem.Y).max())
    return float(problem.w.sum()) * size ** max(problem.loss_function.degree, 1.0)


class Incumbent:
    """A run's best tree and bound; ``gap`` is the relative gap that counts as proved."""

    def __init__(self, problem: TreeProblem, gap: float = 0.0) -> None:
        self.problem, self.gap = problem, max(gap, CLOSE)
        self.tree: Tree | None = None
        self.objective, self.bound = math.inf, 0.0
        free = problem.restated(constraints=())
        self.leaf, self.noise = free.objective(free.best_constant()), noise_of(problem)
        equal = problem.loss_function.form == "errors" and float(np.ptp(problem.w)) == 0.0
        self.whole = float(problem.w[0]) if equal and not problem.price_per_split else 0.0
        self.infeasible = False
        self.slack = 0.0  # what an optimizer's tolerances may add to a bound
        self.info: dict[str, float] = {}
        self.words = ""

    @property
    def open(self) -> bool:
        """Whether a gap is left."""
        if math.isinf(self.objective):
            return not self.infeasible
        within = self.gap * abs(self.objective) + rounded(self.objective, self.leaf, self.noise)
        if self.slack <= LOST * abs(self.objective):
            within += 2.0 * self.slack
        return self.objective - self.bound > within

    def step(self, phase: str) -> Step | None:
        """The incumbent and the bound; None while there is no tree."""
        if self.tree is None:
            return None
        if self.bound - self.objective > DISAGREE * (abs(self.objective) + self.leaf) + 2.0 * self.slack:
            values = f"{self.bound:.9g} is above {self.objective:.9g}, of a tree"
            raise SolverError(f"bound and objective disagree: {values}")
        return Step(self.tree, self.objective, min(self.bound, self.objective), phase, info=dict(self.info))

    def raise_bound(self, bound: float, lost: float = 0.0) -> None:
        """Take a proved bound, less what rounding may have added, if it is better."""
        if not math.isfinite(bound):
            return
        bound -= lost
        if self.whole:
            bound = self.whole * math.ceil(bound / self.whole - WHOLE)
        self.bound = max(self.bound, bound)

    def in_time(self, work: Generator[Step | None, Any, Any]) -> Generator[Step | None, Any, Any]:
        """Run ``work``; without a tree nobody else ends it at the time limit."""
        while True:
            try:
                step = next(work)
            except StopIteration as stop:
                return stop.value
            yield step
            if self.tree is None and seconds_left() <= 0.0:
                raise LastCall

    def fitted(self, tree: Tree | None) -> Tree | None:
        """A tree with the best leaves within the limits, or None."""
        try:
            return None if tree is None else self.problem.fit_leaves(tree)
        except NoAnswersError:
            return None

    def take(self, tree: Tree | None, phase: str) -> Iterator[Step | None]:
        """Take the splits of a tree with the best leaves within the limits, if that is better."""
        tree = self.fitted(tree)
        if tree is None or self.problem.violation(tree) is not None:
            return
        objective = self.problem.objective(tree)
        if objective < self.objective:
            self.tree, self.objective = tree, objective
            yield self.step(phase)

    def verdict(self) -> Verdict:
        """Why a run that came to its end ended."""
        if self.tree is None:
            return Verdict(Termination.INFEASIBLE if self.infeasible else Termination.STALLED, self.words)
        if self.open and self.objective - self.bound <= self.gap * abs(self.objective) + 3.0 * self.slack:
            self.words += " What is left of the gap is within the optimizer's tolerances."
        return Verdict(Termination.STALLED if self.open else Termination.OPTIMAL, self.words)
