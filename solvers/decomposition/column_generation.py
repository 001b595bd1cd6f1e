"""`ColumnGeneration`: trees as one path per leaf, whose linear program is solved by pricing, on HiGHS."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.problems.exact.leaves import fit_exact_leaves
from opttree.problems.mip import TooLargeError
from opttree.problems.mip.paths import Nested, Paths, has_limits
from opttree.runtime.clock import seconds_left
from opttree.runtime.interrupts import in_background
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from opttree.statement.constraints import (
    DifferentLeaf,
    FeatureCost,
    ForbidSplit,
    LeafConstraint,
    MaxFeatures,
    MaxSplits,
    MinPerGroup,
    RequireSplit,
    SameLeaf,
    picks,
)
from solvers.core.base import LastCall, Step, Steps
from solvers.core.candidates import OverCandidates
from solvers.core.incumbent import Incumbent
from solvers.core.result import Termination, Verdict
from solvers.decomposition.path_master import Column, Duals, Master
from solvers.exact.lagrangian import Lagrangian, Limits
from solvers.initial.starts import first_trees

Floats = NDArray[np.float64]
BY_SPLITS = (MaxSplits, MaxFeatures, FeatureCost, RequireSplit)  # rows on the choices of branches
ROUNDING = 1e-9  # relative: of sums of costs and dual values
TOLERANCE = 1e-6  # of HiGHS, in units of the mean cost of a distinct row
DEPTH = {"leaf": 0, "twig": 1, "subtree": 2}


@runtime_checkable
class Pricer(Protocol):
    """Finds columns for the master of `ColumnGeneration`; a protocol of one method.

    A pricer of your own may be incomplete: where it finds nothing, all paths are priced, and only that gives bounds.

    See Also
    --------
    ColumnGeneration : calls it

    Examples
    --------
    A pricer that looks at a hundred paths of each slot, drawn anew at each call:

    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from solvers import Column, ColumnGeneration, solve
    >>> class Sampled:
    ...     def __init__(self):
    ...         self.rng = np.random.default_rng(0)
    ...
    ...     def price(self, paths, duals):
    ...         for slot, splits in enumerate(paths.splits):
    ...             some = self.rng.integers(len(splits), size=100)
    ...             ends = paths.sets[slot][some]
    ...             filled = ends >= 0
    ...             cost = np.where(filled, paths.value[ends], 0.0)
    ...             cost -= np.where(filled, paths.sums(duals.cover)[ends], 0.0)
    ...             for level in range(splits.shape[1]):
    ...                 cost -= duals.choice[slot, level, splits[some, level]]
    ...             for k in np.argsort(cost)[:5]:
    ...                 yield Column(slot, int(some[k]))
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, size=(200, 8)).astype(float)
    >>> y = (X[:, 0] != X[:, 1]) ^ (rng.random(200) < 0.1)
    >>> problem = TreeProblem(X, y, 2, "axis", loss="zero_one")
    >>> result = solve(problem, ColumnGeneration(pricer=Sampled()))
    >>> result.termination.name, result.objective == solve(problem, ColumnGeneration()).objective
    ('OPTIMAL', True)
    """

    def price(self, paths: Paths, duals: Duals) -> Iterable[Column]:
        """Columns that may have negative reduced costs.

        Parameters
        ----------
        paths : Paths
            All paths: ``paths.splits[slot]`` (P, top) are their choices, ``paths.sets[slot]`` (P,) the numbers of the
            sets of rows at their ends (-1: empty), ``paths.value`` what these cost, ``paths.sums`` adds up.
        duals : Duals
            The dual values.

        Returns
        -------
        iterable of Column
            The columns; others than those of negative reduced cost are dropped.
        """


@dataclass(frozen=True)
class ColumnGeneration(OverCandidates):
    """Path columns: a tree is a path to each of its leaves, and the paths agree on the split of every branch.

    The master has a variable for each split of each branch and a column for each path, whose cost is that of its leaf,
    or of the best subtree below it: any loss that "hyperflow" takes. Two families of rows: the paths through a branch
    choose the split that the branch does; and, with ``cover``, every distinct row is on one path. Without cover rows
    the bound is weak; with them it was the optimum on all data sets named in the notes. All paths are priced, so that
    each round gives a bound.

    A gap that is left is closed by the program of all columns whose reduced cost is within it (price and branch). With
    limits on answers that is a proof for leaf columns alone: of a path with subtrees only the cheapest one is a column.

    ``step.info`` holds the numbers of "columns" and "rounds", and the "lp_bound".

    See Also
    --------
    Pricer : columns by a method of your own
    MIP : whole programs
    Lagrangian : limits on answers over all thresholds

    Notes
    -----
    The linear program's value with cover rows was the optimum in all of 29 cases (11 data sets at depth 2, 8 at depth 3
    with twigs, 5 at depth 4 with subtrees, 5 of squared loss): an observation, not a theorem.

    References
    ----------
    Firat, Crognier, Gabor, Hurkens and Zhang, "Column generation based heuristic for learning classification trees",
    Computers & Operations Research 116 (2020); Patel, Subramanian and others, "An improved column-generation-based
    matheuristic for learning classification trees", Computers & Operations Research 165 (2024).

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from solvers import ColumnGeneration, solve
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, size=(200, 8)).astype(float)
    >>> y = X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.1 * rng.normal(size=200)
    >>> result = solve(TreeProblem(X, y, 2, "axis"), ColumnGeneration())
    >>> result.termination.name, result.gap < 1e-5
    ('OPTIMAL', True)
    """

    respects = (LeafConstraint, *BY_SPLITS, ForbidSplit, SameLeaf, DifferentLeaf, MinPerGroup)
    states = "hyperflow"
    needs = ()  # `MIPTreeProblem` says which losses hyperflow takes

    columns: Literal["auto", "leaf", "twig", "subtree"] = option(
        "auto",
        """What is at the end of a path: a leaf, a twig (one split at most, with its leaves), or a subtree of two
        levels. "auto": paths of two splits, and what is left of the depth below them; leaves where limits on splits or
        answers must see them.""",
    )
    terminal: int = option(0, "Further levels of the subtrees at the ends of paths.", least=0)
    cover: bool = option(True, "Whether there are rows that cover every distinct row.")
    n_thresholds: int | Literal["all"] = option("all", "See `MIPTreeProblem`.", least=1)
    pricer: Pricer | None = option(
        None,
        "Looks for columns first, see `Pricer`.",
        test=lambda given: given is None or hasattr(given, "price"),
        words="an object with a method price(paths, duals)",
    )
    enumerate: bool = option(True, "Whether the program of all columns within the gap is solved at the end.")
    whole_master: bool = option(
        False, "Whether the linear program is solved to its end where its bound, rounded up, is a proof before."
    )
    gap: float = option(0.0, "Relative gap that counts as proved.", least=0, below=1)

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes what hyperflow does, and limits on classes and actions that add up."""
        for c in problem.constraints:
            if isinstance(c, LeafConstraint) and not c.adds_up:
                return f"{c!r} orders leaves; columns are for limits that add up over rows"
            if isinstance(c, LeafConstraint) and not picks(problem):
                return f"its loss is {problem.loss!r}, and limits on answers are for 0/1 loss and costs of actions here"
            if isinstance(c, BY_SPLITS) and self.levels_below(problem):
                return f"{c!r} counts splits, which are hidden in deeper columns; use columns='leaf'"
        return self.not_stated(problem)

    def levels_below(self, problem: TreeProblem) -> int:
        """Levels of the subtrees at the ends of paths.

        Parameters
        ----------
        problem : TreeProblem
            The problem.

        Returns
        -------
        int
            Their depth; 0 for leaves.
        """
        if self.columns != "auto":
            return min(DEPTH[self.columns] + self.terminal, problem.depth)
        see_all = any(isinstance(c, (LeafConstraint, *BY_SPLITS)) for c in problem.constraints)
        return self.terminal if see_all else max(problem.depth - 2, min(self.terminal, problem.depth))

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """The trees of the master, with the bounds of its duals, and those of the program at the end."""
        run = _Run(self, problem)
        try:
            yield from run.in_time(run.begin(start, rng))
            yield from run.in_time(run.price())
            if run.open and self.enumerate and not run.infeasible:
                yield from run.in_time(run.branch())
        except TooLargeError as error:
            yield run.step("columns")
            return Verdict(Termination.TOO_LARGE, f" ({error}.)")
        except LastCall:
            if (last := run.step("columns")) is not None:
                yield last
            return Verdict(Termination.TIME_LIMIT, run.words)
        finally:
            run.stop()
        yield run.step("end")
        return run.verdict()


