"""Leaves and losses of "flow" and "big-m", given the leaf of each row; tangents to squared errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyomo.core as pyo
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.problems.exact.leaves import leaves_in_range, output_range
from opttree.problems.mip.complete import Placed
from opttree.problems.mip.statement import MIPStatement
from opttree.statement.constraints import AnswerLimit, MaxDifference, MaxShare
from opttree.statement.numbers import unit_range
from opttree.statement.penalties import L1

Floats = NDArray[np.float64]
FIRST_TANGENTS = 8
OUTER = "A relaxation: losses are bounded from below by tangents, so that its optimum is below the problem's."
NEW_TANGENT = 1e-9  # least violation for which a tangent is added, relative to the largest squared error, or 1
SUREST = 1.0 - 3e-6  # largest residual of a tangent to the log loss: it stays below the capped loss of the statement


class Leaves:
    """Predictions of the leaves and the loss of every row, on outputs scaled to [0, 1] and features in [0, 1].

    Under log loss, of two classes, the output is the probability of the second: the loss of a row is ``-log(1 - r)``
    for its residual r. Rows are in groups with the same path through the tree; ``at(g, l)`` is whether group g is at
    leaf l.
    """

    def __init__(self, stated: MIPStatement, group: NDArray[np.integer], n_leaves: int) -> None:
        self.problem, self.bound = stated.problem, stated.coef_bound
        self.group, self.leaves = group.tolist(), range(n_leaves)
        self.low, self.scale = unit_range(self.problem.X)
        self.X = (self.problem.X - self.low) / self.scale
        form = self.problem.loss_function.form
        self.by_class = form == "errors" or self.problem.loss_function.chooses
        if not self.by_class:
            self.y_low, self.y_scale = output_range(self.problem)
            self.Y = (self.problem.Y - self.y_low) / self.y_scale
        self.squared, self.log = form == "quadratic", form == "entropy"
        self.tangents = self.log or (self.squared and stated.objective == "outer")

    def named_model(self, name: str) -> Any:
        """An empty model whose name and ``doc`` say whether its objective is exact or a relaxation."""
        if self.tangents:
            return pyo.ConcreteModel(name=f"{name}_outer", doc=OUTER)
        return pyo.ConcreteModel(name=name)

    def add(self, model: Any, at: Any) -> Any:
        """Add leaves and losses to ``model``; the weighted mean loss, penalties on leaves included."""
        return self._errors(model, at) if self.by_class else self._residuals(model, at)

    def add_order(self, model: Any, constraints: Any, a: int, b: int, where: Any) -> None:
        """Add that leaf a answers at most what leaf b does if ``where`` is 1."""
        if self.by_class:
            most: float = self.problem.n_outputs - 1
            first, second = (sum(k * model.answers[k, leaf] for k in range(self.problem.n_outputs)) for leaf in (a, b))
        else:
            most = float(self.Y.max())
            first, second = model.value[a, 0], model.value[b, 0]
        constraints.add(first <= second + most * (1 - where))

    def add_parity(self, model: Any, constraints: Any, shares: Floats, tolerance: float) -> None:
        """Add that the mean answers of any two groups of rows, weighted by ``shares (groups, n)``, differ by at most
        ``tolerance``.
        """
        means = [self._means(model, share) for share in shares]
        unit = 1.0 if self.by_class else self.y_scale
        for first in range(len(means)):
            for second in range(len(means)):
                if first != second:
                    for a, b in zip(means[first], means[second], strict=True):
                        constraints.add(unit * (a - b) <= tolerance)

    def add_limits(self, model: Any, constraints: Any, weights: Floats, most: float) -> None:
        """Add that the ``weights (n, K)`` of the rows' answers add up to ``most`` at most."""
        sums = np.zeros((max(self.group) + 1, weights.shape[1]))
        np.add.at(sums, self.group, weights)
        there = [(g, k, float(sums[g, k])) for g, k in zip(*np.nonzero(sums), strict=True)]
        given = (w * model.given[g, leaf, k] for g, k, w in there for leaf in self.leaves)
        constraints.add(pyo.quicksum(given) <= most)

    def _means(self, model: Any, share: Floats) -> list[Any]:
        """The weighted mean of each answer; scaled to [0, 1] in regression."""
        weight: dict[int, float] = {}
        linear = self.problem.leaves == "linear"
        for i, s in enumerate(share.tolist()):
            key = i if linear else self.group[i]
            weight[key] = weight.get(key, 0.0) + s
        table = model.given if self.by_class else model.fit
        outputs = range(self.problem.n_outputs if self.by_class else self.problem.Y.shape[1])
        return [
            pyo.quicksum(w * table[key, leaf, k] for key, w in weight.items() if w > 0.0 for leaf in self.leaves)
            for k in outputs
        ]

    def _errors(self, model: Any, at: Any) -> Any:
        """0/1 loss: ``right[g, k, l]`` of the class-k rows of group g are at leaf l, which predicts k. Costs of
        actions: of group g, which saves what action k costs less than the worst one.
        """
        most, saved = self._choices()
        weight = {(g, k): v for g, row in enumerate(saved.tolist()) for k, v in enumerate(row) if v > 0.0}
        model.answers = pyo.Var(range(self.problem.n_outputs), self.leaves, domain=pyo.Binary)
        model.one_answer = pyo.Constraint(
            self.leaves, rule=lambda m, leaf: sum(m.answers[k, leaf] for k in range(self.problem.n_outputs)) == 1
        )
        model.right = pyo.Var([(g, k, leaf) for g, k in weight for leaf in self.leaves], bounds=(0.0, 1.0))
        model.right_there = pyo.Constraint(
            model.right.index_set(), rule=lambda m, g, k, leaf: m.right[g, k, leaf] <= at(g, leaf)
        )
        model.right_answer = pyo.Constraint(
            model.right.index_set(), rule=lambda m, g, k, leaf: m.right[g, k, leaf] <= m.answers[k, leaf]
        )
        if any(isinstance(c, (MaxDifference, MaxShare, AnswerLimit)) for c in self.problem.constraints):
            self._add_given(model, at)
        return most - pyo.quicksum(weight[g, k] * v for (g, k, _leaf), v in model.right.items())

    def _choices(self) -> tuple[float, Floats]:
        """The loss of the worst answers, and how much of it each group saves by each answer (groups, K)."""
        problem = self.problem
        saved = np.zeros((max(self.group) + 1, problem.n_outputs))
        if problem.is_classification:
            np.add.at(saved, (self.group, problem.Y[:, 0].astype(int)), problem.w)
            return 1.0, saved
        np.add.at(saved, self.group, problem.w[:, None] * problem.Y)
        worst = saved.max(axis=1)
        return float(worst.sum()), worst[:, None] - saved

    def _add_given(self, model: Any, at: Any) -> None:
        """``given[g, l, k]``: group g is at leaf l, which predicts k."""
        model.given = pyo.Var(sorted(set(self.group)), self.leaves, range(self.problem.n_outputs), bounds=(0.0, 1.0))
        index = model.given.index_set()
        model.given_there = pyo.Constraint(index, rule=lambda m, g, leaf, k: m.given[g, leaf, k] <= at(g, leaf))
        model.given_answer = pyo.Constraint(index, rule=lambda m, g, leaf, k: m.given[g, leaf, k] <= m.answers[k, leaf])
        model.given_if = pyo.Constraint(
            index, rule=lambda m, g, leaf, k: m.given[g, leaf, k] >= at(g, leaf) + m.answers[k, leaf] - 1
        )

    def _residuals(self, model: Any, at: Any) -> Any:
        problem, K = self.problem, range(self.Y.shape[1])
        n, p = self.X.shape
        top = self.Y.max(axis=0)
        linear = problem.leaves == "linear"
        bounds = (lambda _m, _l, k: (-self.bound, self.bound)) if linear else (lambda _m, _l, k: (0.0, top[k]))
        model.value = pyo.Var(self.leaves, K, bounds=bounds)
        total: Any = 0.0
        if linear:
            model.coef = pyo.Var(self.leaves, K, range(p), bounds=(-self.bound, self.bound))
            strength = problem.strength(L1, "leaves")
            if strength:  # the statement's weights are in units of the unscaled features
                model.coef_size = pyo.Var(self.leaves, K, range(p), bounds=(0.0, self.bound))
                model.coef_above = pyo.Constraint(
                    model.coef.index_set(), rule=lambda m, *i: m.coef_size[i] >= m.coef[i]
                )
                model.coef_below = pyo.Constraint(
                    model.coef.index_set(), rule=lambda m, *i: m.coef_size[i] >= -m.coef[i]
                )
                total += strength * sum(
                    self.y_scale / self.scale[j] * v for (_leaf, _k, j), v in model.coef_size.items()
                )
        if linear:  # the fit is bounded by the coefficients only
            reach = self.bound * (1.0 + self.X.sum(axis=1))
            ranges = {(i, k): (-reach[i], reach[i]) for i in range(n) for k in K}
            keys = list(range(n))
        else:
            keys = sorted(set(self.group))
            ranges = {(g, k): (0.0, top[k]) for g in keys for k in K}
        group_of = dict(enumerate(self.group)) if linear else {g: g for g in keys}

        def answer(m: Any, i: int, leaf: int, k: int) -> Any:
            fit = m.value[leaf, k]
            return fit + sum(m.coef[leaf, k, j] * self.X[i, j] for j in range(p)) if linear else fit

        # fit = at * answer by McCormick's envelope, which is exact if ``at`` is 0 or 1
        model.fit = pyo.Var(keys, self.leaves, K)
        index = model.fit.index_set()
        model.fit_low = pyo.Constraint(
            index, rule=lambda m, i, leaf, k: m.fit[i, leaf, k] >= ranges[i, k][0] * at(group_of[i], leaf)
        )
        model.fit_high = pyo.Constraint(
            index, rule=lambda m, i, leaf, k: m.fit[i, leaf, k] <= ranges[i, k][1] * at(group_of[i], leaf)
        )
        model.fit_above = pyo.Constraint(
            index,
            rule=lambda m, i, leaf, k: (
                m.fit[i, leaf, k] >= answer(m, i, leaf, k) - ranges[i, k][1] * (1 - at(group_of[i], leaf))
            ),
        )
        model.fit_below = pyo.Constraint(
            index,
            rule=lambda m, i, leaf, k: (
                m.fit[i, leaf, k] <= answer(m, i, leaf, k) - ranges[i, k][0] * (1 - at(group_of[i], leaf))
            ),
        )
        of = (lambda i: i) if linear else (lambda i: self.group[i])
        return total + self._loss_of_fit(model, lambda m, i, k: sum(m.fit[of(i), leaf, k] for leaf in self.leaves))

    def _loss_of_fit(self, model: Any, fitted: Any) -> Any:
        """The mean loss of the predictions ``fitted(model, row, output)``, in terms of their residuals."""
        rows, K = range(self.X.shape[0]), range(self.Y.shape[1])
        model.residual = pyo.Var(rows, K, domain=pyo.NonNegativeReals)
        model.residual_above = pyo.Constraint(
            rows, K, rule=lambda m, i, k: m.residual[i, k] >= self.Y[i, k] - fitted(m, i, k)
        )
        model.residual_below = pyo.Constraint(
            rows, K, rule=lambda m, i, k: m.residual[i, k] >= fitted(m, i, k) - self.Y[i, k]
        )
        losses: Any = model.residual
        if self.squared and not self.tangents:
            losses = {index: residual**2 for index, residual in model.residual.items()}
        if self.tangents:
            model.square = pyo.Var(rows, K, domain=pyo.NonNegativeReals)
            model.tangent = pyo.ConstraintList()
            top = self.Y.max(axis=0)
            largest = [float(max(self.Y[i, k], top[k] - self.Y[i, k])) for i in rows for k in K]
            for (i, k), far in zip(model.square, largest, strict=True):
                for t in np.linspace(0.0, far, FIRST_TANGENTS)[0 if self.log else 1 :]:
                    self._touch(model, i, k, float(t))
            losses = model.square
        unit = 1.0 if self.log else self.y_scale**2 if self.squared else self.y_scale
        return unit * pyo.quicksum(self.problem.w[i] * v for (i, _k), v in losses.items())

    def _touch(self, model: Any, i: int, k: int, t: float) -> None:
        """Add the tangent of ``square >= residual^2``, or ``-log(1 - residual)``, at ``residual = t``."""
        t = min(t, SUREST) if self.log else t
        slope = 1.0 / (1.0 - t) if self.log else 2.0 * t
        model.tangent.add(model.square[i, k] >= self._loss(t) + slope * (model.residual[i, k] - t))

    def _loss(self, residual: Any) -> Any:
        """The loss of a residual, squared or log."""
        return -np.log1p(-np.minimum(residual, SUREST)) if self.log else residual * residual

    def refine(self, model: Any) -> bool:
        """Add the tangents that the solution violates; returns whether there were any."""
        if not self.tangents:
            return False
        is_cut = False
        for (i, k), square in model.square.items():
            r = float(model.residual[i, k].value)
            if self._loss(r) - float(square.value) > NEW_TANGENT:
                self._touch(model, i, k, r)
                is_cut = True
        return is_cut

    def decode(self, model: Any, tree: Tree, place: list[int]) -> Tree:
        """``tree`` with the leaves of the variables."""
        if self.by_class:
            K = range(self.problem.n_outputs)
            return replace(tree, values=np.array([[model.answers[k, slot].value or 0.0 for k in K] for slot in place]))
        K, p = range(self.Y.shape[1]), range(self.X.shape[1])
        values = np.array([[model.value[slot, k].value or 0.0 for k in K] for slot in place])
        if self.log:
            return replace(tree, values=np.clip(np.column_stack([1.0 - values, values]), 0.0, 1.0))
        if self.problem.leaves == "constant":
            return replace(tree, values=values * self.y_scale + self.y_low)
        coefs = np.array([[[model.coef[slot, k, j].value or 0.0 for j in p] for k in K] for slot in place])
        coefs = coefs * self.y_scale / self.scale
        return replace(tree, values=values * self.y_scale + self.y_low - coefs @ self.low, coefs=coefs)

    def encode(self, model: Any, tree: Tree, placed: Placed) -> None:
        """Set the variables to those of ``tree``; a model leaf without rows answers as the tree's leaf above it."""
        leaf, place = placed.leaf, placed.place
        if self.by_class:
            answer = tree.values.argmax(axis=1)[placed.owner]
            for (k, slot), v in model.answers.items():
                v.set_value(float(answer[slot] == k))
            where = dict(zip(self.group, leaf.tolist(), strict=True))
            for (g, k, slot), v in model.right.items():
                v.set_value(float(where[g] == slot and answer[slot] == k))
            if hasattr(model, "given"):
                for (g, slot, k), v in model.given.items():
                    v.set_value(float(where[g] == slot and answer[slot] == k))
            return
        own_values, own_coefs = (tree.values[:, 1:], None) if self.log else leaves_in_range(self.problem, tree)
        values = own_values[placed.owner]
        if self.problem.leaves == "constant":  # rounding may put them outside
            values = np.clip(values, 0.0, self.Y.max(axis=0))
        coefs = np.zeros((*values.shape, self.X.shape[1]))
        if tree.linear_leaves:
            coefs[place] = own_coefs
            for index, v in model.coef.items():
                v.set_value(float(coefs[index]))
            if hasattr(model, "coef_size"):
                for index, v in model.coef_size.items():
                    v.set_value(abs(float(coefs[index])))
        for index, v in model.value.items():
            v.set_value(float(values[index]))
        linear = self.problem.leaves == "linear"
        where = dict(enumerate(leaf.tolist())) if linear else dict(zip(self.group, leaf.tolist(), strict=True))
        answers = values[leaf] + np.einsum("ikj,ij->ik", coefs[leaf], self.X)
        for (i, slot, k), v in model.fit.items():
            there = where[i] == slot
            v.set_value(float(answers[i, k] if linear else values[slot, k]) if there else 0.0)
        residual = np.abs(self.Y - answers)
        for index, v in model.residual.items():
            v.set_value(float(residual[index]))
        if self.tangents:
            for index, v in model.square.items():
                v.set_value(float(self._loss(residual[index])))
