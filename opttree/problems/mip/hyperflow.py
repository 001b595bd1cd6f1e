"""`formulation="hyperflow"`: one constraint per state (set of rows, remaining depth), one column per action."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pyomo.core as pyo
from numpy.typing import NDArray
from pyomo.core.expr import LinearExpression

from opttree.kernels.routing import goes_left
from opttree.model.tree import Tree
from opttree.problems.mip.hypergraph import (
    RULE_OUT,
    Level,
    Plan,
    enumerate_levels,
    permitted,
    plan,
    reduce_levels,
    tree_of,
)
from opttree.problems.mip.statement import MIPStatement
from opttree.statement.constraints import (
    DifferentLeaf,
    FeatureCost,
    ForbidSplit,
    MaxFeatures,
    MaxSplits,
    MinPerGroup,
    RequireSplit,
    SameLeaf,
)

Floats = NDArray[np.float64]
COUNTED = (MaxFeatures, FeatureCost, RequireSplit)  # constraints that tie columns together, `MaxSplits` apart
PRICE_STEPS = 40
COMPLETE = "Every tree of the candidate splits is a point of this program: constraints may be added."
REDUCED = (
    "Only columns that an optimal tree may need: with constraints added, its optimum may be wrong; "
    "build(complete=True) holds every tree."
)
ROUNDING = 1e-12  # rounding error of sums of costs, relative to the cost of the one-leaf tree


class Hyperflow:
    """The dynamic program over sets of data rows, as a linear program.

    Constraint ``state[d, s]``: the number of actions taken at state s of depth d equals the number of actions above
    that lead to it; 1 at the root. Columns are ``leaf[d, s]`` and ``split[d, s, name]``, at depth 1 with the costs of
    both leaves. Side constraints leave columns out (`ForbidSplit`, `SameLeaf`, `DifferentLeaf`, `MinPerGroup`) or are
    additional rows.

    The complete program has a column for every candidate split of every state, and binary columns: its feasible points
    are all trees of the candidates, so that it stays correct under further constraints. The reduced program has only
    the columns that an optimal tree may need; with ``reduce``, only those of trees no worse than a known one, by
    reduced costs: the values of the dynamic program are dual values (with ``max_splits``, those of the Lagrangian
    relaxation with the best price per split). Without side constraints its vertices are trees, so its columns are
    continuous.
    """

    def __init__(self, stated: MIPStatement, levels: list[Level], complete: bool) -> None:
        self.stated, self.complete = stated, complete
        self.problem = stated.problem
        self.candidates = stated.candidates
        if complete:
            cost, root = plan(levels, self.problem.price_per_split).cost, float(levels[0].leaf[0])
            self.levels, self.bound = levels, cost - ROUNDING * (root if np.isfinite(root) else 0.0)
        else:
            self.levels, self.bound = self._reduced(levels)

    @staticmethod
    def prepare(stated: MIPStatement, complete: bool) -> Generator[None, None, Hyperflow]:
        """Enumerate the states and return the formulation; yields None wherever it can be stopped."""
        kinds = tuple(type(c) for c in stated.problem.constraints)
        needs_every = complete or {RequireSplit, SameLeaf, DifferentLeaf, MinPerGroup} & set(kinds)
        needs_families = {MaxFeatures, FeatureCost, ForbidSplit} & set(kinds)
        which = "every" if needs_every else "family" if needs_families else "best"
        levels = yield from enumerate_levels(stated.problem, stated.candidates, which)
        return Hyperflow(stated, permitted(levels, stated.problem, stated.candidates), complete)

    def _reduced(self, levels: list[Level]) -> tuple[list[Level], float]:
        """Levels without the columns that no optimal tree uses, and a proved lower bound."""
        price, most = self.problem.price_per_split, self.problem.max_splits
        best = plan(levels, price)
        counted = {type(c) for c in self.problem.constraints} & set(COUNTED)
        one_leaf = float(levels[0].leaf[0])
        if not self.stated.reduce or not np.isfinite(best.cost) or counted - {MaxFeatures} or not np.isfinite(one_leaf):
            return levels, best.cost - ROUNDING * (one_leaf if np.isfinite(one_leaf) else 0.0)
        bound, room, extra = best.cost, 0.0, 0.0
        if most is not None and best.n_splits > most:
            bound, room, extra = self._relax_splits(levels, best, most)
        if MaxFeatures in counted:
            room = self._greedy_features(levels) - bound
        rounding = ROUNDING * (one_leaf + extra * (most or 0))
        room += RULE_OUT * abs(bound) + rounding
        return reduce_levels(levels, price + extra, room), bound - rounding

    def _relax_splits(self, levels: list[Level], best: Plan, most: int) -> tuple[float, float, float]:
        """Lagrangian relaxation of the limit on splits: the best lower bound, its gap to a known tree, the price per
        split.
        """
        price = self.problem.price_per_split
        low, high = 0.0, float(levels[0].leaf[0])  # a price at which no split pays
        bound, extra, known = best.cost, 0.0, float(levels[0].leaf[0])
        for _ in range(PRICE_STEPS):
            middle = 0.5 * (low + high)
            trial = plan(levels, price + middle)
            if trial.cost - middle * most > bound:
                bound, extra = trial.cost - middle * most, middle
            if trial.n_splits <= most:
                known, high = min(known, trial.cost - middle * trial.n_splits), middle
            else:
                low = middle
        return bound, known - bound, extra

    def _greedy_features(self, levels: list[Level]) -> float:
        """Cost of a tree within ``max_features``, features chosen greedily; infinite if ``max_splits`` is set, too."""
        if self.problem.max_splits is not None:
            return np.inf
        most = min(c.k for c in self.problem.constraints if isinstance(c, MaxFeatures))
        feature = self.candidates.feature[self.candidates.family]
        chosen: list[int] = []
        cost = float(levels[0].leaf[0])
        for _ in range(most):
            trials = {}
            for j in set(self.candidates.feature.tolist()) - set(chosen):
                allowed = np.isin(feature, [*chosen, j])
                trials[j] = plan([_only(level, allowed) for level in levels], self.problem.price_per_split).cost
            if not trials:
                break
            j = min(trials, key=lambda j: trials[j])
            chosen.append(j)
            cost = min(cost, trials[j])
        return cost

    # ---- the model ------------------------------------------------------------------------------------------------

    def build(self) -> Any:
        """The Pyomo model."""
        name, doc = ("hyperflow", COMPLETE) if self.complete else ("hyperflow_reduced", REDUCED)
        model = pyo.ConcreteModel(name=name, doc=doc)
        domain = pyo.Binary if self.is_integer else pyo.NonNegativeReals
        leaves = [(x.depth, s) for x in self.levels for s in np.flatnonzero(np.isfinite(x.leaf)).tolist()]
        splits = [
            (x.depth, s, self.candidates.name(c))
            for x in self.levels
            for s, c in zip(x.columns[:, 0].tolist(), x.columns[:, 1].tolist(), strict=True)
        ]
        model.leaf = pyo.Var(leaves, domain=domain)
        model.split = pyo.Var(splits, domain=domain)
        price = self.problem.price_per_split
        costs = [float(c) for x in self.levels for c in x.leaf[np.isfinite(x.leaf)]]
        costs += [price + float(c) for x in self.levels for c in x.cost]
        model.cost = pyo.Objective(
            expr=LinearExpression(linear_coefs=costs, linear_vars=[*model.leaf.values(), *model.split.values()])
        )
        terms: dict[tuple[int, int], list[tuple[float, Any]]] = {}
        for (d, s), leaf in model.leaf.items():
            terms.setdefault((d, s), []).append((1.0, leaf))
        ends = np.concatenate([x.columns[:, 2:] for x in self.levels]).tolist()
        for ((d, s, _name), split), made in zip(model.split.items(), ends, strict=True):
            terms.setdefault((d, s), []).append((1.0, split))
            for child in made:
                if child >= 0:
                    terms.setdefault((d - 1, child), []).append((-1.0, split))
        model.state = pyo.Constraint(
            sorted(terms, reverse=True),
            rule=lambda _m, d, s: (
                LinearExpression(linear_coefs=[c for c, _v in terms[d, s]], linear_vars=[v for _c, v in terms[d, s]])
                == float(d == self.problem.depth)
            ),
        )
        self._add_constraints(model)
        return model

    @property
    def is_integer(self) -> bool:
        """Whether columns are binary: if there are, or may be, side constraints that are more than missing columns."""
        counted = (MaxSplits, *COUNTED)
        return self.complete or any(isinstance(c, counted) for c in self.problem.constraints)

    def _add_constraints(self, model: Any) -> None:
        """The side constraints that count splits or features. A feature is used if one of its splits is: at most 2^k of
        them at k levels below the root.
        """
        features = self.candidates.feature.tolist()
        numbers = np.concatenate([x.columns[:, 1] for x in self.levels])
        of: dict[tuple[int, int], list[Any]] = {}
        for ((d, _s, _name), split), number in zip(model.split.items(), numbers, strict=True):
            of.setdefault((features[self.candidates.family[number]], d), []).append(split)
        if any(isinstance(c, (MaxFeatures, FeatureCost)) for c in self.problem.constraints):
            model.uses = pyo.Var(sorted(set(features)), domain=pyo.Binary)
            model.used = pyo.Constraint(
                sorted(of),
                rule=lambda m, j, d: pyo.quicksum(of[j, d]) <= 2 ** (self.problem.depth - d) * m.uses[j],
            )
        model.side = pyo.ConstraintList()
        for c in self.problem.constraints:
            if isinstance(c, MaxSplits) and of:
                model.side.add(pyo.quicksum(model.split.values()) <= c.k)
            elif isinstance(c, MaxFeatures) and features:
                model.side.add(pyo.quicksum(model.uses.values()) <= c.k)
            elif isinstance(c, FeatureCost) and features:
                costs = c.of(self.problem)
                model.side.add(pyo.quicksum(float(costs[j]) * v for j, v in model.uses.items()) <= c.budget)
            elif isinstance(c, RequireSplit):
                depth = self.problem.depth
                allowed = [v for (j, d), vs in of.items() if j == c.feature and c.at(depth - d) for v in vs]
                if not allowed:
                    model.nothing = pyo.Var(bounds=(0.0, 0.0))
                    allowed = [model.nothing]
                model.side.add(pyo.quicksum(allowed) >= 1)

    # ---- there and back -------------------------------------------------------------------------------------------

    def encode(self, model: Any, tree: Tree) -> bool:
        """Set the variables to ``tree``, whose splits are candidates; at depth 1 of a reduced program a better split
        may replace the tree's. Returns False, with some variables unset, if the program lacks columns of the tree.
        """
        for variable in model.component_data_objects(pyo.Var):
            variable.set_value(0.0)
        rows = [np.ones(self.problem.n_samples, bool)]
        nodes, at = [0], [0]
        for level in self.levels:
            next_rows, next_nodes, next_at = [], [], []
            by_state = _columns_by_state(level)
            for inside, node, s in zip(rows, nodes, at, strict=True):
                options = by_state.get(s, [])
                if node >= tree.n_branches or not options:  # states where a leaf is no worse have no columns
                    if not np.isfinite(level.leaf[s]):
                        return False
                    model.leaf[level.depth, s].set_value(1.0)
                    continue
                left = inside & goes_left(self.problem.X, tree.A[node], tree.b[node])
                column = self._column(level, options, tree, node, inside, left)
                if column is None:
                    return False
                split = int(level.columns[column, 1])
                model.split[level.depth, s, self.candidates.name(split)].set_value(1.0)
                if hasattr(model, "uses"):
                    model.uses[self._feature(split)].set_value(1.0)
                if level.depth > 1:
                    mirrored = not np.array_equal(self.candidates.side(split) & inside, left)
                    kids = tree.children[node][::-1] if mirrored else tree.children[node]
                    next_rows += [inside & self.candidates.side(split), inside & ~self.candidates.side(split)]
                    next_nodes += kids.tolist()
                    next_at += level.columns[column, 2:].tolist()
            rows, nodes, at = next_rows, next_nodes, next_at
        return True

    def _column(
        self,
        level: Level,
        options: list[int],
        tree: Tree,
        node: int,
        inside: NDArray[np.bool_],
        left: NDArray[np.bool_],
    ) -> int | None:
        """The column of a state with the split of ``node``, or with the same partition."""

        def unlike(column: int) -> tuple[bool, bool]:
            split = int(level.columns[column, 1])
            same = self.candidates.b[split] == tree.b[node] and np.array_equal(self.candidates.A[split], tree.A[node])
            return not same, self._feature(split) != tree.feature[node]

        ordered = sorted(options, key=unlike)
        for column in ordered:
            side = self.candidates.side(level.columns[column, 1]) & inside
            if np.array_equal(side, left) or np.array_equal(side, inside & ~left):
                return column
        return ordered[0] if level.depth == 1 and not self.complete else None

    def refine(self, model: Any) -> bool:
        """Nothing to add: costs are exact."""
        return False

    def _feature(self, split: int) -> int:
        return int(self.candidates.feature[self.candidates.family[split]])

    def decode(self, model: Any) -> Tree:
        """The splits of the tree encoded in the variables; leaves are zero."""
        choice = []
        for level in self.levels:
            actions = np.full(len(level.sets), -1.0)
            chosen = np.full(len(level.sets), -1)
            for s in np.flatnonzero(np.isfinite(level.leaf)).tolist():
                actions[s] = model.leaf[level.depth, s].value or 0.0
            for column, (s, c) in enumerate(level.columns[:, :2].tolist()):
                taken = model.split[level.depth, s, self.candidates.name(c)].value or 0.0
                if taken > actions[s]:
                    actions[s], chosen[s] = taken, column
            choice.append(chosen)
        return tree_of(self.levels, choice, self.candidates, self.problem)


def _only(level: Level, allowed: NDArray[np.bool_]) -> Level:
    stays = allowed[level.columns[:, 1]]
    return Level(level.depth, level.sets, level.leaf, level.columns[stays], level.cost[stays])


def _columns_by_state(level: Level) -> dict[int, list[int]]:
    of: dict[int, list[int]] = {}
    for c, s in enumerate(level.columns[:, 0].tolist()):
        of.setdefault(s, []).append(c)
    return of
