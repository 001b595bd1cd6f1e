"""`formulation="flow"`: one binary per node and candidate split; rows flow to the leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.core as pyo

from opttree.problems.mip.complete import Complete
from opttree.problems.mip.losses import Leaves
from opttree.problems.mip.statement import MIPStatement
from opttree.tree import Tree


class Flow:
    """Threshold-indexed, without big-M: ``split[t, name]`` is 1 if branch t of the complete tree uses that split.

    Rows that no candidate separates form a group g, which flows from the root through ``flow[g, v]`` to a leaf: left if
    the split chosen at the node sends it left (or the node does not split), else right. Given the splits, flows are 0
    or 1.
    """

    bound = 0.0

    def __init__(self, stated: MIPStatement) -> None:
        self.stated, self.problem, self.candidates = stated, stated.problem, stated.candidates
        self.tree = Complete(stated.problem.depth if len(self.candidates) else 0)
        patterns, first, group = np.unique(self.candidates.left.T, axis=0, return_index=True, return_inverse=True)
        self.group = group.reshape(-1)
        self.n_groups = len(patterns) if len(self.candidates) else 1
        self.goes_left = self.candidates.left[:, first].T
        self.size = np.bincount(self.group, minlength=self.n_groups)
        self.names = [self.candidates.name(c) for c in range(len(self.candidates))]
        self.leaves = Leaves(stated, self.group, self.tree.n_leaves)

    def build(self) -> Any:
        """The Pyomo model."""
        tree, groups, names = self.tree, range(self.n_groups), self.names
        branches, nodes = range(tree.n_branches), range(tree.n_branches + tree.n_leaves)
        model = self.leaves.named_model("flow")
        model.split = pyo.Var(branches, names, domain=pyo.Binary)
        splits = {t: pyo.quicksum(model.split[t, c] for c in names) for t in branches}
        model.one_split = pyo.Constraint(branches, rule=lambda m, t: splits[t] <= 1)
        tree.order_splits(model, splits)
        model.flow = pyo.Var(groups, nodes, bounds=(0.0, 1.0))
        model.source = pyo.Constraint(groups, rule=lambda m, g: m.flow[g, 0] == 1)
        model.conserve = pyo.Constraint(
            groups, branches, rule=lambda m, g, t: m.flow[g, t] == m.flow[g, 2 * t + 1] + m.flow[g, 2 * t + 2]
        )
        sends = {g: [[names[c] for c in np.flatnonzero(row == side)] for side in (False, True)]
                 for g, row in enumerate(self.goes_left)}  # fmt: skip
        model.go_right = pyo.Constraint(
            groups,
            branches,
            rule=lambda m, g, t: m.flow[g, 2 * t + 2] <= pyo.quicksum(m.split[t, c] for c in sends[g][0]),
        )
        model.go_left = pyo.Constraint(
            groups,
            branches,
            rule=lambda m, g, t: m.flow[g, 2 * t + 1] <= 1 - pyo.quicksum(m.split[t, c] for c in sends[g][0]),
        )
        tree.limit_leaves(
            model,
            self.problem.min_leaf,
            lambda leaf: pyo.quicksum(int(self.size[g]) * model.flow[g, tree.n_branches + leaf] for g in groups),
            [(g, leaf) for g in groups for leaf in range(tree.n_leaves)],
            lambda g, leaf: model.flow[g, tree.n_branches + leaf],
        )
        count = pyo.quicksum(model.split.values())
        if self.stated.max_splits is not None and self.tree.n_branches:
            model.max_splits = pyo.Constraint(expr=count <= self.stated.max_splits)
        loss = self.leaves.add(model, lambda g, leaf: model.flow[g, tree.n_branches + leaf])
        model.cost = pyo.Objective(expr=loss + self.problem.price_per_split * count)
        return model

    def encode(self, model: Any, tree: Tree) -> bool:
        """Set all variables."""
        placed = self.tree.place(tree, self.problem.X)
        for v in model.split.values():
            v.set_value(0.0)
        for t, node in placed.branches.items():
            same = np.flatnonzero(
                np.all(tree.A[node] == self.candidates.A, axis=1) & (self.candidates.b == tree.b[node])
            )
            if not same.size:
                return False
            model.split[t, self.names[same[0]]].set_value(1.0)
        path = {g: self.tree.path(leaf) for g, leaf in zip(self.group.tolist(), placed.leaf.tolist(), strict=True)}
        for (g, node), v in model.flow.items():
            v.set_value(float(node in path[g]))
        self.tree.encode_leaves(model, placed.leaf)
        self.leaves.encode(model, tree, placed.leaf, placed.place)
        return True

    def decode(self, model: Any) -> Tree:
        """The splits encoded in the variables."""
        chosen = {}
        for (t, name), v in model.split.items():
            if v.value is not None and v.value > 0.5:
                c = self.names.index(name)
                chosen[t] = self.candidates.A[c], float(self.candidates.b[c])
        tree = self.tree.decode(chosen, self.problem)
        return self.leaves.decode(model, tree, self.tree.place(tree, self.problem.X).place)

    def refine(self, model: Any) -> bool:
        """Add violated tangents to squared errors."""
        return self.leaves.refine(model)
