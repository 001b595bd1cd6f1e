"""`Benders`: splits and answers in a program, and cuts that say which rows are right."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray
from scipy.sparse import csc_array, vstack

from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.problems.mip.cuts import Cut, CutProgram
from opttree.problems.mip.hypergraph import subtree_bounds
from opttree.runtime.clock import seconds_left
from opttree.runtime.interrupts import in_background
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from opttree.statement.constraints import FeatureCost, ForbidSplit, LeafConstraint, MaxFeatures, MaxSplits, picks
from solvers.core.base import LastCall, Solver, Step, Steps
from solvers.core.candidates import OverCandidates
from solvers.core.incumbent import Incumbent
from solvers.core.result import Termination, Verdict
from solvers.initial.starts import first_trees
from solvers.local_search import LocalSearch
from solvers.mip.direct import RUNS
from solvers.mip.highs import Program, Run
from solvers.mip.limits import Limits, unavailable

Floats = NDArray[np.float64]
MOST_CUTS = 150  # of one point
NEW_CUT, NEW_FRACTIONAL = 1e-6, 0.05  # least violation of a cut at a solution, at another point
LINEAR_ROUNDS = 30  # of cuts before HiGHS's first program
TOLERANCE, ROUNDING = 1e-6, 1e-15  # of optimizers, in units of the dearest row, and relative to all costs


@runtime_checkable
class Separator(Protocol):
    """Finds rows that a point of the master of `Benders` violates; a protocol of one method.

    See Also
    --------
    Benders : calls it

    Examples
    --------
    Two leaves of one split need not answer alike: some best tree has no such split. As rows, added where a point
    violates them:

    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from solvers import Benders, Cut, solve
    >>> class Different:
    ...     def cuts(self, program, point, fractional):
    ...         split, answer, _right = program.parts(point)
    ...         first = program.tree.n_branches // 2
    ...         for t in range(first, program.tree.n_branches):
    ...             left = 2 * (t - first)
    ...             for k in range(answer.shape[1]):
    ...                 if split[t].sum() + answer[left, k] + answer[left + 1, k] > 2.0 + 1e-6:
    ...                     columns = np.arange(split.shape[1])
    ...                     both = [program.answer_at(left, k), program.answer_at(left + 1, k)]
    ...                     places = np.append(program.split_at(t, columns), both)
    ...                     yield Cut(places, np.ones(len(places)), 2.0)
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, size=(60, 4)).astype(float)
    >>> y = ((X[:, 0] != X[:, 1]) ^ (rng.random(60) < 0.1)).astype(int)
    >>> problem = TreeProblem(X, y, 2, "axis", loss="zero_one")
    >>> result = solve(problem, Benders(cuts=("min-cut", Different())))
    >>> result.termination.name, result.objective == solve(problem, Benders()).objective
    ('OPTIMAL', True)
    """

    def cuts(self, program: CutProgram, point: Floats, fractional: bool) -> Iterable[Cut]:
        """Rows that a point violates, and that a best tree satisfies.

        Parameters
        ----------
        program : CutProgram
            The master: ``program.parts(point)`` are the splits, answers and right rows of a point,
            ``program.split_at(t, c)``, ``answer_at(l, k)`` and ``right_at(q)`` their places in it.
        point : ndarray
            The point.
        fractional : bool
            Whether it is one of a linear program; else its splits and answers are 0 or 1, and rows that all trees must
            satisfy are to be returned.

        Returns
        -------
        iterable of Cut
            The rows; those that the point satisfies are dropped.
        """


@dataclass(frozen=True)
class Benders(OverCandidates):
    """Benders' decomposition of "flow" (BendersOCT): the program has the splits, the answers and one variable for each
    distinct row and answer, and the flows are cuts, found from the leaves up in O(rows x branches).

    For 0/1 loss and costs of actions, axis-aligned splits, limits that add up over answers, and limits on splits. Its
    linear program is as weak as that of "flow", of value 0 or nearly so (a little less weak: mirror images of splits
    are left out, and the errors of equal rows of several classes, which no tree can save, are counted from the start).
    "subtree" rows, where the dynamic program ends in a tenth of the time, lift the bound to the optimum without side
    constraints. SCIP and Gurobi get cuts while they run; HiGHS takes none then, and solves one program after another.

    ``step.info`` holds the numbers of "cuts", and of "rounds" with HiGHS.

    See Also
    --------
    Separator : a family of cuts of your own
    MIP : the same as one program
    BranchAndBound : without side constraints, far quicker

    References
    ----------
    Aghaei, Gomez and Vayanos, "Strong optimal classification trees", Operations Research 73 (2025).

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from solvers import Benders, solve
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, size=(80, 5)).astype(float)
    >>> y = (X[:, 0] * X[:, 1] + rng.random(80) > 0.7).astype(int)
    >>> solve(TreeProblem(X, y, 2, "axis", loss="zero_one"), Benders()).termination.name
    'OPTIMAL'
    """

    respects = (LeafConstraint, MaxSplits, MaxFeatures, FeatureCost, ForbidSplit)
    states = "flow"
    needs = ()  # said in `_refusal`

    optimizer: Literal["highs", "scip", "gurobi"] = option(
        "highs", """"highs" (rounds), "scip" (package `pyscipopt`) or "gurobi" (`gurobipy`)."""
    )
    cuts: tuple[Any, ...] = option(
        ("min-cut", "subtree"),
        """"min-cut", which is always there; "subtree", the rows of subtrees; and separators, see `Separator`.""",
        test=lambda given: all(
            c in ("min-cut", "subtree") if isinstance(c, str) else hasattr(c, "cuts") for c in given
        ),
        words='a sequence of "min-cut", "subtree" and objects with a method cuts(program, point, fractional)',
    )
    init: Solver | Literal["auto"] | None = option(
        "auto", """Solver for a start. "auto": a short local search from CART's tree. None: CART's tree alone."""
    )
    n_thresholds: int | Literal["all"] = option("all", "See `MIPTreeProblem`.", least=1)
    threads: int | None = option(None, "Threads of the optimizer, >= 1; None: it decides.", least=1)
    seed: int | None = option(
        None, "Of the optimizer, >= 0; None: by the ``random_state`` of `solve`.", least=0, most=2**31 - 1
    )
    gap: float = option(1e-6, "Relative gap that counts as proved.", least=0, below=1)
    verbose: bool = option(False, "Whether to print the log of the optimizer.")

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes 0/1 loss and costs of actions, where the optimizer is installed."""
        if not picks(problem):
            return f"its loss is {problem.loss!r}, and cuts are for 0/1 loss and costs of actions"
        if problem.leaves != "constant":
            return "its leaves are linear, and cuts are for constant ones"
        if problem.min_leaf > 1:
            return f"min_leaf is {problem.min_leaf}, and this program does not count the rows of leaves; 'flow' does"
        for c in problem.constraints:
            if isinstance(c, LeafConstraint) and not c.adds_up:
                return f"{c!r} orders leaves; this program takes limits that add up over rows"
            if isinstance(c, ForbidSplit) and c.where is not None:
                return f"{c!r} speaks of levels, which splits without rows on one side would shift; 'flow' takes it"
        return self.not_stated(problem) or unavailable(self.optimizer)

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """The start, then the trees of the optimizer, with its bounds."""
        seed = int(rng.integers(2**31 - 1)) if self.seed is None else self.seed
        return (yield from _Run(self, problem, seed).steps(start, rng))


