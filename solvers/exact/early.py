"""Bounds that are there before a search has one: by the outputs alone, by equal rows, and by blocks of some rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.clock import now
from opttree.kernels.exact import statistics
from opttree.problems import ExactTreeProblem, TreeProblem
from solvers.exact.search import Search

Floats = NDArray[np.float64]
GROUPS = 512  # of neighbouring outputs, at most
MOST_OUTPUTS = 8  # so that it takes tenths of a second at most
ROWS = {1: 16384, 2: 4096, 3: 8192}  # of a block, by depth
LACK = {1: 0.0, 2: 0.0, 3: 0.8}  # what the bound of a block may lack, of its incumbent's objective
DEEP_ROWS, DEEP_LACK = 1024, 0.95  # of more levels
SHARE, LONGEST = 0.1, 0.5  # of the time that is left, at most; seconds
LATE = 0.1  # seconds after which a search without a bound is given one
MEMORY = 16.0  # mebibytes of a block's histograms


def outputs_bound(problem: TreeProblem, n_splits: int) -> float:
    """A lower bound that knows the outputs alone: the least loss of ``n_splits + 1`` constants, each row taking the one
    that suits it. Squared and absolute loss, constant leaves; else 0.

    The best constants serve neighbouring outputs. These are put into groups that count as rows at their mean; a group
    in which one constant may give way to the next counts nothing, where it holds outputs that differ.
    """
    if problem.leaves != "constant" or problem.loss not in ("squared", "absolute"):
        return 0.0
    best = np.zeros(n_splits + 1)
    for y in problem.Y.T[:MOST_OUTPUTS]:  # the others count nothing
        best += _least_losses(y, problem.w, n_splits + 1, problem.loss == "squared")
    return float(np.min(best + problem.price_per_split * np.arange(n_splits + 1)))


def _least_losses(y: Floats, w: Floats, most: int, squared: bool) -> Floats:
    """(most,) lower bounds of the loss of 1, ..., ``most`` constants, by dynamic programming over groups of outputs."""
    order = np.argsort(y, kind="stable")
    y, w = y[order], w[order]
    new = np.concatenate([[0], np.cumsum(np.diff(y) > 0.0)])
    exact = new[-1] < GROUPS
    group = new if exact else np.minimum((np.arange(y.size) * GROUPS) // y.size, GROUPS - 1)
    weight = np.bincount(group, w)
    mean = np.bincount(group, w * y) / weight
    mean -= np.sum(weight * mean)
    total, first = np.concatenate([[0.0], np.cumsum(weight)]), np.concatenate([[0.0], np.cumsum(weight * mean)])
    m = weight.size
    a, b = np.arange(m)[:, None], np.arange(1, m + 1)[None, :]  # groups a..b-1
    with np.errstate(invalid="ignore", divide="ignore"):
        share, sums = total[b] - total[a], first[b] - first[a]
        if squared:
            second = np.concatenate([[0.0], np.cumsum(weight * mean**2)])
            cost = second[b] - second[a] - sums**2 / share
        else:
            middle = np.clip(np.searchsorted(total, 0.5 * (total[a] + total[b])) - 1, 0, m - 1)
            left, below = total[middle] - total[a], first[middle] - first[a]
            cost = mean[middle] * left - below + (sums - below) - mean[middle] * (share - left)
    cost = np.where(b > a, np.maximum(cost, 0.0), np.inf)
    # best[e]: of the groups before e; of the next constant the first group counts nothing, unless its outputs are equal
    best, found = np.concatenate([[0.0], cost[0]]), np.empty(most)
    found[0] = best[m]
    for k in range(1, most):
        start = (
            best[:m, None] if exact else np.minimum(best[:m, None], np.concatenate([[np.inf], best[: m - 1]])[:, None])
        )
        best = np.minimum(best, np.concatenate([[0.0], np.min(start + cost, axis=0)]))
        found[k] = best[m]
    return np.maximum(found - 1e-12 * found[0], 0.0)


def equal_rows_bound(exact: ExactTreeProblem) -> float:
    """The loss that is left where only rows of equal features share a leaf; 0 where no rows are equal."""
    kernel = exact.kernel
    if len(kernel.rows) == exact.problem.n_samples or exact.problem.leaves != "constant":
        return 0.0
    out, width = np.empty(len(kernel.rows)), kernel.rows.shape[1]
    columns = np.ascontiguousarray(kernel.rows.T)
    statistics.costs(columns, 0, out.size, kernel.leaf, np.empty(width), np.empty(width), out)
    return exact.bound(float(out.sum()))


def blocks_bounds(problem: TreeProblem, max_splits: int | None, seconds: float, rng: Rng) -> Iterator[float]:
    """Rising lower bounds by disjoint blocks of random rows, for some ``seconds``; rows of no block count nothing.

    The objective of a tree is the mean of its objectives on disjoint sets of rows, weighted by their shares of the
    weight, and none of these is below the optimum of its set.
    """
    until, order = now() + seconds, rng.permutation(problem.n_samples)
    size, lack = ROWS.get(problem.depth, DEEP_ROWS), LACK.get(problem.depth, DEEP_LACK)
    bound = 0.0
    for first in range(0, order.size, size):
        rows = np.sort(order[first : first + size])
        exact = ExactTreeProblem(problem.sample(rows, min_leaf=1), max_splits)
        search = Search(exact, None, lack, MEMORY, MEMORY)
        for _ in search.run():
            if now() > until:
                break
        search.stop()
        bound += float(np.sum(problem.w[rows])) * search.bound
        yield bound
        if now() > until:
            return
