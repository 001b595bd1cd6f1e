"""Side constraints in the complete tree of "flow" and "big-m"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyomo.core as pyo
from numpy.typing import NDArray

from opttree.problems.mip.complete import Complete
from opttree.problems.mip.losses import Leaves
from opttree.statement.constraints import (
    AnswerLimit,
    Constraint,
    DifferentLeaf,
    FeatureCost,
    ForbidSplit,
    MaxDifference,
    MaxFeatures,
    MaxShare,
    MaxSplits,
    MinPerGroup,
    Monotone,
    PathCost,
    RequireSplit,
    SameLeaf,
)
from opttree.statement.problem import TreeProblem

Expression = Any
Ints = NDArray[np.intp]


@dataclass(frozen=True)
class Side:
    """The side constraints of ``problem`` on a model of the complete ``tree``.

    ``splits(t)``: 1 if branch t splits; ``on(t, j)``: 1 if it may split on feature j, or at least the size of its
    weight there; ``at(i, l)``: 1 if row i is at leaf l; ``count(l)``: the number of rows there, None where levels do
    not matter.
    """

    problem: TreeProblem
    tree: Complete
    features: Iterable[int]
    splits: Callable[[int], Expression]
    on: Callable[[int, int], Expression]
    at: Callable[[int, int], Expression]
    count: Callable[[int], Expression] | None

    def add(self, model: Any, leaves: Leaves) -> None:
        """Add the constraints to ``model``, which has its leaves."""
        if not self.problem.constraints:
            return
        model.side = pyo.ConstraintList()
        if not self.tree.n_branches:
            self._without_splits(model, leaves)
            return
        if self.count is not None and any(isinstance(c, (ForbidSplit, RequireSplit)) for c in self.problem.constraints):
            self._live(model)
        kinds = {type(c) for c in self.problem.constraints}
        if kinds & {MaxFeatures, FeatureCost}:
            self._use_features(model)
        if PathCost in kinds:
            self._pay(model)
        if MinPerGroup in kinds:
            rows, slots = range(self.problem.n_samples), range(self.tree.n_leaves)
            self.tree.add_used(model, [(i, leaf) for i in rows for leaf in slots], self.at)
        for constraint in self.problem.constraints:
            self._add(model, constraint, leaves)

    def _without_splits(self, model: Any, leaves: Leaves) -> None:
        """One leaf satisfies all but these."""
        for c in self.problem.constraints:
            few = isinstance(c, MinPerGroup) and c.members(self.problem).sum(axis=1).min() < c.k
            if few or isinstance(c, (RequireSplit, DifferentLeaf)):
                self._exclude_all(model)
            elif isinstance(c, (MaxShare, AnswerLimit)):
                self._add(model, c, leaves)

    @staticmethod
    def _exclude_all(model: Any) -> None:
        """Make the model infeasible."""
        if not hasattr(model, "nothing"):
            model.nothing = pyo.Var(bounds=(0.0, 0.0))
        model.side.add(model.nothing >= 1)

    def _add(self, model: Any, c: Constraint, leaves: Leaves) -> None:
        tree, side = self.tree, model.side
        slots, branches = range(tree.n_leaves), range(tree.n_branches)
        if isinstance(c, MaxSplits):
            side.add(pyo.quicksum(self.splits(t) for t in branches) <= c.k)
        elif isinstance(c, MaxFeatures):
            side.add(pyo.quicksum(model.uses.values()) <= c.k)
        elif isinstance(c, PathCost):
            self._add_path_cost(model, c, self.problem.constraints.index(c))
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
        elif isinstance(c, (MaxShare, AnswerLimit)):
            for weights, most in zip(*c.terms(self.problem), strict=True):
                leaves.add_limits(model, side, weights, float(most))
        elif isinstance(c, MinPerGroup):
            for inside in c.members(self.problem):
                for leaf in slots:
                    there = pyo.quicksum(self.at(i, leaf) for i in np.flatnonzero(inside).tolist())
                    side.add(there >= c.k * model.used[leaf])
        else:
            raise TypeError(f"{c!r} is not stated")

    def _live(self, model: Any) -> None:
        """A branch that splits has rows on both sides, so that its level is that of the tree without dead branches."""
        assert self.count is not None
        for t in range(self.tree.n_branches):
            for child in (2 * t + 1, 2 * t + 2):
                model.side.add(pyo.quicksum(self.count(leaf) for leaf in self.tree.below(child)) >= self.splits(t))

    def _use_features(self, model: Any) -> None:
        """``uses[j]`` is 1 if a split is on feature j."""
        model.uses = pyo.Var(list(self.features), domain=pyo.Binary)
        for t in range(self.tree.n_branches):
            for j in self.features:
                model.side.add(self.on(t, j) <= model.uses[j])

    def _pay(self, model: Any) -> None:
        """``pays[l, j]`` is 1 if a split on the path of leaf l is on feature j."""
        model.pays = pyo.Var(range(self.tree.n_leaves), list(self.features), bounds=(0.0, 1.0))
        for leaf, j in model.pays:
            for t, _left in self.tree.turns(leaf):
                model.side.add(self.on(t, j) <= model.pays[leaf, j])

    def _add_path_cost(self, model: Any, c: PathCost, number: int) -> None:
        costs, slots = c.of(self.problem).tolist(), range(self.tree.n_leaves)
        spent = {leaf: pyo.quicksum(costs[j] * model.pays[leaf, j] for j in self.features) for leaf in slots}
        if not c.mean:
            for leaf in slots:
                model.side.add(spent[leaf] <= c.budget)
            return
        most = {leaf: sum(sorted(costs)[-len(self.tree.turns(leaf)) :]) for leaf in slots}
        paid: dict[tuple[int, int], Expression] = {}  # rows that no candidate separates share their variables
        total: Expression = 0.0
        spends = pyo.Var(range(self.problem.n_samples), slots, domain=pyo.NonNegativeReals)
        model.add_component(f"spent_{number}", spends)
        for i, w in enumerate(self.problem.w.tolist()):
            for leaf in slots:
                at = self.at(i, leaf)
                if (id(at), leaf) not in paid:
                    paid[id(at), leaf] = spends[i, leaf]
                    model.side.add(spends[i, leaf] >= spent[leaf] - most[leaf] * (1 - at))
                total += w * paid[id(at), leaf]
        model.side.add(total <= c.budget)

    @staticmethod
    def encode(model: Any, problem: TreeProblem, tree: Complete, features: Mapping[int, list[int]], leaf: Ints) -> None:
        """Set the variables to branches that split on these ``features``, and rows at the leaves ``leaf (n,)``."""
        if hasattr(model, "uses"):
            chosen = {j for some in features.values() for j in some}
            for j, v in model.uses.items():
                v.set_value(float(j in chosen))
        if not hasattr(model, "pays"):
            return
        above = {
            slot: {j for t, _left in tree.turns(slot) for j in features.get(t, [])} for slot in range(tree.n_leaves)
        }
        for (slot, j), v in model.pays.items():
            v.set_value(float(j in above[slot]))
        for number, c in enumerate(problem.constraints):
            if isinstance(c, PathCost) and c.mean:
                costs = c.of(problem)
                for (i, slot), v in model.component(f"spent_{number}").items():
                    v.set_value(float(sum(costs[j] for j in above[slot])) if leaf[i] == slot else 0.0)
