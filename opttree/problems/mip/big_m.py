"""`formulation="big-m"`: the textbook model of Bertsimas and Dunn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyomo.core as pyo
from numpy.typing import NDArray

from opttree.kernels.routing import goes_left
from opttree.model.tree import Tree
from opttree.problems.mip.complete import Complete
from opttree.problems.mip.losses import Leaves
from opttree.problems.mip.side import Side
from opttree.problems.mip.statement import MIPStatement
from opttree.statement.constraints import ForbidSplit
from opttree.statement.numbers import unit_range

Floats = NDArray[np.float64]
ROUNDING = 1e-6


class BigM:
    """Branch t of the complete tree has weights ``a[t, j]``, a threshold ``b[t]`` and ``splits[t]``; row i is at leaf l
    if ``leaf[i, l] = 1``. OCT, ORT, ORT-L with axis-aligned splits; OCT-H, ORT-H, ORT-LH with oblique ones.

    Axis-aligned: ``a`` is binary, and feature values are replaced by their ranks among the candidate thresholds,
    divided by the number of thresholds, so that the least distance between two values is known and not small. Oblique:
    ``a`` in [-1, 1], ``|a|_1 <= 1``, on features scaled to [0, 1], with ``margin`` on the right. Big-M constants are
    the smallest valid ones for each row. Mirror images of oblique branches are excluded: row 0 goes left wherever it
    can, and of two sibling leaves at the bottom the left one has the smaller prediction (class).
    """

    bound = 0.0

    def __init__(self, stated: MIPStatement, subtrees: tuple[Floats, float] | None = None) -> None:
        self.stated, self.problem, self.subtrees = stated, stated.problem, subtrees
        self.axis = stated.problem.splits == "axis"
        splits = not self.axis or len(stated.candidates) > 0
        self.tree = Complete(stated.problem.depth if splits else 0)
        n = stated.problem.n_samples
        if self.axis:
            candidates = stated.candidates
            self.features = candidates.feature.tolist()
            counts = np.diff(candidates.start)
            self.codes = np.empty((n, len(self.features)))
            for f in range(len(self.features)):
                self.codes[:, f] = np.sum(~candidates.left[candidates.start[f] : candidates.start[f + 1]], axis=0)
            self.codes /= counts
            self.least = 1.0 / counts
        else:
            self.features = list(range(stated.problem.n_features))
            self.low, self.scale = unit_range(stated.problem.X)
            self.codes = (stated.problem.X - self.low) / self.scale
            self.least = np.full(len(self.features), stated.margin)
        self.leaves = Leaves(stated, np.arange(n), self.tree.n_leaves)

    def build(self) -> Any:
        """The Pyomo model."""
        tree, rows, features = self.tree, range(self.problem.n_samples), self.features
        branches, leaves = range(tree.n_branches), range(tree.n_leaves)
        model = self.leaves.named_model("big_m")
        model.splits = pyo.Var(branches, domain=pyo.Binary)
        tree.order_splits(model, model.splits)
        model.leaf = pyo.Var(rows, leaves, domain=pyo.Binary)
        model.somewhere = pyo.Constraint(rows, rule=lambda m, i: sum(m.leaf[i, leaf] for leaf in leaves) == 1)
        if self.axis:
            model.a = pyo.Var(branches, features, domain=pyo.Binary)
            model.b = pyo.Var(branches, bounds=(0.0, 1.0))
            model.one_feature = pyo.Constraint(
                branches, rule=lambda m, t: sum(m.a[t, j] for j in features) == m.splits[t]
            )
            model.no_threshold = pyo.Constraint(branches, rule=lambda m, t: m.b[t] <= m.splits[t])
        else:
            self._hyperplanes(model)
        turns = [(i, leaf, t, left) for i in rows for leaf in leaves for t, left in tree.turns(leaf)]
        model.go = pyo.Constraint(turns, rule=self._go)
        model.go_right_splits = pyo.Constraint(
            [(i, leaf, t) for i, leaf, t, left in turns if not left],
            rule=lambda m, i, leaf, t: m.leaf[i, leaf] <= m.splits[t],
        )
        tree.limit_leaves(
            model,
            self.problem.min_leaf,
            lambda leaf: pyo.quicksum(model.leaf[i, leaf] for i in rows),
            [(i, leaf) for i in rows for leaf in leaves],
            lambda i, leaf: model.leaf[i, leaf],
        )
        loss = self.leaves.add(model, lambda i, leaf: model.leaf[i, leaf])
        weights = model.a if self.axis else model.size
        Side(
            self.problem,
            tree,
            features,
            lambda t: model.splits[t],
            lambda t, j: weights[t, j],
            lambda i, leaf: model.leaf[i, leaf],
            lambda leaf: pyo.quicksum(model.leaf[i, leaf] for i in rows),
        ).add(model, self.leaves)
        if not self.axis and not self.stated.extensions:
            self._order_siblings(model)
        cost = loss + self.problem.price_per_split * pyo.quicksum(model.splits.values())
        if self.subtrees is not None and tree.n_branches:
            least, leaf = self.subtrees
            start = self.stated.candidates.start
            of = {j: float(least[start[f] : start[f + 1]].min()) for f, j in enumerate(features)}
            split = pyo.quicksum(v * model.a[0, j] for j, v in of.items() if 0.0 < v < np.inf)
            model.subtrees = pyo.Constraint(expr=cost >= split + leaf * (1 - model.splits[0]))
        model.cost = pyo.Objective(expr=cost)
        return model

    def _go(self, m: Any, i: int, leaf: int, t: int, left: bool) -> Any:
        """A row at a leaf on the left of t satisfies ``a.x <= b``; on the right, ``a.x >= b + least``."""
        x = self.codes[i]
        if left:
            most = float(x.max(initial=0.0)) if self.axis else 1.0 + float(np.abs(x).max())
            product = sum(m.a[t, j] * float(v) for j, v in zip(self.features, x, strict=True))
            return product <= m.b[t] + most * (1 - m.leaf[i, leaf])
        if self.axis:
            x = x - self.least
            most = 1.0 - float(x.min(initial=0.0))
            product = sum(m.a[t, j] * float(v) for j, v in zip(self.features, x, strict=True))
            return product >= m.b[t] - most * (1 - m.leaf[i, leaf])
        most = 1.0 + float(np.abs(x).max()) + self.stated.margin
        product = sum(m.a[t, j] * float(v) for j, v in zip(self.features, x, strict=True))
        return product >= m.b[t] + self.stated.margin - most * (1 - m.leaf[i, leaf])

    def _hyperplanes(self, model: Any) -> None:
        branches, features = range(self.tree.n_branches), self.features
        model.a = pyo.Var(branches, features, bounds=(-1.0, 1.0))
        model.size = pyo.Var(branches, features, bounds=(0.0, 1.0))
        model.b = pyo.Var(branches, bounds=(-1.0, 1.0))
        model.a_above = pyo.Constraint(branches, features, rule=lambda m, t, j: m.size[t, j] >= m.a[t, j])
        model.a_below = pyo.Constraint(branches, features, rule=lambda m, t, j: m.size[t, j] >= -m.a[t, j])
        model.norm = pyo.Constraint(branches, rule=lambda m, t: sum(m.size[t, j] for j in features) <= m.splits[t])
        model.b_above = pyo.Constraint(branches, rule=lambda m, t: m.b[t] <= m.splits[t])
        model.b_below = pyo.Constraint(branches, rule=lambda m, t: m.b[t] >= -m.splits[t])

    def _last(self) -> range:
        """Branches of the last level, whose children are leaves."""
        return range(self.tree.n_branches // 2, self.tree.n_branches)

    def _order_siblings(self, model: Any) -> None:
        """Symmetry breaking: exclude the mirror image of each branch."""
        upper = range(self.tree.n_branches // 2)
        right = {t: [leaf for leaf in range(self.tree.n_leaves) if (t, False) in self.tree.turns(leaf)] for t in upper}
        model.mirror_upper = pyo.Constraint(upper, rule=lambda m, t: sum(m.leaf[0, leaf] for leaf in right[t]) == 0)
        if not self.tree.n_branches:
            return
        first = self.tree.n_branches // 2

        def order(m: Any, t: int) -> Any:
            a, b = 2 * (t - first), 2 * (t - first) + 1
            if self.leaves.by_class:
                classes = range(self.problem.n_outputs)
                return sum(k * m.answers[k, a] for k in classes) <= sum(k * m.answers[k, b] for k in classes)
            return m.value[a, 0] <= m.value[b, 0]

        model.mirror_last = pyo.Constraint(self._last(), rule=order)

    # ---- there and back -------------------------------------------------------------------------------------------

    def encode(self, model: Any, tree: Tree) -> bool:
        """Set all variables; oblique branches are mirrored to satisfy the symmetry breaking."""
        if not self.axis and not self.stated.extensions:
            tree = self._mirrored(tree)
        placed = self.tree.place(tree, self.problem.X)
        for v in model.component_data_objects(pyo.Var):
            v.set_value(0.0)
        for t, node in placed.branches.items():
            model.splits[t].set_value(1.0)
            if self.axis:
                j = int(tree.feature[node])
                if j not in self.features:
                    return False
                f = self.features.index(j)
                left = goes_left(self.problem.X, tree.A[node], tree.b[node])
                model.a[t, j].set_value(1.0)
                model.b[t].set_value(float(self.codes[left, f].max(initial=0.0)))
            else:
                a = tree.A[node] * self.scale
                norm = np.abs(a).sum()
                for j in self.features:
                    model.a[t, j].set_value(float(a[j] / norm))
                    model.size[t, j].set_value(float(abs(a[j]) / norm))
                # the smallest possible threshold, since the margin is on the right
                inside = np.isin(np.arange(self.problem.n_samples), self._rows(tree, node))
                z = self.codes @ (a / norm)
                left = inside & goes_left(self.problem.X, tree.A[node], tree.b[node])
                model.b[t].set_value(float(z[left].max()))
        for i, leaf in enumerate(placed.leaf.tolist()):
            model.leaf[i, leaf].set_value(1.0)
        self.tree.encode_leaves(model, placed.leaf)
        self.leaves.encode(model, tree, placed)
        features = {t: np.flatnonzero(tree.A[node]).tolist() for t, node in placed.branches.items()}
        Side.encode(model, self.problem, self.tree, features, placed.leaf)
        return True

    def _rows(self, tree: Tree, node: int) -> np.ndarray:
        return np.flatnonzero(tree.decision_path(self.problem.X)[:, [node]].toarray()[:, 0])

    def _mirrored(self, tree: Tree) -> Tree:
        """Mirror branches: row 0 goes left above the last level; at the last, the smaller prediction is left."""
        A, b, children = tree.A.copy(), tree.b.copy(), tree.children.copy()
        B = tree.n_branches
        passes = set(tree.decision_path(self.problem.X[:1]).indices.tolist())
        answer = tree.values.argmax(axis=1) if self.leaves.by_class else tree.values[:, 0]
        if tree.linear_leaves:
            answer = tree.values[:, 0] + tree.leaf_arrays[1][:, 0] @ self.low
        for t in range(B):
            left, right = children[t]
            if tree.node_depth[t] == self.problem.depth - 1:
                turn = answer[left - B] > answer[right - B]
            else:
                turn = t in passes and right in passes
            if turn:
                A[t], b[t], children[t] = -A[t], -b[t], children[t, ::-1]
        turned = Tree(
            children=children,
            A=A,
            b=b,
            values=tree.values,
            coefs=tree.coefs,
            classes=tree.classes,
            link=tree.link,
        )
        return turned.keep(np.ones(tree.n_leaves, bool))

    def decode(self, model: Any) -> Tree:
        """The splits encoded in the variables."""
        chosen = {}
        used = np.ones(len(self.features), bool)  # weights of other features are within the optimizer's tolerance
        if hasattr(model, "uses"):
            used = np.array([(model.uses[j].value or 0.0) > 0.5 for j in self.features], bool)
        for t in range(self.tree.n_branches):
            if not (model.splits[t].value or 0.0) > 0.5:
                continue
            weights = np.array([model.a[t, j].value or 0.0 for j in self.features]) * used * self._permitted(t)
            b = float(model.b[t].value or 0.0)
            if self.axis:
                f = int(weights.argmax())
                candidates = self.stated.candidates
                start, count = int(candidates.start[f]), int(np.diff(candidates.start)[f])
                c = int(b * count + ROUNDING * count)
                chosen[t] = candidates.A[start], float(self.problem.X[:, self.features[f]].max())
                if c < count:  # else the branch sends all rows left
                    chosen[t] = candidates.A[start + c], float(candidates.b[start + c])
            else:
                a = weights / self.scale
                chosen[t] = a, b + 0.5 * self.stated.margin + float(self.low @ a)
        tree = self.tree.decode(chosen, self.problem)
        return self.leaves.decode(model, tree, self.tree.place(tree, self.problem.X).place)

    def _permitted(self, t: int) -> NDArray[np.bool_]:
        """Whether branch t may split on each feature."""
        level = self.tree.level(t)
        forbidden = [c.feature for c in self.problem.constraints if isinstance(c, ForbidSplit) and c.at(level)]
        return ~np.isin(self.features, forbidden)

    def refine(self, model: Any) -> bool:
        """Add violated tangents to the losses."""
        return self.leaves.refine(model)
