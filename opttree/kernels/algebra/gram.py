"""Weighted Gram matrices of scattered rows: the one O(m p^2) kernel behind node and leaf fits.

Rows are gathered, transposed, into a block of ``BLOCK`` columns that stays in L1/L2 cache; the products then run over
contiguous memory in 4 x 4 tiles of accumulators, which the compiler keeps in vector registers:

            BLOCK rows ->                       k..k+3
    x_0   | . . . . . . |              j    | # # # # |   each # a vector accumulator
    ...   | . . . . . . |    tiles:    ..   | # # # # |   (only tiles on or below
    x_p-1 | . . . . . . |              j+3  | # # # # |    the diagonal are formed)
    1     | 1 1 1 1 1 1 |  the intercept is one more row
"""

import numpy as np

from opttree.runtime.compiling.compiled import inner, kernel

FASTMATH = {"reassoc", "contract", "arcp", "nsz"}
BLOCK = 128
FEW = 16  # fewer rows are added one by one


@kernel()
def padded(p):
    """Rows of a block for ``p`` features and the intercept, rounded up to whole tiles."""
    return (p + 4) // 4 * 4


@inner()
def gather_block(X, rows, start, B):
    """Transpose rows ``rows[start:start + BLOCK]`` of ``X`` into ``B (q, BLOCK)``; returns their number."""
    p = X.shape[1]
    width = min(BLOCK, rows.size - start)
    whole = width - width % 4
    for r in range(0, whole, 4):
        i = start + r
        x0, x1, x2, x3 = X[rows[i]], X[rows[i + 1]], X[rows[i + 2]], X[rows[i + 3]]
        for k in range(p):
            b = B[k]
            b[r] = x0[k]
            b[r + 1] = x1[k]
            b[r + 2] = x2[k]
            b[r + 3] = x3[k]
    for r in range(whole, width):
        x = X[rows[start + r]]
        for k in range(p):
            B[k, r] = x[k]
    B[p] = 1.0
    B[: p + 1, width:] = 0.0
    return width


@inner(fastmath=FASTMATH)
def add_block_gram(B, C, G, width=BLOCK):
    """Add ``C B'`` over the first ``width`` columns to the lower triangle of ``G (q, q)``, tile by tile."""
    zero = B.dtype.type(0.0)
    for j in range(0, G.shape[0], 4):
        c0, c1, c2, c3 = C[j], C[j + 1], C[j + 2], C[j + 3]
        for k in range(0, j + 4, 4):
            b0, b1, b2, b3 = B[k], B[k + 1], B[k + 2], B[k + 3]
            s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = zero
            s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = zero
            for r in range(width):
                s00 += c0[r] * b0[r]
                s01 += c0[r] * b1[r]
                s02 += c0[r] * b2[r]
                s03 += c0[r] * b3[r]
                s10 += c1[r] * b0[r]
                s11 += c1[r] * b1[r]
                s12 += c1[r] * b2[r]
                s13 += c1[r] * b3[r]
                s20 += c2[r] * b0[r]
                s21 += c2[r] * b1[r]
                s22 += c2[r] * b2[r]
                s23 += c2[r] * b3[r]
                s30 += c3[r] * b0[r]
                s31 += c3[r] * b1[r]
                s32 += c3[r] * b2[r]
                s33 += c3[r] * b3[r]
            G[j, k] += s00
            G[j, k + 1] += s01
            G[j, k + 2] += s02
            G[j, k + 3] += s03
            G[j + 1, k] += s10
            G[j + 1, k + 1] += s11
            G[j + 1, k + 2] += s12
            G[j + 1, k + 3] += s13
            G[j + 2, k] += s20
            G[j + 2, k + 1] += s21
            G[j + 2, k + 2] += s22
            G[j + 2, k + 3] += s23
            G[j + 3, k] += s30
            G[j + 3, k + 1] += s31
            G[j + 3, k + 2] += s32
            G[j + 3, k + 3] += s33


@kernel()
def mirror_lower(G):
    """Copy the lower triangle of the square matrix ``G`` onto the upper one."""
    for j in range(G.shape[0]):
        for k in range(j):
            G[k, j] = G[j, k]


@kernel(fastmath=FASTMATH)
def add_weighted_gram(X, rows, h, G):
    """Add ``sum_i h_i (x_i, 1)(x_i, 1)'`` to the lower triangle of ``G (q, q)``, ``q = padded(p)``.

    ``rows (m,)`` index ``X``; ``h (m,)`` is aligned with ``rows``.
    """
    p = X.shape[1]
    if rows.size < FEW:
        for r in range(rows.size):
            x = X[rows[r]]
            for j in range(p + 1):
                own, scaled = G[j], h[r] * (x[j] if j < p else 1.0)
                for k in range(min(j + 1, p)):
                    own[k] += scaled * x[k]
            G[p, p] += h[r]
        return
    B = np.zeros((G.shape[0], BLOCK))
    C = np.zeros((G.shape[0], BLOCK))
    for start in range(0, rows.size, BLOCK):
        width = gather_block(X, rows, start, B)
        for j in range(p + 1):
            b, c = B[j], C[j]
            for r in range(width):
                c[r] = b[r] * h[start + r]
            for r in range(width, BLOCK):
                c[r] = 0.0
        add_block_gram(B, C, G)