class _Run(Incumbent):
    """A run: incumbent, bound, paths and master."""

    def __init__(self, options: ColumnGeneration, problem: TreeProblem) -> None:
        super().__init__(problem, options.gap)
        self.options, self.stated = options, options.stated(problem)
        self.limits = Limits(problem) if has_limits(problem) else None
        self.infeasible = self.limits is not None and self.limits.impossible
        self.info = {"columns": 0.0, "rounds": 0.0}
        self.words = f" Candidate splits: {self.stated.candidate_text}."
        self.ending: Any = None  # the program at the end, while it runs

    def fitted(self, tree: Tree | None) -> Tree | None:
        """A tree with the best leaves; linear ones as columns have them, which are not clipped."""
        if tree is not None and self.problem.leaves == "linear":
            return fit_exact_leaves(self.problem, tree)
        return super().fitted(tree)

    def begin(self, start: Tree | None, rng: Rng) -> Generator[Step | None, Any, None]:
        """Trees to begin with, paths and master."""
        problem = self.problem
        found = yield from first_trees(self, self.stated, start, rng)
        multipliers = Lagrangian(enumerate=False)
        if self.limits is not None and not self.infeasible and multipliers.refusal(problem) is None:
            for step in multipliers.steps(problem, None, rng):  # trees that CART's splits do not lead to
                yield None
                if step is not None and (snapped := self.stated.snap(as_tree(step.tree))) is not None:
                    found.append(snapped)
                    yield from self.take(snapped, "multipliers")
        if self.infeasible:
            return
        candidates = self.stated.candidates
        if not any(isinstance(c, (ForbidSplit, RequireSplit, MaxFeatures, FeatureCost)) for c in problem.constraints):
            candidates = candidates.distinct()
        below = self.options.levels_below(problem)
        stated = problem.restated(
            constraints=tuple(c for c in problem.constraints if not isinstance(c, LeafConstraint))
        )
        self.paths = yield from Paths.prepare(
            stated, candidates, problem.depth - below, complete=self.limits is not None
        )
        self.master = yield from in_background(lambda: Master(self.paths, self.limits, self.options.cover, self.leaf))
        for tree in found:
            chosen = self.paths.choices_of(candidates.nearest(tree, problem.X))
            if chosen is not None:
                self.master.add_tree(chosen)

    def price(self) -> Generator[Step | None, Any, None]:
        """Rounds of the master until no column has a negative reduced cost."""
        if self.infeasible:
            return
        master, own, best = self.master, self.options.pricer, -math.inf
        while True:
            yield from in_background(lambda: master.solve(seconds_left()))
            if master.duals is None:  # its time is up, or it failed
                if seconds_left() <= 0.0:
                    raise LastCall
                self.words += f" The master ended early: {master.status}."
                return
            self.info |= {"columns": float(master.n_columns), "rounds": self.info["rounds"] + 1.0}
            yield from self.take(self.tree_of(master.most_used()), "columns")
            if own is not None and master.add(master.negative(list(own.price(self.paths, master.duals)))):
                continue
            columns, value = yield from in_background(master.priced)
            best = max(best, value)
            self.raise_bound(value * master.unit, ROUNDING * (abs(value) * master.unit + self.leaf))
            if value > master.most and not master.is_kept:
                self.infeasible, self.bound = True, math.inf
                return
            self.info["lp_bound"] = best * master.unit
            yield self.step("columns")
            if not self.open and not self.options.whole_master:
                return
            if not master.add(columns) and (master.is_kept or not master.raise_penalty()):
                return

    def tree_of(self, chosen: list[int]) -> Tree | None:
        """The tree with these choices of its branches; None if it is none."""
        ends: list[Nested | None] = []
        for slot in range(self.paths.tree.n_leaves):
            found = self.paths.path_of(chosen, slot)
            if found is None:
                return None
            number = int(self.paths.sets[slot][found[1]])
            ends.append(None if number < 0 else self.paths.below(number, self.master.choice))
        return self.paths.tree_of(chosen, ends)

    def branch(self) -> Generator[Step | None, Any, None]:
        """The program of all columns whose reduced costs are within the gap."""
        if self.limits is not None and self.paths.top < self.problem.depth:
            self.words += " Subtrees beside limits on answers are not enumerated."
            return
        if self.master.duals is None:
            return
        upper = self.objective
        room = math.inf if math.isinf(upper) else upper - self.master.value * self.master.unit
        program, kept = self.master.within(room / self.master.unit)
        if program is None:
            self.words += f" {kept} columns are within the gap, too many to enumerate."
            return
        yield None
        self.info["columns"] = float(kept)
        self.slack = TOLERANCE * self.master.unit
        status, values, bound = yield from self._solved(program)
        if values is not None:
            yield from self.take(self.tree_of(self.master.chosen(values)), "branch and bound")
        if status == "Optimal" and values is not None:
            self.raise_bound(min(bound, self.objective), self.slack)
            self.words += " All columns within the gap were enumerated."
        elif status == "Infeasible" and self.tree is None:
            self.infeasible, self.bound = True, math.inf

    def _solved(self, program: dict[str, Any]) -> Generator[Step | None, Any, tuple[str, Floats | None, float]]:
        from solvers.mip.highs import Program, Run
        from solvers.mip.limits import Limits as Ends

        ends = Ends(1e-9, max(seconds_left(), 0.0), None, 1, 0, False, False)
        self.ending = Run(Program(program, 0.0, self.master.unit), ends, None)
        while not self.ending.wait():
            while self.ending.events:
                values, bound = self.ending.events.popleft()[:2]
                if values is not None:
                    yield from self.take(self.tree_of(self.master.chosen(values)), "branch and bound")
                if bound is not None:
                    self.raise_bound(min(bound, self.objective), self.slack)
                    yield self.step("branch and bound")
            yield None
        status, bound, _nodes, values = self.ending.outcome()
        self.ending = None
        return status, values, -math.inf if bound is None else bound

    def stop(self) -> None:
        """End what runs."""
        if self.ending is not None:
            self.ending.stop()
