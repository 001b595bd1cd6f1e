"""Side constraints in the complete tree of "flow" and "big-m"."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyomo.core as pyo

from opttree.problems.mip.complete import Complete
from opttree.problems.mip.losses import Leaves
from opttree.statement.constraints import (
    Constraint,
    DifferentLeaf,
    FeatureCost,
    ForbidSplit,
    MaxDifference,
    MaxFeatures,
    MaxSplits,
    Monotone,
    RequireSplit,
    SameLeaf,
)
from opttree.statement.problem import TreeProblem

Expression = Any


@dataclass(frozen=True)
class Side:
    """The side constraints of ``problem`` on a model of the complete ``tree``.

    ``splits(t)``: 1 if branch t splits; ``on(t, j)``: 1 if it may split on feature j, or at least the size of its
    weight there; ``at(i, l)``: 1 if row i is at leaf l; ``count(l)``: the number of rows there.
    """

    problem: TreeProblem
    tree: Complete
    features: Iterable[int]
    splits: Callable[[int], Expression]
    on: Callable[[int, int], Expression]
    at: Callable[[int, int], Expression]
    count: Callable[[int], Expression]

    def add(self, model: Any, leaves: Leaves) -> None:
        """Add the constraints to ``model``, which has its leaves."""
        if not self.problem.constraints:
            return
        model.side = pyo.ConstraintList()
        if not self.tree.n_branches:
            self._without_splits(model)
            return
        if any(isinstance(c, (ForbidSplit, RequireSplit)) for c in self.problem.constraints):
            self._live(model)
        if any(isinstance(c, (MaxFeatures, FeatureCost)) for c in self.problem.constraints):
            self._use_features(model)
        for constraint in self.problem.constraints:
            self._add(model, constraint, leaves)

    def _without_splits(self, model: Any) -> None:
        """One leaf satisfies all but these."""
        for c in self.problem.constraints:
            if isinstance(c, (RequireSplit, DifferentLeaf)):
                self._exclude_all(model)

    @staticmethod
    def _exclude_all(model: Any) -> None:
        """Make the model infeasible."""
        model.nothing = pyo.Var(bounds=(0.0, 0.0))
        model.side.add(model.nothing >= 1)

    def _add(self, model: Any, c: Constraint, leaves: Leaves) -> None:
        tree, side = self.tree, model.side
        slots, branches = range(tree.n_leaves), range(tree.n_branches)
        if isinstance(c, MaxSplits):
            side.add(pyo.quicksum(self.splits(t) for t in branches) <= c.k)
        elif isinstance(c, MaxFeatures):
            side.add(pyo.quicksum(model.uses.values()) <= c.k)
        elif isinstance(c, FeatureCost):
            costs = c.of(self.problem)
            side.add(pyo.quicksum(float(costs[j]) * v for j, v in model.uses.items()) <= c.budget)
        elif isinstance(c, ForbidSplit):
            if c.feature in self.features:
                for t in branches:
                    if c.at(tree.level(t)):
                        side.add(self.on(t, c.feature) <= 0)
        elif isinstance(c, RequireSplit):
            there = [t for t in branches if c.at(tree.level(t))] if c.feature in self.features else []
            if there:
                side.add(pyo.quicksum(self.on(t, c.feature) for t in there) >= 1)
            else:
                self._exclude_all(model)
        elif isinstance(c, (SameLeaf, DifferentLeaf)):
            for leaf in slots:
                first, second = self.at(c.i, leaf), self.at(c.j, leaf)
                same = isinstance(c, SameLeaf)
                if first is not second or not same:
                    side.add(first == second if same else first + second <= 1)
        elif isinstance(c, Monotone):
            for t in branches if c.feature in self.features else ():
                left, right = tree.below(2 * t + 1), tree.below(2 * t + 2)
                low, high = (left, right) if c.sign == 1 else (right, left)
                for a in low:
                    for b in high:
                        leaves.add_order(model, side, a, b, self.on(t, c.feature))
        elif isinstance(c, MaxDifference):
            leaves.add_parity(model, side, c.shares(self.problem), c.tolerance)
        else:
            raise TypeError(f"{c!r} is not stated")

    def _live(self, model: Any) -> None:
        """A branch that splits has rows on both sides, so that its level is that of the tree without dead branches."""
        for t in range(self.tree.n_branches):
            for child in (2 * t + 1, 2 * t + 2):
                model.side.add(pyo.quicksum(self.count(leaf) for leaf in self.tree.below(child)) >= self.splits(t))

    def _use_features(self, model: Any) -> None:
        """``uses[j]`` is 1 if a split is on feature j."""
        model.uses = pyo.Var(list(self.features), domain=pyo.Binary)
        for t in range(self.tree.n_branches):
            for j in self.features:
                model.side.add(self.on(t, j) <= model.uses[j])

    @staticmethod
    def encode(model: Any, used: Iterable[int]) -> None:
        """Set ``uses`` to the features in ``used``."""
        if hasattr(model, "uses"):
            chosen = set(used)
            for j, v in model.uses.items():
                v.set_value(float(j in chosen))
