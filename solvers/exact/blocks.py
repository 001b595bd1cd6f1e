"""`BlockBounds`: lower bounds at any number of rows, from disjoint blocks of them."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.model.tree import Tree
from opttree.runtime.clock import now, seconds_left
from opttree.runtime.options import option
from opttree.statement import TreeProblem
from opttree.statement.constraints import MaxSplits
from solvers.core.base import Solver, Step, Steps
from solvers.core.driver import solve
from solvers.core.parallel import spread, width
from solvers.core.result import Termination, Verdict
from solvers.exact.branch_and_bound import BranchAndBound
from solvers.exact.early import outputs_bound
from solvers.initial import CartInit

FIRST = 2048  # rows of the first block that is tried
GROWTH = 3.0  # factor of the seconds, at most, if blocks have twice the rows
RESERVE = 0.05  # of the time limit, for what is not the search of blocks
TRIES = 0.25  # of the time limit, at most, for each block that is tried
GROUP = 4  # blocks in memory, per thread or worker
BLOCK_GAP = 0.002  # relative gap that ends a block's search


@dataclass(frozen=True)
class BlockBounds(Solver):
    """Bound the objective of all axis-aligned trees from below by disjoint blocks of rows; the tree is the start's.

    A tree's mean loss is the mean of its losses on the blocks, weighted by their shares of the weight, and on each
    block no tree has a lower objective than the block's optimum: the weighted mean of the optima, each without the
    smallest leaf, is a lower bound. `BranchAndBound` proves them, in parallel, each within its share of the time; where
    it does not end, its bound counts. Larger blocks give a closer bound, in the mean over random blocks.

    See Also
    --------
    certify : chooses between the three provers
    BranchAndBound : on all rows at once

    Examples
    --------
    >>> from opttree import TreeProblem, datasets
    >>> from solvers import BlockBounds, solve
    >>> X, y = datasets.load("diabetes", as_arrays=True)
    >>> problem = TreeProblem.standardized(X, y, depth=2, splits="axis")
    >>> blocks = solve(problem, BlockBounds(blocks=4), random_state=0)
    >>> blocks.bound <= blocks.objective
    True
    """

    blocks: int | Literal["auto"] = option(
        "auto",
        """Number of blocks, of random rows. "auto": as few as the time limit allows, judged by blocks of 2048 rows,
        4096 and so on; without a time limit one, which is `BranchAndBound`.""",
        least=1,
    )
    respects = (MaxSplits,)
    max_splits: int | None = option(None, "Largest number of branch nodes, or None.", least=0)
    time_limit: float | None = option(
        None, "Seconds, > 0, or None.", above=0, finite=False, words="> 0 seconds or None"
    )
    n_jobs: int | None = option(
        None,
        "Blocks searched at a time, in threads or, under joblib's Dask back end, on a cluster; see `MultiStart`.",
        test=lambda n_jobs: n_jobs != 0,
        words="None or an integer other than 0",
    )

    def _refusal(self, problem: TreeProblem) -> str | None:
        """Takes what `BranchAndBound` takes."""
        return BranchAndBound().refusal(problem)

    def steps(self, problem: TreeProblem, start: Tree | None, rng: Rng) -> Steps:
        """The start, and a bound after every block."""
        began = now()
        limit = min(math.inf if self.time_limit is None else self.time_limit, seconds_left())
        until = began + (1.0 - RESERVE) * max(limit, 0.0)
        tree = CartInit().build(problem, rng.spawn(1)[0]) if start is None else start
        if problem.violation(tree) is not None:
            tree = problem.best_constant()
        splits = 2**problem.depth - 1 if self.max_splits is None else min(self.max_splits, 2**problem.depth - 1)
        objective = problem.objective(tree)
        yield Step(tree, objective, outputs_bound(problem, splits), "start")
        order = rng.permutation(problem.n_samples)
        number = self.blocks if self.blocks != "auto" else (yield from self._number(problem, tree, order, until))
        number = min(number, problem.n_samples)
        whole = total_weight(problem)
        parts = (problem.sample(np.sort(rows), min_leaf=1) for rows in np.array_split(order, number))
        bound = ended = late = 0.0
        for done, (share, block_bound, why) in enumerate(
            block_bounds(iter([problem]) if number == 1 else parts, number, tree, until, self.max_splits, self.n_jobs),
            1,
        ):
            bound += share / whole * block_bound
            ended += why is Termination.OPTIMAL
            late += why is Termination.TIME_LIMIT
            yield Step(tree, objective, bound, "blocks", info={"blocks": float(done), "proved": ended})
        stalled = Termination.STALLED if ended < number else Termination.ITERATION_LIMIT
        return Verdict(Termination.TIME_LIMIT if late else stalled, words(number, ended))

    def _number(
        self, problem: TreeProblem, tree: Tree, order: NDArray[Any], until: float
    ) -> Generator[None, None, int]:
        """The number of blocks that can be searched in time."""
        n, size, at_once = problem.n_samples, FIRST, width(self.n_jobs)
        most = TRIES * (until - now())
        before = 0.0
        while size < n and until < math.inf:
            some = [order[k * size : (k + 1) * size] for k in range(at_once) if (k + 1) * size <= n]
            for _ in range(1 if before else 2):  # the first time for all that happens once
                began = now()
                parts = (problem.sample(rows, min_leaf=1) for rows in some)
                results = block_bounds(parts, len(some), tree, began + most, self.max_splits, self.n_jobs)
                proved = all(why is Termination.OPTIMAL for _weight, _bound, why in results)
                yield
                seconds = now() - began
            growth = min(max(seconds / before, 2.0), GROWTH) if before else GROWTH
            if not proved or now() + n / (2.0 * size * len(some)) * growth * seconds > until:
                break
            size, before = 2 * size, seconds
        return 1 if until == math.inf else max(round(n / size), 1)


def block_bounds(
    parts: Iterator[TreeProblem], number: int, tree: Tree, until: float, max_splits: int | None, n_jobs: int | None
) -> Iterator[tuple[float, float, Termination]]:
    """The weight of each of ``number`` blocks, a lower bound on its objective and why its search ended, each
    within its share of the time to ``until``; few blocks are in memory at a time.
    """
    at_once = width(n_jobs)
    for begun in range(0, number, GROUP * at_once):
        group = list(islice(parts, GROUP * at_once))
        share = None if until == math.inf else max((until - now()) * min(at_once / (number - begun), 1.0), 1e-3)
        with closing(spread(bounded, (tree, max_splits), [(part, share) for part in group], n_jobs)) as results:
            for _number, result in results:
                yield result


def bounded(
    shared: tuple[Tree, int | None], task: tuple[TreeProblem, float | None]
) -> tuple[float, float, Termination]:
    """See `block_bounds`."""
    (tree, max_splits), (part, seconds) = shared, task
    result = solve(part, BranchAndBound(gap=BLOCK_GAP, max_splits=max_splits), start=tree, time_limit=seconds)
    assert result.bound is not None  # branch and bound always has one
    return total_weight(part), result.bound, result.termination


def total_weight(problem: TreeProblem) -> float:
    """Sum of the weights of the rows, as given."""
    assert problem.sample_weight is not None  # set by TreeProblem
    return float(problem.sample_weight.sum())


def words(number: int, ended: float) -> str:
    """What a bound by blocks rests on."""
    if number == 1:
        return ""
    return (
        f" The bound is that of {number} disjoint blocks of rows, each with its own optimal tree; "
        f"{ended:.0f} of their searches ended."
    )
