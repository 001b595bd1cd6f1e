"""`ObliqueBranchAndBound`: optimal trees of hyperplanes of one and two levels, with bounds, on small problems."""

from __future__ import annotations

import heapq
import math
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels import routing
from opttree.kernels.exact import oblique
from opttree.kernels.passes.thresholds import between
from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.problems.mip.candidates import typical
from opttree.runtime.interrupts import in_background
from opttree.runtime.options import option
from opttree.statement import L1, L2, SplitPrice, TreeProblem
from opttree.statement.numbers import in_same_order
from solvers.core.base import LastCall, Solver, Step, Steps
from solvers.core.combinators import follow
from solvers.core.origin import steps_of
from solvers.core.result import Termination, Verdict
from solvers.local_search import LocalSearch

Floats = NDArray[np.float64]
# nodes of searches between two looks at the bound, by depth: long ones find trees, short ones bounds
DIVES = {1: (4000, *(500,) * 8), 2: (400, *(50,) * 32)}
PATH_TURNS, CLOSED = 1, 3  # where a path has its turns; those of a node without children left
MOST_BYTES = 2.0**28  # of nodes that wait; beyond, a search below one ends before the next begins
ROUNDED = 8.0 * float(np.finfo(float).eps)  # of one leaf's cost and of each row: differences that are rounding errors
PROOF_RTOL = 1e-7  # of the objective: what a proof may lack
PROOF_ATOL = 16.0 * float(np.finfo(float).eps)  # the same, of one leaf's cost
NEAR = 1e-9  # of the size of values: of nearer ones, rounding says on which side of a hyperplane they lie
MOST_DEPTH = 2


