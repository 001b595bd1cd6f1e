"""Bounds that are there before a search has one: by the outputs alone, by equal rows, and by blocks of some rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.random import Generator as Rng
from numpy.typing import NDArray

from opttree.kernels.exact import statistics
from opttree.problems import ExactTreeProblem
from opttree.problems.exact.problem import equal_rows
from opttree.runtime.clock import now
from opttree.statement import TreeProblem
from solvers.exact.search import Search

Floats = NDArray[np.float64]
GROUPS = 512  # of neighbouring outputs, at most
MOST_OUTPUTS = 8  # so that it takes tenths of a second at most
ROWS = {1: 16384, 2: 4096, 3: 8192}  # of a block, by depth
ROUNDS = {  # by depth: blocks taken together, and what their bound may lack, of their incumbent's objective
    1: ((1, 0.0), (8, 0.0)),
    2: ((1, 0.0), (8, 0.0)),
    3: ((1, 0.5), (1, 0.1), (1, 0.0), (8, 0.0)),
}
SLOWER = ((1, 0.8),)  # before them, of log loss at depth 3
DEEP_ROWS, DEEP_ROUNDS = 8192, ((1, 0.95), (1, 0.9), (1, 0.8), (1, 0.5))  # of more levels
ALONE = 0.8  # what the bound of a block may lack that holds all rows
LARGEST = 1_000_000  # numbers in the rows of blocks taken together, at most
SHARE, LONGEST = 0.1, 0.5  # of the time that is left, at most; seconds
LEAST = 0.3  # seconds for blocks, where a second is left
EPSILON = float(np.finfo(float).eps)
SLACK = 1e-11  # relative, of a bound: rounding in sums
LATE = 0.1  # seconds after which a search without a bound is given one
ALONE_LATE, ALONE_LATEST = 0.5, 3.0  # the same, of a table that is one block: its bound is a second search of all rows
ALONE_SHARE = 0.05  # of the time that is left, between these two
MEMORY = 16.0  # mebibytes of a block's histograms


def outputs_bound(problem: TreeProblem, n_splits: int) -> float:
    """A lower bound that knows the outputs alone: the least loss of ``n_splits + 1`` constants, each row taking the one
    that suits it. Squared and absolute loss, constant leaves; else 0.

    The best constants serve neighbouring outputs. These are put into groups that count as rows at their mean; a group
    in which one constant may give way to the next counts nothing, where it holds outputs that differ.
    """
    if problem.leaves != "constant" or problem.loss_function.form not in ("quadratic", "absolute"):
        return 0.0
    best, squared = np.zeros(n_splits + 1), problem.loss_function.form == "quadratic"
    for y in problem.Y.T[:MOST_OUTPUTS]:  # the others count nothing
        least = _least_losses(y, problem.w, n_splits + 1, squared)
        rounded = EPSILON * float(np.abs(y).max())  # of a residual, as objectives are computed
        best += least - (2.0 * rounded * np.sqrt(least) + rounded**2 if squared else rounded) - SLACK * least
    return float(np.min(np.maximum(best, 0.0) + problem.price_per_split * np.arange(best.size)))


def _least_losses(y: Floats, w: Floats, most: int, squared: bool) -> Floats:
    """(most,) lower bounds of the loss of 1, ..., ``most`` constants, by dynamic programming over groups of outputs."""
    order = np.argsort(y, kind="stable")
    y, w = y[order] - y[order[y.size // 2]], w[order]
    new = np.concatenate([[0], np.cumsum(np.diff(y) > 0.0)])
    groups = GROUPS if squared else GROUPS // 2
    exact = new[-1] < groups
    group = new if exact else np.minimum((np.arange(y.size) * groups) // y.size, groups - 1)
    weight: Floats = np.bincount(group, w).astype(np.float64)
    mean = y[np.searchsorted(group, np.arange(weight.size))] if exact else np.bincount(group, w * y) / weight
    cost = _squared_costs(mean, weight) if squared else _absolute_costs(mean, weight)
    # best[e]: of the groups before e; of the next constant the first group counts nothing, unless its outputs are equal
    m = weight.size
    best, losses = np.concatenate([[0.0], cost[0]]), np.empty(most)
    losses[0] = best[m]
    for k in range(1, most):
        start = best[:m] if exact else np.minimum(best[:m], np.concatenate([[np.inf], best[: m - 1]]))
        best = np.minimum(best, np.concatenate([[0.0], np.min(start[:, None] + cost, axis=0)]))
        losses[k] = best[m]
    return losses


def _squared_costs(y: Floats, w: Floats) -> Floats:
    """(m, m) the squared deviations of values a, ..., b from their mean, infinite for b < a; sums of positive terms, so
    that weights and distances of very different size cost no digits.
    """
    m = y.size
    cost = np.full((m, m), np.inf)
    total, mean, away = np.zeros(m), np.zeros(m), np.zeros(m)
    for b in range(m):
        some = slice(0, b + 1)
        before = total[some].copy()
        total[some] += w[b]
        step = y[b] - mean[some]
        away[some] += w[b] * before / total[some] * step**2
        mean[some] += w[b] / total[some] * step
        cost[some, b] = away[some]
    return cost


def _absolute_costs(y: Floats, w: Floats) -> Floats:
    """(m, m) the absolute deviations of values a, ..., b from their median, infinite for b < a: over the gaps between
    neighbours, the gap times the smaller of the weights on either side.
    """
    m = y.size
    weight = np.cumsum(np.triu(np.tile(w, (m, 1))), axis=1)  # of a, ..., b
    cost = np.zeros((m, m))
    for k in range(m - 1):
        cost[: k + 1, k + 1 :] += (y[k + 1] - y[k]) * np.minimum(weight[: k + 1, k, None], weight[k + 1, k + 1 :])
    return np.where(np.tri(m, k=-1, dtype=bool), np.inf, cost)


def equal_rows_bound(exact: ExactTreeProblem) -> float:
    """The loss that is left where only rows of equal features share a leaf; 0 where no rows are equal."""
    kernel, rows = exact.kernel, exact.kernel.rows
    if exact.by_words:
        first, group = equal_rows(exact.ranks)
        rows = np.zeros((first.size, rows.shape[1]))
        np.add.at(rows, group, kernel.rows)
    if len(rows) == exact.problem.n_samples or exact.problem.leaves != "constant":
        return 0.0
    out, width = np.empty(len(rows)), rows.shape[1]
    columns = np.ascontiguousarray(rows.T)
    statistics.costs(columns, 0, out.size, kernel.leaf, np.empty(width), np.empty(width), out)
    return exact.bound(float(out.sum()))


def blocks_bounds(problem: TreeProblem, max_splits: int | None, seconds: float, rng: Rng) -> Iterator[float]:
    """Rising lower bounds by disjoint blocks of random rows, for some ``seconds``; rows of no block count nothing.

    The objective of a tree is the mean of its objectives on disjoint sets of rows, weighted by their shares of the
    weight, and none of these is below the optimum of its set. In each round the searches of blocks go on to a bound
    that lacks less, and in the last ones blocks are taken together.

    Parameters
    ----------
    problem : TreeProblem
        Rows, loss and depth.
    max_splits : int or None
        Largest number of branch nodes.
    seconds : float
        After which it ends; infinite: the caller stops it. It yields while a block is searched, too.
    rng : numpy.random.Generator
        Draws the blocks.

    Yields
    ------
    float
        The bound so far.
    """
    until, order, n = now() + seconds, rng.permutation(problem.n_samples), problem.n_samples
    size, rounds = ROWS.get(problem.depth, DEEP_ROWS), ROUNDS.get(problem.depth, DEEP_ROUNDS)
    rounds = SLOWER + rounds if problem.depth == 3 and problem.loss_function.form == "entropy" else rounds
    rounds = ((1, ALONE),) if n <= size else rounds  # the one block is what is searched
    low, bound = np.zeros(-(-n // size)), 0.0
    for together, lack in rounds:
        if together > 1 and (together * size >= n or together * size * problem.n_features > LARGEST):
            return
        for first in range(0, low.size, together):
            some = slice(first, first + together)
            rows = np.sort(order[first * size : (first + together) * size])
            weight, before, others = float(np.sum(problem.w[rows])), low[some].sum(), low.sum() - low[some].sum()
            exact = ExactTreeProblem(problem.sample(rows, min_leaf=1), max_splits)
            search = Search(exact, None, lack, MEMORY, MEMORY)
            try:
                for _ in search.run():
                    bound = max(bound, float(others + max(before, weight * search.bound)))
                    yield bound
                    if now() > until:
                        break
            finally:
                search.stop()
            low[some] = 0.0
            low[first] = max(before, weight * search.bound)
            bound = max(bound, float(low.sum()))  # which may round otherwise
            yield bound
            if now() > until:
                return
