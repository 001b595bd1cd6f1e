"""Incumbents of deep trees: the root of the best two levels, and on both sides the same again, down to the last two
levels; then one feature after another at the root of the tree, and at the roots of its subtrees.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np
from numpy.typing import NDArray

from opttree.problems import ExactTreeProblem
from opttree.statement import SplitPrice
from solvers.exact.search import Search

LEVELS = 2  # that are searched at a time
FEW = 16  # times as many rows are sorted anew
MEMORY = 64.0  # mebibytes of a search's histograms
Rows = NDArray[np.intp]
Splits = NDArray[np.int64]


def trees_ahead(exact: ExactTreeProblem) -> Iterator[tuple[float, Splits] | None]:
    """Better and better trees: objective, and splits in heap order; None while the next one is built.

    There is none with linear leaves, under absolute loss, and where a tree may not have all splits of its depth.
    """
    problem = exact.problem
    free = exact.n_splits == 2**problem.depth - 1 and exact.allowed is None
    if not free or problem.leaves == "linear" or not exact.by_buckets:
        return
    best = yield from _built(exact, np.arange(problem.n_samples), problem.depth, None)
    objective = problem.objective(exact.tree(best))
    yield objective, best
    features = np.flatnonzero(exact.ranks.max(axis=1) > 0).tolist()
    for place in range(2 ** max(problem.depth - LEVELS, 0) - 1):
        for feature in features:
            rows = _rows_at(exact, best, place)
            tried = best.copy()
            _graft(tried, place, (yield from _built(exact, rows, problem.depth - _level(place), feature)))
            found = problem.objective(exact.tree(tried))
            if found < objective:
                objective, best = found, tried
                yield objective, best
            else:
                yield None


def _level(place: int) -> int:
    """The level of a node, in heap order."""
    return (place + 1).bit_length() - 1


def _built(exact: ExactTreeProblem, rows: Rows, depth: int, root: int | None) -> Generator[None, None, Splits]:
    """Splits, in heap order, of a tree of some rows, with a feature at its root unless it is None."""
    problem, splits = exact.problem, np.full((2**depth - 1, 2), -1, np.int64)
    if len(rows) < 2:
        return splits
    levels, share = min(depth, LEVELS), float(np.sum(problem.w[rows]))
    price = (SplitPrice(problem.price_per_split / share),) if problem.price_per_split else ()
    part = problem.sample(rows, depth=levels, penalties=price, constraints=())
    if FEW * len(rows) > problem.n_samples:
        kept = np.zeros(problem.n_samples, np.bool_)
        kept[rows] = True
        part.with_order(problem.presorted, kept)  # which sorting takes much longer to find
    allowed = np.tile(exact.ranks.max(axis=1) > 0, (2**levels - 1, 1))
    if root is not None:
        allowed[0] = np.arange(problem.n_features) == root
    search = Search(ExactTreeProblem(part, None, None if allowed.all() else allowed), None, 0.0, MEMORY, MEMORY)
    try:
        for _ in search.run():
            yield
    finally:
        search.stop()
    pending = [(0, rows)]
    for place, some in pending:
        if place and depth > levels:
            _graft(splits, place, (yield from _built(exact, some, depth - 1, None)))
            continue
        if place >= 2**levels - 1:
            continue
        feature, rank = search.splits[place].tolist()
        if feature >= 0:
            own = exact.ranks[feature, some]
            left = search.exact.ranks[feature, np.searchsorted(rows, some)] <= rank
            splits[place] = feature, own[left].max()
            pending += [(2 * place + 1, some[left]), (2 * place + 2, some[~left])]
    return splits


def _rows_at(exact: ExactTreeProblem, splits: Splits, place: int) -> Rows:
    """The rows that reach a node; none where there is a leaf above it."""
    if place == 0:
        return np.arange(exact.problem.n_samples)
    above = (place - 1) // 2
    rows, (feature, rank) = _rows_at(exact, splits, above), splits[above].tolist()
    left = exact.ranks[feature, rows] <= rank
    return rows[:0] if feature < 0 else rows[left if place == 2 * above + 1 else ~left]


def _graft(splits: Splits, place: int, found: Splits) -> None:
    """Put the splits ``found`` of a subtree below a node."""
    pending = [(0, place)]
    for at, to in pending:
        if at < len(found):
            splits[to] = found[at]
            pending += [(2 * at + 1, 2 * to + 1), (2 * at + 2, 2 * to + 2)]
