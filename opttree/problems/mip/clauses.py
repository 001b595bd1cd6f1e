"""The statement as clauses and rows of 0/1 variables, a model of CP-SAT."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.problems.mip.complete import Complete
from opttree.problems.mip.statement import MIPStatement
from opttree.statement.constraints import (
    Constraint,
    DifferentLeaf,
    FeatureCost,
    ForbidSplit,
    LeafConstraint,
    MaxFeatures,
    MaxSplits,
    MinPerGroup,
    Monotone,
    PathCost,
    RequireSplit,
    SameLeaf,
)
from opttree.statement.constraints.base import EXACT

Floats = NDArray[np.float64]
MOST_DENOMINATOR, MOST_SCALE, LARGEST = 1_000_000, 10**9, 2**60  # of coefficients as whole numbers
ROUGH = 10**9  # units of a coefficient that is no fraction of whole numbers
NAMES_FEATURES = (ForbidSplit, RequireSplit, MaxFeatures, FeatureCost, PathCost, Monotone)
LIVE = (ForbidSplit, RequireSplit)  # speak of levels and of splits that must have rows on both sides


class Clauses:
    """The model: choices ``b[t][c]`` of each branch with "none" last, sides of patterns, answers of leaves."""

    def __init__(self, stated: MIPStatement) -> None:
        from ortools.sat.python import cp_model

        self.cp, self.problem, problem = cp_model.CpModel(), stated.problem, stated.problem
        self.sum = cp_model.LinearExpr.weighted_sum
        candidates = stated.candidates
        if not any(isinstance(c, NAMES_FEATURES) for c in problem.constraints):
            candidates = candidates.distinct()
        self.candidates = candidates
        self.tree = Complete(problem.depth if len(candidates) else 0)
        patterns, _first, group = np.unique(candidates.left.T, axis=0, return_index=True, return_inverse=True)
        if not len(candidates):
            patterns, group = np.ones((1, 0), bool), np.zeros(problem.n_samples, np.int64)
        self.right, self.group = ~patterns, group.reshape(-1)
        self.size = np.bincount(self.group)
        self.feature = candidates.feature[candidates.family]
        lost = problem.Y if problem.loss_function.chooses else 1.0 - (np.arange(problem.n_outputs) == problem.Y)
        self.costs = self.by_pattern(problem.w[:, None] * lost)
        self._members: dict[int, list[Any]] = {}
        self._given: list[list[Any]] = []
        self._used: list[Any] = []
        self._splits()
        self._answers()
        for c in problem.constraints:
            self._add(c)
        if problem.min_leaf > 1:
            self._at_least(self.size, problem.min_leaf)
        if any(isinstance(c, LIVE) for c in problem.constraints):
            self._live()
        self._objective()

    def by_pattern(self, table: Floats) -> Floats:
        """Rows' numbers added up."""
        found = np.zeros((len(self.size), *table.shape[1:]))
        np.add.at(found, self.group, table)
        return found

    def _splits(self) -> None:
        cp, B, C = self.cp, self.tree.n_branches, len(self.candidates)
        self.b = [[cp.new_bool_var("") for _ in range(C + 1)] for _ in range(B)]
        self.side: list[list[Any]] = []
        for t in range(B):
            cp.add_exactly_one(self.b[t])
            if t:
                cp.add_implication(self.b[(t - 1) // 2][C], self.b[t][C])
            sides = []
            for goes_right in self.right:
                literal = cp.new_bool_var("")
                choices = [self.b[t][c] for c in np.flatnonzero(goes_right)]
                cp.add_bool_or([*choices, ~literal])
                for choice in choices:
                    cp.add_implication(choice, literal)
                sides.append(literal)
            self.side.append(sides)

    def path(self, slot: int, g: int) -> list[Any]:
        """Literals that are true if a pattern is at a leaf."""
        return [~self.side[t][g] if left else self.side[t][g] for t, left in self.tree.turns(slot)]

    def _answers(self) -> None:
        """``right[g][k]`` may be true only if the pattern's leaf answers k."""
        cp, K = self.cp, self.problem.n_outputs
        self.answer = [[cp.new_bool_var("") for _ in range(K)] for _ in range(self.tree.n_leaves)]
        for answers in self.answer:
            cp.add_exactly_one(answers)
        saved = self.costs.max(axis=1, keepdims=True) - self.costs
        self.gains = []
        for g, row in enumerate(saved):
            for k in np.flatnonzero(row > 0.0):
                literal = cp.new_bool_var("")
                self.gains.append((float(row[k]), literal))
                for slot in range(self.tree.n_leaves):
                    wrong = [~turn for turn in self.path(slot, g)]
                    cp.add_bool_or([~literal, *wrong, self.answer[slot][k]])

    def _objective(self) -> None:
        price = self.problem.price_per_split
        splits = [~choices[-1] for choices in self.b] if price else []
        values = np.array([-gain for gain, _literal in self.gains] + [price] * len(splits))
        terms = [literal for _gain, literal in self.gains] + splits
        whole, _sides, self.scale = as_whole(values, 0.0, 0.0)
        self.lost = float(np.abs(np.array(whole) / self.scale - values).sum()) if len(values) else 0.0
        self.offset = float(self.costs.max(axis=1).sum())
        self.cp.minimize(self.sum(terms, whole))

    # ---- side constraints -----------------------------------------------------------------------------------------

    def members(self, node: int) -> list[Any]:
        """A literal for each pattern: whether it is at a node."""
        if node not in self._members:
            cp = self.cp
            if node == 0:
                always = cp.new_bool_var("")
                cp.add(always == 1)
                self._members[0] = [always] * len(self.size)
                return self._members[0]
            parent = (node - 1) // 2
            above, found = self.members(parent), []
            for g in range(len(self.size)):
                turn = ~self.side[parent][g] if node % 2 else self.side[parent][g]
                literal = cp.new_bool_var("")
                cp.add_bool_or([~above[g], ~turn, literal])
                cp.add_implication(literal, above[g])
                cp.add_implication(literal, turn)
                found.append(literal)
            self._members[node] = found
        return self._members[node]

    def at(self, slot: int) -> list[Any]:
        """A literal for each pattern: whether it is at a leaf."""
        return self.members(self.tree.n_branches + slot)

    def given(self) -> list[list[Any]]:
        """Literals for each pattern and answer."""
        if not self._given:
            for g in range(len(self.size)):
                literals = [self.cp.new_bool_var("") for _ in range(self.problem.n_outputs)]
                self.cp.add_exactly_one(literals)
                for slot in range(self.tree.n_leaves):
                    wrong = [~turn for turn in self.path(slot, g)]
                    for k, literal in enumerate(literals):
                        self.cp.add_bool_or([*wrong, ~self.answer[slot][k], literal])
                self._given.append(literals)
        return self._given

    def used(self) -> list[Any]:
        """A literal for each leaf: whether it holds rows."""
        if not self._used:
            for slot in range(self.tree.n_leaves):
                literal = self.cp.new_bool_var("")
                for member in self.at(slot):
                    self.cp.add_implication(member, literal)
                self._used.append(literal)
        return self._used

    def _at_least(self, counts: NDArray[np.int64], k: int) -> None:
        """Leaves with rows have ``k`` of those that ``counts (G,)`` counts."""
        for slot, literal in enumerate(self.used()):
            self.cp.add(self.sum(self.at(slot), counts.tolist()) >= k).only_enforce_if(literal)

    def _live(self) -> None:
        """Splits have rows on both sides."""
        for t in range(self.tree.n_branches):
            for child in (2 * t + 1, 2 * t + 2):
                self.cp.add_bool_or([self.b[t][-1], *self.members(child)])

    def _on(self, t: int, feature: int) -> list[Any]:
        """The choices of a branch that split on a feature."""
        return [self.b[t][c] for c in np.flatnonzero(self.feature == feature)]

    def _row(self, terms: list[Any], values: Floats, most: float) -> None:
        """``values @ terms <= most``."""
        whole, (_low, high), _scale = as_whole(np.asarray(values, np.float64), -math.inf, most)
        self.cp.add(self.sum(terms, whole) <= high)

    def _uses(self, branches: Any) -> dict[int, Any]:
        """A literal for each feature: whether one of some branches splits on it."""
        found = {}
        for j in sorted(set(self.feature.tolist())):
            found[j] = self.cp.new_bool_var("")
            for t in branches:
                for choice in self._on(t, j):
                    self.cp.add_implication(choice, found[j])
        return found

    def _add(self, c: Constraint) -> None:
        cp, tree, problem = self.cp, self.tree, self.problem
        branches, slots = range(tree.n_branches), range(tree.n_leaves)
        if isinstance(c, MaxSplits):
            cp.add(sum(~choices[-1] for choices in self.b) <= c.k)
        elif isinstance(c, (MaxFeatures, FeatureCost)):
            uses = self._uses(branches)
            costs = c.of(problem)[list(uses)] if isinstance(c, FeatureCost) else np.ones(len(uses))
            self._row(list(uses.values()), costs, float(c.budget if isinstance(c, FeatureCost) else c.k))
        elif isinstance(c, ForbidSplit):
            for t in branches:
                for choice in self._on(t, c.feature) if c.at(tree.level(t)) else ():
                    cp.add(choice == 0)
        elif isinstance(c, RequireSplit):
            there = [choice for t in branches if c.at(tree.level(t)) for choice in self._on(t, c.feature)]
            cp.add_bool_or(there)
        elif isinstance(c, (SameLeaf, DifferentLeaf)):
            i, j = int(self.group[c.i]), int(self.group[c.j])
            for slot in slots:
                first, second = self.at(slot)[i], self.at(slot)[j]
                if isinstance(c, SameLeaf):
                    cp.add(first == second)
                else:
                    cp.add_bool_or([~first, ~second])
        elif isinstance(c, MinPerGroup):
            for inside in c.members(problem):
                self._at_least(np.bincount(self.group, weights=inside).astype(int), c.k)
        elif isinstance(c, PathCost):
            self._path_cost(c)
        elif isinstance(c, Monotone):
            self._monotone(c)
        elif isinstance(c, LeafConstraint) and c.adds_up:
            terms = [literal for literals in self.given() for literal in literals]
            for weights, most in zip(*c.terms(problem), strict=True):
                self._row(terms, self.by_pattern(weights).ravel(), float(most) + EXACT)
        else:
            raise TypeError(f"{c!r} is not stated")

    def _path_cost(self, c: PathCost) -> None:
        costs, tree = c.of(self.problem), self.tree
        if not c.mean:
            for slot in range(tree.n_leaves):
                uses = self._uses([t for t, _left in tree.turns(slot)])
                self._row(list(uses.values()), costs[list(uses)], c.budget)
            return
        terms, values = [], []
        weight = np.bincount(self.group, weights=self.problem.w)
        for g in range(len(self.size)):
            for j in sorted(set(self.feature.tolist())):
                literal = self.cp.new_bool_var("")
                terms.append(literal)
                values.append(weight[g] * costs[j])
                for t in range(tree.n_branches):
                    for choice in self._on(t, j):
                        self.cp.add_bool_or([~choice, ~self.members(t)[g], literal])
        self._row(terms, np.array(values), c.budget)

    def _monotone(self, c: Monotone) -> None:
        tree, K = self.tree, self.problem.n_outputs
        for t in range(tree.n_branches):
            left, right = tree.below(2 * t + 1), tree.below(2 * t + 2)
            low, high = (left, right) if c.sign == 1 else (right, left)
            choices = self._on(t, c.feature)
            if not choices:
                continue
            on = self.cp.new_bool_var("")
            for choice in choices:
                self.cp.add_implication(choice, on)
            for a in low:
                for b in high:
                    for k in range(1, K):
                        self.cp.add_bool_or([~on, ~self.answer[a][k], *self.answer[b][k:]])

    def tree_of(self, chosen: list[int]) -> Tree:
        """The tree of the branches' choices; leaves are zero."""
        splits = {
            t: (self.candidates.A[c], float(self.candidates.b[c]))
            for t, c in enumerate(chosen)
            if c < len(self.candidates)
        }
        return self.problem.live(self.tree.decode(splits, self.problem))

    def hint(self, tree: Tree) -> None:
        """Begin with the splits of a tree of candidates, where these are all there."""
        chosen = [len(self.candidates)] * self.tree.n_branches
        for t, node in self.tree.place(tree, self.problem.X).branches.items():
            same = np.all(tree.A[node] == self.candidates.A, axis=1) & (self.candidates.b == tree.b[node])
            if not same.any():
                return
            chosen[t] = int(np.flatnonzero(same)[0])
        for choices, c in zip(self.b, chosen, strict=True):
            for number, choice in enumerate(choices):
                self.cp.add_hint(choice, number == c)


def as_whole(values: Floats, low: float, high: float) -> tuple[list[int], tuple[int, int], float]:
    """A row as whole numbers that every 0/1 point of the row satisfies: its values, ends and scale."""
    most = float(np.abs(values).max(initial=0.0)) or 1.0
    some = np.unique(values) / most
    parts = [Fraction(float(v)).limit_denominator(MOST_DENOMINATOR) for v in some]
    exact = all(abs(float(f) - v) < 1e-13 for f, v in zip(parts, some, strict=True))
    scale, slack = math.lcm(*(f.denominator for f in parts)) if exact and parts else MOST_SCALE + 1, 0.0
    if scale > MOST_SCALE:
        scale, slack = ROUGH, 0.5 * len(values)
    whole, unit = np.rint(values / most * scale).astype(int), scale / most
    first = -LARGEST if math.isinf(low) else math.ceil(low * unit - slack - 1e-7 * max(1.0, abs(low * unit)))
    last = LARGEST if math.isinf(high) else math.floor(high * unit + slack + 1e-7 * max(1.0, abs(high * unit)))
    return whole.tolist(), (max(first, -LARGEST), min(last, LARGEST)), unit
