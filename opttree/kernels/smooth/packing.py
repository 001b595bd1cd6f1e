"""Rows in blocks, the input format of the smooth kernels."""

import numpy as np

from opttree.kernels.smooth.vectors import BLOCK
from opttree.runtime.compiling.compiled import kernel

ROWS = 16  # copied side by side: the numbers of one feature fill a line of the cache


@kernel()
def pack(X, Y, w, rows, starts, blocks, data):
    """Write rows of ``X (n, p)``, ``Y (n, K)`` and ``w (n,)`` to the blocks ``data``, see
    `opttree.kernels.smooth.walk.Data`: group g, ``rows[starts[g] : starts[g + 1]]``, from block ``blocks[g]`` on.
    """
    p = X.shape[1]
    some = np.empty((ROWS, p), data.X.dtype)
    for g in range(blocks.size):
        for first in range(starts[g], starts[g + 1], ROWS):
            block, at = blocks[g] + (first - starts[g]) // BLOCK, (first - starts[g]) % BLOCK
            m = min(ROWS, starts[g + 1] - first)
            for r in range(m):
                row = rows[first + r]
                x = X[row]
                for j in range(p):
                    some[r, j] = x[j]
                for k in range(Y.shape[1]):
                    data.Y[block, k, at + r] = Y[row, k]
                data.w[block, at + r] = w[row]
            for j in range(p):
                line, start = data.X[block, j // 4], j % 4 * BLOCK + at
                for r in range(m):
                    line[start + r] = some[r, j]
