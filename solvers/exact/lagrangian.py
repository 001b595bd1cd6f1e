"""`Lagrangian`: side constraints that add up over rows, priced into the outcomes of the exact search."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.problems.mip.hypergraph import TooLargeError
from opttree.runtime.clock import seconds_left
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from opttree.statement.constraints import LeafConstraint, MaxSplits, picks
from opttree.statement.constraints.base import EXACT
from opttree.statement.joint_leaves import NoAnswersError
from solvers.core.base import LastCall, Solver, Step, Steps
from solvers.core.driver import solve
from solvers.core.incumbent import noise_of, rounded
from solvers.core.result import SolverError, Termination, Verdict
from solvers.exact.branch_and_bound import BranchAndBound
from solvers.exact.joined import joined

Floats = NDArray[np.float64]
CLOSE = 1e-9  # relative, of bounds
CONVERGED = 1e-7  # of the objective, by which better multipliers may raise a bound
LEAST_LIMIT, WIDEST = 1e-3, 1e9  # of limits, in whose units multipliers are, and of the box of these
WHOLE = 1e-6  # errors of rows of equal weight are whole numbers, to this


class Limits:
    """The limits of a problem as rows ``sum_i G[m, i, answer] <= h[m]``, each once."""

    def __init__(self, problem: TreeProblem) -> None:
        self.problem, self.chooses = problem, picks(problem)
        found = [c.terms(problem) for c in problem.constraints if isinstance(c, LeafConstraint)]
        G, h = np.concatenate([one.G for one in found]), np.concatenate([one.h for one in found])
        size = float(np.abs(problem.Y).max())
        if self.chooses:  # answers are one of several: the first may count nothing
            h = h - G[:, :, 0].sum(axis=1)
            G = G - G[:, :, :1]
        rows = np.round(np.column_stack([G.reshape(len(h), G.shape[1] * G.shape[2]), h]), 12)
        first = np.sort(np.unique(rows, axis=0, return_index=True)[1])
        self.G, self.h = G[first], h[first]
        w = problem.w
        if self.chooses:
            lost = problem.Y if problem.loss_function.chooses else 1.0 - (np.arange(problem.n_outputs) == problem.Y)
            self.costs = w[:, None] * lost
            size = float(np.ptp(self.costs, axis=1).sum())
        self.size = size or 1.0  # of what answers may cost

    @property
    def impossible(self) -> bool:
        """Whether no answers at all are within a limit."""
        return self.chooses and bool(np.any(self.G.min(axis=2).sum(axis=1) > self.h + EXACT))

    def priced(self, multipliers: Floats) -> tuple[TreeProblem, float]:
        """The problem without its limits, whose outcomes pay for them, and what its objective lacks."""
        problem, w = self.problem, self.problem.w
        others = tuple(c for c in problem.constraints if not isinstance(c, LeafConstraint))
        paid, lacks = np.tensordot(multipliers, self.G, axes=1), -float(multipliers @ self.h)
        if self.chooses:
            table = (self.costs + paid) / w[:, None]
            least = table.min(axis=1)
            stated = problem.with_rows(
                problem.X, table - least[:, None], problem.sample_weight, loss="cost", constraints=others
            )
            lacks += float(w @ least)
        else:
            shift = paid / (2.0 * w[:, None])
            stated = problem.with_rows(problem.X, problem.Y - shift, problem.sample_weight, constraints=others)
            lacks += float(np.sum(w[:, None] * shift * (2.0 * problem.Y - shift)))
        for name in ("presorted", "ranks"):  # sorted once
            stated.__dict__[name] = getattr(problem, name)
        return stated, lacks

    def line(self, tree: Tree) -> tuple[float, Floats]:
        """What a tree of a priced problem costs in the problem, and how far it is above the limits (M,)."""
        problem = self.problem
        outputs = tree.outputs(problem.X)
        if self.chooses:
            answer = outputs.argmax(axis=1)
            rows = np.arange(len(answer))
            lost, used = self.costs[rows, answer].sum(), self.G[:, rows, answer].sum(axis=1)
        else:
            lost = np.sum(problem.w[:, None] * np.square(problem.Y - outputs))
            used = np.einsum("mik,ik->m", self.G, outputs)
        return float(lost) + problem.price_per_split * tree.n_branches, used - self.h


@runtime_checkable
class Relaxation(Protocol):
    """What is left when limits are priced: bounds it, and finds a tree; a protocol of one method.

    Its bounds are taken at their word.

    See Also
    --------
    Lagrangian : calls it

    Examples
    --------
    Trees that are grown greedily, with the bound of no errors but those of equal rows, by `certify`:

    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.constraints import MaxShare
    >>> from solvers import CartInit, Lagrangian, certify, solve
    >>> class Greedy:
    ...     def evaluate(self, problem, seconds):
    ...         tree = solve(problem, CartInit(), random_state=0).tree
    ...         return certify(problem, tree, time_limit=min(seconds, 1.0)).bound, tree
    >>> rng = np.random.default_rng(0)
    >>> X, costs = rng.normal(size=(200, 3)), rng.random((200, 2))
    >>> limited = TreeProblem(X, costs, 2, "axis", loss="cost", constraints=[MaxShare(1, 0.3)])
    >>> result = solve(limited, Lagrangian(Greedy(), enumerate=False, rounds=5))
    >>> limited.violation(result.tree) is None and result.bound <= result.objective
    True
    """

    def evaluate(self, problem: TreeProblem, seconds: float) -> tuple[float, Tree]:
        """A bound on all trees of a problem without limits on answers, and a tree.

        Parameters
        ----------
        problem : TreeProblem
            The problem, whose outcomes pay for the limits.
        seconds : float
            The seconds that are left; infinite without a limit.

        Returns
        -------
        bound, tree
            The bound, and the tree that attains it, or a good one.
        """


@dataclass(frozen=True)
class Lagrangian(Solver):
    """Side constraints that add up over rows (`MaxShare`, `MaxDifference`, `AnswerLimit`) by multipliers: each limit is
    paid for by the answers that use it, so that what is left is a statement for ``solver``, over all thresholds, and
    every value of it a bound. Trees on the way get the best answers within the limits.

    For costs of actions, 0/1 loss and squared loss, constant leaves; other constraints as ``solver`` takes them. The
    best multipliers may leave a gap. For classes and actions ``enumerate`` then lists the halves of all trees whose
    priced cost is below that of the best one known, and joins them under the limits: a proof, on tables of some dozens
    of thresholds, and not beside `MaxSplits`.

    ``step.info`` holds the number of "multipliers" that were tried, and of "halves".

    See Also
    --------
    MIP : the same constraints as programs
    NeymanPearson : one of them

    References
    ----------
    Geoffrion, "Lagrangean relaxation for integer programming", Mathematical Programming Study 2 (1974); the master is
    Kelley's.

    Examples
    --------
    >>> import numpy as np
    >>> from opttree import TreeProblem
    >>> from opttree.constraints import MaxDifference
    >>> from solvers import Lagrangian, solve
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, size=(300, 8)).astype(float)
    >>> y = ((X[:, 0] + X[:, 1] * X[:, 2] + rng.random(300)) > 1.2).astype(int)
    >>> fair = TreeProblem(X, y, 3, "axis", loss="zero_one", constraints=[MaxDifference(0, 0.1)])
    >>> result = solve(fair, Lagrangian())
    >>> result.termination.name, fair.violation(result.tree)
    ('OPTIMAL', None)
    """

    respects = (LeafConstraint, *BranchAndBound.respects)
    needs = ()  # said in `_refusal`

    solver: Any = option(
        BranchAndBound(),
        "What solves the priced problems: a solver that gives bounds, or a `Relaxation`.",
        test=lambda given: isinstance(given, Solver) or hasattr(given, "evaluate"),
        words="a solver, or an object with a method evaluate(problem, seconds)",
    )
    enumerate: bool = option(True, "Whether trees are enumerated where the best multipliers leave a gap.")
    rounds: int = option(200, "Multipliers that are tried, at most.", least=1)
    most: float = option(2e7, "Halves of trees that are held, at most.", above=0)
    gap: float = option(0.0, "Relative gap that counts as proved.", least=0, below=1)

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes limits that add up, for classes, actions and squared loss."""
        if not (picks(problem) or problem.loss_function.form == "quadratic"):
            return f"its loss is {problem.loss!r}, and multipliers are for 0/1 loss, costs of actions and squared loss"
        if problem.leaves != "constant":
            return "its leaves are linear, and multipliers are for constant ones"
        for c in problem.constraints:
            if isinstance(c, LeafConstraint) and not c.adds_up:
                return f"{c!r} orders leaves; multipliers are for limits that add up over rows"
        if not isinstance(self.solver, Solver):
            return None
        others = tuple(c for c in problem.constraints if not isinstance(c, LeafConstraint))
        return self.solver.refusal(problem.restated(constraints=others))

    def covers(self, problem: TreeProblem) -> bool:
        """As ``solver`` does; a relaxation is one of all trees."""
        return self.solver.covers(problem) if isinstance(self.solver, Solver) else True

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """The trees of better and better multipliers, with the bounds of these, and those of the enumeration."""
        run = _Run(self, problem)
        try:
            yield from run.tried(problem.best_constant(), "constant")
            if math.isinf(run.bound):
                return Verdict(Termination.INFEASIBLE, " No answers are within a limit.")
            if start is not None:
                yield from run.tried(start, "start")
            yield from run.multiply(int(rng.integers(2**31 - 1)))
            if run.open and self.enumerate and run.can_enumerate:
                yield from run.join()
        except LastCall:
            last = run.step("multipliers")
            if last is not None:
                yield last
            return Verdict(Termination.TIME_LIMIT, run.words)
        if run.tree is None:
            return Verdict(Termination.INFEASIBLE if math.isinf(run.bound) else Termination.STALLED, run.words)
        yield run.step("end")
        return Verdict(Termination.STALLED if run.open else Termination.OPTIMAL, run.words)


