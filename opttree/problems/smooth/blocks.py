"""Packing of rows into blocks, the input format of the smooth kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opttree.kernels.smooth import vectors, walk as smooth
from opttree.kernels.smooth.packing import pack
from opttree.statement.problem import TreeProblem

Floats = NDArray[np.floating]


def packed(problem: TreeProblem, dtype: str) -> Any:
    """All rows of a statement in blocks, packed once: problems derived from one statement share them."""
    known = problem.__dict__.setdefault("_packed", {})
    if dtype not in known:
        known[dtype] = pack_rows(problem, [np.arange(problem.n_samples)], dtype)[0]
    return known[dtype]


def pack_rows(
    problem: TreeProblem, groups: Sequence[NDArray[np.integer]], dtype: str, X: Any = None
) -> tuple[Any, NDArray[np.int64]]:
    """Rows in blocks, a new block for each group of row numbers, and the groups' block ranges (groups, 2); ``X``
    stands for the problem's features.
    """
    X = problem.X if X is None else X
    starts = np.cumsum([0, *(rows.size for rows in groups)])
    n_blocks = -(-np.diff(starts) // vectors.BLOCK)
    ends = np.cumsum(n_blocks)
    q = -(-X.shape[1] // 4)
    data = smooth.Data(
        np.zeros((ends[-1], q, 4 * vectors.BLOCK), dtype),
        np.zeros((ends[-1], problem.Y.shape[1], vectors.BLOCK), dtype),
        np.zeros((ends[-1], vectors.BLOCK), dtype),
    )
    weight = problem.w * problem.n_samples
    pack(X, problem.Y, weight, np.concatenate(groups), starts, ends - n_blocks, data)
    return data, np.stack([ends - n_blocks, ends], axis=1)


def empty_blocks(m: int, p: int, width: int, dtype: str) -> Any:
    """Uninitialised blocks for ``m`` rows of ``p`` features and ``width`` outputs, in the kernels' format."""
    n_blocks, q = -(-m // vectors.BLOCK), -(-p // 4) * 4
    shapes = (n_blocks, q // 4, 4 * vectors.BLOCK), (n_blocks, width, vectors.BLOCK), (n_blocks, vectors.BLOCK)
    return smooth.Data(*(np.empty(shape, dtype) for shape in shapes))
