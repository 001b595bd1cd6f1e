"""The search under side constraints that bind the splits of a tree together: features by number or cost, splits that
must be there.

Trees are divided into parts, each by the features that the nodes of a tree may split on. The best tree of a part that
ignores the constraints gives its bound; where this tree violates one, the part is divided into parts without it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.problems import ExactTreeProblem
from opttree.statement import TreeProblem
from opttree.statement.constraints import FeatureCost, ForbidSplit, MaxFeatures, MaxSplits, RequireSplit
from opttree.statement.constraints.base import EXACT
from solvers.core.base import Step
from solvers.exact.search import Search

Splits = NDArray[np.int64]
STATED = (MaxSplits, MaxFeatures, FeatureCost, ForbidSplit, RequireSplit)


def is_free(problem: TreeProblem) -> bool:
    """Whether one search keeps to all side constraints."""
    return all(
        isinstance(c, MaxSplits) or (isinstance(c, ForbidSplit) and c.where is None) for c in problem.constraints
    )


def free(problem: TreeProblem) -> TreeProblem:
    """The problem with the side constraints of which one search keeps to."""
    return problem.restated(constraints=tuple(c for c in problem.constraints if isinstance(c, MaxSplits)))


@dataclass(frozen=True)
class Part:
    """Trees whose nodes split on the features ``allowed (2^depth - 1, p)``.

    kept : features that count as used.
    required : nodes, in heap order, that must split, on the one feature that they may.
    """

    allowed: NDArray[np.bool_]
    kept: frozenset[int] = frozenset()
    required: tuple[int, ...] = ()


class Restricted:
    """A search with the face of a `Search`, part by part, the lowest bound first."""

    def __init__(
        self, problem: TreeProblem, max_splits: int | None, start: Tree | None, gap: float, memory: float, queue: float
    ) -> None:
        self.stated, self.options, self.gap = problem, (gap, memory, queue), gap
        self.exact = ExactTreeProblem(free(problem), max_splits)
        self.kernel, self.floor, self.full = self.exact.kernel, 0.0, False
        self.best, self.objective = start, np.inf if start is None else problem.objective(start)
        self.inner: Search | None = None
        self.open = np.inf  # the lowest bound of a part that is not divided further
        self.now = 0.0  # bound of the part that is searched
        self.parts: list[tuple[float, int, int, Part]] = []
        self.numbers, self.stops = count(), False
        allowed = np.ones((2**problem.depth - 1, problem.n_features), np.bool_)
        for constraint in problem.constraints:
            if isinstance(constraint, ForbidSplit):
                allowed[self._places(constraint), constraint.feature] = False
        self._push(Part(allowed), 0.0)
        if self.best is None:
            self._guess()

    # ---- news -----------------------------------------------------------------------------------------------------

    @property
    def cost(self) -> float:
        """Cost of the incumbent."""
        return self.exact.cost(self.objective)

    @property
    def bound(self) -> float:
        """Proved lower bound on the objective."""
        return max(self.own_bound, self.floor)

    @property
    def own_bound(self) -> float:
        """What the search itself has proved."""
        waiting = self.parts[0][0] if self.parts else np.inf
        now = self.now if self.inner is None else max(self.now, min(self.inner.bound, self.objective))
        return min(self.objective, self.open, waiting, now)

    def step(self) -> Step | None:
        """The incumbent, if there is one, and the bound."""
        return None if self.best is None else Step(self.best, None, self.bound, "branch and bound")

    def improved(self) -> list[Step]:
        """None: steps hold all incumbents."""
        return []

    def stop(self) -> None:
        """Stop the search soon, with valid results."""
        self.stops = True
        if self.inner is not None:
            self.inner.stop()
            self._look(self.inner)

    # ---- the search -----------------------------------------------------------------------------------------------

    def run(self) -> Iterator[None]:
        """Search; yields as `Search.run` does."""
        while self.parts and not self.stops and not self._is_enough(self.parts[0][0]):
            self.now, _order, _number, part = heapq.heappop(self.parts)
            splits_root = 0 in part.required
            exact = ExactTreeProblem(self.exact.problem, self.exact.max_splits, part.allowed, splits_root)
            search = self.inner = Search(exact, self.best, *self.options)
            for _ in search.run():
                self._look(search)
                yield
                if self.stops:
                    return
            self._look(search)
            self.full = self.full or search.full
            bound = max(self.now, search.bound)
            if search.full or self._is_enough(bound) or not self._divide(part, search, bound):
                self.open = min(self.open, bound)
            self.inner, self.now = None, np.inf

    def _is_enough(self, bound: float) -> bool:
        """Whether a part of this bound has no tree that matters."""
        return bound >= self.exact.objective((1.0 - self.gap) * self.cost - self.kernel.slack)

    def _look(self, search: Search) -> None:
        """Take the tree of a search as the incumbent, if it is one."""
        search.step()
        self._take(search.tree)

    def _take(self, tree: Tree) -> None:
        objective = self.stated.objective(tree)  # infinite where it violates a constraint
        if objective < self.objective and tree.n_branches <= self.exact.n_splits:
            self.best, self.objective = tree, objective

    def _guess(self) -> None:
        """A first incumbent: one leaf, or no more than the splits that must be there."""
        part = self.parts[0][-1]
        for constraint in self.stated.constraints:
            if isinstance(constraint, RequireSplit) and not self._is_required(part, constraint):
                part = next(self._with_split(part, constraint), part)
        splits = np.full((max(len(part.allowed), 3), 2), -1, np.int64)
        self._complete(part, splits)

    def _push(self, part: Part, bound: float) -> None:
        """Let a part wait, unless it is empty; features beyond what is left of a budget are forbidden in it."""
        part = replace(part, allowed=part.allowed.copy())
        kept = np.isin(np.arange(part.allowed.shape[1]), sorted(part.kept))
        for costs, budget in self._budgets():
            left = budget - costs[kept].sum() + EXACT * budget
            if left < 0.0:
                return
            part.allowed[:, ~kept & (costs > left)] = False
        if part.allowed[list(part.required)].any(axis=1).all():
            heapq.heappush(self.parts, (bound, -len(part.kept) - len(part.required), next(self.numbers), part))

    def _divide(self, part: Part, search: Search, bound: float) -> bool:
        """Let the parts wait of a part whose best tree violates a constraint: those of which this tree is none.

        Returns
        -------
        bool
            Whether nothing of the part is left but its parts.
        """
        tree = search.tree
        violated = [c for c in self.stated.constraints if c.violation(self.stated, tree) is not None]
        beyond = [c for c in violated if not isinstance(c, RequireSplit)]
        if beyond:
            kept = part.kept
            for feature in dict.fromkeys(tree.feature[: tree.n_branches].tolist()):
                if feature not in part.kept:
                    allowed = part.allowed.copy()
                    allowed[:, feature] = False
                    self._push(replace(part, allowed=allowed, kept=kept), bound)
                    kept = kept | {feature}
            return True
        self._complete(part, search.splits)
        if self.best is None:
            self._complete(part, np.full_like(search.splits, -1))
        if self._is_enough(bound):
            return False
        for missing in violated:
            if isinstance(missing, RequireSplit) and not self._is_required(part, missing):
                for smaller in self._with_split(part, missing):
                    self._push(smaller, bound)
                return True
        return False

    def _is_required(self, part: Part, constraint: RequireSplit) -> bool:
        """Whether a part is one of those of which a constraint holds, if all its required splits are there."""
        return any(
            place in part.required and part.allowed[place, constraint.feature] for place in self._places(constraint)
        )

    def _with_split(self, part: Part, constraint: RequireSplit) -> Iterator[Part]:
        """The parts of a part in which a node splits on a feature, the first of those that may."""
        allowed, feature = part.allowed.copy(), constraint.feature
        for place in self._places(constraint):
            if allowed[place, feature] and place not in part.required:
                own = allowed.copy()
                own[place] = False
                own[place, feature] = True
                yield replace(part, allowed=own, required=(*part.required, place))
                allowed[place, feature] = False

    def _places(self, constraint: ForbidSplit | RequireSplit) -> list[int]:
        """Nodes, in heap order, of the levels of a constraint."""
        return [place for place in range(2**self.stated.depth - 1) if constraint.at((place + 1).bit_length() - 1)]

    def _budgets(self) -> Iterator[tuple[NDArray[np.float64], float]]:
        """What features cost, and how much they may."""
        for constraint in self.stated.constraints:
            if isinstance(constraint, MaxFeatures):
                yield np.ones(self.stated.n_features), float(constraint.k)
            elif isinstance(constraint, FeatureCost):
                yield constraint.of(self.stated), constraint.budget

    def _complete(self, part: Part, splits: Splits) -> None:
        """Take the tree of some splits, with the required ones in place of leaves, as the incumbent, if it is one."""
        splits, rows = splits.copy(), np.arange(self.exact.ranks.shape[1])
        for place in sorted(part.required):
            path = [place]
            while path[0]:
                path.insert(0, (path[0] - 1) // 2)
            if not self._grow(part, path, rows, splits):
                return
        self._take(self.exact.tree(splits))

    def _grow(self, part: Part, path: list[int], rows: NDArray[np.intp], splits: Splits) -> bool:
        """Add what lacks of the splits on a ``path`` of nodes, whose first has these rows; whether they allow it.

        Features that must be used come first, and cuts that leave most rows to the next node.
        """
        at, below = path[0], path[1] if len(path) > 1 else -1
        given = (int(splits[at, 0]), int(splits[at, 1]))
        liked = {int(np.argmax(part.allowed[place])) for place in part.required} | part.kept
        features = sorted(np.flatnonzero(part.allowed[at]).tolist(), key=lambda j: j not in liked)
        for j in features if given[0] < 0 else given[:1]:
            own = self.exact.ranks[j, rows]
            values, counts = np.unique(own, return_counts=True)
            n_left = np.cumsum(counts)[:-1]
            possible = values[:-1][np.minimum(n_left, len(rows) - n_left) >= self.stated.min_leaf]
            cuts = [given[1]] if given[0] >= 0 else possible[:: -1 if below == 2 * at + 1 else 1].tolist()
            for rank in cuts:
                splits[at] = j, rank
                if below < 0 or self._grow(part, path[1:], rows[(own <= rank) == (below == 2 * at + 1)], splits):
                    return True
        splits[at] = given
        return False
