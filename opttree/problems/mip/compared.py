"""Formulations that are here to be compared: "cut" and "cut-w", without flows, and "binoct", with binary thresholds.

For 0/1 loss and costs of actions, axis-aligned splits and constant leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyomo.core as pyo
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.problems.mip.cuts import CutProgram
from opttree.problems.mip.side import Side
from opttree.problems.mip.statement import MIPStatement

Floats = NDArray[np.float64]
Code = tuple[int, ...]


class Membership:
    """What both have: splits of the complete tree, answers of leaves, no rows at leaves that constraints could name."""

    bound = 0.0
    name: str

    def __init__(self, stated: MIPStatement) -> None:
        self.stated, self.problem, self.candidates = stated, stated.problem, stated.candidates
        self.program = CutProgram(stated.problem, stated.candidates)
        self.tree = self.program.tree
        feature = self.candidates.feature[self.candidates.family]
        self.of = {j: np.flatnonzero(feature == j).tolist() for j in sorted(set(feature.tolist()))}

    def _begun(self) -> Any:
        """A model with the answers of the leaves."""
        model, K, slots = pyo.ConcreteModel(name=self.name), self.problem.n_outputs, range(self.tree.n_leaves)
        model.answers = pyo.Var(range(K), slots, domain=pyo.Binary)
        model.one_answer = pyo.Constraint(slots, rule=lambda m, leaf: sum(m.answers[k, leaf] for k in range(K)) == 1)
        return model

    def _ended(self, model: Any, loss: Any, splits: Any, on: Any) -> Any:
        """The model with its side constraints and its objective."""
        nothing: Any = None
        Side(self.problem, self.tree, list(self.of), splits, on, nothing, nothing).add(model, nothing)
        count = sum(splits(t) for t in range(self.tree.n_branches))
        model.cost = pyo.Objective(expr=loss + self.problem.price_per_split * count)
        return model

    def _point(self, model: Any, tree: Tree) -> Any:
        """The parts of a tree as a point, with its answers set; None where a split is no candidate."""
        point = self.program.encode(tree)
        if point is None:
            return None
        parts = self.program.parts(point)
        for (k, leaf), v in model.answers.items():
            v.set_value(float(parts.answer[leaf, k]))
        if hasattr(model, "uses"):
            for j, v in model.uses.items():
                v.set_value(float(parts.split[:, self.of[j]].any()))
        return parts

    def _tree(self, split: Floats) -> Tree:
        """The tree of the splits (branches, C); leaves are zero."""
        point = np.zeros(self.program.n_columns)
        point[: self.program.n_split] = split.ravel()
        return self.program.chosen(point)

    def refine(self, model: Any) -> bool:
        """There are no tangents."""
        return False


class Sinks(Membership):
    """CUT_F and CUT_W: ``right[q, l]`` says that a pattern is answered rightly at leaf l. For every branch and side,
    what is right below it is at most what the branch lets through: the sum over the leaves below ("cut"), or each of
    them ("cut-w"). No flows are needed.

    The linear program of "cut" has the value of that of "flow" (flows are the sums of what they end in), 0 or nearly
    so, with some 40 % of its variables at depth 2, and counts the errors of equal rows of several classes, which no
    tree can save, from the start; that of "cut-w" is no higher.

    References
    ----------
    Alston, Validi and Hicks, "Mixed integer linear optimization formulations for learning optimal binary classification
    trees", INFORMS Journal on Computing (2024).
    """

    def __init__(self, stated: MIPStatement) -> None:
        super().__init__(stated)
        self.whole, self.name = stated.formulation == "cut", stated.formulation.replace("-", "_")
        self.keys = [self.candidates.key(c) for c in range(len(self.candidates))]

    def build(self) -> Any:
        """The Pyomo model."""
        program, tree, model = self.program, self.tree, self._begun()
        branches, slots, every = range(tree.n_branches), range(tree.n_leaves), range(len(program.saved))
        model.split = pyo.Var([(t, *key) for t in branches for key in self.keys], domain=pyo.Binary)
        splits = {t: pyo.quicksum(model.split[t, *key] for key in self.keys) for t in branches}
        model.one_split = pyo.Constraint(branches, rule=lambda m, t: splits[t] <= 1)
        tree.order_splits(model, splits)
        model.right = pyo.Var(every, slots, bounds=(0.0, 1.0))
        answer = program.answer_of.tolist()
        model.right_answer = pyo.Constraint(
            every, slots, rule=lambda m, q, leaf: m.right[q, leaf] <= m.answers[answer[q], leaf]
        )
        model.passes = pyo.ConstraintList()
        for g in range(len(program.goes_right)):
            keys = [self.keys[c] for c in np.flatnonzero(program.goes_right[g])]
            own = np.flatnonzero(program.pattern_of == g).tolist()
            for t in branches if own else ():
                right = pyo.quicksum(model.split[t, *key] for key in keys)
                for child, most in ((2 * t + 1, 1 - right), (2 * t + 2, right)):
                    for q in own:
                        ends = [model.right[q, leaf] for leaf in tree.below(child)]
                        for part in [sum(ends)] if self.whole else ends:
                            model.passes.add(part <= most)
        if not self.whole or not tree.n_branches:  # which the sums below the root say, too
            model.once = pyo.Constraint(every, rule=lambda m, q: sum(m.right[q, leaf] for leaf in slots) <= 1)
        loss = program.offset - pyo.quicksum(float(program.saved[q]) * v for (q, _leaf), v in model.right.items())
        return self._ended(
            model,
            loss,
            splits.__getitem__,
            lambda t, j: pyo.quicksum(model.split[t, *self.keys[c]] for c in self.of[j]),
        )

    def encode(self, model: Any, tree: Tree) -> bool:
        """Set all variables."""
        parts = self._point(model, tree)
        if parts is None:
            return False
        for t in range(self.tree.n_branches):
            for c, key in enumerate(self.keys):
                model.split[t, *key].set_value(float(parts.split[t, c]))
        placed = self.tree.place(tree, self.problem.X)
        leaf = np.zeros(len(self.program.goes_right), np.int64)
        leaf[self.program.group] = placed.leaf
        for (q, slot), v in model.right.items():
            v.set_value(float(parts.right[q] and leaf[self.program.pattern_of[q]] == slot))
        return True

    def decode(self, model: Any) -> Tree:
        """The splits encoded in the variables."""
        values = [[model.split[t, *key].value or 0.0 for key in self.keys] for t in range(self.tree.n_branches)]
        return self._tree(np.array(values).reshape(self.tree.n_branches, len(self.keys)))


class BinOCT(Membership):
    """BinOCT: a branch has a feature and the bits of a threshold's number; big-M rows, each over many rows of the data,
    send these to the side that the bits known so far decide. The numbers of binary variables and of rows hardly depend
    on that of the data. The linear program has the value 0 but for the errors that no tree can save.

    References
    ----------
    Verwer and Zhang, "Learning optimal classification trees using a binary linear program formulation" (AAAI 2019). The
    rows are stated anew here: one for each node of the search tree over a feature's thresholds and each side.
    """

    name = "binoct"

    def build(self) -> Any:
        """The Pyomo model."""
        tree, model, features = self.tree, self._begun(), list(self.of)
        branches, slots = range(tree.n_branches), range(tree.n_leaves)
        groups = range(len(self.program.goes_right))
        bits = max(((len(c) - 1).bit_length() for c in self.of.values()), default=0)
        model.feature = pyo.Var(branches, features, domain=pyo.Binary)
        model.bit = pyo.Var(branches, range(bits), domain=pyo.Binary)
        model.at = pyo.Var(groups, slots, bounds=(0.0, 1.0))
        model.somewhere = pyo.Constraint(groups, rule=lambda m, g: sum(m.at[g, leaf] for leaf in slots) == 1)
        splits = {t: pyo.quicksum(model.feature[t, j] for j in features) for t in branches}
        model.one_split = pyo.Constraint(branches, rule=lambda m, t: splits[t] <= 1)
        tree.order_splits(model, splits)
        model.sides = pyo.ConstraintList()
        for t in branches:
            for j in features:
                for rows, child, differs in self._sides(j, bits):
                    below = tree.below(2 * t + 1 + child)
                    there = pyo.quicksum(model.at[g, leaf] for g in rows for leaf in below)
                    others = sum(1 - model.bit[t, b] if wanted else model.bit[t, b] for b, wanted in differs)
                    model.sides.add(there <= len(rows) * (1 - model.feature[t, j] + others))
            right = pyo.quicksum(model.at[g, leaf] for g in groups for leaf in tree.below(2 * t + 2))
            model.sides.add(right <= len(groups) * splits[t])
        costs = self._costs()
        model.lost = pyo.Var(slots, domain=pyo.NonNegativeReals)
        model.lost_if = pyo.Constraint(
            range(self.problem.n_outputs),
            slots,
            rule=lambda m, k, leaf: (
                pyo.quicksum(float(costs[g, k]) * m.at[g, leaf] for g in groups)
                <= m.lost[leaf] + float(costs[:, k].sum()) * (1 - m.answers[k, leaf])
            ),
        )
        least = float(self._all_costs().min(axis=1).sum())
        return self._ended(
            model, least + sum(model.lost.values()), splits.__getitem__, lambda t, j: model.feature[t, j]
        )

    def _all_costs(self) -> Floats:
        """(G, K) costs of the answers of patterns."""
        K = self.problem.n_outputs
        lost = self.problem.Y if self.problem.loss_function.chooses else 1.0 - (np.arange(K) == self.problem.Y)
        return self.program.by_pattern(self.problem.w[:, None] * lost)

    def _costs(self) -> Floats:
        """The same, less what no leaf spares."""
        costs = self._all_costs()
        spared: Floats = costs - costs.min(axis=1, keepdims=True)
        return spared

    def _codes(self, j: int) -> dict[int, Code]:
        """The bits of each threshold of a feature, by halves: 1 is the upper half."""
        codes: dict[int, Code] = {}

        def halve(part: list[int], code: Code) -> None:
            if len(part) == 1:
                codes[part[0]] = code
                return
            middle = (len(part) + 1) // 2
            halve(part[:middle], (*code, 0))
            halve(part[middle:], (*code, 1))

        halve(list(self.of[j]), ())
        return codes

    def _sides(self, j: int, bits: int) -> Iterator[tuple[list[int], int, list[tuple[int, int]]]]:
        """Patterns that must not be on a side (0: left, 1: right) if a branch splits on a feature and its bits, so far,
        are some: these as (number, value).
        """
        goes_right, codes = self.program.goes_right, self._codes(j)
        prefixes = {code[:n] for code in codes.values() for n in range(len(code) + 1)}
        for prefix in sorted(prefixes):
            inside = [c for c in self.of[j] if codes[c][: len(prefix)] == prefix]
            known = list(enumerate(prefix))
            always_right = np.flatnonzero(goes_right[:, inside].all(axis=1)).tolist()  # above the largest threshold
            always_left = np.flatnonzero(~goes_right[:, inside].any(axis=1)).tolist()
            if always_right:
                yield always_right, 0, known
            if always_left:
                yield always_left, 1, known

    def encode(self, model: Any, tree: Tree) -> bool:
        """Set all variables."""
        parts = self._point(model, tree)
        if parts is None:
            return False
        for v in (*model.feature.values(), *model.bit.values()):
            v.set_value(0.0)
        for t in range(self.tree.n_branches):
            for c in np.flatnonzero(parts.split[t]).tolist():
                j = int(self.candidates.feature[self.candidates.family[c]])
                model.feature[t, j].set_value(1.0)
                for b, value in enumerate(self._codes(j)[c]):
                    model.bit[t, b].set_value(float(value))
        placed = self.tree.place(tree, self.problem.X)
        leaf = np.zeros(len(self.program.goes_right), np.int64)
        leaf[self.program.group] = placed.leaf
        for (g, slot), v in model.at.items():
            v.set_value(float(leaf[g] == slot))
        costs, spent = self._costs(), np.zeros(self.tree.n_leaves)
        np.add.at(spent, leaf, costs[np.arange(len(leaf)), parts.answer.argmax(axis=1)[leaf]])
        for slot, v in model.lost.items():
            v.set_value(float(spent[slot]))
        return True

    def decode(self, model: Any) -> Tree:
        """The splits encoded in the variables."""
        split = np.zeros((self.tree.n_branches, len(self.candidates)))
        for t in range(self.tree.n_branches):
            for j in self.of:
                if (model.feature[t, j].value or 0.0) > 0.5:
                    codes = self._codes(j)
                    bits = [int((v.value or 0.0) > 0.5) for (node, _b), v in model.bit.items() if node == t]
                    same = [c for c, code in codes.items() if tuple(bits[: len(code)]) == code]
                    split[t, same[0]] = 1.0
        return self._tree(split)