class _Run:
    """A run: incumbent, bound, the lines of all trees so far."""

    def __init__(self, options: Lagrangian, problem: TreeProblem) -> None:
        self.options, self.problem, self.limits = options, problem, None
        if any(isinstance(c, LeafConstraint) for c in problem.constraints):
            limits = Limits(problem)
            self.limits = limits if len(limits.h) else None  # parity of one group asks for nothing
        self.tree: Tree | None = None
        self.objective, self.bound = math.inf, 0.0
        free = problem.restated(constraints=())
        self.leaf = free.objective(free.best_constant())
        equal = problem.loss_function.form == "errors" and float(np.ptp(problem.w)) == 0.0
        self.whole = float(problem.w[0]) if equal and not problem.price_per_split else 0.0
        self.best = np.zeros(0 if self.limits is None else len(self.limits.h))  # multipliers
        self.info = {"multipliers": 0.0, "halves": 0.0}
        self.words = ""
        if self.limits is not None and self.limits.impossible:
            self.bound = math.inf
        if self.limits is not None and self.limits.chooses and not self.can_enumerate:
            self.words = " Trees are not enumerated beside MaxSplits."

    @property
    def open(self) -> bool:
        """Whether a gap is left."""
        if math.isinf(self.objective):
            return math.isfinite(self.bound)
        within = max(self.options.gap, CLOSE) * abs(self.objective) + rounded(
            self.objective, self.leaf, noise_of(self.problem)
        )
        return self.objective - self.bound > within

    @property
    def can_enumerate(self) -> bool:
        """Whether answers are one of several, and no constraint counts splits."""
        limited = [c for c in self.problem.constraints if not isinstance(c, LeafConstraint)]
        return self.limits is not None and self.limits.chooses and not any(isinstance(c, MaxSplits) for c in limited)

    def step(self, phase: str) -> Step | None:
        """The incumbent and the bound; None while there is no tree."""
        if self.tree is None:
            return None
        return Step(self.tree, self.objective, min(self.bound, self.objective), phase, info=dict(self.info))

    def tried(self, tree: Tree, phase: str) -> Iterator[Step | None]:
        """Take a tree's splits with the best answers within the limits, if that is better."""
        try:
            fitted = self.problem.fit_leaves(tree)
        except NoAnswersError:
            return
        objective = self.problem.objective(fitted)
        if objective < self.objective:
            self.tree, self.objective = fitted, objective
            yield self.step(phase)

    def raise_bound(self, bound: float) -> None:
        """Take a proved bound, if it is better."""
        if self.whole and math.isfinite(bound):
            bound = self.whole * math.ceil(bound / self.whole - WHOLE)
        self.bound = max(self.bound, bound)

    def evaluate(self, multipliers: Floats, seed: int) -> tuple[float, Tree | None]:
        """The bound at some multipliers, and the tree that attains it; None where none satisfies the other limits, and
        where none was found, whose bound is minus infinity.
        """
        others = tuple(c for c in self.problem.constraints if not isinstance(c, LeafConstraint))
        stated, lacks = self.problem.restated(constraints=others), 0.0
        if self.limits is not None:
            stated, lacks = self.limits.priced(multipliers)
        left = seconds_left()
        if not isinstance(self.options.solver, Solver):
            self.info["multipliers"] += 1.0
            bound, tree = self.options.solver.evaluate(stated, left)
            return float(bound) + lacks, tree
        limit = max(left, 1e-3) if np.isfinite(left) else None
        self.info["multipliers"] += 1.0
        try:
            result = solve(stated, self.options.solver, time_limit=limit, random_state=seed)
        except SolverError as error:
            self.words = f" {error}"
            return -math.inf, None
        tree = None if result.tree is None else as_tree(result.tree)
        return (0.0 if result.bound is None else result.bound) + lacks, tree

    def multiply(self, seed: int) -> Iterator[Step | None]:
        """Kelley's cutting planes in a box about the best multipliers: what they bound is the least of the lines of all
        trees, of which these are some.
        """
        yield None
        best, multipliers, most = -math.inf, self.best, math.inf
        lines: list[tuple[float, Floats]] = []
        size = self.leaf if self.limits is None else max(self.leaf, self.limits.size)
        width = size / max(float(np.abs(self.limits.h).max()), LEAST_LIMIT) if self.limits is not None else 0.0
        for _ in range(self.options.rounds):
            bound, tree = self.evaluate(multipliers, seed)
            if bound > best:
                far = np.abs(multipliers - self.best).max(initial=0.0) > 0.99 * width
                width, best, self.best = width * (2.0 if far else 1.0), bound, multipliers
            else:
                width *= 0.5
            self.raise_bound(bound)
            if tree is None:
                return
            yield from self.tried(tree, "multipliers")
            yield self.step("multipliers")
            if self.limits is None or not self.open:
                return
            lines.append(self.limits.line(tree))
            close = CONVERGED * max(abs(best), self.leaf)
            multipliers, most = _master(lines, self.best, width)
            while most <= best + close and width < WIDEST * size:  # the best ones may be outside the box
                if np.abs(multipliers - self.best).max() < 0.99 * width:
                    self.words = " The multipliers are the best ones."
                    return
                width *= 10.0
                multipliers, most = _master(lines, self.best, width)
            if most <= best + close:
                self.words = " The multipliers are the best ones."
                return

    def join(self) -> Iterator[Step | None]:
        """Trees that are priced below the incumbent, enumerated; they end the search."""
        limits = self.limits
        assert limits is not None
        stated, _lacks = limits.priced(self.best)
        upper = self.objective
        if math.isinf(upper):  # no tree costs as much
            upper = 2.0 * float(limits.costs.max(axis=1).sum()) + stated.price_per_split * 2**stated.depth
        try:
            found, cost, halves = yield from joined(
                stated, limits.costs, limits.G, limits.h + EXACT, self.best, upper, self.options.most
            )
        except TooLargeError as error:
            self.words += f" Trees were not enumerated: {error}."
            return
        self.info["halves"] = float(halves)
        if found is not None:
            yield from self.tried(found, "enumeration")
        self.bound = max(self.bound, min(cost, self.objective))
        self.words += " Every tree that may be better was enumerated."


def _master(lines: list[tuple[float, Floats]], centre: Floats, width: float) -> tuple[Floats, float]:
    """The multipliers >= 0 within ``width`` of a ``centre`` at which the least of the lines ``cost + multipliers @
    excess`` is highest, and its value there.
    """
    from scipy.optimize import linprog

    costs = np.array([cost for cost, _excess in lines])
    excess = np.array([excess for _cost, excess in lines])
    low = np.maximum(centre - width, 0.0)
    there = costs + excess @ low
    size = max(float(np.abs(there).max()), float(np.abs(excess).max()) * width, 1e-300)
    table = np.column_stack([-excess * width / size, np.ones(len(lines))])  # steps in units of the width
    bounds = [(0.0, float(end)) for end in (centre + width - low) / width] + [(None, None)]
    aim = np.append(np.zeros(len(centre)), -1.0)
    solution = linprog(aim, A_ub=table, b_ub=there / size, bounds=bounds, method="highs-ds")
    if solution.x is None:
        return centre, math.inf
    found: Floats = low + solution.x[:-1] * width
    return found, float(-solution.fun * size)
