"""The master of `ColumnGeneration`: a linear program in HiGHS that grows by columns, with the prices of all paths."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opttree.problems.mip.paths import Paths, Prices
from opttree.statement.constraints import FeatureCost, MaxFeatures, MaxSplits, RequireSplit
from opttree.statement.constraints.base import EXACT
from solvers.exact.lagrangian import Limits
from solvers.mip.highs_process import Quiet

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
PER_SLOT = 200  # columns that a round adds for each slot
TOLERANCE = 1e-7  # of reduced costs, in units of the mean cost of a pattern
PENALTY, MOST_PENALTY = 10.0, 1e7  # in units of the largest objective, for what is not kept yet
MOST_COLUMNS = 200_000  # of the program that ends the run


class Duals(NamedTuple):
    """Dual values of the master of `ColumnGeneration`, in the units of its costs.

    Parameters
    ----------
    choice : ndarray of shape (slots, top, splits + 1)
        Of the rows that say that a slot's paths choose, at each level, the split that the branch does.
    cover : ndarray of shape (G,)
        Of the rows that cover each distinct row.
    limits : ndarray of shape (M,)
        Multipliers >= 0 of the limits on answers.

    See Also
    --------
    Pricer : is given them

    Examples
    --------
    >>> import numpy as np
    >>> from solvers import Duals
    >>> Duals(np.zeros((4, 2, 11)), np.zeros(100), np.zeros(0)).choice.shape
    (4, 2, 11)
    """

    choice: Floats
    cover: Floats
    limits: Floats


class Column(NamedTuple):
    """A path of `ColumnGeneration`.

    Parameters
    ----------
    slot : int
        Number of the place below the top levels, from left to right, that it leads to.
    path : int
        Its number among ``paths.splits[slot]``.

    See Also
    --------
    Pricer : finds them

    Examples
    --------
    >>> from solvers import Column
    >>> Column(slot=0, path=7)
    Column(slot=0, path=7)
    """

    slot: int
    path: int


class Rows:
    """Where the rows of the master are, and those on the choices of branches: ``A (rows, choices) b <= h``, with
    further variables ``u`` for the features that are used.
    """

    def __init__(self, paths: Paths, limits: Limits | None, cover: bool) -> None:
        self.paths, tree, self.width = paths, paths.tree, paths.none + 1
        self.first = tree.n_branches if paths.top else 1  # without branches: one row for the only slot
        self.cover = self.first + tree.n_leaves * paths.top * self.width
        self.n_patterns = len(paths.rows) if cover else 0
        self.limits = self.cover + self.n_patterns
        self.n_limits = 0 if limits is None else len(limits.h)
        self.side = self.limits + self.n_limits
        self.A, self.U, self.h = self._on_branches()
        self.count = self.side + len(self.h)

    def choice(self, slot: int, level: int) -> int:
        """The first row of the choices of a slot's paths at a level."""
        return self.first + (slot * self.paths.top + level) * self.width

    def _on_branches(self) -> tuple[Floats, Floats, Floats]:
        paths, B = self.paths, self.paths.tree.n_branches
        problem, candidates = paths.problem, paths.candidates
        feature = np.append(candidates.feature[candidates.family], -1)
        used = sorted({int(j) for j in feature if j >= 0})
        counted = [c for c in problem.constraints if isinstance(c, (MaxFeatures, FeatureCost))]
        n_used = len(used) if counted else 0
        A: list[Floats] = []
        U: list[Floats] = []
        h: list[float] = []

        def add(b: Floats, u: Floats | None, most: float) -> None:
            A.append(b.ravel())
            U.append(np.zeros(n_used) if u is None else u)
            h.append(most)

        if counted:
            for t in range(B):
                for f, j in enumerate(used):
                    b = np.zeros((B, self.width))
                    b[t] = feature == j
                    add(b, -np.eye(n_used)[f], 0.0)
        for c in problem.constraints:
            if isinstance(c, MaxSplits):
                add(np.tile(feature_or_split(self.width), (B, 1)), None, float(c.k))
            elif isinstance(c, MaxFeatures):
                add(np.zeros((B, self.width)), np.ones(n_used), float(c.k))
            elif isinstance(c, FeatureCost):
                costs = c.of(problem)[used]
                add(np.zeros((B, self.width)), costs, float(c.budget))
            elif isinstance(c, RequireSplit):
                there = np.array([c.at(paths.tree.level(t)) for t in range(B)], bool).reshape(B, 1)
                add(-1.0 * (there & (feature == c.feature)), None, -1.0)
        return np.array(A).reshape(len(h), B * self.width), np.array(U).reshape(len(h), n_used), np.array(h)


def feature_or_split(width: int) -> Floats:
    """1 for each split, 0 for none."""
    ones = np.ones(width)
    ones[-1] = 0.0
    return ones


