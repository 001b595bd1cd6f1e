"""The search of tables of few values: every cut is a column of bits, see `opttree.kernels.exact.pairs`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.exact import pairs as kernels
from opttree.problems import ExactTreeProblem
from opttree.problems.exact.problem import equal_rows

# cuts of a feature in the mean, from which on intervals are faster: of counted classes, and of sums
MOST_CUTS, MOST_CUTS_OF_SUMS = 12, 3
MOST_COLUMNS, MOST_BITS = 1000, 20_000_000  # cuts of a table of few values, and these times its rows, at most
MOST_PAIRS = 1e9  # words of pairs that are counted without a look at the clock, at most
MOST_SUMS = 2e8  # the same of additions to sums, and
DEEP_SUMS = 4e10  # of those of the whole search, were nothing known of any set of rows
MOST_BYTES = 2**27  # of the sums of all pairs


class Cuts(NamedTuple):
    """The cuts of a table: ``columns (B, 2)`` feature and last rank on the left, ``left (rows, B)`` whether a row is,
    ``swapped (B,)`` whether the column is of the rows on the right, which are fewer.
    """

    columns: NDArray[np.int64]
    left: NDArray[np.bool_]
    swapped: NDArray[np.bool_]


def columns_of(exact: ExactTreeProblem) -> Cuts | None:
    """All cuts of a table, those left out that divide the rows as others do; None unless the table is one of few
    values, whose tree may have all splits that its depth allows.
    """
    problem = exact.problem
    free = exact.allowed is None and not exact.splits_root and exact.n_splits == 2**problem.depth - 1
    if not free or problem.leaves == "linear" or problem.loss_function.form not in ("errors", "quadratic"):
        return None
    ranks = exact.kernel.rank
    cuts, n = ranks.max(axis=1), ranks.shape[1]
    most = (MOST_CUTS if exact.counts_errors else MOST_CUTS_OF_SUMS) * np.count_nonzero(cuts)
    if not 1 <= cuts.sum() <= min(MOST_COLUMNS, MOST_BITS // n, most):
        return None
    columns = np.array([(j, r) for j, n_cuts in enumerate(cuts) for r in range(n_cuts)], np.int64)
    left = ranks[columns[:, 0]] <= columns[:, 1:]
    swapped = 2 * left.sum(axis=1) > n
    if exact.counts_errors:
        many = cuts.sum() ** 2 * (n / 128) * problem.n_outputs > MOST_PAIRS
    else:
        size = exact.kernel.rows.shape[1]
        adds = np.sum(np.square((left ^ swapped[:, None]).sum(axis=0, dtype=np.float64))) / 2.0 * (size / 4.0)
        many = adds > MOST_SUMS or adds * float(cuts.sum()) ** (problem.depth - 2) > DEEP_SUMS
        many = many or cuts.sum() ** 2 * size * 8.0 > MOST_BYTES
    if many:
        return None
    _bits, first = np.unique(np.packbits(left ^ left[:, :1], axis=1), axis=0, return_index=True)
    first = np.sort(first)
    return Cuts(columns[first], left[first].T, swapped[first])


def _classes(exact: ExactTreeProblem, width: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Bits of the rows of each class, and of those that every tree takes for another class, in ``width`` words."""
    problem = exact.problem
    if not exact.counts_errors:
        return np.zeros((0, width), np.uint64), np.zeros(width, np.uint64)
    label = problem.Y[:, 0].astype(np.intp)
    first, group = equal_rows(exact.ranks)
    counts = np.zeros((first.size, problem.n_outputs), np.int64)
    np.add.at(counts, (group, label), 1)
    lost = counts.argmax(axis=1)[group] != label
    flags = np.vstack([label == np.arange(problem.n_outputs)[:, None], lost])
    packed = np.packbits(np.pad(flags, ((0, 0), (0, 64 * width - label.size))), axis=1, bitorder="little")
    words = packed.view("<u8").astype(np.uint64)
    return words[:-1], words[-1]


