"""Starts side by side, whose trees are reported in an order that does not depend on how fast each of them is."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Protocol

from opttree.model.tree import Tree
from opttree.statement import TreeProblem
from solvers.core.base import Step, at_last_call
from solvers.descent import run_all
from solvers.descent.base import Run


class Start(Run, Protocol):
    """A run that notes hard trees, each after a number of parts (epochs, or runs with a scale) of the whole."""

    @property
    def n_finished(self) -> int:
        """Finished parts; no fewer than any other start has once this one has ended."""
        ...

    def taken(self) -> list[tuple[int, Tree]]:
        """Trees noted since the last call, and after which part each."""
        ...

    def unfinished(self) -> tuple[int, Tree] | None:
        """The best tree of the part that is not at its end, and that part's number; None: there is none."""
        ...


def reported(
    problem: TreeProblem, starts: Sequence[Start], step: Callable[[int, int, Tree], Step]
) -> Generator[Step | None, None, None]:
    """Run all ``starts``; yields ``step(start, part, tree)`` in the order of parts, then of starts (from 1)."""
    waiting: list[tuple[int, int, Tree]] = []

    def work() -> Generator[Step | None, None, None]:
        for _ in run_all(starts):
            for k, start in enumerate(starts, 1):
                waiting.extend((part, k, tree) for part, tree in start.taken())
            waiting.sort(key=lambda noted: noted[:2])
            behind = min(start.n_finished for start in starts)
            while waiting and waiting[0][0] <= behind:
                part, k, tree = waiting.pop(0)
                yield step(k, part, tree)
            yield None

    def last() -> Step | None:
        """The best tree, of those that wait and of unfinished parts."""
        for k, start in enumerate(starts, 1):
            if (noted := start.unfinished()) is not None:
                waiting.append((noted[0], k, noted[1]))
        steps = [step(k, part, tree) for part, k, tree in waiting]
        return min(steps, key=lambda one: problem.objective(one.tree), default=None)

    yield from at_last_call(work(), last)