@dataclass(frozen=True)
class ObliqueBranchAndBound(Solver):
    """Prove an optimal tree of hyperplanes of one or two levels, by branching on the side of the root of each row.

    The bound of a partial assignment is that of the rows fixed on the left plus that of those fixed on the right
    (below a root of two levels, optimal splits of these rows); under squared loss of one output and 0/1 loss, the
    other rows are counted on whichever side suits them. Assignments that no hyperplane separates are cut by the
    nearest points of the two convex hulls. The search goes on below the node of the lowest bound. All losses, constant
    leaves, weights, `SplitPrice` and ``min_leaf``. The number of assignments grows as n^p: up to four features, depth 1
    takes seconds for a hundred rows, and depth 2 for sixty.

    Two sets of rows are separated if their hulls are more than ``tolerance`` apart, on features in units of their
    median distance from the median, and are not if their hulls have a point in common. Where rounding does not let it
    say which, they may count as separable, for the bound; the search ends STALLED where a proof needs to know. A plane
    through several rows, which rounding puts on either side of it, may divide them as no plane does: no bound is for
    such trees, and of two features or more, one whose values are within 1e-9 of each other, relative to their size,
    leaves the bound at 0. ``step.info`` holds the number of nodes.

    See Also
    --------
    BranchAndBound : axis-aligned splits, any number of rows

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import ObliqueBranchAndBound, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=1)
    >>> few = TreeProblem(X[:12, 2:4], problem.y[:12], depth=1)
    >>> solve(few, ObliqueBranchAndBound(), random_state=0).termination.name
    'OPTIMAL'
    """

    init: Solver | None = option(
        factory=lambda: LocalSearch(n_starts=5),
        doc="Solver for the start tree, if `solve` is given none; or None: the tree of one leaf.",
    )
    node_limit: int | None = option(
        None, "Nodes after which the search ends, at its next pause, >= 1, or None.", least=1
    )
    tolerance: float = option(1e-9, "Distance of hulls from which on they are separable.", above=0)

    def covers(self, problem: TreeProblem) -> bool:
        """True: all hyperplanes count in which rounding decides no side of a row."""
        return True

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes hyperplanes of at most two levels, constant leaves, prices of splits."""
        if problem.depth > MOST_DEPTH:
            return f"its depth is {problem.depth}, and branching on the sides of rows goes to depth {MOST_DEPTH}"
        if problem.splits != "oblique":
            return "its splits are axis-aligned; use BranchAndBound"
        if problem.leaves != "constant":
            return "its leaves are linear; branching on the sides of rows is for constant ones"
        if any(not isinstance(q, (L1, L2, SplitPrice)) for q in problem.penalties) or problem.strength(L1, "splits"):
            return "its penalties on splits are not prices"
        return self.init._refusal(problem) if self.init is not None else None

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """The constant tree, the start, and then incumbents and bounds."""
        best = problem.best_constant()
        yield Step(best, bound=0.0, phase="constant")
        if start is not None:
            start = problem.fit_leaves(problem.live(start))
            yield Step(start, phase="start")
        elif self.init is not None:
            inner = steps_of(self.init, problem, None, rng.spawn(1)[0])
            model, _objective, _end = yield from follow(problem, inner, type(self.init).__name__)
            start = None if model is None else as_tree(model)
        if start is not None and problem.objective(start) < problem.objective(best):
            best = start
        if problem.depth == 0:
            yield Step(best, bound=problem.objective(best))
            return Termination.OPTIMAL
        search = _Search(problem, best, self.tolerance)
        try:
            ended = False
            while not ended:
                ended = yield from search.chunk()
                yield search.step()
                if not ended and self.node_limit is not None and search.nodes >= self.node_limit:
                    return Verdict(Termination.ITERATION_LIMIT, search.words)
        except (LastCall, KeyboardInterrupt) as reason:
            with suppress(LastCall):
                yield search.step()
            if isinstance(reason, KeyboardInterrupt):
                raise
            return Verdict(Termination.TIME_LIMIT, search.words)
        if search.objective - search.bound > PROOF_RTOL * abs(search.objective) + PROOF_ATOL * search.leaf:
            why = "Rounding leaves too much open: of rows nearly on a common plane, or of very large outcomes."
            return Verdict(Termination.STALLED, f"{search.words} {why}")
        return Verdict(Termination.OPTIMAL, search.words)


class _Search:
    """State of the search over the sides of rows."""

    def __init__(self, problem: TreeProblem, tree: Tree, tolerance: float) -> None:
        self.problem, self.tree, self.objective = problem, tree, problem.objective(tree)
        self.words = " Candidate splits: all hyperplanes."
        n, p = problem.X.shape
        self.centre, self.scale = typical(problem.X)
        self.sure = p == 1 or bool(np.all(self.scale > NEAR * np.abs(problem.X).max(axis=0)))
        X = (problem.X - self.centre) / self.scale
        in_same_order(problem.X, X)
        Y = problem.Y if problem.is_classification else problem.Y - np.sum(problem.w[:, None] * problem.Y, axis=0)
        self.leaf = leaf = problem.mean_loss(problem.best_constant())
        self.stopped = np.zeros(1)
        self.data = oblique.Data(
            np.ascontiguousarray(X),
            np.ascontiguousarray(Y),
            problem.w,
            np.ascontiguousarray(np.argsort(Y, axis=0, kind="stable").T),
            problem.loss_code,
            problem.n_outputs if problem.is_classification else 0,
            float(problem.price_per_split),
            int(problem.min_leaf),
            float(tolerance),
            ROUNDED * n * max(leaf, 1e-300),
            self.stopped,
        )
        self.state = oblique.State(
            np.zeros(n, np.int8),
            np.zeros(6),
            np.zeros(n + 1, np.int64),
            np.zeros(n + 2, np.int8),
            np.zeros(n + 1, np.int8),
            np.zeros(n + 2),
            np.zeros((n + 2, p)),
            np.zeros((n + 2, 2)),
            np.zeros(n, np.int8),
            np.zeros(p),
        )
        self.below = oblique.Below(
            np.zeros((n + 2, 2, p)), np.zeros((n + 2, 2)), np.zeros((n + 2, 2)), np.full(n + 2, math.inf)
        )
        self.lower = np.zeros((2, n), np.int8)
        self.planes = np.zeros((2, p))
        self.state.numbers[oblique.BEST] = self.seen = self.objective
        self.state.numbers[oblique.OPEN], self.state.numbers[oblique.TURNS] = math.inf, 1.0
        self.path = [*self.state[2:-2], *self.below]  # what each node of the path has
        # nodes that searches have left: bound, order, turns, sides, path
        self.waiting: list[tuple[float, int, float, Any, list[Any]]] = []
        self.order = count()
        self.most_waiting = MOST_BYTES / (2000.0 + n + 24.0 * p)  # 2 kB: the arrays of a node without their entries
        self.bound = 0.0

    @property
    def nodes(self) -> float:
        """Nodes so far, of both levels."""
        return float(self.state.numbers[oblique.NODES] + self.state.numbers[oblique.INNER])

    def go_on(self) -> bool:
        """Some searches below the nodes of the lowest bounds, each of some nodes; returns whether all has ended."""
        for budget in DIVES[self.problem.depth]:
            self._dive(budget)
            if self._is_over() or self.stopped[0] > 0.0:
                break
        return self._is_over()

    def _is_over(self) -> bool:
        """Whether no node is left that could have a better tree."""
        numbers = self.state.numbers
        if numbers[oblique.DEPTH] >= 0.0:
            return False
        return not self.waiting or self.waiting[0][0] >= numbers[oblique.BEST] - self.data.slack

    def _dive(self, budget: int) -> None:
        """Search below the node of the lowest bound, or go on with the last one."""
        numbers = self.state.numbers
        if numbers[oblique.DEPTH] < 0.0:
            _bound, _order, numbers[oblique.TURNS], self.state.side[:], path = heapq.heappop(self.waiting)
            numbers[oblique.DEPTH] = len(path[0]) - 1
            for values, saved in zip(self.path, path, strict=True):
                values[: len(saved)] = saved
        if self.problem.depth == 1:
            oblique.search_once(self.data, self.state, budget)
        else:
            loose = self.data._replace(min_leaf=1)
            oblique.search_twice(self.data, loose, self.state, self.below, budget, self.lower, self.planes)
        if len(self.waiting) < self.most_waiting:
            self._leave()

    def _leave(self) -> None:
        """Let the nodes of the path wait that have a child left; nothing is left of the path."""
        numbers, (side, _numbers, rows, turns, _firsts, bounds, *_others) = self.state.numbers, self.state
        last = int(numbers[oblique.DEPTH])
        for depth in range(last, -1, -1):
            if depth < last:
                side[rows[depth]] = oblique.FREE
            allowed = numbers[oblique.TURNS] if depth == 0 else 2
            if turns[depth] < allowed and bounds[depth] < numbers[oblique.BEST] - self.data.slack:
                first = max(depth - 1, 0) if turns[depth] == 0 else depth  # a new node takes from the one above it
                path = [values[first : depth + 1].copy() for values in self.path]
                path[PATH_TURNS][: depth - first] = CLOSED
                heapq.heappush(self.waiting, (float(bounds[depth]), next(self.order), allowed, side.copy(), path))
        numbers[oblique.DEPTH] = -1.0

    def chunk(self) -> Generator[None, None, bool]:
        """`go_on` in the background. When it is left, the search is stopped first and its end waited for, so that
        nothing reads the state while it changes.
        """
        work = in_background(self.go_on)
        while True:
            try:
                next(work)
            except StopIteration as stop:
                return bool(stop.value)
            try:
                yield None
            except BaseException:
                self.stopped[0] = 1.0
                with suppress(StopIteration):
                    while True:
                        next(work)
                raise

    def step(self) -> Step:
        """A step with the incumbent and the bound."""
        numbers = self.state.numbers
        if numbers[oblique.BEST] < self.seen:
            self.seen = float(numbers[oblique.BEST])
            tree = self._tree()
            if (objective := self.problem.objective(tree)) < self.objective:
                self.tree, self.objective = tree, objective
        if self.sure:
            lower = min([float(oblique.lower_bound(self.state)), *(node[0] for node in self.waiting[:1])])
            self.bound = max(self.bound, min(lower - 3.0 * self.data.slack, self.objective))
        return Step(self.tree, self.objective, self.bound, "branch and bound", info={"nodes": self.nodes})

    def _tree(self) -> Tree:
        """The tree of the best sides."""
        p = self.problem.n_features
        A, b = [np.zeros(p)], [0.0]
        left, right = [-1], [-1]
        pending: list[tuple[int, Any, Any, int]] = [(0, self.state.best, self.state.normal, 0)]
        for node, side, normal, level in pending:
            if not np.any(side == oblique.LEFT):
                continue
            A[node] = normal / self.scale
            z = routing.project(self.problem.X, np.arange(self.problem.n_samples), A[node])
            low, high = z[side == oblique.LEFT].max(), z[side == oblique.RIGHT].min()
            b[node] = between(low, high) if low < high else 0.5 * (low + high)
            left[node], right[node] = len(left), len(left) + 1
            for k in range(2):
                below = self.lower[k] if level == 0 and self.problem.depth > 1 else np.zeros(0, np.int8)
                pending.append((len(left), below, self.planes[k], level + 1))
                left.append(-1)
                right.append(-1)
                A.append(np.zeros(p))
                b.append(0.0)
        values = np.zeros((len(left), self.problem.n_outputs))
        links = np.array(left), np.array(right)
        tree = Tree.from_links(*links, np.array(A), np.array(b), values, self.problem.classes)
        return self.problem.fit_leaves(tree)
