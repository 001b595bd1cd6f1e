"""`MonotoneDP`: trees with ordered answers, by a dynamic program whose states hold an interval of answers."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.problems.mip import TooLargeError
from opttree.problems.mip.candidates import Candidates
from opttree.problems.mip.hypergraph import Level, bits_of, enumerate_levels, permitted, tree_of
from opttree.runtime.clock import seconds_left
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from opttree.statement.constraints import DifferentLeaf, ForbidSplit, MinPerGroup, Monotone, SameLeaf
from opttree.statement.penalties import L1, L2
from solvers.core.base import LastCall, Step, Steps
from solvers.core.candidates import OverCandidates
from solvers.core.incumbent import NOTHING, Incumbent
from solvers.core.result import Termination, Verdict
from solvers.exact.relaxed import is_relaxable, relaxed_steps
from solvers.initial.starts import first_trees

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FIRST, MOST_POINTS = 9, 128  # points of the first grid, of the last one
SMALL_STEP, MOST_STALE = 0.05, 3  # share of the gap by which a grid should raise the bound, and how often not
FINEST = 1e-7  # of the range of the answers: the least distance of two points
CELLS = 1 << 23  # numbers that are held at a time
MOST_VALUES = 4e8
FREE, UP, DOWN, BOTH = 0, 1, 2, 3  # how the answers on the two sides of a split are ordered


@dataclass(frozen=True)
class MonotoneDP(OverCandidates):
    """Trees whose answers are ordered along the splits on some features (`Monotone`), over all thresholds: the states
    of the dynamic program are a set of rows, the remaining depth and the interval in which the leaves may answer, which
    a split on such a feature cuts in two.

    Classes under 0/1 loss: the optimum, proved. Squared, absolute and log loss: a bound from a grid of answers, where
    a cut lies somewhere in a cell, and trees, whose leaves are then fitted; the cells in which the best tree is cut are
    halved until the gap is closed or there are too many points. Without a start it begins with the bound and the trees
    of `BranchAndBound` for the statement without its side constraints, which may be enough. `ForbidSplit`, `SameLeaf`,
    `DifferentLeaf` and `MinPerGroup` may be there, too. For tables whose sets of rows can be listed: some dozens of
    thresholds at depth 3.

    ``step.info`` holds the number of "states" and of "points" of the grid.

    See Also
    --------
    MIP : the same constraints as programs, "flow" and "big-m"
    Lagrangian : limits that add up over rows

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.constraints import Monotone
    >>> from solvers import MonotoneDP, solve
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 4, size=(200, 3)).astype(float)
    >>> y = (X[:, 0] + rng.normal(size=200) * 2 > 2).astype(int) + (X[:, 1] > 2)
    >>> ordered = TreeProblem(X, y, 3, "axis", loss="zero_one", constraints=[Monotone(0), Monotone(1)])
    >>> result = solve(ordered, MonotoneDP())
    >>> result.termination.name, ordered.violation(result.tree)
    ('OPTIMAL', None)
    """

    respects = (Monotone, ForbidSplit, SameLeaf, DifferentLeaf, MinPerGroup)
    states = "hyperflow"
    needs = ("form",)

    n_thresholds: int | Literal["all"] = option("all", "See `opttree.MIPTreeProblem`.", least=1)
    points: int = option(64, "Points of the finest grid of answers.", least=2, most=MOST_POINTS)
    gap: float = option(1e-4, "Relative gap that counts as proved, classes apart.", least=0, below=1)
    relax_first: bool = option(True, "Whether it begins without the side constraints, see above.")

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes axis-aligned splits, constant leaves of one answer, four losses, and a price per split."""
        if problem.splits != "axis":
            return "its splits are oblique, and answers are ordered along the splits on single features"
        if problem.leaves != "constant":
            return "its leaves are linear, and intervals are for constant answers"
        if problem.loss_function.form not in ("errors", "quadratic", "absolute", "entropy"):
            return f"its loss is {problem.loss!r}; intervals are for 0/1, squared, absolute and log loss"
        if problem.is_classification and problem.loss_function.form == "entropy" and problem.n_outputs > 2:
            return "its log loss has more than two classes, whose probabilities have no order"
        if not problem.is_classification and problem.n_outputs > 1:
            return f"its leaves have {problem.n_outputs} outputs, and intervals are for one"
        if problem.strength(L1, "leaves") or problem.strength(L2, "leaves"):
            return "its leaves are penalized, and intervals are for the losses of rows alone"
        return self.not_stated(problem)

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """The trees of finer and finer grids with their bounds; for classes there is one."""
        run = _Run(self, problem)
        try:
            yield from run.in_time(run.begin(start, rng))
            if run.open:
                yield from run.in_time(run.refine())
        except TooLargeError as error:
            if (last := run.step("states")) is not None:
                yield last
            return Verdict(Termination.TOO_LARGE, f" ({error}.)")
        except LastCall:
            if (last := run.step("states")) is not None:
                yield last
            return Verdict(Termination.TIME_LIMIT, run.words)
        yield run.step("end")
        return run.verdict()