class Columns:
    """The columns of a table, and what is known of sets of its rows."""

    def __init__(self, exact: ExactTreeProblem, cuts: Cuts, memory: float, counts: Any) -> None:
        problem, kernel = exact.problem, exact.kernel
        ones = (cuts.left ^ cuts.swapped).T
        n_columns, n = ones.shape
        depth = problem.depth
        words = np.zeros((n_columns, -(-n // 64) * 8), np.uint8)
        packed = np.packbits(ones, axis=1, bitorder="little")
        words[:, : packed.shape[1]] = packed
        first = np.concatenate([[0], np.cumsum(ones.sum(axis=0))]).astype(np.int64)
        label = problem.Y[:, 0].astype(np.int32) if exact.counts_errors else np.zeros(0, np.int32)
        n_sums = 0 if exact.counts_errors else kernel.rows.shape[1]
        self.columns, self.swapped, self.depth, self.counts = cuts.columns, cuts.swapped, depth, counts
        self.table = kernels.Table(
            label,
            first,
            np.nonzero(ones.T)[1].astype(np.int32),
            words.view("<u8").astype(np.uint64),
            kernel.price,
            kernel.min_leaf,
            kernel.slack,
            exact.counts_errors,
            kernel.rows,
            kernel.most,
            kernel.leaf,
            *_classes(exact, words.shape[1] // 8),
        )
        self.levels = kernels.make_levels(n, n_columns, problem.n_outputs if exact.counts_errors else 1, depth, n_sums)
        self.known = kernels.make_known(n, n_columns, depth, memory)
        self.levels.rows[0], self.levels.size[0] = np.arange(n), n
        self.levels.key[0] = np.uint64(2**64 - 1)
        if n % 64:
            self.levels.key[0, -1] = np.uint64(2 ** (n % 64) - 1)
        kernels.enter(0, self.levels, self.table)
        n_active = kernels.ranked_columns(0, self.levels, self.table)
        self.todo = self.levels.order[0, :n_active].tolist()

    def whole(self) -> tuple[float, NDArray[np.int64]]:
        """Cost and splits of the best tree of two levels."""
        cost = kernels.two_levels(0, self.levels, self.table)
        return cost, self.splits(self.levels.splits[0])

    def below(self, column: int, aim: float) -> tuple[float, NDArray[np.int64] | None]:
        """The cost of the best tree whose root splits by a column, and its splits; or a bound, at or above ``aim``."""
        levels, table, known, depth = self.levels, self.table, self.known, self.depth - 1
        cap, sides = aim - table.price, np.empty((2, levels.key.shape[1]), np.uint64)
        sizes = [kernels.side_key(levels.key[0], column, way, table.every, sides[way]) for way in range(2)]
        bounds = [kernels.bound_of(side, depth, known, table) for side in sides]
        subtrees: list[Any] = [None, None]
        for way in sorted(range(2), key=lambda way: -sizes[way]):
            if sum(bounds) >= cap:
                break
            kernels.fill_side(0, column, way, levels, table)
            bounds[way], _exact = kernels.solve_rows(1, depth, cap - bounds[1 - way], levels, table, known, self.counts)
            subtrees[way] = levels.splits[1].copy()
        if sum(bounds) >= cap:
            return sum(bounds) + table.price, None
        kernels.graft(levels.splits[0], column, *subtrees, self.depth)
        return sum(bounds) + table.price, self.splits(levels.splits[0])

    def splits(self, found: NDArray[np.int32]) -> NDArray[np.int64]:
        """Splits in heap order by feature and rank, -1 for none."""
        splits = np.full((max(found.size, 3), 2), -1, np.int64)
        pending = [(0, 0)]
        for at, to in pending:
            if at < found.size and found[at] >= 0:
                splits[to] = self.columns[found[at]]
                swapped = int(self.swapped[found[at]])
                pending += [(2 * at + 1 + way, 2 * to + 1 + (way ^ swapped)) for way in range(2)]
        return splits
