"""The search of tables of few values: every cut is a column of bits, see `opttree.kernels.exact.pairs`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.exact import pairs as kernels
from opttree.problems import ExactTreeProblem

MOST_COLUMNS, MOST_BITS = 400, 20_000_000  # cuts of a table of few values, and these times its rows, at most
MOST_PAIRS = 1e9  # words of pairs that are counted without a look at the clock, at most


def columns_of(exact: ExactTreeProblem) -> NDArray[np.int64] | None:
    """(B, 2) feature and last rank on the left of all cuts of a table, those left out that divide the rows as others
    do; None unless the table is one of few values whose tree may have all splits that its depth allows.
    """
    problem, ranks = exact.problem, exact.ranks
    cuts = ranks.max(axis=1)
    most = min(MOST_COLUMNS, MOST_BITS // problem.n_samples)
    pairs = cuts.sum() ** 2 * (problem.n_samples / 128) * problem.n_outputs  # words that two levels look at
    if exact.allowed is not None or exact.splits_root or not exact.by_words or exact.n_splits < 2**problem.depth - 1 or not 1 <= cuts.sum() <= most or pairs > MOST_PAIRS:
        return None
    columns = np.array([(j, r) for j, n_cuts in enumerate(cuts) for r in range(n_cuts)], np.int64)
    left = ranks[columns[:, 0]] <= columns[:, 1:]
    _bits, first = np.unique(np.packbits(left ^ left[:, :1], axis=1), axis=0, return_index=True)
    return columns[np.sort(first)]


class Columns:
    """The columns of a table, and what is known of sets of its rows."""

    def __init__(self, exact: ExactTreeProblem, columns: NDArray[np.int64], memory: float, counts: Any) -> None:
        problem, kernel = exact.problem, exact.kernel
        n, depth = problem.n_samples, problem.depth
        left = exact.ranks[columns[:, 0]] <= columns[:, 1:]
        words = np.zeros((len(columns), -(-n // 64) * 8), np.uint8)
        packed = np.packbits(left, axis=1, bitorder="little")
        words[:, : packed.shape[1]] = packed
        first = np.concatenate([[0], np.cumsum(left.sum(axis=0))]).astype(np.int64)
        label, own = problem.Y[:, 0].astype(np.int32), np.nonzero(left.T)[1].astype(np.int32)
        self.columns, self.depth, self.counts = columns, depth, counts
        self.table = kernels.Table(
            label, first, own, words.view("<u8").astype(np.uint64), kernel.price, kernel.min_leaf, kernel.slack
        )
        self.levels = kernels.make_levels(n, len(columns), problem.n_outputs, depth)
        self.known = kernels.make_known(n, len(columns), depth, memory)
        self.levels.rows[0], self.levels.size[0] = np.arange(n), n
        np.bitwise_or(words.view("<u8")[0], ~words.view("<u8")[0], out=self.levels.key[0])
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
        bounds = [kernels.bound_of(side, depth, known, table.min_leaf == 1) for side in sides]
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
        splits[: found.size][found >= 0] = self.columns[found[found >= 0]]
        return splits