class Loop(Incumbent):
    """A run of a program whose rows are found as points violate them: incumbent, bound, the program and its cuts."""

    program: Any
    rows: dict[str, Any]
    unit: float

    def __init__(self, options: Any, problem: TreeProblem, seed: int) -> None:
        super().__init__(problem, options.gap)
        self.options, self.seed = options, seed
        self.info = {"cuts": 0.0}
        self.running: Any = None
        self.careful = False

    def steps(self, start: Tree | None, rng: Rng) -> Steps:
        """The start, then the trees of the optimizer, with its bounds."""
        try:
            yield from self.in_time(self.begin(start, rng))
            self.slack = TOLERANCE * self.unit + ROUNDING * self.program.offset
            yield from self.in_time(self.solve())
        except LastCall:
            self.stop()
            for _step in self.news():
                pass
            if (last := self.step("cuts")) is not None:
                yield last
            return Verdict(Termination.TIME_LIMIT, self.words)
        finally:
            self.stop()
        yield self.step("end")
        return self.verdict()

    def begin(self, start: Tree | None, rng: Rng) -> Generator[Step | None, Any, None]:
        """Trees to begin with, the program, its rows and their unit."""
        raise NotImplementedError

    def violated(self, point: Floats, fractional: bool) -> Iterator[Cut]:
        """Rows that a point violates."""
        raise NotImplementedError

    def start(self, n_columns: int) -> Floats | None:
        """The incumbent as a point, or None."""
        raise NotImplementedError

    def append(self, cuts: list[Cut]) -> None:
        """Add rows to the program."""
        rows = self.rows
        start, index, value = rows["matrix"]
        before = csc_array((value, index, start), shape=(rows["n_rows"], rows["n_columns"]))
        sizes = [len(cut.places) for cut in cuts]
        new = csc_array(
            (
                np.concatenate([cut.values for cut in cuts]),
                (np.repeat(np.arange(len(cuts)), sizes), np.concatenate([cut.places for cut in cuts])),
            ),
            shape=(len(cuts), rows["n_columns"]),
        )
        matrix = vstack([before, new]).tocsc()
        self.rows = rows | {
            "n_rows": rows["n_rows"] + len(cuts),
            "row_lower_": np.append(rows["row_lower_"], np.full(len(cuts), -np.inf)),
            "row_upper_": np.append(rows["row_upper_"], [cut.upper for cut in cuts]),
            "matrix": (matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data),
        }

    def solve(self) -> Generator[Step | None, Any, None]:
        """Solve the program; with HiGHS, one after another until a solution violates no row."""
        if not self.open:
            return
        lazy, rounds = self.options.optimizer != "highs", 0
        linear = not lazy
        if lazy:
            status, _values = yield from self._solved(lazy=_Asked(self))
            self._end(status)
            return
        while True:
            status, values = yield from self._solved(linear=linear)
            rounds += 1
            self.info["rounds"] = float(rounds)
            cuts = [] if values is None else list(self.violated(values, linear))
            self.info["cuts"] += float(len(cuts))
            if cuts:
                self.append(cuts)
            if not self.open:
                return
            if not linear and not cuts and status == "Optimal" and not self.careful:
                self.careful = True  # HiGHS may take the value of a start for another one, and stop there
                continue
            if not linear and (not cuts or status != "Optimal"):
                self._end(status)
                return
            if linear and (len(cuts) == 0 or rounds >= LINEAR_ROUNDS or status != "Optimal"):
                linear = False
            yield self.step("cuts")

    def _end(self, status: str) -> None:
        if status == "Infeasible" and self.tree is None:
            self.infeasible = True
        elif status == "TimeLimit":
            raise LastCall
        elif status not in ("Optimal", "Infeasible"):
            self.words += f" ({self.options.optimizer}: {status}.)"

    def _solved(self, *, linear: bool = False, lazy: Any = None) -> Generator[Any, Any, tuple[str, Floats | None]]:
        """One run of the optimizer; its trees and bounds on the way."""
        rows = self.rows | ({"integer": np.zeros_like(self.rows["integer"])} if linear else {})
        compiled = Program(rows, self.program.offset, self.unit)
        limits = Limits(
            0.5 * self.gap, seconds_left(), None, self.options.threads, self.seed, self.options.verbose, self.careful
        )
        fresh = self.tree is None or linear or self.careful
        start = None if fresh else self.start(rows["n_columns"])
        self.linear = linear
        if lazy is None:
            self.running = Run(compiled, limits, start)
        else:
            self.running = RUNS[self.options.optimizer](compiled, limits, start, lazy)
        while not self.running.wait():
            yield from self.news()
            yield None
        yield from self.news()
        status, bound, _nodes, values = self.running.outcome()
        self.running = None
        self._raise(bound)
        if values is not None and not linear:
            yield from self.take(self.program.chosen(values), "cuts")
        return status, values

    def _raise(self, bound: float | None) -> None:
        if bound is not None:
            self.raise_bound(bound, 0.5 * self.gap * abs(bound) + self.slack)

    def news(self) -> Generator[Step | None, Any, None]:
        """Take incumbents and bounds."""
        while self.running is not None and self.running.events:
            values, bound, _nodes, info = self.running.events.popleft()
            if "cuts" in info:
                self.info["cuts"] = info["cuts"]
            if values is not None and not self.linear:
                yield from self.take(self.program.chosen(values), "cuts")
            before = self.bound
            self._raise(bound)
            if self.bound > before:
                yield self.step("cuts")

    def stop(self) -> None:
        """End the optimizer, if it runs."""
        if self.running is not None:
            self.running.stop()


