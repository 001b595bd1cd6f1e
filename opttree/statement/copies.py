"""Copies of rows, which are held out together: a model is not judged by rows that it was trained on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.statement.numbers import NUMBERS
from opttree.wide.sparse import FACTOR, SHIFT, STEP, is_sparse, mix, values_of

Floats = NDArray[np.float64]
FIRST = 8  # columns that mostly tell rows apart
FEWEST, MOST = 20, 10  # different rows; copies of each, and parts of the table of which those of a row are at most one
SHARE = 1.0 / 3.0  # of the rows that are copies of others before them; fewer than that may be in new tables as well
FULL = 4.0  # combinations of values for each different row, up to which features are a grid
MANY = 5  # rows of each key, from which on keys stay, however far apart
NEARLY, LEAST_STEP = 1e-3, 1e-12  # of a step that counts as none; of the range that counts as a step
MOST_STEPS = 1e15  # as double precision tells apart
DECIMALS = 6  # of numbers that were measured, and are no keys in another unit
TOGETHER = 4  # different rows for each combination of neighbours' values whose entropy is taken together
MOST_SPARSE = 1000  # columns of a sparse table that is looked at
LOOKED_AT = 2000  # rows, for columns of which one at a time is above its least value
SOME = 20_000  # of very many rows, among which two are equal where as much as a few in a hundred are copies


def different_rows(X: Any, Y: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(m,) the first of each of the different rows, and (n,) which of these each row is a copy of: see `copies_of`."""
    copy = copies_of(X, Y)
    if copy is None:
        copy = np.arange(len(Y))
        return copy, copy
    return np.unique(copy, return_index=True)[1], copy


