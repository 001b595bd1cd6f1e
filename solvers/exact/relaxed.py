"""The statement without its side constraints: its bound holds with them, too, and its trees may satisfy them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

from numpy.random import Generator as Rng

from opttree.runtime.clock import now, seconds_left
from opttree.statement import TreeProblem
from solvers.core.base import Step
from solvers.exact.branch_and_bound import BranchAndBound

SHARE, MOST = 0.3, 60.0  # of the time, and seconds at most


def is_relaxable(problem: TreeProblem) -> bool:
    """Whether branch and bound takes the statement without its side constraints, but not with them."""
    search = BranchAndBound()
    return search.refusal(problem) is not None and search.refusal(problem.restated(constraints=())) is None


def share_of(seconds: float | None) -> float:
    """Seconds for the statement without its side constraints, of those that there are (None: no limit)."""
    return MOST if seconds is None else min(SHARE * seconds, MOST)


def relaxed_steps(problem: TreeProblem, rng: Rng, left: float) -> Generator[Step | None, None, None]:
    """Trees and bounds of `BranchAndBound` without the side constraints, in a part of the seconds that are ``left``."""
    until = now() + share_of(min(left, seconds_left()))
    with closing(BranchAndBound().steps(problem.restated(constraints=()), None, rng)) as steps:
        for step in steps:
            yield step
            if now() >= until:
                return
