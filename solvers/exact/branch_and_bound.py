"""`BranchAndBound`: optimal axis-aligned trees over all thresholds, with proved bounds."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator as Rng

from opttree.model.convert import as_tree
from opttree.model.tree import Tree
from opttree.problems import ExactTreeProblem
from opttree.runtime.clock import now, seconds_left
from opttree.runtime.interrupts import in_background
from opttree.runtime.options import option
from opttree.runtime.threads import count, limited
from opttree.statement import TreeProblem
from opttree.statement.constraints import ForbidSplit, RequireSplit
from solvers.core.base import LastCall, Solver, Step, Steps, changed_steps
from solvers.core.combinators import follow
from solvers.core.incumbent import noise_of
from solvers.core.result import Termination, Verdict
from solvers.exact.early import (
    ALONE_LATE,
    ALONE_LATEST,
    ALONE_SHARE,
    DEEP_ROWS,
    LATE,
    LEAST,
    LONGEST,
    ROWS,
    SHARE,
    blocks_bounds,
    equal_rows_bound,
    outputs_bound,
)
from solvers.exact.lookahead import trees_ahead
from solvers.exact.restricted import STATED, Restricted, free, is_free
from solvers.exact.search import Search, is_quick
from solvers.initial import CartInit

MOST_DEPTH, DEEPEST = 6, 16  # of trees, and of those that a price or a limit of splits keeps small
AHEAD = 0.5  # of the time of a deep search, that is spent on trees by looking two levels ahead, at most
BESIDE = 0.5  # of the time of a search, that is spent on blocks of rows beside it, at most
AWAY = 0.5  # of the incumbent's objective, that the search must have proved, and no less than the blocks, to end them
LARGE = 300_000  # numbers in X from which on the first bound is by blocks of rows
FIRST_DEPTHS = (3, 4, 5)  # whose trees a deeper search starts from, each for a
FIRST_SHARE, FIRST_SECONDS = 0.1, 5.0  # share of the time, and so many seconds, at most
ROUNDED = 1e-9  # relative, of numbers of splits
PERFECT = 1e-11  # of one leaf's objective, where predictions are kept from 0 by a share of the largest outcome
PROOF_RTOL, PROOF_ATOL = 1e-5, 1e-14  # of the objective, of one leaf's: differences that do not count against a proof


@dataclass(frozen=True)
class BranchAndBound(Solver):
    """Prove an optimal axis-aligned tree over all thresholds by branch and bound on intervals of thresholds.

    All losses of `opttree.losses` with constant leaves, squared loss with linear leaves (fitted in every leaf and not
    clipped, see `ExactTreeProblem`); weights, penalties, ``min_leaf``, ``max_splits``; depth 1 to 6, and any depth
    where a limit or a price of splits leaves no optimal tree deeper than 16 (sparse trees, GOSDT's objective). Under
    squared and 0/1 loss depth 2 takes tenths of a second and depth 3 mostly seconds on thousands of rows, where the
    features tell much of the target. Where it has hardly any signal, proofs take much longer: 45,781 rows of three
    features with an R2 of .0006 are open after 20 s at depth 2. From depth 4 on, the bound at a time limit is the
    result on all but small sets. Absolute and Huber's loss, quantiles and linear leaves take many times longer. The
    tree does not depend on the number of threads, unless time ends the search, and but for equally good ones from depth
    4 on.

    Side constraints: `ForbidSplit`, `MaxFeatures`, `FeatureCost`, `RequireSplit`. But for the first at all levels, they
    take several searches, of trees whose nodes may split on fewer and fewer features. Below the root, `RequireSplit`
    is proved where a split that is not worth its price costs nothing; where it does, and where too few rows are left
    for it, the search may end STALLED, with a valid bound, and on a few rows without a tree.

    Where the search has no bound after a tenth of a second, it gets others: by the outputs alone, by rows of equal
    features, and by blocks of rows, which are searched beside it, ever closer, up to half of the time. With linear
    leaves of more than two levels the bound may be 0 for seconds. Steps hold the incumbent and the proved bound
    whenever either moves, looked at about 20 times a second;
    ``step.info`` holds the number of searches ("nodes"), of evaluated cuts ("evaluations"), of buckets whose rows were
    visited ("scans"), and of intervals that wait ("intervals", at depth 2 those at the start). At a time limit,
    Ctrl-C or the limit of `queue_memory` both are valid. OPTIMAL is returned only where the search has ended and its
    bound is the objective, up to rounding (a relative 1e-5 at most) or the ``gap`` asked for.

    See Also
    --------
    certify : a bound for any tree
    MIP : under side constraints
    BlockBounds : for very many rows

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import BranchAndBound, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2, splits="axis")
    >>> exact = solve(problem, BranchAndBound())
    >>> exact.termination.name, round(exact.gap, 9)
    ('OPTIMAL', 0.0)
    """

    respects = STATED
    needs = ()  # `ExactTreeProblem` says which losses it takes

    gap: float = option(0.0, "Relative gap that counts as proved.", least=0, below=1)
    init: Solver | None = option(
        factory=CartInit,
        doc="""Solver for the start tree, if `solve` is given none; or None. The default is left out where the search
        takes milliseconds.""",
    )
    max_splits: int | None = option(None, "Largest number of branch nodes, or None.", least=0)
    n_jobs: int | None = option(
        None,
        "Threads; -1: all cores; None: as many as the caller may use, see `opttree.runtime.threads.available`.",
        test=lambda n_jobs: n_jobs != 0,
        words="None or an integer other than 0",
    )
    time_limit: float | None = option(
        None,
        "Seconds from the start tree on, > 0, or None; the time limit of `solve` applies in addition.",
        above=0,
        finite=False,
        words="> 0 seconds or None",
    )
    memory: float = option(
        256.0, "Mebibytes for each thread's histograms; with less, more of them are computed anew.", above=0
    )
    queue_memory: float = option(
        1024.0, "Mebibytes for the intervals that wait at the root; the search ends, TOO_LARGE, before more.", above=0
    )

    def covers(self, problem: TreeProblem) -> bool:
        """True unless ``max_splits`` restricts the trees, or leaves are linear: it searches no clipped ones."""
        return self.max_splits is None and problem.leaves == "constant"

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes what `ExactTreeProblem` takes, up to depth 6, or deeper where few splits can pay."""
        if problem.depth > MOST_DEPTH and (levels := self._levels(problem)) > DEEPEST:
            here = f"; here they leave {levels} levels" if levels < problem.depth else ""
            return (
                f"its depth is {problem.depth}, and branch and bound goes to depth {MOST_DEPTH}, or to {DEEPEST} where "
                f"a limit or a price of splits leaves no deeper trees{here}"
            )
        reason = ExactTreeProblem.refusal(problem if is_free(problem) else free(problem))
        return reason if reason is not None or self.init is None else self.init._refusal(problem)

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """The constant tree, the start, and then incumbents and bounds."""
        if problem.depth > MOST_DEPTH:
            problem = problem.restated(depth=min(problem.depth, self._levels(problem)))
            for depth in FIRST_DEPTHS if problem.depth > max(FIRST_DEPTHS) else ():
                limit = min(FIRST_SHARE * self._left(now()), FIRST_SECONDS)
                start = yield from self._of_depth(depth, limit, problem, start, rng.spawn(1)[0])
            problem = problem.restated(depth=min(problem.depth, max(self._levels(problem, start), 1)))
        if not is_free(problem):
            if problem.depth > 0:
                return (yield from self._restricted(problem, start, rng))
            problem = free(problem)
        exact, began, blocks = ExactTreeProblem(problem, self.max_splits), now(), None
        forbids = any(isinstance(c, ForbidSplit) for c in problem.constraints)  # which the start tree may not heed
        large = problem.X.size >= LARGE  # sorting alone takes longer than the first bounds
        floor = outputs_bound(problem, exact.n_splits) if large else 0.0
        one_leaf = Step(exact.fitted(problem.best_constant()), bound=floor, phase="constant")
        yield one_leaf
        if exact.n_splits == 0:
            yield replace(one_leaf, bound=problem.objective(one_leaf.tree))
            return Termination.OPTIMAL
        seeds = rng.spawn(2)
        if large:
            blocks, until = blocks_bounds(problem, self.max_splits, math.inf, seeds[1]), self._end_of_blocks(began)
            for bound in blocks:
                floor = max(floor, bound)
                yield replace(one_leaf, bound=floor, phase="blocks")
                if now() > until:
                    break
        if start is not None:
            start = exact.fitted(start)
            yield Step(start, phase="start")
        elif self.init is not None and not forbids and not (self.init == CartInit() and is_quick(exact)):
            start = yield from self._first(self.init, exact, seeds[0])
        with limited(count(self.n_jobs)):
            begun = partial(Search, exact, start, self.gap, self.memory, self.queue_memory)
            search = (yield from in_background(begun, ends=False)) if large else begun()
        search.floor = floor
        return (yield from self._searched(search, blocks, seeds[1]))

    def _of_depth(
        self, depth: int, limit: float, problem: TreeProblem, start: Tree | None, rng: Rng
    ) -> Generator[Step | None, Any, Tree | None]:
        """A good tree of few levels, to start a search of many from; its bounds are not the problem's."""
        shallow, first = problem.restated(depth=depth), replace(self, time_limit=limit)
        known = start is not None and start.depth <= depth
        inner = changed_steps(
            first.steps(shallow, start if known else None, rng), lambda step: replace(step, bound=None)
        )
        found, objective, _end = yield from follow(problem, inner, f"depth {depth}")
        better = found is not None and (start is None or objective < problem.objective(start))
        return as_tree(found) if found is not None and better else start

    def _levels(self, problem: TreeProblem, known: Tree | None = None) -> int:
        """The levels that an optimal tree can have: as many as splits that a limit allows, or whose prices leave it no
        worse than one leaf, or a ``known`` tree.
        """
        limits = [float(k) for k in (self.max_splits, problem.max_splits) if k is not None]
        price = problem.price_per_split
        if price > 0.0 and not any(isinstance(c, RequireSplit) for c in problem.constraints):  # one leaf is allowed
            limits.append(problem.mean_loss(problem.best_constant()) / price * (1.0 + ROUNDED))
        if price > 0.0 and known is not None:
            limits.append(problem.objective(known) / price * (1.0 + ROUNDED))
        return int(min(*limits, float(problem.depth))) if limits else max(problem.depth, DEEPEST + 1)

    def _restricted(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """Incumbents and bounds under side constraints that take several searches."""
        relaxed, began, floor, large = free(problem), now(), 0.0, problem.X.size >= LARGE
        if large:  # a bound of all trees is one of these, too
            floor = outputs_bound(relaxed, ExactTreeProblem(relaxed, self.max_splits).n_splits)
        with limited(count(self.n_jobs)):
            begun = partial(Restricted, problem, self.max_splits, start, self.gap, self.memory, self.queue_memory)
            search = (yield from in_background(begun, ends=False)) if large else begun()
        search.floor = floor
        yield search.step()
        blocks = None
        if large:
            blocks = blocks_bounds(relaxed, self.max_splits, math.inf, rng.spawn(1)[0])
            until = self._end_of_blocks(began)
            for bound in blocks:
                search.floor = max(search.floor, bound)
                yield search.step()
                if now() > until:
                    break
        return (yield from self._searched(search, blocks, rng))

    def _first(self, init: Solver, exact: ExactTreeProblem, rng: Rng) -> Generator[Step | None, Any, Tree | None]:
        """The start tree, by ``init``; of a large table by some of its rows."""
        problem = exact.problem
        if problem.X.size >= LARGE:
            rows = rng.permutation(problem.n_samples)[: LARGE // problem.n_features]
            problem = problem.sample(np.sort(rows))
        refitted = partial(_refitted, exact)
        first = changed_steps(init.steps(problem, None, rng), refitted)
        model, _objective, _end = yield from follow(exact.problem, first, type(init).__name__)
        return None if model is None else as_tree(model)

    def _end_of_blocks(self, began: float) -> float:
        """When the blocks that come before the search end."""
        left = self._left(began)
        return now() + min(max(SHARE * left, min(LEAST, 0.5 * left)), LONGEST)

    def _left(self, began: float) -> float:
        """Seconds to the nearer one of the time limits."""
        allowed = math.inf if self.time_limit is None else self.time_limit - (now() - began)
        return max(min(allowed, seconds_left()), 0.0)

    def _searched(self, search: Search | Restricted, blocks: Iterator[float] | None, rng: Rng) -> Steps:
        """Incumbents and bounds of ``search`` to its end, and the bounds of ``blocks`` beside it."""
        problem, began = search.exact.problem, now()
        p = problem.n_features
        words = f" Candidate splits: all thresholds of {p} feature{'s' if p > 1 else ''}"
        words += "; linear leaves fitted in every leaf and not clipped" if problem.leaves == "linear" else ""
        words += f"; relative gap asked for: {self.gap:g}." if self.gap else "."
        try:
            for step in self._news(search, blocks, rng):
                yield step
                if self.time_limit is not None and now() - began >= self.time_limit:
                    search.stop()
                    yield search.step()
                    return Verdict(Termination.TIME_LIMIT, words)
        except LastCall:
            search.stop()
            with suppress(LastCall):
                yield search.step()
            return Verdict(Termination.TIME_LIMIT, words)
        except KeyboardInterrupt:
            search.stop()
            with suppress(LastCall):
                yield search.step()
            raise
        finally:
            search.stop()
        yield from search.improved()
        last = search.step()
        if last is None:
            if math.isinf(search.bound):
                return Verdict(Termination.INFEASIBLE, words)
            return Verdict(Termination.STALLED, f"{words} No tree was found that has the required splits.")
        yield last
        if search.full:
            return Verdict(Termination.TOO_LARGE, f"{words} More intervals wait than queue_memory holds.")
        objective, leaf = problem.objective(last.tree), problem.objective(problem.best_constant())
        loss = problem.loss_function
        degree = 2.0 if loss.additive == "huber" else max(loss.degree, 1.0)
        rounded = max((PERFECT if loss.positive else PROOF_ATOL**degree) * leaf, noise_of(problem))  # of a perfect fit
        if isinstance(search, Search) and search.is_one_leaf:
            return Verdict(Termination.OPTIMAL, words)
        if objective - search.bound > max(self.gap, PROOF_RTOL) * (1.0 + PROOF_RTOL) * abs(objective) + rounded:
            words += " Costs this far below that of one leaf are lost in its rounding."
            return Verdict(Termination.STALLED, words)
        return Verdict(Termination.OPTIMAL, words)

    def _news(self, search: Search | Restricted, blocks: Iterator[float] | None, rng: Rng) -> Iterator[Step | None]:
        """A step whenever the incumbent or the bound has moved, None otherwise. Where the search has no bound yet, it
        is given others, see `solvers.exact.early`, while it goes on, and of ``blocks`` until it has more than these.
        """
        seen, began, spent = None, now(), 0.0
        asked, beside = blocks is not None, 0.0
        problem = search.exact.problem
        several = problem.n_samples > ROWS.get(problem.depth, DEEP_ROWS)
        wait = 0.0 if several else min(max(ALONE_LATE, ALONE_SHARE * self._left(began)), ALONE_LATEST)
        deep = isinstance(search, Search) and search.is_deep
        ahead = trees_ahead(search.exact) if deep else iter(())
        for _ in search.run():
            yield from search.improved()
            if deep and spent <= AHEAD * (now() - began):
                started, found = now(), next(ahead, None)
                if found is not None and isinstance(search, Search):
                    search.offer(search.exact.cost(found[0]), found[1])
                spent += now() - started
            none = search.bound <= search.exact.objective(search.kernel.price)  # no more than a split costs
            if not asked and none and search.cost > 0.0 and now() - began > LATE:
                asked, exact = True, search.exact
                search.floor = max(outputs_bound(exact.problem, exact.n_splits), equal_rows_bound(exact))
                yield search.step()
                blocks = blocks_bounds(exact.problem, self.max_splits, math.inf, rng)
            if wait and search.own_bound > search.exact.objective(search.kernel.price):
                blocks = None
            if blocks is not None and now() - began > wait and beside <= BESIDE * (now() - began):
                started, bound = now(), next(blocks, None)
                search.floor = max(search.floor, bound or 0.0)
                beside += now() - started
                enough = max(search.floor, AWAY * search.exact.objective(search.cost))
                if bound is None or search.own_bound >= enough:
                    blocks = None
            state = search.cost, search.bound
            yield None if state == seen else search.step()
            seen = state


def _refitted(exact: ExactTreeProblem, step: Step) -> Step:
    """The step with its tree as one of ``exact``."""
    return replace(step, tree=exact.fitted(as_tree(step.tree)), objective=None, bound=None)