def with_copies(
    cuts: Iterable[tuple[NDArray[np.intp], NDArray[np.intp]]], copy: NDArray[np.intp]
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Training and held-out rows from those of the different rows; ``copy`` as `different_rows` gives it."""
    if copy.size == 0 or copy.max() + 1 == copy.size:
        return list(cuts)
    return [(np.flatnonzero(np.isin(copy, a)), np.flatnonzero(np.isin(copy, b))) for a, b in cuts]


def bootstrap(size: int, copy: NDArray[np.intp] | None, rng: np.random.Generator) -> NDArray[np.intp]:
    """(n,) how often each of ``size`` rows is drawn; a different row, see `copies_of`, is drawn with its copies."""
    if copy is not None:
        return bootstrap(int(copy.max()) + 1, None, rng)[copy]
    return np.bincount(rng.integers(size, size=size), minlength=size)


def copies_of(X: Any, Y: NDArray[Any]) -> NDArray[np.intp] | None:
    """(n,) numbers of the different rows that rows are copies of, from 0 on; None where each row counts by itself.

    That is where no two are equal in X and Y, where fewer than `FEWEST` are different, where less than a third of all
    are copies (rows that are drawn twice now and then will be in new tables, too), and where the data are discrete or
    all rows that occur more than once share their features with rows of another outcome, see `are_by_themselves`; of
    very many rows, also where no two of `SOME` are equal.
    Copies of a row that make up more than a tenth of all count as different, too: held out together they would be too
    much of the table.
    """
    if len(Y) > 2 * SOME:
        some = np.sort(np.random.default_rng(0).choice(len(Y), SOME, replace=False))
        if all_differ(_codes(X[some], Y[some])):
            return None
    codes = np.zeros(len(Y), np.uint64)
    for block, _done in enumerate(_mixed(codes, X)):
        if block.bit_count() <= 1 and all_differ(codes):  # looks at 1, 2, 3, 5, 9, ... blocks
            return None
    of_features = codes.copy()
    for _block in _mixed(codes, Y):
        pass
    different, copy = np.unique(codes, return_inverse=True)
    copy = copy.ravel()
    m, n = different.size, codes.size
    if m < FEWEST or n - m < SHARE * n:
        return None
    own = (MOST * np.bincount(copy)[copy] > n) | are_by_themselves(X, Y, of_features, codes)
    copy[own] = different.size + np.arange(int(own.sum()))
    copy = np.unique(copy, return_inverse=True)[1]
    return copy if copy.size - copy.max() - 1 >= SHARE * copy.size else None


def _codes(*tables: Any) -> NDArray[np.uint64]:
    """(n,) pseudo-random numbers, equal for rows that are equal in all tables."""
    codes = np.zeros(tables[0].shape[0], np.uint64)
    for table in tables:
        for _block in _mixed(codes, table):
            pass
    return codes


def all_differ(codes: NDArray[np.uint64]) -> bool:
    """Whether no two codes are equal, by sorting: `numpy.unique` hashes whole numbers, in ten times the time."""
    codes = np.sort(codes)
    return not np.any(codes[1:] == codes[:-1])


def are_by_themselves(
    X: Any, Y: NDArray[Any], of_features: NDArray[np.uint64], codes: NDArray[np.uint64]
) -> NDArray[np.bool_]:
    """(n,) whether rows that are equal in X and Y, and of equal ``codes``, are observations of their own.

    Those are all rows of discrete data, see `are_discrete`, and those that share their features with rows of another
    outcome. None are where most different rows have outcomes of their own, which features do not determine: then equal
    outcomes say that rows are copies; and none where all occur a multiple of so many times, unless they are all
    combinations of their values, as in an experiment.
    """
    _codes_of_rows, first, counts = np.unique(codes, return_index=True, return_counts=True)
    _values, at = np.unique(of_features, return_inverse=True)
    outcomes = np.bincount(at.ravel()[first])  # at each X
    m = first.size
    if outcomes.size < m and 2 * np.unique(_codes(Y[first])).size > m:
        return np.zeros(codes.size, bool)
    if np.gcd.reduce(counts) > 1 and not are_complete(X, outcomes.size):
        return np.zeros(codes.size, bool)
    if are_discrete(X, codes):
        return np.ones(codes.size, bool)
    return outcomes[at.ravel()] > 1


def are_complete(X: Any, n_different: int) -> bool:
    """Whether so many different rows are all combinations of the values of their columns."""
    combinations = 1
    for j in range(X.shape[1]):
        if combinations > n_different:
            return False
        combinations *= values_of(X, j).size
    return combinations <= n_different


def are_discrete(X: Any, codes: NDArray[np.uint64]) -> bool:
    """Whether the different rows, of different ``codes``, are those that new tables have: their features have few
    values, of which there are not many more combinations than different rows.

    Combinations count by entropies of columns, or of several together while these have few combinations, as the
    indicators of one category do; of many rows on some. A column that nearly tells the rows apart has few values where
    these are whole numbers, in any unit but of decimals, that are most of those in their range, or keys of many rows
    each. Sparse tables of more than a thousand columns are none.
    """
    order = np.argsort(codes, kind="stable")
    m = 1 + int(np.count_nonzero(np.diff(codes[order])))
    some, p = order[:: len(order) // SOME + 1], X.shape[1]
    if is_sparse(X):
        if p > MOST_SPARSE:
            return False
        X = X[some].toarray()
    else:
        X = X[some]
    room, block, inside = np.log(FULL * m), np.zeros(len(some), np.intp), 0.0
    for j in exclusive_together(X):
        values, code = np.unique(X[:, j], return_inverse=True)
        if 2 * values.size > m:
            measured = np.any(values % 1.0 != 0.0) and np.array_equal(np.round(values, DECIMALS), values)
            if measured or steps_in(values) >= (np.inf if len(order) >= MANY * m else FULL * values.size):
                return False
        _cells, joint, counts = np.unique(block * values.size + code.ravel(), return_inverse=True, return_counts=True)
        if TOGETHER * counts.size > m:  # too many cells for the entropy of all of them: a block of its own
            room, joint, counts = room - inside, code.ravel(), np.bincount(code.ravel())
        block, inside = joint.ravel(), -float(counts @ np.log(counts / len(some))) / len(some)
        if room < inside:
            return False
    return True


def steps_in(values: Floats) -> float:
    """How many steps there are from the least to the largest of increasing numbers that are whole steps apart, as whole
    numbers are in any unit; infinite where they are not.
    """
    with np.errstate(over="ignore"):
        gaps, width = np.unique(np.diff(values)).tolist(), float(values[-1] - values[0])
    step, place = gaps[0], 0
    while place < len(gaps):
        if not gaps[place] < MOST_STEPS * step:
            return np.inf
        times = round(gaps[place] / step)
        off = abs(gaps[place] - times * step)
        if off <= NEARLY * step:  # a longer gap says more exactly what a step is
            step, place = gaps[place] / times, place + 1
        elif off > LEAST_STEP * width:
            step, place = off, 0
        else:
            return np.inf
    return width / step


def exclusive_together(X: Floats) -> list[int]:
    """All columns; next to each other those of which no row has more than one above its least value, as the indicators
    of one category. Rows beyond `LOOKED_AT` are not looked at; more than `MOST_SPARSE` columns stay as they are.
    """
    p = X.shape[1]
    if p > MOST_SPARSE:
        return list(range(p))
    some = X[:: len(X) // LOOKED_AT + 1]
    some = (some > some.min(axis=0)).astype(np.float32)
    overlaps = some.T @ some
    groups: list[list[int]] = []
    of_groups = np.zeros((p, p), np.float32)  # how often a column and those of a group are at once
    for j in range(p):
        free = np.flatnonzero(of_groups[: len(groups), j] == 0.0)
        at = int(free[0]) if free.size else len(groups)
        if at == len(groups):
            groups.append([])
        groups[at].append(j)
        of_groups[at] += overlaps[j]
    return [j for group in groups for j in group]


def are_common(codes: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """(n,) whether rows are more than ten, and more than a tenth of all, of the same code."""
    _codes, at, counts = np.unique(codes, return_inverse=True, return_counts=True)
    of_row: NDArray[np.intp] = counts[at.ravel()]
    return (of_row > MOST) & (MOST * of_row > len(codes))


def _mixed(codes: NDArray[np.uint64], table: Any) -> Iterator[None]:
    """Change the codes of rows by the numbers in some columns after others."""
    if is_sparse(table):
        mix(codes, table)
        yield
        return
    first, width = 0, FIRST
    while first < table.shape[1]:
        for column in np.ascontiguousarray(table[:, first : first + width].T, np.float64) + 0.0:
            codes ^= column.view(np.uint64) + STEP
            codes *= FACTOR
            codes ^= codes >> SHIFT
        first, width = first + width, max(NUMBERS // max(len(table), 1), FIRST)
        yield