class _Asked:
    """What an optimizer asks for rows."""

    def __init__(self, run: Loop) -> None:
        self.run = run

    def cuts(self, point: Floats, fractional: bool) -> Iterable[Cut]:
        """Rows that a point violates."""
        return self.run.violated(point, fractional)


class _Run(Loop):
    """A run: the program and its minimum cuts, rows of subtrees and separators."""

    program: CutProgram

    def __init__(self, options: Benders, problem: TreeProblem, seed: int) -> None:
        super().__init__(options, problem, seed)
        self.stated = options.stated(problem)
        self.separators = [c for c in options.cuts if not isinstance(c, str)]
        self.words = f" Candidate splits: {self.stated.candidate_text}."

    def begin(self, start: Tree | None, rng: Rng) -> Generator[Step | None, Any, None]:
        """Trees to begin with, the program, and its rows of subtrees."""
        problem = self.problem
        yield from first_trees(self, self.stated, start, rng)
        init = LocalSearch(n_starts=1) if self.options.init == "auto" else self.options.init
        if isinstance(init, Solver) and init.refusal(problem) is None and problem.depth:
            for step in init.steps(problem, self.tree, rng):
                if step is not None and (snapped := self.stated.snap(as_tree(step.tree))) is not None:
                    yield from self.take(snapped, "start")
                yield None
        candidates = self.stated.candidates
        if not any(isinstance(c, (ForbidSplit, MaxFeatures, FeatureCost)) for c in problem.constraints):
            candidates = candidates.distinct()
        self.program = yield from in_background(lambda: CutProgram(problem, candidates))
        self.unit = float(self.program.saved.max(initial=0.0)) or 1.0
        self.rows = yield from in_background(lambda: self.program.rows(self.unit))
        if "subtree" in self.options.cuts and self.program.tree.n_branches:
            found = yield from subtree_bounds(problem, candidates)
            if found is not None:
                least, leaf = found
                root = np.where(np.isfinite(least), least, 0.0) - leaf
                cost = self.rows["col_cost_"] * self.unit  # cost + offset >= leaf + root @ split[0]
                row = -cost
                row[: len(root)] += root
                self.append([Cut(np.flatnonzero(row), row[np.flatnonzero(row)] / self.unit, self._less(leaf))])

    def _less(self, leaf: float) -> float:
        """What a row of subtrees is at most; without what rounding may add to a bound."""
        return (self.program.offset - leaf + 1e-9 * self.leaf) / self.unit

    def violated(self, point: Floats, fractional: bool) -> Iterator[Cut]:
        """Rows that a point violates."""
        point = point[: self.program.n_columns]
        yield from self.program.min_cuts(point, MOST_CUTS, NEW_FRACTIONAL if fractional else NEW_CUT)
        for separator in self.separators:
            for cut in separator.cuts(self.program, point, fractional):
                if cut.violation(point) > NEW_CUT:
                    yield cut

    def start(self, n_columns: int) -> Floats | None:
        """The incumbent as a point, or None."""
        assert self.tree is not None
        own = self.problem.live(self.tree)
        point = self.program.encode(own)
        if point is None:  # its splits are equal to candidates that stand for several
            moved = self.fitted(self.problem.live(self.program.candidates.nearest(own, self.problem.X)))
            point = None if moved is None or self.problem.violation(moved) else self.program.encode(moved)
        if point is None or n_columns > len(point):  # without the variables of features
            return None
        return point
