"""`MIP`: mixed-integer programming with HiGHS, which reports incumbents and bounds as it runs."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.problems import MIPTreeProblem
from opttree.problems.exact.leaves import output_range
from opttree.problems.mip import LEAST_MARGIN, Formulation, TooLargeError
from opttree.runtime.clock import now, seconds_left
from opttree.runtime.interrupts import in_background
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from opttree.statement.constraints import Constraint
from solvers.core.base import LastCall, Solver, Step, Steps
from solvers.core.incumbent import noise_of
from solvers.core.origin import steps_of
from solvers.core.result import Termination, Verdict
from solvers.exact.relaxed import is_relaxable, relaxed_steps
from solvers.initial import CartInit
from solvers.initial.starts import ordered_tree
from solvers.local_search import LocalSearch
from solvers.mip.limits import DIRECT, Limits, takes_squares, unavailable

Floats = NDArray[np.float64]
SMALL = 100_000  # numbers of a table, of which CART's tree comes before any limit
GAP, ROUGH_GAP = 1e-6, 1e-4  # of linear losses, and of others in flow and big-m
QUICK_WORK = 3e7  # rows x thresholds ^ (depth - 1) x features up to which no good start is needed
SEARCH_WORK, SEARCH_NODES = 1e8, (20, 300)  # rows x thresholds x nodes, range of nodes: local search for a start
SMALL_STEP, MOST_STALE = 0.01, 4  # share of the gap by which new tangents should raise the bound, and how often not
VALUE_RTOL = 1e-6  # relative to an objective: values this close count as equal
TOLERANCE = 5e-10  # of one leaf's objective: what the optimizer's tolerances may add to a bound
ROW_TOLERANCE = 1e-6  # the same, of the largest cost of a row, where the program has costs of rows
LOST = 1e-3  # of an objective: the most that they may be in a proof
ROUNDING = 1e-12  # of one leaf's objective: what rounding may leave of a loss of 0
WHOLE = 1e-2  # of a row's weight, where rows are counted


@dataclass(frozen=True)
class MIP(Solver):
    """Solve the problem as a mixed-integer program, by HiGHS unless told otherwise, with a proved bound.

    The first step is CART's tree, moved to the nearest candidate splits (or the tree of one leaf, if better), with the
    bound 0; then the start tree, if given, or a short local search. After that, each incumbent of HiGHS, decoded and
    with exact leaves, and each new bound is a step; ``step.info`` holds the number of nodes. OPTIMAL is returned only
    with a proof, and the message states its tolerance and candidate splits. A time limit or Ctrl-C soon stops any
    phase, including building the model; incumbent and bound are returned.

    Squared error in "flow" and "big-m" is bounded from below by tangents, added at the last solution until the gap is
    closed, since HiGHS does not support quadratic objectives with integer variables.

    See Also
    --------
    opttree.MIPTreeProblem : the program
    BranchAndBound : over all thresholds, faster
    opttree.constraints : side constraints

    References
    ----------
    Bertsimas and Dunn, "Optimal classification trees", Machine Learning 106 (2017); Aghaei, Gomez and Vayanos,
    "Strong optimal classification trees" (2021).

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import MIP, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X[:100], y[:100], depth=2, splits="axis")
    >>> proved = solve(problem, MIP(n_thresholds=8))
    >>> proved.termination.name
    'OPTIMAL'
    """

    respects = (Constraint,)
    needs = ()  # `MIPTreeProblem` says which losses its formulations take
    formulation: Literal["auto", "hyperflow", "flow", "big-m", "cut", "cut-w", "binoct"] = option(
        "auto",
        """See `MIPTreeProblem`. "auto": "hyperflow"; for oblique splits with too many sides to list, where it does not
        state the side constraints, and with functions of the model among them, "flow", or "big-m" for oblique
        splits.""",
    )
    init: Solver | Literal["auto"] | None = option(
        "auto",
        """Solver for MIP starts, if `solve` is given none: its trees are moved to the nearest candidate splits. A good
        start helps "flow" and "big-m" to prune. "auto": CART's tree and, unless the proof is quick, a short local
        search from it; under side constraints that `BranchAndBound` does not take, its bound and its trees without
        them, in three tenths of the time at most. None: no start.""",
    )
    n_thresholds: int | Literal["all"] = option("all", "See `MIPTreeProblem`.", least=1)
    max_splits: int | None = option(None, "See `MIPTreeProblem`.", least=0)
    max_features: int | None = option(None, "See `MIPTreeProblem`.", least=0)
    gap: float | None = option(
        None,
        """Relative gap that counts as proved, >= 0; None: 1e-6, or 1e-4 for squared and log loss in flow and big-m.
        Half of it is asked of the optimizer and taken off its bounds, since it drops nodes that near to its best. What
        the optimizer's tolerances may add counts beside it; the message says how much where that was needed.""",
        least=0,
    )
    time_limit: float | None = option(
        None,
        "Seconds for the whole run, > 0, or None; the time limit of `solve` applies in addition.",
        above=0,
        finite=False,
        words="> 0 seconds or None",
    )
    node_limit: int | None = option(
        None, "Limit on branch-and-bound nodes, >= 1, or None; the same seed and limit give the same tree.", least=1
    )
    threads: int | None = option(
        None,
        "Threads of HiGHS, >= 1; None: HiGHS decides. Use one number per process: HiGHS keeps its first setting.",
        least=1,
    )
    seed: int | None = option(
        None, "Of the optimizer, >= 0; None: by the ``random_state`` of `solve`.", least=0, most=2**31 - 1
    )
    subtree_rows: bool = option(True, "See `MIPTreeProblem`.")
    coef_bound: float = option(10.0, "See `MIPTreeProblem`.", above=0)
    margin: float = option(0.005, "See `MIPTreeProblem`.", least=LEAST_MARGIN)

    constraints: tuple[Any, ...] = option(
        (),
        "Side constraints beside those of the problem, and functions of the Pyomo model, see `MIPTreeProblem`.",
        test=lambda given: all(isinstance(c, Constraint) or (callable(c) and not isinstance(c, type)) for c in given),
        words="a sequence of side constraints, such as MaxSplits(3), and functions of the model",
    )
    optimizer: str = option(
        "highs",
        """"highs"; "scip" (package `pyscipopt`), "gurobi" (`gurobipy`, whose own licence is for 2,000 variables
        and rows): these get starts and report incumbents and bounds as they run. Or the name of a solver that Pyomo
        finds, such as "cbc", which reports at its end.""",
    )
    verbose: bool = option(False, "Whether to print the log of the optimizer; HiGHS before 1.14 gives none.")

    def stated(self, problem: TreeProblem) -> MIPTreeProblem:
        """Mixed-integer program of a problem.

        Parameters
        ----------
        problem : TreeProblem
            The problem.

        Returns
        -------
        MIPTreeProblem
            The program.

        Raises
        ------
        ValueError
            Where there is none.
        """
        if self.formulation != "auto":
            return self._stated_as(problem, self.formulation)
        functions = any(not isinstance(c, Constraint) for c in self.constraints)
        if not functions:
            try:
                return self._stated_as(problem, "hyperflow")
            except ValueError:
                if problem.splits == "axis" and not (problem.constraints or self.constraints):
                    raise  # the reason, with the formulation to name
        return self._stated_as(problem, "flow" if problem.splits == "axis" else "big-m")

    def _stated_as(self, problem: TreeProblem, formulation: Any) -> MIPTreeProblem:
        is_quadratic = problem.loss_function.form == "quadratic" and formulation != "hyperflow"
        squares = is_quadratic and takes_squares(self.optimizer)
        return MIPTreeProblem(
            problem,
            formulation=formulation,
            n_thresholds=self.n_thresholds,
            max_splits=self.max_splits,
            max_features=self.max_features,
            constraints=self.constraints,
            subtree_rows=self.subtree_rows,
            objective="exact" if squares else "outer",
            coef_bound=self.coef_bound,
            margin=self.margin,
        )

    @property
    def lacks(self) -> str:
        """What the optimizer is not given or does not give, in words; "" for those that are given arrays."""
        return (
            ""
            if self.optimizer == "highs" or self.optimizer in DIRECT
            else "no start, no bounds while it runs, no stop before its limit"
        )

    def covers(self, problem: TreeProblem) -> bool:
        """Whether the program states every tree of ``problem``: no further limits or thresholds, no margins, and no
        linear leaves, which it does not clip.
        """
        stated = self.stated(problem)
        restricted = self.n_thresholds != "all" or self.max_splits is not None or self.max_features is not None
        return not restricted and not self.constraints and problem.leaves == "constant" and stated.lists_candidates

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes what the formulation can express, where the optimizer is installed."""
        try:
            self.stated(problem)
        except ValueError as error:
            return str(error)
        if (reason := unavailable(self.optimizer)) is not None:
            return reason
        return self.init._refusal(problem) if isinstance(self.init, Solver) else None

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """Incumbents and bounds, until a proof or a limit."""
        began = now()
        stated = self.stated(problem)
        seed = int(rng.integers(2**31 - 1)) if self.seed is None else self.seed
        search = _Search(replace(self, seed=seed), stated, began)
        problem, auto = stated.problem, self.init == "auto"
        try:
            small = auto and problem.splits == "axis" and problem.X.size <= SMALL  # CART's tree is there at once
            if not stated.extensions and not small and search.take(problem.best_constant()):
                yield search.step("constant")
            yield from stated.list_candidates()
            if stated.extensions:  # which trees they allow is known from the model
                yield from search.build()
            label = "constant" if search.take(problem.best_constant()) else ""
            label = "CART" if auto and search.take_cart(rng.spawn(1)[0]) else label
            if label:
                yield search.step(label)
            if start is not None:
                if search.take_start(start):
                    yield search.step("start")
            elif isinstance(self.init, Solver):
                yield from search.begin(self.init, None, rng)
            elif auto:
                if self.covers(problem) and is_relaxable(problem):
                    yield from search.relax(rng)
                    if search.is_proved() and not search.is_lost():
                        return Verdict(Termination.OPTIMAL, search.detail())
                levels = 3 if self.n_thresholds == "all" else 0  # optimal subtrees are of all thresholds
                local = LocalSearch(exact_levels=levels)
                if search.is_long() and local.refusal(problem) is None:
                    yield from search.begin(local, search.tree, rng, search.short)
            return (yield from search.run())
        except LastCall:
            search.stop()
            with suppress(LastCall):
                yield search.step("branch and bound")
            return Verdict(Termination.TIME_LIMIT, search.detail())
        finally:
            search.stop()


class _Search:
    """State of the search: incumbent, bound, and the current run of HiGHS."""

    def __init__(self, options: MIP, stated: MIPTreeProblem, began: float) -> None:
        self.options, self.stated, self.problem, self.began = options, stated, stated.problem, began
        self.tree: Tree | None = None
        self.objective = math.inf
        free = self.problem.restated(constraints=())
        loss = self.problem.loss_function
        rough = stated.formulation != "hyperflow" and loss.form in ("quadratic", "entropy")
        leaf = free.objective(free.best_constant())
        equal = loss.form == "errors" and float(np.ptp(self.problem.w)) == 0.0
        # of errors of rows of equal weight: objectives are its multiples
        self.whole = float(self.problem.w[0]) if equal and not self.problem.price_per_split else 0.0
        # the objective adds up costs of rows: their variables, not the splits, are what tolerances are for
        self.by_rows = stated.formulation != "hyperflow" and not self.whole
        span = 1.0 if self.problem.is_classification else output_range(self.problem)[1]
        if loss.chooses:
            span = float(np.ptp(self.problem.Y, axis=1).max()) or 1.0
        row = float(self.problem.w.max()) * span**loss.degree
        # smaller differences are within the optimizer's tolerances
        # of one row, whose leaf is at the end of as many inexact integers as there are levels
        of_rows = ROW_TOLERANCE * row * (1 + self.problem.depth) if self.by_rows else 0.0
        self.slack = max(TOLERANCE * leaf, of_rows)
        self.is_tight = bool(self.problem.constraints) and not self.by_rows  # they may hold for inexact integers alone
        self.rounding, self.noise = ROUNDING * leaf, noise_of(self.problem)
        self.gap = options.gap if options.gap is not None else ROUGH_GAP if rough else GAP
        self.bound, self.nodes = 0.0, 0
        self.doubtful = False  # whether candidate splits may be missing: then there is no bound
        self.about_start: str | None = None  # why the start was not used, or not as it is
        self.value: float | None = None  # objective of the last solution in the model
        self.model: Any = None
        self.formulation: Formulation | None = None
        self.run_of: Any = None  # the current run of the optimizer, if any
        self.info: dict[str, float] = {}
        # HiGHS 1.16 may take the value of a start for another one after presolve, and stop there; and its tolerance may
        # leave a gap: then it runs once more, without a start, with a tight one
        self.careful = False

    def take(self, tree: Tree | None, *, from_model: bool = False) -> bool:
        """Take a tree of candidate splits (or None) as the incumbent if it is better; returns whether it is. One that
        does not come ``from_model`` must satisfy the functions of the model.
        """
        objective = math.inf if tree is None else self.problem.objective(tree)
        if tree is None or objective >= self.objective:
            return False
        if not from_model and self.stated.extensions and not self.stated.contains(self.model, tree):
            return False
        self.tree, self.objective = tree, objective
        return True

    def take_start(self, start: Tree) -> bool:
        """Take a start tree, moved to the candidate splits; the message says why where a limit rules it out."""
        tree = self.stated.snap(start)
        if tree is None:
            self.about_start = "the start was not used: its splits or leaves are outside the program's limits"
        else:
            broken = self.problem.violation(tree)
            if broken is None and self.stated.extensions and not self.stated.contains(self.model, tree):
                broken = "it violates a constraint of the model"
            given, fitted = self.problem.objective(start), self.problem.objective(tree)
            if broken is not None:
                self.about_start = f"the start was not used: {broken}"
            elif given < fitted and self.problem.leaves == "linear":
                self.about_start = (
                    f"{given:.6g} as given, {fitted:.6g} with leaves of the program, which are not clipped"
                )
        return self.take(tree)

    def take_cart(self, rng: Rng) -> bool:
        """Take CART's tree, of smaller depth if a limit rules it out, and the one with ordered answers where these are
        asked for; returns whether there is a new incumbent.
        """
        before = self.objective
        for depth in range(self.problem.depth, -1, -1):
            tree = self.stated.snap(CartInit().build(self.problem.restated(depth=depth, constraints=()), rng))
            if tree is not None and self.problem.violation(tree) is None:
                self.take(tree)
                break
        if (ordered := ordered_tree(self.problem)) is not None:
            self.take_snapped(ordered)
        return self.objective < before

    def take_snapped(self, tree: Tree) -> bool:
        """Take a tree, moved to the candidate splits, if it satisfies the constraints; returns whether it is better."""
        snapped = self.stated.snap(tree)
        return snapped is not None and self.problem.violation(snapped) is None and self.take(snapped)

    def raise_bound(self, bound: float | None) -> bool:
        """Take a proved bound (or None), less what the optimizer's tolerances may have added, if it is better; returns
        whether it is: the optimizer forgets nodes that are within half the gap of its best solution.
        """
        if bound is None or self.doubtful:
            return False
        return self._take_bound(bound - 0.5 * self.gap * abs(bound) - self.slack)

    def _take_bound(self, sure: float) -> bool:
        if self.whole:
            sure = self.whole * math.ceil(sure / self.whole - WHOLE)
        if sure <= self.bound:
            return False
        self.bound = sure
        return True

    def step(self, phase: str) -> Step | None:
        """A step with the incumbent and the bound; None while there is no tree."""
        if self.tree is None:
            return None
        return Step(self.tree, self.objective, self.bound, phase, info={"nodes": self.nodes, **self.info})

    def is_long(self) -> bool:
        """Whether a proof may take long: "flow", "big-m", or many sets of rows to enumerate."""
        problem, stated = self.problem, self.stated
        if stated.formulation != "hyperflow":
            return True
        per_set = float(problem.n_samples * problem.n_features)
        if problem.leaves == "linear":
            per_set *= (problem.n_features + 1) ** 2
        return per_set * float(len(stated.candidates)) ** max(problem.depth - 1, 0) > QUICK_WORK

    @property
    def short(self) -> int:
        """Nodes visited by a local search of a few seconds; computed from the size of the problem, not the clock, so
        that the same seed gives the same tree.
        """
        thresholds = sum(np.unique(column).size for column in self.problem.X.T)
        return int(np.clip(SEARCH_WORK / (self.problem.n_samples * thresholds), *SEARCH_NODES))

    def begin(
        self, init: Solver, start: Tree | None, rng: Rng, most: float = np.inf
    ) -> Generator[Step | None, Any, None]:
        """Take the trees of another solver, moved to the candidates, until it has paused ``most`` times. One that does
        not know the side constraints goes without them, and those of its trees are taken that satisfy them.
        """
        pauses, problem = 0, self.problem
        if init.refusal(problem) is not None:
            problem = problem.restated(constraints=())
        with closing(steps_of(init, problem, start, rng)) as trees:
            for step in self._in_time(trees):
                pauses += step is None
                if step is not None and self.take_snapped(as_tree(step.tree, "start")):
                    yield self.step("start")
                else:
                    yield None
                if pauses >= most:
                    break

    def relax(self, rng: Rng) -> Generator[Step | None, Any, None]:
        """Take the bound and the trees of branch and bound for the statement without its side constraints."""
        steps = relaxed_steps(self.problem, rng, self.own_seconds_left())
        for step in self._in_time(steps):
            news = False
            if step is not None:
                news = self.take_snapped(as_tree(step.tree, "start"))
                if (step.bound or 0.0) > self.bound:
                    self.bound, news = step.bound or 0.0, True
            yield self.step("without constraints") if news else None

    def is_proved(self) -> bool:
        """Whether the bound meets the incumbent."""
        return (
            self.tree is not None
            and self.objective - self.bound <= self.gap * abs(self.objective) + 2.0 * self.slack + self.noise
        )

    def is_lost(self) -> bool:
        """Whether the optimizer's tolerances are so large beside the incumbent that with them nothing is proved."""
        within, most = self.gap * abs(self.objective) + 2.0 * self.rounding, LOST * abs(self.objective)
        if 2.0 * self.rounding <= most and self.objective - self.bound <= within:
            return False
        perfect = max(self.rounding, self.noise)
        return 2.0 * self.slack > most and abs(self.objective) > perfect

    def detail(self) -> str:
        """Addition to the message: candidate splits, tolerance, and whether model and tree agree."""
        words = f" Candidate splits: {self.stated.candidate_text}; relative gap asked for: {self.gap:g}"
        if self.is_proved() and self.objective - self.bound > self.gap * abs(self.objective):
            words += f", beside {2.0 * self.slack + self.noise:.2g} for the optimizer's tolerances"
        if self.problem.leaves == "linear":
            words += f"; linear leaves {self.stated.leaf_text}"
        if self.value is not None and abs(self.value - self.objective) > VALUE_RTOL * abs(self.objective) + self.slack:
            words += f"; the model's value is {self.value:.9g}, that of the tree {self.objective:.9g}"
        if self.doubtful:
            words += "; rounding moves rows across some of these, so that others may be missing, and nothing is bounded"
        if self.tree is None:
            words += "; no tree that satisfies the constraints was found"
        if self.about_start is not None:
            words += f"; {self.about_start}"
        return words + "."

    def build(self) -> Generator[Step | None, Any, None]:
        """Enumerate and build the model."""
        complete = bool(self.stated.extensions)
        self.formulation = yield from self._in_time(self.stated.prepare(complete=complete))
        self.doubtful = self.stated.lists_candidates and self.stated.candidates.doubtful
        if math.isfinite(self.formulation.bound):
            self.model = yield from self._in_time(in_background(lambda: self.stated.build(complete=complete)))

    def run(self) -> Steps:
        """Enumerate, build and solve; repeat with tangents at the solution until the gap is closed."""
        try:
            if self.model is None:
                yield from self.build()
        except TooLargeError as error:
            return Verdict(Termination.TOO_LARGE, f" ({error}.)")
        formulation = self.formulation
        assert formulation is not None  # set by build
        if self.model is None:
            return Verdict(Termination.INFEASIBLE, self.detail())
        # of a dynamic program, which has no tolerances
        if not self.doubtful and self._take_bound(formulation.bound):
            yield self.step("relaxation")
        stale = 0
        while True:
            before = self.bound
            status = yield from self._in_time(self._solve(formulation))
            yield self.step("branch and bound")
            if status == "Infeasible" and self.tree is None:
                return Verdict(Termination.INFEASIBLE, self.detail())
            if self.is_proved():
                if self.is_lost():
                    words = " Costs this far below that of one leaf are lost in the optimizer's tolerances."
                    return Verdict(Termination.STALLED, self.detail() + words)
                return Verdict(Termination.OPTIMAL, self.detail())
            if status == "TimeLimit":
                raise LastCall
            if status != "Optimal":
                reason = "" if status == "SolutionLimit" else f" ({self.options.optimizer}: {status}.)"
                return Verdict(Termination.ITERATION_LIMIT, reason + self.detail())
            refined = formulation.refine(self.model)
            stale = stale + 1 if self.bound - before <= SMALL_STEP * (self.objective - self.bound) else 0
            if not refined or stale == MOST_STALE:
                if self.careful:
                    return Verdict(Termination.STALLED, self.detail())
                self.careful, stale = True, 0

    def _in_time(self, work: Generator[Step | None, Any, Any]) -> Generator[Step | None, Any, Any]:
        """Run ``work`` until the solver's ``time_limit``."""
        while True:
            try:
                step = next(work)
            except StopIteration as stop:
                return stop.value
            yield step
            if self.own_seconds_left() <= 0.0 or (self.tree is None and seconds_left() <= 0.0):
                raise LastCall

    def own_seconds_left(self) -> float:
        """Seconds until the solver's ``time_limit``."""
        limit = self.options.time_limit
        return math.inf if limit is None else self.began + float(limit) - now()

    def _solve(self, formulation: Formulation) -> Generator[Step | None, Any, str]:
        """One run of the optimizer from the incumbent; returns its status."""
        from solvers.mip.optimizers import begin  # slow to import

        snapped = None if self.tree is None else self.tree if self.stated.extensions else self.stated.snap(self.tree)

        def begun() -> Any:
            encode = self.stated.assign if self.stated.extensions else formulation.encode
            is_start = snapped is not None and not self.careful and encode(self.model, snapped)
            return begin(self.options.optimizer, self.model, self._limits(), is_start)

        self.run_of = yield from in_background(begun)
        done = False
        while not done:
            done = self.run_of.wait()
            for _news in self._news():
                yield self.step("branch and bound")
            yield None
        return self.stop()

    def _limits(self) -> Limits:
        return Limits(
            gap=0.5 * self.gap,
            seconds=max(min(self.own_seconds_left(), seconds_left()), 0.0),
            nodes=self.options.node_limit,
            threads=self.options.threads,
            seed=self.options.seed or 0,
            verbose=self.options.verbose,
            tight=self.careful or self.is_tight,
        )

    def stop(self) -> str:
        """Stop the optimizer, if it runs, and take its results; returns its status."""
        if self.run_of is None:
            return ""
        self.run_of.stop()
        for _news in self._news():
            pass
        status, bound, nodes, values = self.run_of.outcome()
        self.nodes = max(self.nodes, nodes)
        self.raise_bound(bound)
        if values is not None:
            self._read(values)
            self.value = float(self.model.cost())
        self.run_of = None
        return str(status)

    def _news(self) -> Iterator[None]:
        """Take the new incumbents and bounds; yields after each improvement."""
        while self.run_of.events:
            values, bound, nodes, info = self.run_of.events.popleft()
            self.nodes = max(self.nodes, nodes)
            self.info = {**self.info, **info}
            if self.raise_bound(bound) or (values is not None and self._read(values)):
                yield

    def _read(self, values: Floats) -> bool:
        self.run_of.compiled.assign(values)
        return self.take(self.stated.decode(self.model), from_model=True)
