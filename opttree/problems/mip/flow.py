"""`formulation="flow"`: one binary per node and candidate split; rows flow to the leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.core as pyo
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.problems.mip.complete import Complete
from opttree.problems.mip.losses import Leaves
from opttree.problems.mip.side import Side
from opttree.problems.mip.statement import MIPStatement

Floats = NDArray[np.float64]


class Flow:
    """Threshold-indexed, without big-M: ``split[t, j, threshold]`` is 1 if branch t of the complete tree splits on
    feature j at that threshold.

    Rows that no candidate separates form a group g, which flows from the root through ``flow[g, v]`` to a leaf: left if
    the split chosen at the node sends it left (or the node does not split), else right. Given the splits, flows are 0
    or 1. ``leaf[i, l]`` is the flow of row i into leaf l.
    """

    bound = 0.0

    def __init__(self, stated: MIPStatement, subtrees: tuple[Floats, float] | None = None) -> None:
        self.stated, self.problem, self.candidates = stated, stated.problem, stated.candidates
        self.subtrees = subtrees
        self.tree = Complete(stated.problem.depth if len(self.candidates) else 0)
        patterns, first, group = np.unique(self.candidates.left.T, axis=0, return_index=True, return_inverse=True)
        self.group = group.reshape(-1)
        self.n_groups = len(patterns) if len(self.candidates) else 1
        self.goes_left = self.candidates.left[:, first].T
        self.size = np.bincount(self.group, minlength=self.n_groups)
        self.keys = [self.candidates.key(c) for c in range(len(self.candidates))]
        self.leaves = Leaves(stated, self.group, self.tree.n_leaves)

    def build(self) -> Any:
        """The Pyomo model."""
        tree, groups, keys = self.tree, range(self.n_groups), self.keys
        branches, nodes = range(tree.n_branches), range(tree.n_branches + tree.n_leaves)
        model = self.leaves.named_model("flow")
        model.split = pyo.Var([(t, *key) for t in branches for key in keys], domain=pyo.Binary)
        splits = {t: pyo.quicksum(model.split[t, *key] for key in keys) for t in branches}
        model.one_split = pyo.Constraint(branches, rule=lambda m, t: splits[t] <= 1)
        tree.order_splits(model, splits)
        model.flow = pyo.Var(groups, nodes, bounds=(0.0, 1.0))
        model.source = pyo.Constraint(groups, rule=lambda m, g: m.flow[g, 0] == 1)
        model.conserve = pyo.Constraint(
            groups, branches, rule=lambda m, g, t: m.flow[g, t] == m.flow[g, 2 * t + 1] + m.flow[g, 2 * t + 2]
        )
        right_of = {g: [keys[c] for c in np.flatnonzero(~row)] for g, row in enumerate(self.goes_left)}
        model.go_right = pyo.Constraint(
            groups,
            branches,
            rule=lambda m, g, t: m.flow[g, 2 * t + 2] <= pyo.quicksum(m.split[t, *key] for key in right_of[g]),
        )
        model.go_left = pyo.Constraint(
            groups,
            branches,
            rule=lambda m, g, t: m.flow[g, 2 * t + 1] <= 1 - pyo.quicksum(m.split[t, *key] for key in right_of[g]),
        )
        tree.limit_leaves(
            model,
            self.problem.min_leaf,
            lambda leaf: pyo.quicksum(int(self.size[g]) * model.flow[g, tree.n_branches + leaf] for g in groups),
            [(g, leaf) for g in groups for leaf in range(tree.n_leaves)],
            lambda g, leaf: model.flow[g, tree.n_branches + leaf],
        )
        group = self.group.tolist()
        model.leaf = {
            (i, leaf): model.flow[g, tree.n_branches + leaf]
            for i, g in enumerate(group)
            for leaf in range(tree.n_leaves)
        }
        loss = self.leaves.add(model, lambda g, leaf: model.flow[g, tree.n_branches + leaf])
        of = {j: [key for key in keys if key[0] == j] for j in dict.fromkeys(key[0] for key in keys)}
        Side(
            self.problem,
            tree,
            list(of),
            splits.__getitem__,
            lambda t, j: pyo.quicksum(model.split[t, *key] for key in of[j]),
            lambda i, leaf: model.leaf[i, leaf],
            lambda leaf: pyo.quicksum(int(self.size[g]) * model.flow[g, tree.n_branches + leaf] for g in groups),
        ).add(model, self.leaves)
        count = pyo.quicksum(model.split.values())
        cost = loss + self.problem.price_per_split * count
        if self.subtrees is not None and tree.n_branches:
            least, leaf = self.subtrees
            known = [(key, float(v)) for key, v in zip(keys, least, strict=True) if 0.0 < v < np.inf]
            split = pyo.quicksum(v * model.split[0, *key] for key, v in known)
            model.subtrees = pyo.Constraint(expr=cost >= split + leaf * (1 - splits[0]))
        model.cost = pyo.Objective(expr=cost)
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
            model.split[t, *self.keys[same[0]]].set_value(1.0)
        path = {g: self.tree.path(leaf) for g, leaf in zip(self.group.tolist(), placed.leaf.tolist(), strict=True)}
        for (g, node), v in model.flow.items():
            v.set_value(float(node in path[g]))
        self.tree.encode_leaves(model, placed.leaf)
        self.leaves.encode(model, tree, placed)
        features = {t: [int(tree.feature[node])] for t, node in placed.branches.items()}
        Side.encode(model, self.problem, self.tree, features, placed.leaf)
        return True

    def decode(self, model: Any) -> Tree:
        """The splits encoded in the variables."""
        chosen = {}
        for (t, *key), v in model.split.items():
            if v.value is not None and v.value > 0.5:
                c = self.keys.index(tuple(key))
                chosen[t] = self.candidates.A[c], float(self.candidates.b[c])
        tree = self.tree.decode(chosen, self.problem)
        return self.leaves.decode(model, tree, self.tree.place(tree, self.problem.X).place)

    def refine(self, model: Any) -> bool:
        """Add violated tangents to squared errors."""
        return self.leaves.refine(model)
