"""Packing of rows into blocks, the input format of the smooth kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.smooth import vectors, walk as smooth
from opttree.statement.problem import TreeProblem

Floats = NDArray[np.floating]


def packed(problem: TreeProblem, dtype: str) -> Any:
    """All rows of a statement in blocks, packed once: problems derived from one statement share them."""
    known = problem.__dict__.setdefault("_packed", {})
    if dtype not in known:
        known[dtype] = pack_rows(problem, [np.arange(problem.n_samples)], dtype)[0]
    return known[dtype]


def pack_rows(problem: TreeProblem, groups: Sequence[NDArray[np.integer]], dtype: str) -> tuple[Any, NDArray[np.int64]]:
    """Rows in blocks, a new block for each group of row numbers, and the groups' block ranges (groups, 2)."""
    n_blocks = [-(-rows.size // vectors.BLOCK) for rows in groups]
    ends = np.cumsum(n_blocks)
    places = np.concatenate(
        [
            (end - count) * vectors.BLOCK + np.arange(rows.size)
            for rows, count, end in zip(groups, n_blocks, ends, strict=True)
        ]
    )
    rows = np.concatenate(groups)
    weight = problem.w[rows] * problem.n_samples
    data = in_blocks(problem.X[rows], problem.Y[rows], weight, places, int(ends[-1]), dtype)
    return data, np.stack([ends - n_blocks, ends], axis=1)


def in_blocks(X: Floats, Y: Floats, w: Floats, places: NDArray[np.integer], n_blocks: int, dtype: str) -> Any:
    """Rows ``X (m, p)``, ``Y (m, K)``, ``w (m,)`` in the kernels' format, at ``places (m,)`` of ``n_blocks`` blocks."""

    def blocks(table: Floats, width: int) -> Floats:
        spread = np.zeros((n_blocks * vectors.BLOCK, width), dtype)
        spread[places, : table.shape[1]] = table
        return np.ascontiguousarray(spread.reshape(n_blocks, vectors.BLOCK, width).transpose(0, 2, 1))

    q = -(-X.shape[1] // 4) * 4
    return smooth.Data(
        blocks(X, q).reshape(n_blocks, q // 4, 4 * vectors.BLOCK),
        blocks(Y, Y.shape[1]),
        blocks(w[:, None], 1).reshape(n_blocks, vectors.BLOCK),
    )


def empty_blocks(m: int, p: int, width: int, dtype: str) -> Any:
    """Uninitialised blocks for ``m`` rows of ``p`` features and ``width`` outputs, in the kernels' format."""
    n_blocks, q = -(-m // vectors.BLOCK), -(-p // 4) * 4
    shapes = (n_blocks, q // 4, 4 * vectors.BLOCK), (n_blocks, width, vectors.BLOCK), (n_blocks, vectors.BLOCK)
    return smooth.Data(*(np.empty(shape, dtype) for shape in shapes))
