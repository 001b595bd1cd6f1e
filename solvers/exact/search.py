"""The search of the whole tree: compiled on one thread for two levels, rounds of cuts on all threads for more."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextvars import copy_context
from threading import Lock
from typing import Any

import numpy as np

from opttree.kernels.exact import buckets, intervals, search as kernels, words
from opttree.kernels.exact.statistics import Node
from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.problems import ExactTreeProblem
from opttree.runtime.clock import now
from opttree.runtime.threads import available, each, limited, pool
from solvers.core.base import Step
from solvers.exact.pairs import Columns, columns_of

ROUND = 8  # cuts that are evaluated before their halves return to the queue, for any number of threads
LOOK = 0.04  # seconds between two looks at the search
SMALL, QUICK, EVERY = 2000, 12_000, 2**62  # numbers in X, and cuts times statistics, that are worth no other thread
MOST_HELD = 4096  # histograms
LONG_DEPTH, LARGE = 4, 600_000  # from this depth on, and at depth 3 from so many rows times features on
FIRST_LACK, LAST_LACK = 0.8, 0.05  # of the incumbent's cost, what the first and the last partial bound lack
LONG = 8_000_000  # evaluated cuts times features, after which there are further partial bounds


COUNTS = {"nodes": buckets.NODES, "evaluations": buckets.EVALUATIONS, "scans": buckets.SCANS}


def new_room(exact: ExactTreeProblem, memory: float) -> kernels.Room:
    """What one thread needs to evaluate cuts."""
    (p, n), n_statistics, depth = exact.kernel.rank.shape, exact.kernel.rows.shape[1], exact.problem.depth
    by_words = exact.by_words and exact.n_splits > 1 and depth > 1
    bytes_of_cut = 16.0 * p * -(-n // words.BITS) if by_words else 8.0 * p * buckets.BUCKETS * n_statistics
    held = min(max(int(memory * 2**20 / bytes_of_cut), 2), MOST_HELD)
    histograms = exact.by_buckets and not by_words
    levels = max(depth - (2 if exact.by_buckets else 1), 0)
    work = kernels.Work(
        np.empty((levels, 2, len(exact.order), n), np.int32),
        np.empty((levels, 2, 2 ** max(depth - 1, 2) - 1, 2), np.int64),
        np.zeros((levels, 2, 2, p, 2), np.int32),
    )
    shape = (n, p, n_statistics, held) if histograms else (1, 1, n_statistics, held if by_words else 1)
    space = words.make_words(*((n, p, exact.problem.n_outputs, held) if by_words else (1, 1, 1, 0)))
    if by_words:
        space = _costs(space, exact)
    return kernels.Room(work, buckets.make_buckets(*shape), space, np.array([0, 0, 0, 0, EVERY]))


def _costs(space: words.Words, exact: ExactTreeProblem) -> words.Words:
    """The work space with the classes of rows and what leaves cost."""
    problem = exact.problem
    space.label[:] = problem.Y[:, 0]
    if problem.loss_function.form == "entropy":
        return words.with_logs(space, problem.w[0] / exact.unit, problem.n_samples)
    if exact.counts_errors or exact.class_weights is None:
        return space
    n_rows = np.bincount(space.label, minlength=problem.n_outputs)
    return words.with_weights(space, exact.class_weights / exact.unit, n_rows)


def is_quick(exact: ExactTreeProblem) -> bool:
    """Whether the search takes some milliseconds, as a rule."""
    problem = exact.problem
    return problem.depth <= 3 and problem.X.size <= SMALL and problem.leaves == "constant" and exact.by_buckets


class Cut:
    """A cut in the middle of an interval, and what its evaluation found."""

    def __init__(self, at: int, interval: Any) -> None:
        self.at, self.interval = at, interval
        self.found = np.empty((2, 3))
        self.splits: Any = None  # until it has been evaluated
        self.reach: Any = None


class Search:
    """A search from a start tree: `run` it, look at `cost`, `bound` and `step` while it runs, and `stop` it."""

    def __init__(
        self, exact: ExactTreeProblem, start: Tree | None, gap: float, memory: float, queue_memory: float
    ) -> None:
        self.exact, self.gap = exact, gap
        self.queue_bytes, self.full = queue_memory * 2**20, False
        self.tree = exact.fitted(exact.problem.best_constant())
        problem = exact.problem
        self.kernel, self.order = exact.kernel, exact.order
        p, n = self.kernel.rank.shape
        columns = columns_of(exact) if exact.n_splits > 1 else None
        if exact.n_splits == 1:
            self.work = self._one_level
        elif columns is not None:
            self.work = self._by_columns
        elif problem.depth == 2 and exact.by_buckets:
            self.work = self._two_levels
        else:
            self.work = self._rounds
        self.rooms = [new_room(exact, memory) for _ in range(available() if self.work == self._rounds else 1)]
        self.idle = list(self.rooms)
        self.splits = np.full((2 ** max(problem.depth, 2) - 1, 2), -1, np.int64)
        self.changes, self.share, self.proved = 0.0, 1.0, 0.0
        self.floor = 0.0  # a bound on the objective that is known otherwise
        every = np.full((p, 2), (0, intervals.EVERY), np.int32)
        if exact.allowed is not None:
            every[~exact.allowed[0]] = intervals.EVERY, -1
        self.node = Node(self.order, n, self.kernel, every, np.zeros_like(every))
        self.leaf = np.inf if exact.splits_root else kernels.leaf_cost(self.node)
        self.fresh: list[Any] = []  # splits of incumbents nobody has looked at
        self.lock = Lock()  # of the incumbent's cost and splits, which `offer` changes while the search goes on
        self.active: list[float] = []  # bounds of the intervals that are being evaluated
        self.running: Future[None] | None = None
        self.queue, self.state = self._begin()
        if columns is not None:
            self.columns = Columns(exact, columns, memory, self.rooms[0].counts)
        if start is not None and self._take(exact.cost(problem.objective(start))):
            self.tree = start

    def _begin(self) -> tuple[Any, Any]:
        """Queue and state of a new search."""
        in_buckets = self.work == self._two_levels and not self.exact.by_words
        sides = kernels.reach_of_sides(0, buckets.BUCKETS if in_buckets else intervals.EVERY, self.kernel)
        trees = self.exact.problem.depth, self.exact.n_splits
        return kernels.begin(*trees, self.node, self.leaf, np.inf, sides)

    # ---- news -----------------------------------------------------------------------------------------------------

    @property
    def cost(self) -> float:
        """Cost of the incumbent."""
        return float(self.state[kernels.BEST])

    @property
    def bound(self) -> float:
        """Proved lower bound on the objective."""
        return max(self.own_bound, self.floor)

    @property
    def own_bound(self) -> float:
        """What the search itself has proved."""
        state = self.state
        low = min([state[kernels.BEST], state[kernels.BOUND], state[kernels.OPEN], *self.active])
        return self.exact.bound(max(float(low), self.proved))

    @property
    def is_one_leaf(self) -> bool:
        """Whether the best tree is one leaf, and proved to be, to rounding."""
        return as_tree(self.tree).n_branches == 0 and self.exact.bound(float(self.leaf)) <= self.bound

    def step(self) -> Step:
        """The incumbent and the bound."""
        bound = self.bound  # before the incumbent, which only falls
        changes = self.state[kernels.CHANGES]
        if changes != self.changes and changes % 2 == 0:
            splits = self.splits.copy()
            if self.state[kernels.CHANGES] == changes:  # not written meanwhile
                self.tree, self.changes = self.exact.tree(splits), changes
        counts = np.sum([room.counts for room in self.rooms], axis=0)
        info = {name: float(counts[place]) for name, place in COUNTS.items()}
        return Step(self.tree, None, bound, "branch and bound", info=info | {"intervals": float(self.queue.size[0])})

    @property
    def is_deep(self) -> bool:
        """Whether good trees are long in coming."""
        return self.exact.problem.depth >= LONG_DEPTH and self.work == self._rounds

    def improved(self) -> list[Step]:
        """The incumbents since the last look, so that a trace does not depend on when it looks."""
        steps = []
        while self.fresh:
            steps.append(Step(self.exact.tree(self.fresh.pop(0)), None, self.bound, "branch and bound"))
        return steps

    # ---- the search -----------------------------------------------------------------------------------------------

    def run(self) -> Iterator[None]:
        """Search; yields about every `LOOK` seconds, while the search goes on in another thread.

        Where the proof is long, a share of the incumbent's cost is proved as the bound first, and then perhaps larger
        shares one after another: a search with a lower target is many times shorter, and a complete one has its first
        bound late.
        """
        depth = self.exact.problem.depth
        long = depth >= LONG_DEPTH or (depth == 3 and self.order.size > LARGE and not self.exact.by_words)
        lacking = FIRST_LACK if long and self.work == self._rounds else 0.0
        if self._quickly():
            return
        while True:
            self._aim(1.0 - lacking if lacking > self.gap else 1.0 - self.gap)
            while not (self._ended() or self.full):
                self.running = pool().submit(copy_context().run, self.work)
                while not self.running.done():
                    wait([self.running], LOOK)
                    yield
                self.running.result()
            if self.full or lacking <= self.gap or self.bound >= self.exact.objective((1.0 - self.gap) * self.cost):
                return
            evaluated = sum(int(room.counts[buckets.EVALUATIONS]) for room in self.rooms)
            lacking = lacking / 2.0 if evaluated * len(self.order) > LONG and lacking > LAST_LACK else 0.0
            self._again()

    def _quickly(self) -> bool:
        """Search a small table in this thread, for some milliseconds; returns whether that was all."""
        if not is_quick(self.exact):
            return False
        room = self.rooms[0]
        self._aim(1.0 - self.gap)
        room.counts[buckets.MOST] = QUICK // self.kernel.rows.shape[1] // (1 if self.exact.by_words else 3)
        if self.work == self._rounds:
            self.queue = self._evaluated(intervals.new_interval(len(self.node.reach)), 0, np.empty((2, 3)), room, 0.0)
        else:
            self.work()
        whole = not buckets.stopped(room.counts)
        room.counts[buckets.MOST] = EVERY
        if not whole and self.work != self._by_columns:  # what was cut short has bounds that are too low
            self.step()
            self._again()
        return whole and self._ended()

    def _aim(self, share: float) -> None:
        """Let the search end where this share of the incumbent's cost is proved as a bound."""
        self.share = share
        self.state[kernels.TARGET] = share * self.cost if share < 1.0 else np.inf

    def _again(self) -> None:
        """Begin a new search from the incumbent, with the bound proved so far."""
        state = self.state
        self.proved = max(self.proved, float(min(state[kernels.BEST], state[kernels.BOUND], state[kernels.OPEN])))
        best, changes = state[kernels.BEST], state[kernels.CHANGES]
        self.queue, fresh = self._begin()
        state[:] = fresh
        state[kernels.BEST], state[kernels.CHANGES] = best, changes

    def stop(self) -> None:
        """Stop the search soon, with valid results."""
        if self.running is not None:
            for room in self.rooms:
                room.counts[buckets.STOP] = 1
            wait([self.running])
            self.running = None

    def _ended(self) -> bool:
        return self.queue.size[0] == 0 or self.state[kernels.OPEN] >= min(
            self.state[kernels.BEST] - self.kernel.slack, self.state[kernels.TARGET]
        )

    def _take(self, cost: float) -> bool:
        """Take a cost as the incumbent's if it is lower; returns whether it is."""
        state = self.state
        if not cost < state[kernels.BEST]:
            return False
        state[kernels.BEST] = cost
        self._aim(self.share)
        return True

    def offer(self, cost: float, splits: Any) -> None:
        """Take a tree as the incumbent if it is better, while the search goes on."""
        with self.lock:
            if self._take(cost):
                self.state[kernels.CHANGES] += 1
                self.splits[:] = splits
                self.state[kernels.CHANGES] += 1
                self.fresh.append(self.splits.copy())

    def _end(self) -> None:
        """Nothing waits any more."""
        self.queue.size[0], self.state[kernels.OPEN] = 0, np.inf

    def _one_level(self) -> None:
        cost, _bound, _relaxed = kernels.one_split(self.node, self.leaf, np.inf, self.splits[0])
        self.state[kernels.CHANGES] += 2.0 * self._take(cost)
        self.state[kernels.BOUND] = min(self.state[kernels.BOUND], cost)
        self._end()

    def _two_levels(self) -> None:
        (room,) = self.rooms
        where = self.exact.n_splits, self.node, self.queue, self.state, self.splits
        if self.exact.by_words:
            kernels.two_levels_by_words(*where, room)
        else:
            kernels.two_levels(*where, room.buckets, room.counts)
        if not buckets.stopped(room.counts):
            self._end()

    def _by_columns(self) -> None:
        """Try the columns of a table of few values as the root, for about `LOOK` seconds."""
        state, until, counts, columns = self.state, now() + LOOK, self.rooms[0].counts, self.columns
        if columns.depth == 2:
            columns.todo = columns.todo[:1]
        while columns.todo and now() < until and not counts[buckets.STOP]:
            aim = min(state[kernels.BEST] - self.kernel.slack, state[kernels.TARGET])
            cost, splits = columns.whole() if columns.depth == 2 else columns.below(columns.todo[0], aim)
            if counts[buckets.STOP]:
                return
            columns.todo.pop(0)
            if splits is not None:
                self.offer(cost, splits)
            state[kernels.BOUND] = min(state[kernels.BOUND], cost)
        if not columns.todo:
            self._end()

    def _rounds(self) -> None:
        """Evaluate `ROUND` cuts at a time, for about `LOOK` seconds."""
        state, until = self.state, now() + LOOK
        while now() < until and not self.rooms[0].counts[buckets.STOP]:
            if self.queue.size[1] < 2 * ROUND:
                self.full = 2 * sum(array.nbytes for array in self.queue) > self.queue_bytes
                if self.full:
                    return
                self.queue = intervals.grown(self.queue)
            self.active = [float(state[kernels.OPEN])]
            cuts: list[Cut] = []
            while len(cuts) < ROUND:
                interval = intervals.new_interval(len(self.node.reach))
                at = kernels.take(self.queue, self.node, state, 0, interval, self.rooms[0].buckets)
                if at == 0:
                    break
                cuts.append(Cut(at, interval))
            with limited(len(self.rooms)):
                each(self._evaluate, cuts)
            for cut in cuts:
                self._settle(cut)
            if self.queue.size[0]:
                state[kernels.OPEN] = self.queue.values[self.queue.heap[0], intervals.KEY]
            self.active = []
            if not cuts:
                return

    def _evaluate(self, cut: Cut) -> None:
        room = self.idle.pop()
        try:
            if buckets.stopped(room.counts):
                return
            aim = min(self.state[kernels.BEST] - self.kernel.slack, self.state[kernels.TARGET])
            self._evaluated(cut.interval, cut.at, cut.found, room, aim)
            cut.splits, cut.reach = room.work.splits[0].copy(), room.work.reaches[0, :, 1].copy()
        finally:
            self.idle.append(room)

    def _evaluated(self, interval: Any, at: int, found: Any, room: kernels.Room, aim: float) -> Any:
        """Evaluate a cut of an interval into ``found``, or for 0 cuts of the queue, which is returned."""
        where = self.exact.problem.depth, self.exact.n_splits, self.node, aim, interval, at, found, room
        return kernels.evaluate(*where, self.queue, self.state, self.splits)

    def _settle(self, cut: Cut) -> None:
        state, feature = self.state, cut.interval.place[intervals.FEATURE]
        if cut.splits is None:  # the search was stopped before
            state[kernels.BOUND] = min(state[kernels.BOUND], cut.interval.values[intervals.KEY])
            return
        cost = cut.found[0, 0] + cut.found[1, 0] + self.kernel.price
        if cost < state[kernels.BEST]:
            splits = np.empty_like(self.splits)
            splits[0] = feature, self.kernel.rank[feature, self.order[feature, cut.at - 1]]
            kernels.graft(splits, *cut.splits, self.exact.problem.depth - 1)
            self.offer(cost, splits)
        evaluated = kernels.Cut(cut.at, cut.found, -1, *cut.reach)
        where = self.queue, self.node, state, cut.interval, evaluated
        kernels.settle(*where, self.rooms[0].buckets)