class Master:
    """The master: variables of choices and features, penalties, and columns of paths."""

    def __init__(self, paths: Paths, limits: Limits | None, cover: bool, leaf: float) -> None:
        self.paths, self.limits, self.rows = paths, limits, Rows(paths, limits, cover)
        self.unit = leaf / len(paths.rows) or 1.0
        problem, rows, tree = paths.problem, self.rows, paths.tree
        self.price = problem.price_per_split / self.unit * feature_or_split(rows.width)
        worst = 2.0 * leaf if limits is None else float(limits.costs.max(axis=1).sum())
        self.most = (worst + problem.price_per_split * 2**problem.depth) / self.unit * (1.0 + 1e-6) + 1e-3
        if limits is not None:
            table = paths.by_pattern(limits.G.transpose(1, 2, 0))
            self.table = paths.by_pattern(limits.costs) / self.unit, table
            self.answers = paths.answered(*self.table) if paths.top == problem.depth else None
        self.duals: Duals | None = None
        self._priced: tuple[Floats, Floats, Floats, NDArray[np.intp]] | None = None
        self.status, self.penalty = "", PENALTY * self.most
        self.choice: list[Ints] | None = None
        self.value = -math.inf
        self._begin(tree.n_branches * rows.width)

    # ---- the linear program ---------------------------------------------------------------------------------------

    def _begin(self, n_choices: int) -> None:
        rows, tree, highs = self.rows, self.paths.tree, Quiet()
        highs.setOptionValue("output_flag", False)
        highs.setOptionValue("threads", 1)
        low, high = np.zeros(rows.count), np.zeros(rows.count)
        low[: rows.first] = high[: rows.first] = 1.0
        low[rows.cover : rows.limits] = high[rows.cover : rows.limits] = 1.0
        low[rows.limits :] = -np.inf
        if self.limits is not None:
            high[rows.limits : rows.side] = self.limits.h + EXACT
        high[rows.side :] = rows.h
        none: Any = np.zeros(0, np.int32)
        highs.addRows(rows.count, low, high, 0, none, none, np.zeros(0))
        self.highs, self.n_fixed = highs, 0
        for t in range(tree.n_branches):
            d = tree.level(t)
            for c in range(rows.width):
                places = [t, *(rows.choice(slot, d) + c for slot in tree.below(t))]
                side = np.flatnonzero(rows.A[:, t * rows.width + c])
                values = [1.0, *[-1.0] * (len(places) - 1), *rows.A[side, t * rows.width + c]]
                self._add_fixed(float(self.price[c]), 1.0, [*places, *(rows.side + side)], values)
        for f in range(rows.U.shape[1]):
            side = np.flatnonzero(rows.U[:, f])
            self._add_fixed(0.0, 1.0, rows.side + side, rows.U[side, f])
        self.n_free = self.n_fixed
        for row in range(rows.limits, rows.count):
            self._add_fixed(self.penalty, np.inf, [row], [-1.0])
        tops = [rows.choice(0, d) + rows.width - 1 for d in range(self.paths.top)] or [0]
        every = [*tops, *range(rows.cover, rows.limits)]
        self._add_fixed(self.penalty, np.inf, every, np.ones(len(every)))
        self.n_columns = 0

    def _add_fixed(self, cost: float, upper: float, places: Any, values: Any) -> None:
        self.highs.addCol(cost, 0.0, upper, len(places), np.asarray(places, np.int32), np.asarray(values, np.float64))
        self.n_fixed += 1

    def solve(self, seconds: float) -> None:
        """Solve the linear program in some seconds; ``duals`` is None where that fails."""
        if math.isfinite(seconds):
            self.highs.setOptionValue("time_limit", self.highs.getRunTime() + max(seconds, 0.0))
        self.highs.run()
        self.duals = self._priced = None
        self.status = self.highs.getModelStatus().name.removeprefix("k")
        if self.status != "Optimal":
            return
        solution, rows, paths = self.highs.getSolution(), self.rows, self.paths
        self.values = np.array(solution.col_value)
        y = np.array(solution.row_dual)
        choice = y[rows.first : rows.cover].reshape(paths.tree.n_leaves, paths.top, rows.width)
        cover = y[rows.cover : rows.limits] if rows.n_patterns else np.zeros(len(paths.rows))
        self.duals = Duals(choice, cover, np.maximum(-y[rows.limits : rows.side], 0.0))
        self.side = np.maximum(-y[rows.side :], 0.0)

    @property
    def is_kept(self) -> bool:
        """Whether the solution pays no penalty."""
        return bool(self.values[self.n_free : self.n_fixed].max(initial=0.0) < TOLERANCE)

    def raise_penalty(self) -> bool:
        """Raise the penalties; returns whether they may be higher."""
        self.penalty *= 10.0
        for column in range(self.n_free, self.n_fixed):
            self.highs.changeColCost(column, self.penalty)
        return self.penalty <= MOST_PENALTY * self.most

    # ---- prices ---------------------------------------------------------------------------------------------------

    def _ends(self) -> tuple[Floats, Floats, Floats, NDArray[np.intp]]:
        """Of each set: cost with prices of the limits and of the cover, plain cost, use of the limits, answer."""
        if self._priced is None:
            assert self.duals is not None
            paths, used = self.paths, np.zeros((len(self.paths.words), 0))
            answer = np.full(len(used), -1)
            if self.limits is None:
                plain = paths.value / self.unit
            elif self.answers is not None:
                table, uses = self.answers
                answer = (table + uses @ self.duals.limits).argmin(axis=1)
                every = np.arange(len(answer))
                plain, used = table[every, answer], uses[every, answer]
            else:
                found: Prices = paths.priced(*self.table, self.duals.limits)
                plain, used, self.choice = found.cost, found.used, found.choice
            full = plain + used @ self.duals.limits if used.shape[1] else plain.copy()
            full -= paths.sums(self.duals.cover)
            self._priced = full, plain, used, answer
        return self._priced

    def _reduced(self, slot: int, ends: Floats) -> Floats:
        """Reduced costs of the paths to a slot, whose sets cost ``ends`` (S,)."""
        splits, sets = self.paths.splits[slot], self.paths.sets[slot]
        assert self.duals is not None
        cost = np.where(sets >= 0, ends[sets], 0.0)
        for d in range(self.paths.top):
            cost -= self.duals.choice[slot, d][splits[:, d]]
        return cost

    def _choices(self) -> Floats:
        """Reduced costs of the choices of each branch (branches, splits + 1), their own rows aside."""
        tree, rows = self.paths.tree, self.rows
        assert self.duals is not None
        found = np.tile(self.price, (tree.n_branches, 1)) + (self.side @ rows.A).reshape(tree.n_branches, rows.width)
        for t in range(tree.n_branches):
            below = tree.below(t)
            found[t] += self.duals.choice[below.start : below.stop, tree.level(t)].sum(axis=0)
        return found

    def priced(self) -> tuple[list[Column], float]:
        """The columns of least reduced cost, if negative, and the bound of the dual values, in units."""
        assert self.duals is not None
        ends, rows, found = self._ends()[0], self.rows, []
        value = float(self.duals.cover.sum()) - float(self.side @ rows.h)
        if self.limits is not None:
            value -= float(self.duals.limits @ (self.limits.h + EXACT))
        value += float(self._choices().min(axis=1).sum()) + float(np.minimum(self.side @ rows.U, 0.0).sum())
        offset = 0.0 if self.paths.top else self._only()
        for slot in range(self.paths.tree.n_leaves):
            cost = self._reduced(slot, ends)
            value += float(cost.min(initial=np.inf))
            some = np.flatnonzero(cost - offset < -TOLERANCE)
            if some.size > PER_SLOT:  # the best with each last split, then the best
                order = some[np.argsort(cost[some], kind="stable")]
                last = self.paths.splits[slot][order, -1] if self.paths.top else np.zeros(order.size)
                _c, first = np.unique(last, return_index=True)
                some = order[np.sort(first)][:PER_SLOT]
            found += [Column(slot, int(path)) for path in some]
        self.value = value
        return found, value

    def _only(self) -> float:
        """The dual value of the only slot's row, where there are no branches."""
        return float(np.array(self.highs.getSolution().row_dual)[0])

    def negative(self, columns: list[Column]) -> list[Column]:
        """Those of negative reduced cost."""
        ends, found = self._ends()[0], []
        for slot in {column.slot for column in columns}:
            cost = self._reduced(slot, ends)
            paths = {column.path for column in columns if column.slot == slot}
            found += [Column(slot, path) for path in sorted(paths) if cost[path] < -TOLERANCE]
        return found

    def add(self, columns: list[Column]) -> bool:
        """Add columns; returns whether there are any."""
        _full, plain, used, _answer = self._ends()
        for slot, path in columns:
            number = int(self.paths.sets[slot][path])
            self._add(slot, path, 0.0 if number < 0 else plain[number], used[number] if number >= 0 else None)
        return len(columns) > 0

    def add_tree(self, chosen: list[int]) -> None:
        """Add the paths of a tree, with the cheapest leaves, before the first solution."""
        for slot in range(self.paths.tree.n_leaves):
            found = self.paths.path_of(chosen, slot)
            if found is None:
                continue
            number = int(self.paths.sets[slot][found[1]])
            if number < 0:
                self._add(slot, found[1], 0.0, None)
            elif self.limits is None:
                self._add(slot, found[1], float(self.paths.value[number]) / self.unit, None)
            elif self.answers is not None:
                for plain, used in zip(self.answers[0][number], self.answers[1][number], strict=True):
                    self._add(slot, found[1], float(plain), used)

    def _entries(self, slot: int, path: int, used: Floats | None) -> tuple[Ints, Floats]:
        """Rows and values of a column."""
        rows, paths = self.rows, self.paths
        splits, number = paths.splits[slot][path], int(paths.sets[slot][path])
        places = [rows.choice(slot, d) + int(c) for d, c in enumerate(splits)] or [0]
        values = [1.0] * len(places)
        if rows.n_patterns:
            inside = rows.cover + np.flatnonzero(paths.holds(number))
            places += inside.tolist()
            values += [1.0] * len(inside)
        if used is not None:
            some = np.flatnonzero(used)
            places += (rows.limits + some).tolist()
            values += used[some].tolist()
        return np.array(places), np.array(values)

    def _add(self, slot: int, path: int, cost: float, used: Floats | None) -> None:
        places, values = self._entries(slot, path, used)
        self.highs.addCol(float(cost), 0.0, np.inf, len(places), places.astype(np.int32), values)
        self.n_columns += 1

    # ---- trees and the program at the end -------------------------------------------------------------------------

    def most_used(self) -> list[int]:
        """The choice of each branch that the solution uses most."""
        return self.chosen(self.values)

    def chosen(self, values: Floats) -> list[int]:
        """The choice of each branch in a point."""
        B, width = self.paths.tree.n_branches, self.rows.width
        table = values[: B * width].reshape(B, width)
        found: list[int] = table.argmax(axis=1).tolist()
        for t in range(1, B):
            if found[(t - 1) // 2] == self.paths.none:
                found[t] = self.paths.none
        return found

    def within(self, room: float) -> tuple[dict[str, Any] | None, int]:
        """The program of all choices and columns whose reduced costs are at most ``room`` above the least; how many
        columns it has, and None instead where that is too many.
        """
        paths, limit = self.paths, room + 10.0 * TOLERANCE
        choices = self._choices()
        allowed = choices - choices.min(axis=1, keepdims=True) <= limit
        full = self._ends()[0]
        kept: list[tuple[int, int, int]] = []
        count, by_answer = 0, self.limits is not None and self.answers is not None
        for slot in range(paths.tree.n_leaves):
            ends = full[:, None]
            if by_answer:
                assert self.answers is not None
                assert self.duals is not None
                ends = self.answers[0] + self.answers[1] @ self.duals.limits
                ends = ends - paths.sums(self.duals.cover)[:, None]
            least = self._reduced(slot, full).min(initial=np.inf)
            for k in range(ends.shape[1]):
                near = np.flatnonzero(self._reduced(slot, ends[:, k]) - least <= limit)
                for d, (t, _left) in enumerate(reversed(paths.tree.turns(slot))):
                    near = near[allowed[t, paths.splits[slot][near, d]]]
                count += near.size
                if count > MOST_COLUMNS:
                    return None, count
                kept += [(slot, int(path), k if by_answer else -1) for path in near]
        columns = []
        for slot, path, k in kept:
            number = int(paths.sets[slot][path])
            used, cost = None, 0.0
            if number >= 0 and by_answer:
                assert self.answers is not None
                used, cost = self.answers[1][number, k], float(self.answers[0][number, k])
            elif number >= 0:
                cost = float(paths.value[number]) / self.unit
            columns.append((cost, *self._entries(slot, path, used)))
        return self._program(columns, allowed.ravel(), by_answer), count

    def _program(self, columns: list[tuple[float, Ints, Floats]], allowed: NDArray[np.bool_], whole: bool) -> Any:
        lp = self.highs.getLp()
        n = self.n_free
        start = np.array(lp.a_matrix_.start_)[: n + 1]
        index, value = np.array(lp.a_matrix_.index_)[: start[-1]], np.array(lp.a_matrix_.value_)[: start[-1]]
        starts = start[-1] + np.cumsum([len(places) for _cost, places, _values in columns])
        upper = np.ones(n + len(columns))
        upper[: len(allowed)] = allowed
        integer = np.zeros(len(upper), bool)
        integer[:n] = True
        integer[n:] = whole
        return {
            "n_columns": len(upper),
            "n_rows": self.rows.count,
            "col_cost_": np.concatenate([np.array(lp.col_cost_)[:n], [cost for cost, _places, _values in columns]]),
            "col_lower_": np.zeros(len(upper)),
            "col_upper_": upper,
            "row_lower_": np.array(lp.row_lower_),
            "row_upper_": np.array(lp.row_upper_),
            "matrix": (
                np.concatenate([start, starts]).astype(np.int32),
                np.concatenate([index, *(places for _cost, places, _values in columns)]).astype(np.int32),
                np.concatenate([value, *(values for _cost, _places, values in columns)]),
            ),
            "integer": integer,
        }