class _Intervals:
    """The intervals ``i..j`` of answers 0 to m - 1, and how a split cuts one in two: values are arrays (..., m, m), of
    which those below the diagonal are infinite.

    Exact where answers are the points. As a relaxation (``cells``) a cut lies somewhere between two neighbours, and
    both sides get the whole cell.
    """

    def __init__(self, m: int, *, cells: bool) -> None:
        self.m, self.width = m, int(cells)

    def cuts(self, kind: int, i: int, j: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """The pairs of intervals for the left and the right side of a split."""
        if kind == FREE or (self.width and i == j):
            return [((i, j), (i, j))]
        cuts = [(k, k + self.width) for k in range(i, j + 1 - self.width)]
        if kind == BOTH:
            return [(cut, cut) for cut in cuts]
        halves = [((i, b), (a, j)) for a, b in cuts]
        return halves if kind == UP else [(right, left) for left, right in halves]

    def both(self, left: Floats, right: Floats, kind: int) -> Floats:
        """The least values (C, m, m) of pairs of states with the values ``left`` and ``right``."""
        if kind == FREE:
            total: Floats = left + right
            return total
        low, high = (right, left) if kind == DOWN else (left, right)
        found = np.full(left.shape, np.inf)
        for a in range(self.m - self.width):
            b = a + self.width
            part = found[:, : a + 1, b:]
            if kind == BOTH:
                pairs = (low[:, a, b] + high[:, a, b])[:, None, None]
            else:
                pairs = low[:, : a + 1, b, None] + high[:, a, None, b:]
            np.minimum(part, pairs, out=part)
        if self.width:  # points have no cells
            point = np.arange(self.m)
            found[:, point, point] = low[:, point, point] + high[:, point, point]
        return found


class _Run(Incumbent):
    """A run: incumbent, bound, the states."""

    def __init__(self, options: MonotoneDP, problem: TreeProblem) -> None:
        self.classes = problem.loss_function.form == "errors"
        super().__init__(problem, 0.0 if self.classes else options.gap)
        self.options, self.stated = options, options.stated(problem)
        self.words = f" Candidate splits: {self.stated.candidate_text}."

    def begin(self, start: Tree | None, rng: Rng) -> Generator[Step | None, Any, None]:
        """Trees to begin with, and the states."""
        problem = self.problem
        yield from first_trees(self, self.stated, start, rng)
        whole = self.options.relax_first and self.options.n_thresholds == "all"
        if start is None and whole and is_relaxable(problem):
            for step in relaxed_steps(problem, rng, seconds_left()):
                before = self.bound
                if step is not None:
                    self.raise_bound(step.bound or 0.0, NOTHING * self.leaf)
                    yield from self.take(as_tree(step.tree), "without constraints")
                yield self.step("without constraints") if self.bound > before else None
        if not self.open:
            return
        stated = self.stated.problem
        self.candidates: Candidates = self.stated.candidates
        levels = yield from enumerate_levels(stated, self.candidates, "sets", ends=True)
        self.levels = permitted(levels, stated, self.candidates)
        self.info = {"states": float(sum(len(level.sets) for level in self.levels)), "points": 0.0}
        kinds = np.zeros(problem.n_features + 1, np.int64)
        for c in problem.constraints:
            if isinstance(c, Monotone):
                kinds[c.feature] |= UP if c.sign == 1 else DOWN
        self.kind = kinds[self.candidates.feature[self.candidates.family]]

    def refine(self) -> Generator[Step | None, Any, None]:
        """The dynamic program: of classes once, else on finer and finer grids."""
        problem = self.problem
        if self.classes:
            K = problem.n_outputs
            lost = problem.w[:, None] * (np.arange(K) != problem.Y)
            yield from self._solved(_Intervals(K, cells=False), lost, None)
            return
        log = problem.loss_function.form == "entropy"
        y = np.array([0.0, 1.0]) if log else problem.Y[:, 0]
        grid = np.unique(np.quantile(y, np.linspace(0.0, 1.0, min(FIRST, self.options.points))))
        rounds = stale = 0
        while True:
            losses, before = self._losses(grid), self.bound
            new = yield from self._solved(_Intervals(len(grid), cells=True), losses, grid)
            stale = stale + 1 if self.bound - before <= SMALL_STEP * (self.objective - before) else 0
            rounds += 1
            if self.open and (rounds < 3 or stale):  # trees whose answers are cut at the points themselves
                yield from self._solved(_Intervals(len(grid), cells=False), losses, grid, bounds=False)
            if self.tree is not None:
                new = [*new, *np.clip(self.tree.values[:, -1], grid[0], grid[-1])]
            points = np.unique(np.concatenate([grid, new]))
            points = points[np.append(True, np.diff(points) > FINEST * (grid[-1] - grid[0]))]
            done = not self.open or stale == MOST_STALE or len(points) == len(grid)
            if done or len(points) > self.options.points:
                return
            grid = points

    def _losses(self, grid: Floats) -> Floats:
        """(n, points) weighted loss of each row for each answer."""
        problem, found = self.problem, []
        for value in grid.tolist():
            outputs = np.full((problem.n_samples, 1), value)
            if problem.loss_function.form == "entropy":
                outputs = np.hstack([1.0 - outputs, outputs])
            found.append(problem.w * problem.loss_function.of_rows(problem.Y, outputs))
        return np.array(found).T

    def _solved(
        self, intervals: _Intervals, losses: Floats, grid: Floats | None, *, bounds: bool = True
    ) -> Generator[Any, Any, list[float]]:
        """Values of all states and intervals, from the leaves up; the tree of the root, and its bound. Returns the
        middles of the cells in which its answers are cut.
        """
        price, count, root = self.problem.price_per_split, intervals.m**2, (0, intervals.m - 1)
        if self.info["states"] * count > MOST_VALUES:
            raise TooLargeError(f"{self.info['states']:,.0f} sets of rows with {count} numbers each are too many")
        self.info["points"] = float(losses.shape[1])
        values: list[Floats] = []
        leaves: list[Floats] = []
        for level in reversed(self.levels):
            leaves.insert(0, (yield from self._leaves(level, losses, intervals, grid)))
            found = leaves[0].copy()
            start = np.searchsorted(level.columns[:, 0], np.arange(len(level.sets) + 1))
            step = max(1, CELLS // max(count * (1 + len(self.candidates)), 1))
            for s in range(0, len(level.sets), step):
                last = min(s + step, len(level.sets))
                part = self._columns(level, start, s, last, values[0] if values else None, intervals)
                np.minimum(found[s:last], part + price, out=found[s:last])
                yield None
            values.insert(0, found)
        bound = float(values[0][0][root])
        if math.isinf(bound):
            self.infeasible = True
            return []
        tree, cut = self._traced(values, leaves, intervals, price)
        yield from self.take(self.problem.live(tree), "states")
        if bounds:
            self.raise_bound(bound, NOTHING * self.leaf)
        yield self.step("states")
        return [] if grid is None else [0.5 * float(grid[a] + grid[b]) for a, b in cut]

    def _leaves(
        self, level: Level, losses: Floats, intervals: _Intervals, grid: Floats | None
    ) -> Generator[Any, Any, Floats]:
        """What the states cost as leaves that answer within each interval (S, m, m), at least."""
        n, m = losses.shape
        found = np.full((len(level.sets), m, m), np.inf)
        squares = grid is not None and self.problem.loss_function.form == "quadratic"
        step = max(1, CELLS // max(n, m * m))
        for s in range(0, len(found), step):
            part = found[s : s + step]
            bits, leaf = bits_of(level.sets[s : s + step], n), level.leaf[s : s + step]
            cost = bits @ losses
            for i in range(m):
                if grid is None:
                    part[:, i, i:] = np.minimum.accumulate(cost[:, i:], axis=1)
                    continue
                # losses are convex: they fall up to the best point's neighbours, and rise from there
                inside = np.repeat(leaf[:, None], m - i, axis=1)
                if squares:  # the best answer is known
                    weight = bits @ self.problem.w
                    mean = (bits @ (self.problem.w * self.problem.Y[:, 0]) / weight)[:, None]
                    inside += weight[:, None] * np.square(np.clip(mean, grid[i], grid[i:]) - mean)
                best, last = cost.argmin(axis=1)[:, None], np.arange(i, m)
                inside = np.where(best > last, cost[:, i:], np.where(best < i, cost[:, i : i + 1], inside))
                inside[:, 0] = cost[:, i]
                part[:, i, i:] = inside
            part[~np.isfinite(leaf)] = np.inf
            yield None
        return found

    def _columns(
        self, level: Level, start: Ints, first: int, last: int, below: Floats | None, intervals: _Intervals
    ) -> Floats:
        """The best splits of some states (S, m, m)."""
        found = np.full((last - first, intervals.m, intervals.m), np.inf)
        columns = level.columns[start[first] : start[last]]
        if below is None or not len(columns):
            return found
        for kind in (FREE, UP, DOWN, BOTH):
            some = columns[self.kind[columns[:, 1]] == kind]
            if len(some):
                both = intervals.both(below[some[:, 2]], below[some[:, 3]], kind)
                state, at = np.unique(some[:, 0], return_index=True)
                found[state - first] = np.minimum(found[state - first], np.minimum.reduceat(both, at))
        return found

    def _traced(
        self, values: list[Floats], leaves: list[Floats], intervals: _Intervals, price: float
    ) -> tuple[Tree, list[tuple[int, int]]]:
        """A tree that attains the value of the root, leaves zero, and where it cuts intervals: first and last point."""
        cells: list[tuple[int, int]] = []
        choice = [np.full(len(level.sets), -1) for level in self.levels]
        pending = [(0, 0, 0, intervals.m - 1)]
        for d, s, i, j in pending:
            level, value = self.levels[d], values[d][s, i, j]
            start, end = np.searchsorted(level.columns[:, 0], [s, s + 1])
            if start == end or leaves[d][s, i, j] <= value * (1.0 + 1e-12) + 1e-300:
                continue
            ways = []
            for c in range(int(start), int(end)):
                _s, split, a, b = level.columns[c].tolist()
                for one, two in intervals.cuts(int(self.kind[split]), i, j):
                    total = values[d + 1][a][one] + values[d + 1][b][two] + price
                    ways.append((float(total), c, (d + 1, a, *one), (d + 1, b, *two)))
            _total, column, left, right = min(ways)
            choice[d][s] = column
            if self.kind[level.columns[column, 1]] != FREE:
                cells.append((max(left[2], right[2]), min(left[3], right[3])))
            pending += [left, right]
        return tree_of(self.levels, choice, self.candidates, self.problem), cells
